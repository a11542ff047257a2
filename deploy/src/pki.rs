//! Certificates of a site: an authority of its own, and one for each node that runs the registry, for
//! its clients and between its nodes.
//!
//! ```text
//! pki/ca.crt  ca.key            the authority; its key stays where the site file is
//!     nodes/NAME.crt NAME.key   what a node shows
//!     registry-token.key .pub   what the registry's tokens are signed with, where it has users
//! ```
//!
//! What is rendered takes these files as they are, so that the same input gives the same output.
//! `make` is idempotent: it makes what is missing or does not do any more. Never removes or replaces
//! a key.

mod certificate;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use daemon_base::calendar::{Timestamp, civil_date};
use daemon_base::config::{Problem, Problems};
use daemon_base::{disk, errln, exit, outln};
use rcgen::{Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};

use self::certificate::{Facts, Reason, SOON, lacks};
use crate::durable::{self, Rights};
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
  nodes/NAME.crt nodes/NAME.key         what a node shows to clients of the registry and to other nodes
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
    match &args.verb {
        PkiVerb::Make(args) => match store.make(&site, args) {
            Ok(()) => exit::code(exit::OK),
            Err(error) => {
                errln!("outpost: {error:#}");
                exit::code(exit::SOFTWARE)
            }
        },
        PkiVerb::Show(_) => {
            let is_good = store.show(&site);
            exit::code(if is_good { exit::OK } else { exit::CONFIG })
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
    let secrets = problems.unless_empty(secrets)?;
    store.fits(site, &secrets)?;
    Ok(secrets)
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

//--- The directory

/// The directory of a site's certificates.
#[derive(Debug)]
struct Store {
    directory: PathBuf,
    today: u64,
}

/// A certificate, and what is wrong with it.
#[derive(Debug)]
struct State {
    path: PathBuf,
    facts: Option<Facts>,
    lack: Option<Reason>,
    today: u64,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(facts) = &self.facts {
            let (year, month, day) = civil_date(facts.last_day);
            let left = facts.days_left(self.today);
            write!(
                f,
                "{}, until {year:04}-{month:02}-{day:02} ({left} days)",
                facts.subject
            )?;
            if !facts.names.is_empty() {
                let names: Vec<&str> = facts.names.iter().map(String::as_str).collect();
                write!(f, ", for {}", names.join(" "))?;
            }
        }
        match &self.lack {
            Some(Reason::Missing) => f.write_str("not there; `outpost pki make` makes it"),
            Some(Reason::Ends { .. }) => f.write_str("; `outpost pki make --renew` makes it anew"),
            Some(lack) => write!(f, "; {lack}: `outpost pki make` makes it anew"),
            None => Ok(()),
        }
    }
}

impl Store {
    fn new(home: &Path, site: &Site) -> Self {
        Self {
            directory: home.join(&site.pki),
            today: Timestamp::now().since_epoch().as_secs() / 86_400,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn certificate(&self, node: &Node) -> PathBuf {
        self.directory.join(format!("nodes/{}.crt", node.name))
    }

    fn key(&self, node: &Node) -> PathBuf {
        self.directory.join(format!("nodes/{}.key", node.name))
    }

    //--- Making

    fn make(&self, site: &Site, args: &MakeArgs) -> anyhow::Result<()> {
        for directory in [self.directory.clone(), self.path("nodes")] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)
                .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        }
        let (authority, issuer) = self.authority(site, args.renew)?;
        let mut n_kept = 0;
        for node in known(site) {
            let key = self.key_pair(&self.key(node), &PKCS_ECDSA_P256_SHA256)?;
            let path = self.certificate(node);
            let names = names(site, node);
            let pem = present(&path)?;
            let lack = lacks(
                pem.as_deref(),
                key.public_key_raw(),
                &names,
                &authority,
                self.today,
            );
            let Some(reason) = lack.or_else(|| args.renew.then_some(Reason::Asked)) else {
                n_kept += 1;
                continue;
            };
            let issuer = issuer.as_ref().ok_or_else(|| {
                let key = self.path("ca.key");
                anyhow!(
                    "{} has to be signed ({reason}), and {} is not there",
                    path.display(),
                    key.display()
                )
            })?;
            let last_day = (self.today + u64::from(args.days)).min(authority.last_day);
            let pem = certificate::node(&node.name, &names, &key, issuer, last_day)
                .with_context(|| format!("cannot make a certificate for {}", node.name))?;
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
            outln!("made {} ({reason})", path.display());
        }
        if site.registry.users.is_some() {
            self.token_key()?;
        }
        self.tell(site, &authority, n_kept);
        Ok(())
    }

    /// The authority's certificate, and what signs with its key, where the key is.
    fn authority(
        &self,
        site: &Site,
        renew: bool,
    ) -> anyhow::Result<(Facts, Option<Issuer<'static, KeyPair>>)> {
        let path = self.path("ca.crt");
        let subject = format!("Outpost authority of {}", site.domain);
        let pem = present(&path)?;
        let key_path = self.path("ca.key");
        if pem.is_some() && !key_path.exists() {
            return Ok((self.read_authority(&path)?, None));
        }
        let key = self.key_pair(&key_path, &PKCS_ECDSA_P256_SHA256)?;
        let known = match pem {
            None => None,
            Some(_) => Some(self.read_authority(&path)?),
        };
        let reason = match &known {
            None => Some(Reason::Missing),
            Some(facts) if facts.key != key.public_key_raw() => {
                bail!(
                    "{} and {} do not belong together",
                    path.display(),
                    key_path.display()
                );
            }
            // An authority that somebody else has made is theirs to renew.
            Some(facts) if renew && facts.subject == subject => Some(Reason::Asked),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            let pem = certificate::authority(&subject, &key, self.today + AUTHORITY_DAYS)
                .context("cannot make an authority")?;
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
            outln!("made {} ({reason})", path.display());
        }
        let facts = self.read_authority(&path)?;
        let pem =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let issuer = Issuer::from_ca_cert_pem(&pem, key)
            .with_context(|| format!("{} is no authority", path.display()))?;
        Ok((facts, Some(issuer)))
    }

    fn read_authority(&self, path: &Path) -> anyhow::Result<Facts> {
        let pem = disk::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Facts::read(&pem).map_err(|why| anyhow!("{} is {why}", path.display()))
    }

    /// The key in a file; one is made if there is no file.
    fn key_pair(
        &self,
        path: &Path,
        algorithm: &'static SignatureAlgorithm,
    ) -> anyhow::Result<KeyPair> {
        if let Some(pem) = present(path)? {
            let pem = String::from_utf8_lossy(&pem).into_owned();
            return KeyPair::from_pem(&pem)
                .with_context(|| format!("{} is no private key (PKCS #8, PEM)", path.display()));
        }
        let key = KeyPair::generate_for(algorithm).context("cannot make a key")?;
        durable::write(path, Rights::PRIVATE, key.serialize_pem().as_bytes())?;
        outln!("made {}", path.display());
        Ok(key)
    }

    fn token_key(&self) -> anyhow::Result<()> {
        let key = self.key_pair(&self.path("registry-token.key"), &PKCS_ED25519)?;
        let path = self.path("registry-token.pub");
        let pem = key.public_key_pem();
        if present(&path)?.as_deref() != Some(pem.as_bytes()) {
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
        }
        Ok(())
    }

    /// Says what stayed, what ends, and what belongs to nobody.
    fn tell(&self, site: &Site, authority: &Facts, n_kept: usize) {
        if n_kept > 0 {
            outln!("good as they were: {n_kept} of the nodes' certificates");
        }
        let left = authority.days_left(self.today);
        if left < SOON {
            errln!(
                "warning: the authority {} ends in {left} days, and everything that it has signed",
                self.path("ca.crt").display()
            );
        }
        let known: BTreeSet<&str> = known(site).map(|node| node.name.as_str()).collect();
        for path in disk::list(&self.path("nodes")).unwrap_or_default() {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if stem.is_some_and(|stem| !known.contains(stem)) {
                errln!(
                    "note: {} belongs to no node of the site that runs registry-svc",
                    path.display()
                );
            }
        }
    }

    //--- Looking

    /// Prints every certificate; whether all are good.
    fn show(&self, site: &Site) -> bool {
        let states = self.states(site);
        for state in &states {
            outln!("{state}");
        }
        states.iter().all(|state| state.lack.is_none())
    }

    fn states(&self, site: &Site) -> Vec<State> {
        let path = self.path("ca.crt");
        let authority = present(&path).ok().flatten().map(|pem| Facts::read(&pem));
        let lack = match &authority {
            None => Some(Reason::Missing),
            Some(Err(why)) => Some(Reason::Unreadable(why)),
            Some(Ok(facts)) => {
                let days = facts.days_left(self.today);
                (days < SOON).then_some(Reason::Ends { days })
            }
        };
        let authority = authority.and_then(Result::ok);
        let mut states = Vec::new();
        for node in known(site) {
            let path = self.certificate(node);
            let pem = present(&path).ok().flatten();
            let facts = pem.as_deref().and_then(|pem| Facts::read(pem).ok());
            let key = present(&self.key(node)).ok().flatten();
            let key = key.and_then(|pem| KeyPair::from_pem(&String::from_utf8_lossy(&pem)).ok());
            let lack = match (&authority, &key) {
                (Some(authority), Some(key)) => lacks(
                    pem.as_deref(),
                    key.public_key_raw(),
                    &names(site, node),
                    authority,
                    self.today,
                ),
                (None, _) if pem.is_some() => Some(Reason::OtherAuthority),
                (Some(_), None) if pem.is_some() => Some(Reason::OtherKey),
                _ => Some(Reason::Missing),
            };
            states.push(State {
                path,
                facts,
                lack,
                today: self.today,
            });
        }
        let first = State {
            path,
            facts: authority,
            lack,
            today: self.today,
        };
        states.insert(0, first);
        states
    }

    /// Whether what was read is for this site.
    fn fits(&self, site: &Site, secrets: &Secrets) -> Result<(), Problems> {
        let mut problems = Problems::default();
        let mut wrong = |path: &Path, why: &str| {
            let advice = "`outpost pki make` makes it anew";
            problems.push(Problem::new(format!("{}: {why}; {advice}", path.display())));
        };
        let authority = Facts::read(&secrets.authority);
        if let Err(why) = &authority {
            wrong(&self.path("ca.crt"), &format!("it is {why}"));
        }
        for node in known(site) {
            let (Ok(authority), Some(pair)) = (&authority, secrets.nodes.get(&node.name)) else {
                continue;
            };
            let Ok(key) = KeyPair::from_pem(&String::from_utf8_lossy(&pair.key)) else {
                wrong(&self.key(node), "it is no private key (PKCS #8, PEM)");
                continue;
            };
            // On this day nothing has ended.
            let lack = lacks(
                Some(&pair.certificate),
                key.public_key_raw(),
                &names(site, node),
                authority,
                0,
            );
            if let Some(reason) = lack {
                wrong(&self.certificate(node), &reason.to_string());
            }
        }
        problems.unless_empty(())
    }
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
