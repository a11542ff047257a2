//! How addresses for Services are given: the settings of the file, and the present state.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::config::clusterd as file;
use cluster::{Object, Service};
use cluster_addresses::{Decision, Pool, ServiceKey, Settings, decide, ingress};

/// How addresses are given.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressSettings {
    /// The pools and the class.
    pub given: Settings,
    /// The `ipMode` of what is written.
    pub mode: &'static str,
    /// The name of this clusterd in the Lease.
    pub identity: String,
    /// The namespace of the Lease.
    pub lease_namespace: String,
}

impl AddressSettings {
    /// Those of a file.
    #[must_use]
    pub fn of(file: &file::Clusterd) -> Self {
        let addresses = &file.addresses;
        let pools = file.pool.iter().map(|pool| Pool {
            name: pool.name.clone(),
            ranges: pool.addresses.clone(),
            automatic: pool.automatic,
            namespaces: pool.namespaces.clone(),
            avoid_buggy: pool.avoid_buggy,
        });
        let host = || {
            let names = rustix::system::uname();
            names.nodename().to_string_lossy().into_owned()
        };
        Self {
            given: Settings {
                pools: pools.collect(),
                class: addresses.class.clone(),
            },
            mode: addresses.mode.name(),
            identity: addresses.identity.clone().unwrap_or_else(host),
            lease_namespace: addresses.lease_namespace.clone(),
        }
    }

    /// Gives the Services of manifests their addresses. There is no status that would remember them: they follow from the
    /// Services alone, and are the same on every node.
    /// Those that are kept as they were have their addresses already.
    pub(crate) fn fill(
        &self,
        objects: &mut [Object],
        kept: &[Arc<Object>],
    ) -> BTreeMap<ServiceKey, Decision> {
        if self.given.pools.is_empty() {
            return BTreeMap::new();
        }
        let all = objects.iter().chain(kept.iter().map(|object| &**object));
        let services = all.filter_map(|object| match object {
            Object::Service(service) => Some(&**service),
            _ => None,
        });
        let decisions = decide(&self.given, services);
        for object in objects {
            let Object::Service(service) = object else {
                continue;
            };
            let key = (service.meta.namespace.clone(), service.meta.name.clone());
            if let Some(decision) = decisions.get(&key) {
                let service: &mut Service = service;
                service.ingress = ingress(decision, self.mode);
            }
        }
        decisions
    }
}

/// A Service that waits for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The Service.
    pub service: ServiceKey,
    /// Why.
    pub reason: String,
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressState {
    /// Whether this clusterd writes.
    pub leads: bool,
    /// The clusterd that does.
    pub holder: Option<String>,
    /// How many addresses Services have of each pool.
    pub given: BTreeMap<String, usize>,
    /// The Services that wait for one.
    pub waiting: Vec<Waiting>,
    /// Why the last attempt to write failed.
    pub problem: Option<String>,
}

/// The most Services that are named in a status.
const MOST_NAMED: usize = 1000;

impl AddressState {
    /// Takes up what was decided.
    pub(crate) fn take(&mut self, decisions: &BTreeMap<ServiceKey, Decision>) {
        self.given.clear();
        self.waiting.clear();
        for (service, decision) in decisions {
            let Decision::Has { given, missing } = decision else {
                continue;
            };
            for given in given {
                *self.given.entry(given.pool.clone()).or_default() += 1;
            }
            if let Some(refusal) = missing
                && self.waiting.len() < MOST_NAMED
            {
                self.waiting.push(Waiting {
                    service: service.clone(),
                    reason: refusal.to_string(),
                });
            }
        }
    }
}
