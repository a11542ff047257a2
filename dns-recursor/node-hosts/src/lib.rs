//! Decides the lines of a node's hosts file for services of the cluster.
//!
//! Programs of the node itself, such as the container runtime that pulls from the cluster's registry, do not ask the
//! cluster's DNS; they find its services in /etc/hosts.
//!
//! ```text
//! responses ─► answer ─► services: the last good addresses ─► block ─► the file with its block
//! ```
//!
//! Reads no file, no clock and no socket: times are given as the time since the start.

pub mod answer;
pub mod block;
pub mod services;

use dns_wire::{Name, NameError};

/// A service as the operator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The names of its lines: as it was given, and below the cluster's domain.
    pub names: Vec<String>,
    /// The name that queries have.
    pub asked: Name,
}

impl Service {
    /// A service: a name relative to the cluster's domain, or with a dot at the end the name itself.
    ///
    /// # Errors
    /// When it is not a name, or has characters that a hosts file cannot hold.
    pub fn new(text: &str, domain: &str) -> Result<Self, String> {
        let domain = domain.trim_matches('.');
        let names = match text.strip_suffix('.') {
            Some(whole) => vec![whole.to_owned()],
            None if domain.is_empty() => vec![text.to_owned()],
            None => vec![text.to_owned(), format!("{text}.{domain}")],
        };
        let whole = names.last().map_or("", String::as_str);
        let is_host = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
        let wrong = |why: String| format!("`{text}` is not the name of a service: {why}");
        if !whole.bytes().all(is_host) {
            return Err(wrong(
                "a hosts file has letters, digits, `-`, `_` and dots".to_owned(),
            ));
        }
        let asked = Name::parse(whole).map_err(|error: NameError| wrong(error.to_string()))?;
        match asked.is_root() {
            true => Err(wrong("it is the root".to_owned())),
            false => Ok(Self { names, asked }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_short_and_a_long_name() {
        for (text, domain, names, asked) in [
            (
                "a.b.svc",
                "cluster.local",
                "a.b.svc a.b.svc.cluster.local",
                "a.b.svc.cluster.local.",
            ),
            (
                "a.b.svc",
                "cluster.local.",
                "a.b.svc a.b.svc.cluster.local",
                "a.b.svc.cluster.local.",
            ),
            ("a.example.", "cluster.local", "a.example", "a.example."),
            ("a.example", "", "a.example", "a.example."),
        ] {
            let service = Service::new(text, domain).unwrap();
            assert_eq!(service.names.join(" "), names);
            assert_eq!(service.asked.to_string(), asked);
        }
    }

    #[test]
    fn names_that_would_break_the_file_are_refused() {
        let long = "a".repeat(64);
        for text in [
            "",
            ".",
            "a..b",
            "a b",
            "a#b",
            "a\nb",
            "a\\046b",
            "ä",
            long.as_str(),
        ] {
            assert!(Service::new(text, "").is_err(), "{text:?}");
        }
    }
}
