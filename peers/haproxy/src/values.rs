//! Values of directives: times, numbers, addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A time (configuration.txt §2.5): a number and a unit, of milliseconds when there is none.
pub(super) fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits)?;
    let number: u64 = digits.parse().ok()?;
    let micros: u64 = match unit {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    // HAProxy counts milliseconds in 31 bits; more than that is "24 days".
    let micros = number.checked_mul(micros)?;
    (micros <= LONGEST_MICROS).then(|| Duration::from_micros(micros))
}

/// 2^31 - 1 milliseconds.
const LONGEST_MICROS: u64 = 2_147_483_647_000;

/// The host part of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// `*`, or nothing.
    Any,
    /// An address.
    Ip(IpAddr),
    /// A name to be resolved.
    Name(String),
}

/// An address with a port or several, as `bind`, `server` and others have it (§11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    pub(super) host: Host,
    /// The text behind the last colon, if there is any.
    pub(super) port: Option<&'a str>,
}

/// `192.0.2.1:443`, `[2001:db8::1]:443`, `:::443`, `*:443`, `ipv4@…`, `name:443`; none for sockets that
/// are not of the Internet.
pub(super) fn address(text: &str) -> Option<Address<'_>> {
    let text = ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    // unix@, abns@, fd@, sockpair@, quic4@, udp@ and paths.
    if text.contains(['@', '/']) {
        return None;
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return None,
            };
            (host, port)
        }
        // The last colon is that of the port, whatever the address: `:::443` is `[::]:443`.
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let host = match host {
        "" | "*" => Host::Any,
        "localhost" => Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => match host.parse() {
            Ok(address) => Host::Ip(address),
            Err(_) if host.contains(':') || host.is_empty() => return None,
            Err(_) => Host::Name(host.to_owned()),
        },
    };
    let port = port.filter(|port| !port.is_empty());
    Some(Address { host, port })
}

/// True for `[::]`.
pub(super) fn is_any_v6(address: IpAddr) -> bool {
    address == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_milliseconds_without() {
        for (text, expected) in [
            ("1", Some(Duration::from_millis(1))),
            ("250us", Some(Duration::from_micros(250))),
            ("1500ms", Some(Duration::from_millis(1_500))),
            ("10s", Some(Duration::from_secs(10))),
            ("1m", Some(Duration::from_secs(60))),
            ("86400s", Some(Duration::from_secs(86_400))),
            ("1h", Some(Duration::from_secs(3_600))),
            ("7d", Some(Duration::from_secs(604_800))),
            ("25d", None),
            ("99999999999999999999s", None),
            ("", None),
            ("s", None),
            ("1.5s", None),
            ("-1", None),
            ("1 s", None),
            ("1S", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    #[test]
    fn the_last_colon_is_that_of_the_port() {
        let ip = |text: &str| Host::Ip(text.parse().unwrap());
        for (text, host, port) in [
            ("192.0.2.1:443", ip("192.0.2.1"), Some("443")),
            ("192.0.2.1", ip("192.0.2.1"), None),
            ("192.0.2.1:", ip("192.0.2.1"), None),
            ("*:443", Host::Any, Some("443")),
            (":443", Host::Any, Some("443")),
            (":::9445", ip("::"), Some("9445")),
            ("[::]:80-90", ip("::"), Some("80-90")),
            ("2001:db8::1:443", ip("2001:db8::1"), Some("443")),
            ("[2001:db8::1]", ip("2001:db8::1"), None),
            ("ipv6@:::80", ip("::"), Some("80")),
            ("localhost:29445", ip("127.0.0.1"), Some("29445")),
            (
                "api.example:6443",
                Host::Name("api.example".to_owned()),
                Some("6443"),
            ),
            (
                "api.example:+1",
                Host::Name("api.example".to_owned()),
                Some("+1"),
            ),
        ] {
            assert_eq!(address(text), Some(Address { host, port }), "{text}");
        }
        for text in [
            "/run/x.sock",
            "unix@x",
            "abns@x",
            "fd@3",
            "[::1",
            "[::1]x",
            "a:b:c:1",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
