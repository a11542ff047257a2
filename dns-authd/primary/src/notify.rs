//! Notifies secondaries of new versions (RFC 1996): follows the published zones, sends the messages that the core
//! finds due, and passes on the responses.
//!
//! ```text
//! Latest<Snapshot> ─► serials ─► dns_zone::notify::Notifier ─► UDP ─► secondaries
//!                                        ▲                      │
//!                                        └────── responses ◄────┘
//! ```

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use daemon::clock;
use daemon::latest::Latest;
use daemon::random;
use dns_answer::Snapshot;
use dns_answer::table::Table;
use dns_flatten::Form;
use dns_views::{ViewName, ZoneId};
use dns_wire::hash::Suffixes;
use dns_wire::header::{self, Flags};
use dns_wire::tsig::Responses;
use dns_wire::{Class, Key, Name, Opcode, Rcode, Type};
use dns_zone::Zone;
use dns_zone::notify::{Message, Notifier, Pace, Step};
use tokio::net::UdpSocket;
use tokio::sync::{Notify as Wake, watch};

use crate::now;

/// The most addresses of name servers of one zone that are notified.
const MAX_NAME_SERVERS: usize = 32;
/// A response to NOTIFY is short; a longer message is none.
const RESPONSE: usize = 1232;

/// The servers to notify, and the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// The servers for every zone.
    pub also: Vec<SocketAddr>,
    /// Further servers of single zones.
    pub zones: HashMap<ZoneId, Vec<SocketAddr>>,
    /// Whether the servers of NS records are notified.
    pub name_servers: bool,
    /// The key that signs.
    pub key: Option<Key>,
    /// The keys that sign for views which have their own.
    pub keys: HashMap<ViewName, Key>,
    /// How often messages are repeated.
    pub pace: Pace,
}

impl Notify {
    /// Whether there is no server to notify.
    fn is_off(&self) -> bool {
        self.also.is_empty() && self.zones.is_empty() && !self.name_servers
    }

    /// The key that signs messages about a zone.
    fn key(&self, zone: &ZoneId) -> Option<&Key> {
        let of_view = zone.view.as_ref().and_then(|view| self.keys.get(view));
        of_view.or(self.key.as_ref())
    }

    /// The servers to notify of a zone.
    fn servers(&self, id: &ZoneId, zone: &Zone, table: &Table) -> BTreeSet<SocketAddr> {
        let of_zone = self.zones.get(id);
        let listed = self.also.iter().chain(of_zone.into_iter().flatten());
        let mut servers: BTreeSet<SocketAddr> = listed.copied().collect();
        if self.name_servers {
            let addresses = name_servers(zone, table).into_iter();
            servers.extend(addresses.map(|address| SocketAddr::new(address, 53)));
        }
        servers
    }
}

/// The counts of messages and of their results.
#[derive(Debug, Default)]
pub struct Counts {
    /// Messages sent.
    pub sent: AtomicU64,
    /// Versions of which a server was notified.
    pub answered: AtomicU64,
    /// Versions of which a server was not notified: it did not respond, refused, or too much was under way.
    pub failed: AtomicU64,
}

/// Starts to follow the published zones. `own` are the addresses of this server, which is not notified.
///
/// # Errors
/// When there is no socket.
pub fn start(
    cell: &Arc<Latest<Snapshot>>,
    settings: watch::Receiver<Arc<Notify>>,
    own: Vec<SocketAddr>,
    counts: &Arc<Counts>,
) -> io::Result<()> {
    let wake = Arc::new(Wake::new());
    let waker = Arc::clone(&wake);
    cell.on_publish(move || waker.notify_one());
    let follower = Follower {
        cell: Arc::clone(cell),
        settings,
        own,
        counts: Arc::clone(counts),
        v4: socket(Ipv4Addr::UNSPECIFIED.into())?,
        // A node without IPv6 has no secondaries there.
        v6: socket(Ipv6Addr::UNSPECIFIED.into()).ok(),
        notifier: Notifier::default(),
        serials: HashMap::new(),
        responses: HashMap::new(),
    };
    tokio::spawn(follower.run(wake));
    Ok(())
}

