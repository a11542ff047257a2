//! A proxy section with what it inherits, read keyword by keyword.

use std::net::IpAddr;
use std::time::Duration;

use config::lb_proxy::Balance;
use config::{Class, Notes};
use config_text::Position;

use super::HostInfo;
use super::bind::{Bind, bind};
use super::check::Check;
use super::condition::Acls;
use super::lexer::Line;
use super::reasons::{self, Disposition};
use super::server::{Options, Server, server, template};
use super::tcp_check::{self, TcpCheck};
use super::tree::{Kind, Section, Tree};
use super::values::{Address, Host, address, time};

/// A frontend, a backend, or both.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword that is there or not"
)]
pub(super) struct Proxy<'a> {
    pub(super) kind: Kind,
    pub(super) name: &'a str,
    pub(super) at: Position,
    pub(super) is_http: bool,
    pub(super) is_disabled: bool,
    pub(super) binds: Vec<Bind>,
    pub(super) max_connections: Option<u32>,
    pub(super) timeouts: Timeouts,
    pub(super) retries: Option<u8>,
    pub(super) balance: Option<Balance>,
    pub(super) check: Check,
    /// The `tcp-check` rules, whatever the check is.
    pub(super) tcp_check: TcpCheck,
    tcp_check_at: Option<&'a Line>,
    pub(super) logs: bool,
    pub(super) servers: Vec<Server>,
    pub(super) acls: Acls,
    pub(super) default_backend: Option<(&'a str, &'a Position)>,
    pub(super) use_backends: Vec<&'a Line>,
    pub(super) tcp_requests: Vec<&'a Line>,
    /// A rule that lb-proxy has nothing for counts in a stick table.
    pub(super) counts_otherwise: bool,
    /// The last `stick-table`.
    pub(super) stick_table: Option<&'a Line>,
    /// The last `monitor-uri`.
    pub(super) monitor: Option<&'a Line>,
    pub(super) monitor_fails: Vec<&'a Line>,
    pub(super) inspect_delay: Option<Duration>,
    pub(super) uses_all_backups: bool,
    /// A connection that fails goes to another server.
    pub(super) redispatches: bool,
    pub(super) source_address: Option<IpAddr>,
    server_options: Options,
}

/// `timeout` of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timeouts {
    pub(super) connect: Option<Duration>,
    pub(super) client: Option<Duration>,
    pub(super) server: Option<Duration>,
    pub(super) tunnel: Option<Duration>,
    pub(super) client_fin: Option<Duration>,
    pub(super) server_fin: Option<Duration>,
    pub(super) queue: Option<Duration>,
    pub(super) check: Option<Duration>,
}

/// All proxies of a file.
pub(super) fn proxies<'a>(
    tree: &'a Tree,
    notes: &mut Notes,
    surroundings: &dyn HostInfo,
) -> Vec<Proxy<'a>> {
    let mut proxies = Vec::new();
    for (index, section) in tree.sections.iter().enumerate() {
        if !matches!(section.kind, Kind::Frontend | Kind::Backend | Kind::Listen) {
            continue;
        }
        let (Some(name), Some(at)) = (section.name(), section.head.position()) else {
            continue;
        };
        let mut proxy = Proxy::new(section.kind, &name.text, at.clone());
        let inherited = defaults(tree, index, section, notes);
        for line in inherited.into_iter().flat_map(|section| &section.lines) {
            proxy.read(line, notes, surroundings);
        }
        let rest = section.head.from(2);
        if !rest.is_empty() && section.from().is_none() {
            let reason = "write the address as a `bind` of its own";
            notes.lost(Class::Behaviour, at, &section.head.text(), reason);
        }
        for line in &section.lines {
            proxy.read(line, notes, surroundings);
        }
        proxy.rules_count(notes);
        proxies.push(proxy);
    }
    proxies
}

/// The `defaults` sections that apply to the section at `index`, the remotest first: the one it names,
/// or the last before it; and those that that one names in turn.
fn defaults<'a>(
    tree: &'a Tree,
    index: usize,
    section: &Section,
    notes: &mut Notes,
) -> Vec<&'a Section> {
    let mut chain: Vec<&Section> = Vec::new();
    let before = tree.sections.get(..index).unwrap_or_default();
    let is_defaults = |section: &&Section| section.kind == Kind::Defaults;
    let mut next = match section.from() {
        Some(name) => named(tree, name, notes),
        None => before.iter().rev().find(is_defaults),
    };
    while let Some(found) = next {
        // A section that is there twice has come in a circle.
        if chain.iter().any(|known| std::ptr::eq(*known, found)) {
            break;
        }
        chain.push(found);
        next = found.from().and_then(|name| named(tree, name, notes));
    }
    chain.reverse();
    chain
}

