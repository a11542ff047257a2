//! The challenge to a client that has to authenticate: the value of `WWW-Authenticate` (RFC 9110
//! §11.6.1), in the form that docker and containers/image read.
//!
//! ```text
//! Bearer realm="https://registry.example.org:5443/token",service="outpost-registry",scope="repository:a:pull"
//! Basic realm="outpost-registry"
//! ```

use oci::quoted;

use super::acl::Action;

/// The access that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want<'a> {
    /// The repository's name; empty for the catalog.
    pub repository: &'a str,
    /// The action.
    pub action: Action,
}

/// The fault of the token in the request (RFC 6750 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It is not valid, or not any more.
    Invalid,
    /// It does not grant what is wanted, but another one would.
    Insufficient,
}

/// Tells a client to fetch a token at `realm`.
#[must_use]
pub fn bearer(realm: &str, service: &str, wants: &[Want<'_>], fault: Option<TokenFault>) -> String {
    let mut text = format!(
        "Bearer realm={},service={}",
        quoted::write(realm),
        quoted::write(service)
    );
    if !wants.is_empty() {
        text.push_str(&format!(",scope={}", quoted::write(&scope(wants))));
    }
    match fault {
        None => {}
        Some(TokenFault::Invalid) => text.push_str(",error=\"invalid_token\""),
        Some(TokenFault::Insufficient) => text.push_str(",error=\"insufficient_scope\""),
    }
    text
}

/// Tells a client to send name and password; UTF-8 is understood (RFC 7617 §2.1).
#[must_use]
pub fn basic(service: &str) -> String {
    format!("Basic realm={}", quoted::write(service))
}

/// The scope that would do, each repository once, in the order in which they are wanted.
fn scope(wants: &[Want<'_>]) -> String {
    let mut resources: Vec<(&str, Vec<&str>)> = Vec::new();
    for want in wants {
        let word = want.action.as_str();
        let name = match want.action {
            Action::Catalog => "",
            _ => want.repository,
        };
        match resources.iter_mut().find(|(known, _)| *known == name) {
            Some((_, words)) if words.contains(&word) => {}
            Some((_, words)) => words.push(word),
            None => resources.push((name, vec![word])),
        }
    }
    let words: Vec<String> = resources
        .into_iter()
        .map(|(name, words)| match name {
            "" => "registry:catalog:*".to_owned(),
            name => format!("repository:{name}:{}", words.join(",")),
        })
        .collect();
    words.join(" ")
}

/// The host and port of a request as a client wrote it, if it is one: letters, digits and what
/// addresses have.
#[must_use]
pub fn authority(text: &str) -> Option<&str> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte);
    let is_fit = !text.is_empty() && text.len() <= 300 && text.bytes().all(is_known);
    is_fit.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(repository: &str, action: Action) -> Want<'_> {
        Want { repository, action }
    }

    #[test]
    fn challenges_are_as_clients_read_them() {
        let realm = "https://registry.example.org:5443/token";
        assert_eq!(
            bearer(realm, "outpost-registry", &[], None),
            "Bearer realm=\"https://registry.example.org:5443/token\",service=\"outpost-registry\""
        );
        let wants = [
            want("ocp4/release", Action::Pull),
            want("ocp4/release", Action::Push),
            want("base", Action::Pull),
            want("base", Action::Pull),
        ];
        assert!(bearer(realm, "s", &wants, Some(TokenFault::Insufficient)).ends_with(
            ",scope=\"repository:ocp4/release:pull,push repository:base:pull\",error=\"insufficient_scope\""
        ));
        let wants = [want("", Action::Catalog)];
        assert!(
            bearer(realm, "s", &wants, Some(TokenFault::Invalid))
                .ends_with(",scope=\"registry:catalog:*\",error=\"invalid_token\"")
        );
        assert_eq!(basic("a \"b\"\n"), "Basic realm=\"a \\\"b\\\"\"");
    }

    #[test]
    fn a_host_that_is_none_is_not_repeated() {
        for good in [
            "registry.example.org:5443",
            "[2001:db8::1]:5443",
            "10.0.0.1",
        ] {
            assert_eq!(authority(good), Some(good));
        }
        for bad in ["", "a b", "a\"b", "a/b", "a@b", "ä"] {
            assert_eq!(authority(bad), None);
        }
    }
}