fn socket(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(SocketAddr::new(address, 0))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

struct Follower {
    cell: Arc<Latest<Snapshot>>,
    settings: watch::Receiver<Arc<Notify>>,
    own: Vec<SocketAddr>,
    counts: Arc<Counts>,
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    notifier: Notifier,
    /// The serials of which servers were notified, or will be. Each zone has its own, and its flattened version another one.
    serials: HashMap<ZoneId, (u32, Option<u32>)>,
    /// The checks of the responses to signed messages.
    responses: HashMap<(ZoneId, SocketAddr), Responses>,
}

impl Follower {
    async fn run(mut self, wake: Arc<Wake>) {
        self.look();
        let (mut four, mut six) = ([0; RESPONSE], [0; RESPONSE]);
        loop {
            let due = self.notifier.due();
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let v6 = async {
                match &self.v6 {
                    Some(socket) => socket.recv_from(&mut six).await,
                    None => std::future::pending().await,
                }
            };
            let (received, is_v6) = tokio::select! {
                () = wake.notified() => {
                    self.look();
                    continue;
                }
                changed = self.settings.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.configure();
                    continue;
                }
                () = timer => {
                    self.step().await;
                    continue;
                }
                received = self.v4.recv_from(&mut four) => (received, false),
                received = v6 => (received, true),
            };
            let buffer = if is_v6 { &six } else { &four };
            match received {
                Ok((length, peer)) => self.take(buffer.get(..length).unwrap_or_default(), peer),
                // An ICMP message about a server that is not there; its timer still runs.
                Err(error) => tracing::debug!(%error, "NOTIFY socket has an error"),
            }
        }
    }

    /// Adopts other settings. Notifications of servers that are no longer listed end.
    fn configure(&mut self) {
        let snapshot = self.cell.current();
        let settings = Arc::clone(&self.settings.borrow_and_update());
        if settings.is_off() {
            // When it is on again, every zone is notified, as at a start.
            self.serials.clear();
        }
        self.notifier.retain(|id, server| {
            let served = snapshot.zone(id);
            let zone = served.and_then(|served| served.zone.as_ref());
            let table = snapshot.table_of(id);
            zone.is_some_and(|zone| settings.servers(id, zone, table).contains(&server))
        });
        self.forget_responses();
        self.look();
    }

    /// Compares the published serials with those before.
    fn look(&mut self) {
        let settings = Arc::clone(&self.settings.borrow());
        if settings.is_off() {
            return;
        }
        let snapshot = self.cell.current();
        let now = clock::now();
        let mut serials = HashMap::with_capacity(snapshot.table.zones().len());
        for served in snapshot.zones() {
            // A zone in parts is not transferred.
            let Some(zone) = served.zone.as_ref().filter(|_| served.parts.is_none()) else {
                continue;
            };
            let flat = served.live.flat().map(|flat| flat.serial());
            let new = (zone.soa().serial, flat);
            let id = served.id();
            let old = self.serials.get(&id).copied();
            serials.insert(id.clone(), new);
            if old == Some(new) {
                continue;
            }
            let forms = &snapshot.settings.forms;
            let key = settings.key(&id).map(Key::name);
            let is_live = !zone.live_sets().is_empty() || flat.is_some();
            for server in settings.servers(&id, zone, snapshot.table_of(&id)) {
                let form = match is_live {
                    true => forms.of(&served.apex, server.ip(), key),
                    false => Form::Raw,
                };
                let may_flatten = is_live && forms.may_flatten(&served.apex, server.ip());
                let Some(serial) = serial_for((form, may_flatten), old, new) else {
                    continue;
                };
                if self.own.contains(&server) {
                    continue;
                }
                if !self.notifier.add(&id, serial, server, now) {
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.serials = serials;
    }

    /// Carries out one step that is due.
    async fn step(&mut self) {
        let pace = self.settings.borrow().pace;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an identifier is sixteen of the random bits"
        )]
        let id = random::seed() as u16;
        match self.notifier.step(clock::now(), id, pace) {
            None => {}
            Some(Step::Send(message)) => self.send(&message, id).await,
            Some(Step::GiveUp(message)) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                self.forget_responses();
                let Message { zone, server, .. } = &message;
                let (serial, attempts) = (message.serial, message.attempt);
                tracing::warn!(%zone, serial, %server, attempts, "Secondary does not respond to NOTIFY");
            }
        }
    }

    async fn send(&mut self, message: &Message, id: u16) {
        let mut wire = request(&message.zone.apex, id);
        let key = self.settings.borrow().key(&message.zone).cloned();
        let place = (message.zone.clone(), message.server);
        match key.map(|key| key.sign(&mut wire, now())) {
            Some(Some(responses)) => drop(self.responses.insert(place, responses)),
            Some(None) | None => drop(self.responses.remove(&place)),
        }
        let socket = match message.server {
            SocketAddr::V4(_) => Some(&self.v4),
            SocketAddr::V6(_) => self.v6.as_ref(),
        };
        let Some(socket) = socket else {
            return;
        };
        let Message { zone, server, .. } = message;
        match socket.send_to(&wire, server).await {
            Ok(_) => {
                self.counts.sent.fetch_add(1, Ordering::Relaxed);
                let (serial, attempt) = (message.serial, message.attempt);
                tracing::debug!(%zone, serial, %server, attempt, "NOTIFY is sent");
            }
            Err(error) => tracing::debug!(%zone, %server, %error, "Cannot send NOTIFY"),
        }
    }

    /// Takes a response.
    fn take(&mut self, wire: &[u8], peer: SocketAddr) {
        let Some((id, flags, name)) = response(wire) else {
            return;
        };
        // The response names no view: it is to the message with its identifier.
        let snapshot = self.cell.current();
        let views = snapshot.views.views().map(|view| Some(view.name.clone()));
        let mut zones = std::iter::once(None).chain(views).map(|view| ZoneId {
            apex: name.clone(),
            view,
        });
        let Some(zone) = zones.find(|zone| self.notifier.awaits(zone, peer, id)) else {
            return;
        };
        let place = (zone, peer);
        if let Some(responses) = self.responses.get_mut(&place)
            && let Err(error) = responses.check(wire, now())
        {
            // An unsigned error of the secondary may be forged: the timer still runs.
            let (zone, server) = &place;
            tracing::warn!(%zone, %server, %error, "Response to NOTIFY is not signed as it should be");
            self.responses.remove(&place);
            return;
        }
        let Some(message) = self.notifier.respond(&place.0, peer, id) else {
            return;
        };
        self.responses.remove(&place);
        let Message { zone, server, .. } = &message;
        let (serial, rcode) = (message.serial, flags.rcode());
        if rcode == Rcode::NOERROR {
            self.counts.answered.fetch_add(1, Ordering::Relaxed);
            tracing::info!(%zone, serial, %server, "Secondary is notified");
        } else {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%zone, serial, %server, %rcode, "Secondary refuses NOTIFY");
        }
    }

    /// Forgets the checks of responses to notifications that have ended.
    fn forget_responses(&mut self) {
        let notifier = &self.notifier;
        self.responses
            .retain(|(zone, server), _| notifier.has(zone, *server));
    }
}

