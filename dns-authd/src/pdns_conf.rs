//! The pdns.conf of the `PowerDNS` authoritative server, as far as it can be honoured.
//!
//! ```text
//! launch=bind
//! local-address=127.0.0.1
//! local-port=5301
//! bind-config=/etc/pdns/bind.conf
//! enable-lua-records=yes
//! ```
//!
//! Lines are read as `pdns_server` reads them: `key=value`, `key+=value`, `\` at the end of a
//! line that goes on, and comments from a `#` that begins the line or follows a blank. Settings
//! of the command line come after those of the files. `include-dir` is followed.
//!
//! A setting that pdns knows but that has no counterpart here is listed in
//! [`PdnsConf::dropped`] with the reason; one that pdns does not know either is an error, as it
//! is for pdns.
//!
//! Reads nothing but through [`Files`], and never panics on any input.

mod keys;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::position::{MAX_PROBLEMS, Position, Problem, Rejected};
use keys::Fate;

/// What a pdns.conf says to this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdnsConf {
    /// Where queries are listened for.
    pub listen: Vec<SocketAddr>,
    /// The zone list.
    pub bind_config: PathBuf,
    /// How often zone files are looked at; `None` is never.
    pub check_interval: Option<Duration>,
    /// How master files are read.
    pub zone_files: ZoneFiles,
    /// What becomes of `LUA` records.
    pub lua: Lua,
    /// How answers are made.
    pub answers: Answers,
    /// Who may transfer zones.
    pub transfers: Transfers,
    /// How the network is used.
    pub network: Network,
    /// What is not carried over.
    pub dropped: Vec<Dropped>,
    /// Every file that was read, pdns.conf itself first.
    pub files: Vec<PathBuf>,
}

/// How master files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFiles {
    /// `default-ttl`: the TTL of records for which no file states any.
    pub default_ttl: u32,
    /// `max-include-depth`.
    pub include_depth: usize,
    /// `max-generate-steps`; 0 is no limit.
    pub generate_steps: u32,
    /// `bind-ignore-broken-records`: records outside the zone are left out, not refused.
    pub skip_out_of_zone: bool,
}

/// What becomes of `LUA` records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lua {
    /// `enable-lua-records`.
    pub records: LuaRecords,
    /// `lua-records-exec-limit`: how many instructions one run may take; `None` is no limit.
    pub exec_limit: Option<u32>,
    /// `lua-health-checks-interval`.
    pub check_interval: Duration,
    /// `lua-records-insert-whitespace`: a blank goes between the strings of a record.
    pub whitespace: bool,
}

/// `enable-lua-records`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaRecords {
    /// `LUA` records are not answered.
    No,
    /// Every query starts with a fresh state.
    Yes,
    /// State is kept from query to query.
    Shared,
}

/// How answers are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// `any-to-tcp`: ANY over UDP is answered with TC.
    pub any_to_tcp: bool,
    /// `edns-subnet-processing`.
    pub client_subnet: bool,
    /// `udp-truncation-threshold`: the longest answer over UDP.
    pub udp_limit: u16,
    /// `version-string`: what `version.bind` is answered with.
    pub version: Version,
    /// `server-id`: what `id.server` is answered with; `None` is the host's name.
    pub server_id: Option<String>,
}

/// `version-string`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// Name and version of the server.
    Full,
    /// The name of the server.
    Name,
    /// No answer.
    Anonymous,
    /// This text.
    Text(String),
}

/// Who may transfer zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// `disable-axfr`.
    pub disabled: bool,
    /// `allow-axfr-ips`.
    pub allowed: Vec<IpNet>,
}

/// How the network is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// `receiver-threads`.
    pub receivers: usize,
    /// `max-tcp-connections`.
    pub tcp_connections: usize,
    /// `tcp-idle-timeout`.
    pub tcp_idle: Duration,
}

/// A setting without a counterpart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Why there is no counterpart.
    pub reason: &'static str,
    /// Where it is set; `None` on the command line.
    pub position: Option<Position>,
}

