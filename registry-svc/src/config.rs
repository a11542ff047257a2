//! The configuration: the file, and what it comes to.

mod access;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::thread;

use ::config::registry_svc::{
    ADMIN_PORT, CertificateName, ClientCertificates, RegistrySvc, Space, Token,
};
use ::config::{Address, Check, Document, HostPort, Problem, Problems, at};
use config_text::counted;
use daemon::config::Common;
use oci::glob::Glob;
use registry_auth::acl::AclParts;
use registry_cluster::settings::Settings as ClusterSettings;
use registry_facts::name::NodeName;
use registry_store::space::{self, Quota};

use crate::machine::Machine;

/// The address of the admin listener unless the configuration has another.
pub const DEFAULT_ADMIN: SocketAddr = Address::loopback(ADMIN_PORT).0;

/// Threads of the data path; more than this and the kernel's locks are the limit.
const MAX_WORKERS: usize = 256;

/// A cluster keeps everything on every node: more of them only cost.
const MAX_PEERS: usize = 15;

/// The configuration of one registry.
#[derive(Clone, Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The file, with the command line's values in it.
    pub file: RegistrySvc,
    /// The rights of users and clients.
    pub acl: AclParts,
    /// The other nodes.
    pub cluster: Option<ClusterSettings>,
    /// The largest sizes of repositories.
    pub quotas: Vec<Quota>,
    /// Settings that are understood, but odd.
    pub warnings: Vec<Problem>,
    /// The machine that it is for.
    pub machine: Machine,
}

impl Config {
    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_document(document: &Document) -> Result<Self, Problems> {
        let (mut acl, mut quotas) = (AclParts::default(), Vec::new());
        let (mut cluster, mut warnings) = (None, Vec::new());
        let file = document.parse_with(|file: &RegistrySvc, check| {
            if file.listen.is_empty() {
                check.problem(&at!["listen"], "there has to be an address to listen on");
            }
            encryption(file, check);
            acl = access::acl(&file.access, check);
            quotas = limited(file, check);
            cluster = nodes(file, check);
            others(file, check);
            warnings = odd(file, access::anonymous_push(&acl), check);
        })?;
        Ok(Self {
            common: Common::of(file.log, file.admin, file.drain),
            acl,
            cluster,
            quotas,
            warnings,
            file,
            machine: Machine::default(),
        })
    }

    /// How full the disk may become.
    #[must_use]
    pub fn space(&self) -> space::Settings {
        space::Settings::of(&self.file.space, self.quotas.clone())
    }

    /// The number of threads of the data path.
    #[must_use]
    pub fn workers(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        match self.file.workers {
            0 => cores,
            workers => workers,
        }
        .min(MAX_WORKERS)
    }

    /// The addresses for clients.
    #[must_use]
    pub fn listen(&self) -> Vec<SocketAddr> {
        self.file.listen.iter().map(|address| address.0).collect()
    }

    /// The tokens, unless clients send their password each time or there are no users.
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        let token = &self.file.access.token;
        (token.enabled && access::has_users(&self.file.access)).then_some(token)
    }

    /// A summary of the configuration in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let file = &self.file;
        let listen: Vec<String> = file.listen.iter().map(ToString::to_string).collect();
        let how = match &file.tls {
            None => "plain text".to_owned(),
            Some(tls) => format!("TLS, {}", counted(tls.certificates.len(), "certificate")),
        };
        let users = match (&file.access.htpasswd, access::has_users(&file.access)) {
            (Some(_), _) => "users by password",
            (None, true) => "users by certificate",
            (None, false) if access::anonymous_push(&self.acl) => "everybody",
            (None, false) => "pulls alone",
        };
        let mut text = format!(
            "{} on {} ({how}), for {users}",
            file.root.display(),
            listen.join(" ")
        );
        if let Some(cluster) = &file.cluster {
            let n = cluster.peers.len();
            text.push_str(&format!(", node {} beside {n}", cluster.node));
        }
        for (n, what) in [
            (file.mirror.len(), "mirror"),
            (file.webhook.len(), "webhook"),
        ] {
            if n > 0 {
                text.push_str(&format!(", {}", counted(n, what)));
            }
        }
        if file.read_only {
            text.push_str(", read-only");
        }
        text
    }
}

//--- Rules between keys

/// Certificates, or the decision to have none; certificates of clients only with their authority.
fn encryption(file: &RegistrySvc, check: &mut Check<'_>) {
    let authority = file.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
    if file.access.certificates != CertificateName::None && authority.is_none() {
        check.problem(
            &at!["access", "certificates"],
            "`certificates` needs a `client-ca` in [tls]: no client could show one",
        );
    }
    let Some(tls) = &file.tls else {
        if !file.plain {
            check.problem(
                &at!["plain"],
                "there is no certificate: give [tls] certificates, or say `plain = true` to serve in plain text",
            );
        }
        return;
    };
    if file.plain {
        check.problem(&at!["tls"], "`plain = true` and [tls] exclude each other");
    }
    if tls.certificates.is_empty() {
        check.problem(&at!["tls"], "[tls] needs at least one of `certificates`");
    }
    if tls.client_ca.is_none() && tls.client_certificates == ClientCertificates::Required {
        check.problem(
            &at!["tls"],
            "`client-certificates = \"required\"` needs a `client-ca`",
        );
    }
}

