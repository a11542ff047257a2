//! The Corefile of `CoreDNS`: the parts that forward and cache.
//!
//! ```text
//! .:5353 {
//!     bufsize 1232
//!     forward . /etc/resolv.conf {
//!         policy sequential
//!     }
//!     cache 900 {
//!         denial 9984 30
//!     }
//! }
//! ```
//!
//! Server blocks become zones of one server, which listens on the ports of all. `CoreDNS` keeps a cache for
//! each block; here there is one, with the first block's limits. Effects of plugins other than `forward`
//! and `cache` are lost, and a remark says so.

mod reverse;
mod rewrite;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{Files, Position, Problem};
use dns_wire::Name;
use peer_forwarder::{
    Forward, Forwarder, GivenName, Policy, Rejected, Setting, Tls, address, name_servers, position,
};

/// The default policy of `forward`.
const DEFAULT_POLICY: Policy = Policy::Random;
/// The scheme of upstreams that get queries over TLS, and their usual port.
const TLS_SCHEME: &str = "tls://";
const TLS_PORT: u16 = 853;

/// The defaults of `cache`: entries of either kind, and the longest TTLs.
const CACHE_ENTRIES: u32 = 9984;
const CACHE_TTL: u32 = 3600;
const CACHE_DENIAL_TTL: u32 = 1800;
/// The defaults of `hosts`.
const HOSTS: &str = "/etc/hosts";
const HOSTS_TTL: u32 = 3600;

/// Reads a Corefile.
///
/// # Errors
/// Everything that is wrong with it, and the remarks about the rest.
pub fn read(path: &Path, files: &mut dyn Files) -> Result<Forwarder, Rejected> {
    let text = files.read(path).map_err(|error| Problem {
        position: None,
        message: format!("cannot read {}: {error}", path.display()),
    })?;
    let text = String::from_utf8_lossy(&text);
    let file = Arc::from(path);
    let blocks = parse(&lines(&text, &file))?;
    let mut reader = Reader {
        files,
        found: Forwarder::default(),
        ports: BTreeMap::new(),
        zones: BTreeMap::new(),
        errors: Vec::new(),
        logged: Vec::new(),
    };
    for block in &blocks {
        reader.block(block);
    }
    reader.finish()
}

//--- Words and blocks

/// A word and its place.
#[derive(Clone, Debug)]
struct Word {
    text: String,
    at: Position,
}

/// A line that is not empty.
type Line = Vec<Word>;

/// A directive: its words, and the lines between its braces.
#[derive(Debug)]
struct Directive {
    words: Line,
    body: Vec<Line>,
}

#[derive(Debug)]
struct Block {
    keys: Line,
    directives: Vec<Directive>,
}

/// Splits text into lines of words; `#` begins a comment, quotes hold words together.
fn lines(text: &str, file: &Arc<Path>) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut words: Line = Vec::new();
        let (mut open, mut quoted) = (false, false);
        for (column, letter) in line.chars().enumerate() {
            match letter {
                '"' => {
                    quoted = !quoted;
                    if quoted && !open {
                        let at = position(file, number + 1, column + 1);
                        words.push(Word {
                            text: String::new(),
                            at,
                        });
                    }
                    open = quoted;
                }
                '#' if !quoted && !open => break,
                blank if blank.is_whitespace() && !quoted => open = false,
                letter => {
                    if !open {
                        let at = position(file, number + 1, column + 1);
                        words.push(Word {
                            text: String::new(),
                            at,
                        });
                        open = true;
                    }
                    if let Some(word) = words.last_mut() {
                        word.text.push(letter);
                    }
                }
            }
        }
        if !words.is_empty() {
            lines.push(words);
        }
    }
    lines
}

