//! The views of a configuration, and the access lists of its zones.

use std::collections::HashMap;
use std::path::PathBuf;

use ::config::dns_authd::{DnsAuthd, TransferTransport, Zone};
use ::config::{Check, Networks, Step, at};
use cidrs::Cidrs;
use dns_views::{Clients, View, ViewName, ZoneAccess};
use dns_wire::{Key, Keys, Name};
use peer_bind::ZoneDecl;

/// The names of a list of keys. A mistake in them was refused before.
pub(super) fn names(texts: &[String]) -> Vec<Name> {
    let texts = texts.iter();
    texts.filter_map(|text| Name::parse(text).ok()).collect()
}

/// Reads the views of a file, behind those that are known.
pub(super) fn read(file: &DnsAuthd, keys: &Keys, views: &mut Vec<View>, check: &mut Check<'_>) {
    for (index, table) in file.view.iter().enumerate() {
        let way = |field| at!["view", index, field];
        check_keys(&table.match_keys, keys, &way("match-keys"), check);
        let notify_key = table.notify_key.as_slice();
        check_keys(notify_key, keys, &way("notify-key"), check);
        let name = match table.name.parse::<ViewName>() {
            Ok(name) => name,
            Err(error) => {
                check.problem(&way("name"), error.to_string());
                continue;
            }
        };
        if views.iter().any(|known| known.name == name) {
            check.problem(&way("name"), format!("view {name} is declared twice"));
            continue;
        }
        let networks = match &table.match_clients {
            Some(networks) => networks.0.clone(),
            None if table.match_keys.is_empty() => Cidrs::any(),
            None => Cidrs::none(),
        };
        let keys = names(&table.match_keys);
        let clients = Clients { networks, keys };
        views.push(View { name, clients });
    }
}

/// The access lists of a zone.
pub(super) fn access(zone: &Zone) -> ZoneAccess {
    ZoneAccess {
        query: clients(zone.allow_query.as_ref(), &zone.allow_query_keys),
        transfer: clients(zone.allow_transfer.as_ref(), &zone.allow_transfer_keys),
        needs_tls: zone
            .allow_transfer_transport
            .map(|transport| transport == TransferTransport::Tls),
    }
}

fn clients(networks: Option<&Networks>, keys: &[String]) -> Option<Clients> {
    let is_any = networks.is_some() || !keys.is_empty();
    is_any.then(|| Clients {
        networks: networks.map_or_else(Cidrs::none, |networks| networks.0.clone()),
        keys: names(keys),
    })
}

/// The keys that sign NOTIFY about zones of views.
pub(super) fn notify_keys(file: &DnsAuthd, keys: &Keys) -> HashMap<ViewName, Key> {
    let views = file.view.iter().filter_map(|view| {
        let key = keys.get(&Name::parse(view.notify_key.as_ref()?).ok()?)?;
        Some((view.name.parse().ok()?, key.clone()))
    });
    views.collect()
}

/// Reports views and keys that zones name and that are not there, and files of several zones that dns-authd writes.
pub(super) fn check_zones(
    file: &DnsAuthd,
    (views, declared): (&[View], &[ZoneDecl]),
    keys: &Keys,
    check: &mut Check<'_>,
) {
    let mut files: HashMap<PathBuf, String> = HashMap::new();
    for (index, zone) in file.zone.iter().enumerate() {
        let way = |field| at!["zone", index, field];
        let is_known = |text: &String| views.iter().any(|view| view.name.as_str() == *text);
        if let Some(view) = zone.view.as_ref().filter(|view| !is_known(view)) {
            let message = format!("no [[view]] has the name `{view}`");
            check.problem(&way("view"), message);
        }
        check_keys(
            &zone.allow_query_keys,
            keys,
            &way("allow-query-keys"),
            check,
        );
        let transfer = &zone.allow_transfer_keys;
        check_keys(transfer, keys, &way("allow-transfer-keys"), check);
    }
    for zone in declared.iter().filter(|zone| !zone.primaries.is_empty()) {
        let Some(path) = &zone.file else {
            continue;
        };
        let name = zone.id().to_string();
        if let Some(other) = files.insert(path.clone(), name.clone()) {
            let path = path.display();
            let message = format!("{name} and {other} have one file, {path}: each writes it");
            let mut tables = file.zone.iter();
            let is_its = |table: &Zone| {
                let view = zone.view.as_ref().map(ViewName::as_str);
                table.view.as_deref() == view && Name::parse(&table.name).as_ref() == Ok(&zone.name)
            };
            let index = tables.position(is_its).unwrap_or_default();
            check.problem(&at!["zone", index, "file"], message);
        }
    }
}

fn check_keys(texts: &[String], keys: &Keys, way: &[Step<'_>], check: &mut Check<'_>) {
    for text in texts {
        if !Name::parse(text).is_ok_and(|name| keys.get(&name).is_some()) {
            check.problem(way, format!("no [[key]] has the name `{text}`"));
        }
    }
}

/// The lists of networks of views and zones, with their places.
pub(super) fn lists(file: &DnsAuthd) -> impl Iterator<Item = (Option<&Networks>, Vec<Step<'_>>)> {
    let views = file.view.iter().enumerate().map(|(index, view)| {
        let way = at!["view", index, "match-clients"];
        (view.match_clients.as_ref(), way.to_vec())
    });
    let zones = file.zone.iter().enumerate().flat_map(|(index, zone)| {
        let query = at!["zone", index, "allow-query"].to_vec();
        let transfer = at!["zone", index, "allow-transfer"].to_vec();
        [
            (zone.allow_query.as_ref(), query),
            (zone.allow_transfer.as_ref(), transfer),
        ]
    });
    views.chain(zones)
}