/// How files are reached.
pub trait Files {
    /// Reads a file's octets.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files in a directory, in any order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>>;
}

/// Reads the pdns.conf at `path`, what it includes, and then `arguments`: settings of
/// `pdns_server`'s command line, without their `--`.
///
/// # Errors
/// When a file cannot be read, a setting is unknown or its value makes no sense, or there is no
/// zone list for the bind backend.
pub fn parse(
    path: &Path,
    files: &mut dyn Files,
    arguments: &[(String, String)],
) -> Result<PdnsConf, Rejected> {
    let mut reader = Reader {
        settings: BTreeMap::new(),
        problems: Vec::new(),
        files: Vec::new(),
    };
    reader.file(path, files);
    if let Some(directory) = reader.settings.get("include-dir") {
        let directory = directory.clone();
        reader.directory(&directory, files);
    }
    for (key, value) in arguments {
        reader.set(key, value.clone(), false, None);
    }
    reader.finish()
}

/// Reads a pdns.conf from octets, with nothing to include.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(text: &[u8]) -> Result<PdnsConf, Rejected> {
    /// One file, and no directories.
    struct One<'a>(&'a [u8]);
    impl Files for One<'_> {
        fn read(&mut self, _path: &Path) -> io::Result<Vec<u8>> {
            Ok(self.0.to_vec())
        }

        fn list(&mut self, _directory: &Path) -> io::Result<Vec<PathBuf>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }
    parse(Path::new("pdns.conf"), &mut One(text), &[])
}

//--- Lines

/// Settings as they are gathered.
struct Reader {
    settings: BTreeMap<String, Setting>,
    problems: Vec<Problem>,
    files: Vec<PathBuf>,
}

/// A setting as it is written.
#[derive(Clone)]
struct Setting {
    value: String,
    position: Option<Position>,
}

impl Reader {
    fn file(&mut self, path: &Path, files: &mut dyn Files) {
        self.files.push(path.to_owned());
        let text = match files.read(path) {
            Ok(text) => text,
            Err(error) => {
                self.problem(None, format!("cannot read {}: {error}", path.display()));
                return;
            }
        };
        let file: Arc<Path> = path.into();
        let (mut line, mut first) = (String::new(), None);
        for (number, part) in (1..).zip(text.split(|octet| *octet == b'\n')) {
            let part = String::from_utf8_lossy(part);
            let part = part.trim_end();
            let start = *first.get_or_insert(number);
            if let Some(part) = part.strip_suffix('\\') {
                line.push_str(part);
                continue;
            }
            line.push_str(part);
            self.line(&line, &file, start);
            line.clear();
            first = None;
        }
        if let Some(start) = first {
            self.line(&line, &file, start);
        }
    }

    fn line(&mut self, line: &str, file: &Arc<Path>, number: usize) {
        let text = without_comment(line);
        let setting = text.trim();
        if setting.is_empty() {
            return;
        }
        let indent = text
            .chars()
            .take_while(|letter| letter.is_whitespace())
            .count();
        let position = Position {
            file: Arc::clone(file),
            line: number,
            column: indent + 1,
        };
        // A setting without a value is a switch that is on.
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (key, append) = match key.strip_suffix('+') {
            Some(key) => (key, true),
            None => (key, false),
        };
        self.set(key.trim(), value.trim().to_owned(), append, Some(position));
    }

    fn set(&mut self, key: &str, value: String, append: bool, position: Option<Position>) {
        match keys::fate(key) {
            None if self.ignores(key) => {}
            None if self.problems.len() >= MAX_PROBLEMS => return,
            None => {
                let hint = keys::nearest(key).map(|known| format!(", did you mean `{known}`?"));
                let hint = hint.unwrap_or_default();
                self.problem(position, format!("unknown setting `{key}`{hint}"));
                return;
            }
            Some(_) => {}
        }
        match self.settings.get_mut(key) {
            Some(setting) if append && !setting.value.is_empty() => {
                setting.value = format!("{}, {value}", setting.value);
            }
            None if append => {
                self.problem(
                    position,
                    format!("`{key}+=` adds to a setting that is not set"),
                );
            }
            _ => {
                self.settings
                    .insert(key.to_owned(), Setting { value, position });
            }
        }
    }

