//! The address of an API server.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The port of `https` without one.
const HTTPS: u16 = 443;
/// The port of `http` without one.
const HTTP: u16 = 80;

/// The address of an API server: `https://192.168.7.13:6443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// A name or an IP address, which has no brackets here.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A text that is no address of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another form.
    #[error("{0:?} is no address of an API server: write https://HOST:PORT")]
    Form(String),
    /// Plain HTTP to another machine: the token would be there for all to read.
    #[error("{0:?} is not encrypted: http:// is for loopback addresses only")]
    Plain(String),
}

impl FromStr for ApiAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(text.to_owned());
        let (is_tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(form()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(form)?;
                let host: IpAddr = host.parse().map_err(|_| form())?;
                let port = match port {
                    "" => None,
                    port => Some(port.strip_prefix(':').ok_or_else(form)?),
                };
                (host.to_string(), port)
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port)),
                None => (rest.to_owned(), None),
            },
        };
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_letter) {
            return Err(form());
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| form())?,
            None if is_tls => HTTPS,
            None => HTTP,
        };
        let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        match is_tls || is_loopback {
            true => Ok(Self { is_tls, host, port }),
            false => Err(AddressError::Plain(text.to_owned())),
        }
    }
}

impl ApiAddress {
    /// The host and port, as a Host header has them.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back() {
        for (text, shown) in [
            ("https://192.168.7.13:6443", "https://192.168.7.13:6443"),
            ("https://api.example/", "https://api.example:443"),
            ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
            ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
            ("http://[::1]", "http://[::1]:80"),
        ] {
            assert_eq!(text.parse::<ApiAddress>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "https://",
            "192.168.7.13:6443",
            "https://a b",
            "https://a:x",
            "https://[::1",
            "https://[a]:1",
            "https://a/b",
            "ftp://a",
            "http://192.168.7.13",
            "http://localhost",
        ] {
            assert!(text.parse::<ApiAddress>().is_err(), "{text}");
        }
    }
}
