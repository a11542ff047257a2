//! The parts of one virtual router on this node: its interface, sockets, addresses, script and priority.
//!
//! Decides nothing about the election; [`machine`](vrrp::machine) does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tracing::{debug, warn};
use vrrp::announce::Hardware;
use vrrp::machine::{Audience, Demand, Eligibility, Lease, Machine, Start};
use vrrp::packet::{Advertisement, PRIORITY_OWNER};
use vrrp::priority::{Priority, PrioritySettings};
use vrrp::retry::Retry;
use vrrp::settings::{Peers, RouterSettings, VirtualAddress};

use super::duplicate::LinkLayer;
use super::netlink::{Link, Netlink, View, remove_now};
use super::notify::Notifier;
use super::router::{Observations, VirtualRouter};
use super::socket::{Path, Sockets};
use super::status::Tally;

/// How long news of an address that was added may be on the way before it counts as taken off.
const NEWS_LATE: Duration = Duration::from_secs(1);

/// How long the kernel keeps an address that needs a lease unless its time is renewed. A stalled process does not see
/// that its lease ends, and another node takes the address; so the kernel removes it. About the time for which a holder counts on a
/// lease that is not renewed; the kernel counts whole seconds.
const LIFETIME: Duration = Duration::from_secs(2);

/// When the time is renewed: a process that is late by more than the rest is about to lose its lease, too.
const RENEWAL: Duration = Duration::from_millis(500);

/// Everything of one router that is not its machine.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) router: VirtualRouter,
    pub(super) start: Start,
    pub(super) priority: Priority,
    /// The machine's last input.
    pub(super) standing: Option<Eligibility>,
    pub(super) sockets: Option<Sockets>,
    pub(super) link_layer: Option<LinkLayer>,
    /// The machine's last input of it.
    pub(super) lease: Lease,
    /// The machine's demand for it.
    pub(super) demand: Option<Demand>,
    pub(super) tally: Tally,
    /// The kernel, which may have refused an address.
    pub(super) kernel: Retry,
    /// Sockets that could not be opened.
    pub(super) opening: Retry,
    /// To be forgotten when its machine has ended.
    pub(super) is_leaving: bool,
    pub(super) has_ended: bool,
    index: Option<u32>,
    held: BTreeMap<IpAddr, Held>,
    /// Addresses that were asked for, whose answers are to be seen.
    asked: BTreeSet<IpAddr>,
    notifier: Option<Notifier>,
    sending: Sending,
}

/// The results of advertisements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// They are sent.
    Works,
    /// The kernel would not send the last one, which has been said.
    Fails,
    /// The kernel has refused the addresses of a claim, and the machine is about to learn of it.
    Withheld,
}

/// An address that this node is to hold.
#[derive(Clone, Copy, Debug)]
struct Held {
    entry: VirtualAddress,
    index: u32,
    since: Instant,
    /// When its time in the kernel is to be renewed; `None` for an address that stays for ever.
    renewal: Option<Instant>,
    /// It was seen on the link since it was put there.
    is_seen: bool,
    /// The node's own, which stays.
    is_own: bool,
}

impl Member {
    /// `seed` spreads what is tried again.
    pub(super) fn new(router: VirtualRouter, start: Start, seed: u64) -> Self {
        let notifier = router.notify.clone().map(Notifier::start);
        Self {
            priority: Priority::new(priority_of(&router)),
            start,
            standing: None,
            sockets: None,
            link_layer: None,
            lease: Lease::Unneeded,
            demand: None,
            tally: Tally::default(),
            kernel: Retry::new(seed),
            opening: Retry::new(!seed),
            is_leaving: false,
            has_ended: false,
            index: None,
            held: BTreeMap::new(),
            asked: BTreeSet::new(),
            notifier,
            sending: Sending::Works,
            router,
        }
    }

    pub(super) fn settings(&self) -> &RouterSettings {
        &self.router.settings
    }

    /// Takes up another configuration of the same router.
    pub(super) fn reconfigure(&mut self, router: VirtualRouter) {
        self.priority.reconfigure(priority_of(&router));
        self.standing = None;
        let notify = self.notifier.as_ref().map(Notifier::notify);
        if notify != router.notify.as_ref() {
            // The one before still says what it has been told.
            self.notifier = router.notify.clone().map(Notifier::start);
        }
        self.router = router;
    }

    /// Takes in what is known of what is tracked.
    pub(super) fn observe(&mut self, observations: &Observations, now: Instant) {
        for tracked in &self.router.priority.tracked {
            if let Some(good) = observations.get(&tracked.name) {
                self.priority.observe(&tracked.name, *good, now);
            }
        }
    }

    pub(super) fn tell_script(&self, machine: &Machine) {
        if let Some(notifier) = &self.notifier {
            let priority = machine.status().priority;
            notifier.tell(&self.router.settings.name, machine.state(), priority);
        }
    }

