//! The options of `ifportup`, `ifurlup` and `ifurlextup`, and the URLs they probe.
//!
//! Names, defaults and meanings are those of the `PowerDNS` documentation (docs/lua-records/functions.rst).
//! A value that `PowerDNS` would quietly take for zero, such as `timeout='soon'`, is refused instead.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::select::Select;

/// One option as written: `PowerDNS` takes every scalar as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OptionText {
    /// A string, number or boolean.
    Text(String),
    /// A table of texts by name.
    Table(BTreeMap<String, String>),
}

/// The options of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) selector: Selector,
    /// The selector when all targets are down; `None` if the record leaves it to the configuration.
    pub(crate) backup: Option<Selector>,
    /// Give no answer until a check has been completed.
    pub(crate) fail_on_incomplete: bool,
    pub(crate) probe: ProbeOptions,
}

/// The way of drawing answers from a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The way of a [`Select`].
    Select(Select),
    /// No answer, though the name exists.
    Empty,
}

/// The parameters of probes; `None` leaves one to the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeOptions {
    pub(crate) source: Option<IpAddr>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) interval: Option<Duration>,
    pub(crate) fall: Option<u32>,
    pub(crate) string_match: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) byte_limit: Option<u64>,
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            selector: Selector::Select(Select::Random),
            backup: None,
            fail_on_incomplete: false,
            probe: ProbeOptions::default(),
        }
    }
}

/// The longest interval or timeout that is accepted, in seconds.
const MAX_SECONDS: f64 = 86_400.0;

impl Options {
    /// Reads the options of one call; `warn` gets the oddities.
    pub(crate) fn parse(
        table: &BTreeMap<String, OptionText>,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, String> {
        let mut options = Self::default();
        for (name, value) in table {
            options.set(name, value, warn)?;
        }
        Ok(options)
    }

    fn set(
        &mut self,
        name: &str,
        value: &OptionText,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), String> {
        let value = match value {
            OptionText::Table(headers) if name == "headers" => {
                self.probe.headers = headers
                    .iter()
                    .map(|(name, value)| header(name, value))
                    .collect::<Result<_, _>>()?;
                return Ok(());
            }
            OptionText::Text(_) if name == "headers" => {
                return Err("option `headers` must be a table".to_owned());
            }
            OptionText::Table(_) => return Err(format!("option `{name}` must not be a table")),
            OptionText::Text(value) => value.as_str(),
        };
        let probe = &mut self.probe;
        match name {
            "selector" => self.selector = selector(value, warn),
            "backupSelector" => self.backup = Some(selector(value, warn)),
            "failOnIncompleteCheck" => self.fail_on_incomplete = value == "true",
            "source" => probe.source = Some(source(value)?),
            "timeout" => probe.timeout = Some(seconds(name, value)?),
            "interval" => probe.interval = Some(seconds(name, value)?),
            "minimumFailures" => probe.fall = Some(number::<u32>(name, value)?.max(1)),
            "stringmatch" => probe.string_match = Some(value.to_owned()),
            "useragent" => probe.user_agent = Some(printable(name, value)?),
            "byteslimit" => {
                probe.byte_limit = Some(number::<u64>(name, value)?).filter(|limit| *limit > 0);
            }
            "httpcode" => probe.status = Some(status(value)?),
            _ => warn(format!("unknown option `{name}`")),
        }
        Ok(())
    }
}

fn selector(value: &str, warn: &mut dyn FnMut(String)) -> Selector {
    let select = match value {
        "all" => Select::All,
        "random" => Select::Random,
        "hashed" => Select::Hashed,
        "empty" => return Selector::Empty,
        "pickclosest" => {
            warn("selector `pickclosest` picks at random: no location is known".to_owned());
            Select::Random
        }
        _ => {
            warn(format!("unknown selector `{value}`, `random` is used"));
            Select::Random
        }
    };
    Selector::Select(select)
}

fn source(value: &str) -> Result<IpAddr, String> {
    value
        .parse()
        .map_err(|_| format!("option `source` is no address: `{value}`"))
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    value
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("option `{name}` is no number of seconds: `{value}`"))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .trim()
        .parse()
        .map_err(|_| format!("option `{name}` is no whole number: `{value}`"))
}

