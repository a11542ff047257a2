//! `server` and `default-server` (configuration.txt §5.2).

use std::time::Duration;

use config::lb_proxy::ResolvePrefer;
use config::{Class, Notes};
use config_text::Position;

use super::lexer::{Line, Word};
use super::values::{Host, address, time};

/// A server as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) address: String,
    /// How many servers its name stands for, of a `server-template`.
    pub(super) most: Option<u16>,
    pub(super) options: Options,
    pub(super) at: Position,
}

/// The options of a server, or of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word that is there or not"
)]
pub(super) struct Options {
    pub(super) is_checked: bool,
    pub(super) checks_tls: bool,
    /// The connections themselves are of TLS.
    pub(super) is_tls: bool,
    pub(super) check_name: Option<String>,
    pub(super) ca_file: Option<String>,
    pub(super) verifies: Option<bool>,
    pub(super) times: Times,
    pub(super) rise: Option<u32>,
    pub(super) fall: Option<u32>,
    pub(super) check_port: Option<u16>,
    pub(super) check_address: Option<String>,
    pub(super) weight: Option<u16>,
    pub(super) is_backup: bool,
    pub(super) is_disabled: bool,
    pub(super) max_connections: Option<u32>,
    pub(super) max_queue: Option<u32>,
    pub(super) proxy_version: Option<u8>,
    pub(super) slow_start: Option<Duration>,
    pub(super) resets_when_down: bool,
    pub(super) resets_backups: bool,
    /// The section of the servers that resolve its name.
    pub(super) resolvers: Option<(String, Position)>,
    pub(super) prefers: ResolvePrefer,
}

/// When checks are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) interval: Option<Duration>,
    pub(super) fast: Option<Duration>,
    pub(super) down: Option<Duration>,
}

impl Server {
    /// True when it has a name, and not an address.
    pub(super) fn has_name(&self) -> bool {
        let address = address(&self.address);
        address.is_some_and(|address| matches!(address.host, Host::Name(_)))
    }

    /// True when HAProxy begins its checks as it begins connections: with a PROXY header, unless they go
    /// to another port or address.
    pub(super) fn gets_header_in_checks(&self) -> bool {
        let options = &self.options;
        let elsewhere = options.check_port.is_some() || options.check_address.is_some();
        options.is_checked && !options.is_tls && options.proxy_version.is_some() && !elsewhere
    }
}

/// A `server` line; none when it has no address.
pub(super) fn server(line: &Line, defaults: &Options, notes: &mut Notes) -> Option<Server> {
    let at = line.position()?.clone();
    let (Some(name), Some(address)) = (line.word(1), line.word(2)) else {
        notes.lost(
            Class::Behaviour,
            &at,
            &line.text(),
            "a server wants a name and an address",
        );
        return None;
    };
    let mut options = defaults.clone();
    options.read(line.from(3), notes);
    Some(Server {
        name: name.to_owned(),
        address: address.to_owned(),
        most: None,
        options,
        at,
    })
}

/// A `server-template` line; none when it has no number and no name.
pub(super) fn template(line: &Line, defaults: &Options, notes: &mut Notes) -> Option<Server> {
    let at = line.position()?.clone();
    let mut lost = |reason: &str| notes.lost(Class::Behaviour, &at, &line.text(), reason);
    let (Some(name), Some(number), Some(target)) = (line.word(1), line.word(2), line.word(3))
    else {
        lost("it wants a prefix, a number of servers and a name");
        return None;
    };
    let Some(most) = number_of_servers(number) else {
        lost("it has no number of servers");
        return None;
    };
    let mut options = defaults.clone();
    options.read(line.from(4), notes);
    Some(Server {
        name: name.to_owned(),
        address: target.to_owned(),
        most: Some(most),
        options,
        at,
    })
}

