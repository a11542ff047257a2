//! Certificates of a site: an authority of its own, and one for each node that runs the registry, for
//! its clients and between its nodes.
//!
//! ```text
//! pki/ca.crt  ca.key            the authority; its key stays where the site file is
//!     nodes/NAME.crt NAME.key   what a node shows; NAME.csr what asks for it where the authority is elsewhere
//!     registry-token.key .pub   what the registry's tokens are signed with, where it has users
//! ```
//!
//! What is rendered takes these files as they are, so that the same input gives the same output.
//! `make` is idempotent: it makes what is missing or does not do any more. Never removes or replaces
//! a key.

mod certificate;
mod request;
mod store;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use daemon::config::{Problem, Problems};
use daemon::{disk, errln, exit};

use self::certificate::Facts;
use self::store::Store;
use crate::secrets::{Pair, Secrets};
use crate::service::Service;
use crate::site::{Node, Site};
use crate::site_file;

//--- Command line

/// Arguments of `pki`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PkiArgs {
    /// Make or show.
    #[command(subcommand)]
    pub(crate) verb: PkiVerb,
}

/// What to do with certificates.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PkiVerb {
    /// Make what is missing or does not do any more
    ///
    /// The authority and its key, a key and a certificate for each node that runs the
    /// registry, and the key of its tokens where it has users. What is good stays as it is; a certificate is made
    /// anew, for the same key, when its node has other names or addresses, when another authority
    /// has signed it, or in the last 90 days before its end. Keys are readable for their owner
    /// alone and are never removed or replaced. An authority of your own: put ca.crt and ca.key
    /// into the directory.
    #[command(after_long_help = MAKE_NOTES)]
    Make(MakeArgs),

    /// Make requests for certificates, for an authority that is elsewhere
    ///
    /// A key for each node that runs the registry, where there is none, and beside it NAME.csr: a request
    /// (PKCS #10) for its names and addresses, as a server's and a client's. What is good already is not
    /// asked for again. No key leaves the directory.
    #[command(after_long_help = REQUEST_NOTES)]
    Request(RequestArgs),

    /// Take certificates in that an authority elsewhere has signed
    ///
    /// Each is known by its key. It is checked before anything is written, and all of them or none are taken: it has to
    /// have every name that was asked for, be good for servers and clients, and lead to the authority;
    /// what is between the two may be in any of the files.
    #[command(after_long_help = ACCEPT_NOTES)]
    Accept(AcceptArgs),

    /// Show certificates, what they are for and when they end
    #[command(after_long_help = SHOW_NOTES)]
    Show(ShowArgs),
}

/// Arguments of `pki make`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MakeArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// How many days new certificates of nodes are good
    #[arg(long, value_name = "DAYS", default_value_t = 1825, value_parser = clap::value_parser!(u16).range(91..))]
    pub(crate) days: u16,

    /// Make all certificates of nodes anew, and that of an authority that was made here
    #[arg(long)]
    pub(crate) renew: bool,
}

/// Arguments of `pki request`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RequestArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// Ask for all anew
    #[arg(long)]
    pub(crate) renew: bool,
}

/// Arguments of `pki accept`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AcceptArgs {
    /// Certificates (PEM): those of nodes, and what is between them and the authority
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The authority's own certificate (PEM); it becomes ca.crt, and need not be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,

    /// The site file
    #[arg(long, value_name = "FILE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,
}

/// Arguments of `pki show`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,
}

const MAKE_NOTES: &str = "\
Files, below the directory that `pki` in the site file names (pki beside it unless given):
  ca.crt ca.key                         the authority; its key never leaves this directory
  nodes/NAME.crt nodes/NAME.key         what a node shows to clients of the registry and to other
                                        nodes
  registry-token.key registry-token.pub what tokens are signed with, the same on every node

Examples:
  outpost pki make
  outpost pki make --days 3650 /srv/sites/north/site.toml
  outpost pki make --renew

Exit status:
  0   all are good
  64  the command line is wrong
  70  a file cannot be read or written, or ca.key is not there and has to sign something
  78  the site file has problems";

const REQUEST_NOTES: &str = "\
Examples:
  outpost pki request
  openssl req -in pki/nodes/master-0.csr -noout -text
  outpost pki accept --authority root.crt master-0.crt master-1.crt master-2.crt issuing.crt

Exit status:
  0   requests are there for all that have to be signed
  64  the command line is wrong
  70  a file cannot be read or written
  77  no permission
  78  the site file has problems";

