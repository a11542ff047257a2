//! The configuration: the file, or a pdns.conf in its terms, and what it comes to.
//!
//! Reads no file: the shell does.

pub mod catalogs;
pub mod primaries;
#[cfg(test)]
mod tests;
mod views;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::config::dns_authd::{
    ADMIN_PORT, DnsAuthd, KeyAlgorithm, Tls, TransferPeer, TransferTransport, Zone,
};
use ::config::{Address, Check, Document, Problem, Problems, at};
use daemon::config::Common;
use daemon::tls::CertificateFiles;
use dns_answer::{Notifiers, Settings};
use dns_exchange::Primary;
use dns_flatten::{Form, Forms};
use dns_lua::LuaSettings;
use dns_update::{Grant, Pattern};
use dns_views::{Clients, PeerRule, Transports, View, ViewName, ZoneId};
use dns_wire::tsig::Algorithm;
use dns_wire::{Key, Keys, Name, Type};
use dns_zone::Guard;
use dns_zone::notify::Pace;
use dns_zone::parse::Options;
use health::HealthdArg;
use peer_bind::{NamedConf, NamedKey, ZoneDecl, ZoneKind};

use crate::access::Access;
use catalogs::{Catalog, Origins};
use dns_primary::histories::Keeping;
use dns_primary::notify::Notify;
use primaries::{ReadTrust, Trusts};

/// The admin listener, unless the configuration says otherwise.
pub const DEFAULT_ADMIN: SocketAddr = Address::loopback(ADMIN_PORT).0;

/// The longest identity of a server, in characters.
const MAX_ID: usize = 128;

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings that every daemon has.
    pub common: Common,
    /// The file, with the command line's values in it.
    pub file: DnsAuthd,
    /// The zones, and the options for reading their files.
    pub zones: Zones,
    /// The views, in the order in which they are tried.
    pub views: Vec<View>,
    /// The names of a cluster.
    pub kubernetes: Option<Arc<dns_kubernetes::Options>>,
    /// The limits of programs, their schedule, and the answers while no target is up.
    pub lua: Arc<LuaSettings>,
    /// How answers are made.
    pub answers: Settings,
    /// The clients that may query, and those that may transfer zones.
    pub access: Access,
    /// The zones that are transferred from other servers.
    pub secondaries: Vec<Secondary>,
    /// The catalogs. They are among the zones too.
    pub catalogs: Vec<Catalog>,
    /// The zones that are catalogs, or that catalogs have added.
    pub origins: Origins,
    /// The servers to notify of new versions, beside the servers of each zone.
    pub notify: Notify,
    /// How the versions before are kept.
    pub history: Keeping,
    /// Settings that are odd, or not carried over.
    pub warnings: Vec<Problem>,
}

/// The zones, views and keys of a configuration, from all of its files.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    /// The zones, those that are not served from a file left out.
    pub zones: Vec<ZoneDecl>,
    /// The views.
    pub views: Vec<View>,
    /// The keys.
    pub keys: Keys,
    /// The certificates that primaries over TLS may have.
    pub trusts: Trusts,
}

/// The zones, and the options for reading their files.
#[derive(Clone, Debug)]
pub struct Zones {
    /// The zones, those that are not served from a file left out.
    pub declared: Vec<ZoneDecl>,
    /// How master files are read.
    pub options: Arc<Options>,
    /// How new versions are compared with those in service.
    pub guard: Guard,
    /// How long a changed file must stay the same when no event says that it is complete.
    pub quiet: Duration,
}

/// A zone that is transferred from other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// The zone.
    pub name: Name,
    /// Its view.
    pub view: Option<ViewName>,
    /// The file that keeps it.
    pub file: PathBuf,
    /// The servers.
    pub primaries: Vec<Primary>,
    /// The key that signs requests, and responses.
    pub key: Option<Key>,
}

impl Secondary {
    /// The zone as it is known.
    #[must_use]
    pub fn id(&self) -> ZoneId {
        ZoneId {
            apex: self.name.clone(),
            view: self.view.clone(),
        }
    }
}