/// `3`, or from one number to another.
fn number_of_servers(text: &str) -> Option<u16> {
    let most = match text.split_once('-') {
        None => text.parse().ok()?,
        Some((from, to)) => {
            let (from, to): (u16, u16) = (from.parse().ok()?, to.parse().ok()?);
            to.checked_sub(from)?.checked_add(1)?
        }
    };
    (most > 0).then_some(most)
}

impl Options {
    /// Reads what follows the address, or `default-server`.
    pub(super) fn read(&mut self, words: &[Word], notes: &mut Notes) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.text.as_str();
            if self.flag(name) {
                continue;
            }
            if !takes_value(name) {
                notes.lost(
                    class(name),
                    &word.position,
                    &format!("server option {name}"),
                    reason(name),
                );
                continue;
            }
            let Some(value) = words.next() else {
                let what = format!("server option {name}");
                notes.lost(
                    Class::Behaviour,
                    &word.position,
                    &what,
                    "its value is missing",
                );
                return;
            };
            let what = format!("server option {name} {}", value.text);
            if name == "resolvers" {
                self.resolvers = Some((value.text.clone(), value.position.clone()));
                continue;
            }
            match self.value(name, &value.text) {
                Ok(()) => {}
                Err(reason) => notes.lost(class(name), &word.position, &what, reason),
            }
            // `source … usesrc …` and `source … interface …` continue.
            let rest = words.as_slice().first().map(|next| next.text.as_str());
            if name == "source" && matches!(rest, Some("usesrc" | "interface")) {
                words.next();
                words.next();
            }
        }
    }

    /// A word without a value; false when it is none that means something here.
    fn flag(&mut self, name: &str) -> bool {
        match name {
            "check" => self.is_checked = true,
            "no-check" => self.is_checked = false,
            "check-ssl" => self.checks_tls = true,
            "no-check-ssl" => self.checks_tls = false,
            "ssl" => self.is_tls = true,
            "no-ssl" => self.is_tls = false,
            "backup" => self.is_backup = true,
            "no-backup" => self.is_backup = false,
            "disabled" => self.is_disabled = true,
            "enabled" => self.is_disabled = false,
            "send-proxy" => self.proxy_version = Some(1),
            "send-proxy-v2" => self.proxy_version = Some(2),
            "no-send-proxy" | "no-send-proxy-v2" => self.proxy_version = None,
            _ => return false,
        }
        true
    }

    fn value(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        const NUMBER: &str = "its value is no number that fits";
        const TIME: &str = "its value is no time";
        match name {
            "inter" => self.times.interval = Some(time(value).ok_or(TIME)?),
            "fastinter" => self.times.fast = Some(time(value).ok_or(TIME)?),
            "downinter" => self.times.down = Some(time(value).ok_or(TIME)?),
            "slowstart" => self.slow_start = Some(time(value).ok_or(TIME)?),
            "rise" => self.rise = Some(value.parse().map_err(|_| NUMBER)?),
            "fall" => self.fall = Some(value.parse().map_err(|_| NUMBER)?),
            "port" => self.check_port = Some(value.parse().map_err(|_| NUMBER)?),
            "maxconn" => self.max_connections = Some(value.parse().map_err(|_| NUMBER)?),
            "maxqueue" => self.max_queue = Some(value.parse().map_err(|_| NUMBER)?),
            "weight" => match value.parse() {
                Ok(weight @ 0..=256) => self.weight = Some(weight),
                _ => return Err("a weight is from 0 to 256"),
            },
            "resolve-prefer" => match value {
                "ipv4" => self.prefers = ResolvePrefer::Ipv4,
                "ipv6" => self.prefers = ResolvePrefer::Ipv6,
                _ => return Err("it is `ipv4` or `ipv6`"),
            },
            // No two servers of a backend have one address.
            "resolve-opts" if value == "prevent-dup-ip" => {}
            // A name without an address is no server, and keeps no process from starting.
            "init-addr" if value.ends_with("none") => {}
            "addr" => self.check_address = Some(value.to_owned()),
            "check-sni" => self.check_name = Some(value.to_owned()),
            "ca-file" => self.ca_file = Some(value.to_owned()),
            "verify" => match value {
                "none" => self.verifies = Some(false),
                "required" => self.verifies = Some(true),
                _ => return Err("it is `none` or `required`"),
            },
            "on-marked-down" => match value {
                "shutdown-sessions" => self.resets_when_down = true,
                _ => return Err("the only action is `shutdown-sessions`"),
            },
            "on-marked-up" => match value {
                "shutdown-backup-sessions" => self.resets_backups = true,
                _ => return Err("the only action is `shutdown-backup-sessions`"),
            },
            _ => return Err(reason(name)),
        }
        Ok(())
    }
}

