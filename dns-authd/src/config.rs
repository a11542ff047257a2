//! The configuration: the file, or a pdns.conf in its terms, and what it comes to.
//!
//! Reads no file: the shell does.

pub mod import;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::config::dns_authd::{ADMIN_PORT, DnsAuthd, Tls, Zone};
use ::config::{Address, Check, Document, Problem, Problems, at};
use cidrs::Cidrs;
use daemon::config::Common;
use daemon::tls::CertificateFiles;
use dns_answer::Settings;
use dns_lua::LuaSettings;
use dns_wire::Name;
use dns_zone::Guard;
use dns_zone::parse::Options;
use health::HealthdArg;
use peer_bind::{NamedConf, ZoneDecl, ZoneKind};

use crate::access::Access;

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
    /// The limits of programs, their schedule, and the answers while no target is up.
    pub lua: Arc<LuaSettings>,
    /// How answers are made.
    pub answers: Settings,
    /// The clients that may query, and those that may transfer zones.
    pub access: Access,
    /// Settings that are odd, or not carried over.
    pub warnings: Vec<Problem>,
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
    pub fn of(file: DnsAuthd, declared: Vec<ZoneDecl>, warnings: Vec<Problem>, host: &str) -> Self {
        let access = Access {
            ask: file.allow_from.as_deref().cloned(),
            transfer: Cidrs::clone(&file.transfers.allow),
        };
        Self {
            common: Common::of(file.log, file.admin, file.drain),
            zones: Zones::of(&file, declared),
            lua: Arc::new(LuaSettings {
                limits: file.lua,
                health: file.health.clone(),
            }),
            answers: answers(&file, host),
            access,
            warnings,
            file,
        }
    }

    /// Parses the text of a configuration file. `read` reads the named.conf that it names.
    ///
    /// # Errors
    /// Everything that is wrong with it, and with the named.conf.
    pub fn from_document(
        document: &Document,
        host: &str,
        read: impl FnOnce(&Path) -> Result<NamedConf, Problems>,
    ) -> Result<Self, Problems> {
        let (mut declared, mut warnings) = (Vec::new(), Vec::new());
        let file = document.parse_with(|file: &DnsAuthd, check| {
            match file.zones.named_conf.as_deref().map(read) {
                Some(Ok(named)) => {
                    declared.extend(named.zones.into_iter().filter(ZoneDecl::is_served));
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
                    Ok(zone) if declared.iter().any(|known| known.name == zone.name) => {
                        let message = format!("zone {} is declared twice", zone.name);
                        check.problem(&at!["zone", index, "name"], message);
                    }
                    Ok(zone) => declared.push(zone),
                    Err(message) => check.problem(&at!["zone", index, "name"], message),
                }
            }
            let lists = [
                (file.allow_from.as_ref(), &at!["allow-from"][..]),
                (Some(&file.transfers.allow), &at!["transfers", "allow"]),
            ];
            for (list, way) in lists {
                let odd = list.map(|list| list.warnings_at(check.position(way)));
                warnings.extend(odd.into_iter().flatten());
            }
            if let Some(tls) = &file.tls
                && !tls.is_path()
            {
                let path = &tls.doh_path;
                let message = format!("doh-path is the path of a URL, as /dns-query, not `{path}`");
                check.problem(&at!["tls", "doh-path"], message);
            }
        })?;
        Ok(Self::of(file, declared, warnings, host))
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
        kind: ZoneKind::Primary,
        file: Some(home.map_or_else(|| zone.file.clone(), |home| home.join(&zone.file))),
        primaries: Vec::new(),
        also_notify: Vec::new(),
        position: check.position(&at!["zone", index, "name"]),
    })
}

fn answers(file: &DnsAuthd, host: &str) -> Settings {
    let id = match file.answers.id.as_deref() {
        Some("none" | "") => None,
        Some(id) => Some(id.chars().take(MAX_ID).collect()),
        None => Some(host.to_owned()),
    };
    Settings {
        udp_payload: file.answers.udp_payload.get(),
        any: file.answers.any,
        chaos: chaos(&file.answers.version, id.as_deref()),
        nsid: id.map(|id: String| id.into_bytes().into()),
        client_subnet: file.answers.client_subnet,
        keepalive: keepalive(file.tcp.idle.0),
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