/// The clients that may send NOTIFY about secondary zones. A NOTIFY names no view: it is about the zones of its name in all views.
fn notifiers(secondaries: &[Secondary]) -> HashMap<Name, Notifiers> {
    let mut all: HashMap<Name, Notifiers> = HashMap::new();
    for one in secondaries {
        let notifiers = all.entry(one.name.clone()).or_default();
        let addresses = one.primaries.iter().map(|primary| primary.address().ip());
        let addresses = addresses.map(|address| address.to_canonical());
        notifiers.addresses.extend(addresses);
        let key = one.key.as_ref().map(|key| key.name().clone());
        notifiers.keys.extend(key);
    }
    all
}

impl Default for Zones {
    fn default() -> Self {
        Self::of(&DnsAuthd::default(), Vec::new())
    }
}

impl Zones {
    fn of(file: &DnsAuthd, declared: Vec<ZoneDecl>) -> Self {
        Self {
            declared,
            options: Arc::new(Options::of(&file.zones, file.lua)),
            guard: Guard::of(&file.zones),
            quiet: file.zones.quiet.0,
        }
    }
}

impl Config {
    /// The settings of a file. `host` is the node's name.
    #[must_use]
    pub fn of(
        file: DnsAuthd,
        declarations: Declarations,
        warnings: Vec<Problem>,
        host: &str,
    ) -> Self {
        let Declarations {
            zones: declared,
            views,
            keys,
            trusts,
        } = declarations;
        let table = file.kubernetes.as_ref();
        // A table with a mistake was refused before.
        let kubernetes = table.and_then(|table| dns_kubernetes::Options::of(table).ok());
        let access = Access {
            ask: file.allow_from.as_deref().cloned(),
            transfer: Clients {
                networks: file.transfers.allow.0.clone(),
                keys: views::names(&file.transfers.allow_keys),
            },
            transports: transports(&file),
        };
        let secondaries = secondaries(&file, &declared, (&keys, &trusts));
        let notify_key = file.notify.key.as_ref();
        let notify_key = notify_key.and_then(|name| keys.get(&Name::parse(name).ok()?));
        let notify = Notify {
            also: file.notify.also.iter().map(|address| address.0).collect(),
            zones: notified(&declared),
            name_servers: file.notify.name_servers,
            key: notify_key.cloned(),
            keys: views::notify_keys(&file, &keys),
            pace: Pace {
                attempts: file.notify.attempts.get(),
                first: file.notify.timeout.0,
            },
        };
        Self {
            common: Common::of(file.log, file.admin, file.drain),
            zones: Zones::of(&file, declared),
            views,
            kubernetes: kubernetes.map(Arc::new),
            lua: Arc::new(LuaSettings {
                limits: file.lua,
                health: file.health.clone(),
            }),
            answers: Settings {
                grants: Arc::new(grants(&file)),
                forms: Arc::new(forms(&file)),
                notifiers: Arc::new(notifiers(&secondaries)),
                keys,
                ..answers(&file, host)
            },
            access,
            secondaries,
            catalogs: Vec::new(),
            origins: Origins::default(),
            notify,
            history: Keeping::of(&file.history),
            warnings,
            file,
        }
    }

