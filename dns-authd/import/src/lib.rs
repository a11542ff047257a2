//! A peer's files as a configuration of this server: `pdns_server`'s own defaults where it has the setting.

use std::net::SocketAddr;
use std::time::Duration;

use ::config::dns_authd::{
    Answers, Any, DnsAuthd, Health, Key, KeyAlgorithm, Lua, Notify, Tcp, TransferTransport,
    Transfers, View, Zone, Zones,
};
use ::config::{Address, Class, Cookies, Draft, Every, HumanDuration, Networks, Notes, Whole};
use config_text::{Position, Problem};
use dns_views::Clients;
use peer_bind::{NamedConf, NamedKey, ZoneDecl, ZoneKind};
use peer_pdns::{LuaRecords, PdnsConf, ServerId, Version};

/// The settings of `pdns_server` that let in, answer or trust less than this server does without them.
const SECURITY: [&str; 14] = [
    "api-key",
    "bind-dnssec-db",
    "chroot",
    "edns-cookie-secret",
    "lua-prequery-script",
    "max-tcp-connection-duration",
    "max-tcp-connections-per-client",
    "max-tcp-transactions-per-conn",
    "proxy-protocol-from",
    "tcp-control-range",
    "tcp-control-secret",
    "views",
    "webserver-allow-from",
    "webserver-password",
];

/// Words of the settings that change only logs, figures or the way in which the process is started.
const COSMETIC: [&str; 10] = [
    "cache",
    "carbon",
    "daemon",
    "guardian",
    "log",
    "queue",
    "security-poll",
    "setgid",
    "setuid",
    "threads",
];

/// The interval of checks that `PowerDNS` has without `lua-health-checks-interval`.
const PDNS_INTERVAL: Duration = Duration::from_secs(5);

/// A pdns.conf and its zone list as a configuration. `version` is the version of this server when the
/// configuration is only for it.
#[must_use]
pub fn pdns_conf(pdns: &PdnsConf, named: &NamedConf, version: Option<&str>) -> Draft<DnsAuthd> {
    let mut notes = Notes::default();
    for dropped in &pdns.dropped {
        let (key, value) = (&dropped.key, &dropped.value);
        let what = format!("{key}={value}");
        notes.lost(class(key), dropped.position.as_ref(), &what, dropped.reason);
    }
    let network = &pdns.network;
    let config = DnsAuthd {
        listen: pdns.listen.iter().copied().map(Address).collect(),
        threads: network.receivers,
        zones: Zones {
            directory: directory(named),
            check_interval: Every(pdns.check_interval),
            notify: pdns.check_interval.is_some(),
            default_ttl: pdns.zone_files.default_ttl,
            include_depth: pdns.zone_files.include_depth,
            generate_steps: pdns.zone_files.generate_steps,
            skip_out_of_zone: pdns.zone_files.skip_out_of_zone,
            // pdns goes by the time of the file alone, and its users edit zones without a new serial.
            serial_must_rise: false,
            ..Zones::default()
        },
        zone: zones(named, pdns.notify.enabled, &mut notes),
        notify: match pdns.notify.enabled {
            true => Notify {
                also: addresses(pdns.notify.also.iter().chain(&named.also_notify)),
                name_servers: pdns.notify.name_servers,
                ..Notify::default()
            },
            false => Notify::default(),
        },
        lua: Lua {
            enabled: pdns.lua.records != LuaRecords::No,
            instructions: pdns.lua.exec_limit.unwrap_or(0),
            insert_whitespace: pdns.lua.whitespace,
            ..Lua::default()
        },
        health: Health {
            // PowerDNS's own default is no word of its operator: the schedule is then healthd's.
            interval: (pdns.lua.check_interval != PDNS_INTERVAL)
                .then_some(HumanDuration(pdns.lua.check_interval)),
            ..Health::default()
        },
        answers: answers(pdns, version),
        // pdns answers no cookies without a secret, and cuts all clients' answers at the same size.
        cookies: Cookies {
            answer_cookie: false,
            nocookie_udp_size: Whole::clamped(4096),
            ..Cookies::default()
        },
        tcp: Tcp {
            connections: network.tcp_connections,
            per_client: network.tcp_connections,
            idle: HumanDuration(network.tcp_idle),
            ..Tcp::default()
        },
        transfers: Transfers {
            allow: match pdns.transfers.disabled {
                true => Default::default(),
                false => pdns.transfers.allowed.iter().copied().collect(),
            },
            ..Transfers::default()
        },
        ..DnsAuthd::default()
    };
    Draft {
        config,
        notes: notes.into_notes(),
    }
}

/// A named.conf as a configuration.
#[must_use]
pub fn named_conf(named: &NamedConf) -> Draft<DnsAuthd> {
    let mut notes = Notes::default();
    let config = DnsAuthd {
        zones: Zones {
            directory: directory(named),
            ..Zones::default()
        },
        zone: zones(named, true, &mut notes),
        view: named.views.iter().map(view).collect(),
        key: named
            .keys
            .iter()
            .filter_map(|one| key(one, &mut notes))
            .collect(),
        notify: Notify {
            also: addresses(&named.also_notify),
            ..Notify::default()
        },
        ..DnsAuthd::default()
    };
    Draft {
        config,
        notes: notes.into_notes(),
    }
}

fn class(key: &str) -> Class {
    Class::of_setting(key, &SECURITY, &COSMETIC)
}