fn takes_value(option: &str) -> bool {
    let flags = [
        "agent-check",
        "allow-0rtt",
        "check-send-proxy",
        "check-via-socks4",
        "force-sslv3",
        "force-tlsv10",
        "force-tlsv11",
        "force-tlsv12",
        "force-tlsv13",
        "no-agent-check",
        "no-send-proxy-v2-ssl",
        "no-send-proxy-v2-ssl-cn",
        "no-ssl-reuse",
        "no-sslv3",
        "no-tfo",
        "no-tls-tickets",
        "no-tlsv10",
        "no-tlsv11",
        "no-tlsv12",
        "no-tlsv13",
        "no-verifyhost",
        "non-stick",
        "send-proxy-v2-ssl",
        "send-proxy-v2-ssl-cn",
        "ssl-reuse",
        "stick",
        "tfo",
        "tls-tickets",
    ];
    !flags.contains(&option)
}

fn class(option: &str) -> Class {
    match option {
        // A server has less protection against too many sessions.
        "maxconn" | "maxqueue" => Class::Security,
        "id" | "guid" | "tfo" | "no-tfo" | "max-reuse" | "pool-low-conn" | "pool-max-conn"
        | "pool-purge-delay" => Class::Cosmetic,
        _ => Class::Behaviour,
    }
}

fn reason(option: &str) -> &'static str {
    match option {
        "agent-check" | "agent-addr" | "agent-inter" | "agent-port" | "agent-send"
        | "no-agent-check" => "`lb-proxy backend drain|ready|weight` does what an agent would",
        "observe" | "error-limit" | "on-error" => {
            "connections that fail always make healthd look again at once"
        }
        "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" | "proxy-v2-options" => {
            "TLS does not end here; extensions that came with a header are passed on"
        }
        "check-send-proxy" => "healthd probes without a PROXY header",
        "track" => "servers with the same check share it",
        "resolve-net" => "every address of the name counts",
        "resolve-opts" => "servers of a backend share no address, and records have their weights",
        "init-addr" => {
            "a start asks DNS for the name, and has the servers of its last answer until one comes"
        }
        "cookie" => "sessions are not looked into",
        "minconn" => "the limit does not move; see max-connections",
        "source" => "the source address is of the whole backend; see the template",
        "id" | "guid" => "servers differ by their names",
        "non-stick" | "stick" => "there are no stick tables",
        "tcp-ut" => "the user timeout is always on; see the template",
        "tfo" | "no-tfo" => "it is left to the system",
        "alpn" | "allow-0rtt" | "check-alpn" | "ciphers" | "ciphersuites" | "crl-file" | "crt"
        | "npn" | "sni" | "ssl-max-ver" | "ssl-min-ver" | "ssl-reuse" | "no-ssl-reuse"
        | "verifyhost" | "no-verifyhost" | "tls-tickets" | "no-tls-tickets" => {
            "TLS is passed through, never begun here"
        }
        "check-proto" | "proto" | "ws" | "max-reuse" | "pool-low-conn" | "pool-max-conn"
        | "pool-purge-delay" => "HTTP is not looked into",
        _ => "it has no counterpart",
    }
}