    /// Parses the text of a configuration file. `read_named` reads the named.conf that it names, `read_secret` a file with the secret
    /// of a key, and `read_trust` the authorities of primaries.
    ///
    /// # Errors
    /// Everything that is wrong with it, and with the named.conf.
    pub fn from_document(
        document: &Document,
        host: &str,
        read_named: impl FnOnce(&Path) -> Result<NamedConf, Problems>,
        read_secret: &mut dyn FnMut(&Path) -> io::Result<String>,
        read_trust: ReadTrust<'_>,
    ) -> Result<Self, Problems> {
        let (mut declared, mut warnings) = (Vec::new(), Vec::new());
        let (mut views, mut keys) = (Vec::new(), Keys::default());
        let (mut catalogs, mut trusts) = (Vec::new(), Trusts::new());
        let file = document.parse_with(|file: &DnsAuthd, check| {
            let mut of_named = Vec::new();
            match file.zones.named_conf.as_deref().map(read_named) {
                Some(Ok(mut named)) => {
                    for zone in &mut named.zones {
                        zone.also_notify.extend(&named.also_notify);
                    }
                    declared.extend(named.zones.into_iter().filter(ZoneDecl::is_served));
                    views.extend(named.views);
                    of_named.extend(named.keys);
                    warnings.extend(named.warnings);
                }
                Some(Err(problems)) => check.extend(problems),
                None => {}
            }
            let directory = file.zones.directory.as_deref();
            // A relative file is beside the configuration unless `directory` is set.
            let home = directory.or_else(|| document.path.parent());
            for (index, zone) in file.zone.iter().enumerate() {
                match declare(zone, index, home, check) {
                    Ok(zone) if declared.iter().any(|known| known.id() == zone.id()) => {
                        let message = format!("zone {} is declared twice", zone.id());
                        check.problem(&at!["zone", index, "name"], message);
                    }
                    Ok(zone) => declared.push(zone),
                    Err(message) => check.problem(&at!["zone", index, "name"], message),
                }
            }
            keys = self::keys(file, &of_named, check, read_secret);
            views::read(file, &keys, &mut views, check);
            views::check_zones(file, (&views, &declared), &keys, check);
            trusts = primaries::read(file, check, read_trust);
            catalogs = catalogs::read(file, home, (&keys, &trusts), &mut declared, check);
            check_key_names(file, &keys, check);
            check_updates(file, &keys, check);
            check_forms(file, &keys, check);
            check_kubernetes(file, &declared, check);
            check_lists(file, check);
            check_port_probes(file, check);
            let lists = [
                (file.allow_from.as_ref(), &at!["allow-from"][..]),
                (Some(&file.transfers.allow), &at!["transfers", "allow"]),
            ];
            let peers = file.transfers.peer.iter().enumerate();
            let peers = peers.map(|(index, peer)| {
                let way = at!["transfers", "peer", index, "networks"];
                (peer.networks.as_ref(), way.to_vec())
            });
            let lists = lists.into_iter().map(|(list, way)| (list, way.to_vec()));
            for (list, way) in lists.chain(peers).chain(views::lists(file)) {
                let odd = list.map(|list| list.warnings_at(check.position(&way)));
                warnings.extend(odd.into_iter().flatten());
            }
            warnings.extend(lacking_tls(file, check));
            check_doh_path(file, check);
        })?;
        let declarations = Declarations {
            zones: declared,
            views,
            keys,
            trusts,
        };
        let config = Self::of(file, declarations, warnings, host);
        Ok(config.with_catalogs(catalogs))
    }

    /// The same with another healthd.
    #[must_use]
    pub fn with_healthd(mut self, endpoint: HealthdArg) -> Self {
        self.file.health.endpoint = endpoint;
        Arc::make_mut(&mut self.lua).health = self.file.health.clone();
        self
    }

    /// How long queries wait for first results.
    #[must_use]
    pub fn hold(&self) -> Duration {
        self.lua.health.hold()
    }
}

/// The files of the certificate.
#[must_use]
pub fn certificate(tls: &Tls) -> CertificateFiles {
    CertificateFiles::new(&tls.certificate, &tls.key)
}

/// The zone of an item of `[[zone]]`.
fn declare(
    zone: &Zone,
    index: usize,
    home: Option<&Path>,
    check: &Check<'_>,
) -> Result<ZoneDecl, String> {
    let text = &zone.name;
    let name =
        Name::parse(text).map_err(|error| format!("`{text}` is not a zone name: {error}"))?;
    Ok(ZoneDecl {
        name,
        // One that is no name of a view is reported with the views.
        view: zone.view.as_deref().and_then(|view| view.parse().ok()),
        kind: match zone.primaries.is_empty() {
            true => ZoneKind::Primary,
            false => ZoneKind::Secondary,
        },
        file: Some(home.map_or_else(|| zone.file.clone(), |home| home.join(&zone.file))),
        primaries: zone.primaries.iter().map(|address| address.0).collect(),
        also_notify: zone.also_notify.iter().map(|address| address.0).collect(),
        access: views::access(zone),
        position: check.position(&at!["zone", index, "name"]),
    })
}