fn named<'a>(tree: &'a Tree, name: &super::lexer::Word, notes: &mut Notes) -> Option<&'a Section> {
    let found = tree.sections.iter().find(|section| {
        let own = section.name().map(|own| own.text.as_str());
        section.kind == Kind::Defaults && own == Some(&name.text)
    });
    if found.is_none() {
        let what = format!("from {}", name.text);
        notes.lost(
            Class::Behaviour,
            &name.position,
            &what,
            "there is no such defaults section",
        );
    }
    found
}

impl<'a> Proxy<'a> {
    fn new(kind: Kind, name: &'a str, at: Position) -> Self {
        Self {
            kind,
            name,
            at,
            is_http: false,
            is_disabled: false,
            binds: Vec::new(),
            max_connections: None,
            timeouts: Timeouts::default(),
            retries: None,
            balance: None,
            check: Check::default(),
            tcp_check: TcpCheck::default(),
            tcp_check_at: None,
            logs: false,
            servers: Vec::new(),
            acls: Acls::default(),
            default_backend: None,
            use_backends: Vec::new(),
            tcp_requests: Vec::new(),
            counts_otherwise: false,
            stick_table: None,
            monitor: None,
            monitor_fails: Vec::new(),
            inspect_delay: None,
            uses_all_backups: false,
            redispatches: false,
            source_address: None,
            server_options: Options::default(),
        }
    }

    /// Rules of a check that is not made say nothing.
    fn rules_count(&self, notes: &mut Notes) {
        if let Some(line) = self.tcp_check_at
            && self.check != Check::Rules
            && let Some(at) = line.position()
        {
            let reason = "there is no `option tcp-check`";
            notes.lost(Class::Behaviour, at, &line.text(), reason);
        }
    }

    /// True when clients can connect to it.
    pub(super) fn is_frontend(&self) -> bool {
        matches!(self.kind, Kind::Frontend | Kind::Listen)
    }

    /// True when it has, or should have, servers.
    pub(super) fn is_backend(&self) -> bool {
        self.kind == Kind::Backend || !self.servers.is_empty()
    }

    /// True when it leads nowhere: it serves HAProxy's own pages.
    pub(super) fn is_for_haproxy(&self) -> bool {
        self.kind != Kind::Backend
            && self.servers.is_empty()
            && self.default_backend.is_none()
            && self.use_backends.is_empty()
    }

    fn read(&mut self, line: &'a Line, notes: &mut Notes, surroundings: &dyn HostInfo) {
        let (Some(at), Some(keyword)) = (line.position(), line.word(0)) else {
            return;
        };
        let is_count = |word: Option<&str>| word.is_some_and(|it| it.starts_with("track-sc"));
        let is_other = matches!(keyword, "http-request" | "http-response" | "tcp-response");
        self.counts_otherwise |= is_other && (is_count(line.word(1)) || is_count(line.word(2)));
        match keyword {
            "mode" => self.mode(line, notes),
            "bind" => self.binds.extend(bind(line, notes, surroundings)),
            "server" => self
                .servers
                .extend(server(line, &self.server_options, notes)),
            "server-template" => self
                .servers
                .extend(template(line, &self.server_options, notes)),
            "default-server" => self.server_options.read(line.from(1), notes),
            "balance" => self.balance(line, notes),
            "http-check" => self.check.http_rule(line, notes),
            "tcp-check" => {
                self.tcp_check_at = Some(line);
                self.tcp_check.rule(line, notes);
            }
            "option" => self.option(line, true, notes),
            "no" if line.word(1) == Some("option") => self.option(line, false, notes),
            "timeout" => self.timeout(line, notes),
            "disabled" => self.is_disabled = true,
            "enabled" => self.is_disabled = false,
            // The log's destination is set once, for the whole.
            "log" => self.logs = true,
            "no" if line.word(1) == Some("log") => self.logs = false,
            "source" => match (line.word(1).and_then(plain_address), line.word(2)) {
                (Some(address), None) => self.source_address = Some(address),
                _ => not_known(
                    line,
                    "connections are made from one address, without a port",
                    notes,
                ),
            },
            "acl" => self.acls.add(line),
            "use_backend" => self.use_backends.push(line),
            "default_backend" => self.default_backend = line.word(1).map(|name| (name, at)),
            "monitor-uri" => self.monitor = Some(line),
            "monitor" if line.word(1) == Some("fail") => self.monitor_fails.push(line),
            "stick-table" => self.stick_table = Some(line),
            "tcp-request" => self.tcp_request(line, notes),
            "maxconn" => match line.word(1).and_then(|number| number.parse().ok()) {
                Some(number) => self.max_connections = Some(number),
                None => notes.lost(Class::Security, at, &line.text(), NUMBER),
            },
            "retries" => match line.word(1).and_then(|number| number.parse().ok()) {
                Some(number) => self.retries = Some(number),
                None => notes.lost(Class::Behaviour, at, &line.text(), NUMBER),
            },
            _ => lost(line, notes),
        }
    }

