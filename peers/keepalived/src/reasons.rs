//! Why a keyword is not carried over, and the weight of that.

use config::Class;

/// The weight of a keyword that is lost, wherever it stands.
pub(super) fn class(keyword: &str) -> Class {
    match keyword {
        // They keep advertisements, packets or privileges out.
        "auth_hmac"
        | "authentication"
        | "nftables"
        | "no_accept"
        | "script_user"
        | "strict_mode"
        | "vrrp_check_unicast_src"
        | "vrrp_ipsets"
        | "vrrp_iptables"
        | "vrrp_nftables"
        | "vrrp_strict" => Class::Security,
        "dbus_service_name" | "debug" | "no_email_faults" | "router_id" | "snmp_socket" => {
            Class::Cosmetic
        }
        word if word.starts_with("enable_")
            || word.starts_with("notification_")
            || word.starts_with("smtp_") =>
        {
            Class::Cosmetic
        }
        _ => Class::Behaviour,
    }
}

/// The reason for a keyword in `global_defs`; none for one that is so here anyway.
pub(super) fn global(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        // Scripts are not run as root where others can write them, and queues never starve a timer.
        "enable_script_security"
        | "max_auto_priority"
        | "vrrp_no_swap"
        | "dynamic_interfaces"
        | "vrrp_skip_check_adv_addr"
        | "reload_check_config" => return None,
        "vrrp_startup_delay" => {
            "a router that starts listens for the others for three intervals, and no longer"
        }
        "script_user" => "scripts run as the service does",
        "notification_email"
        | "notification_email_from"
        | "smtp_server"
        | "smtp_helo_name"
        | "smtp_connect_timeout"
        | "smtp_alert"
        | "smtp_alert_vrrp"
        | "smtp_alert_checker"
        | "no_email_faults" => "notifications are for what watches the metrics",
        "router_id" => "routers differ by their addresses",
        "vrrp_garp_lower_prio_delay" | "vrrp_garp_lower_prio_repeat" => {
            "a lower priority is answered as a takeover is announced"
        }
        "vrrp_garp_master_refresh_repeat" => "one is sent at a time",
        "vrrp_garp_interval" | "vrrp_gna_interval" => "announcements are not spaced",
        "vrrp_lower_prio_no_advert" | "vrrp_higher_prio_send_advert" => {
            "a lower priority is always answered, which is what repairs a split"
        }
        "vrrp_mcast_group4" | "vrrp_mcast_group6" => "the group is that of RFC 9568",
        "vrrp_strict" => "say `checksum = \"rfc\"` where all routers have it",
        "vrrp_iptables" | "vrrp_ipsets" | "vrrp_nftables" | "nftables" => {
            "addresses are accepted; the firewall is the machine's own"
        }
        "notify_fifo"
        | "notify_fifo_script"
        | "vrrp_notify_fifo"
        | "vrrp_notify_fifo_script"
        | "lvs_notify_fifo"
        | "lvs_notify_fifo_script" => "see `notify`, and the log",
        "snmp_socket"
        | "enable_snmp_keepalived"
        | "enable_snmp_vrrp"
        | "enable_snmp_checker"
        | "enable_snmp_rfc"
        | "enable_snmp_rfcv2"
        | "enable_snmp_rfcv3"
        | "enable_traps"
        | "enable_dbus"
        | "dbus_service_name" => "the admin listener has /status and /metrics",
        "lvs_sync_daemon" | "lvs_flush" | "lvs_flush_onstop" => "there is no LVS",
        word if word.contains("priority")
            || word.contains("rlimit")
            || word.contains("no_swap") =>
        {
            "it is the unit's affair"
        }
        _ => "unknown here",
    })
}

/// The reason for a block or keyword outside of any block.
pub(super) fn top(keyword: &str) -> &'static str {
    match keyword {
        "virtual_server_group" => "write a [[frontend]] with all the addresses of the group",
        "real_server" => "it belongs into a virtual_server",
        "SSL" => "certificates of checks are healthd's",
        "static_ipaddress" | "static_routes" | "static_rules" | "static_track_group" => {
            "addresses and routes that do not move are the machine's own"
        }
        "vrrp_track_file" | "vrrp_track_process" | "track_file" | "track_process" => {
            "see `track` and `weigh`: probes decide"
        }
        "bfd_instance" => "there is no BFD; see `interval`, which may be below a second",
        "garp_group" => "announcements are not spaced",
        "net_namespace"
        | "net_namespace_ipvs"
        | "namespace_with_ipsets"
        | "instance"
        | "use_pid_dir"
        | "child_wait_time"
        | "linkbeat_use_polling"
        | "linkbeat_interfaces" => "it is the unit's or the container's affair",
        _ => "unknown here",
    }
}

/// The reason for a keyword in `vrrp_instance`; none for one that is so here anyway.
pub(super) fn instance(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        // The election decides; IPv6 follows from the addresses; ours answers for its addresses.
        "accept" | "native_ipv6" | "preempt" | "skip_check_adv_addr" | "track_src_ip" => {
            return None;
        }
        "no_accept" => "connections to the addresses are accepted: that is what they are for",
        "use_vmac" | "use_vmac_addr" | "vmac_xmit_base" | "use_ipvlan" => {
            "addresses have the interface's own MAC address, and moves are announced"
        }
        "dont_track_primary" => "without its link a router cannot advertise",
        "track_interface" => "the interface of the addresses is always tracked, and no other",
        "track_file" | "track_process" | "track_bfd" => "see `track` and `weigh`: probes decide",
        "virtual_routes" | "virtual_rules" => "routes and rules do not move",
        "promote_secondaries" => "set net.ipv4.conf.*.promote_secondaries on the machine",
        "garp_lower_prio_delay" | "garp_lower_prio_repeat" => {
            "a lower priority is answered as a takeover is announced"
        }
        "garp_master_refresh_repeat" => "one is sent at a time",
        "lower_prio_no_advert" | "higher_prio_send_advert" => {
            "a lower priority is always answered, which is what repairs a split"
        }
        "strict_mode" => "say `checksum = \"rfc\"` where all routers have it",
        "old_unicast_checksum" => "it is for versions of keepalived before 1.4",
        "notify_master"
        | "notify_backup"
        | "notify_fault"
        | "notify_stop"
        | "notify_deleted"
        | "notify_master_rx_lower_pri" => "`notify` hears every change, and its kind",
        "notify_priority_changes" => "priorities are in /status and /metrics",
        "smtp_alert" => "notifications are for what watches the metrics",
        "debug" | "lvs_sync_daemon_interface" => "see the log",
        "auth_hmac" => "advertisements are not signed",
        _ => "unknown here",
    })
}