/// The zones that are transferred from other servers.
fn secondaries(
    file: &DnsAuthd,
    declared: &[ZoneDecl],
    (keys, trusts): (&Keys, &Trusts),
) -> Vec<Secondary> {
    let zones = declared.iter().filter(|zone| !zone.primaries.is_empty());
    let zones = zones.filter_map(|zone| {
        let of_zones = file.zone.iter();
        let of_zones =
            of_zones.map(|one| (&one.name, one.view.as_deref(), (&one.key, one.tls.as_ref())));
        let of_catalogs = file.catalog.iter();
        let of_catalogs = of_catalogs.map(|one| (&one.name, None, (&one.key, one.tls.as_ref())));
        let view = zone.view.as_ref().map(ViewName::as_str);
        let mut of_file = of_zones.chain(of_catalogs);
        let its = of_file.find(|(name, its_view, _)| {
            *its_view == view && Name::parse(name).as_ref() == Ok(&zone.name)
        });
        let key = its.and_then(|(_, _, (key, _))| key.as_ref());
        let tls = its.and_then(|(_, _, (_, tls))| tls);
        Some(Secondary {
            name: zone.name.clone(),
            view: zone.view.clone(),
            file: zone.file.clone()?,
            primaries: primaries::of(&zone.primaries, tls, trusts),
            key: key
                .and_then(|name| keys.get(&Name::parse(name).ok()?))
                .cloned(),
        })
    });
    zones.collect()
}

/// The servers to notify of single zones.
fn notified(declared: &[ZoneDecl]) -> HashMap<ZoneId, Vec<SocketAddr>> {
    let some = declared.iter().filter(|zone| !zone.also_notify.is_empty());
    some.map(|zone| (zone.id(), zone.also_notify.clone()))
        .collect()
}

