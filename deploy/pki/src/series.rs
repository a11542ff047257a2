//! Certificates for clients of years ahead (`certificate-days`), which the nodes give each other.
//!
//! ```text
//! pki/nodes/served/NAME.crt     all of a node's, in the order of their ends; the first is for the node, all are for the others
//! ```
//!
//! The certificate `pki/nodes/NAME.crt` convinces the other nodes alone then. The crate [`certificate_schedule`] says when each
//! one ends.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use certificate_schedule::Schedule;
use config_text::counted;
use daemon::outln;
use durable::Rights;
use rcgen::{Issuer, KeyPair};
use site::{Node, Site};

use super::certificate::{self, Audience, Authority, Facts, MAX_SERIES, Reason, SOON, unfit};
use super::store::{MakeOptions, Store};
use super::{make_directory, names, present};

/// The ones that the certificate in `nodes/NAME.crt` convinces.
pub(super) fn audience(site: &Site) -> Audience {
    match site.certificate_days {
        Some(_) => Audience::Nodes,
        None => Audience::All,
    }
}

/// Whether a node shows a certificate to clients: of its registry, or of the page.
pub(super) fn serves(site: &Site, node: &Node) -> bool {
    node.services.contains(&site::service::Service::RegistrySvc) || site.shows_page(node).is_some()
}

impl Store {
    /// The certificates for clients of a node.
    pub(super) fn series(&self, node: &str) -> PathBuf {
        self.directory.join(format!("nodes/served/{node}.crt"))
    }

    /// Makes the certificates for clients of a node, unless those that are there are good; true when it has made them.
    pub(super) fn make_series(
        &self,
        (site, node): (&Site, &Node),
        key: &KeyPair,
        (authority, issuer): (&Authority, Option<&Issuer<'_, KeyPair>>),
        options: MakeOptions,
    ) -> anyhow::Result<bool> {
        let Some(days) = site.certificate_days.filter(|_| serves(site, node)) else {
            return Ok(false);
        };
        let (path, names) = (self.series(&node.name), names(site, node));
        let pem = present(&path)?;
        let pair = (key.public_key_raw(), days);
        let lack = lacks(pem.as_deref(), pair, &names, authority, self.today);
        let Some(reason) = lack.or_else(|| options.renew.then_some(Reason::Asked)) else {
            return Ok(false);
        };
        let Some(issuer) = issuer else {
            bail!(
                "{} must be signed ({reason}), but {} is missing; an external authority cannot sign for `certificate-days`",
                path.display(),
                self.path("ca.key").display()
            );
        };
        let last = (self.today + u64::from(options.days)).min(authority.facts.last_day);
        let ends: Vec<u64> = Schedule::of_days(days).ends(self.today, last).collect();
        if ends.is_empty() || ends.len() > MAX_SERIES {
            bail!(
                "with `certificate-days = {days}` a node needs {} for {}, and may have 1 to {MAX_SERIES}: choose other --days",
                counted(u64::try_from(ends.len()).unwrap_or(u64::MAX), "certificate"),
                counted(u64::from(options.days), "day"),
            );
        }
        if let Some(former) = &pem {
            self.keep_former(&node.name, former)?;
        }
        let mut text = String::new();
        for end in &ends {
            let pair = (key, Audience::Clients);
            let made = certificate::node(&node.name, &names, pair, issuer, *end);
            let made = made.with_context(|| format!("cannot make a certificate for {}", node.name));
            text.push_str(&made?);
        }
        make_directory(&self.path("nodes/served"))?;
        durable::write(&path, Rights::PUBLIC, text.as_bytes())?;
        let number = counted(u64::try_from(ends.len()).unwrap_or(u64::MAX), "certificate");
        outln!("made {}: {number} ({reason})", path.display());
        Ok(true)
    }
}

/// Why the certificates in a file do not do; `None` when they do.
pub(super) fn lacks(
    pem: Option<&[u8]>,
    (key, days): (&[u8], u16),
    names: &BTreeSet<String>,
    authority: &Authority,
    today: u64,
) -> Option<Reason> {
    let Some(pem) = pem else {
        return Some(Reason::Missing);
    };
    let all = match Facts::read_series(pem) {
        Ok(all) => all,
        Err(why) => return Some(Reason::Unreadable(why)),
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
    let left = last.days_left(today);
    (left < SOON).then_some(Reason::Ends { days: left })
}
