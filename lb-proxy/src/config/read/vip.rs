//! `[[vip]]`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::config::lb_proxy as file;
use ::config::{DurationWithin, Step, Whole, at};
use vrrp::checksum::ChecksumForm;
use vrrp::openshift::ClusterRouterIds;
use vrrp::packet::{Authentication, Version};
use vrrp::priority::{
    DEFAULT_FALL, DEFAULT_HOLD_DOWN, DEFAULT_RISE, Effect, PrioritySettings, Tracked, WhenUnable,
};
use vrrp::settings::{Announce, Peers, Preempt, RouterSettings, VirtualAddress};
use vrrp_net::notify::{DEFAULT_LIMIT, Notify};

use super::Reader;
use crate::config::{Backend, Frontend, Role, Tracked as TrackedThing, Vip};

impl Reader<'_, '_> {
    pub(super) fn vips(&mut self, frontends: &[Frontend], backends: &[Backend]) -> Vec<Vip> {
        let mut known = BTreeSet::new();
        let mut vips = Vec::new();
        for (index, spec) in self.file.vip.iter().enumerate() {
            let at_name = at!["vip", index, "name"];
            let name = self.name(&spec.name, &at_name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(&at_name, format!("there are two virtual IPs `{name}`"));
            }
            if spec.addresses.is_empty() {
                let way = at!["vip", index, "addresses"];
                self.missing(&way, "a virtual IP needs an address");
            }
            let tracked = self.tracked(index, spec, frontends, backends);
            let Some(router_id) = self.router_id(index, spec) else {
                continue;
            };
            let whole = router(spec, router_id);
            if spec.lease && self.file.health.endpoint.0.is_none() {
                let words = "a lease needs [health] `endpoint`: healthd grants it";
                self.missing(&at!["vip", index, "lease"], words);
            }
            if let (true, Some(family)) = (is_mixed(&whole), family_without_peer(&whole)) {
                let words = format!(
                    "no peer is of {family}, so `{name}` would not become active, for its other addresses \
                     either: write the peers' addresses of {family} too, or a [[vip]] of its own for those \
                     of {family}"
                );
                self.missing(&at!["vip", index, "peers", 0], words);
            }
            self.family_vips(&mut vips, whole, spec, &tracked, &at_name);
        }
        vips
    }

