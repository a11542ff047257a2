//! The settings of recursor.yml, from 5.0 to 5.5, and the names that they have in a recursor.conf.

/// A setting of recursor.yml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The section.
    pub(crate) section: &'static str,
    /// Its name in the section.
    pub(crate) name: &'static str,
    /// Its name in a recursor.conf, if it is not that of recursor.yml with other dashes.
    other: Option<&'static str>,
    /// Whether a recursor.conf has it.
    is_old: bool,
}

impl Known {
    /// The name in a recursor.conf; none if it has no such setting.
    pub(crate) fn old_name(&self) -> Option<String> {
        let name = || {
            self.other
                .map_or_else(|| self.name.replace('_', "-"), str::to_owned)
        };
        self.is_old.then(name)
    }

    /// The name with its section.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// Every setting.
pub(crate) fn all() -> impl Iterator<Item = Known> {
    SECTIONS.iter().flat_map(|section| {
        let same = section.same.iter().map(|name| (*name, None, true));
        let others = section
            .others
            .iter()
            .map(|(name, old)| (*name, Some(*old), true));
        let new = section.new.iter().map(|name| (*name, None, false));
        same.chain(others)
            .chain(new)
            .map(|(name, other, is_old)| Known {
                section: section.name,
                name,
                other,
                is_old,
            })
    })
}

/// The setting of a section with a name.
pub(crate) fn find(section: &str, name: &str) -> Option<Known> {
    all().find(|known| known.section == section && known.name == name)
}

/// Whether there is such a section.
pub(crate) fn has_section(name: &str) -> bool {
    SECTIONS.iter().any(|section| section.name == name)
}

/// The settings of a section.
struct Section {
    name: &'static str,
    /// Those whose name in a recursor.conf differs by its dashes alone.
    same: &'static [&'static str],
    /// Those with another name there.
    others: &'static [(&'static str, &'static str)],
    /// Those that only recursor.yml has.
    new: &'static [&'static str],
}

