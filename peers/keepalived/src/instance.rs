//! `vrrp_instance`: one virtual router, read keyword by keyword.

use std::net::IpAddr;
use std::time::Duration;

use config::lb_proxy::VirtualAddress;
use config::{Class, Notes};
use config_text::Position;
use ipnet::IpNet;

use super::reasons;
use super::tree::Node;

/// One virtual router.
#[derive(Clone, Debug)]
pub(super) struct Instance<'a> {
    pub(super) name: &'a str,
    pub(super) at: &'a Position,
    pub(super) interface: Option<&'a str>,
    pub(super) router_id: Option<u8>,
    pub(super) version: Option<u8>,
    pub(super) priority: Option<u8>,
    pub(super) interval: Option<Duration>,
    pub(super) starts_active: bool,
    pub(super) addresses: Vec<VirtualAddress>,
    /// Addresses of the other family: they come and go with the instance, and it does not advertise them.
    pub(super) companions: Vec<VirtualAddress>,
    /// That of the first address.
    pub(super) family: Option<Family>,
    pub(super) source: Option<IpAddr>,
    pub(super) peers: Option<Vec<IpAddr>>,
    pub(super) password: Option<&'a str>,
    pub(super) preempts: bool,
    pub(super) preempt_delay: Option<Duration>,
    pub(super) announce: Announce,
    pub(super) notify: Option<&'a str>,
    pub(super) scripts: Vec<Script<'a>>,
    pub(super) has_rfc_checksum: bool,
    /// The weight of a router of its own for an address of the other family.
    companion_class: Class,
}

/// Why an address is not carried over.
const OTHER_FAMILY: &str = "it is of another family than the first virtual address";

/// The family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// `garp_master_…`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Announce {
    pub(super) count: Option<u8>,
    /// Zero stands for not at all.
    pub(super) again_after: Option<Duration>,
    pub(super) refresh: Option<Duration>,
}

/// A script that is tracked.
#[derive(Clone, Debug)]
pub(super) struct Script<'a> {
    pub(super) name: &'a str,
    pub(super) at: &'a Position,
    /// As the instance has it, before what the script says itself.
    pub(super) weight: Option<i16>,
}

impl<'a> Instance<'a> {
    /// An instance; on `default` where it names no interface.
    pub(super) fn read(node: &'a Node, default: Option<&'a str>, notes: &mut Notes) -> Self {
        let named = node
            .children()
            .iter()
            .rfind(|child| child.keyword() == "interface");
        let lists = node.children().iter();
        let mut addresses = lists
            .filter(|child| child.keyword() == "virtual_ipaddress")
            .flat_map(Node::children);
        let first = addresses.find_map(|child| virtual_address(child.keyword()));
        let mut instance = Self {
            name: node.word(1),
            at: &node.position,
            interface: named.map(|named| named.word(1)).or(default),
            router_id: None,
            version: None,
            priority: None,
            interval: None,
            starts_active: false,
            addresses: Vec::new(),
            companions: Vec::new(),
            family: first.map(|(_, family)| family),
            source: None,
            peers: None,
            password: None,
            preempts: true,
            preempt_delay: None,
            announce: Announce::default(),
            notify: None,
            scripts: Vec::new(),
            has_rfc_checksum: false,
            companion_class: companion_class(node),
        };
        for child in node.children() {
            instance.keyword(child, notes);
        }
        instance
    }

