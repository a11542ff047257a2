//! Certificates, keys and passwords of a site, in the directory that its site file names.
//!
//! ```text
//! pki/ca.crt                the authority
//! pki/nodes/NODE.crt .key   what each node shows
//! pki/registry-token.key    what the registry signs tokens with, where it has users
//! ```

use std::fs;
use std::path::Path;

use daemon_base::config::{Problem, Problems};

use crate::secrets::{Pair, Secrets};
use crate::service::Service;
use crate::site::Site;

/// Reads what the nodes of a site need. `home` is the directory of the site file.
///
/// # Errors
///
/// Everything that cannot be read.
pub(crate) fn load(home: &Path, site: &Site) -> Result<Secrets, Problems> {
    let directory = home.join(&site.pki);
    let mut problems = Problems::default();
    let mut read = |path: &Path| match fs::read(path) {
        Ok(contents) => contents,
        Err(error) => {
            let path = path.display();
            problems.push(Problem::new(format!("cannot read {path}: {error}")));
            Vec::new()
        }
    };
    let mut secrets = Secrets {
        authority: read(&directory.join("ca.crt")),
        ..Secrets::default()
    };
    let has_registry = |services: &[Service]| services.contains(&Service::RegistrySvc);
    for node in site
        .nodes
        .iter()
        .filter(|node| has_registry(&node.services))
    {
        let nodes = directory.join("nodes");
        let pair = Pair {
            certificate: read(&nodes.join(format!("{}.crt", node.name))),
            key: read(&nodes.join(format!("{}.key", node.name))),
        };
        secrets.nodes.insert(node.name.clone(), pair);
    }
    if let Some(users) = &site.registry.users {
        secrets.registry_users = Some(read(&home.join(users)));
        secrets.registry_token_key = Some(read(&directory.join("registry-token.key")));
    }
    problems.unless_empty(secrets)
}
