//! The explanation of names and addresses: `GET /explain?about=WORD[,WORD…]`, which `lb-proxy explain` asks for.
//!
//! A word is the name of a frontend, a backend or a virtual address, or an IP address with or without a port. Nothing
//! said means everything.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::explain::lb_proxy::{Backend, Explanation, Frontend, Route, Vip};
use api::lb_proxy::{self, Detail};
use balance::pool::Algorithm;
use daemon::acl;
use daemon::admin::{Reply, Routes};
use daemon::latest::Reader;
use l4::relay::Engine;
use proto::lease::Leases;
use proto::link::Link;

use crate::cluster::ClusterServers;
use crate::config;
use crate::datagrams::Datagrams;
use crate::kernel_path::KernelPath;
use crate::status::Report;
use crate::table_builder::{TableBuilder, View};
use crate::vips::VipBoard;

/// The path.
pub(crate) const PATH: &str = "/explain";

/// The sources of explanations.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) engine: Arc<Engine>,
    pub(crate) builder: Arc<TableBuilder>,
    pub(crate) cluster: Arc<ClusterServers>,
    pub(crate) link: Link,
    pub(crate) datagrams: Datagrams,
    pub(crate) kernel: KernelPath,
    pub(crate) routers: VipBoard,
    pub(crate) leases: Reader<Leases>,
}

/// Adds the path.
pub(crate) fn add(routes: &Routes, sources: &Sources) {
    let sources = sources.clone();
    routes.get(PATH, move |request| {
        let about = request.parameter("about").unwrap_or_default();
        let sources = sources.clone();
        async move {
            // The workers and the kernel answer, which takes them a moment.
            let explained = tokio::task::spawn_blocking(move || sources.explain(&about)).await;
            match explained {
                Ok(explanation) if explanation.is_empty() && !explanation.about.is_empty() => {
                    let about = explanation.about.join(" or ");
                    let text = format!("no frontend, server or virtual address has {about}\n");
                    Reply::text(404, text)
                }
                Ok(explanation) => Reply::json(200, &explanation),
                Err(_) => Reply::text(503, "the proxy is ending\n"),
            }
        }
    });
}

impl Sources {
    fn explain(&self, about: &str) -> Explanation {
        let view = self.builder.view();
        let mut leases = self.leases.clone();
        leases.refresh();
        let report = Report {
            engine: Arc::clone(&self.engine),
            view: Arc::clone(&view),
            link: self.link.clone(),
            cluster: None,
            resolving: self.cluster.resolving(),
            datagrams: self.datagrams.clone(),
            kernel: self.kernel.status(),
            routers: self.routers.routers(),
            leases: leases.shared(),
        };
        let words = about.split(',').map(str::trim);
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        explanation(&words, report.detail(), &view, &acl::is_own)
    }
}

/// The parts of a status that some words mean.
fn explanation(
    words: &[&str],
    detail: Detail,
    view: &View,
    is_own: &dyn Fn(IpAddr) -> bool,
) -> Explanation {
    let config = view.config.as_deref();
    let places: Vec<Word<'_>> = words.iter().map(|word| Word::of(word)).collect();
    let of_config = |name: &str| {
        let mut frontends = config?.frontends.iter();
        frontends.find(|frontend| *frontend.name == *name)
    };
    let vips = detail.vips;
    let is_here = |address: IpAddr| is_own(address) || vips.iter().any(|vip| has(vip, address));
    let is_meant = |frontend: &lb_proxy::Frontend| {
        let is_meant = |word: &Word<'_>| word.means_frontend(frontend, &is_here);
        places.is_empty() || places.iter().any(is_meant)
    };
    let backends_of = |frontend: &lb_proxy::Frontend| {
        of_config(&frontend.name).map_or_else(Vec::new, backends_of)
    };
    let behind: Vec<Arc<str>> = detail
        .frontends
        .iter()
        .filter(|it| is_meant(it))
        .flat_map(backends_of)
        .collect();
    // Those of the servers, and those behind the frontends.
    let backends: Vec<lb_proxy::Backend> = detail
        .backends
        .into_iter()
        .filter(|backend| {
            let is_meant = places.iter().any(|word| word.means_backend(backend));
            places.is_empty() || is_meant || behind.iter().any(|it| **it == *backend.name)
        })
        .collect();
    let by_server = |frontend: &lb_proxy::Frontend| {
        let meant = backends
            .iter()
            .filter(|backend| places.iter().any(|word| word.means_backend(backend)));
        let led_to = backends_of(frontend);
        meant
            .into_iter()
            .any(|backend| led_to.iter().any(|it| **it == *backend.name))
    };
    let frontends: Vec<Frontend> = detail
        .frontends
        .iter()
        .filter(|it| is_meant(it) || by_server(it))
        .map(|it| frontend(it, of_config(&it.name)))
        .collect();
    let table = &view.table.backends;
    let named = detail.resolving.map_or_else(Vec::new, |it| it.names);
    let backends = backends.into_iter().map(|backend| {
        let mut known = table.iter();
        let known = known.find(|known| *known.pool.name == *backend.name);
        let balance = known.map_or("", |known| balance(known.pool.algorithm));
        Backend {
            balance: balance.to_owned(),
            names: names_of(&named, &backend.name),
            backend,
        }
    });
    let is_vip_meant =
        |vip: &lb_proxy::Vip| places.is_empty() || places.iter().any(|word| word.means_vip(vip));
    Explanation {
        about: words.iter().map(|word| (*word).to_owned()).collect(),
        frontends,
        backends: backends.collect(),
        vips: vips
            .iter()
            .filter(|vip| is_vip_meant(vip))
            .map(held)
            .collect(),
        healthd: detail.healthd,
    }
}

