//! A pdns.conf as a [`Config`]: `pdns_server`'s own defaults where it has the setting.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use config_text::Problem;
use daemon::acl::Cidrs;
use daemon::config::Common;
use dns_answer::{Any, Settings};
use dns_lua::LuaSettings;
use dns_zone::parse::{Options, OutOfZone};
use peer_bind::{NamedConf, ZoneDecl};
use peer_pdns::{LuaRecords, PdnsConf, ServerId, Version, ZoneFiles};
use proto::endpoint::Endpoint;

use super::v1::{DEFAULT_HOLD, DEFAULT_UNKNOWN_TTL, chaos, identity, keepalive};
use super::{Config, DEFAULT_ADMIN, Network, TcpLimits, Zones};
use crate::access::Access;
use crate::programs::LiveSettings;

/// Makes the config. `version` is the server's own, `host` the node's name.
#[must_use]
pub fn config(pdns: &PdnsConf, named: NamedConf, version: &str, host: &str) -> Config {
    let mut warnings: Vec<Problem> = pdns
        .dropped
        .iter()
        .map(|dropped| Problem {
            position: dropped.position.clone(),
            message: format!("{} is not carried over: {}", dropped.key, dropped.reason),
        })
        .collect();
    warnings.extend(not_notified(&named).into_iter().map(|message| Problem {
        position: None,
        message,
    }));
    warnings.extend(named.warnings);
    let tcp = TcpLimits {
        connections: pdns.network.tcp_connections,
        per_client: pdns.network.tcp_connections,
        idle: pdns.network.tcp_idle,
        ..TcpLimits::default()
    };
    Config {
        common: Common::with_admin(DEFAULT_ADMIN),
        network: Network {
            listen: pdns.listen.clone(),
            threads: pdns.network.receivers,
            receive_buffer: None,
            tcp,
        },
        tls: None,
        zones: Zones {
            declared: named
                .zones
                .into_iter()
                .filter(ZoneDecl::is_served)
                .collect(),
            options: Arc::new(options(
                &pdns.zone_files,
                &named.directory,
                pdns.lua.whitespace,
            )),
            check_interval: pdns.check_interval,
            notify: pdns.check_interval.is_some(),
        },
        live: live(pdns),
        lua: pdns.lua.records != LuaRecords::No,
        health: Some(Endpoint::default()),
        answers: answers(pdns, version, host, tcp),
        access: Access {
            // pdns_server has no list of who may ask.
            ask: None,
            transfer: match pdns.transfers.disabled {
                true => Cidrs::none(),
                false => pdns.transfers.allowed.iter().copied().collect(),
            },
        },
        warnings,
    }
}

/// A warning about `also-notify` servers: this server sends no NOTIFY.
pub(super) fn not_notified(named: &NamedConf) -> Option<String> {
    let of_zones = named.zones.iter().flat_map(|zone| &zone.also_notify);
    let all = named.also_notify.iter().chain(of_zones);
    let servers: BTreeSet<String> = all.map(ToString::to_string).collect();
    let servers: Vec<String> = servers.into_iter().collect();
    (!servers.is_empty()).then(|| {
        format!(
            "also-notify is not carried over: this server sends no NOTIFY, and {} find changes at their next refresh",
            servers.join(", ")
        )
    })
}

fn options(files: &ZoneFiles, directory: &std::path::Path, lua_whitespace: bool) -> Options {
    Options {
        directory: Some(directory.to_owned()),
        default_ttl: files.default_ttl,
        include_depth: files.include_depth,
        generate_steps: files.generate_steps,
        lua_whitespace,
        out_of_zone: match files.skip_out_of_zone {
            true => OutOfZone::Skip,
            false => OutOfZone::Refuse,
        },
        ..Options::default()
    }
}

fn live(pdns: &PdnsConf) -> LiveSettings {
    let limit = pdns.lua.exec_limit;
    LiveSettings {
        lua: Arc::new(LuaSettings {
            instructions: limit.and_then(NonZeroU32::new),
            interval: pdns.lua.check_interval,
            ..LuaSettings::default()
        }),
        unknown_ttl: DEFAULT_UNKNOWN_TTL,
        hold: DEFAULT_HOLD,
    }
}

fn answers(pdns: &PdnsConf, version: &str, host: &str, tcp: TcpLimits) -> Settings {
    let answers = &pdns.answers;
    let id = match &answers.server_id {
        ServerId::Host => identity(None, host),
        ServerId::Disabled => None,
        ServerId::Text(text) => identity(Some(text), host),
    };
    let version = match &answers.version {
        Version::Full => Some(format!("Outpost dns-authd {version}")),
        Version::Name => Some("Outpost dns-authd".to_owned()),
        Version::Anonymous => None,
        Version::Text(text) => Some(text.clone()),
    };
    Settings {
        udp_payload: answers.udp_limit,
        any: match answers.any_to_tcp {
            true => Any::AllOverTcp,
            false => Any::One,
        },
        chaos: chaos(version.as_deref(), id.as_deref()),
        nsid: id.map(|id| id.into_bytes().into()),
        client_subnet: answers.client_subnet,
        keepalive: keepalive(tcp.idle),
    }
}