/// The directory of `$INCLUDE`; a relative one, that of the list itself, is not carried.
fn directory(named: &NamedConf) -> Option<std::path::PathBuf> {
    let directory = &named.directory;
    directory.is_absolute().then(|| directory.clone())
}

fn answers(pdns: &PdnsConf, version: Option<&str>) -> Answers {
    let answers = &pdns.answers;
    let name = "Outpost dns-authd";
    Answers {
        version: match (&answers.version, version) {
            (Version::Full, Some(version)) => format!("{name} {version}"),
            (Version::Full | Version::Name, _) => name.to_owned(),
            (Version::Anonymous, _) => "none".to_owned(),
            (Version::Text(text), _) => text.clone(),
        },
        id: match &answers.server_id {
            ServerId::Host => None,
            ServerId::Disabled => Some("none".to_owned()),
            ServerId::Text(id) => Some(id.clone()),
        },
        any: match answers.any_to_tcp {
            true => Any::AllOverTcp,
            false => Any::One,
        },
        udp_payload: Whole::clamped(answers.udp_limit.into()),
        client_subnet: answers.client_subnet,
    }
}

fn addresses<'a>(servers: impl IntoIterator<Item = &'a SocketAddr>) -> Vec<Address> {
    servers.into_iter().copied().map(Address).collect()
}

/// The zones that are served, and notes about the others. Their secondaries are carried over if `notifies`.
fn zones(named: &NamedConf, notifies: bool, notes: &mut Notes) -> Vec<Zone> {
    // The list's own remark about a zone that is not served says no more than the note below.
    let unserved_at = |position: &Position| {
        let mut unserved = named.zones.iter().filter(|zone| !zone.is_served());
        unserved.any(|zone| zone.position == *position)
    };
    let about_others = |warning: &&Problem| !warning.position.as_ref().is_some_and(unserved_at);
    for warning in named.warnings.iter().filter(about_others) {
        let position: Option<&Position> = warning.position.as_ref();
        notes.odd(Class::Behaviour, position, &warning.message);
    }
    let mut zones = Vec::new();
    for zone in &named.zones {
        match (&zone.file, zone.is_served()) {
            (Some(file), true) => zones.push(Zone {
                name: zone.name.to_string(),
                view: zone.view.as_ref().map(ToString::to_string),
                file: file.clone(),
                primaries: Vec::new(),
                key: None,
                tls: None,
                also_notify: match notifies {
                    true => addresses(&zone.also_notify),
                    false => Vec::new(),
                },
                allow_query: zone.access.query.as_ref().map(networks),
                allow_query_keys: keys(zone.access.query.as_ref()),
                allow_transfer: zone.access.transfer.as_ref().map(networks),
                allow_transfer_keys: keys(zone.access.transfer.as_ref()),
                allow_transfer_transport: zone.access.needs_tls.map(|needs_tls| match needs_tls {
                    true => TransferTransport::Tls,
                    false => TransferTransport::Any,
                }),
                update: Vec::new(),
            }),
            _ => {
                let what = format!("zone {}", zone.id());
                notes.lost(Class::Behaviour, &zone.position, &what, reason(zone));
            }
        }
    }
    zones
}

fn view(view: &dns_views::View) -> View {
    View {
        name: view.name.to_string(),
        match_clients: Some(networks(&view.clients)),
        match_keys: keys(Some(&view.clients)),
        notify_key: None,
    }
}

fn networks(clients: &Clients) -> Networks {
    Networks(clients.networks.clone())
}

fn keys(clients: Option<&Clients>) -> Vec<String> {
    let keys = clients.into_iter().flat_map(|clients| &clients.keys);
    keys.map(ToString::to_string).collect()
}

/// A key, unless its algorithm is none of TSIG.
fn key(key: &NamedKey, notes: &mut Notes) -> Option<Key> {
    let Some(algorithm) = algorithm(&key.algorithm) else {
        let what = format!("key {}", key.name);
        let reason = format!("`{}` is no algorithm of TSIG", key.algorithm);
        notes.lost(Class::Behaviour, &key.position, &what, reason);
        return None;
    };
    Some(Key {
        name: key.name.to_string(),
        algorithm,
        secret: Some(key.secret.clone()),
        secret_file: None,
    })
}

/// The algorithm that BIND knows by this name.
#[must_use]
pub fn algorithm(name: &str) -> Option<KeyAlgorithm> {
    let bare = name.trim_end_matches('.');
    match bare.strip_suffix(".sig-alg.reg.int").unwrap_or(bare) {
        "hmac-md5" => Some(KeyAlgorithm::HmacMd5),
        "hmac-sha1" => Some(KeyAlgorithm::HmacSha1),
        "hmac-sha224" => Some(KeyAlgorithm::HmacSha224),
        "hmac-sha256" => Some(KeyAlgorithm::HmacSha256),
        "hmac-sha384" => Some(KeyAlgorithm::HmacSha384),
        "hmac-sha512" => Some(KeyAlgorithm::HmacSha512),
        _ => None,
    }
}

fn reason(zone: &ZoneDecl) -> String {
    match &zone.kind {
        ZoneKind::Secondary => "a secondary zone needs `primaries` in its [[zone]]".to_owned(),
        ZoneKind::Primary | ZoneKind::Native => "it has no file".to_owned(),
        ZoneKind::Other(word) if word == "in-view" => {
            "a zone is in one view: declare it again, or without a view".to_owned()
        }
        ZoneKind::Other(word) => format!("no zone is of type {word} here"),
    }
}
