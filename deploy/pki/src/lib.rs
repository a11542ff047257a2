//! Certificates of a site: an authority of its own, and one for each node that runs the registry, for
//! its clients and between its nodes.
//!
//! ```text
//! pki/ca.crt  ca.key            the authority; its key stays where the site file is
//! pki/ca.crl                    the certificates that it has revoked
//!     nodes/NAME.crt NAME.key   what a node shows; NAME.csr what asks for it where the authority is elsewhere
//!     registry-token.key .pub   what the registry's tokens are signed with, where it has users
//!     SERVICE.cookie            the secret of DNS cookies of dns-authd and of dns-recursor
//! ```
//!
//! A rendering takes these files as they are, so that the same input gives the same output.
//! `make` is idempotent: it makes what is missing or does not do any more. Never removes or replaces
//! a key.

mod certificate;
mod cookies;
mod later;
mod request;
mod revoke;
mod revoked;
mod series;
mod store;

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use daemon::config::{Problem, Problems};
use daemon::disk;
use site::secrets::{Pair, Secrets};
use site::service::Service;
use site::{ClusterSource, Node, Site};

use self::certificate::Facts;
pub use self::store::{MakeOptions, Store};

//--- For other crates

/// The secrets of a site's nodes.
///
/// # Errors
///
/// When something is missing, or does not fit the site. Expiry is not checked, so that the same files are good on
/// any day.
pub fn load(home: &Path, site: &Site) -> Result<Secrets, Problems> {
    let store = Store::new(home, site);
    let mut problems = Problems::default();
    let mut secrets = Secrets::default();
    let mut take = |path: &Path| {
        disk::read(path).unwrap_or_else(|error| {
            let path = path.display();
            let advice = "`outpost pki make` makes what is missing";
            problems.push(Problem::new(format!(
                "cannot read {path}: {error}; {advice}"
            )));
            Vec::new()
        })
    };
    secrets.authority = take(&store.path("ca.crt"));
    let list = store.path("ca.crl");
    secrets.revoked = list.exists().then(|| take(&list));
    for node in known(site) {
        let pair = Pair {
            certificate: take(&store.certificate(node)),
            key: take(&store.key(node)),
        };
        secrets.nodes.insert(node.name.clone(), pair);
        if site.certificate_days.is_some() && series::serves(site, node) {
            let served = take(&store.series(&node.name));
            secrets.served.insert(node.name.clone(), served);
        }
    }
    for service in cookies::of(site) {
        secrets
            .cookies
            .insert(service.name(), take(&store.cookie(service)));
    }
    if let Some(users) = &site.registry.users {
        secrets.registry_token_key = Some(take(&store.path("registry-token.key")));
        secrets.registry_users = Some(take(&home.join(users)));
    }
    if let Some(page) = &site.page {
        let mut read = |named: &Option<PathBuf>| named.as_ref().map(|path| take(&home.join(path)));
        secrets.page_users = read(&page.users);
        secrets.page_clients = read(&page.client_ca);
    }
    for mirror in &site.registry.mirrors {
        for path in mirror.credentials.iter().chain(&mirror.ca) {
            secrets.mirrors.insert(path.clone(), take(&home.join(path)));
        }
    }
    if let Some(ClusterSource::Kubeconfig(Some(path))) = site.cluster.as_ref().map(|c| &c.source) {
        secrets.kubeconfig = Some(take(&home.join(path)));
    }
    let secrets = problems.unless_empty(secrets)?;
    store.fits(site, &secrets)?;
    Ok(secrets)
}

/// Whether a file has a certificate in it; the words follow the file's name.
pub fn is_certificate(pem: &[u8]) -> Result<(), &'static str> {
    let Err(kind) = Facts::read(pem) else {
        return Ok(());
    };
    Err(match kind {
        "no PEM" => "is no PEM: no certificate begins with -----BEGIN CERTIFICATE-----",
        _ => "has no certificate that can be read",
    })
}

/// The findings of `check` about the certificates of a site.
pub fn remarks(home: &Path, site: &Site) -> Vec<String> {
    let store = Store::new(home, site);
    if !store.path("ca.crt").exists() {
        let directory = store.directory.display();
        return vec![format!(
            "note: no certificates in {directory} yet; `outpost pki make` makes them"
        )];
    }
    let states = store.states(site);
    let bad = states.iter().filter(|state| state.lack.is_some());
    let bad = bad.map(|state| format!("warning: {state}"));
    let list = store.list_remark().err();
    bad.chain(list.map(|error| format!("warning: {error:#}")))
        .collect()
}

/// The nodes that show a certificate: those that run the registry or publish the site's page, and those whose healthds
/// exchange findings. Others have nothing to lose.
fn known(site: &Site) -> impl Iterator<Item = &Node> {
    site.nodes.iter().filter(|node| site.has_certificate(node))
}

/// The names of a node: for clients of its registry and its page, for the other nodes, and on itself.
fn names(site: &Site, node: &Node) -> BTreeSet<String> {
    let domain = &site.domain;
    let mut names = BTreeSet::from([
        node.name.clone(),
        format!("{}.{domain}", node.name),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ]);
    names.extend(node.addresses.iter().map(ToString::to_string));
    let below = |name: &String| match name.as_str() {
        "@" => domain.clone(),
        name => format!("{name}.{domain}"),
    };
    if node.services.contains(&Service::RegistrySvc) {
        names.extend(site.registry.names.iter().map(below));
    }
    if let Some(page) = site.shows_page(node) {
        names.extend(page.names.iter().map(below));
    }
    if node.services.contains(&Service::LbProxy) {
        let addresses = site.vips.iter().flat_map(|vip| &vip.addresses);
        names.extend(addresses.map(|address| address.addr().to_string()));
    }
    names
}

/// Makes a directory that only its owner can read, unless it is there.
fn make_directory(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the directory {}", path.display()))
}

/// The content of a file, if there is one.
fn present(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match disk::read(path) {
        Ok(octets) => Ok(Some(octets)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests;
