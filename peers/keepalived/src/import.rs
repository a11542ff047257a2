//! The tree in this proxy's terms.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use config_text::import_report::Remarks;
use config_text::toml::{duration, line, list, quoted};
use vrrp::settings::MAX_INTERVAL_V3;

use super::ImportReport;
use super::instance::{Announce, Family, Instance};
use super::reasons;
use super::tree::{Node, Tree};

/// The whole file.
pub(super) fn import(file: &Path, tree: &Tree) -> ImportReport {
    let mut importer = Importer {
        remarks: Remarks::default(),
        defaults: Defaults::default(),
        groups: HashMap::new(),
        weights: HashMap::new(),
    };
    for (at, text) in &tree.conditional {
        let reason = "it counts on some machines only; say which one this is";
        importer.remarks.not_carried(at, text, reason);
    }
    for node in &tree.nodes {
        importer.prepare(node);
    }
    let instances = tree
        .nodes
        .iter()
        .filter(|node| node.keyword() == "vrrp_instance");
    let mut body = "version = \"v1\"\n".to_owned();
    for node in instances {
        let instance = Instance::read(node, importer.defaults.interface, &mut importer.remarks);
        importer.vip(&instance, &mut body);
    }
    let name = file.display().to_string();
    let head = format!("# From {}.\n", name.replace(char::is_control, " "));
    importer.remarks.finish(&head, &body)
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
    remarks: Remarks,
    defaults: Defaults<'a>,
    /// The settings of each instance.
    groups: HashMap<&'a str, &'a str>,
    /// The settings of each script.
    weights: HashMap<&'a str, i16>,
}

impl<'a> Importer<'a> {
    /// Takes what instances refer to.
    fn prepare(&mut self, node: &'a Node) {
        match node.keyword() {
            "global_defs" => node.children().iter().for_each(|child| self.global(child)),
            "vrrp_sync_group" => self.sync_group(node),
            "vrrp_script" => {
                let weight = node
                    .children()
                    .iter()
                    .find(|child| child.keyword() == "weight");
                let weight = weight.and_then(|weight| weight.word(1).parse().ok());
                self.weights.insert(node.word(1), weight.unwrap_or(0));
                let reason = "no scripts are run: healthd probes, and what it finds decides";
                self.remarks
                    .not_carried(&node.position, &node.text(), reason);
            }
            "vrrp_instance" => {}
            keyword => {
                let reason = reasons::top(keyword);
                self.remarks
                    .not_carried(&node.position, &node.text(), reason);
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
                    self.remarks
                        .not_carried(&node.position, &node.text(), reason);
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
            } else {
                let what = format!("vrrp_sync_group {}: {}", node.word(1), child.text());
                let reason = "write it for each router of the group";
                self.remarks.not_carried(&child.position, &what, reason);
            }
        }
    }

    fn vip(&mut self, instance: &Instance<'a>, text: &mut String) {
        let what = format!("vrrp_instance {}", instance.name);
        let (Some(interface), Some(router_id)) = (instance.interface, instance.router_id) else {
            let reason = "it has no interface, or no virtual_router_id";
            self.remarks.not_carried(instance.at, &what, reason);
            return;
        };
        if instance.addresses.is_empty() {
            self.remarks.not_carried(
                instance.at,
                &what,
                "it has no address that can be carried over",
            );
            return;
        }
        line(
            text,
            format_args!("\n[[vip]]\nname = {}", quoted(&name(instance.name))),
        );
        line(
            text,
            format_args!("addresses = {}", list(&instance.addresses)),
        );
        line(text, format_args!("interface = {}", quoted(interface)));
        line(text, format_args!("router-id = {router_id}"));
        let version = self.version(instance);
        line(text, format_args!("version = {version}"));
        line(text, format_args!("priority = {}", self.priority(instance)));
        let interval = self.interval(instance, version);
        line(text, format_args!("interval = {}", duration(interval)));
        if let Some(source) = instance.source {
            line(text, format_args!("source = \"{source}\""));
        }
        if let Some(peers) = &instance.peers {
            line(text, format_args!("peers = {}", list(peers)));
        }
        if self.defaults.checks_peers && instance.peers.is_some() {
            line(text, format_args!("peers-only = true"));
        }
        self.password(instance, version, text);
        if version == 3 && (instance.has_rfc_checksum || self.defaults.has_rfc_checksum) {
            line(text, format_args!("checksum = \"rfc\""));
        }
        self.preempt(instance, text);
        let group = self.groups.get(instance.name).copied();
        let has_companions = !instance.companions.is_empty();
        let group = group.or_else(|| has_companions.then_some(instance.name));
        if let Some(group) = group {
            line(text, format_args!("group = {}", quoted(&name(group))));
        }
        if let Some(notify) = instance.notify {
            line(text, format_args!("notify = {}", quoted(notify)));
        }
        announce(instance.announce.or(self.defaults.announce), text);
        if let (true, Some(group)) = (has_companions, group) {
            let head = [
                format!("interface = {}", quoted(interface)),
                format!("router-id = {router_id}"),
                format!("interval = {}", duration(interval.min(MAX_INTERVAL_V3))),
                format!("group = {}", quoted(&name(group))),
            ];
            self.companion(instance, &head.join("\n"), text);
        }
        self.scripts(instance);
    }

