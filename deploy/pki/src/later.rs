//! Makes the certificates for clients of years ahead; [`super::series`] says whether those that are there do.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use certificate_schedule::Schedule;
use config_text::counted;
use daemon::outln;
use durable::Rights;
use rcgen::{Issuer, KeyPair};
use site::{Node, Site};

use super::certificate::{self, Audience, Authority, MAX_SERIES, Reason};
use super::series::{lacks, serves};
use super::store::{MakeOptions, Store};
use super::{make_directory, names, present};

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