const SECTIONS: &[Section] = &[
    Section {
        name: "dnssec",
        same: &[
            "aggressive_cache_max_nsec3_hash_cost",
            "aggressive_cache_min_nsec3_hit_ratio",
            "aggressive_nsec_cache_size",
            "max_dnskeys",
            "max_ds_per_zone",
            "max_nsec3_hash_computations_per_query",
            "max_nsec3s_per_record",
            "max_rrsigs_per_record",
            "max_signature_validations_per_query",
            "nsec3_max_iterations",
            "nta_extended_error",
            "signature_inception_skew",
            "x_dnssec_names",
        ],
        others: &[
            ("disabled_algorithms", "dnssec-disabled-algorithms"),
            ("log_bogus", "dnssec-log-bogus"),
            ("validation", "dnssec"),
        ],
        new: &[
            "negative_trustanchors",
            "trustanchorfile",
            "trustanchorfile_interval",
            "trustanchors",
        ],
    },
    Section {
        name: "incoming",
        same: &[
            "allow_from",
            "allow_from_file",
            "allow_no_rd",
            "allow_notify_for",
            "allow_notify_for_file",
            "allow_notify_from",
            "allow_notify_from_file",
            "distribution_load_factor",
            "distribution_pipe_buffer_size",
            "distributor_threads",
            "edns_padding_from",
            "edns_padding_mode",
            "edns_padding_tag",
            "gettag_needs_edns_options",
            "max_concurrent_requests_per_tcp_connection",
            "max_tcp_clients",
            "max_tcp_per_client",
            "max_tcp_queries_per_connection",
            "max_udp_queries_per_round",
            "non_local_bind",
            "pdns_distributes_queries",
            "proxy_protocol_exceptions",
            "proxy_protocol_from",
            "proxy_protocol_maximum_size",
            "reuseport",
            "tcp_fast_open",
            "udp_truncation_threshold",
            "use_incoming_edns_subnet",
        ],
        others: &[
            ("listen", "local-address"),
            ("port", "local-port"),
            ("tcp_timeout", "client-tcp-timeout"),
        ],
        new: &["proxymappings"],
    },
    Section {
        name: "recursor",
        same: &[
            "allow_trust_anchor_query",
            "any_to_tcp",
            "auth_zones",
            "chroot",
            "config_dir",
            "config_name",
            "cpu_map",
            "daemon",
            "devonly_regression_test_mode",
            "dns64_prefix",
            "etc_hosts_file",
            "event_trace_enabled",
            "export_etc_hosts",
            "export_etc_hosts_search_suffix",
            "extended_resolution_errors",
            "forward_zones",
            "forward_zones_file",
            "forward_zones_recurse",
            "hint_file",
            "ignore_unknown_settings",
            "include_dir",
            "latency_statistic_size",
            "lua_config_file",
            "lua_dns_script",
            "lua_global_include_dir",
            "lua_maintenance_interval",
            "max_chain_length",
            "max_cnames_followed",
            "max_generate_steps",
            "max_include_depth",
            "max_mthreads",
            "max_recursion_depth",
            "max_total_msec",
            "minimum_ttl_override",
            "nothing_below_nxdomain",
            "public_suffix_list_file",
            "qname_max_minimize_count",
            "qname_minimization",
            "qname_minimize_one_label",
            "root_nx_trust",
            "save_parent_ns_set",
            "security_poll_suffix",
            "serve_rfc1918",
            "serve_rfc6303",
            "server_id",
            "setgid",
            "setuid",
            "socket_dir",
            "socket_group",
            "socket_mode",
            "socket_owner",
            "spoof_nearmiss_max",
            "stack_cache_size",
            "stack_size",
            "stats_api_disabled_list",
            "stats_carbon_disabled_list",
            "stats_rec_control_disabled_list",
            "stats_ringbuffer_entries",
            "stats_snmp_disabled_list",
            "system_resolver_interval",
            "system_resolver_self_resolve_check",
            "system_resolver_ttl",
            "taskthreads",
            "tcp_threads",
            "threads",
            "version_string",
            "write_pid",
        ],
        others: &[],
        new: &[
            "allowed_additional_qtypes",
            "forwarding_catalog_zones",
            "lua_start_stop_script",
            "rpzs",
            "sortlists",
        ],
    },
    Section {
        name: "outgoing",
        same: &[
            "bypass_server_throttling_probability",
            "dont_query",
            "dont_throttle_names",
            "dont_throttle_netmasks",
            "dot_to_auth_names",
            "dot_to_port_853",
            "edns_subnet_allow_list",
            "edns_subnet_harden",
            "max_busy_dot_probes",
            "max_bytesperq",
            "max_ns_address_qperq",
            "max_ns_per_resolve",
            "max_qperq",
            "network_timeout",
            "non_resolving_ns_max_fails",
            "non_resolving_ns_throttle_time",
            "server_down_max_fails",
            "server_down_throttle_time",
            "single_socket",
            "tcp_fast_open_connect",
            "udp_source_port_avoid",
            "udp_source_port_max",
            "udp_source_port_min",
        ],
        others: &[
            ("any_to_tcp", "out-any-to-tcp"),
            ("cookies", "outgoing-cookies"),
            ("cookies_unsupported", "outgoing-cookies-unsupported"),
            ("edns_bufsize", "edns-outgoing-bufsize"),
            ("edns_padding", "edns-padding-out"),
            ("lowercase", "lowercase-outgoing"),
            ("source_address", "query-local-address"),
            ("tcp_max_idle_ms", "tcp-out-max-idle-ms"),
            ("tcp_max_idle_per_auth", "tcp-out-max-idle-per-auth"),
            ("tcp_max_idle_per_thread", "tcp-out-max-idle-per-thread"),
            ("tcp_max_queries", "tcp-out-max-queries"),
        ],
        new: &["tls_configurations"],
    },
    Section {
        name: "webservice",
        same: &["api_key", "cross_origin_request_header", "webserver"],
        others: &[
            ("address", "webserver-address"),
            ("allow_from", "webserver-allow-from"),
            ("api_dir", "api-config-dir"),
            (
                "hash_plaintext_credentials",
                "webserver-hash-plaintext-credentials",
            ),
            ("loglevel", "webserver-loglevel"),
            ("max_request_size", "webserver-max-request-size"),
            ("password", "webserver-password"),
            ("port", "webserver-port"),
        ],
        new: &["listen"],
    },
    Section {
        name: "carbon",
        same: &[],
        others: &[
            ("instance", "carbon-instance"),
            ("interval", "carbon-interval"),
            ("ns", "carbon-namespace"),
            ("ourname", "carbon-ourname"),
            ("server", "carbon-server"),
        ],
        new: &[],
    },
    Section {
        name: "packetcache",
        same: &[],
        others: &[
            ("disable", "disable-packetcache"),
            ("max_entries", "max-packetcache-entries"),
            ("max_entry_size", "max-packetcache-entry-size"),
            ("negative_ttl", "packetcache-negative-ttl"),
            ("servfail_ttl", "packetcache-servfail-ttl"),
            ("shards", "packetcache-shards"),
            ("ttl", "packetcache-ttl"),
        ],
        new: &[],
    },
    Section {
        name: "logging",
        same: &[
            "disable_syslog",
            "loglevel",
            "protobuf_use_kernel_timestamp",
            "quiet",
            "statistics_interval",
            "structured_logging",
            "structured_logging_backend",
            "trace",
        ],
        others: &[
            ("common_errors", "log-common-errors"),
            ("facility", "logging-facility"),
            ("rpz_changes", "log-rpz-changes"),
            ("timestamp", "log-timestamp"),
        ],
        new: &[
            "dnstap_framestream_servers",
            "dnstap_nod_framestream_servers",
            "opentelemetry_trace_conditions",
            "outgoing_protobuf_servers",
            "protobuf_mask_v4",
            "protobuf_mask_v6",
            "protobuf_servers",
        ],
    },
    Section {
        name: "ecs",
        same: &[],
        others: &[
            ("add_for", "ecs-add-for"),
            ("cache_limit_ttl", "ecs-cache-limit-ttl"),
            ("ipv4_bits", "ecs-ipv4-bits"),
            ("ipv4_cache_bits", "ecs-ipv4-cache-bits"),
            ("ipv4_never_cache", "ecs-ipv4-never-cache"),
            ("ipv6_bits", "ecs-ipv6-bits"),
            ("ipv6_cache_bits", "ecs-ipv6-cache-bits"),
            ("ipv6_never_cache", "ecs-ipv6-never-cache"),
            ("minimum_ttl_override", "ecs-minimum-ttl-override"),
            ("scope_zero_address", "ecs-scope-zero-address"),
        ],
        new: &[],
    },
    Section {
        name: "recordcache",
        same: &[
            "limit_qtype_any",
            "max_cache_bogus_ttl",
            "max_negative_ttl",
            "max_rrset_size",
            "refresh_on_ttl_perc",
            "serve_stale_extensions",
        ],
        others: &[
            ("locked_ttl_perc", "record-cache-locked-ttl-perc"),
            ("max_entries", "max-cache-entries"),
            ("max_entry_size", "max-recordcache-entry-size"),
            ("max_ttl", "max-cache-ttl"),
            ("shards", "record-cache-shards"),
        ],
        new: &["keepwarm", "zonetocaches"],
    },
    Section {
        name: "nod",
        same: &[
            "unique_response_db_size",
            "unique_response_history_dir",
            "unique_response_ignore_list",
            "unique_response_ignore_list_file",
            "unique_response_log",
            "unique_response_pb_tag",
            "unique_response_tracking",
        ],
        others: &[
            ("db_size", "new-domain-db-size"),
            ("db_snapshot_interval", "new-domain-db-snapshot-interval"),
            ("history_dir", "new-domain-history-dir"),
            ("ignore_list", "new-domain-ignore-list"),
            ("ignore_list_file", "new-domain-ignore-list-file"),
            ("log", "new-domain-log"),
            ("lookup", "new-domain-lookup"),
            ("pb_tag", "new-domain-pb-tag"),
            ("tracking", "new-domain-tracking"),
        ],
        new: &[],
    },
    Section {
        name: "snmp",
        same: &[],
        others: &[
            ("agent", "snmp-agent"),
            ("daemon_socket", "snmp-daemon-socket"),
        ],
        new: &[],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::keys::CATALOGUE;

    #[test]
    fn every_setting_is_known_by_its_old_name_and_none_is_listed_twice() {
        let (mut seen, mut old) = (BTreeSet::new(), BTreeSet::new());
        for known in all() {
            assert!(seen.insert(known.full_name()), "{known:?}");
            if let Some(name) = known.old_name() {
                assert_ne!(CATALOGUE.disposition(&name), None, "{name}");
                assert!(old.insert(name), "{known:?}");
            }
        }
        assert_eq!((seen.len(), old.len()), (243, 222));
    }
}