fn parse(lines: &[Line]) -> Result<Vec<Block>, Problem> {
    let mut blocks = Vec::new();
    let mut keys: Line = Vec::new();
    let mut rest = lines.iter();
    while let Some(line) = rest.next() {
        let opens = line.last().is_some_and(|word| word.text == "{");
        let words = line.len() - usize::from(opens);
        // Keys may continue over lines that end with a comma.
        keys.extend(line.iter().take(words).cloned());
        let goes_on = keys.last().is_some_and(|word| word.text.ends_with(','));
        if opens {
            let directives = directives(&mut rest, line)?;
            let keys = std::mem::take(&mut keys);
            blocks.push(Block { keys, directives });
        } else if !goes_on {
            return Err(wrong(line, "is no server block: `{` is missing"));
        }
    }
    match keys.first() {
        Some(_) => Err(wrong(&keys, "is no server block: `{` is missing")),
        None => Ok(blocks),
    }
}

fn directives<'a>(
    rest: &mut impl Iterator<Item = &'a Line>,
    opening: &Line,
) -> Result<Vec<Directive>, Problem> {
    let mut directives = Vec::new();
    while let Some(line) = rest.next() {
        if line.first().is_some_and(|word| word.text == "}") {
            return Ok(directives);
        }
        let mut words = line.clone();
        let mut body = Vec::new();
        if words.last().is_some_and(|word| word.text == "{") {
            words.pop();
            loop {
                match rest.next() {
                    None => return Err(wrong(line, "is not closed")),
                    Some(inner) if inner.first().is_some_and(|word| word.text == "}") => break,
                    Some(inner) => body.push(inner.clone()),
                }
            }
        }
        directives.push(Directive { words, body });
    }
    Err(wrong(opening, "is not closed"))
}

fn wrong(line: &Line, what: &str) -> Problem {
    let text: Vec<&str> = line.iter().map(|word| word.text.as_str()).collect();
    Problem {
        position: line.first().map(|word| word.at.clone()),
        message: format!("`{}` {what}", text.join(" ")),
    }
}

//--- - Their meaning

struct Reader<'f> {
    files: &'f mut dyn Files,
    found: Forwarder,
    /// Addresses by port; an empty list means all.
    ports: BTreeMap<u16, Vec<IpAddr>>,
    zones: BTreeMap<String, Forward>,
    errors: Vec<Problem>,
    /// The classes of responses that are logged.
    logged: Vec<String>,
}

