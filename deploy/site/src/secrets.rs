//! The secrets of a site: keys, certificates and passwords that its nodes need.
//!
//! Nothing here is ever logged or shown in a difference.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The secrets of a site.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The certificate of the site's authority (PEM).
    pub authority: Vec<u8>,
    /// The certificates that it has revoked (PEM, `X509 CRL`).
    pub revoked: Option<Vec<u8>>,
    /// The certificate of each node, by the node's name.
    pub nodes: BTreeMap<String, Pair>,
    /// The certificates for clients of each node, in the order of their ends (PEM), by the node's name; none unless the nodes renew them.
    pub served: BTreeMap<String, Vec<u8>>,
    /// The key that signs the registry's tokens (Ed25519, PKCS #8, PEM), the same on every node. Only
    /// where the registry has users.
    pub registry_token_key: Option<Vec<u8>>,
    /// Users of the registry, as `htpasswd -B` writes them.
    pub registry_users: Option<Vec<u8>>,
    /// Users of the site's page, as `htpasswd -B` writes them.
    pub page_users: Option<Vec<u8>>,
    /// The authority of the page's clients (PEM).
    pub page_clients: Option<Vec<u8>>,
    /// The secrets of the DNS cookies of a service, by its name; the same on every node.
    pub cookies: BTreeMap<&'static str, Vec<u8>>,
    /// Credentials and authorities of the registry's mirrors, by their paths in the site file.
    pub mirrors: BTreeMap<PathBuf, Vec<u8>>,
    /// The kubeconfig of clusterd.
    pub kubeconfig: Option<Vec<u8>>,
}

/// A certificate with its key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, then what leads to the authority (PEM).
    pub certificate: Vec<u8>,
    /// Its key (PKCS #8, PEM).
    pub key: Vec<u8>,
}

#[cfg(any(test, feature = "testing"))]
impl Secrets {
    /// Something for each node, and different on each.
    pub fn made_up(site: &crate::Site) -> Self {
        let pair = |node: &crate::Node| Pair {
            certificate: format!("certificate of {}\n", node.name).into_bytes(),
            key: format!("key of {}\n", node.name).into_bytes(),
        };
        let nodes = site.nodes.iter();
        Self {
            authority: b"authority\n".to_vec(),
            revoked: None,
            nodes: nodes.map(|node| (node.name.clone(), pair(node))).collect(),
            served: BTreeMap::new(),
            registry_token_key: Some(b"token key\n".to_vec()),
            registry_users: Some(b"users\n".to_vec()),
            page_users: Some(b"users of the page\n".to_vec()),
            page_clients: Some(b"authority of clients\n".to_vec()),
            cookies: ["dns-authd", "dns-recursor"]
                .map(|service| (service, format!("cookie of {service}\n").into_bytes()))
                .into(),
            mirrors: BTreeMap::new(),
            kubeconfig: Some(b"kubeconfig\n".to_vec()),
        }
    }
}

impl Secrets {
    /// The first certificate for clients of a node (PEM), which it has itself; the other nodes have all of them.
    #[must_use]
    pub fn first_served(&self, node: &str) -> Option<&[u8]> {
        const END: &[u8] = b"-----END CERTIFICATE-----\n";
        let all = self.served.get(node)?;
        let end = all.windows(END.len()).position(|part| part == END)?;
        all.get(..end + END.len())
    }
}

// A secret that can be printed is printed some day.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("nodes", &self.nodes.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}