    pub(super) fn tally(&self) -> Tally {
        let notifier = self.notifier.as_ref();
        Tally {
            notify_failures: notifier.map_or(0, Notifier::n_failures),
            ..self.tally
        }
    }

    /// The script, to be waited for.
    pub(super) fn take_notifier(&mut self) -> Option<Notifier> {
        self.notifier.take()
    }

    /// Whether something may have come.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut result = Poll::Pending;
        if let Some(sockets) = &self.sockets
            && sockets.poll_readable(context).is_ready()
        {
            result = Poll::Ready(());
        }
        if let Some(link_layer) = &self.link_layer
            && link_layer.poll_readable(context).is_ready()
        {
            result = Poll::Ready(());
        }
        result
    }
}

fn priority_of(router: &VirtualRouter) -> PrioritySettings {
    PrioritySettings {
        base: router.settings.priority,
        ..router.priority.clone()
    }
}

//--- The link

/// The state of a link, for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    pub(super) is_up: bool,
    pub(super) source: Option<IpAddr>,
}

impl Member {
    /// Looks at the router's link, and opens its sockets there.
    pub(super) fn look_at_link(&mut self, view: &View, now: Instant) -> LinkState {
        let Some(link) = view.link(&self.router.settings.interface) else {
            // An interface that is made again has another number.
            self.sockets = None;
            self.link_layer = None;
            self.index = None;
            return LinkState {
                is_up: false,
                source: None,
            };
        };
        self.index = Some(link.index);
        self.look_at_link_layer(link.index, link.hardware);
        let source = self.source_on(link);
        let source = source.filter(|source| self.has_sockets(link.index, *source, now));
        if source.is_none() {
            self.sockets = None;
        }
        LinkState {
            is_up: link.is_up,
            source,
        }
    }

    /// Opens sockets, unless they are.
    fn has_sockets(&mut self, index: u32, source: IpAddr, now: Instant) -> bool {
        let path = Path::new(&self.router.settings, index, source);
        if self.sockets.as_ref().map(Sockets::path) == Some(&path) {
            return true;
        }
        // The old ones stay open until then: their datagrams are another sender's next message.
        match Sockets::open(path) {
            Ok(sockets) => {
                self.sockets = Some(sockets);
                self.opening.succeed();
                true
            }
            Err(error) => {
                let router = &self.router.settings.name;
                let again_in = self.opening.fail(now);
                warn!(
                    %router, %source, %error, ?again_in,
                    "Cannot open the sockets of a virtual router"
                );
                self.tally.send_errors += 1;
                false
            }
        }
    }

    fn look_at_link_layer(&mut self, index: u32, hardware: Option<Hardware>) {
        let ipv6 = self.settings().is_ipv6();
        let Some(hardware) = hardware else {
            self.link_layer = None;
            return;
        };
        let known = self.link_layer.as_ref();
        if known.is_some_and(|known| known.is_of(index, hardware, ipv6)) {
            return;
        }
        match LinkLayer::open(index, hardware, ipv6) {
            Ok(link_layer) => self.link_layer = Some(link_layer),
            Err(error) => {
                let router = &self.router.settings.name;
                warn!(%router, %error, "Addresses will not be announced");
                self.link_layer = None;
            }
        }
        self.watch_held();
    }

    /// The address that advertisements come from: the one configured, the one in use, or the first that
    /// is not a virtual router's.
    fn source_on(&self, link: &Link) -> Option<IpAddr> {
        let settings = self.settings();
        let is_owner = settings.priority == PRIORITY_OWNER;
        let is_virtual = |address: IpAddr| {
            let mut entries = settings.addresses.iter();
            !is_owner && entries.any(|entry| entry.address == address)
        };
        let usable = link.addresses.iter().filter(|known| {
            let address = known.entry.address;
            let like = address.is_ipv6() == settings.is_ipv6();
            like && known.is_usable && !known.is_ours && !is_virtual(address)
        });
        let usable: Vec<IpAddr> = usable.map(|known| known.entry.address).collect();
        if let Some(configured) = settings.source {
            return usable.contains(&configured).then_some(configured);
        }
        let suits = |address: &IpAddr| match address {
            IpAddr::V4(_) => true,
            // RFC 9568 §5.1.2.1; peers elsewhere are not reached from a link-local address.
            IpAddr::V6(address) => address.is_unicast_link_local() != has_far_peer(&settings.peers),
        };
        let used = self.sockets.as_ref().map(|sockets| sockets.path().source());
        let stays = used.filter(|used| usable.contains(used) && suits(used));
        stays.or_else(|| usable.into_iter().find(suits))
    }
}

