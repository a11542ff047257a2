//! Every keyword of keepalived.conf(5): it changes the configuration, or is said, or is so here anyway.
//!
//! The keywords are those of the manual of keepalived 2.2 and 2.3, block by block. One that is neither carried over nor said
//! must stand in [`SAME`] with the reason.

use super::{imported, written};

/// Lines of `global_defs`.
const GLOBAL: &str = "tmp_config_directory /tmp\nconfig_save_dir /tmp\nprocess_names\nprocess_name x\nvrrp_process_name x
checker_process_name x\nbfd_process_name x\nstartup_script /x\nstartup_script_timeout 5\nshutdown_script /x
shutdown_script_timeout 5\nnotification_email { a@example.com }\nnotification_email_from a@example.com\nsmtp_server 127.0.0.1
smtp_helo_name x\nsmtp_connect_timeout 30\nsmtp_alert on\nsmtp_alert_vrrp on\nsmtp_alert_checker on
checker_log_all_failures on\nno_email_faults\nrouter_id x\nvrrp_mcast_group4 224.0.0.18\nvrrp_mcast_group6 ff02::12
lvs_sync_daemon eth0\nlvs_timeouts tcp 5\nlvs_flush\nlvs_flush_on_stop
vrrp_garp_master_delay 9\nvrrp_garp_master_repeat 1\nvrrp_garp_lower_prio_delay 10\nvrrp_down_timer_adverts 5
vrrp_garp_lower_prio_repeat 1\nvrrp_garp_master_refresh 60\nvrrp_garp_master_refresh_repeat 2\nvrrp_garp_interval 0.001
vrrp_gna_interval 0.000001\nvrrp_min_garp\nvrrp_garp_extra_if 100\nvrrp_lower_prio_no_advert on
vrrp_higher_prio_send_advert on\nvrrp_version 3\nnftables x\nnftables_priority 1\nnftables_counters\nnftables_ifindex
nftables_ipvs x\nnftables_ipvs_priority 1\nnftables_ipvs_start_fwmark 1\nvrrp_iptables a b\nvrrp_ipsets\ndisable_local_igmp
vrrp_check_unicast_src\nvrrp_skip_check_adv_addr\nvrrp_strict\nvrrp_notify_priority_changes on\nmax_auto_priority 9
min_auto_priority_delay 9\nvrrp_priority 1\nchecker_priority 1\nbfd_priority 1\nvrrp_no_swap\nchecker_no_swap\nbfd_no_swap
vrrp_cpu_affinity 0\nchecker_cpu_affinity 0\nbfd_cpu_affinity 0\nvrrp_rt_priority 1\nchecker_rt_priority 1\nbfd_rt_priority 1
vrrp_rlimit_rttime 9\nchecker_rlimit_rttime 9\nbfd_rlimit_rttime 9\nsnmp_socket udp:1.2.3.4:705\nenable_snmp_vrrp
enable_snmp_checker\nenable_snmp_rfc\nenable_snmp_rfcv2\nenable_snmp_rfcv3\nenable_traps\nenable_dbus\ndbus_service_name x
script_user x\nenable_script_security\nnotify_fifo /x\nnotify_fifo_script /x\nvrrp_notify_fifo /x\nvrrp_notify_fifo_script /x
lvs_notify_fifo /x\nlvs_notify_fifo_script /x\nfifo_write_vrrp_states_on_reload\ndynamic_interfaces
vrrp_netlink_cmd_rcv_bufs 9\nvrrp_netlink_cmd_rcv_bufs_force on\nvrrp_netlink_monitor_rcv_bufs 9
vrrp_netlink_monitor_rcv_bufs_force on\nlvs_netlink_cmd_rcv_bufs 9\nlvs_netlink_cmd_rcv_bufs_force on
lvs_netlink_monitor_rcv_bufs 9\nlvs_netlink_monitor_rcv_bufs_force on\nprocess_monitor_rcv_bufs 9
process_monitor_rcv_bufs_force on\nvrrp_rx_bufs_policy MTU\nvrrp_rx_bufs_multiplier 9\nrs_init_notifies\nno_checker_emails
umask 022\nvrrp_startup_delay 5.5\nlog_unknown_vrids\nvmac_prefix x\nvmac_addr_prefix x\nrandom_seed 9\nreload_check_config
include_check x\nreload_time_file /x\nreload_repeat\nreload_file /x\ndata_use_instance on";

/// Outside of any block.
const TOP: &str = "net_namespace x\nnet_namespace_ipvs x\nnamespace_with_ipsets\ninstance x\nuse_pid_dir\nlinkbeat_use_polling
child_wait_time 9\nlinkbeat_interfaces { eth2 }\ntrack_group x { group { V } }\nstatic_ipaddress { 192.0.2.7/24 dev eth0 }
static_routes { 192.0.2.0/24 via 192.0.2.7 }\nstatic_rules { from 192.0.2.0/24 table 1 }\ntrack_file x { file /x }
vrrp_track_file x { file /x }\nvrrp_track_process x { process haproxy }\ntrack_process x { process haproxy }
bfd_instance x { neighbor_ip 192.0.2.7 }\ngarp_group { interface eth0 }\ninterface_up_down_delays { eth0 1 }
virtual_server_group x { 192.0.2.7 80 }\nSSL { ca x }";

