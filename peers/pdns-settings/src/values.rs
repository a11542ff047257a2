//! Parsers for the values of settings.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::Settings;

impl Settings {
    /// A switch, which is on unless its value says no.
    #[must_use]
    pub fn switch(&self, key: &str, default: bool) -> bool {
        let setting = self.get(key);
        setting.map_or(default, |setting| {
            !matches!(setting.value.as_str(), "no" | "off")
        })
    }

    /// A number; `default` when there is none.
    pub fn number<T: FromStr>(&mut self, key: &str, default: T) -> T {
        self.number_if_set(key).unwrap_or(default)
    }

    /// A number; `None` when it is not set, is empty or is a problem.
    pub fn number_if_set<T: FromStr>(&mut self, key: &str) -> Option<T> {
        let setting = self.get(key).filter(|setting| !setting.value.is_empty())?;
        let number = setting.value.parse().ok();
        if number.is_none() {
            let message = format!("`{key}` takes a number, not `{}`", setting.value);
            self.problem(setting.position.clone(), message);
        }
        number
    }

    /// A list of addresses, with ports or without; `None` when it is not set.
    pub fn addresses(&mut self, key: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let setting = self.get(key)?.clone();
        let mut addresses = Vec::new();
        for item in items(&setting.value) {
            match address(item, port) {
                Some(address) => addresses.push(address),
                None => {
                    let message = format!("`{key}` takes addresses, not `{item}`");
                    self.problem(setting.position.clone(), message);
                }
            }
        }
        Some(addresses)
    }
}

/// The items of a list, which commas, semicolons and blanks separate.
pub fn items(value: &str) -> impl Iterator<Item = &str> {
    value
        .split([' ', '\t', ',', ';'])
        .filter(|item| !item.is_empty())
}

/// An address, alone or with a port; one of IPv6 needs brackets for that.
#[must_use]
pub fn address(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(SocketAddr::new(address, port)),
        Err(_) => text.parse().ok(),
    }
}
