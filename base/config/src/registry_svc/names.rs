//! Names in the configuration of registry-svc, each with its grammar.

use std::sync::Arc;

use config_toml::{TextError, checked_text};

checked_text!(
    /// A server name as TLS clients send it (RFC 6066 §3), or a pattern `*.NAME`; in small letters and without a dot at the
    /// end.
    ServerName,
    parse_server_name,
    "a host name, or a pattern as in \"*.example.org\""
);

fn parse_server_name(text: &str) -> Result<Arc<str>, TextError> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let is_label = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_known)
    };
    let fits = labels.split('.').all(is_label) && name.len() <= 253;
    fits.then(|| name.into()).ok_or(TextError(
        "a host name is needed, or a pattern as in \"*.example.org\"",
    ))
}

/// The default name of a registry.
pub const DEFAULT_SERVICE: &str = "outpost-registry";

checked_text!(
    /// The name of a registry in challenges and tokens.
    ServiceName,
    parse_service,
    "a name of printable characters"
);

impl Default for ServiceName {
    fn default() -> Self {
        Self(DEFAULT_SERVICE.into())
    }
}

fn parse_service(text: &str) -> Result<Arc<str>, TextError> {
    let is_known = |byte: u8| (b'!'..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    let fits = (1..=255).contains(&text.len()) && text.bytes().all(is_known);
    fits.then(|| text.into()).ok_or(TextError(
        "a service is named with printable characters and no quotes",
    ))
}

checked_text!(
    /// The URL of a token endpoint.
    Realm,
    parse_realm,
    "a URL"
);

fn parse_realm(text: &str) -> Result<Arc<str>, TextError> {
    let fits = text.starts_with("https://") || text.starts_with("http://");
    fits.then(|| text.into()).ok_or(TextError(
        "a realm is the URL of the token endpoint, as in \"https://registry.example.org:5443/token\"",
    ))
}

checked_text!(
    /// The beginning of repositories' names, without a slash at either end; it may be empty.
    RepositoryPrefix,
    parse_prefix,
    "the beginning of a repository's name"
);

fn parse_prefix(text: &str) -> Result<Arc<str>, TextError> {
    let prefix = text.trim_matches('/');
    let is_known =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/".contains(&byte);
    let fits = prefix.bytes().all(is_known) && !prefix.contains("//");
    fits.then(|| prefix.into()).ok_or(TextError(
        "a prefix is the beginning of a repository's name",
    ))
}

checked_text!(
    /// Hours of the day, from the first to before the second: `7-19`; also past midnight, as in `22-6`.
    Hours,
    parse_hours,
    "hours of the day as in \"7-19\" or \"22-6\""
);

impl Hours {
    /// Whether an hour from 0 to 23 is one of them.
    #[must_use]
    pub fn contain(&self, hour: u64) -> bool {
        match bounds(self.as_str()) {
            Some((from, to)) if from < to => (from..to).contains(&hour),
            Some((from, to)) => hour >= from || hour < to,
            None => false,
        }
    }
}

fn parse_hours(text: &str) -> Result<Arc<str>, TextError> {
    bounds(text).map(|_| text.into()).ok_or(TextError(
        "hours of the day are needed, from 0 to 24, as in \"7-19\" or \"22-6\"",
    ))
}

fn bounds(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    ((0..24).contains(&from) && (1..=24).contains(&to) && from != to).then_some((from, to))
}

checked_text!(
    /// The name of a webhook.
    WebhookName,
    parse_webhook,
    "a name of letters, digits, `.`, `_` and `-`"
);

fn parse_webhook(text: &str) -> Result<Arc<str>, TextError> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=63).contains(&text.len()) && text.bytes().all(is_known);
    fits.then(|| text.into()).ok_or(TextError(
        "a webhook's name has up to 63 letters, digits, `.`, `_` and `-`",
    ))
}
