//! Servers with DNS names: from the configuration to its entries, and back from addresses to servers.

use ::config::lb_proxy as file;
use api::lb_proxy::Origin;
use balance::pool::MAX_SERVERS;
use daemon::clock;
use name_lookup::{name_of, settings};
use server_names::names::{Entry, Names};

use crate::config::{Backend, Config, Server, server};

/// The names of a configuration, of which nothing is known.
pub(crate) fn names(config: &Config) -> Names {
    Names::new(
        settings(&config.file.resolvers),
        entries(config),
        clock::now(),
    )
}

/// The servers that have names.
pub(crate) fn entries(config: &Config) -> Vec<Entry> {
    let backends = config.backends.iter();
    backends
        .flat_map(|backend| backend.named.iter().cloned())
        .collect()
}

/// Adds the servers that names stand for, each at the place of its name.
pub(crate) fn join(backend: &mut Backend, spec: &file::Backend, names: &Names) {
    if backend.named.is_empty() {
        return;
    }
    let place = |name: &str| {
        let mut written = spec.server.iter();
        written.position(|server| server.name == *name)
    };
    let known = std::mem::take(&mut backend.servers);
    let mut servers: Vec<(Option<usize>, Server)> = known
        .into_iter()
        .map(|server| (place(&server.name), server))
        .collect();
    for written in &spec.server {
        for found in names.servers(&backend.name, &written.name) {
            let name = name_of(written, found);
            let is_known = servers.iter().any(|(_, known)| *known.name == *name);
            if is_known || servers.len() >= MAX_SERVERS {
                continue;
            }
            let one = server(
                (name.into(), found.address),
                written,
                spec,
                backend.check.as_ref(),
            );
            let one = Server {
                weight: found.share.of(one.weight),
                backup: one.backup || found.is_backup,
                origin: Some(Origin::Resolved),
                ..one
            };
            servers.push((place(&written.name), one));
        }
    }
    // Nodes of the cluster come last, as ever.
    servers.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
    backend.servers = servers.into_iter().map(|(_, server)| server).collect();
}

#[cfg(test)]
mod tests;
