//! The tree as a configuration of lb-proxy.

use std::collections::HashMap;
use std::time::Duration;

use config::lb_proxy::{
    self as file, Backend, Checksum, Frontend, Interval, LbProxy, Vip, Weigh, WhenUnable,
};
use config::{Class, Draft, Every, HumanDuration, Ip, Notes, Whole};
use vrrp::settings::MAX_INTERVAL_V3;

use super::instance::{Announce, Family, Instance, Script, name, track_scripts};
use super::reasons;
use super::scripts::{Definition, Meaning};
use super::tree::{Node, Tree};
use super::virtual_server;

/// The whole file.
pub(super) fn import(tree: &Tree) -> Draft<LbProxy> {
    let mut importer = Importer {
        notes: Notes::default(),
        defaults: Defaults::default(),
        groups: HashMap::new(),
        group_scripts: HashMap::new(),
        scripts: HashMap::new(),
        frontends: Vec::new(),
        backends: Vec::new(),
    };
    for (at, text) in &tree.conditional {
        let reason = "it counts on some machines only; say which one this is";
        let keyword = text.split_whitespace().nth(1).unwrap_or_default();
        importer
            .notes
            .lost(reasons::class(keyword), at, text, reason);
    }
    for node in &tree.nodes {
        importer.prepare(node);
    }
    let instances = tree
        .nodes
        .iter()
        .filter(|node| node.keyword() == "vrrp_instance");
    let mut config = LbProxy::default();
    for node in instances {
        let instance = Instance::read(node, importer.defaults.interface, &mut importer.notes);
        config.vip.extend(importer.vips(&instance));
    }
    config.frontend = importer.frontends;
    config.backend = importer.backends;
    Draft {
        config,
        notes: importer.notes.into_notes(),
    }
}

/// The settings of `global_defs` for all routers.
#[derive(Debug, Default)]
struct Defaults<'a> {
    version: Option<u8>,
    interface: Option<&'a str>,
    announce: Announce,
    checks_peers: bool,
    has_rfc_checksum: bool,
}

struct Importer<'a> {
    notes: Notes,
    defaults: Defaults<'a>,
    /// The settings of each instance.
    groups: HashMap<&'a str, &'a str>,
    /// The scripts that each group tracks.
    group_scripts: HashMap<&'a str, Vec<Script<'a>>>,
    /// The scripts, by name.
    scripts: HashMap<&'a str, Definition<'a>>,
    /// Those of virtual servers.
    frontends: Vec<Frontend>,
    /// The backends of virtual servers, and those that stand for scripts.
    backends: Vec<Backend>,
}

impl<'a> Importer<'a> {
    /// Takes what instances refer to.
    fn prepare(&mut self, node: &'a Node) {
        match node.keyword() {
            "global_defs" => node.children().iter().for_each(|child| self.global(child)),
            "vrrp_sync_group" => self.sync_group(node),
            "vrrp_script" => {
                let definition = Definition::read(node);
                definition.note(node, &mut self.notes);
                self.scripts.insert(node.word(1), definition);
            }
            "vrrp_instance" => {}
            "virtual_server" => {
                let made = virtual_server::service(node, &mut self.notes);
                let is_new = |name: &str| self.backends.iter().all(|known| known.name != name);
                if let Some((frontend, backend)) = made.filter(|(_, it)| is_new(&it.name)) {
                    self.frontends.push(frontend);
                    self.backends.push(backend);
                }
            }
            keyword => {
                let reason = reasons::top(keyword);
                self.notes
                    .lost(Class::Behaviour, &node.position, &node.text(), reason);
            }
        }
    }

    fn global(&mut self, node: &'a Node) {
        let value = node.word(1);
        match node.keyword() {
            "vrrp_version" => self.defaults.version = value.parse().ok(),
            "default_interface" => self.defaults.interface = Some(value),
            "vrrp_check_unicast_src" => self.defaults.checks_peers = true,
            "v3_checksum_as_v2" => self.defaults.has_rfc_checksum = true,
            keyword => {
                if !self.defaults.announce.keyword(keyword, value)
                    && let Some(reason) = reasons::global(keyword)
                {
                    self.notes.lost(
                        reasons::class(keyword),
                        &node.position,
                        &node.text(),
                        reason,
                    );
                }
            }
        }
    }

    fn sync_group(&mut self, node: &'a Node) {
        for child in node.children() {
            if child.keyword() == "group" {
                for member in child.children() {
                    self.groups.insert(member.keyword(), node.word(1));
                }
            } else if child.keyword() == "track_script" {
                let scripts = track_scripts(child, &mut self.notes);
                let of_group = self.group_scripts.entry(node.word(1)).or_default();
                of_group.extend(scripts);
            } else {
                let what = format!("vrrp_sync_group {}: {}", node.word(1), child.text());
                let reason = "write it for each router of the group";
                self.notes
                    .lost(Class::Behaviour, &child.position, &what, reason);
            }
        }
    }

