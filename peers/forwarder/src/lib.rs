//! The common parts of the configurations of all forwarding DNS servers.
//!
//! A reader of one format returns a [`Forwarder`], or every error of the file and the remarks about the rest. Reads files
//! only through [`Files`].

pub mod resolv_conf;

use std::fmt;
use std::mem::discriminant;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{Files, Position, Problem};

/// The configuration in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarder {
    pub listen: Vec<SocketAddr>,
    /// Whether clients of every network have access.
    pub open: bool,
    pub forwards: Vec<Forward>,
    /// Names with addresses or an alias, each once.
    pub names: Vec<GivenName>,
    /// Rules that change questions, in the order of the file.
    pub rewrites: Vec<Rewrite>,
    /// Files in the form of /etc/hosts, each once.
    pub hosts: Vec<PathBuf>,
    /// The settings in the order of the file, each kind once.
    pub settings: Vec<Setting>,
    /// The remarks in the order of the file.
    pub remarks: Vec<Remark>,
}

/// A zone and its upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub zone: String,
    pub upstreams: Vec<SocketAddr>,
    /// The order of the upstreams; `None` is the default of this server.
    pub policy: Option<Policy>,
    /// Whether queries go over TCP only.
    pub tcp: bool,
    /// Whether they go over TLS, and who the upstreams have to be.
    pub tls: Option<Tls>,
}

/// The identity of upstreams that get queries over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The name in their certificates; `None` for their addresses.
    pub server_name: Option<String>,
    /// The file of the authorities that sign them; `None` for those of the system.
    pub ca: Option<PathBuf>,
}

/// A name with addresses or an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenName {
    /// The name; `*.` before it means all names below.
    pub name: String,
    pub addresses: Vec<IpAddr>,
    pub alias: Option<String>,
    /// In seconds; `None` is the default of this server.
    pub ttl: Option<u32>,
    /// Whether its addresses have it in the reverse zone.
    pub has_reverse: bool,
}

/// A rule that changes questions, and the names of the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    pub kind: RewriteKind,
    pub from: String,
    pub to: String,
    /// Whether names of the answer are changed back.
    pub reverts: bool,
    /// Regular expressions for the owners of records in the answer, and their replacements.
    pub owners: Vec<[String; 2]>,
    /// The same for names in data.
    pub values: Vec<[String; 2]>,
    /// Whether the rules behind it are applied, too.
    pub goes_on: bool,
}

/// The part of a question that a rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteKind {
    Exact,
    Prefix,
    Suffix,
    Substring,
    Regex,
    Type,
}

/// The order of a zone's upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Sequential,
    RoundRobin,
    Random,
}

/// A setting of the whole server. TTLs are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The most answers in the cache.
    Entries(u32),
    /// The most denials in the cache.
    NegativeEntries(u32),
    MinTtl(u32),
    MaxTtl(u32),
    NegativeMaxTtl(u32),
    /// The time that an expired answer may still be used: a number with its unit, such as `1h`.
    StaleMaxAge(String),
    /// How long the server keeps answering when it stops: a number with its unit.
    Lameduck(String),
    /// The most questions that are resolved at once.
    MaxQuestions(u32),
    /// Reverse names of private networks do not exist.
    PrivateReverse,
    /// Names of one label have no addresses.
    DomainNeeded,
    /// The TTL of names of hosts files.
    HostsTtl(u32),
    /// The addresses of hosts files have no names in the reverse zone.
    HostsWithoutReverse,
    /// The answer to `version.bind`.
    Version(String),
    /// Queries are logged, whose responses are of these classes: `all`, `success`, `denial` or `error`.
    QueryLog(Vec<String>),
    /// Messages go to a reader of dnstap.
    Dnstap {
        /// Its Unix socket.
        socket: PathBuf,
        /// The name of the server in them.
        identity: Option<String>,
    },
    /// AAAA records are made of A records.
    Dns64 {
        /// The prefixes of the NAT64; none for the well-known one.
        prefixes: Vec<String>,
        /// Whether clients get them that ask over IPv4.
        over_ipv4: bool,
        /// Whether they replace a name's own AAAA records.
        all: bool,
    },
}

/// A remark for the operator about the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A setting without a counterpart.
    NotCarried {
        at: Position,
        what: String,
        reason: String,
    },
    /// A setting that is understood, but odd.
    Odd(Problem),
}

/// A file that has an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Its errors.
    pub problems: Vec<Problem>,
    /// The remarks about the rest.
    pub remarks: Vec<Remark>,
}

impl From<Problem> for Rejected {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            remarks: Vec::new(),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCarried { at, what, reason } => {
                write!(f, "{at}: `{what}` is not carried over: {reason}")
            }
            Self::Odd(problem) => problem.fmt(f),
        }
    }
}

impl Forwarder {
    /// Adds a setting; the first of its kind counts.
    pub fn set(&mut self, setting: Setting) {
        let is_set = |known: &Setting| discriminant(known) == discriminant(&setting);
        if !self.settings.iter().any(is_set) {
            self.settings.push(setting);
        }
    }

    /// Adds addresses of a name, to those that it has.
    pub fn give(&mut self, name: GivenName) {
        match self.names.iter_mut().find(|known| known.name == name.name) {
            Some(known) => {
                let new = name.addresses.into_iter();
                let new: Vec<IpAddr> = new.filter(|it| !known.addresses.contains(it)).collect();
                known.addresses.extend(new);
            }
            None => self.names.push(name),
        }
    }

    /// Adds a hosts file.
    pub fn add_hosts(&mut self, path: &Path) {
        if !self.hosts.iter().any(|known| known == path) {
            self.hosts.push(path.to_owned());
        }
    }

    /// Notes a setting without a counterpart: once, at its first place, however often it is there.
    pub fn not_carried(&mut self, at: &Position, what: &str, reason: &str) {
        let wanted = what.replace(['\n', '\r'], " ");
        let is_known = self.remarks.iter().any(|remark| {
            matches!(remark, Remark::NotCarried { what, reason: known, .. } if *what == wanted && known == reason)
        });
        if !is_known {
            self.remarks.push(Remark::NotCarried {
                at: at.clone(),
                what: wanted,
                reason: reason.to_owned(),
            });
        }
    }

    /// Notes something odd.
    pub fn odd(&mut self, at: Option<&Position>, message: String) {
        self.remarks.push(Remark::Odd(Problem {
            position: at.cloned(),
            message,
        }));
    }
}

/// Reads an address that may have `separator` and a port behind it.
pub fn address(text: &str, separator: char, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, port));
    }
    if separator == ':' {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let bare = bare.and_then(|bare| bare.parse().ok());
        return bare
            .map(|address| SocketAddr::new(address, port))
            .or_else(|| text.parse().ok());
    }
    let (address, port) = text.split_once(separator)?;
    Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
}

/// The name servers of a resolv.conf (resolv.conf(5)).
pub fn name_servers(path: &Path, files: &mut dyn Files) -> Result<Vec<SocketAddr>, String> {
    let text = files
        .read(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then_some(())?;
        // A zone id, as in fe80::1%eth0, has no counterpart.
        address(words.next()?, ':', 53)
    });
    Ok(servers.collect())
}

/// A place in a file; line and column count from 1.
pub fn position(file: &Arc<Path>, line: usize, column: usize) -> Position {
    Position {
        file: Arc::clone(file),
        line,
        column,
    }
}
