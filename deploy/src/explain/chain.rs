//! The next link of the chain: the service to ask and its question, by the answers before.
//!
//! Asks nothing.

use std::net::{IpAddr, SocketAddr};

use api::explain::dns_recursor::Outcome;
use api::explain::node::Part;
use api::explain::{dns_authd, dns_recursor, lb_proxy};

/// The most places that one question names.
const MAX_PLACES: usize = 64;

/// The kind of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A name.
    Name,
    /// An IP address.
    Address,
    /// An IP address with a port.
    Port,
}

impl Subject {
    pub(super) fn of(about: &str) -> Self {
        let is_address = about.parse::<IpAddr>().is_ok();
        let is_port = about.parse::<SocketAddr>().is_ok();
        match (is_address, is_port) {
            (true, _) => Self::Address,
            (false, true) => Self::Port,
            (false, false) => Self::Name,
        }
    }
}

/// Whether the answer comes from dns-authd; if not, why.
pub(super) fn leads_to_authority(recursor: &Part<dns_recursor::Explanation>) -> Result<(), String> {
    // Without dns-recursor, clients ask dns-authd.
    let Some(explanation) = recursor.answer() else {
        return Ok(());
    };
    if matches!(explanation.outcome, Outcome::Local | Outcome::Rejected) {
        return Err("dns-recursor answers by itself".to_owned());
    }
    match &explanation.route {
        Some(route) if route.iterates || route.recursive => Err(format!(
            "the route of {} leads to other servers",
            route.zone
        )),
        Some(_) => Ok(()),
        None => Err("no route leads to it".to_owned()),
    }
}

/// The addresses of an answer: the targets of its programs with their ports, the others without.
pub(super) fn places(
    recursor: Option<&dns_recursor::Explanation>,
    authority: Option<&dns_authd::Explanation>,
) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    let mut covered: Vec<IpAddr> = Vec::new();
    for target in authority.into_iter().flat_map(targets_of) {
        covered.extend(target.address.parse().map(|at: SocketAddr| at.ip()));
        add(&mut places, &target.address);
    }
    let records: Vec<&String> = match authority.and_then(|it| it.response.as_ref()) {
        Some(response) => response.answer.iter().collect(),
        None => {
            let cached = recursor.into_iter().flat_map(|it| &it.cached);
            cached.flat_map(|cached| &cached.records).collect()
        }
    };
    for address in records.into_iter().filter_map(|record| address_of(record)) {
        if !covered.contains(&address) {
            add(&mut places, &address.to_string());
        }
    }
    places
}

/// The targets that the answer and the servers follow; without any, the places themselves.
pub(super) fn targets(
    places: &[String],
    authority: Option<&dns_authd::Explanation>,
    balancer: Option<&lb_proxy::Explanation>,
) -> Vec<String> {
    let mut targets = Vec::new();
    for target in authority.into_iter().flat_map(targets_of) {
        add(&mut targets, &target.address);
    }
    let backends = balancer.into_iter().flat_map(|it| &it.backends);
    let servers = backends.flat_map(|it| &it.backend.servers);
    for probe in servers.filter_map(|server| server.probe.as_ref()) {
        // A target is its kind, its address and the rest.
        if let Some(address) = probe.target.split_whitespace().nth(1)
            && let Some(address) = address.split('/').next()
        {
            add(&mut targets, address);
        }
    }
    match targets.is_empty() {
        true => places.to_vec(),
        false => targets,
    }
}

fn targets_of(authority: &dns_authd::Explanation) -> impl Iterator<Item = &dns_authd::Target> {
    let sets = authority.steps.iter().flat_map(|step| &step.live);
    sets.flat_map(|set| &set.targets)
}

/// Adds a place once.
fn add(places: &mut Vec<String>, place: &str) {
    if places.len() < MAX_PLACES && !places.iter().any(|known| known == place) {
        places.push(place.to_owned());
    }
}

/// The address of an A or AAAA record: `OWNER TTL CLASS TYPE ADDRESS`.
fn address_of(record: &str) -> Option<IpAddr> {
    let mut fields = record.split_whitespace().skip(3);
    match (fields.next()?, fields.next()?) {
        ("A" | "AAAA", address) => address.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
