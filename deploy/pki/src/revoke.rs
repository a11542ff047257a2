//! The list of revoked certificates (RFC 5280 §5). Nodes that have it refuse those certificates, and end connections with them.
//!
//! ```text
//! pki/ca.crl                            the list, signed by the authority
//!     nodes/former/NAME-SERIAL.crt      certificates that were renewed; revoked together with the present one
//!     nodes/revoked/NAME-SERIAL.crt .key  what a revoked node had
//! ```
//!
//! A list has no date after which it is worth nothing: a site without a network gets no newer one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use daemon::{disk, outln};
use durable::Rights;
use site::Site;

use super::certificate::Facts;
use super::revoked::{Revoked, issuers};
use super::{Store, make_directory, present};

impl Store {
    fn list(&self) -> PathBuf {
        self.path("ca.crl")
    }

    /// The list, if there is one.
    pub(super) fn revoked(&self, authority: &Facts) -> anyhow::Result<Revoked> {
        let path = self.list();
        let Some(pem) = present(&path)? else {
            return Ok(Revoked::default());
        };
        let nodes = disk::list(&self.path("nodes")).unwrap_or_default();
        let chains = nodes.iter().filter_map(|path| present(path).ok().flatten());
        Revoked::read(&pem, &issuers(authority, chains))
            .map_err(|why| anyhow!("{}: {why}", path.display()))
    }

    /// How many certificates are revoked, in words; nothing where there is no list.
    ///
    /// # Errors
    ///
    /// When the list cannot be read.
    pub(super) fn list_remark(&self) -> anyhow::Result<Option<String>> {
        let (path, authority) = (self.list(), self.path("ca.crt"));
        if !path.exists() || !authority.exists() {
            return Ok(None);
        }
        let revoked = self.revoked(&self.read_authority(&authority)?)?;
        let number = u64::try_from(revoked.since.len()).unwrap_or(u64::MAX);
        let number = config_text::counted(number, "certificate");
        Ok(Some(format!("{}: {number} revoked", path.display())))
    }

    /// Puts a certificate aside that is about to be renewed: it is still good, so it has to be known when its node is revoked.
    pub(super) fn keep_former(&self, node: &str, pem: &[u8]) -> anyhow::Result<()> {
        let Ok(facts) = Facts::read(pem) else {
            return Ok(());
        };
        let directory = self.path("nodes/former");
        make_directory(&directory)?;
        let path = directory.join(format!("{node}-{}.crt", hex(&facts.serial)));
        durable::write(&path, Rights::PUBLIC, pem)?;
        Ok(())
    }

    /// Revokes all certificates of a node, and puts its key aside: the next `make` makes a new one if the site still has the node.
    ///
    /// # Errors
    ///
    /// When the node has no certificate, the authority's key is elsewhere, or a file cannot be read or written.
    pub fn revoke(&self, site: &Site, node: &str) -> anyhow::Result<()> {
        let (authority, issuer) = self.authority(site, false)?;
        let Some(issuer) = issuer else {
            bail!(
                "{} is not here: have your authority revoke the certificate, and put its list (PEM) to {}",
                self.path("ca.key").display(),
                self.list().display()
            );
        };
        let present_one = self.path(&format!("nodes/{node}.crt"));
        let mut all = Vec::new();
        for path in [present_one.clone(), self.series(node)] {
            all.extend(present(&path)?.map(|pem| (path, pem)));
        }
        for path in disk::list(&self.path("nodes/former")).unwrap_or_default() {
            let pem = present(&path)?.unwrap_or_default();
            if is_of(&path, node) {
                all.push((path, pem));
            }
        }
        if all.is_empty() {
            bail!(
                "{} is missing: there is nothing to revoke",
                present_one.display()
            );
        }
        let mut revoked = self.revoked(&authority.facts)?;
        let mut number = 0;
        for (path, pem) in &all {
            let facts = Facts::read_series(pem);
            let facts = facts.map_err(|why| anyhow!("{} is {why}", path.display()))?;
            // Those that lead to an authority elsewhere are not the node's.
            for own in facts.into_iter().filter(|facts| !facts.is_authority) {
                revoked.since.entry(own.serial).or_insert(self.today);
                number += 1;
            }
        }
        revoked.number += 1;
        let pem = revoked
            .pem(&issuer, self.today, authority.facts.last_day)
            .context("cannot make the list of revoked certificates")?;
        // The list first: a certificate that was put aside is never out of it.
        durable::write(&self.list(), Rights::PUBLIC, pem.as_bytes())?;
        self.put_aside(node, all)?;
        outln!(
            "{node}: {} revoked; install the files on every other node, and its connections with them end",
            config_text::counted(number, "certificate")
        );
        Ok(())
    }

    fn put_aside(&self, node: &str, certificates: Vec<(PathBuf, Vec<u8>)>) -> anyhow::Result<()> {
        let directory = self.path("nodes/revoked");
        make_directory(&directory)?;
        let key = self.path(&format!("nodes/{node}.key"));
        for (path, pem) in certificates {
            let Ok(facts) = Facts::read(&pem) else {
                continue;
            };
            let name = format!("{node}-{}", hex(&facts.serial));
            if path.ends_with(format!("nodes/{node}.crt")) && key.exists() {
                rename(&key, &directory.join(format!("{name}.key")))?;
            }
            rename(&path, &directory.join(format!("{name}.crt")))?;
        }
        Ok(())
    }
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to)
        .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))
}

/// A serial number in a file's name.
fn hex(serial: &[u8]) -> String {
    serial.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Whether a former certificate is of a node: names of nodes may have hyphens, serial numbers have none.
fn is_of(path: &Path, node: &str) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.and_then(|stem| stem.rsplit_once('-'))
        .is_some_and(|(of, _)| of == node)
}
