//! The directory of a site's certificates: reads them, finds those that have to be replaced, and makes new ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use anyhow::{Context as _, anyhow, bail};
use config_text::counted;
use daemon::calendar::{Timestamp, civil_date};
use daemon::config::{Problem, Problems};
use daemon::{disk, errln, outln};
use rcgen::{Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};

use super::certificate::{self, Authority, Facts, Reason, SOON, lacks};
use super::revoked::{Revoked, issuers};
use super::series::{self, audience, serves};
use super::{known, make_directory, names, present};
use durable::Rights;
use site::secrets::Secrets;
use site::{Node, Site};

/// Validity of an authority's certificate, in days: about twenty years, because an operator installs it manually
/// on every machine that trusts it.
const AUTHORITY_DAYS: u64 = 7305;

/// How certificates are made.
#[derive(Clone, Copy, Debug)]
pub struct MakeOptions {
    /// How many days new certificates of nodes are good.
    pub days: u16,
    /// Make all certificates again, also those that are good.
    pub renew: bool,
}

/// The directory of a site's certificates.
#[derive(Debug)]
pub struct Store {
    pub(super) directory: PathBuf,
    pub(super) today: u64,
}

/// A certificate, and what is wrong with it.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    facts: Option<Facts>,
    pub(super) lack: Option<Reason>,
    today: u64,
    /// Whether the key that signs is here.
    signs_here: bool,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(facts) = &self.facts {
            let (year, month, day) = civil_date(facts.last_day);
            let left = facts.days_left(self.today);
            write!(
                f,
                "{}, until {year:04}-{month:02}-{day:02} ({})",
                facts.subject,
                counted(left, "day")
            )?;
            if !facts.names.is_empty() {
                let names: Vec<&str> = facts.names.iter().map(String::as_str).collect();
                write!(f, ", for {}", names.join(" "))?;
            }
        }
        let (make, renew) = match self.signs_here {
            true => (
                "`outpost pki make` makes it",
                "`outpost pki make --renew` renews it",
            ),
            false => (
                "`outpost pki request` asks for it",
                "`outpost pki request --renew` requests a new one",
            ),
        };
        match &self.lack {
            Some(Reason::Missing) => write!(f, "not there; {make}"),
            Some(Reason::Ends { .. }) => write!(f, "; {renew}"),
            Some(lack) => write!(f, "; {lack}: {make} again"),
            None => Ok(()),
        }
    }
}