/// The keys of a file, with their secrets, and those of its named.conf.
fn keys(
    file: &DnsAuthd,
    of_named: &[NamedKey],
    check: &mut Check<'_>,
    read: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Keys {
    let mut keys: Vec<Key> = Vec::new();
    for (index, key) in file.key.iter().enumerate() {
        let text = &key.name;
        let name = match Name::parse(text) {
            Ok(name) => name,
            Err(error) => {
                let message = format!("`{text}` is no name of a key: {error}");
                check.problem(&at!["key", index, "name"], message);
                continue;
            }
        };
        if keys.iter().any(|known| *known.name() == name) {
            let message = format!("key {name} is declared twice");
            check.problem(&at!["key", index, "name"], message);
            continue;
        }
        let secret = match (&key.secret, &key.secret_file) {
            (Some(secret), None) => Ok((secret.clone(), "secret")),
            (None, Some(file)) => match read(file) {
                Ok(secret) => Ok((secret, "secret-file")),
                Err(error) => Err(format!("cannot read {}: {error}", file.display())),
            },
            _ => Err(format!("key {name} needs either `secret` or `secret-file`")),
        };
        match secret {
            Ok((secret, field)) => match Key::new(&name, algorithm(key.algorithm), &secret) {
                Ok(key) => keys.push(key),
                Err(error) => {
                    check.problem(&at!["key", index, field], format!("key {name}: {error}"));
                }
            },
            Err(message) => check.problem(&at!["key", index, "name"], message),
        }
    }
    for key in of_named {
        let NamedKey { name, secret, .. } = key;
        if keys.iter().any(|known| known.name() == name) {
            continue;
        }
        let known = dns_import::algorithm(&key.algorithm);
        let made = match known.map(|known| Key::new(name, algorithm(known), secret)) {
            Some(Ok(key)) => Ok(key),
            Some(Err(error)) => Err(error.to_string()),
            None => Err(format!("`{}` is no algorithm of TSIG", key.algorithm)),
        };
        match made {
            Ok(key) => keys.push(key),
            Err(error) => check.extend(Problems::from(Problem {
                position: Some(key.position.clone()),
                message: format!("key {name}: {error}"),
            })),
        }
    }
    Keys::new(keys)
}

/// Reports the keys that are named and not declared.
fn check_key_names(file: &DnsAuthd, keys: &Keys, check: &mut Check<'_>) {
    let is_known = |name: &str| Name::parse(name).is_ok_and(|name| keys.get(&name).is_some());
    for (index, name) in file.transfers.allow_keys.iter().enumerate() {
        if !is_known(name) {
            let message = format!("no [[key]] has the name `{name}`");
            check.problem(&at!["transfers", "allow-keys", index], message);
        }
    }
    for (index, zone) in file.zone.iter().enumerate() {
        if let Some(name) = &zone.key {
            if !is_known(name) {
                let message = format!("no [[key]] has the name `{name}`");
                check.problem(&at!["zone", index, "key"], message);
            } else if zone.primaries.is_empty() {
                let message = "the key is for the primaries of the zone, and it has none";
                check.problem(&at!["zone", index, "key"], message.to_owned());
            }
        }
    }
    if let Some(name) = &file.notify.key
        && !is_known(name)
    {
        let message = format!("no [[key]] has the name `{name}`");
        check.problem(&at!["notify", "key"], message);
    }
}

/// The grants of the zones that take updates. A mistake in them was refused before.
fn grants(file: &DnsAuthd) -> HashMap<ZoneId, Arc<[Grant]>> {
    let zones = file.zone.iter().filter(|zone| !zone.update.is_empty());
    let zones = zones.filter_map(|zone| {
        let name = Name::parse(&zone.name).ok()?;
        let grants = zone.update.iter().filter_map(|update| {
            let names = update.names.iter();
            let types = update.types.iter();
            Some(Grant {
                key: Name::parse(&update.key).ok()?,
                names: names
                    .filter_map(|text| Pattern::parse(text, &name).ok())
                    .collect(),
                types: types.filter_map(|text| text.parse().ok()).collect(),
            })
        });
        let grants = grants.collect();
        let view = zone.view.as_deref().and_then(|view| view.parse().ok());
        Some((ZoneId { apex: name, view }, grants))
    });
    zones.collect()
}

/// The values of some name servers, in the order of the file.
fn peer_rules<T>(file: &DnsAuthd, value: impl Fn(&TransferPeer) -> Option<T>) -> Vec<PeerRule<T>> {
    let peers = file.transfers.peer.iter();
    let rules = peers.filter_map(|peer| {
        Some(PeerRule {
            networks: peer.networks.as_deref().cloned(),
            keys: views::names(&peer.keys),
            zones: views::names(&peer.zones),
            value: value(peer)?,
        })
    });
    rules.collect()
}

/// The forms in which name servers get zones with LUA records. A mistake in them was refused before.
fn forms(file: &DnsAuthd) -> Forms {
    Forms {
        rules: peer_rules(file, |peer| peer.lua),
        others: file.transfers.lua,
    }
}

/// The transports of transfers. A mistake in them was refused before.
fn transports(file: &DnsAuthd) -> Transports {
    let needs_tls = |transport| transport == TransferTransport::Tls;
    Transports {
        rules: peer_rules(file, |peer| peer.transport.map(needs_tls)),
        needs_tls: needs_tls(file.transfers.transport),
    }
}

/// Reports a path of DNS over HTTPS that no URL can have.
fn check_doh_path(file: &DnsAuthd, check: &mut Check<'_>) {
    if let Some(tls) = &file.tls
        && !tls.is_path()
    {
        let path = &tls.doh_path;
        let message = format!("doh-path is the path of a URL, as /dns-query, not `{path}`");
        check.problem(&at!["tls", "doh-path"], message);
    }
}

/// Warns about zones that need TLS for their transfers while there is none.
fn lacking_tls(file: &DnsAuthd, check: &Check<'_>) -> Vec<Problem> {
    if file.tls.as_ref().is_some_and(|tls| !tls.dot.is_empty()) {
        return Vec::new();
    }
    let needs = |transport: Option<TransferTransport>| transport == Some(TransferTransport::Tls);
    let all = needs(Some(file.transfers.transport));
    let all = all.then(|| at!["transfers", "transport"].to_vec());
    let peers = file.transfers.peer.iter().enumerate();
    let peers = peers.filter(|(_, peer)| needs(peer.transport));
    let peers = peers.map(|(index, _)| at!["transfers", "peer", index, "transport"].to_vec());
    let zones = file.zone.iter().enumerate();
    let zones = zones.filter(|(_, zone)| needs(zone.allow_transfer_transport));
    let zones = zones.map(|(index, _)| at!["zone", index, "allow-transfer-transport"].to_vec());
    let ways = all.into_iter().chain(peers).chain(zones);
    ways.map(|way| Problem {
        position: Some(check.position(&way)),
        message: "there is no `tls.dot`: no client can transfer over TLS".to_owned(),
    })
    .collect()
}

/// Reports forms of zones with LUA records that cannot be used.
fn check_forms(file: &DnsAuthd, keys: &Keys, check: &mut Check<'_>) {
    let missing = "flattened zones need [history] directory: their serials must not come again behind a restart";
    let lacks_directory = |form| form == Some(Form::Flatten) && file.history.directory.is_none();
    if lacks_directory(Some(file.transfers.lua)) {
        check.problem(&at!["transfers", "lua"], missing.to_owned());
    }
    for (at, peer) in file.transfers.peer.iter().enumerate() {
        let way = |field| at!["transfers", "peer", at, field];
        if lacks_directory(peer.lua) {
            check.problem(&way("lua"), missing.to_owned());
        }
        if peer.lua.is_none() && peer.transport.is_none() {
            let message = "the table says nothing: it needs `lua` or `transport`";
            check.problem(&at!["transfers", "peer", at], message);
        }
        for name in &peer.keys {
            if !Name::parse(name).is_ok_and(|name| keys.get(&name).is_some()) {
                check.problem(&way("keys"), format!("no [[key]] has the name `{name}`"));
            }
        }
        for name in &peer.zones {
            if let Err(error) = Name::parse(name) {
                let message = format!("`{name}` is not a zone name: {error}");
                check.problem(&way("zones"), message);
            }
        }
    }
}

/// Reports grants of updates that cannot be used.
fn check_updates(file: &DnsAuthd, keys: &Keys, check: &mut Check<'_>) {
    for (zone_at, zone) in file.zone.iter().enumerate() {
        let Ok(name) = Name::parse(&zone.name) else {
            continue;
        };
        for (at, update) in zone.update.iter().enumerate() {
            let way = |field| at!["zone", zone_at, "update", at, field];
            let key = &update.key;
            if !Name::parse(key).is_ok_and(|key| keys.get(&key).is_some()) {
                check.problem(&way("key"), format!("no [[key]] has the name `{key}`"));
            } else if !zone.primaries.is_empty() {
                let message = "the zone is transferred from its primaries: send updates there";
                check.problem(&way("key"), message.to_owned());
            } else if file.history.directory.is_none() {
                let message = "updates need [history] directory: the next start would undo them";
                check.problem(&way("key"), message.to_owned());
            }
            for (index, text) in update.names.iter().enumerate() {
                if let Err(error) = Pattern::parse(text, &name) {
                    let way = at!["zone", zone_at, "update", at, "names", index];
                    check.problem(&way, error.to_string());
                }
            }
            for (index, text) in update.types.iter().enumerate() {
                let way = at!["zone", zone_at, "update", at, "types", index];
                match text.parse::<Type>() {
                    Ok(rtype) if rtype.is_meta() || Grant::is_closed(rtype) => {
                        check.problem(&way, format!("{rtype} records cannot be updated"));
                    }
                    Ok(_) => {}
                    Err(error) => check.problem(&way, format!("`{text}`: {error}")),
                }
            }
        }
    }
}

/// Reports ports that are probed in two ways, and paths that are none.
fn check_port_probes(file: &DnsAuthd, check: &mut Check<'_>) {
    let probes = &file.health.port;
    for (index, probe) in probes.iter().enumerate() {
        if probes
            .iter()
            .take(index)
            .any(|before| before.port == probe.port)
        {
            let message = format!("port {} is there twice", probe.port.get());
            check.problem(&at!["health", "port", index, "port"], message);
        }
        if !probe.path.starts_with('/') {
            check.problem(
                &at!["health", "port", index, "path"],
                "a path begins with /",
            );
        }
    }
}

/// Reports values of `[kubernetes]` that cannot be used, and zones that both a file and the cluster would have.
fn check_kubernetes(file: &DnsAuthd, declared: &[ZoneDecl], check: &mut Check<'_>) {
    let Some(table) = &file.kubernetes else {
        return;
    };
    let options = match dns_kubernetes::Options::of(table) {
        Ok(options) => options,
        Err(refused) => {
            for one in refused {
                match one.index {
                    Some(index) => check.problem(&at!["kubernetes", one.key, index], one.message),
                    None => check.problem(&at!["kubernetes", one.key], one.message),
                }
            }
            return;
        }
    };
    for apex in options.apexes() {
        let is_its = |zone: &ZoneDecl| zone.view.is_none() && zone.name == *apex;
        if declared.iter().any(is_its) {
            let key = if *apex == options.domain {
                "domain"
            } else if Some(apex) == options.external.as_ref() {
                "external"
            } else if options.hostname_zones.contains(apex) {
                "hostname-zones"
            } else {
                "reverse"
            };
            let message = format!("zone {apex} is declared twice");
            check.problem(&at!["kubernetes", key], message);
        }
    }
}

/// Reports lists of nodes that have the name of another, and those that no node can join.
fn check_lists(file: &DnsAuthd, check: &mut Check<'_>) {
    let Some(cluster) = &file.cluster else {
        return;
    };
    for (index, list) in cluster.list.iter().enumerate() {
        let mut before = cluster.list.iter().take(index);
        if before.any(|other| other.name == list.name) {
            let message = format!("there are two lists `{}`", list.name);
            check.problem(&at!["cluster", "list", index, "name"], message);
        }
        if !list.nodes.is_empty() && cluster.networks.is_empty() {
            let message = "no node can join: `networks` of `[cluster]` is empty";
            check.problem(&at!["cluster", "list", index, "nodes"], message);
        }
    }
}

const fn algorithm(configured: KeyAlgorithm) -> Algorithm {
    match configured {
        KeyAlgorithm::HmacMd5 => Algorithm::Md5,
        KeyAlgorithm::HmacSha1 => Algorithm::Sha1,
        KeyAlgorithm::HmacSha224 => Algorithm::Sha224,
        KeyAlgorithm::HmacSha256 => Algorithm::Sha256,
        KeyAlgorithm::HmacSha384 => Algorithm::Sha384,
        KeyAlgorithm::HmacSha512 => Algorithm::Sha512,
    }
}

fn answers(file: &DnsAuthd, host: &str) -> Settings {
    let id = match file.answers.id.as_deref() {
        Some("none" | "") => None,
        Some(id) => Some(id.chars().take(MAX_ID).collect()),
        None => Some(host.to_owned()),
    };
    Settings {
        udp_payload: file.answers.udp_payload.get(),
        nocookie_payload: file
            .cookies
            .nocookie_udp_size
            .get()
            .min(file.answers.udp_payload.get()),
        any: file.answers.any,
        chaos: chaos(&file.answers.version, id.as_deref()),
        nsid: id.map(|id: String| id.into_bytes().into()),
        client_subnet: file.answers.client_subnet,
        keepalive: keepalive(file.tcp.idle.0),
        ..Settings::default()
    }
}

/// The answers to CHAOS TXT questions.
fn chaos(version: &str, id: Option<&str>) -> Vec<(Name, String)> {
    let version = Some(version).filter(|version| !matches!(*version, "none" | ""));
    let entries = [
        ("version.bind.", version),
        ("version.server.", version),
        ("id.server.", id),
        ("hostname.bind.", id),
    ];
    entries
        .into_iter()
        .filter_map(|(name, text)| Some((Name::parse(name).ok()?, text?.to_owned())))
        .collect()
}

/// An idle time in the units of RFC 7828.
fn keepalive(idle: Duration) -> u16 {
    u16::try_from(idle.as_millis() / 100).unwrap_or(u16::MAX)
}
