//! The choice of a client's view.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use dns_wire::Name;

use crate::access::Clients;

/// The longest name of a view.
const MAX_NAME: usize = 63;

/// The name of a view: letters, digits, `-` and `_`. It is a part of file names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewName(Arc<str>);

/// A text that is no name of a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a view: it has 1 to {MAX_NAME} letters, digits, `-` and `_`")]
pub struct ViewNameError(String);

/// A view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: ViewName,
    /// The clients that see it.
    pub clients: Clients,
}

/// The place of the view that a client sees: the first that lists the key of the query, or else the first that has the address.
/// A client that none of them has sees no view.
pub fn choose<'v>(
    views: impl Iterator<Item = &'v View> + Clone,
    client: IpAddr,
    key: Option<&Name>,
) -> Option<usize> {
    let by_key = key.and_then(|key| {
        let mut views = views.clone();
        views.position(|view| view.clients.has_key(Some(key)))
    });
    by_key.or_else(|| {
        let mut views = views;
        views.position(|view| view.clients.networks.contains(client))
    })
}

//--- ViewName

impl FromStr for ViewName {
    type Err = ViewNameError;

    fn from_str(text: &str) -> Result<Self, ViewNameError> {
        let is_allowed = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        let has_length = (1..=MAX_NAME).contains(&text.len());
        match has_length && text.bytes().all(is_allowed) {
            true => Ok(Self(text.into())),
            false => Err(ViewNameError(text.to_owned())),
        }
    }
}

impl ViewName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, networks: &str, keys: &[&str]) -> View {
        View {
            name: name.parse().unwrap(),
            clients: Clients {
                networks: networks.parse().unwrap(),
                keys: keys.iter().map(|key| key.parse().unwrap()).collect(),
            },
        }
    }

    #[test]
    fn the_key_decides_first_and_then_the_first_view_that_has_the_address() {
        let views = [
            view("office", "192.0.2.0/24, !192.0.2.7", &["office."]),
            view("lab", "192.0.2.0/25, 2001:db8::/32", &["lab.", "office."]),
            view("keyed", "", &["keyed."]),
            view("world", "0.0.0.0/0", &[]),
        ];
        for (client, key, expected) in [
            ("192.0.2.1", None, Some("office")),
            ("::ffff:192.0.2.1", None, Some("office")),
            ("192.0.2.7", None, Some("lab")),
            ("192.0.2.1", Some("lab."), Some("lab")),
            ("203.0.113.1", Some("LAB."), Some("lab")),
            ("203.0.113.1", Some("office."), Some("office")),
            ("192.0.2.1", Some("keyed."), Some("keyed")),
            ("192.0.2.1", Some("stranger."), Some("office")),
            ("203.0.113.1", None, Some("world")),
            ("2001:db8::1", None, Some("lab")),
            ("2001:db9::1", None, None),
            ("2001:db9::1", Some("stranger."), None),
        ] {
            let key: Option<Name> = key.map(|key| key.parse().unwrap());
            let chosen = choose(views.iter(), client.parse().unwrap(), key.as_ref());
            let chosen = chosen.and_then(|place| views.get(place));
            let name = chosen.map(|view| view.name.as_str());
            assert_eq!(name, expected, "{client} {key:?}");
        }
        let none = choose([].iter(), IpAddr::from([192, 0, 2, 1]), None);
        assert_eq!(none, None);
    }

    #[test]
    fn a_name_of_a_view_can_be_a_part_of_a_file_name() {
        let longest = "x".repeat(MAX_NAME);
        for name in ["internal", "A-1_b", longest.as_str()] {
            assert_eq!(name.parse::<ViewName>().unwrap().to_string(), name);
        }
        let longer = "x".repeat(MAX_NAME + 1);
        for name in ["", ".", "..", "a.b", "a/b", "a b", "é", longer.as_str()] {
            assert!(name.parse::<ViewName>().is_err(), "{name}");
        }
    }
}