impl Store {
    pub fn new(home: &Path, site: &Site) -> Self {
        Self {
            directory: home.join(&site.pki),
            today: Timestamp::now().since_epoch().as_secs() / 86_400,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn certificate(&self, node: &Node) -> PathBuf {
        self.directory.join(format!("nodes/{}.crt", node.name))
    }

    pub(super) fn key(&self, node: &Node) -> PathBuf {
        self.directory.join(format!("nodes/{}.key", node.name))
    }

    //--- Making

    pub(super) fn make_directories(&self) -> anyhow::Result<()> {
        make_directory(&self.directory)?;
        make_directory(&self.path("nodes"))
    }

    pub fn make(&self, site: &Site, options: MakeOptions) -> anyhow::Result<()> {
        self.make_directories()?;
        let (authority, issuer) = self.authority(site, options.renew)?;
        let (mut n_kept, mut n_made) = (0, 0);
        for node in known(site) {
            let key = self.key_pair(&self.key(node), &PKCS_ECDSA_P256_SHA256)?;
            let path = self.certificate(node);
            let names = names(site, node);
            let pem = present(&path)?;
            let lack = lacks(
                pem.as_deref(),
                (key.public_key_raw(), audience(site)),
                &names,
                &authority,
                self.today,
            );
            let signer = (&authority, issuer.as_ref());
            let has_series = self.make_series((site, node), &key, signer, options)?;
            n_made += usize::from(has_series);
            let Some(reason) = lack.or_else(|| options.renew.then_some(Reason::Asked)) else {
                n_kept += 1;
                continue;
            };
            let issuer = issuer.as_ref().ok_or_else(|| {
                let key = self.path("ca.key");
                anyhow!(
                    "{} must be signed ({reason}), but {} is missing; for an external authority run `outpost pki request`",
                    path.display(),
                    key.display()
                )
            })?;
            if let Some(former) = &pem {
                self.keep_former(&node.name, former)?;
            }
            let last_day = (self.today + u64::from(options.days)).min(authority.facts.last_day);
            let pem =
                certificate::node(&node.name, &names, (&key, audience(site)), issuer, last_day)
                    .with_context(|| format!("cannot make a certificate for {}", node.name))?;
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
            outln!("made {} ({reason})", path.display());
        }
        if site.registry.users.is_some() {
            self.token_key()?;
        }
        self.make_cookies(site)?;
        self.tell(site, &authority.facts, n_kept);
        if n_made > 0 {
            outln!(
                "render and install the site's files on every node: each has the certificates of the others"
            );
        }
        Ok(())
    }

    /// The authority's certificate, and what signs with its key, where the key is.
    pub(super) fn authority(
        &self,
        site: &Site,
        renew: bool,
    ) -> anyhow::Result<(Authority, Option<Issuer<'static, KeyPair>>)> {
        let path = self.path("ca.crt");
        let subject = own_subject(site);
        let permitted = permitted(site);
        let pem = present(&path)?;
        let key_path = self.path("ca.key");
        if pem.is_some() && !key_path.exists() {
            return Ok((self.with_list(site, self.read_authority(&path)?)?, None));
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
            // Only the owner of a foreign authority can renew it.
            Some(facts) if facts.subject != subject => None,
            Some(_) if renew => Some(Reason::Asked),
            Some(facts) if facts.permitted.as_ref() != Some(&permitted) => Some(Reason::Permits),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            let pem =
                certificate::authority(&subject, &permitted, &key, self.today + AUTHORITY_DAYS)
                    .context("cannot make an authority")?;
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
            outln!("made {} ({reason})", path.display());
        }
        let facts = self.read_authority(&path)?;
        let pem =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let issuer = Issuer::from_ca_cert_pem(&pem, key)
            .with_context(|| format!("{} is not a CA certificate", path.display()))?;
        Ok((self.with_list(site, facts)?, Some(issuer)))
    }

    /// The authority of a site, and what it has revoked.
    pub(super) fn with_list(&self, site: &Site, facts: Facts) -> anyhow::Result<Authority> {
        let revoked = self.revoked(&facts)?;
        Ok(Authority::of(site, facts).that_revoked(&revoked))
    }

    pub(super) fn read_authority(&self, path: &Path) -> anyhow::Result<Facts> {
        let pem = disk::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Facts::read(&pem).map_err(|why| anyhow!("{} is {why}", path.display()))
    }

    /// The key in a file; one is made if there is no file.
    pub(super) fn key_pair(
        &self,
        path: &Path,
        algorithm: &'static SignatureAlgorithm,
    ) -> anyhow::Result<KeyPair> {
        if let Some(pem) = present(path)? {
            let pem = String::from_utf8_lossy(&pem).into_owned();
            return KeyPair::from_pem(&pem).with_context(|| {
                format!("{} is not a private key (PKCS #8, PEM)", path.display())
            });
        }
        let key = KeyPair::generate_for(algorithm).context("cannot make a key")?;
        durable::write(path, Rights::PRIVATE, key.serialize_pem().as_bytes())?;
        outln!("made {}", path.display());
        Ok(key)
    }

    pub(super) fn token_key(&self) -> anyhow::Result<()> {
        let key = self.key_pair(&self.path("registry-token.key"), &PKCS_ED25519)?;
        let path = self.path("registry-token.pub");
        let pem = key.public_key_pem();
        if present(&path)?.as_deref() != Some(pem.as_bytes()) {
            durable::write(&path, Rights::PUBLIC, pem.as_bytes())?;
        }
        Ok(())
    }

    /// Reports certificates that stayed, that end, and that belong to no node.
    fn tell(&self, site: &Site, authority: &Facts, n_kept: usize) {
        if n_kept > 0 {
            outln!("good as they were: {n_kept} of the nodes' certificates");
        }
        let left = authority.days_left(self.today);
        if left < SOON {
            errln!(
                "warning: the authority {} ends in {}, and everything that it has signed",
                self.path("ca.crt").display(),
                counted(left, "day")
            );
        }
        let known: BTreeSet<&str> = known(site).map(|node| node.name.as_str()).collect();
        for path in disk::list(&self.path("nodes")).unwrap_or_default() {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if path.is_file() && stem.is_some_and(|stem| !known.contains(stem)) {
                errln!(
                    "note: {} belongs to no node of the site that runs registry-svc",
                    path.display()
                );
            }
        }
    }

    //--- Looking

    /// Prints every certificate; whether all are good.
    pub fn show(&self, site: &Site) -> bool {
        let states = self.states(site);
        for state in &states {
            outln!("{state}");
        }
        let list = self.list_remark();
        if let Ok(Some(words)) = &list {
            outln!("{words}");
        }
        if let Err(problem) = &list {
            outln!("{problem:#}");
        }
        list.is_ok() && states.iter().all(|state| state.lack.is_none())
    }

    pub(super) fn states(&self, site: &Site) -> Vec<State> {
        let path = self.path("ca.crt");
        let authority = present(&path).ok().flatten().map(|pem| Facts::read(&pem));
        let lack = match &authority {
            None => Some(Reason::Missing),
            Some(Err(why)) => Some(Reason::Unreadable(why)),
            Some(Ok(facts)) => {
                let is_own = facts.subject == own_subject(site);
                let permits = is_own && facts.permitted.as_ref() != Some(&permitted(site));
                let ends = facts.ends_soon(self.today);
                ends.or_else(|| permits.then_some(Reason::Permits))
            }
        };
        let authority = authority.and_then(Result::ok);
        let authority = authority.map(|facts| {
            // `list_remark` reports a list that cannot be read.
            let revoked = self.revoked(&facts).unwrap_or_default();
            Authority::of(site, facts).that_revoked(&revoked)
        });
        let signs_here = authority.is_none() || self.path("ca.key").exists();
        let of_nodes: Vec<State> = known(site)
            .flat_map(|node| self.states_of(site, node, authority.as_ref(), signs_here))
            .collect();
        let first = State {
            path,
            facts: authority.map(|authority| authority.facts),
            lack,
            today: self.today,
            signs_here,
        };
        iter::once(first).chain(of_nodes).collect()
    }

    /// The states of the certificate of a node, and of those for its clients.
    fn states_of(
        &self,
        site: &Site,
        node: &Node,
        authority: Option<&Authority>,
        signs_here: bool,
    ) -> Vec<State> {
        let (path, today) = (self.certificate(node), self.today);
        let names = names(site, node);
        let pem = present(&path).ok().flatten();
        let facts = pem.as_deref().and_then(|pem| Facts::read(pem).ok());
        let key = present(&self.key(node)).ok().flatten();
        let key = key.and_then(|pem| KeyPair::from_pem(&String::from_utf8_lossy(&pem)).ok());
        let lack = match (authority, &key) {
            (Some(authority), Some(key)) => {
                let pair = (key.public_key_raw(), audience(site));
                lacks(pem.as_deref(), pair, &names, authority, today)
            }
            (None, _) if pem.is_some() => Some(Reason::OtherAuthority),
            (Some(_), None) if pem.is_some() => Some(Reason::OtherKey),
            _ => Some(Reason::Missing),
        };
        let state = |path, facts, lack| State {
            path,
            facts,
            lack,
            today,
            signs_here,
        };
        let mut states = vec![state(path, facts, lack)];
        if let Some(days) = site.certificate_days.filter(|_| serves(site, node)) {
            let path = self.series(&node.name);
            let pem = present(&path).ok().flatten();
            let all = pem.as_deref().and_then(|pem| Facts::read_series(pem).ok());
            let lack = match (authority, &key) {
                (Some(authority), Some(key)) => {
                    let pair = (key.public_key_raw(), days);
                    series::lacks(pem.as_deref(), pair, &names, authority, today)
                }
                _ => Some(Reason::Missing),
            };
            // The end of the last one is that of the series.
            states.push(state(path, all.and_then(|mut all| all.pop()), lack));
        }
        states
    }

    /// Whether what was read is for this site.
    pub(super) fn fits(&self, site: &Site, secrets: &Secrets) -> Result<(), Problems> {
        let mut problems = Problems::default();
        let authority = Facts::read(&secrets.authority);
        let authority = authority.map(|facts| Authority::of(site, facts));
        let revoked = match (&authority, &secrets.revoked) {
            (Ok(authority), Some(list)) => {
                let chains = secrets.nodes.values().map(|pair| &pair.certificate);
                Revoked::read(list, &issuers(&authority.facts, chains))
            }
            _ => Ok(Revoked::default()),
        };
        let authority = authority.map(|it| match &revoked {
            Ok(revoked) => it.that_revoked(revoked),
            Err(_) => it,
        });
        if let Err(why) = revoked {
            let path = self.path("ca.crl");
            // The nodes would refuse the file, and each other.
            problems.push(Problem::new(format!("{}: {why}", path.display())));
        }
        let mut wrong = |path: &Path, why: &str| {
            let advice = "`outpost pki make` renews it";
            problems.push(Problem::new(format!("{}: {why}; {advice}", path.display())));
        };
        match &authority {
            Err(why) => wrong(&self.path("ca.crt"), &format!("it is {why}")),
            // Nodes would refuse the certificates of those that it may not sign for.
            Ok(authority) if authority.is_own && !authority.may_sign(&permitted(site)) => {
                wrong(&self.path("ca.crt"), "it may not sign for every node");
            }
            Ok(_) => {}
        }
        for node in known(site) {
            let (Ok(authority), Some(pair)) = (&authority, secrets.nodes.get(&node.name)) else {
                continue;
            };
            let Ok(key) = KeyPair::from_pem(&String::from_utf8_lossy(&pair.key)) else {
                wrong(&self.key(node), "not a private key (PKCS #8, PEM)");
                continue;
            };
            // On this day nothing has ended.
            let lack = lacks(
                Some(&pair.certificate),
                (key.public_key_raw(), audience(site)),
                &names(site, node),
                authority,
                0,
            );
            if let Some(reason) = lack {
                wrong(&self.certificate(node), &reason.to_string());
            }
            if let Some(days) = site.certificate_days.filter(|_| serves(site, node)) {
                let served = secrets.served.get(&node.name).map(Vec::as_slice);
                let pair = (key.public_key_raw(), days);
                let lack = series::lacks(served, pair, &names(site, node), authority, 0);
                if let Some(reason) = lack {
                    wrong(&self.series(&node.name), &reason.to_string());
                }
            }
        }
        problems.unless_empty(())
    }
}

impl Authority {
    /// The authority of a site that has revoked nothing.
    pub(super) fn of(site: &Site, facts: Facts) -> Self {
        let is_own = facts.subject == own_subject(site);
        Self {
            facts,
            is_own,
            revoked: BTreeSet::new(),
        }
    }

    /// The same one, which has revoked certificates.
    pub(super) fn that_revoked(self, revoked: &Revoked) -> Self {
        Self {
            revoked: revoked.serials(),
            ..self
        }
    }

    /// Whether it may sign for all these names and addresses.
    fn may_sign(&self, names: &BTreeSet<String>) -> bool {
        let permitted = self.facts.permitted.as_ref();
        permitted.is_none_or(|permitted| names.is_subset(permitted))
    }
}

/// The names and addresses that an authority that is made here may sign for.
fn permitted(site: &Site) -> BTreeSet<String> {
    certificate::permitted(&site.domain, known(site).map(|node| names(site, node)))
}

/// The name of an authority that is made here.
fn own_subject(site: &Site) -> String {
    format!("Outpost authority of {}", site.domain)
}
