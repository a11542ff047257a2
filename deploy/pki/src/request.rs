//! Certificates by an authority that is elsewhere: requests go out, what was signed comes in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use daemon::{disk, outln};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

use super::certificate::{self, Audience, Authority, Facts, Reason, lacks};
use super::store::Store;
use super::{known, names, present};
use durable::Rights;
use site::{Node, Site};

impl Store {
    /// Makes a request for each certificate that has to be signed, and the keys that are missing.
    pub fn request(&self, site: &Site, renew: bool) -> anyhow::Result<()> {
        if site.certificate_days.is_some() {
            bail!(
                "`certificate-days` needs the authority's key here: an external authority signs no certificates of years ahead; take the key out of the site file"
            );
        }
        self.make_directories()?;
        let authority = match present(&self.path("ca.crt"))? {
            Some(_) => {
                let facts = self.read_authority(&self.path("ca.crt"))?;
                Some(self.with_list(site, facts)?)
            }
            None => None,
        };
        let mut n_kept = 0;
        for node in known(site) {
            let key = self.key_pair(&self.key(node), &PKCS_ECDSA_P256_SHA256)?;
            let names = names(site, node);
            let pem = present(&self.certificate(node))?;
            let lack = match &authority {
                Some(authority) => lacks(
                    pem.as_deref(),
                    (key.public_key_raw(), Audience::All),
                    &names,
                    authority,
                    self.today,
                ),
                None => Some(Reason::Missing),
            };
            let Some(reason) = lack.or_else(|| renew.then_some(Reason::Asked)) else {
                n_kept += 1;
                continue;
            };
            let request = certificate::request(&node.name, &names, &key)
                .with_context(|| format!("cannot make a request for {}", node.name))?;
            let path = self.request_of(node);
            durable::write(&path, Rights::PUBLIC, request.as_bytes())?;
            outln!("made {} (of the certificate: {reason})", path.display());
        }
        if site.registry.users.is_some() {
            self.token_key()?;
        }
        self.make_cookies(site)?;
        if n_kept > 0 {
            outln!("good as they were: {n_kept} of the nodes' certificates");
        }
        Ok(())
    }

    /// Takes in what was signed: all of it, or nothing and the reasons.
    pub fn accept(
        &self,
        site: &Site,
        authority: Option<&Path>,
        files: &[PathBuf],
    ) -> anyhow::Result<Vec<String>> {
        let (authority, given) = match authority {
            Some(path) => {
                let pem = read(path)?;
                let facts = match Facts::read(&pem) {
                    Ok(facts) if facts.is_authority => facts,
                    Ok(_) => return Ok(vec![format!("{}: not a CA certificate", path.display())]),
                    Err(why) => return Ok(vec![format!("{}: it is {why}", path.display())]),
                };
                (Authority::of(site, facts), Some(pem))
            }
            None => {
                let path = self.path("ca.crt");
                if !path.exists() {
                    bail!("whose are they? --authority names the certificate of who signed them");
                }
                (self.with_list(site, self.read_authority(&path)?)?, None)
            }
        };
        self.no_other_key(&authority)?;
        let nodes = self.keys(site)?;
        let (signed, between, mut refused) = sort(files, &nodes)?;
        let mut taken = Vec::new();
        for (node, key) in &nodes {
            let Some(signed) = signed.get(node.name.as_str()) else {
                continue;
            };
            let pem = chain(&signed.facts, &between, &authority.facts);
            let lack = lacks(
                Some(pem.as_bytes()),
                (key.public_key_raw(), Audience::All),
                &names(site, node),
                &authority,
                self.today,
            );
            match lack {
                // Authorities elsewhere may have their own idea of how long that is.
                None | Some(Reason::Ends { days: 1.. }) => taken.push((*node, pem)),
                Some(reason) => refused.push(format!("{}: {reason}", signed.file.display())),
            }
        }
        if !refused.is_empty() {
            return Ok(refused);
        }
        if let Some(pem) = given {
            durable::write(&self.path("ca.crt"), Rights::PUBLIC, pem.as_slice())?;
        }
        for (node, pem) in taken {
            let path = self.certificate(node);
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
            let request = self.request_of(node);
            durable::remove(&request)
                .with_context(|| format!("cannot remove {}", request.display()))?;
            outln!("took {}", path.display());
        }
        self.show(site);
        Ok(Vec::new())
    }

    /// The path of the request for a node's certificate.
    fn request_of(&self, node: &Node) -> PathBuf {
        self.directory.join(format!("nodes/{}.csr", node.name))
    }

    /// The key of an authority that was made here signs nothing for another.
    fn no_other_key(&self, authority: &Authority) -> anyhow::Result<()> {
        let path = self.path("ca.key");
        let Some(pem) = present(&path)? else {
            return Ok(());
        };
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&pem));
        if key.is_ok_and(|key| key.public_key_raw() == authority.facts.key) {
            return Ok(());
        }
        bail!(
            "{} is another authority's key, and would sign the next certificate: move it and ca.crt away first",
            path.display()
        );
    }

    /// The nodes that have a key, with it.
    fn keys<'s>(&self, site: &'s Site) -> anyhow::Result<Vec<(&'s Node, KeyPair)>> {
        let mut keys = Vec::new();
        for node in known(site) {
            let path = self.key(node);
            if let Some(pem) = present(&path)? {
                let key = KeyPair::from_pem(&String::from_utf8_lossy(&pem));
                let key = key.map_err(|_| {
                    anyhow!("{} is not a private key (PKCS #8, PEM)", path.display())
                })?;
                keys.push((node, key));
            }
        }
        Ok(keys)
    }
}

/// A signed certificate, and its file.
struct Signed {
    facts: Facts,
    file: PathBuf,
}

/// Certificates of nodes by the nodes' names, those of authorities, and what is neither.
type Sorted<'s> = (BTreeMap<&'s str, Signed>, Vec<Facts>, Vec<String>);

fn sort<'s>(files: &[PathBuf], nodes: &[(&'s Node, KeyPair)]) -> anyhow::Result<Sorted<'s>> {
    let (mut signed, mut between, mut refused) = (BTreeMap::new(), Vec::new(), Vec::new());
    for file in files {
        let all = match Facts::read_all(&read(file)?) {
            Ok(all) => all,
            Err(why) => {
                refused.push(format!("{}: it is {why}", file.display()));
                continue;
            }
        };
        for facts in all {
            let mut keys = nodes.iter();
            let node = keys.find(|(_, key)| key.public_key_raw() == facts.key);
            match node {
                Some((node, _)) => {
                    let file = file.clone();
                    signed.insert(node.name.as_str(), Signed { facts, file });
                }
                None if facts.is_authority => between.push(facts),
                None => refused.push(format!(
                    "{}: the certificate of `{}` is for no key of this site",
                    file.display(),
                    facts.subject
                )),
            }
        }
    }
    Ok((signed, between, refused))
}

/// A certificate and those that lead from it to the authority, as far as they are there.
fn chain(leaf: &Facts, between: &[Facts], authority: &Facts) -> String {
    let mut chain = vec![leaf];
    let mut current = leaf;
    while !current.is_signed_by(authority) {
        let next = between
            .iter()
            .find(|next| !chain.contains(next) && current.is_signed_by(next));
        let Some(next) = next else { break };
        chain.push(next);
        current = next;
    }
    chain.into_iter().map(Facts::to_pem).collect()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    disk::read(path).with_context(|| format!("cannot read {}", path.display()))
}