impl Reader<'_> {
    fn block(&mut self, block: &Block) {
        let mut zones = Vec::new();
        let mut ports = Vec::new();
        for word in &block.keys {
            for key in word.text.split(',').filter(|key| !key.is_empty()) {
                let (scheme, rest) = key.split_once("://").unwrap_or(("dns", key));
                if scheme != "dns" {
                    self.found.not_carried(
                        &word.at,
                        key,
                        "listeners other than plain DNS are set in [tls]",
                    );
                    continue;
                }
                // The colons of an IPv6 network do not begin a port: a network ends with its length.
                let (zone, port) = match rest.rsplit_once(':') {
                    Some((_, end)) if end.contains('/') => (rest, Some(53)),
                    Some((zone, port)) => (zone, port.parse().ok()),
                    None => (rest, Some(53)),
                };
                let zone = if zone.is_empty() { "." } else { zone };
                match (names(zone), port) {
                    (Some(names), Some(port)) => {
                        zones.extend(names);
                        ports.push(port);
                    }
                    _ => self.error(word, "is no zone"),
                }
            }
        }
        let bound = self.bound(block);
        for port in ports {
            self.ports.entry(port).or_default().extend(bound.clone());
        }
        let mut forwards = 0;
        for directive in &block.directives {
            forwards += usize::from(self.directive(directive, &zones));
        }
        if let (0, Some(key)) = (forwards, block.keys.first()) {
            let message = format!(
                "`{}` forwards nothing: its names are left to other zones",
                key.text
            );
            self.found.odd(Some(&key.at), message);
        }
    }

    fn bound(&mut self, block: &Block) -> Vec<IpAddr> {
        let binds = block
            .directives
            .iter()
            .filter(|d| d.words.first().is_some_and(|w| w.text == "bind"));
        let mut addresses = Vec::new();
        for word in binds.flat_map(|bind| bind.words.iter().skip(1)) {
            match word.text.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => {
                    self.found
                        .not_carried(&word.at, &word.text, "listeners are named by address");
                }
            }
        }
        addresses
    }

    /// Reads one directive; true when it forwards.
    fn directive(&mut self, directive: &Directive, zones: &[Name]) -> bool {
        let [plugin, arguments @ ..] = directive.words.as_slice() else {
            return false;
        };
        let whole: Vec<&str> = directive
            .words
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        let whole = whole.join(" ");
        match plugin.text.as_str() {
            "forward" => {
                self.forward(plugin, arguments, &directive.body, zones);
                return true;
            }
            "cache" => self.cache(plugin, arguments, &directive.body),
            "chaos" => {
                if let Some(version) = arguments.first() {
                    self.found.set(Setting::Version(version.text.clone()));
                }
            }
            "health" | "ready" | "prometheus" => {
                let lameduck = directive
                    .body
                    .iter()
                    .find_map(|line| match line.as_slice() {
                        [option, span, ..] if option.text == "lameduck" => Some(span),
                        _ => None,
                    });
                if let Some(span) = lameduck {
                    self.found.set(Setting::Lameduck(span.text.clone()));
                }
                let reason = "/livez, /readyz and /metrics are on the admin listener";
                self.found.not_carried(&plugin.at, &whole, reason);
            }
            "bufsize" if arguments.first().is_some_and(|size| size.text == "1232") => {}
            "bufsize" => {
                self.found
                    .not_carried(&plugin.at, &whole, "datagrams are 1232 octets at most");
            }
            "reload" => {
                self.found
                    .not_carried(&plugin.at, &whole, "SIGHUP reads the configuration again");
            }
            "log" => self.log(plugin, arguments, &directive.body),
            "dnstap" => self.dnstap(plugin, arguments, &directive.body),
            "errors" | "loop" | "loadbalance" | "bind" | "root" | "debug" | "cancel" => {}
            "hosts" => self.hosts(plugin, arguments, &directive.body),
            "rewrite" => self.rewrite(plugin, arguments, &directive.body, zones),
            "dns64" => self.dns64(plugin, arguments, &directive.body, zones),
            "template" | "file" | "auto" | "secondary" | "sign" | "transfer" => {
                self.found
                    .not_carried(&plugin.at, &whole, "serve these names with dns-authd");
            }
            "kubernetes" | "k8s_external" | "autopath" | "etcd" => {
                let reason = "forward these zones to a server that knows the cluster";
                self.found.not_carried(&plugin.at, &whole, reason);
            }
            "acl" => self
                .found
                .not_carried(&plugin.at, &whole, "say who may ask in allow-from"),
            _ => self
                .found
                .not_carried(&plugin.at, &whole, "it has no counterpart in this server"),
        }
        false
    }

    /// `log [NAMES…] [FORMAT] { class CLASS… }`. The log is one for all blocks: it has the classes of each.
    fn log(&mut self, plugin: &Word, arguments: &[Word], body: &[Line]) {
        for word in arguments.iter().filter(|word| word.text != ".") {
            let reason = "queries for all names are logged, in one form";
            self.found
                .not_carried(&word.at, &format!("{} {}", plugin.text, word.text), reason);
        }
        let mut classes: Vec<String> = Vec::new();
        for line in body {
            match line.as_slice() {
                [option, listed @ ..] if option.text == "class" => {
                    for class in listed {
                        match class.text.as_str() {
                            "all" | "denial" | "error" | "success" => {
                                classes.push(class.text.clone());
                            }
                            _ => self.error(class, "is no class of the log"),
                        }
                    }
                }
                [option, ..] => self.error(option, "is no option of `log`"),
                [] => {}
            }
        }
        if classes.is_empty() {
            classes.push("all".to_owned());
        }
        for class in classes {
            if !self.logged.contains(&class) {
                self.logged.push(class);
            }
        }
    }

    /// `dnstap SOCKET [full] [BUFFER] [QUEUE] { identity NAME … }`.
    fn dnstap(&mut self, plugin: &Word, arguments: &[Word], body: &[Line]) {
        let Some(socket) = arguments.first() else {
            self.error(plugin, "needs a socket");
            return;
        };
        let path = socket.text.strip_prefix("unix://").unwrap_or(&socket.text);
        if !path.starts_with('/') {
            let what = format!("dnstap {}", socket.text);
            let reason = "messages go to a Unix socket of this node";
            self.found.not_carried(&socket.at, &what, reason);
            return;
        }
        let mut identity = None;
        for line in body {
            match line.as_slice() {
                [option, name] if option.text == "identity" => identity = Some(name.text.clone()),
                [option, ..] => {
                    let what = format!("dnstap {}", option.text);
                    let reason = "it has no counterpart in this server";
                    self.found.not_carried(&option.at, &what, reason);
                }
                [] => {}
            }
        }
        self.found.set(Setting::Dnstap {
            socket: path.into(),
            identity,
        });
    }

    /// `hosts [FILE [ZONES…]] { [ADDRESS NAME…] [ttl SECONDS] [no_reverse] [reload …] [fallthrough …] }`.
    fn hosts(&mut self, plugin: &Word, arguments: &[Word], body: &[Line]) {
        let file = arguments.first().map_or(HOSTS, |word| word.text.as_str());
        self.found.add_hosts(Path::new(file));
        if arguments.len() > 1 {
            let message = "`hosts`: its names count in all zones here".to_owned();
            self.found.odd(Some(&plugin.at), message);
        }
        let (mut ttl, mut has_reverse, mut falls_through) = (HOSTS_TTL, true, false);
        let mut inline = Vec::new();
        for line in body {
            let [option, values @ ..] = line.as_slice() else {
                continue;
            };
            match (option.text.as_str(), values) {
                ("ttl", [value]) => match value.text.parse() {
                    Ok(seconds) => ttl = seconds,
                    Err(_) => self.error(value, "is no number"),
                },
                ("no_reverse", _) => has_reverse = false,
                ("fallthrough", _) => falls_through = true,
                // A file is read again when it changes.
                ("reload", _) => {}
                (address, names) => match address.parse::<IpAddr>() {
                    Ok(address) => inline.push((address, names)),
                    Err(_) => self.error(option, "is neither an address nor an option of `hosts`"),
                },
            }
        }
        if !falls_through {
            let message =
                "`hosts` without `fallthrough`: names that it does not have are forwarded here";
            self.found.odd(Some(&plugin.at), message.to_owned());
        }
        self.found.set(Setting::HostsTtl(ttl));
        if !has_reverse {
            self.found.set(Setting::HostsWithoutReverse);
        }
        for (address, names) in inline {
            for (index, word) in names.iter().enumerate() {
                match Name::parse(&word.text) {
                    Ok(name) => self.found.give(GivenName {
                        name: name.to_string(),
                        addresses: vec![address],
                        alias: None,
                        ttl: Some(ttl),
                        has_reverse: has_reverse && index == 0,
                    }),
                    Err(_) => self.error(word, "is no name"),
                }
            }
        }
    }

    /// `dns64 [PREFIX] { [translate_all] [prefix PREFIX] [allow_ipv4] }`.
    fn dns64(&mut self, plugin: &Word, arguments: &[Word], body: &[Line], zones: &[Name]) {
        let mut prefixes: Vec<String> = arguments.iter().map(|it| it.text.clone()).collect();
        let (mut over_ipv4, mut all) = (false, false);
        for line in body {
            let [option, values @ ..] = line.as_slice() else {
                continue;
            };
            match (option.text.as_str(), values) {
                ("prefix", [prefix]) => prefixes = vec![prefix.text.clone()],
                ("translate_all", []) => all = true,
                ("allow_ipv4", []) => over_ipv4 = true,
                _ => self.error(option, "is no option of `dns64`"),
            }
        }
        if zones.iter().any(|zone| !zone.is_root()) {
            let message = "`dns64` makes records of all zones here".to_owned();
            self.found.odd(Some(&plugin.at), message);
        }
        self.found.set(Setting::Dns64 {
            prefixes,
            over_ipv4,
            all,
        });
    }

    fn forward(&mut self, plugin: &Word, arguments: &[Word], body: &[Line], zones: &[Name]) {
        let [from, targets @ ..] = arguments else {
            self.error(plugin, "names no zone");
            return;
        };
        let (upstreams, is_encrypted) = self.all_targets(targets);
        let (mut policy, mut tcp, mut tls) = (DEFAULT_POLICY, false, Tls::default());
        for line in body {
            let [option, values @ ..] = line.as_slice() else {
                continue;
            };
            let value = values.first().map(|word| word.text.as_str());
            match (option.text.as_str(), value) {
                ("policy", Some("sequential")) => policy = Policy::Sequential,
                ("policy", Some("round_robin")) => policy = Policy::RoundRobin,
                ("policy", Some("random")) => policy = Policy::Random,
                ("force_tcp", _) => tcp = true,
                ("tls_servername", Some(name)) => tls.server_name = Some(name.to_owned()),
                ("tls", _) => self.authorities(option, values, &mut tls),
                // Health checks, timeouts and fallbacks are this server's own.
                (
                    "prefer_udp"
                    | "expire"
                    | "max_fails"
                    | "health_check"
                    | "failover"
                    | "next"
                    | "max_idle_conns"
                    | "max_age"
                    | "read_timeout"
                    | "failfast_all_unhealthy_upstreams",
                    _,
                ) => {}
                ("max_concurrent", Some(n)) => match n.parse::<u32>() {
                    // Zero means no limit in CoreDNS.
                    Ok(0) => {}
                    Ok(n) => self.found.set(Setting::MaxQuestions(n)),
                    Err(_) => self.error(option, "takes a number"),
                },
                (name, _) => {
                    self.found.not_carried(
                        &option.at,
                        name,
                        "it has no counterpart in this server",
                    );
                }
            }
        }
        if upstreams.is_empty() {
            self.error(plugin, "has no upstream that can be carried over");
            return;
        }
        let Some(from) = self.from(from) else {
            return;
        };
        for zone in zones {
            // The narrower of the block's zone and the directive's counts.
            let apex = if from.is_within(zone) { &from } else { zone };
            let forward = Forward {
                zone: apex.to_string(),
                upstreams: upstreams.clone(),
                policy: Some(policy),
                tcp,
                tls: is_encrypted.then(|| tls.clone()),
            };
            if self.zones.contains_key(&forward.zone) {
                let message = format!("{} is forwarded twice; the first counts", forward.zone);
                self.found.odd(Some(&plugin.at), message);
            } else {
                self.zones.insert(forward.zone.clone(), forward);
            }
        }
    }

    /// The zone that `forward` names; for a network that is several zones, `CoreDNS` takes the first.
    fn from(&mut self, word: &Word) -> Option<Name> {
        let mut names = names(&word.text).unwrap_or_default().into_iter();
        let first = names.next();
        match &first {
            None => self.error(word, "is no zone"),
            Some(first) if names.len() > 0 => {
                let message = format!(
                    "`{}` is several zones, of which CoreDNS forwards {first} alone",
                    word.text
                );
                self.found.odd(Some(&word.at), message);
            }
            Some(_) => {}
        }
        first
    }

    /// The upstreams, and whether they get queries over TLS: all of them do, if one does. Another one would get queries that are to
    /// be secret.
    fn all_targets(&mut self, targets: &[Word]) -> (Vec<SocketAddr>, bool) {
        let is_tls = |target: &&Word| target.text.starts_with(TLS_SCHEME);
        let is_encrypted = targets.iter().any(|target| is_tls(&target));
        let mut upstreams = Vec::new();
        for target in targets {
            match target.text.strip_prefix(TLS_SCHEME) {
                Some(text) => match address(text, ':', TLS_PORT) {
                    Some(address) => upstreams.push(address),
                    None => self.error(target, "is no address"),
                },
                None if is_encrypted => {
                    let reason = "the other upstreams of the zone get queries over TLS";
                    self.found.not_carried(&target.at, &target.text, reason);
                }
                None => upstreams.extend(self.targets(target)),
            }
        }
        (upstreams, is_encrypted)
    }

    /// Reads `tls [CERT KEY] [CA]`.
    fn authorities(&mut self, option: &Word, files: &[Word], tls: &mut Tls) {
        if let [certificate, _, ..] = files {
            let reason = "upstreams see no certificate of this server";
            self.found
                .not_carried(&certificate.at, "tls with a certificate of its own", reason);
        }
        match files {
            [] | [_, _] => {}
            [ca] | [_, _, ca] => tls.ca = Some(PathBuf::from(&ca.text)),
            _ => self.error(option, "takes a certificate, a key and authorities"),
        }
    }

    fn targets(&mut self, target: &Word) -> Vec<SocketAddr> {
        let text = target.text.strip_prefix("dns://").unwrap_or(&target.text);
        if text.contains("://") {
            self.found
                .not_carried(&target.at, text, "queries go to upstreams over UDP and TCP");
            return Vec::new();
        }
        if let Some(address) = address(text, ':', 53) {
            return vec![address];
        }
        match name_servers(Path::new(text), self.files) {
            Ok(servers) => servers,
            Err(error) => {
                self.errors.push(Problem {
                    position: Some(target.at.clone()),
                    message: error,
                });
                Vec::new()
            }
        }
    }

    fn cache(&mut self, plugin: &Word, arguments: &[Word], body: &[Line]) {
        let number = |word: Option<&Word>| word.and_then(|word| word.text.parse::<u32>().ok());
        let ttl = number(arguments.first());
        let mut success = [None, ttl];
        let mut denial = [None, ttl];
        for line in body {
            let [option, values @ ..] = line.as_slice() else {
                continue;
            };
            let both = |[entries, ttl]: [Option<u32>; 2]| {
                [
                    number(values.first()).or(entries),
                    number(values.get(1)).or(ttl),
                ]
            };
            match option.text.as_str() {
                "success" => success = both(success),
                "denial" => denial = both(denial),
                "servfail" | "keepttl" | "prefetch" => {}
                "serve_stale" => {
                    if let Some(age) = values.first() {
                        self.found.set(Setting::StaleMaxAge(age.text.clone()));
                    }
                }
                name => {
                    self.found.not_carried(
                        &option.at,
                        name,
                        "it has no counterpart in this server",
                    );
                }
            }
        }
        let [entries, ttl] = success;
        self.found
            .set(Setting::Entries(entries.unwrap_or(CACHE_ENTRIES)));
        self.found.set(Setting::MaxTtl(ttl.unwrap_or(CACHE_TTL)));
        let [entries, ttl] = denial;
        self.found
            .set(Setting::NegativeEntries(entries.unwrap_or(CACHE_ENTRIES)));
        self.found
            .set(Setting::NegativeMaxTtl(ttl.unwrap_or(CACHE_DENIAL_TTL)));
        if arguments.len() > 1 {
            self.found
                .odd(Some(&plugin.at), "`cache` is for all zones here".to_owned());
        }
    }

    fn error(&mut self, word: &Word, what: &str) {
        self.errors.push(Problem {
            position: Some(word.at.clone()),
            message: format!("`{}` {what}", word.text),
        });
    }

    fn finish(mut self) -> Result<Forwarder, Rejected> {
        if !self.errors.is_empty() {
            return Err(Rejected {
                problems: self.errors,
                remarks: self.found.remarks,
            });
        }
        if !self.logged.is_empty() {
            self.found.set(Setting::QueryLog(self.logged));
        }
        let everywhere = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        let mut listen: Vec<SocketAddr> = Vec::new();
        for (port, addresses) in &self.ports {
            let addresses = if addresses.is_empty() {
                &everywhere[..]
            } else {
                addresses
            };
            listen.extend(
                addresses
                    .iter()
                    .map(|address| SocketAddr::new(*address, *port)),
            );
        }
        listen.dedup();
        // CoreDNS answers every client.
        Ok(Forwarder {
            listen,
            open: true,
            forwards: self.zones.into_values().collect(),
            ..self.found
        })
    }
}

/// The zones of a word: one by its name, or those of a network's reverse names.
fn names(text: &str) -> Option<Vec<Name>> {
    let zones = match text.parse() {
        Ok(network) => reverse::zones(network),
        Err(_) => vec![text.to_owned()],
    };
    zones.iter().map(|zone| Name::parse(zone).ok()).collect()
}