    /// Whether an unknown setting is to be passed over.
    fn ignores(&self, key: &str) -> bool {
        let ignored = self.settings.get("ignore-unknown-settings");
        ignored.is_some_and(|setting| items(&setting.value).any(|item| item == key))
    }

    /// Reads every `*.conf` of a directory; pdns takes them in the order of their names.
    fn directory(&mut self, setting: &Setting, files: &mut dyn Files) {
        let directory = Path::new(&setting.value);
        if setting.value.is_empty() {
            return;
        }
        match files.list(directory) {
            Ok(mut paths) => {
                paths.sort();
                for path in paths {
                    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                    if name.ends_with(b".conf") && !name.starts_with(b".") {
                        self.file(&path, files);
                    }
                }
            }
            Err(error) => {
                let message = format!("cannot read {}: {error}", directory.display());
                self.problem(setting.position.clone(), message);
            }
        }
    }

    fn problem(&mut self, position: Option<Position>, message: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { position, message });
        }
    }
}

/// The line up to a `#` that begins it or follows a blank.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        if letter == '#' && before.is_whitespace() {
            return line.split_at_checked(at).map_or(line, |(text, _)| text);
        }
        before = letter;
    }
    line
}

/// The items of a list, which commas, semicolons and blanks separate.
fn items(value: &str) -> impl Iterator<Item = &str> {
    value
        .split([' ', '\t', ',', ';'])
        .filter(|item| !item.is_empty())
}

//--- Values

const DNS_PORT: u16 = 53;

impl Reader {
    fn finish(mut self) -> Result<PdnsConf, Rejected> {
        let bind_config = self.demand_bind();
        let port = self.number("local-port", DNS_PORT);
        let conf = PdnsConf {
            listen: self.addresses("local-address", port).unwrap_or_else(|| {
                let any = [
                    IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    Ipv6Addr::UNSPECIFIED.into(),
                ];
                any.map(|address| SocketAddr::new(address, port)).to_vec()
            }),
            bind_config,
            check_interval: match self.number("bind-check-interval", 0) {
                0 => None,
                seconds => Some(Duration::from_secs(seconds)),
            },
            zone_files: ZoneFiles {
                default_ttl: self.number("default-ttl", 3600),
                include_depth: self.number("max-include-depth", 20),
                generate_steps: self.number("max-generate-steps", 0),
                skip_out_of_zone: self.switch("bind-ignore-broken-records", false),
            },
            lua: self.lua(),
            answers: self.answers(),
            transfers: Transfers {
                disabled: self.switch("disable-axfr", false),
                allowed: self.networks("allow-axfr-ips"),
            },
            network: Network {
                receivers: self.number("receiver-threads", 1),
                tcp_connections: self.number("max-tcp-connections", 20),
                tcp_idle: Duration::from_secs(self.number("tcp-idle-timeout", 5)),
            },
            dropped: self.dropped(),
            files: Vec::new(),
        };
        if !self.problems.is_empty() {
            return Err(Rejected {
                problems: self.problems,
                files: self.files,
            });
        }
        Ok(PdnsConf {
            files: self.files,
            ..conf
        })
    }

    /// The zone list of the bind backend, without which there is nothing to serve.
    fn demand_bind(&mut self) -> PathBuf {
        let launch = self.settings.get("launch").cloned();
        let bind = launch
            .as_ref()
            .is_some_and(|it| items(&it.value).any(|item| item == "bind"));
        if !bind {
            let position = launch.and_then(|setting| setting.position);
            let message = "`launch=bind` is missing: only the bind backend's zones are served";
            self.problem(position, message.to_owned());
        }
        match self.settings.get("bind-config") {
            Some(setting) if !setting.value.is_empty() => PathBuf::from(&setting.value),
            _ => {
                self.problem(
                    None,
                    "`bind-config` is missing: it names the zone list".to_owned(),
                );
                PathBuf::new()
            }
        }
    }

