//! Certificates for clients of years ahead (`certificate-days`), which the nodes give each other.
//!
//! ```text
//! pki/nodes/served/NAME.crt     all of a node's, in the order of their ends; the first is for the node, all are for the others
//! ```
//!
//! The certificate `pki/nodes/NAME.crt` convinces the other nodes alone then. The crate [`certificate_schedule`] says when each
//! one ends.

use std::collections::BTreeSet;

use certificate_schedule::Schedule;
use site::service::Service;
use site::{Node, Site};

use super::certificate::{Audience, Authority, Facts, Reason, all_of, unfit};

/// The ones that the certificate in `nodes/NAME.crt` convinces.
pub(super) fn audience(site: &Site) -> Audience {
    match site.certificate_days {
        Some(_) => Audience::Nodes,
        None => Audience::All,
    }
}

/// Whether a node shows a certificate to clients: those of its registry or of the page.
pub(super) fn serves(site: &Site, node: &Node) -> bool {
    node.services.contains(&Service::RegistrySvc) || site.shows_page(node).is_some()
}

/// Why the certificates in a file do not do; `None` when they do.
pub(super) fn lacks(
    pem: Option<&[u8]>,
    (key, days): (&[u8], u16),
    names: &BTreeSet<String>,
    authority: &Authority,
    today: u64,
) -> Option<Reason> {
    let all = match all_of(pem, Facts::read_series) {
        Ok(all) => all,
        Err(reason) => return Some(reason),
    };
    let (first, last) = (all.first()?, all.last()?);
    let pair = (key, Audience::Clients);
    let bad = all
        .iter()
        .find_map(|facts| unfit(facts, &[], pair, names, authority));
    if bad.is_some() {
        return bad;
    }
    let begun = first.last_day.saturating_sub(u64::from(days));
    let expected = Schedule::of_days(days).ends(begun, last.last_day);
    if !expected.eq(all.iter().map(|facts| facts.last_day)) {
        return Some(Reason::OtherDays);
    }
    last.ends_soon(today)
}