/// Whether a peer of IPv6 is not on the link.
fn has_far_peer(peers: &Peers) -> bool {
    let is_far = |peer: &IpAddr| match peer {
        IpAddr::V4(_) => false,
        IpAddr::V6(peer) => !peer.is_unicast_link_local(),
    };
    matches!(peers, Peers::Unicast(peers) if peers.iter().any(is_far))
}

//--- Sending

impl Member {
    pub(super) fn send(&mut self, advertisement: &Advertisement, to: Audience) {
        // A node that holds the addresses would not yield.
        if self.sending == Sending::Withheld {
            return;
        }
        let Some(sockets) = &self.sockets else { return };
        let settings = &self.router.settings;
        let destinations = match to {
            Audience::All => settings.destinations(),
            Audience::One(one) => vec![one],
        };
        let source = sockets.path().source();
        let mut failure = None;
        for destination in destinations {
            let octets = advertisement.compose(
                settings.authentication,
                settings.checksum,
                source,
                destination,
            );
            if let Err(error) = sockets.send(&octets, destination) {
                self.tally.send_errors += 1;
                failure = Some((destination, error));
            }
        }
        // Said once: the next advertisement will fail for the same reason.
        if let Some((destination, error)) = &failure
            && self.sending == Sending::Works
        {
            warn!(router = %settings.name, %destination, %error, "Cannot send an advertisement");
        }
        self.sending = match failure {
            Some(_) => Sending::Fails,
            None => Sending::Works,
        };
    }

    pub(super) fn announce(&mut self, addresses: &[IpAddr], count: u8) {
        let Some(link_layer) = &self.link_layer else {
            return;
        };
        for _ in 0..count {
            for address in addresses.iter().filter(|one| self.held.contains_key(one)) {
                match link_layer.announce(*address) {
                    Ok(()) => self.tally.announcements += 1,
                    Err(error) => debug!(%address, %error, "Cannot announce an address"),
                }
            }
        }
    }
}

//--- Addresses

impl Member {
    /// Puts addresses on the link; `false` if the kernel would not, and its fault is then to be told.
    pub(super) async fn add(
        &mut self,
        entries: &[VirtualAddress],
        netlink: &Netlink,
        now: Instant,
    ) -> bool {
        let is_claim = self.held.is_empty();
        let Some(index) = self.index else {
            self.withhold(is_claim);
            self.kernel.fail(now);
            return false;
        };
        let is_owner = self.settings().priority == PRIORITY_OWNER;
        let lifetime = self.lifetime();
        let mut all = true;
        for entry in entries {
            let view = netlink.current();
            let link = view.links().find(|link| link.index == index);
            let mut known = link.into_iter().flat_map(|link| &link.addresses);
            let is_own = is_owner
                && known.any(|known| known.entry.address == entry.address && !known.is_ours);
            if !is_own && let Err(error) = netlink.add(index, *entry, lifetime).await {
                self.tally.address_errors += 1;
                let router = &self.router.settings.name;
                let error = daemon::exit::chain(&error);
                warn!(%router, address = %entry.address, error, "Cannot add an address");
                all = false;
                continue;
            }
            let held = Held {
                entry: *entry,
                index,
                since: now,
                renewal: lifetime.filter(|_| !is_own).map(|_| now + RENEWAL),
                is_seen: false,
                is_own,
            };
            self.held.insert(entry.address, held);
        }
        self.watch_held();
        netlink.until_working(entries).await;
        if all {
            self.kernel.succeed();
        } else {
            self.withhold(is_claim);
            let again_in = self.kernel.fail(now);
            let router = &self.router.settings.name;
            warn!(%router, ?again_in, "The kernel refuses addresses; it will be asked again");
        }
        all
    }

    /// The time that the kernel gives to the addresses.
    fn lifetime(&self) -> Option<Duration> {
        (self.lease != Lease::Unneeded).then_some(LIFETIME)
    }

    /// Whether the addresses belong to a lease that has ended. The machine, which is about to learn of it, gives them up.
    fn is_over(&self, now: Instant) -> bool {
        matches!(self.lease, Lease::Own { until, .. } if until <= now)
    }

    /// When the time of an address has to be renewed next.
    pub(super) fn renewal(&self) -> Option<Instant> {
        self.held.values().filter_map(|held| held.renewal).min()
    }

    /// Renews the time of the addresses, or gives them all time if no lease is needed any more.
    pub(super) async fn renew(&mut self, netlink: &Netlink, now: Instant) {
        let (lifetime, is_over) = (self.lifetime(), self.is_over(now));
        for held in self.held.values_mut().filter(|held| !held.is_own) {
            let is_due = match held.renewal {
                Some(renewal) => renewal <= now || lifetime.is_none(),
                None => lifetime.is_some(),
            };
            if !is_due {
                continue;
            }
            held.renewal = lifetime.map(|_| now + RENEWAL);
            if is_over {
                continue;
            }
            // An address that is gone is put back as one that another program has removed.
            if let Err(error) = netlink.add(held.index, held.entry, lifetime).await {
                self.tally.address_errors += 1;
                let router = &self.router.settings.name;
                let error = daemon::exit::chain(&error);
                warn!(%router, address = %held.entry.address, error, "The time of an address is not renewed");
            }
        }
    }