    /// The virtual IP of an instance, and one for its addresses of the other family.
    fn vips(&mut self, instance: &Instance<'a>) -> Vec<Vip> {
        let what = format!("vrrp_instance {}", instance.name);
        let mut lost = |reason| {
            self.notes
                .lost(Class::Behaviour, instance.at, &what, reason);
        };
        let (Some(interface), Some(router_id)) = (instance.interface, instance.router_id) else {
            lost("it has no interface, or no virtual_router_id");
            return Vec::new();
        };
        if instance.addresses.is_empty() {
            lost("it has no address that can be carried over");
            return Vec::new();
        }
        let version = self.version(instance);
        let tracking = self.tracking(instance);
        let interval = self.interval(instance, version);
        let has_rfc_checksum = instance.has_rfc_checksum || self.defaults.has_rfc_checksum;
        let has_companions = !instance.companions.is_empty();
        let group = self.groups.get(instance.name).copied();
        let group = group.or_else(|| has_companions.then_some(instance.name));
        let (preempt, preempt_delay) = self.preempt(instance);
        let own_name = name(instance.name);
        let common = Vip {
            router_id: Some(Whole::clamped(router_id.into())),
            priority: Some(Whole::clamped(tracking.priority.into())),
            preempt,
            preempt_delay,
            group: group.map(name),
            announce: announce(instance.announce.or(self.defaults.announce)),
            ..Vip::new(&own_name, Vec::new(), interface)
        };
        let peers = instance.peers.as_ref();
        let vip = Vip {
            addresses: instance.addresses.clone(),
            version: Some(Whole::clamped(version.into())),
            interval: Some(Interval::clamped(interval)),
            source: instance.source.map(Ip),
            peers: peers.map(|peers| peers.iter().copied().map(Ip).collect()),
            peers_only: self.defaults.checks_peers && peers.is_some(),
            password: self.password(instance, version),
            checksum: checksum(version == 3 && has_rfc_checksum),
            notify: instance.notify.map(Into::into),
            when_unable: match tracking.required.is_empty() {
                true => WhenUnable::default(),
                // As in its state FAULT.
                false => WhenUnable::Release,
            },
            track: (!tracking.required.is_empty()).then_some(tracking.required),
            weigh: tracking.weighed,
            ..common.clone()
        };
        let is_ipv6 = instance.family == Some(Family::V4);
        let family = if is_ipv6 { "ipv6" } else { "ipv4" };
        // Addresses of the other family: in keepalived they come and go with the instance and are not
        // advertised. A router of their own in one group with it does the same: it is active only
        // where the instance is, whether it hears others or not.
        let companion = has_companions.then(|| Vip {
            name: format!("{own_name}-{family}"),
            addresses: instance.companions.clone(),
            version: Some(Whole::clamped(3)),
            interval: Some(Interval::clamped(interval.min(MAX_INTERVAL_V3))),
            checksum: checksum(!is_ipv6 && has_rfc_checksum),
            ..common
        });
        [vip].into_iter().chain(companion).collect()
    }

    fn version(&mut self, instance: &Instance<'_>) -> u8 {
        let written = instance.version.or(self.defaults.version);
        let is_v6 = instance.family == Some(Family::V6);
        if is_v6 && instance.version == Some(2) {
            let how = "IPv6 is of version 3 only";
            self.notes.differs(
                Class::Behaviour,
                instance.at,
                &format!("version of {}", instance.name),
                how,
            );
        }
        // keepalived says version 2 where nothing is written, and 3 where the addresses want it.
        if is_v6 { 3 } else { written.unwrap_or(2) }
    }

    /// In version 2 the field has whole seconds.
    fn interval(&mut self, instance: &Instance<'_>, version: u8) -> Duration {
        let interval = instance.interval.unwrap_or(Duration::from_secs(1));
        if *Interval::clamped(interval) != interval {
            let what = format!("advert_int of {}", instance.name);
            let how = "an interval is 10ms to 255s";
            self.notes
                .differs(Class::Behaviour, instance.at, &what, how);
        }
        if version == 3 || interval.subsec_nanos() == 0 {
            return interval;
        }
        let whole = Duration::from_secs(interval.as_secs().max(1));
        let how = "version 2 has whole seconds";
        self.notes.differs(
            Class::Behaviour,
            instance.at,
            &format!("advert_int of {}", instance.name),
            how,
        );
        whole
    }

