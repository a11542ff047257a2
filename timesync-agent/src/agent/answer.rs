//! Answers clients in the loop: all of them for who wants no threads for it, and in any case those whose requests come to a socket
//! of the loop, as those of a peer do.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use daemon::latest::{Latest, Reader};

use crate::server::AnswerData;
use crate::system::Events;
use crate::system::clock;
use crate::system::socket::{Listener, has_ipv6};
use ntp::responder::{Answer, LONGEST_ANSWER, Policy, Receipt, Request, Responder, Tables};
use ntp::wire::LONGEST_PACKET;
use random::Random;
use time_model::sample::Stamp;
use time_model::settings::ServerSettings;
use timekeeper::Reference;

use super::{AgentError, system};

/// Requests that are taken from one socket before others have their turn.
const AT_ONCE: usize = 64;
/// Answers whose stamp has not come yet. The kernel gives it within a millisecond, or never.
const UNSTAMPED: usize = 64;

/// Answers requests, whichever socket of the loop they come to.
#[derive(Debug)]
pub(super) struct Answerer {
    responder: Responder,
    policy: Reader<Policy>,
    tables: Arc<Tables>,
    /// The time for clients, of this thread and of others.
    reference: Reference,
    told: Arc<Latest<Reference>>,
}

/// The sockets that clients ask.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<AnsweringSocket>);

/// A socket, and answers from it whose stamp has not come yet, by their numbers.
#[derive(Debug)]
struct AnsweringSocket {
    listener: Listener,
    n_sent: u32,
    /// Answers that the kernel has not reported yet.
    n_unreported: u32,
    unstamped: VecDeque<(u32, Receipt)>,
}

impl Answerer {
    pub(super) fn new(supply: AnswerData, random: Random) -> Self {
        Self {
            responder: Responder::new(&supply.tables, random),
            policy: Reader::new(supply.policy),
            tables: supply.tables,
            reference: *supply.reference.current(),
            told: supply.reference,
        }
    }

    /// The time that clients get from now on.
    pub(super) fn tell(&mut self, reference: Reference) {
        self.reference = reference;
        self.told.publish(reference);
    }

    /// The clock was stepped.
    pub(super) fn forget_stamps(&self) {
        self.tables.forget_stamps();
    }

    /// Answers a datagram into `answer`. Returns how long that is, and whether it matters when exactly it leaves.
    pub(super) fn answer(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        arrived: &Stamp,
        answer: &mut [u8],
    ) -> Option<(usize, Option<Receipt>)> {
        self.policy.refresh();
        let request = Request {
            datagram,
            from,
            received: arrived.wall,
            stamp: arrived.by,
        };
        let (policy, reference) = (self.policy.get(), &self.reference);
        match self
            .responder
            .answer(&request, policy, reference, clock::wall, answer)
        {
            Answer::Reply { length, receipt } => Some((length, receipt)),
            Answer::Drop(_) => None,
        }
    }
}

impl Listeners {
    /// Takes up the sockets that were handed over, or opens those that the settings ask for.
    pub(super) fn open(
        settings: &ServerSettings,
        inherited: Vec<OwnedFd>,
    ) -> Result<Self, AgentError> {
        let listeners = match inherited.is_empty() {
            true => listen(settings).map_err(system("open a socket for clients"))?,
            false => inherited
                .into_iter()
                .map(Listener::adopt)
                .collect::<io::Result<_>>()
                .map_err(system("use a socket that was handed over"))?,
        };
        let sockets = listeners.into_iter().map(|listener| AnsweringSocket {
            listener,
            n_sent: 0,
            n_unreported: 0,
            unstamped: VecDeque::new(),
        });
        Ok(Self(sockets.collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The descriptors to wait for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.0.iter().map(|door| door.listener.descriptor())
    }

    /// A socket has requests or stamps.
    pub(super) fn handle(&mut self, place: usize, events: Events, answerer: &mut Answerer) {
        let Some(door) = self.0.get_mut(place) else {
            return;
        };
        if events.error {
            for (receipt, stamp) in door.take_reports() {
                answerer.tables.transmitted(receipt, stamp.wall, stamp.by);
            }
        }
        if !events.readable {
            return;
        }
        let mut buffer = [0; LONGEST_PACKET + 1];
        let mut answer = [0; LONGEST_ANSWER];
        for _ in 0..AT_ONCE {
            let Some(arrival) = door.listener.receive(&mut buffer) else {
                return;
            };
            let octets = buffer.get(..arrival.length).unwrap_or_default();
            let answered = answerer.answer(octets, arrival.from, &arrival.stamp, &mut answer);
            let Some((length, receipt)) = answered else {
                continue;
            };
            let octets = answer.get(..length).unwrap_or_default();
            if !door.listener.send(octets, &arrival) {
                continue;
            }
            let number = door.n_sent;
            door.n_sent = door.n_sent.wrapping_add(1);
            door.n_unreported = door.n_unreported.saturating_add(1);
            if let Some(receipt) = receipt {
                if door.unstamped.len() >= UNSTAMPED {
                    door.unstamped.pop_front();
                }
                door.unstamped.push_back((number, receipt));
            }
        }
    }
}

impl AnsweringSocket {
    /// Takes what the kernel reports of answers that left, after `poll` has reported that there is something: no more reports than
    /// answers left, and one at least, since `poll` reports the socket as long as there is one. Those that are late come with
    /// the next.
    fn take_reports(&mut self) -> Vec<(Receipt, Stamp)> {
        let mut taken = Vec::new();
        for _ in 0..std::mem::take(&mut self.n_unreported).max(1) {
            let Some((number, stamp)) = self.listener.sent() else {
                break;
            };
            let mut unstamped = self.unstamped.iter();
            let waiting = unstamped.position(|(other, _)| *other == number);
            if let Some((_, receipt)) = waiting.and_then(|at| self.unstamped.remove(at)) {
                taken.push((receipt, stamp));
            }
        }
        taken
    }
}

/// Opens the sockets that the settings ask for.
fn listen(settings: &ServerSettings) -> io::Result<Vec<Listener>> {
    let device = settings.bind_device.as_deref();
    let addresses = settings.addresses(has_ipv6()).into_iter();
    addresses.map(|at| Listener::open(at, device)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_had_is_an_error_beside_one_that_can() {
        let listen_at = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse().unwrap());
            let listeners = listen(&ServerSettings {
                port: 0,
                bind_addresses: addresses.collect(),
                ..ServerSettings::default()
            });
            listeners.map(|listeners| listeners.len())
        };
        assert_eq!(listen_at(&["127.0.0.1", "127.0.0.2"]).unwrap(), 2);
        // For documentation (RFC 5737), and so no machine's.
        for addresses in [["192.0.2.7", "::"], ["127.0.0.1", "192.0.2.7"]] {
            listen_at(&addresses).expect_err("nobody has it");
        }
        // With IPv6 or without.
        assert!((1..=2).contains(&listen_at(&["127.0.0.1", "::"]).unwrap()));
    }
}
