//! The challenge of a registry that answers 401: `WWW-Authenticate` (RFC 9110 §11.6.1), with
//! `Basic` (RFC 7617) or the `Bearer` that names the token endpoint (distribution's token
//! authentication).

use std::collections::BTreeMap;

use oci::quoted;

/// Parameters of one challenge; the longest known have four.
const MAX_PARAMETERS: usize = 16;
/// Challenges of one answer.
const MAX_CHALLENGES: usize = 8;

/// A challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A name and a password.
    Basic,
    /// A token, which is to be had elsewhere.
    Bearer {
        /// The token endpoint.
        realm: String,
        /// The service that it is for.
        service: Option<String>,
        /// The scope that it has to allow, if the registry gives one.
        scope: Option<String>,
    },
}

/// Reads the values of all `WWW-Authenticate` of an answer; schemes that are not known are left out.
#[must_use]
pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    for value in values {
        read(value, &mut challenges);
    }
    challenges
}

/// One value may have several challenges, with commas between them as between parameters: a part
/// without an equals sign behind its first word begins a new one.
fn read(value: &str, challenges: &mut Vec<Challenge>) {
    let mut rest = value.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() && challenges.len() < MAX_CHALLENGES {
        let (scheme, behind) = token(rest);
        if scheme.is_empty() {
            return;
        }
        let (parameters, behind) = parameters(behind);
        challenges.extend(challenge(scheme, parameters));
        // A scheme without readable parameters would loop for ever.
        if behind.len() == rest.len() {
            return;
        }
        rest = behind;
    }
}

fn challenge(scheme: &str, mut parameters: BTreeMap<String, String>) -> Option<Challenge> {
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    Some(Challenge::Bearer {
        realm: parameters.remove("realm")?,
        service: parameters.remove("service"),
        scope: parameters.remove("scope"),
    })
}

/// Reads `name=value` as long as there are any, and returns what is behind.
fn parameters(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut parameters = BTreeMap::new();
    while parameters.len() < MAX_PARAMETERS {
        let here = rest.trim_start_matches([' ', '\t', ',']);
        let (name, behind) = token(here);
        let Some(behind) = behind.trim_start().strip_prefix('=') else {
            return (parameters, here);
        };
        if name.is_empty() {
            return (parameters, "");
        }
        let behind = behind.trim_start();
        let (value, behind) = match behind.strip_prefix('"') {
            Some(behind) => quoted::read(behind),
            None => {
                let (value, behind) = token(behind);
                (value.to_owned(), behind)
            }
        };
        parameters.insert(name.to_ascii_lowercase(), value);
        rest = behind;
    }
    (parameters, "")
}

fn token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_are_read() {
        let realm = "https://auth.example.org/token";
        let table = [
            (r#"Basic realm="Registry""#, vec![Challenge::Basic]),
            ("basic", vec![Challenge::Basic]),
            (
                r#"Bearer realm="https://auth.example.org/token",service="registry.example.org",scope="repository:a/b:pull,push""#,
                vec![bearer(
                    realm,
                    Some("registry.example.org"),
                    Some("repository:a/b:pull,push"),
                )],
            ),
            (
                r#"Negotiate, Bearer realm="https://auth.example.org/token", error="x\"y", Basic realm=z"#,
                vec![bearer(realm, None, None), Challenge::Basic],
            ),
            (
                r#"Bearer REALM = "https://auth.example.org/token""#,
                vec![bearer(realm, None, None)],
            ),
            (r#"Bearer service="x""#, vec![]),
            ("", vec![]),
            (",,", vec![]),
            ("\"", vec![]),
            (
                r#"Bearer realm="unfinished"#,
                vec![bearer("unfinished", None, None)],
            ),
            ("Bearer =", vec![]),
            ("Negotiate YII=", vec![]),
        ];
        for (value, expected) in table {
            assert_eq!(parse([value]), expected, "{value}");
        }
    }

    #[test]
    fn many_values_are_bounded() {
        let value = "Basic a=b,".repeat(10_000);
        assert_eq!(parse([value.as_str()]).len(), MAX_CHALLENGES);
        let value = format!("Bearer {}", "a=b,".repeat(10_000));
        assert!(parse([value.as_str()]).is_empty());
    }
}
