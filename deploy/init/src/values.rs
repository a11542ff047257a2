//! Parses the values of flags and answers.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use config::site::Openshift;
use ipnet::IpNet;

use super::draft::{DraftNode, MAX_NODES};
use site_file::names;

pub(crate) fn label(text: &str) -> Result<String, String> {
    names::label(text).map_err(|why| format!("`{text}` {why}"))?;
    Ok(text.to_owned())
}

pub(crate) fn labels(text: &str) -> Result<Vec<String>, String> {
    words(text, |word| {
        names::owner(word).map_err(|why| format!("`{word}` {why}"))?;
        Ok(word.to_owned())
    })
}

pub(crate) fn domain(text: &str) -> Result<String, String> {
    let bare = text.strip_suffix('.').unwrap_or(text);
    host(bare)
}

pub(crate) fn host(text: &str) -> Result<String, String> {
    names::host(text).map_err(|why| format!("`{text}` {why}"))?;
    Ok(text.to_owned())
}

pub(crate) fn hosts(text: &str) -> Result<Vec<String>, String> {
    words(text, |word| match word.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => host(word),
    })
}

pub(crate) fn interface(text: &str) -> Result<String, String> {
    names::interface(text).map_err(|why| format!("`{text}` {why}"))?;
    Ok(text.to_owned())
}

pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let network: IpNet = parsed(text, "a network, as in 192.168.7.0/24")?;
    Ok(network.trunc())
}

pub(crate) fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    let networks = words(text, network)?;
    match networks.as_slice() {
        [] => Err("a site has a network".to_owned()),
        _ => Ok(networks),
    }
}

pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    parsed(text, "an IP address")
}

pub(crate) fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    words(text, address)
}

pub(crate) fn upstream(text: &str) -> Result<String, String> {
    let is_one = text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok();
    is_one
        .then(|| text.to_owned())
        .ok_or_else(|| format!("`{text}` is not an IP address, with or without a port"))
}

pub(crate) fn upstreams(text: &str) -> Result<Vec<String>, String> {
    words(text, upstream)
}

pub(crate) fn release(text: &str) -> Result<String, String> {
    if text == "none" {
        return Ok(text.to_owned());
    }
    match text.parse::<Openshift>() {
        Ok(release) => Ok(release.to_string()),
        Err(error) => Err(format!("{error}, nor none")),
    }
}

pub(crate) fn n_masters(text: &str) -> Result<u32, String> {
    match count(text)? {
        0 => Err("a site needs masters to run the services: 1 or 3".to_owned()),
        n if n.is_multiple_of(2) => Err(format!(
            "etcd survives the loss of no more with {n} than with {}",
            n - 1
        )),
        n => Ok(n),
    }
}

pub(crate) fn n_workers(text: &str) -> Result<u32, String> {
    count(text)
}

/// `NAME=ADDRESS` or `NAME=ADDRESS,ADDRESS`.
pub(crate) fn node(text: &str) -> Result<DraftNode, String> {
    let (name, list) = text.split_once('=').ok_or_else(|| {
        "a name and its address are wanted, as in master-0=192.168.7.13".to_owned()
    })?;
    let addresses: Result<Vec<IpAddr>, String> = list.split(',').map(address).collect();
    Ok(DraftNode {
        name: host(name)?,
        role: None,
        addresses: addresses?,
    })
}

fn count(text: &str) -> Result<u32, String> {
    let count: u32 = parsed(text, "a number")?;
    match count {
        n if n <= MAX_NODES => Ok(n),
        _ => Err(format!("more than {MAX_NODES} are no site")),
    }
}

/// Words between blanks or commas; `-` is none at all.
fn words<T>(text: &str, check: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    if text == "-" {
        return Ok(Vec::new());
    }
    text.split([' ', ',', '\t'])
        .filter(|word| !word.is_empty())
        .map(check)
        .collect()
}

fn parsed<T: FromStr>(text: &str, wanted: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not {wanted}"))
}