    fn keyword(&mut self, node: &'a Node, notes: &mut Notes) {
        let at = &node.position;
        let value = node.word(1);
        let class = reasons::class(node.keyword());
        let mut wrong = |reason: &str| notes.lost(class, at, &node.text(), reason);
        match node.keyword() {
            "state" => self.starts_active = value == "MASTER",
            // It was read before everything else, as was the family.
            "interface" => {}
            "virtual_router_id" => match value.parse() {
                Ok(id @ 1..) => self.router_id = Some(id),
                _ => wrong("it is not from 1 to 255"),
            },
            "version" => match value {
                "2" => self.version = Some(2),
                "3" => self.version = Some(3),
                _ => wrong("VRRP has versions 2 and 3"),
            },
            "priority" => match value.parse() {
                Ok(priority @ 1..) => self.priority = Some(priority),
                _ => wrong("it is not from 1 to 255"),
            },
            "advert_int" => match seconds(value).filter(|interval| !interval.is_zero()) {
                Some(interval) => self.interval = Some(interval),
                None => wrong("it is no time"),
            },
            "nopreempt" => self.preempts = false,
            "preempt_delay" => match seconds(value) {
                Some(delay) => self.preempt_delay = Some(delay),
                None => wrong("it is no time"),
            },
            "unicast_src_ip" | "mcast_src_ip" => match value.parse() {
                Ok(source) if self.is_of_other_family(source) => wrong(OTHER_FAMILY),
                Ok(source) => self.source = Some(source),
                Err(_) => wrong("it is no address"),
            },
            "unicast_peer" => self.unicast_peers(node, notes),
            "authentication" => self.authentication(node, notes),
            "virtual_ipaddress" => self.virtual_addresses(node, notes),
            "virtual_ipaddress_excluded" => self.excluded(node, notes),
            "track_script" => self.scripts.extend(track_scripts(node, notes)),
            "notify" if node.words.len() > 2 || value.contains(' ') => {
                wrong("`notify` is the path of a program, which gets arguments of its own");
            }
            "notify" => self.notify = Some(value),
            "v3_checksum_as_v2" => self.has_rfc_checksum = true,
            keyword => {
                if !self.announce.keyword(keyword, value)
                    && let Some(reason) = reasons::instance(keyword)
                {
                    wrong(reason);
                }
            }
        }
    }

    fn unicast_peers(&mut self, node: &'a Node, notes: &mut Notes) {
        self.peers.get_or_insert_default();
        for child in node.children() {
            match child.keyword().parse::<IpAddr>() {
                // OpenShift has one of these where there is no third router.
                Ok(peer) if peer.is_unspecified() => {}
                Ok(peer) if self.is_of_other_family(peer) => {
                    let what = format!("unicast_peer {}", child.text());
                    notes.lost(Class::Behaviour, &child.position, &what, OTHER_FAMILY);
                }
                Ok(peer) => {
                    self.peers.get_or_insert_default().push(peer);
                    if child.words.len() > 1 {
                        let reason = "advertisements come from one hop away, or from a peer";
                        // `min_ttl` refused advertisements from further away.
                        notes.lost(Class::Security, &child.position, &child.text(), reason);
                    }
                }
                Err(_) => {
                    let what = format!("unicast_peer {}", child.text());
                    notes.lost(Class::Behaviour, &child.position, &what, "it is no address");
                }
            }
        }
    }

    fn authentication(&mut self, node: &'a Node, notes: &mut Notes) {
        let find = |keyword: &str| {
            node.children()
                .iter()
                .find(|child| child.keyword() == keyword)
        };
        match find("auth_type").map_or("PASS", |kind| kind.word(1)) {
            "PASS" => self.password = find("auth_pass").map(|password| password.word(1)),
            kind => {
                let what = format!("auth_type {kind}");
                notes.lost(
                    Class::Security,
                    &node.position,
                    &what,
                    "the only authentication is a password",
                );
            }
        }
    }

    fn virtual_addresses(&mut self, node: &'a Node, notes: &mut Notes) {
        for child in node.children() {
            let Some((address, family)) = virtual_address(child.keyword()) else {
                let what = format!("virtual_ipaddress {}", child.text());
                notes.lost(Class::Behaviour, &child.position, &what, "it is no address");
                continue;
            };
            if self.family.is_some_and(|known| known != family) {
                let what = format!("virtual_ipaddress {}", child.text());
                self.companion(child, &what, address, notes);
            } else if self.takes_options(child, notes) {
                self.addresses.push(address);
            }
        }
    }

    /// The options behind an address; false when it must not be had without.
    fn takes_options(&self, node: &Node, notes: &mut Notes) -> bool {
        let mut words = node.words.iter().skip(1);
        while let Some(word) = words.next() {
            let has_value = matches!(
                word.as_str(),
                "brd" | "broadcast" | "dev" | "label" | "scope" | "track_group" | "preferred_lft"
            );
            let value = if has_value {
                words.next().map_or("", String::as_str)
            } else {
                ""
            };
            let what = format!("virtual_ipaddress {} {word} {value}", node.keyword());
            let what = what.trim_end();
            match word.as_str() {
                "dev" if self.interface == Some(value) => {}
                "dev" => {
                    let reason = "addresses are on the interface that is advertised on";
                    notes.lost(Class::Behaviour, &node.position, what, reason);
                    return false;
                }
                "scope" if value == "global" => {}
                "nodad" | "-nodad" => {}
                "label" => notes.lost(
                    Class::Cosmetic,
                    &node.position,
                    what,
                    "addresses have no labels",
                ),
                _ => notes.lost(
                    Class::Behaviour,
                    &node.position,
                    what,
                    "addresses have no such options",
                ),
            }
        }
        true
    }

