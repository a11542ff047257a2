//! Names and passwords for other registries, as podman, skopeo and docker keep them: a JSON file whose
//! `auths` has a Base64 `name:password` for each host, or for a path below a host
//! (containers-auth.json).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oci::reference::RepositoryName;
use serde_json::Value;

use crate::endpoint::Endpoint;

/// A name and a password. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// As `Authorization` has it.
    #[must_use]
    pub fn basic(&self) -> String {
        let both = format!("{}:{}", self.user, self.password);
        format!("Basic {}", STANDARD.encode(both))
    }

    /// Reads `name:password`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (user, password) = text.split_once(':')?;
        let is_whole = !user.is_empty() && !user.contains(char::is_control);
        is_whole.then(|| Self {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// An authentication file.
#[derive(Clone, Debug, Default)]
pub struct AuthFile {
    /// By host, or host and path.
    entries: Vec<(String, Credentials)>,
}

/// Why a file is none.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    /// Not JSON.
    #[error("not JSON")]
    Json(#[from] serde_json::Error),
    /// A malformed entry. The error does not repeat its text.
    #[error("the entry for {0} is no Base64 of name:password")]
    Entry(String),
}

impl AuthFile {
    /// Credentials for one registry alone.
    #[must_use]
    pub fn of(endpoint: &Endpoint, credentials: Credentials) -> Self {
        Self {
            entries: vec![(endpoint.authority(), credentials)],
        }
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(octets: &[u8]) -> Result<Self, AuthFileError> {
        let document: Value = serde_json::from_slice(octets)?;
        let mut entries = Vec::new();
        let auths = document.get("auths").and_then(Value::as_object);
        for (host, entry) in auths.into_iter().flatten() {
            // Without `auth` the secret is with a helper program, which is not asked.
            let Some(auth) = entry.get("auth").and_then(Value::as_str) else {
                continue;
            };
            let credentials = STANDARD
                .decode(auth)
                .ok()
                .and_then(|octets| String::from_utf8(octets).ok())
                .and_then(|text| Credentials::parse(&text))
                .ok_or_else(|| AuthFileError::Entry(host.clone()))?;
            entries.push((normal(host), credentials));
        }
        Ok(Self { entries })
    }

    /// The credentials for a repository: the entry with the longest path above it, or that of its
    /// host.
    #[must_use]
    pub fn find(
        &self,
        endpoint: &Endpoint,
        repository: Option<&RepositoryName>,
    ) -> Option<&Credentials> {
        let authority = endpoint.authority();
        let whole = match repository {
            Some(repository) => format!("{authority}/{}", repository.as_str()),
            None => authority,
        };
        let is_below = |key: &str| {
            whole
                .strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.entries
            .iter()
            .filter(|(key, _)| is_below(key))
            .max_by_key(|(key, _)| key.len())
            .map(|(_, credentials)| credentials)
    }
}

/// docker writes `https://index.docker.io/v1/` for its own registry, and others as URLs at times.
fn normal(key: &str) -> String {
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = key
        .strip_suffix("/v1")
        .or_else(|| key.strip_suffix("/v2"))
        .unwrap_or(key);
    match key {
        "docker.io" | "index.docker.io" => "registry-1.docker.io".to_owned(),
        key => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Scheme;

    fn file(entries: &[(&str, &str)]) -> Result<AuthFile, AuthFileError> {
        let entries: Vec<String> = entries
            .iter()
            .map(|(host, both)| format!(r#""{host}":{{"auth":"{}"}}"#, STANDARD.encode(both)))
            .collect();
        AuthFile::parse(format!(r#"{{"auths":{{{}}}}}"#, entries.join(",")).as_bytes())
    }

    #[test]
    fn the_longest_path_wins() {
        let file = file(&[
            ("registry.example.org:5000", "host:1"),
            ("registry.example.org:5000/group", "group:2"),
            ("registry.example.org:5000/group/image", "image:3:4"),
            ("https://index.docker.io/v1/", "docker:5"),
        ])
        .unwrap();
        let table = [
            (
                "registry.example.org:5000",
                Some("other/x"),
                Some(("host", "1")),
            ),
            ("registry.example.org:5000", None, Some(("host", "1"))),
            (
                "registry.example.org:5000",
                Some("group/x"),
                Some(("group", "2")),
            ),
            (
                "registry.example.org:5000",
                Some("groups/x"),
                Some(("host", "1")),
            ),
            (
                "registry.example.org:5000",
                Some("group/image"),
                Some(("image", "3:4")),
            ),
            (
                "registry-1.docker.io",
                Some("library/x"),
                Some(("docker", "5")),
            ),
            ("registry.example.org", Some("group"), None),
        ];
        for (host, repository, expected) in table {
            let endpoint = Endpoint::parse(host, Scheme::Https).unwrap();
            let repository = repository.map(|name| name.parse().unwrap());
            let found = file.find(&endpoint, repository.as_ref());
            let found = found.map(|found| (found.user.as_str(), found.password.as_str()));
            assert_eq!(found, expected, "{host} {repository:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_its_secrets() {
        assert!(AuthFile::parse(b"x").is_err());
        let error = file(&[("a", "no-colon-secret")]).unwrap_err().to_string();
        assert!(
            error.contains("for a ") && !error.contains("secret"),
            "{error}"
        );
        let other = AuthFile::parse(br#"{"credsStore":"x","auths":{"a":{}}}"#).unwrap();
        assert!(other.entries.is_empty());
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials::parse("me:secret").unwrap();
        assert!(!format!("{credentials:?}").contains("secret"));
        assert_eq!(credentials.basic(), "Basic bWU6c2VjcmV0");
        assert_eq!(Credentials::parse(":x"), None);
    }
}