const ACCEPT_NOTES: &str = "\
Examples:
  outpost pki accept --authority root.crt signed/*.crt
  outpost pki accept --site north/site.toml master-1.crt

Exit status:
  0   all were taken
  64  the command line is wrong
  65  a file has no certificate for this site, or one does not do; nothing was taken
  70  a file cannot be read or written
  77  no permission
  78  the site file has problems";

const SHOW_NOTES: &str = "\
Examples:
  outpost pki show

Exit status:
  0   all are good for 90 days at least
  64  the command line is wrong
  78  some are missing, do not do any more or end soon, or the site file has problems";

/// The certificate of an authority that is made here is good for about twenty years: whoever has to
/// trust it is told by hand.
const AUTHORITY_DAYS: u64 = 7305;

/// Runs the verb.
pub(crate) fn run(args: &PkiArgs) -> ExitCode {
    let path = match &args.verb {
        PkiVerb::Make(args) => &args.site,
        PkiVerb::Request(args) => &args.site,
        PkiVerb::Accept(args) => &args.site,
        PkiVerb::Show(args) => &args.site,
    };
    let site = match site_file::read(path) {
        Ok(site) => site,
        Err(problems) => {
            errln!("{problems}");
            return exit::code(exit::CONFIG);
        }
    };
    let home = path.parent().unwrap_or_else(|| Path::new(""));
    let store = Store::new(home, &site);
    let done = match &args.verb {
        PkiVerb::Make(args) => store.make(&site, args),
        PkiVerb::Request(args) => store.request(&site, args.renew),
        PkiVerb::Accept(args) => {
            match store.accept(&site, args.authority.as_deref(), &args.files) {
                Ok(refused) if refused.is_empty() => Ok(()),
                Ok(refused) => {
                    for reason in refused {
                        errln!("{reason}");
                    }
                    errln!("outpost: nothing was taken");
                    return exit::code(exit::DATA);
                }
                Err(error) => Err(error),
            }
        }
        PkiVerb::Show(_) => {
            let is_good = store.show(&site);
            return exit::code(if is_good { exit::OK } else { exit::CONFIG });
        }
    };
    match done {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            errln!("outpost: {error:#}");
            let io = error.downcast_ref::<io::Error>();
            exit::code(io.map_or(exit::SOFTWARE, exit::code_of_io))
        }
    }
}

//--- What others ask

/// Everything that nodes of a site need and nobody else is to know.
///
/// # Errors
///
/// What is missing, or does not fit the site; whether something has ended is not asked, so that the
/// same files are good on any day.
pub(crate) fn load(home: &Path, site: &Site) -> Result<Secrets, Problems> {
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
    for node in known(site) {
        let pair = Pair {
            certificate: take(&store.certificate(node)),
            key: take(&store.key(node)),
        };
        secrets.nodes.insert(node.name.clone(), pair);
    }
    if let Some(users) = &site.registry.users {
        secrets.registry_token_key = Some(take(&store.path("registry-token.key")));
        secrets.registry_users = Some(take(&home.join(users)));
    }
    for mirror in &site.registry.mirrors {
        for path in mirror.credentials.iter().chain(&mirror.ca) {
            secrets.mirrors.insert(path.clone(), take(&home.join(path)));
        }
    }
    let secrets = problems.unless_empty(secrets)?;
    store.fits(site, &secrets)?;
    Ok(secrets)
}

/// Whether a file has a certificate in it; the words follow the file's name.
pub(crate) fn is_certificate(pem: &[u8]) -> Result<(), &'static str> {
    let Err(kind) = Facts::read(pem) else {
        return Ok(());
    };
    Err(match kind {
        "no PEM" => "is no PEM: no certificate begins with -----BEGIN CERTIFICATE-----",
        _ => "has no certificate that can be read",
    })
}

/// What `check` says of the certificates of a site.
pub(crate) fn remarks(home: &Path, site: &Site) -> Vec<String> {
    let store = Store::new(home, site);
    if !store.path("ca.crt").exists() {
        let directory = store.directory.display();
        return vec![format!(
            "note: no certificates in {directory} yet; `outpost pki make` makes them"
        )];
    }
    let states = store.states(site);
    let bad = states.iter().filter(|state| state.lack.is_some());
    bad.map(|state| format!("warning: {state}")).collect()
}

/// The nodes that show a certificate: those that run the registry. Others have nothing to lose.
fn known(site: &Site) -> impl Iterator<Item = &Node> {
    site.nodes
        .iter()
        .filter(|node| node.services.contains(&Service::RegistrySvc))
}

/// What a node is called by clients of its registry, by the other nodes, and on itself.
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
    if node.services.contains(&Service::RegistrySvc) {
        names.extend(site.registry.names.iter().map(|name| match name.as_str() {
            "@" => domain.clone(),
            name => format!("{name}.{domain}"),
        }));
    }
    if node.services.contains(&Service::LbProxy) {
        let addresses = site.vips.iter().flat_map(|vip| &vip.addresses);
        names.extend(addresses.map(|address| address.addr().to_string()));
    }
    names
}

/// What is in a file, if there is one.
fn present(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match disk::read(path) {
        Ok(octets) => Ok(Some(octets)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests;