const SCRIPT: &str = "weight 5 reverse\nuser nobody\ninit_fail\ninterval 7\ntimeout 7\nrise 7\nfall 7\nweight -7\nwhat";

const GROUP: &str = "track_interface { eth1 }\ntrack_script { s }\ntrack_file { x }\ntrack_process { x }\ntrack_bfd { x }
notify_master /x\nnotify_backup /x\nnotify_fault /x\nnotify_stop /x\nnotify_deleted\nnotify /x\nnotify_priority_changes on
smtp_alert on\nglobal_tracking\nsync_group_tracking_weight";

const INSTANCE: &str = "state MASTER\ninterface eth7\nvrf x\nuse_vmac\nuse_vmac_addr\nvmac_xmit_base\nuse_ipvlan\nnative_ipv6
dont_track_primary\ntrack_interface { eth1 }\ntrack_script { s }\ntrack_script { s weight 5 }\ntrack_script { s weight -5 reverse }
track_file { x }\ntrack_process { x }\ntrack_bfd { x }\nmcast_src_ip 192.0.2.7\nunicast_src_ip 192.0.2.7
mcast_dst_ip 224.0.0.19\ntrack_src_ip\nversion 3\ncheck_unicast_src\nunicast_peer { 192.0.2.8 }
unicast_peer { 192.0.2.8 min_ttl 7 }\nunicast_fault_no_peer\nunicast_ttl 7\nold_unicast_checksum\ngarp_master_delay 9
garp_master_repeat 9\ngarp_lower_prio_delay 9\ngarp_lower_prio_repeat 9\ngarp_master_refresh 9\ngarp_master_refresh_repeat 9
garp_extra_if 9\ndown_timer_adverts 9\nlower_prio_no_advert\nhigher_prio_send_advert\nvirtual_router_id 9\npriority 9
advert_int 9\nauthentication { auth_pass x }\nauthentication { auth_type AH }\nvirtual_ipaddress { 192.0.2.9 }
virtual_ipaddress { 192.0.2.9 brd + }\nvirtual_ipaddress { 192.0.2.9 dev eth9 }\nvirtual_ipaddress { 192.0.2.9 label eth0:1 }
virtual_ipaddress { 192.0.2.9 scope link }\nvirtual_ipaddress { 192.0.2.9 peer 192.0.2.7 }\nvirtual_ipaddress { 192.0.2.9 no_track }
virtual_ipaddress_excluded { 2001:db8::9 }\npromote_secondaries\nvirtual_routes { 192.0.2.0/24 via 192.0.2.7 }
virtual_rules { from 192.0.2.0/24 table 1 }\naccept\nno_accept\nnopreempt\npreempt\npreempt_delay 9\nskip_check_adv_addr
strict_mode\ndebug 1\nnotify_master /x\nnotify_backup /x\nnotify_fault /x\nnotify_stop /x\nnotify_deleted /x\nnotify /x
notify_master_rx_lower_pri /x\nnotify_priority_changes on\nsmtp_alert on\nkernel_rx_buf_size 9\nlinkbeat_use_polling";

const SERVICE: &str = "lvs_sched wlc\nlvs_sched nq\nlb_algo lc\nflag-1\nflag-2\nflag-3\nsh-port\nsh-fallback\nmh-port\nmh-fallback\nops
lvs_method NAT\nlvs_method DR\nlvs_method TUN\nlb_kind TUN\npersistence_engine sip\npersistence_timeout 9
persistence_granularity 255.255.255.0\nprotocol UDP\nprotocol SCTP\nha_suspend\nsmtp_alert on\nvirtualhost x\nsnmp_name x\nalpha
omega\nquorum 9\nhysteresis 9\nquorum_up /x\nquorum_down /x\nip_family inet\nsorry_server 192.0.2.7 80\nsorry_server_inhibit
sorry_server_lvs_method NAT\nconnect_timeout 9\nretry 9\ndelay_before_retry 9\nwarmup 9\ndelay_loop 9\ninhibit_on_failure";

const SERVER: &str = "weight 9\nweight 300\nlvs_method NAT\nnotify_up /x\nnotify_down /x\nuthreshold 9\nlthreshold 9\nsmtp_alert on
virtualhost x\nsnmp_name x\nalpha on\nconnect_timeout 9\nretry 9\ndelay_before_retry 9\nwarmup 9\ndelay_loop 9\ninhibit_on_failure
MISC_CHECK { misc_path /x }\nSMTP_CHECK { }\nBFD_CHECK { name x }\nPING_CHECK { }\nUDP_CHECK { }\nFILE_CHECK { track_file x }
DNS_CHECK { }\nTCP_CHECK { }\nSSL_GET { }";