    /// Adds a virtual IP for each family of a router's addresses.
    pub(super) fn family_vips(
        &mut self,
        vips: &mut Vec<Vip>,
        whole: RouterSettings,
        spec: &file::Vip,
        tracked: &[Tracked],
        at_name: &[Step<'_>],
    ) {
        for router in by_family(whole) {
            for fault in router.faults() {
                self.missing(at_name, fault.to_string());
            }
            vips.push(Vip {
                priority: PrioritySettings {
                    base: router.priority,
                    tracked: tracked.to_vec(),
                    hold_down: spec.hold_down.map_or(DEFAULT_HOLD_DOWN, Duration::from),
                    when_unable: match spec.when_unable {
                        file::WhenUnable::Yield => WhenUnable::Yield,
                        file::WhenUnable::Release => WhenUnable::Release,
                    },
                },
                lease: spec.lease.then(|| lease_name(&router)),
                router,
                notify: spec.notify.clone().map(notify),
            });
        }
    }

    /// As written, else as OpenShift has it for the cluster.
    fn router_id(&mut self, index: usize, spec: &file::Vip) -> Option<u8> {
        let of_cluster = self.file.openshift.cluster.as_deref().and_then(|cluster| {
            let ids = ClusterRouterIds::of(cluster);
            match spec.role {
                Role::Api => Some(ids.api),
                Role::Ingress => Some(ids.ingress),
                Role::Plain => None,
            }
        });
        let id = spec.router_id.map(Whole::get).or(of_cluster);
        if id.is_none() {
            let words = "a virtual IP needs a `router-id`, or a `role` and [openshift] `cluster` to compute it from";
            self.missing(&at!["vip", index, "name"], words);
        }
        id
    }

    //--- Tracking

    fn tracked(
        &mut self,
        index: usize,
        spec: &file::Vip,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> Vec<Tracked> {
        let rise = spec.rise.map_or(DEFAULT_RISE, Duration::from);
        let fall = spec.fall.map_or(DEFAULT_FALL, Duration::from);
        let required = |what: &str| Tracked {
            name: what.into(),
            effect: Effect::Required,
            rise,
            fall,
        };
        let mut tracked = Vec::new();
        match &spec.track {
            Some(list) => {
                for (place, what) in list.iter().enumerate() {
                    let way = at!["vip", index, "track", place];
                    if self.is_there(what, &way, frontends, backends) {
                        tracked.push(required(what));
                    }
                }
            }
            // The name of a frontend alone stands for that frontend.
            None if frontends.iter().any(|known| *known.name == *spec.name) => {
                tracked.push(required(&format!("frontend:{}", spec.name)));
            }
            None => {}
        }
        for (place, weigh) in spec.weigh.iter().enumerate() {
            let way = at!["vip", index, "weigh", place, "what"];
            if !self.is_there(&weigh.what, &way, frontends, backends) {
                continue;
            }
            if weigh.weight.get() == 0 {
                let way = at!["vip", index, "weigh", place, "weight"];
                self.problem(&way, "a weight is -253 to 253, and not 0");
            }
            tracked.push(Tracked {
                name: weigh.what.as_str().into(),
                effect: Effect::Weight(weigh.weight.get()),
                rise: weigh.rise.map_or(rise, Duration::from),
                fall: weigh.fall.map_or(fall, Duration::from),
            });
        }
        tracked
    }

    fn is_there(
        &mut self,
        what: &str,
        way: &[Step<'_>],
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> bool {
        let words = match TrackedThing::parse(what) {
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
            None => {
                let words = "a tracked thing is `frontend:NAME` or `backend:NAME`";
                self.problem(way, words);
                return false;
            }
        };
        self.missing(way, words);
        false
    }
}

/// The virtual router of a virtual IP.
pub(crate) fn router(spec: &file::Vip, router_id: u8) -> RouterSettings {
    let addresses = spec.addresses.iter().map(|address| VirtualAddress {
        address: address.0.addr(),
        prefix_length: address.0.prefix_len(),
    });
    let name: Arc<str> = spec.name.as_str().into();
    let interface = spec.interface.as_str();
    let default = RouterSettings::new(name, interface, router_id, addresses.collect());
    let interval = spec.interval.map_or(default.interval, DurationWithin::get);
    RouterSettings {
        version: match spec.version.map(Whole::get) {
            None => default.version,
            Some(2) => Version::V2,
            Some(_) => Version::V3,
        },
        priority: spec.priority.map_or(default.priority, Whole::get),
        interval,
        peers: match &spec.peers {
            None => Peers::Multicast,
            Some(peers) => Peers::Unicast(peers.iter().map(|peer| peer.0).collect()),
        },
        preempt: match spec.preempt {
            true => Preempt::After(spec.preempt_delay.0),
            false => Preempt::Never,
        },
        authentication: match &spec.password {
            None => Authentication::None,
            Some(password) => Authentication::password(password),
        },
        checksum: match spec.checksum {
            file::Checksum::PseudoHeader => ChecksumForm::PseudoHeader,
            file::Checksum::Rfc => ChecksumForm::Rfc,
        },
        checksum_strict: spec.checksum_strict,
        peers_only: spec.peers_only,
        source: spec.source.map(|source| source.0),
        group: spec.group.as_deref().map(Arc::from),
        announce: announce(spec.announce, interval),
        probe: spec.probe,
        ..default
    }
}

/// The name of a router's lease: the same on all nodes, also while an edit of the addresses is on its way.
pub(crate) fn lease_name(router: &RouterSettings) -> Arc<str> {
    match &router.group {
        Some(group) => format!("group {group}").into(),
        None => {
            let family = if router.is_ipv6() { "IPv6" } else { "IPv4" };
            format!("VRID {} {family}", router.router_id).into()
        }
    }
}

fn notify(script: PathBuf) -> Notify {
    Notify {
        script,
        limit: DEFAULT_LIMIT,
    }
}

fn announce(spec: file::Announce, interval: Duration) -> Announce {
    let default = Announce::default();
    Announce {
        count: spec.count.unwrap_or(default.count),
        again_after: spec.again_after.map_or(default.again_after, |time| time.0),
        refresh: match spec.refresh {
            None => Some((3 * interval).max(SHORTEST_REFRESH)),
            Some(time) => time.0,
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
fn by_family(whole: RouterSettings) -> Vec<RouterSettings> {
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
