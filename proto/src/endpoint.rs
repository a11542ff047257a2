//! The address of healthd, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tonic::transport::Channel;

/// A connection attempt that takes longer than this has failed. healthd is on the same node, or
/// one switch away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of pings to a silent healthd, and the time limit of its answer. A healthd that hangs
/// without ending its streams is noticed within the sum.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The address of healthd: `unix:/run/outpost/healthd.sock` or `http://192.168.7.13:9400`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and port, as a URI.
    Http(String),
}

impl Default for Endpoint {
    fn default() -> Self {
        Self::Unix(PathBuf::from("/run/outpost/healthd.sock"))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Self::Unix(PathBuf::from(path))),
                false => Err(EndpointError(text.to_owned())),
            };
        }
        let has_host = text
            .strip_prefix("http://")
            .is_some_and(|rest| !rest.is_empty());
        match has_host && tonic::transport::Endpoint::from_shared(text.to_owned()).is_ok() {
            true => Ok(Self::Http(text.to_owned())),
            false => Err(EndpointError(text.to_owned())),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http(uri) => f.write_str(uri),
        }
    }
}

/// The address of healthd, or `none`: an argument of its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthdArg(pub Option<Endpoint>);

impl FromStr for HealthdArg {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(|endpoint| Self(Some(endpoint))),
        }
    }
}

impl Endpoint {
    /// Connects once.
    ///
    /// # Errors
    /// When healthd does not accept the connection in time.
    pub async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        let endpoint = tonic::transport::Endpoint::from_shared(self.to_string())?;
        endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .connect()
            .await
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
            "unix:/run/outpost/healthd.sock",
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
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