const CHECK: &str = "connect_ip 192.0.2.7\nconnect_port 7\nbindto 192.0.2.7\nbind_if eth0\nbind_port 7\nfwmark 7\nalpha on
connect_timeout 7\nretry 7\nnb_get_retry 7\ndelay_before_retry 7\nwarmup 7\ndelay_loop 7\nlog_all_failures on\nhttp_protocol 1.1
fast_recovery\nvirtualhost x\nurl { path /other }\nenable_sni";

const URL: &str = "path /x\ndigest x\nstatus_code 204\nstatus_code 200-299\nstatus_code 200 204\nvirtualhost x\nregex x\nregex_no_match
regex_options x\nregex_stack 1 2\nregex_min_offset 1\nregex_max_offset 1";

/// What is so here anyway, or changes nothing that is seen.
const SAME: &[(&str, &str)] = &[
    (
        "vrrp_skip_check_adv_addr",
        "addresses of advertisements are never compared twice",
    ),
    ("skip_check_adv_addr", "the same"),
    ("max_auto_priority 9", "no priority of a process is changed"),
    ("vrrp_no_swap", "said by the unit"),
    (
        "enable_script_security",
        "scripts that others can write are never run",
    ),
    ("dynamic_interfaces", "an interface may come later"),
    ("reload_check_config", "a reload is checked first"),
    ("state MASTER", "the election decides"),
    ("native_ipv6", "IPv6 has routers of its own"),
    ("track_src_ip", "a source that is gone cannot be sent from"),
    ("accept", "the addresses are served"),
    ("preempt", "the default"),
    ("lvs_method NAT", "the default"),
    ("ip_family inet", "the addresses tell"),
    (
        "warmup 9",
        "when the first probe goes out is healthd's affair",
    ),
    ("warmup 7", "the same"),
];

/// A base with `{}` for a line, and the lines.
fn blocks() -> Vec<(&'static str, String, &'static str)> {
    let instance = |within: &str| {
        format!(
            "vrrp_instance V {{\ninterface eth0\nvirtual_router_id 7\npriority 100\nvirtual_ipaddress {{ 192.0.2.1 }}\n{within}\n}}\n"
        )
    };
    let script = |within: &str| {
        format!("vrrp_script s {{\nscript \"</dev/tcp/127.0.0.1/80\"\n{within}\n}}\n")
    };
    let service = |service: &str, server: &str, check: &str, url: &str| {
        format!(
            "virtual_server 192.0.2.1 80 {{\n{service}\nreal_server 192.0.2.2 80 {{\n{server}\n\
             HTTP_GET {{\n{check}\nurl {{\n{url}\n}}\n}}\n}}\n}}\n"
        )
    };
    vec![
        (
            "global_defs",
            format!(
                "global_defs {{\n{{}}\n}}\n{}",
                instance("unicast_peer { 192.0.2.8 }")
            ),
            GLOBAL,
        ),
        ("", format!("{{}}\n{}", instance("")), TOP),
        (
            "vrrp_script",
            format!("{}{}", script("{}"), instance("track_script { s }")),
            SCRIPT,
        ),
        (
            "vrrp_sync_group",
            format!(
                "{}vrrp_sync_group G {{\ngroup {{ V }}\n{{}}\n}}\n{}",
                script(""),
                instance("")
            ),
            GROUP,
        ),
        (
            "vrrp_instance",
            format!("{}{}", script(""), instance("{}")),
            INSTANCE,
        ),
        ("virtual_server", service("{}", "", "", ""), SERVICE),
        ("real_server", service("", "{}", "", ""), SERVER),
        ("HTTP_GET", service("", "", "{}", ""), CHECK),
        ("url", service("", "", "", "{}"), URL),
    ]
}

/// The configuration, and the remarks.
fn outcome(text: &str) -> (toml::Table, Vec<String>) {
    let draft = imported(text, None);
    let notes = draft.notes.iter().map(ToString::to_string).collect();
    (written(&draft).parse().unwrap(), notes)
}

#[test]
fn no_keyword_of_the_manual_is_passed_over_in_silence() {
    let mut silent = Vec::new();
    let mut same = Vec::new();
    let mut n_keywords = 0;
    for (block, base, lines) in blocks() {
        let without = outcome(&base.replace("{}", ""));
        for line in lines.lines() {
            n_keywords += 1;
            if outcome(&base.replace("{}", line)) == without {
                match SAME.iter().any(|(same, _)| *same == line) {
                    true => same.push(line),
                    false => silent.push(format!("{block}: {line}")),
                }
            }
        }
    }
    for (line, reason) in SAME {
        assert!(same.contains(line), "{line} is not the same: {reason}");
    }
    assert!(n_keywords > 280, "{n_keywords}");
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
