//! The address of another registry, and of content there: `https://registry.example.org:5000`, and
//! `registry.example.org:5000/group/image:tag` as people write references.

use std::fmt;

use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName, Tag};

/// A registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Its name or address; an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// How a registry is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Over TLS.
    Https,
    /// In the clear.
    Http,
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

/// Why a text does not say where a registry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Another scheme than HTTP's.
    #[error("the scheme is neither https nor http")]
    Scheme,
    /// No name or address.
    #[error("not the name or address of a host")]
    Host,
    /// No port.
    #[error("not a port")]
    Port,
    /// More than a registry's address.
    #[error("a registry has no path, query or user in its address")]
    More,
    /// Not what names an image there.
    #[error("not a name of a repository, with a tag or a digest")]
    Name,
}

impl Endpoint {
    /// Reads `[SCHEME://]HOST[:PORT]`; without a scheme it is the one given.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(text: &str, scheme: Scheme) -> Result<Self, EndpointError> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("https" | "docker", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(_) => return Err(EndpointError::Scheme),
            None => (scheme, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return Err(EndpointError::More);
        }
        Self::of_authority(rest, scheme)
    }

    /// Reads `HOST[:PORT]`.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn of_authority(text: &str, scheme: Scheme) -> Result<Self, EndpointError> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or(EndpointError::Host)?;
                let address: std::net::Ipv6Addr =
                    address.parse().map_err(|_| EndpointError::Host)?;
                let port = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix(':').ok_or(EndpointError::Port)?),
                };
                (address.to_string(), port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host.to_ascii_lowercase(), Some(port)),
                None => (text.to_ascii_lowercase(), None),
            },
        };
        let is_host = |octet: u8| octet.is_ascii_alphanumeric() || b".-_:".contains(&octet);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(EndpointError::Host);
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| EndpointError::Port)?,
            None => scheme.port(),
        };
        Ok(Self { scheme, host, port })
    }

    /// Host and port as in `Host:` and in authentication files: the usual port is left out.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port == self.scheme.port() {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}://{}", self.scheme.name(), self.authority())
    }
}

/// A reference with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The registry.
    pub endpoint: Endpoint,
    /// The repository, or what names of repositories begin with; none for all.
    pub repository: Option<RepositoryName>,
    /// The manifest; none for all that have tags.
    pub reference: Option<Reference>,
}

impl Remote {
    /// Reads `[SCHEME://]HOST[:PORT][/REPOSITORY[:TAG][@DIGEST]]`. A digest wins over a tag.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(text: &str, scheme: Scheme) -> Result<Self, EndpointError> {
        let start = text.find("://").map_or(0, |at| at + 3);
        let slash = text.get(start..).and_then(|rest| rest.find('/'));
        let Some(slash) = slash.map(|at| start + at) else {
            return Ok(Self {
                endpoint: Endpoint::parse(text, scheme)?,
                repository: None,
                reference: None,
            });
        };
        let (authority, path) = text.split_at(slash);
        let endpoint = Endpoint::parse(authority, scheme)?;
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Ok(Self {
                endpoint,
                repository: None,
                reference: None,
            });
        }
        let (named, digest) = match path.split_once('@') {
            Some((named, digest)) => {
                let digest: Digest = digest.parse().map_err(|_| EndpointError::Name)?;
                (named, Some(digest))
            }
            None => (path, None),
        };
        let (repository, tag) = match named.split_once(':') {
            Some((repository, tag)) => {
                let tag: Tag = tag.parse().map_err(|_| EndpointError::Name)?;
                (repository, Some(tag))
            }
            None => (named, None),
        };
        let repository = repository.parse().map_err(|_| EndpointError::Name)?;
        let reference = digest
            .map(Reference::Digest)
            .or_else(|| tag.map(Reference::Tag));
        Ok(Self {
            endpoint,
            repository: Some(repository),
            reference,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let table = [
            ("registry.example.org", Ok("https://registry.example.org")),
            (
                "Registry.Example.org:443",
                Ok("https://registry.example.org"),
            ),
            ("https://a:5000/", Ok("https://a:5000")),
            ("http://a", Ok("http://a")),
            ("http://a:443", Ok("http://a:443")),
            ("docker://a", Ok("https://a")),
            ("[2001:db8::1]:5000", Ok("https://[2001:db8::1]:5000")),
            ("http://[::1]", Ok("http://[::1]")),
            ("ftp://a", Err(EndpointError::Scheme)),
            ("", Err(EndpointError::Host)),
            ("a b", Err(EndpointError::Host)),
            ("[::1", Err(EndpointError::Host)),
            ("[::g]", Err(EndpointError::Host)),
            ("a:b", Err(EndpointError::Port)),
            ("a:", Err(EndpointError::Port)),
            ("a:70000", Err(EndpointError::Port)),
            ("[::1]5000", Err(EndpointError::Port)),
            ("https://a/v2", Err(EndpointError::More)),
            ("https://u:p@a", Err(EndpointError::More)),
            ("https://a?x", Err(EndpointError::More)),
        ];
        for (text, expected) in table {
            let endpoint = Endpoint::parse(text, Scheme::Https);
            let shown = endpoint.map(|endpoint| endpoint.to_string());
            assert_eq!(shown, expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn references_are_read() {
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let both = format!("docker://h/a:1@{digest}");
        let table = [
            ("h:5000/a/b:c", Some(("h:5000", Some("a/b"), Some("c")))),
            ("http://h/a", Some(("h", Some("a"), None))),
            ("h", Some(("h", None, None))),
            ("h/", Some(("h", None, None))),
            (&both, Some(("h", Some("a"), Some(digest)))),
            ("h/A", None),
            ("h/a:", None),
            ("h/a@b", None),
        ];
        for (text, expected) in table {
            let remote = Remote::parse(text, Scheme::Https).ok();
            let shown = remote.as_ref().map(|remote| {
                let reference = remote.reference.as_ref().map(|reference| match reference {
                    Reference::Tag(tag) => tag.as_str().to_owned(),
                    Reference::Digest(digest) => digest.to_string(),
                });
                let repository = remote.repository.as_ref();
                let repository = repository.map(|name| name.as_str().to_owned());
                (remote.endpoint.authority(), repository, reference)
            });
            let expected = expected.map(|(host, repository, reference)| {
                let owned = |text: Option<&str>| text.map(str::to_owned);
                (host.to_owned(), owned(repository), owned(reference))
            });
            assert_eq!(shown, expected, "{text}");
        }
    }
}