/// A word of the question.
enum Word<'a> {
    /// A name.
    Name(&'a str),
    /// Every port of an address.
    Address(IpAddr),
    /// One of them.
    Port(SocketAddr),
}

impl<'a> Word<'a> {
    fn of(word: &'a str) -> Self {
        let address = word.parse().map(Self::Address);
        let port = address.or_else(|_| word.parse().map(Self::Port));
        port.unwrap_or(Self::Name(word))
    }

    /// Whether clients reach a frontend there.
    fn means_frontend(
        &self,
        frontend: &lb_proxy::Frontend,
        is_here: &dyn Fn(IpAddr) -> bool,
    ) -> bool {
        let mut listen = frontend.listen.iter().filter_map(|text| text.parse().ok());
        let reaches = |listen: SocketAddr, address: IpAddr| {
            let is_any = listen.ip().is_unspecified()
                && (listen.is_ipv6() || address.is_ipv4())
                && is_here(address);
            listen.ip() == address || is_any
        };
        match *self {
            Self::Name(name) => name == frontend.name,
            Self::Address(address) => listen.any(|listen| reaches(listen, address)),
            Self::Port(at) => listen
                .any(|listen: SocketAddr| listen.port() == at.port() && reaches(listen, at.ip())),
        }
    }

    /// Whether it is the name of a virtual address, or one of its addresses.
    fn means_vip(&self, vip: &lb_proxy::Vip) -> bool {
        match self {
            Self::Name(name) => *name == vip.name,
            Self::Address(address) => has(vip, *address),
            Self::Port(port) => has(vip, port.ip()),
        }
    }

    /// Whether it names a backend, or a server of it is there.
    fn means_backend(&self, backend: &lb_proxy::Backend) -> bool {
        let servers = backend.servers.iter();
        let mut servers = servers.filter_map(|server| server.address.parse::<SocketAddr>().ok());
        match *self {
            Self::Name(name) => name == backend.name,
            Self::Address(address) => servers.any(|server| server.ip() == address),
            Self::Port(at) => servers.any(|server| server == at),
        }
    }
}

/// Whether a virtual address is this one.
fn has(vip: &lb_proxy::Vip, address: IpAddr) -> bool {
    let mut addresses = vip.addresses.iter();
    addresses.any(|own| own.parse() == Ok(address))
}

/// The backends that a frontend leads to.
fn backends_of(frontend: &config::Frontend) -> Vec<Arc<str>> {
    frontend.backends().cloned().collect()
}

fn frontend(frontend: &lb_proxy::Frontend, config: Option<&config::Frontend>) -> Frontend {
    let routes = config.map(|config| config.routes.in_words());
    let routes = routes.into_iter().flatten().map(|(name, backend)| Route {
        name,
        backend: backend.to_string(),
    });
    let backend = config.and_then(|config| config.backend.as_ref());
    Frontend {
        frontend: frontend.clone(),
        routes: routes.collect(),
        backend: backend.map(ToString::to_string),
    }
}

/// The servers of a backend that have DNS names.
fn names_of(named: &[lb_proxy::Named], backend: &str) -> Vec<lb_proxy::Named> {
    let named = named.iter().filter(|named| named.backend == *backend);
    named.cloned().collect()
}

/// The configuration's word for the choice of a server.
const fn balance(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RoundRobin => "round-robin",
        Algorithm::LeastConnections => "least-connections",
        Algorithm::RandomOfTwo => "random-of-two",
        Algorithm::Source => "source",
    }
}

//--- Virtual addresses

/// A virtual address with its holder, as far as this node knows.
fn held(vip: &lb_proxy::Vip) -> Vip {
    let (holder, why) = holder(vip);
    Vip {
        vip: vip.clone(),
        holder,
        why,
    }
}

/// The holder of a virtual address, and the reason. A lease is the site's word; without one the election decides.
fn holder(vip: &lb_proxy::Vip) -> (Option<String>, String) {
    let this_node = || Some("this node".to_owned());
    let lease = vip.lease.as_deref();
    let leased_to = lease.and_then(|lease| lease.strip_prefix("held by "));
    let of_priority = |heard: Option<u8>| match heard {
        Some(heard) => format!(
            "it advertises priority {heard}, and this node has {}",
            vip.priority
        ),
        None => format!("this node has priority {}", vip.priority),
    };
    if let Some(fault) = vip.faults.first() {
        let holder = leased_to.map(str::to_owned).or_else(|| vip.active.clone());
        return (holder, format!("this node may not hold it: {fault}"));
    }
    match (vip.state.as_str(), lease, leased_to) {
        ("active", Some("own"), _) => (
            this_node(),
            "a majority of the healthds has promised it the lease".to_owned(),
        ),
        ("active", Some(other), _) => (
            this_node(),
            format!(
                "it won the election with priority {}; lease {other}",
                vip.priority
            ),
        ),
        ("active", None, _) => (
            this_node(),
            format!("it won the election with priority {}", vip.priority),
        ),
        (_, _, Some(node)) => (
            Some(node.to_owned()),
            "it has the lease that a majority of the healthds has promised".to_owned(),
        ),
        ("backup", _, None) if vip.active.is_some() => {
            (vip.active.clone(), of_priority(vip.active_priority))
        }
        (state, Some(lease), None) => (
            None,
            format!("this node is {state}, and the lease is {lease}"),
        ),
        (state, None, None) => (
            None,
            format!("this node is {state}, and hears no active router"),
        ),
    }
}

#[cfg(test)]
mod tests;
