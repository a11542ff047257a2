//! The servers that zones are transferred from, and how those over TLS prove who they are.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use ::config::dns_authd::{DnsAuthd, PrimaryTls};
use ::config::{Authentication, Check, Step, at};
use daemon::exit;
use dns_exchange::Primary;
use tls_trust::{Pin, Trust, TrustError, pins, server_name};

/// Reads the authorities of a file, or those of the system, beside keys.
pub type ReadTrust<'r> = &'r mut dyn FnMut(Option<&Path>, Vec<Pin>) -> Result<Trust, TrustError>;

/// The certificates that primaries may have, by the tables that say so.
pub type Trusts = HashMap<PrimaryTls, Trust>;

/// The primaries of a table. One without a [`Trust`] was refused before.
pub(super) fn of(
    addresses: &[SocketAddr],
    tls: Option<&PrimaryTls>,
    trusts: &Trusts,
) -> Vec<Primary> {
    let addresses = addresses.iter().copied();
    let Some(tls) = tls else {
        return addresses.map(Primary::plain).collect();
    };
    let Some(trust) = trusts.get(tls) else {
        return Vec::new();
    };
    let name = tls.server_name.as_deref();
    let primaries = addresses.map(|one| Primary::over_tls(one, name, trust.clone()));
    primaries.filter_map(Result::ok).collect()
}

/// Reads what the primaries of a file have to prove.
pub(super) fn read(file: &DnsAuthd, check: &mut Check<'_>, read: ReadTrust<'_>) -> Trusts {
    let mut trusts = Trusts::new();
    let zones = file.zone.iter().enumerate().map(|(index, zone)| {
        let way = at!["zone", index, "tls"].to_vec();
        (way, zone.tls.as_ref(), !zone.primaries.is_empty())
    });
    let catalogs = file
        .catalog
        .iter()
        .enumerate()
        .flat_map(|(index, catalog)| {
            let has_primaries = !catalog.primaries.is_empty();
            let way = at!["catalog", index, "tls"].to_vec();
            let groups = catalog.group.iter().enumerate().map(move |(at, group)| {
                let way = at!["catalog", index, "group", at, "tls"].to_vec();
                (way, group.tls.as_ref(), has_primaries)
            });
            std::iter::once((way, catalog.tls.as_ref(), has_primaries)).chain(groups)
        });
    for (way, tls, has_primaries) in zones.chain(catalogs) {
        let Some(tls) = tls else {
            continue;
        };
        if !has_primaries {
            check.problem(&way, "it is for primaries, and there are none");
        }
        if let Some(trust) = trust(tls, &way, check, read) {
            trusts.insert(tls.clone(), trust);
        }
    }
    trusts
}

fn trust(
    tls: &PrimaryTls,
    way: &[Step<'_>],
    check: &mut Check<'_>,
    read: ReadTrust<'_>,
) -> Option<Trust> {
    let below = |steps: &[Step<'static>]| [way, steps].concat();
    if let Some(name) = &tls.server_name
        && let Err(error) = server_name(Some(name), [0; 4].into())
    {
        check.problem(&below(&at!["server-name"]), error.to_string());
    }
    if tls.authentication == Authentication::Opportunistic {
        for (key, is_set) in [("ca", tls.ca.is_some()), ("pins", !tls.pins.is_empty())] {
            if is_set {
                let message = format!(
                    "`{key}` has no effect: with `authentication = \"opportunistic\"`, primaries prove nothing"
                );
                check.problem(&below(&at![key]), message);
            }
        }
        return Some(Trust::Anyone);
    }
    let pins = pins(&tls.pins, |place, message| {
        check.problem(&below(&at!["pins", place]), message);
    });
    let trust = read(tls.ca.as_deref(), pins);
    trust
        .map_err(|error| check.problem(&below(&at!["ca"]), exit::chain(&error)))
        .ok()
}