fn status(value: &str) -> Result<u16, String> {
    number::<u16>("httpcode", value)
        .ok()
        .filter(|status| (100..600).contains(status))
        .ok_or_else(|| format!("option `httpcode` is no HTTP status: `{value}`"))
}

/// A header with `_` in its name spelt `-`, since a Lua name cannot hold that.
fn header(name: &str, value: &str) -> Result<(String, String), String> {
    let name = name.replace('_', "-");
    let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-!#$%&'*+.^`|~".contains(&octet);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("`{name}` is no name of an HTTP header"));
    }
    let value = printable("headers", value)?;
    Ok((name, value))
}

/// A value that cannot break out of its line in a request.
fn printable(name: &str, value: &str) -> Result<String, String> {
    if value.chars().any(char::is_control) {
        return Err(format!("option `{name}` holds a control character"));
    }
    Ok(value.to_owned())
}

//--- Url

/// A URL to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) tls: bool,
    /// The host, without brackets or port.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The host and port as the `Host` header has them.
    pub(crate) authority: String,
    /// Path and query, starting with `/`.
    pub(crate) path: String,
}

impl Url {
    /// Reads a URL of scheme http or https.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refuse = |reason: &str| Err(format!("`{text}` is no URL to probe: {reason}"));
        let Some((scheme, rest)) = text.split_once("://") else {
            return refuse("it has no scheme");
        };
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return refuse("it is neither http nor https"),
        };
        if text.chars().any(|c| c.is_control() || c == ' ') {
            return refuse("it holds a space or control character");
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at_checked(at).unwrap_or((rest, "")),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return refuse("a user name in it cannot be sent");
        }
        let default = if tls { 443 } else { 80 };
        let Some((host, port)) = host_and_port(authority, default) else {
            return refuse("it has no host");
        };
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self {
            tls,
            host,
            port,
            authority: authority.to_owned(),
            path,
        })
    }

    /// The host as an address, if it is one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