    /// Addresses of the other family: in keepalived they come and go with the instance and are not
    /// advertised. A router of their own in one group with it does the same: it is active only
    /// where the instance is, whether it hears others or not.
    fn companion(&mut self, instance: &Instance<'a>, common: &str, text: &mut String) {
        let is_ipv6 = instance.family == Some(Family::V4);
        let family = if is_ipv6 { "ipv6" } else { "ipv4" };
        let own = format!("{}-{family}", name(instance.name));
        line(text, format_args!("\n[[vip]]\nname = {}", quoted(&own)));
        line(
            text,
            format_args!("addresses = {}\n{common}", list(&instance.companions)),
        );
        line(text, format_args!("version = 3"));
        line(text, format_args!("priority = {}", self.priority(instance)));
        if !is_ipv6 && (instance.has_rfc_checksum || self.defaults.has_rfc_checksum) {
            line(text, format_args!("checksum = \"rfc\""));
        }
        self.preempt(instance, text);
        announce(instance.announce.or(self.defaults.announce), text);
    }

    fn version(&mut self, instance: &Instance<'_>) -> u8 {
        let written = instance.version.or(self.defaults.version);
        let is_v6 = instance.family == Some(Family::V6);
        if is_v6 && instance.version == Some(2) {
            let how = "IPv6 is of version 3 only";
            self.remarks
                .differs(instance.at, &format!("version of {}", instance.name), how);
        }
        // keepalived says version 2 where nothing is written, and 3 where the addresses want it.
        if is_v6 { 3 } else { written.unwrap_or(2) }
    }

    /// In version 2 the field has whole seconds.
    fn interval(&mut self, instance: &Instance<'_>, version: u8) -> Duration {
        let interval = instance.interval.unwrap_or(Duration::from_secs(1));
        if version == 3 || interval.subsec_nanos() == 0 {
            return interval;
        }
        let whole = Duration::from_secs(interval.as_secs().max(1));
        let how = "version 2 has whole seconds";
        self.remarks.differs(
            instance.at,
            &format!("advert_int of {}", instance.name),
            how,
        );
        whole
    }

    /// The weight that scripts add while they succeed is unknown to a reader of the file.
    fn priority(&mut self, instance: &Instance<'_>) -> u8 {
        let base = instance.priority.unwrap_or(100);
        let weight = |script: &super::instance::Script<'_>| {
            script
                .weight
                .or_else(|| self.weights.get(script.name).copied())
                .unwrap_or(0)
        };
        let added: i32 = instance
            .scripts
            .iter()
            .map(|script| i32::from(weight(script)).max(0))
            .sum();
        if added > 0 {
            let sum = (i32::from(base) + added).min(254);
            let how = format!(
                "its scripts add {added} while they succeed: write priority = {sum} while other routers run keepalived"
            );
            self.remarks.differs(
                instance.at,
                &format!("priority {base} of {}", instance.name),
                how,
            );
        }
        base
    }

    fn password(&mut self, instance: &Instance<'_>, version: u8, text: &mut String) {
        let Some(password) = instance.password.filter(|password| !password.is_empty()) else {
            return;
        };
        if version == 3 {
            let what = format!("authentication of {}", instance.name);
            self.remarks.not_carried(
                instance.at,
                &what,
                "version 3 has none, in keepalived either",
            );
            return;
        }
        // Eight octets are sent; the others never counted.
        let mut end = password.len().min(8);
        while !password.is_char_boundary(end) {
            end -= 1;
        }
        let password = password.get(..end).unwrap_or_default();
        line(text, format_args!("password = {}", quoted(password)));
    }

    fn preempt(&mut self, instance: &Instance<'_>, text: &mut String) {
        if !instance.preempts && instance.starts_active {
            let what = format!("nopreempt of {}", instance.name);
            let reason = "keepalived ignores it where `state` is MASTER";
            self.remarks.not_carried(instance.at, &what, reason);
        } else if !instance.preempts {
            line(text, format_args!("preempt = false"));
            return;
        }
        if let Some(delay) = instance.preempt_delay.filter(|delay| !delay.is_zero()) {
            line(text, format_args!("preempt-delay = {}", duration(delay)));
        }
    }

    fn scripts(&mut self, instance: &Instance<'_>) {
        for script in &instance.scripts {
            let weight = script
                .weight
                .or_else(|| self.weights.get(script.name).copied());
            let what = format!("track_script {} of {}", script.name, instance.name);
            let reason = match weight {
                None => "there is no such script".to_owned(),
                Some(0) => {
                    "no scripts are run: `track = [\"frontend:…\"]` names what must be able to \
                    serve"
                        .to_owned()
                }
                Some(weight) => format!(
                    "no scripts are run: `[[vip.weigh]]` with `what = \"frontend:…\"` and `weight = {weight}` \
                     lets what is probed decide"
                ),
            };
            self.remarks.not_carried(script.at, &what, reason);
        }
    }
}

fn announce(announce: Announce, text: &mut String) {
    let mut keys = Vec::new();
    if let Some(count) = announce.count {
        keys.push(format!("count = {count}"));
    }
    if let Some(after) = announce.again_after {
        keys.push(format!("again-after = {}", duration(after)));
    }
    if let Some(refresh) = announce.refresh {
        keys.push(format!("refresh = {}", duration(refresh)));
    }
    if !keys.is_empty() {
        line(text, format_args!("announce = {{ {} }}", keys.join(", ")));
    }
}

/// A name as the configuration has them.
fn name(written: &str) -> String {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/".contains(letter);
    let fine = |letter| if is_fine(letter) { letter } else { '-' };
    written.chars().map(fine).collect()
}