    fn excluded(&mut self, node: &'a Node, notes: &mut Notes) {
        for child in node.children() {
            let what = format!("virtual_ipaddress_excluded {}", child.text());
            match virtual_address(child.keyword()) {
                // keepalived wants addresses of another family here.
                Some((address, family)) if self.family.is_some_and(|own| own != family) => {
                    self.companion(child, &what, address, notes);
                }
                _ => {
                    let reason = "every address is advertised; write it into `addresses` once no peer \
                        is a keepalived that compares them";
                    notes.lost(Class::Behaviour, &child.position, &what, reason);
                }
            }
        }
    }

    /// An address of the other family.
    fn companion(&mut self, node: &Node, what: &str, address: VirtualAddress, notes: &mut Notes) {
        if !self.takes_options(node, notes) {
            return;
        }
        let how = "a [[vip]] of its own has it, which moves with this one and advertises by multicast; its \
            `peers`, if they are wanted, are the other nodes' addresses of its family";
        notes.differs(self.companion_class, &node.position, what, how);
        self.companions.push(address);
    }

    fn is_of_other_family(&self, address: IpAddr) -> bool {
        let family = match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        };
        self.family.is_some_and(|own| own != family)
    }
}

/// A name as the configuration has them.
pub(super) fn name(written: &str) -> String {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/".contains(letter);
    let fine = |letter| if is_fine(letter) { letter } else { '-' };
    written.chars().map(fine).collect()
}

/// The scripts of a `track_script` block, of an instance or of a group.
pub(super) fn track_scripts<'a>(node: &'a Node, notes: &mut Notes) -> Vec<Script<'a>> {
    let script = |child: &'a Node| {
        let weight = match (child.word(1), child.word(2)) {
            ("weight", weight) if child.words.len() == 3 => weight.parse().ok(),
            ("", _) => None,
            _ => {
                notes.lost(
                    Class::Behaviour,
                    &child.position,
                    &child.text(),
                    "unknown here",
                );
                // `reverse` turns the sign of the weight round.
                child
                    .word(2)
                    .parse()
                    .ok()
                    .filter(|_| child.word(3) == "noreverse")
            }
        };
        Script {
            name: child.keyword(),
            at: &child.position,
            weight,
        }
    };
    node.children().iter().map(script).collect()
}

impl Announce {
    /// Takes a keyword of an instance, or, with `vrrp_` before it, of the whole; false when it is none of
    /// these.
    pub(super) fn keyword(&mut self, keyword: &str, value: &str) -> bool {
        let time = || seconds(value);
        match keyword.strip_prefix("vrrp_").unwrap_or(keyword) {
            "garp_master_repeat" => self.count = value.parse().ok(),
            "garp_master_delay" => self.again_after = time(),
            "garp_master_refresh" => self.refresh = time().filter(|refresh| !refresh.is_zero()),
            "min_garp" => {
                self.count = Some(1);
                self.again_after = Some(Duration::ZERO);
            }
            _ => return false,
        }
        true
    }

    /// Options that are not set here are as in `other`.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            count: self.count.or(other.count),
            again_after: self.again_after.or(other.again_after),
            refresh: self.refresh.or(other.refresh),
        }
    }
}

/// Any host of the link can send a router of its own an advertisement, and it moves the instance too: that matters
/// where the instance takes those of some senders only, with its password or of its peers.
fn companion_class(node: &Node) -> Class {
    let is_guard = |line: &Node| matches!(line.keyword(), "authentication" | "unicast_peer");
    match node.children().iter().any(is_guard) {
        true => Class::Security,
        false => Class::Behaviour,
    }
}

/// Seconds with a fraction of at most a microsecond.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if text == "." || text.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole: u32 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let micros: u64 = micros.parse().ok()?;
    Some(Duration::from_secs(whole.into()) + Duration::from_micros(micros))
}

/// An address with the length of its prefix: that of one address if none is written.
fn virtual_address(text: &str) -> Option<(VirtualAddress, Family)> {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address.parse().ok()?;
    let (family, longest) = match address {
        IpAddr::V4(_) => (Family::V4, 32),
        IpAddr::V6(_) => (Family::V6, 128),
    };
    let length = match length {
        "" if text.contains('/') => return None,
        "" => longest,
        length => length.parse().ok().filter(|length| *length <= longest)?,
    };
    let network = IpNet::new(address, length).ok()?;
    Some((VirtualAddress(network), family))
}
