//! Runs every fuzz target on its corpus and a bounded number of mutations.
//!
//! `FUZZ_SEED` and `FUZZ_STEPS` ask for others; a failure names the seed and the step.

use fuzz_bodies::smoke;

#[test]
fn no_message_upsets_a_dns_server() {
    smoke("query");
}

#[test]
fn no_message_passes_for_a_signed_one() {
    smoke("tsig");
}

#[test]
fn no_transfer_upsets_a_secondary() {
    smoke("incoming");
}

#[test]
fn no_message_upsets_the_updates_of_a_zone() {
    smoke("update");
}

#[test]
fn no_file_upsets_the_history_of_a_zone() {
    smoke("history");
}

#[test]
fn no_master_file_upsets_the_parser_or_the_zone() {
    smoke("zone");
}

#[test]
fn no_file_with_names_upsets_its_parser() {
    smoke("name_files");
}

#[test]
fn no_file_of_another_forwarder_upsets_its_parser() {
    smoke("forwarder_files");
}

#[test]
fn no_file_of_its_own_upsets_a_recursor() {
    smoke("recursor_state");
}

#[test]
fn no_zone_list_upsets_its_parser() {
    smoke("named_conf");
}

#[test]
fn no_message_upsets_healthd_or_its_subscribers() {
    smoke("health");
}

#[test]
fn no_answer_upsets_a_probe() {
    smoke("tcp_check");
}

#[test]
fn no_message_upsets_a_hand_over() {
    smoke("handover");
}

#[test]
fn no_upstream_upsets_the_resolver() {
    smoke("response");
}

#[test]
fn no_upstream_has_anything_but_the_truth_validated() {
    smoke("signed_response");
}

#[test]
fn no_settings_upset_their_parsers() {
    smoke("settings");
}

#[test]
fn no_beginning_of_a_connection_upsets_the_proxy() {
    smoke("proxy_header");
    smoke("client_hello");
}

#[test]
fn no_api_server_and_no_manifest_upsets_clusterd() {
    smoke("kubernetes");
}

#[test]
fn no_peers_file_upsets_the_import() {
    smoke("haproxy_cfg");
    smoke("keepalived_conf");
}

#[test]
fn no_runtime_command_upsets_the_proxy() {
    smoke("haproxy_cli");
}

#[test]
fn no_response_upsets_the_names_of_servers() {
    smoke("server_names");
}

#[test]
fn no_advertisement_upsets_a_virtual_router() {
    smoke("vrrp");
}

#[test]
fn no_archive_upsets_an_import() {
    smoke("registry_archive");
}

#[test]
fn no_archive_and_no_bundle_upsets_a_node() {
    smoke("image_archive");
    smoke("bundle");
}

#[test]
fn no_name_range_or_manifest_upsets_the_registry() {
    smoke("registry_names");
    smoke("registry_range");
    smoke("registry_manifest");
}

#[test]
fn no_journal_upsets_the_registry() {
    smoke("registry_journal");
}

#[test]
fn no_packet_upsets_an_ntp_server() {
    smoke("ntp_packet");
    smoke("ntp_request");
}

#[test]
fn no_chrony_conf_and_no_key_file_upsets_its_parser() {
    smoke("chrony_conf");
    smoke("chrony_keys");
}

#[test]
fn no_packet_upsets_chronycs_protocol() {
    smoke("cmdmon");
}

#[test]
fn no_message_upsets_a_slave_of_ptp() {
    smoke("ptp_message");
}

#[test]
fn no_answer_upsets_the_client_of_ptp4l() {
    smoke("ptp_management");
}

#[test]
fn nothing_that_a_reference_clock_leaves_upsets_the_agent() {
    smoke("refclock");
}

#[test]
fn no_node_upsets_another() {
    smoke("registry_wire");
}

#[test]
fn no_file_upsets_who_describes_a_site() {
    smoke("site_file");
    smoke("install_config");
}