    /// The machine has learnt of a claim that was refused.
    pub(super) fn forget_refusal(&mut self) {
        if self.sending == Sending::Withheld {
            self.sending = Sending::Works;
        }
    }

    /// Nothing is said of a claim that was refused.
    fn withhold(&mut self, is_claim: bool) {
        if is_claim {
            self.sending = Sending::Withheld;
        }
    }

    /// Asks who has these, and watches for the answers.
    pub(super) fn probe(&mut self, addresses: &[IpAddr]) {
        self.asked = addresses.iter().copied().collect();
        self.watch_held();
        let Some(link_layer) = &self.link_layer else {
            return;
        };
        for address in addresses {
            if let Err(error) = link_layer.probe(*address) {
                debug!(%address, %error, "Cannot ask for an address");
            }
        }
    }

    /// The answers do not matter any more.
    pub(super) fn forget_answers(&mut self) {
        if !self.asked.is_empty() {
            self.asked.clear();
            self.watch_held();
        }
    }

    /// Takes addresses off the link, also those that a process before has left there.
    pub(super) async fn remove(&mut self, entries: &[VirtualAddress], netlink: &Netlink) {
        let is_owner = self.settings().priority == PRIORITY_OWNER;
        let view = netlink.current();
        let link = view.link(&self.router.settings.interface);
        for entry in entries {
            let held = self.held.remove(&entry.address);
            let mut there: Vec<(u32, VirtualAddress)> = Vec::new();
            if let Some(held) = held.filter(|held| !held.is_own) {
                there.push((held.index, held.entry));
            }
            if let Some(link) = link {
                // An owner's address that is not marked is the node's own.
                let left = link.addresses.iter().filter(|known| {
                    known.entry.address == entry.address && (known.is_ours || !is_owner)
                });
                there.extend(left.map(|known| (link.index, known.entry)));
            }
            there.sort();
            there.dedup();
            for (index, entry) in there {
                if let Err(error) = netlink.remove(index, entry).await {
                    self.tally.address_errors += 1;
                    let router = &self.router.settings.name;
                    let error = daemon::exit::chain(&error);
                    warn!(%router, address = %entry.address, error, "Cannot remove an address");
                }
            }
        }
        self.watch_held();
    }

    /// Puts back addresses that another program has taken off, and returns them; `None` if the kernel would
    /// not.
    pub(super) async fn put_back(
        &mut self,
        netlink: &Netlink,
        now: Instant,
    ) -> Option<Vec<IpAddr>> {
        let view = netlink.current();
        let Some(link) = view.link(&self.router.settings.interface) else {
            return Some(Vec::new());
        };
        // The kernel took it off in time.
        if self.is_over(now) {
            return Some(Vec::new());
        }
        let mut missing = Vec::new();
        for held in self.held.values_mut() {
            if link.has(held.entry.address) {
                held.is_seen = true;
            } else if held.is_seen || now >= held.since + NEWS_LATE {
                missing.push(held.entry);
            }
        }
        if missing.is_empty() || !link.is_up {
            return Some(Vec::new());
        }
        for entry in &missing {
            let router = &self.router.settings.name;
            let address = entry.address;
            warn!(%router, %address, "Another program removed an address that this node holds; it is put back");
        }
        self.tally.restored += u64::try_from(missing.len()).unwrap_or(u64::MAX);
        let is_back = self.add(&missing, netlink, now).await;
        is_back.then(|| missing.iter().map(|entry| entry.address).collect())
    }

    /// Leaves the addresses where they are, to the process that comes after.
    pub(super) fn leave_addresses(&mut self) {
        self.held.clear();
    }

    fn watch_held(&self) {
        let watched: BTreeSet<IpAddr> = self.held.keys().chain(&self.asked).copied().collect();
        let addresses: Vec<IpAddr> = watched.into_iter().collect();
        if let Some(link_layer) = &self.link_layer
            && let Err(error) = link_layer.watch(&addresses)
        {
            let router = &self.router.settings.name;
            warn!(%router, %error, "Duplicates of addresses will not be seen");
        }
    }
}

impl Drop for Member {
    /// An address outlives its holder on no path that ends in order: not on an error either.
    fn drop(&mut self) {
        let held = self.held.values().filter(|held| !held.is_own);
        let entries: Vec<_> = held.map(|held| (held.index, held.entry)).collect();
        if !entries.is_empty()
            && let Err(error) = remove_now(&entries)
        {
            let router = &self.router.settings.name;
            warn!(%router, %error, "Addresses may stay on the interface");
        }
    }
}