    /// The priority, and what decides about it, by the scripts of an instance and of its group.
    fn tracking(&mut self, instance: &Instance<'a>) -> Tracking {
        let base = instance.priority.unwrap_or(100);
        let group = self.groups.get(instance.name).copied();
        let of_group = group.and_then(|group| self.group_scripts.get(group));
        let of_group = of_group.cloned().unwrap_or_default();
        let mut tracking = Tracking {
            priority: base,
            required: Vec::new(),
            weighed: Vec::new(),
        };
        // Weights that scripts add while they succeed, which is unknown to a reader of the file.
        let mut unknown = 0;
        for script in instance.scripts.iter().chain(&of_group) {
            unknown += self.track(script, instance.name, &mut tracking);
        }
        if unknown > 0 {
            let sum = (i32::from(tracking.priority) + unknown).min(254);
            let how = format!(
                "its scripts add {unknown} while they succeed: write priority = {sum} while other routers run keepalived"
            );
            let what = format!("priority {base} of {}", instance.name);
            self.notes
                .differs(Class::Behaviour, instance.at, &what, how);
        }
        tracking
    }

    /// Takes up a script that is tracked; returns the weight that it might add.
    fn track(&mut self, script: &Script<'a>, instance: &str, tracking: &mut Tracking) -> i32 {
        let what = format!("track_script {} of {instance}", script.name);
        let mut lost = |reason: &str| {
            self.notes.lost(Class::Behaviour, script.at, &what, reason);
        };
        let Some(definition) = self.scripts.get(script.name) else {
            lost("there is no such script");
            return 0;
        };
        let weight = script.weight.unwrap_or(definition.weight);
        match definition.meaning(script.name, weight) {
            Meaning::Nothing => {}
            Meaning::Added(weight) => {
                let sum = tracking.priority.saturating_add(weight).min(254);
                // An owner of the address has 255, whatever scripts say.
                tracking.priority = tracking.priority.max(sum);
            }
            Meaning::Unknown(weight @ 1..) => {
                lost("nothing here tells what it asks: its weight is not added");
                return weight.into();
            }
            Meaning::Unknown(weight) => {
                lost("nothing here tells what it asks: its weight counts as if it failed");
                let lower = i32::from(tracking.priority) + i32::from(weight);
                tracking.priority = u8::try_from(lower.max(1)).unwrap_or(1);
            }
            Meaning::Required(backend) => {
                if backend.server.is_empty() {
                    let name = &backend.name;
                    lost(&format!(
                        "nothing here tells what it asks: this node does not hold the address until backend \
                         `{name}` has a server that can be probed in its place, or is no longer in `track`"
                    ));
                }
                tracking.required.push(self.backend(*backend));
            }
            Meaning::Weighed(backend, weight) => tracking.weighed.push(Weigh {
                what: self.backend(*backend),
                weight: Whole::clamped(weight.into()),
                rise: None,
                fall: None,
            }),
        }
        0
    }

    /// Adds the backend that stands for a script, once; returns what virtual IPs track.
    fn backend(&mut self, backend: Backend) -> String {
        let what = format!("backend:{}", backend.name);
        if !self.backends.iter().any(|known| known.name == backend.name) {
            self.backends.push(backend);
        }
        what
    }

    fn password(&mut self, instance: &Instance<'_>, version: u8) -> Option<String> {
        let password = instance.password.filter(|password| !password.is_empty())?;
        if version == 3 {
            let what = format!("authentication of {}", instance.name);
            let reason = "version 3 has none, in keepalived either";
            self.notes.lost(Class::Cosmetic, instance.at, &what, reason);
            return None;
        }
        // Eight octets are sent; the others never counted.
        let mut end = password.len().min(8);
        while !password.is_char_boundary(end) {
            end -= 1;
        }
        password.get(..end).map(str::to_owned)
    }

    /// Whether the router preempts, and after which delay.
    fn preempt(&mut self, instance: &Instance<'_>) -> (bool, HumanDuration) {
        if !instance.preempts && instance.starts_active {
            let what = format!("nopreempt of {}", instance.name);
            let reason = "keepalived ignores it where `state` is MASTER";
            self.notes.lost(Class::Cosmetic, instance.at, &what, reason);
        } else if !instance.preempts {
            return (false, HumanDuration::default());
        }
        let delay = instance.preempt_delay.unwrap_or_default();
        (true, HumanDuration(delay))
    }
}

/// The priority of a virtual IP, and what decides about it.
struct Tracking {
    priority: u8,
    /// Backends that must be able to serve.
    required: Vec<String>,
    weighed: Vec<Weigh>,
}

fn announce(announce: Announce) -> file::Announce {
    let every = |time: Duration| Every((!time.is_zero()).then_some(time));
    file::Announce {
        count: announce.count,
        again_after: announce.again_after.map(every),
        refresh: announce.refresh.map(every),
    }
}

fn checksum(is_rfc: bool) -> Checksum {
    match is_rfc {
        true => Checksum::Rfc,
        false => Checksum::PseudoHeader,
    }
}
