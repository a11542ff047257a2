//! Every fuzz target, on its corpus and a bounded number of mutations.
//!
//! `FUZZ_SEED` and `FUZZ_STEPS` ask for others; a failure names the seed and the step.

use tests::fuzz::{
    BUNDLE, CHRONY_CONF, CHRONY_KEYS, CLIENT_HELLO, CMDMON, HANDOVER, HAPROXY_CFG, HEALTH,
    IMAGE_ARCHIVE, INSTALL_CONFIG, KEEPALIVED_CONF, NAMED_CONF, NTP_PACKET, NTP_REQUEST,
    PROXY_HEADER, PTP_MANAGEMENT, PTP_MESSAGE, QUERY, REFCLOCK, REGISTRY_ARCHIVE, REGISTRY_JOURNAL,
    REGISTRY_MANIFEST, REGISTRY_NAMES, REGISTRY_RANGE, REGISTRY_WIRE, RESPONSE, SETTINGS,
    SITE_FILE, Target, VRRP, ZONE,
};

fn smoke(target: Target, steps: usize) {
    let number = |key| std::env::var(key).ok().and_then(|text| text.parse().ok());
    let seed = number("FUZZ_SEED").unwrap_or(17);
    let steps = number("FUZZ_STEPS")
        .and_then(|steps| steps.try_into().ok())
        .unwrap_or(steps);
    target.smoke(seed, steps);
}

#[test]
fn no_message_upsets_a_dns_server() {
    smoke(QUERY, 40_000);
}

#[test]
fn no_master_file_upsets_the_parser_or_the_zone() {
    smoke(ZONE, 4_000);
}

#[test]
fn no_zone_list_upsets_its_parser() {
    smoke(NAMED_CONF, 20_000);
}

#[test]
fn no_message_upsets_healthd_or_its_subscribers() {
    smoke(HEALTH, 40_000);
}

#[test]
fn no_message_upsets_a_hand_over() {
    smoke(HANDOVER, 40_000);
}

#[test]
fn no_upstream_upsets_the_resolver() {
    smoke(RESPONSE, 40_000);
}

#[test]
fn no_settings_upset_their_parsers() {
    smoke(SETTINGS, 10_000);
}

#[test]
fn no_beginning_of_a_connection_upsets_the_proxy() {
    smoke(PROXY_HEADER, 4_000);
    smoke(CLIENT_HELLO, 2_000);
}

#[test]
fn no_peers_file_upsets_the_import() {
    smoke(HAPROXY_CFG, 2_000);
    smoke(KEEPALIVED_CONF, 4_000);
}

#[test]
fn no_advertisement_upsets_a_virtual_router() {
    smoke(VRRP, 40_000);
}

#[test]
fn no_archive_upsets_an_import() {
    smoke(REGISTRY_ARCHIVE, 6_000);
}

#[test]
fn no_archive_and_no_bundle_upsets_a_node() {
    smoke(IMAGE_ARCHIVE, 4_000);
    smoke(BUNDLE, 4_000);
}

#[test]
fn no_name_range_or_manifest_upsets_the_registry() {
    smoke(REGISTRY_NAMES, 40_000);
    smoke(REGISTRY_RANGE, 40_000);
    smoke(REGISTRY_MANIFEST, 10_000);
}

#[test]
fn no_journal_upsets_the_registry() {
    smoke(REGISTRY_JOURNAL, 20_000);
}

#[test]
fn no_packet_upsets_an_ntp_server() {
    smoke(NTP_PACKET, 40_000);
    smoke(NTP_REQUEST, 10_000);
}

#[test]
fn no_chrony_conf_and_no_key_file_upsets_its_parser() {
    smoke(CHRONY_CONF, 2_000);
    smoke(CHRONY_KEYS, 4_000);
}

#[test]
fn no_packet_upsets_chronycs_protocol() {
    smoke(CMDMON, 10_000);
}

#[test]
fn no_message_upsets_a_slave_of_ptp() {
    smoke(PTP_MESSAGE, 20_000);
}

#[test]
fn no_answer_upsets_the_client_of_ptp4l() {
    smoke(PTP_MANAGEMENT, 20_000);
}

#[test]
fn nothing_that_a_reference_clock_leaves_upsets_the_agent() {
    smoke(REFCLOCK, 20_000);
}

#[test]
fn no_node_upsets_another() {
    smoke(REGISTRY_WIRE, 20_000);
}

#[test]
fn no_file_upsets_who_describes_a_site() {
    smoke(SITE_FILE, 1_500);
    smoke(INSTALL_CONFIG, 1_000);
}
