//! `allow`, `deny`, `cmdallow`, `cmddeny`: `[all] [address|network|name]`.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::Reader;
use super::line::Line;
use time_model::settings::{AccessRule, ClientMatch};

impl Reader<'_> {
    pub(super) fn access(&mut self, line: &Line<'_>, allow: bool) -> Option<AccessRule> {
        let mut words = line.words.iter().copied().peekable();
        let all = words.next_if(|word| word.is("all")).is_some();
        let whom = match words.next() {
            None => ClientMatch::Everybody,
            Some(word) => match whom(word.text) {
                Ok(whom) => whom,
                Err(message) => {
                    self.problem(line.at(word), message);
                    return None;
                }
            },
        };
        if let Some(word) = words.next() {
            let message = format!("`{}` is one word too many", word.text);
            self.problem(line.at(word), message);
        }
        Some(AccessRule { allow, all, whom })
    }
}

/// An address, a network, the beginning of an IPv4 address (`192.168` is 192.168.0.0/16), or a name.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn whom(text: &str) -> Result<ClientMatch, String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let Some((address, written)) = address_or_beginning(address) else {
        if length.is_some() {
            return Err(format!("`{text}` is no network"));
        }
        return Ok(ClientMatch::Name(text.to_owned()));
    };
    let length = match length {
        None => written,
        Some(length) => length
            .parse()
            .map_err(|_| format!("`{length}` is no length of a prefix"))?,
    };
    match IpNet::new(address, length) {
        Ok(network) => Ok(ClientMatch::Network(network.trunc())),
        Err(_) => Err(format!(
            "a prefix of {length} bits is too long for {address}"
        )),
    }
}

/// An address, and how many bits of it were written.
fn address_or_beginning(text: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, if address.is_ipv4() { 32 } else { 128 }));
    }
    let mut octets = [0; 4];
    let mut bits = 0;
    let mut places = octets.iter_mut();
    for part in text.split('.') {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        *places.next()? = part.parse().ok().filter(|_| digits)?;
        bits += 8;
    }
    Some((Ipv4Addr::from(octets).into(), bits))
}
