//! `[[vip]]`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toml::Spanned;
use vrrp::checksum::ChecksumForm;
use vrrp::openshift::ClusterRouterIds;
use vrrp::packet::{Authentication, Version};
use vrrp::priority::{
    DEFAULT_FALL, DEFAULT_HOLD_DOWN, DEFAULT_RISE, Effect, PrioritySettings, Tracked, WhenUnable,
};
use vrrp::settings::{
    Announce, DEFAULT_INTERVAL, DEFAULT_PRIORITY, Peers, Preempt, RouterSettings, VirtualAddress,
};
use vrrp_net::notify::{DEFAULT_LIMIT, Notify};

use super::Reader;
use super::above_zero;
use super::spec::{AnnounceSpec, ChecksumSpec, VipSpec, WhenUnableSpec};
use crate::config::{Backend, Frontend, Role, Tracked as TrackedThing, Vip};

impl Reader<'_> {
    pub(super) fn vips(
        &mut self,
        specs: &[VipSpec],
        cluster: Option<&str>,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> Vec<Vip> {
        let mut known = BTreeSet::new();
        let mut vips = Vec::new();
        for spec in specs {
            let name = self.name(&spec.name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(
                    spec.name.span(),
                    format!("there are two virtual IPs `{name}`"),
                );
            }
            let tracked = self.tracked(spec, &name, frontends, backends);
            let Some(router_id) = self.router_id(spec, cluster) else {
                continue;
            };
            let whole = self.router(spec, &name, router_id);
            if let (true, Some(family)) = (is_mixed(&whole), family_without_peer(&whole)) {
                let first = spec.peers.iter().flatten().next();
                self.problem(
                    first.map_or_else(|| spec.name.span(), Spanned::span),
                    format!(
                        "no peer is of {family}, so `{name}` would not become active, for its other addresses \
                         either: write the peers' addresses of {family} too, or a [[vip]] of its own for those \
                         of {family}"
                    ),
                );
            }
            for router in by_family(whole) {
                for fault in router.faults() {
                    self.problem(spec.name.span(), fault.to_string());
                }
                vips.push(Vip {
                    priority: PrioritySettings {
                        base: router.priority,
                        tracked: tracked.clone(),
                        hold_down: spec.hold_down.map_or(DEFAULT_HOLD_DOWN, Duration::from),
                        when_unable: match spec.when_unable {
                            WhenUnableSpec::Yield => WhenUnable::Yield,
                            WhenUnableSpec::Release => WhenUnable::Release,
                        },
                    },
                    router,
                    notify: spec.notify.clone().map(notify),
                });
            }
        }
        vips
    }

    fn router(&mut self, spec: &VipSpec, name: &Arc<str>, router_id: u8) -> RouterSettings {
        let addresses = self.virtual_addresses(spec.addresses.get_ref());
        if spec.addresses.get_ref().is_empty() {
            self.problem(spec.addresses.span(), "a virtual IP needs an address");
        }
        let interface = spec.interface.get_ref().as_str();
        let mut router = RouterSettings::new(Arc::clone(name), interface, router_id, addresses);
        router.version = match spec.version {
            Some(2) => Version::V2,
            None | Some(3) => Version::V3,
            Some(other) => {
                self.problem(spec.name.span(), format!("VRRP has no version {other}"));
                Version::V3
            }
        };
        router.priority = spec.priority.unwrap_or(DEFAULT_PRIORITY);
        router.interval = spec.interval.map_or(DEFAULT_INTERVAL, Duration::from);
        router.peers = self.peers(spec.peers.as_deref());
        router.preempt = match spec.preempt {
            true => Preempt::After(spec.preempt_delay.map_or(Duration::ZERO, Duration::from)),
            false => Preempt::Never,
        };
        router.authentication = match &spec.password {
            None => Authentication::None,
            Some(password) => Authentication::password(password),
        };
        router.checksum = match spec.checksum {
            ChecksumSpec::PseudoHeader => ChecksumForm::PseudoHeader,
            ChecksumSpec::Rfc => ChecksumForm::Rfc,
        };
        router.checksum_strict = spec.checksum_strict;
        router.peers_only = spec.peers_only;
        router.source = spec.source;
        router.group = spec
            .group
            .as_ref()
            .map(|group| group.get_ref().as_str().into());
        router.announce = announce(spec.announce, router.interval);
        router.probe = spec.probe;
        router
    }

    /// As written, else as OpenShift has it for the cluster.
    fn router_id(&mut self, spec: &VipSpec, cluster: Option<&str>) -> Option<u8> {
        let of_cluster = cluster.and_then(|cluster| {
            let ids = ClusterRouterIds::of(cluster);
            match Role::from(spec.role) {
                Role::Api => Some(ids.api),
                Role::Ingress => Some(ids.ingress),
                Role::Plain => None,
            }
        });
        let written = spec.router_id.as_ref().map(|id| *id.get_ref());
        let id = written.or(of_cluster);
        if id.is_none() {
            self.problem(
                spec.name.span(),
                "a virtual IP needs a `router-id`, or a `role` and [openshift] `cluster` to compute it from",
            );
        }
        id
    }

    fn virtual_addresses(&mut self, list: &[Spanned<String>]) -> Vec<VirtualAddress> {
        let mut addresses = Vec::new();
        for text in list {
            match parse_virtual(text.get_ref()) {
                Some(address) => addresses.push(address),
                None => self.problem(
                    text.span(),
                    format!("`{}` is no address, as in 192.168.7.100/24", text.get_ref()),
                ),
            }
        }
        addresses
    }

    pub(super) fn peers(&mut self, list: Option<&[Spanned<String>]>) -> Peers {
        let Some(list) = list else {
            return Peers::Multicast;
        };
        let mut peers = Vec::new();
        for text in list {
            match text.get_ref().parse() {
                Ok(address) => peers.push(address),
                Err(_) => self.problem(text.span(), format!("`{}` is no address", text.get_ref())),
            }
        }
        Peers::Unicast(peers)
    }

    //--- Tracking

    fn tracked(
        &mut self,
        spec: &VipSpec,
        name: &Arc<str>,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> Vec<Tracked> {
        let rise = spec.rise.map_or(DEFAULT_RISE, Duration::from);
        let fall = spec.fall.map_or(DEFAULT_FALL, Duration::from);
        let mut tracked = Vec::new();
        match &spec.track {
            Some(list) => {
                for what in list {
                    let is_there = self.is_there(what, frontends, backends);
                    if is_there {
                        tracked.push(Tracked {
                            name: what.get_ref().as_str().into(),
                            effect: Effect::Required,
                            rise,
                            fall,
                        });
                    }
                }
            }
            // The name of a frontend alone stands for that frontend.
            None if frontends.iter().any(|frontend| frontend.name == *name) => {
                tracked.push(Tracked {
                    name: format!("frontend:{name}").into(),
                    effect: Effect::Required,
                    rise,
                    fall,
                });
            }
            None => {}
        }
        for weigh in &spec.weigh {
            if !self.is_there(&weigh.what, frontends, backends) {
                continue;
            }
            if !(-253..=253).contains(weigh.weight.get_ref()) || *weigh.weight.get_ref() == 0 {
                self.problem(weigh.weight.span(), "a weight is -253 to 253, and not 0");
            }
            tracked.push(Tracked {
                name: weigh.what.get_ref().as_str().into(),
                effect: Effect::Weight(*weigh.weight.get_ref()),
                rise: weigh.rise.map_or(rise, Duration::from),
                fall: weigh.fall.map_or(fall, Duration::from),
            });
        }
        tracked
    }

    fn is_there(
        &mut self,
        what: &Spanned<String>,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> bool {
        let words = match TrackedThing::parse(what.get_ref()) {
            Some(TrackedThing::Frontend(name)) => {
                if frontends.iter().any(|frontend| frontend.name == name) {
                    return true;
                }
                format!("there is no frontend `{name}`")
            }
            Some(TrackedThing::Backend(name)) => {
                if backends.iter().any(|backend| backend.name == name) {
                    return true;
                }
                format!("there is no backend `{name}`")
            }
            None => "a tracked thing is `frontend:NAME` or `backend:NAME`".to_owned(),
        };
        self.problem(what.span(), words);
        false
    }
}

pub(super) fn notify(script: PathBuf) -> Notify {
    Notify {
        script,
        limit: DEFAULT_LIMIT,
    }
}

pub(super) fn announce(spec: AnnounceSpec, interval: Duration) -> Announce {
    let default = Announce::default();
    Announce {
        count: spec.count.unwrap_or(default.count),
        again_after: match spec.again_after {
            None => default.again_after,
            Some(time) => above_zero(time),
        },
        refresh: match spec.refresh {
            None => Some((3 * interval).max(SHORTEST_REFRESH)),
            Some(time) => above_zero(time),
        },
    }
}

/// How often addresses are announced at most, where nothing is written.
///
/// When a network that was cut in two heals, the router that yields may do so silently, as
/// keepalived does; then no announcement corrects what half of the network has learnt. So a cache
/// is set right in the time that a takeover may last.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// A virtual router is of one family (RFC 9568 §1): addresses of both are two, which move together.
pub(super) fn by_family(whole: RouterSettings) -> Vec<RouterSettings> {
    let of = |ipv6: bool| {
        let mut router = whole.clone();
        router
            .addresses
            .retain(|entry| entry.address.is_ipv6() == ipv6);
        if let Peers::Unicast(peers) = &mut router.peers {
            peers.retain(|peer| peer.is_ipv6() == ipv6);
        }
        router.source = router.source.filter(|source| source.is_ipv6() == ipv6);
        router
    };
    if !is_mixed(&whole) {
        return vec![whole];
    }
    let (mut four, mut six) = (of(false), of(true));
    six.name = format!("{}-ipv6", whole.name).into();
    let group = whole
        .group
        .clone()
        .unwrap_or_else(|| Arc::clone(&whole.name));
    four.group = Some(Arc::clone(&group));
    six.group = Some(group);
    vec![four, six]
}

fn is_mixed(whole: &RouterSettings) -> bool {
    let has = |ipv6: bool| {
        let mut entries = whole.addresses.iter();
        entries.any(|entry| entry.address.is_ipv6() == ipv6)
    };
    has(false) && has(true)
}

/// A family that there are addresses of, and none of the peers. An empty list says that the peers are
/// unknown, and that is another matter.
pub(super) fn family_without_peer(whole: &RouterSettings) -> Option<&'static str> {
    let Peers::Unicast(peers) = &whole.peers else {
        return None;
    };
    let is_missing = |ipv6: bool| {
        let mut entries = whole.addresses.iter();
        entries.any(|entry| entry.address.is_ipv6() == ipv6)
            && peers.iter().all(|peer| peer.is_ipv6() != ipv6)
    };
    let families = [(false, "IPv4"), (true, "IPv6")];
    let missing = families.into_iter().find(|(ipv6, _)| is_missing(*ipv6));
    missing
        .filter(|_| !peers.is_empty())
        .map(|(_, family)| family)
}

/// `192.168.7.100/24`; without a length, the address alone.
fn parse_virtual(text: &str) -> Option<VirtualAddress> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv6() { 128 } else { 32 };
    Some(VirtualAddress {
        address,
        prefix_length: length.unwrap_or(longest),
    })
}