    fn mode(&mut self, line: &Line, notes: &mut Notes) {
        match line.word(1) {
            Some("tcp") => self.is_http = false,
            Some("http") => self.is_http = true,
            _ => not_known(line, "a proxy is of TCP", notes),
        }
    }

    fn balance(&mut self, line: &Line, notes: &mut Notes) {
        let algorithm = line.word(1).unwrap_or_default();
        self.balance = match algorithm.split('(').next() {
            Some("roundrobin" | "static-rr") => Some(Balance::RoundRobin),
            Some("leastconn") => Some(Balance::LeastConnections),
            Some("random") => Some(Balance::RandomOfTwo),
            Some("source") => Some(Balance::Source),
            Some("hash") if line.word(2) == Some("src") => Some(Balance::Source),
            _ => {
                not_known(
                    line,
                    "connections are balanced by what is known of them",
                    notes,
                );
                None
            }
        };
    }

    fn option(&mut self, line: &'a Line, is_on: bool, notes: &mut Notes) {
        let at = if is_on { 1 } else { 2 };
        match (line.word(at).unwrap_or_default(), is_on) {
            ("httpchk", true) => self.check = Check::http(line.from(at + 1)),
            ("httpchk", false) | ("tcp-check", false) => self.check = Check::Connect,
            ("tcp-check", true) => self.check = Check::Rules,
            ("allbackups", is_on) => self.uses_all_backups = is_on,
            ("redispatch", is_on) => self.redispatches = is_on,
            ("tcplog" | "httplog", is_on) => self.logs |= is_on,
            (
                name @ ("ssl-hello-chk" | "ldap-check" | "mysql-check" | "pgsql-check"
                | "redis-check" | "smtpchk" | "spop-check"),
                true,
            ) => {
                if let Some(check) = tcp_check::option(name, line.from(at + 1)) {
                    self.check = Check::Tcp(check);
                    return;
                }
                self.check = Check::Connect;
                if let Some(at) = line.position() {
                    notes.differs(
                        Class::Behaviour,
                        at,
                        &line.text(),
                        "a server is up when it accepts a connection",
                    );
                }
            }
            _ => lost(line, notes),
        }
    }

    fn timeout(&mut self, line: &Line, notes: &mut Notes) {
        let timeouts = &mut self.timeouts;
        let slot = match line.word(1).unwrap_or_default() {
            "connect" => &mut timeouts.connect,
            "client" => &mut timeouts.client,
            "server" => &mut timeouts.server,
            "tunnel" => &mut timeouts.tunnel,
            "client-fin" => &mut timeouts.client_fin,
            "server-fin" => &mut timeouts.server_fin,
            "queue" => &mut timeouts.queue,
            "check" => &mut timeouts.check,
            _ => return lost(line, notes),
        };
        match line.word(2).and_then(time) {
            // No time at all stands for none.
            Some(value) => *slot = Some(value).filter(|value| !value.is_zero()),
            None => not_known(line, "its value is no time", notes),
        }
    }

    fn tcp_request(&mut self, line: &'a Line, notes: &mut Notes) {
        match line.word(1) {
            Some("inspect-delay") => match line.word(2).and_then(time) {
                Some(delay) => self.inspect_delay = Some(delay),
                None => not_known(line, "its value is no time", notes),
            },
            Some("connection" | "content" | "session") => self.tcp_requests.push(line),
            _ => not_known(line, "it has no counterpart", notes),
        }
    }
}

/// An address with no port, or port 0.
fn plain_address(text: &str) -> Option<IpAddr> {
    let whole = text.parse().ok();
    whole.or_else(|| match address(text)? {
        Address {
            host: Host::Ip(ip),
            port: None | Some("0"),
        } => Some(ip),
        _ => None,
    })
}

const NUMBER: &str = "its value is no number that fits";

fn not_known(line: &Line, reason: &str, notes: &mut Notes) {
    if let Some(at) = line.position() {
        notes.lost(reasons::class(line), at, &line.text(), reason);
    }
}

fn lost(line: &Line, notes: &mut Notes) {
    if let (Disposition::Lost(reason), Some(at)) = (reasons::proxy(line), line.position()) {
        // A name and a password follow.
        let is_secret = line.word(0) == Some("stats") && line.word(1) == Some("auth");
        let what = if is_secret {
            "stats auth".to_owned()
        } else {
            line.text()
        };
        notes.lost(reasons::class(line), at, &what, reason);
    }
}