/// The serial of which to notify a server that gets a zone in this form, and may get it flattened with a key that NOTIFY does not
/// show. `old` and `new` are the serials of the zone and of its flattened version.
fn serial_for(
    (form, may_flatten): (Form, bool),
    old: Option<(u32, Option<u32>)>,
    new: (u32, Option<u32>),
) -> Option<u32> {
    let zone = Some(new.0).filter(|serial| old.is_none_or(|old| old.0 != *serial));
    let flat = new
        .1
        .filter(|serial| old.and_then(|old| old.1) != Some(*serial));
    match form {
        Form::Flatten => flat,
        Form::Raw | Form::Refuse if may_flatten => flat.or(zone),
        Form::Raw | Form::Refuse => zone,
    }
}

/// A message that notifies of a zone (RFC 1996 §3.6): AA, and the zone's SOA as the question.
fn request(zone: &Name, id: u16) -> Vec<u8> {
    let mut wire = vec![0; header::LENGTH];
    let flags = u16::from(Opcode::NOTIFY.0) << 11 | Flags::AA;
    header::set_word(&mut wire, 0, id);
    header::set_word(&mut wire, 2, flags);
    header::set_word(&mut wire, 4, 1);
    wire.extend_from_slice(zone.as_wire());
    wire.extend(Type::SOA.0.to_be_bytes());
    wire.extend(Class::IN.0.to_be_bytes());
    wire
}

/// The identifier, the flags and the zone of a response to NOTIFY; `None` if it is none.
fn response(wire: &[u8]) -> Option<(u16, Flags, Name)> {
    let flags = Flags::read(wire)?;
    if !flags.has(Flags::QR) || flags.opcode() != Opcode::NOTIFY {
        return None;
    }
    let [1, ..] = header::counts(wire)? else {
        return None;
    };
    let (zone, _) = Name::read(wire, header::LENGTH).ok()?;
    Some((header::id(wire)?, flags, zone))
}