/// The order of the watermarks, and the patterns of quotas.
fn limited(file: &RegistrySvc, check: &mut Check<'_>) -> Vec<Quota> {
    let space = &file.space;
    if space.warn > space.stop {
        // The one that the file has.
        let key = match space.warn == Space::default().warn {
            true => "stop",
            false => "warn",
        };
        check.problem(&at!["space", key], "`warn` has to come before `stop`");
    }
    let mut quotas = Vec::new();
    for (index, quota) in space.quota.iter().enumerate() {
        match Glob::parse(&quota.repositories) {
            Ok(repositories) => quotas.push(Quota {
                repositories,
                size: quota.size.0,
            }),
            Err(error) => check.problem(
                &at!["space", "quota", index, "repositories"],
                error.to_string(),
            ),
        }
    }
    quotas
}

/// The nodes, each with a name of its own.
fn nodes(file: &RegistrySvc, check: &mut Check<'_>) -> Option<ClusterSettings> {
    let Some(cluster) = &file.cluster else {
        if file.renewal.is_some() {
            let words =
                "[renewal] needs [cluster]: only the nodes there could give this one a certificate";
            check.problem(&at!["renewal"], words);
        }
        return None;
    };
    if let Err(error) = cluster.node.parse::<NodeName>() {
        check.problem(&at!["cluster", "node"], error.to_string());
    }
    let mut names = BTreeSet::from([&cluster.node]);
    for (index, peer) in cluster.peers.iter().enumerate() {
        if let Err(error) = peer.name.parse::<NodeName>() {
            let way = at!["cluster", "peers", index, "name"];
            check.problem(&way, error.to_string());
        }
        if let Err(error) = peer.address.parse::<HostPort>() {
            let way = at!["cluster", "peers", index, "address"];
            check.problem(&way, error.to_string());
        }
        if !names.insert(&peer.name) {
            check.problem(
                &at!["cluster", "peers", index, "name"],
                "that is the name of another node",
            );
        }
    }
    if cluster.peers.len() > MAX_PEERS {
        check.problem(
            &at!["cluster", "peers"],
            format!("a cluster has at most {MAX_PEERS} peers"),
        );
    }
    // Its errors are those above, without their places.
    let settings = ClusterSettings::of(cluster).ok()?;
    Some(ClusterSettings {
        renewal: file.renewal.clone(),
        ..settings
    })
}

/// Mirrors have upstreams and prefixes of their own, webhooks their names; the object store is encrypted or may be
/// without.
fn others(file: &RegistrySvc, check: &mut Check<'_>) {
    let mut prefixes = BTreeSet::new();
    for (index, mirror) in file.mirror.iter().enumerate() {
        if mirror.upstream.is_empty() {
            check.problem(
                &at!["mirror", index, "upstream"],
                "this mirror has no upstream",
            );
        }
        if !prefixes.insert(&mirror.prefix) {
            check.problem(
                &at!["mirror", index, "prefix"],
                "another mirror has this prefix",
            );
        }
    }
    let mut names = BTreeSet::new();
    for (index, webhook) in file.webhook.iter().enumerate() {
        if !names.insert(&webhook.name) {
            check.problem(
                &at!["webhook", index, "name"],
                "another webhook has this name",
            );
        }
    }
    if let Some(s3) = &file.s3
        && let Some(endpoint) = &s3.endpoint
        && !endpoint.is_encrypted()
        && !s3.allow_http
    {
        check.problem(
            &at!["s3", "endpoint"],
            "plain HTTP is used only with `allow-http = true`",
        );
    }
}

/// Settings that are legal, but odd.
fn odd(file: &RegistrySvc, anonymous_push: bool, check: &Check<'_>) -> Vec<Problem> {
    let mut warnings = Vec::new();
    let mut warn = |way: &[_], words: &str| {
        warnings.push(Problem::at(check.position(way), words));
    };
    let is_reachable = file
        .listen
        .iter()
        .any(|address| !address.ip().is_loopback());
    if is_reachable && anonymous_push && !file.read_only {
        warn(
            &at!["access"],
            "every client that reaches the registry may push without saying who it is: [access] lets anonymous clients do so",
        );
    }
    if is_reachable && file.tls.is_none() && file.access.htpasswd.is_some() {
        warn(
            &at!["access", "htpasswd"],
            "passwords cross the network in plain text",
        );
    }
    warnings
}

#[cfg(test)]
mod tests;