fn host_and_port(authority: &str, default: u16) -> Option<(String, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if port.is_empty() => default,
            None => return None,
        };
        return Some((host.to_owned(), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, default),
    };
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
    (!host.is_empty() && host.bytes().all(is_plain)).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> OptionText {
        OptionText::Text(value.to_owned())
    }

    fn parse(options: &[(&str, OptionText)]) -> (Result<Options, String>, Vec<String>) {
        let mut warnings = Vec::new();
        let table = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        let options = Options::parse(&table, &mut |warning| warnings.push(warning));
        (options, warnings)
    }

    #[test]
    fn without_options_everything_is_default() {
        assert_eq!(parse(&[]), (Ok(Options::default()), vec![]));
    }

    #[test]
    fn every_option_is_read() {
        let headers = [("My_Header", "a b"), ("X", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (options, warnings) = parse(&[
            ("selector", text("all")),
            ("backupSelector", text("empty")),
            ("failOnIncompleteCheck", text("true")),
            ("source", text("192.0.2.1")),
            ("timeout", text("3")),
            ("interval", text("0.5")),
            ("minimumFailures", text("4")),
            ("stringmatch", text("pong")),
            ("useragent", text("me")),
            ("byteslimit", text("100")),
            ("httpcode", text("404")),
            ("headers", OptionText::Table(headers.into())),
        ]);
        let expected = Options {
            selector: Selector::Select(Select::All),
            backup: Some(Selector::Empty),
            fail_on_incomplete: true,
            probe: ProbeOptions {
                source: Some(IpAddr::from([192, 0, 2, 1])),
                timeout: Some(Duration::from_secs(3)),
                interval: Some(Duration::from_millis(500)),
                fall: Some(4),
                string_match: Some("pong".to_owned()),
                user_agent: Some("me".to_owned()),
                byte_limit: Some(100),
                status: Some(404),
                headers: vec![
                    ("My-Header".to_owned(), "a b".to_owned()),
                    ("X".to_owned(), String::new()),
                ],
            },
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn odd_options_warn_and_fall_back_to_random() {
        for (name, value, part) in [
            ("selector", "closest", "unknown selector `closest`"),
            ("backupSelector", "Random", "unknown selector `Random`"),
            ("selector", "pickclosest", "no location"),
            ("inteval", "5", "unknown option `inteval`"),
        ] {
            let (options, warnings) = parse(&[(name, text(value))]);
            assert!(warnings[0].contains(part), "{warnings:?}");
            let options = options.unwrap();
            assert_eq!(options.selector, Selector::Select(Select::Random));
            assert!(matches!(
                options.backup,
                None | Some(Selector::Select(Select::Random))
            ));
        }
    }

    #[test]
    fn zero_means_the_default_where_powerdns_says_so() {
        let (options, _) = parse(&[("minimumFailures", text("0")), ("byteslimit", text("0"))]);
        let probe = options.unwrap().probe;
        assert_eq!((probe.fall, probe.byte_limit), (Some(1), None));
    }

    #[test]
    fn only_the_text_true_asks_to_fail_on_incomplete_checks() {
        for (value, expected) in [
            ("true", true),
            ("false", false),
            ("yes", false),
            ("1", false),
        ] {
            let (options, _) = parse(&[("failOnIncompleteCheck", text(value))]);
            assert_eq!(options.unwrap().fail_on_incomplete, expected, "{value}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        let table = || OptionText::Table(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        let bad_header = |name: &str, value: &str| {
            OptionText::Table(BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        for (name, value) in [
            ("timeout", text("soon")),
            ("timeout", text("0")),
            ("timeout", text("-1")),
            ("timeout", text("inf")),
            ("timeout", text("NaN")),
            ("timeout", text("1e30")),
            ("interval", text("")),
            ("interval", table()),
            ("minimumFailures", text("-1")),
            ("minimumFailures", text("4294967296")),
            ("source", text("here")),
            ("byteslimit", text("1k")),
            ("httpcode", text("20")),
            ("httpcode", text("600")),
            ("useragent", text("a\r\nb")),
            ("headers", text("X: y")),
            ("headers", bad_header("a b", "c")),
            ("headers", bad_header("", "c")),
            ("headers", bad_header("a", "b\r\nc: d")),
        ] {
            let (options, _) = parse(&[(name, value.clone())]);
            assert!(options.is_err(), "{name} {value:?}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        for (text, tls, host, port, authority, path) in [
            (
                "http://a.example/",
                false,
                "a.example",
                80,
                "a.example",
                "/",
            ),
            (
                "https://a.example",
                true,
                "a.example",
                443,
                "a.example",
                "/",
            ),
            (
                "HTTPS://a:8443/x?y=z#f",
                true,
                "a",
                8443,
                "a:8443",
                "/x?y=z",
            ),
            ("http://a?y", false, "a", 80, "a", "/?y"),
            (
                "http://[2001:db8::1]:81/",
                false,
                "2001:db8::1",
                81,
                "[2001:db8::1]:81",
                "/",
            ),
            ("http://[::1]", false, "::1", 80, "[::1]", "/"),
        ] {
            let expected = Url {
                tls,
                host: host.to_owned(),
                port,
                authority: authority.to_owned(),
                path: path.to_owned(),
            };
            assert_eq!(Url::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_to_probe_is_refused() {
        for text in [
            "",
            "a.example/status",
            "http://",
            "http:///path",
            "ftp://a/",
            "file:///etc/passwd",
            "http://user@a/",
            "http://a:port/",
            "http://a:70000/",
            "http://[::1/",
            "http://[::1]x/",
            "http://[a]/",
            "http://a b/",
            "http://a/\r\nX: y",
            "http://ä/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