/// The addresses of a zone's name servers that this server's zones have; the one that the SOA record names is left out:
/// it is the primary (RFC 1996 §2).
fn name_servers(zone: &Zone, table: &Table) -> BTreeSet<IpAddr> {
    let primary = zone.data(zone.apex(), Type::SOA);
    let primary = primary
        .first()
        .and_then(|rdata| Name::from_wire(rdata).ok());
    let primary = primary.map(|(name, _)| name);
    let mut addresses = BTreeSet::new();
    for rdata in zone.data(zone.apex(), Type::NS) {
        let Ok((name, _)) = Name::from_wire(rdata) else {
            continue;
        };
        if Some(&name) == primary.as_ref() {
            continue;
        }
        let mut read = Suffixes::default();
        read.read(table.seed(), name.as_wire());
        let Some(owner) = table
            .find(&read, Type::A)
            .and_then(|served| served.zone.as_ref())
        else {
            continue;
        };
        let four = owner.data(&name, Type::A).into_iter();
        let four = four.filter_map(|rdata| <[u8; 4]>::try_from(rdata).ok());
        let six = owner.data(&name, Type::AAAA).into_iter();
        let six = six.filter_map(|rdata| <[u8; 16]>::try_from(rdata).ok());
        addresses.extend(four.map(IpAddr::from).chain(six.map(IpAddr::from)));
    }
    addresses.into_iter().take(MAX_NAME_SERVERS).collect()
}

#[cfg(test)]
mod tests {
    use dns_answer::testing::{records, snapshot, zone_at};

    use super::*;

    #[test]
    fn the_servers_of_a_zone_are_those_listed_and_those_of_its_ns_records_but_the_primary() {
        let text = "example. 60 SOA ns1.example. h. 1 2 3 4 5\nexample. 60 NS ns1.example.\n\
            example. 60 NS ns2.example.\nexample. 60 NS ns.elsewhere.\nns1.example. 60 A 192.0.2.1\n\
            ns2.example. 60 A 192.0.2.2\nns2.example. 60 AAAA 2001:db8::2\n";
        let snapshot = snapshot("example.", &records(text));
        let zone = zone_at(&snapshot, 0);
        let id = ZoneId::from(zone.apex().clone());
        let of_zone: SocketAddr = "192.0.2.9:5353".parse().unwrap();
        let mut settings = Notify {
            also: vec!["192.0.2.8:53".parse().unwrap()],
            zones: HashMap::from([(id.clone(), vec![of_zone])]),
            ..Notify::default()
        };
        let servers = |settings: &Notify| {
            let servers = settings.servers(&id, &zone, &snapshot.table);
            servers.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(servers(&settings), ["192.0.2.8:53", "192.0.2.9:5353"]);
        settings.name_servers = true;
        assert_eq!(
            servers(&settings),
            [
                "192.0.2.2:53",
                "192.0.2.8:53",
                "192.0.2.9:5353",
                "[2001:db8::2]:53"
            ]
        );
        assert!(Notify::default().is_off());
    }

    #[test]
    fn a_server_is_notified_of_the_version_that_it_gets() {
        let (raw, flatten) = ((Form::Raw, false), (Form::Flatten, true));
        let with_key = (Form::Raw, true);
        for (form, old, new, expected) in [
            (raw, None, (1, None), Some(1)),
            (raw, Some((1, Some(4))), (1, Some(5)), None),
            (raw, Some((1, Some(4))), (2, Some(4)), Some(2)),
            (flatten, None, (1, None), None),
            (flatten, None, (1, Some(4)), Some(4)),
            (flatten, Some((1, Some(4))), (2, Some(4)), None),
            (flatten, Some((1, Some(4))), (1, Some(5)), Some(5)),
            (with_key, Some((1, Some(4))), (1, Some(5)), Some(5)),
            (with_key, Some((1, Some(4))), (2, Some(4)), Some(2)),
            (with_key, Some((1, Some(4))), (1, Some(4)), None),
        ] {
            assert_eq!(
                serial_for(form, old, new),
                expected,
                "{form:?} {old:?} {new:?}"
            );
        }
    }

    #[test]
    fn a_response_is_told_from_other_messages() {
        let zone: Name = "example.".parse().unwrap();
        let mut wire = request(&zone, 7);
        assert_eq!(response(&wire), None, "a request");
        wire[2] |= 0x80;
        let (id, flags, of) = response(&wire).unwrap();
        assert_eq!((id, flags.rcode(), of), (7, Rcode::NOERROR, zone));
        for cut in 0..wire.len() - 4 {
            assert_eq!(response(&wire[..cut]), None, "{cut}");
        }
        wire[2] = 0x80;
        assert_eq!(response(&wire), None, "a response to a query");
    }
}
