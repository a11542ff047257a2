//! The address of healthd, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The address of healthd: `unix:/run/outpost/healthd/healthd.sock` or `http://192.168.7.13:9400`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and port, as a URI.
    Http(String),
}

impl Default for Endpoint {
    fn default() -> Self {
        Self::Unix(PathBuf::from("/run/outpost/healthd/healthd.sock"))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let refused = || EndpointError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Self::Unix(PathBuf::from(path))),
                false => Err(refused()),
            };
        }
        let authority = text.strip_prefix("http://").ok_or_else(refused)?;
        match is_authority(authority.strip_suffix('/').unwrap_or(authority)) {
            true => Ok(Self::Http(text.to_owned())),
            false => Err(refused()),
        }
    }
}

/// Whether the text is a host, with or without a port: a name, an IPv4 address, or an IPv6 address in brackets
/// (RFC 3986 §3.2).
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = |host: &str| {
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let is_host = match host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(inside) => inside.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_name(host),
    };
    is_host && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http(uri) => f.write_str(uri),
        }
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, EndpointError> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

/// The address of healthd, or `none`: an argument of its clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HealthdArg(pub Option<Endpoint>);

impl Default for HealthdArg {
    fn default() -> Self {
        Self(Some(Endpoint::default()))
    }
}

impl FromStr for HealthdArg {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(|endpoint| Self(Some(endpoint))),
        }
    }
}

impl fmt::Display for HealthdArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(endpoint) => endpoint.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl TryFrom<String> for HealthdArg {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, EndpointError> {
        text.parse()
    }
}

impl From<HealthdArg> for String {
    fn from(argument: HealthdArg) -> Self {
        argument.to_string()
    }
}

/// The text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no endpoint: write unix:/path or http://address:port")]
pub struct EndpointError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_back() {
        for text in [
            "unix:/run/outpost/healthd/healthd.sock",
            "http://127.0.0.1:9400",
            "http://[::1]:1",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        let slashes = "unix:///run/x".parse::<Endpoint>().unwrap();
        assert_eq!(slashes, Endpoint::Unix("/run/x".into()));
    }

    #[test]
    fn healthd_may_be_told_to_be_absent() {
        assert_eq!("none".parse(), Ok(HealthdArg(None)));
        let socket = Endpoint::Unix("/run/x".into());
        assert_eq!("unix:/run/x".parse(), Ok(HealthdArg(Some(socket))));
        assert!("None".parse::<HealthdArg>().is_err());
    }

    #[test]
    fn text_that_is_no_endpoint_is_refused() {
        for text in [
            "",
            "unix:",
            "unix:relative",
            "127.0.0.1:9400",
            "http://",
            "https://x:1",
            "http://a b",
            "http://a:b",
            "http://[::g]:1",
            "http://a:1/x",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