    fn lua(&mut self) -> Lua {
        let records = match self.text("enable-lua-records") {
            None => LuaRecords::No,
            Some(setting) => match setting.value.as_str() {
                "no" | "off" => LuaRecords::No,
                "shared" => LuaRecords::Shared,
                _ => LuaRecords::Yes,
            },
        };
        let limit: i64 = self.number("lua-records-exec-limit", 1000);
        Lua {
            records,
            exec_limit: u32::try_from(limit).ok().filter(|limit| *limit > 0),
            check_interval: Duration::from_secs(self.number("lua-health-checks-interval", 5)),
            // Before 5.0 pdns joined with a blank and had no such setting.
            whitespace: self.switch("lua-records-insert-whitespace", true),
        }
    }

    fn answers(&mut self) -> Answers {
        let version = match self.text("version-string") {
            None => Version::Full,
            Some(setting) => match setting.value.as_str() {
                "full" => Version::Full,
                "powerdns" => Version::Name,
                "anonymous" => Version::Anonymous,
                text => Version::Text(text.to_owned()),
            },
        };
        let server_id = self
            .text("server-id")
            .filter(|setting| !setting.value.is_empty());
        Answers {
            any_to_tcp: self.switch("any-to-tcp", true),
            client_subnet: self.switch("edns-subnet-processing", false),
            udp_limit: self.number("udp-truncation-threshold", 1232),
            version,
            server_id: server_id.map(|setting| setting.value),
        }
    }

    fn text(&self, key: &str) -> Option<Setting> {
        self.settings.get(key).cloned()
    }

    /// A switch is on unless it says no.
    fn switch(&self, key: &str, default: bool) -> bool {
        let setting = self.settings.get(key);
        setting.map_or(default, |setting| {
            !matches!(setting.value.as_str(), "no" | "off")
        })
    }

    fn number<T: std::str::FromStr>(&mut self, key: &str, default: T) -> T {
        let Some(setting) = self.text(key).filter(|setting| !setting.value.is_empty()) else {
            return default;
        };
        setting.value.parse().unwrap_or_else(|_| {
            let message = format!("`{key}` takes a number, not `{}`", setting.value);
            self.problem(setting.position, message);
            default
        })
    }

    /// A list of addresses, with ports or without; `None` when it is not set.
    fn addresses(&mut self, key: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let setting = self.text(key)?;
        let mut addresses = Vec::new();
        for item in items(&setting.value) {
            match address(item, port) {
                Some(address) => addresses.push(address),
                None => {
                    let message = format!("`{key}` takes addresses, and `{item}` is none");
                    self.problem(setting.position.clone(), message);
                }
            }
        }
        Some(addresses)
    }

    /// Networks that may transfer zones; without the setting only this host.
    fn networks(&mut self, key: &str) -> Vec<IpNet> {
        let setting = self.text(key).unwrap_or_else(|| Setting {
            value: "127.0.0.0/8,::1".to_owned(),
            position: None,
        });
        let mut networks = Vec::new();
        for item in items(&setting.value) {
            let network = item
                .parse()
                .or_else(|_| item.parse::<IpAddr>().map(IpNet::from));
            match network {
                Ok(network) => networks.push(network),
                Err(_) => {
                    let message = format!("`{key}` takes networks, and `{item}` is none");
                    self.problem(setting.position.clone(), message);
                }
            }
        }
        networks
    }

    fn dropped(&self) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for (key, setting) in &self.settings {
            let reason = match keys::fate(key) {
                Some(Fate::Kept) => continue,
                Some(Fate::Dropped(reason)) => reason,
                None => "`ignore-unknown-settings` names it",
            };
            let Setting { value, position } = setting.clone();
            dropped.push(Dropped {
                key: key.clone(),
                value,
                reason,
                position,
            });
        }
        // As they stand in the files.
        dropped.sort_by(|a, b| a.position.cmp(&b.position));
        dropped
    }
}

/// An address, alone or with a port; one of IPv6 needs brackets for that.
fn address(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(SocketAddr::new(address, port)),
        Err(_) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
