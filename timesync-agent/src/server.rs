//! Serves the time with threads of its own: the shared UDP engine in front of a [`Responder`].
//!
//! Each thread has a socket, a responder and a view of policy and reference that it renews once in a batch. The kernel
//! timestamps requests. The departure of a response is predicted, since those before it in the batch go first ([`transmit_times`]);
//! for a response to a client in interleaved mode the kernel reports it afterwards.
//!
//! There is one thread for each address, until those that are there cannot keep up ([`Load`]): then each address gets another one.
//! Threads sleep while no client asks.
//!
//! Without threads (`batch = false`) the loop that asks other servers answers too, by a responder of its own.

mod load;
mod transmit_times;

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use daemon::latest::{Latest, Reader};
use daemon::run::Heartbeat;
use daemon::udp::{Counters, Datagram, Engine, EngineOptions, Fragments, Outcome, Respond};
use load::Load;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;
use transmit_times::TransmitTimes;

use ntp::responder::{Answer, LONGEST_ANSWER, Policy, Receipt, Request, Responder, Tables};
use ntp::wire::Packet;
use random::Random;
use time_model::time::{SECOND, Span, UnixTime};
use time_model::view::StampSource;
use timekeeper::Reference;

/// Requests taken, and answers sent, with one system call.
const BATCH: usize = 64;
/// The kernel's stamp of a request is this old at most: if it seems older, the clock was stepped in between, and the request is
/// taken to have come when it was picked up.
const OLDEST_STAMP: Span = Span(SECOND);
/// Readings of the clock by which its precision is measured.
const N_READINGS: u32 = 1000;

/// The data that every thread answers from.
#[derive(Clone, Debug)]
pub struct AnswerData {
    /// The access list, and the form of answers.
    pub policy: Arc<Latest<Policy>>,
    /// The time for clients.
    pub reference: Arc<Latest<Reference>>,
    /// The memory of clients.
    pub tables: Arc<Tables>,
    /// Notified when the threads that answer cannot keep up.
    pub overload: Arc<Notify>,
}

/// Threads that answer. Dropping it stops them.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
}

impl Server {
    /// Starts `threads` threads, at least one for each socket.
    ///
    /// # Errors
    ///
    /// When there is no socket, an option of a socket cannot be set or a thread cannot be made.
    pub fn start(
        sockets: Vec<UdpSocket>,
        threads: usize,
        supply: &AnswerData,
        random: &mut Random,
    ) -> io::Result<Self> {
        let engine = Engine::start(sockets, threads, options(), |_| {
            answerer(supply, random.fork())
        })?;
        Ok(Self { engine })
    }

    /// Adds a thread for each of these sockets. Returns the names and heartbeats of the threads.
    ///
    /// # Errors
    ///
    /// As in [`Server::start`].
    pub fn grow(
        &mut self,
        sockets: Vec<UdpSocket>,
        supply: &AnswerData,
        random: &mut Random,
    ) -> io::Result<Vec<(String, Heartbeat)>> {
        let threads = sockets.len();
        self.engine
            .grow(sockets, threads, |_| answerer(supply, random.fork()))
    }

    /// Every thread's name and heartbeat.
    #[must_use]
    pub fn heartbeats(&self) -> Vec<(String, Heartbeat)> {
        self.engine.heartbeats()
    }

    /// The number of threads.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.engine.n_threads()
    }

    /// The counters of received and sent datagrams.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// Makes the threads stop within about a millisecond of being asked to: for who shares the sockets with a successor.
    pub fn alert(&self) {
        self.engine.alert();
    }

    /// True when every thread has heard [`Server::alert`].
    #[must_use]
    pub fn is_alert(&self) -> bool {
        self.engine.is_alert()
    }

    /// Asks the threads to stop, without waiting for them.
    pub fn ask_to_stop(&self) {
        self.engine.ask_to_stop();
    }

    /// Answers what is queued and ends the threads. Blocks for 250 ms at most when it is quiet.
    pub fn stop(self) {
        self.engine.stop();
    }
}

fn options() -> EngineOptions {
    EngineOptions {
        name: "ntp",
        reply_capacity: LONGEST_ANSWER,
        batch: BATCH,
        send_batch: BATCH,
        stamps: true,
        // The longest answer fits the least that a link of IPv6 takes, and so any of IPv4 that is in use.
        fragments: Fragments::Never,
        ..EngineOptions::default()
    }
}

fn answerer(supply: &AnswerData, random: Random) -> Answerer {
    Answerer {
        policy: Reader::new(Arc::clone(&supply.policy)),
        reference: Reader::new(Arc::clone(&supply.reference)),
        responder: Responder::new(&supply.tables, random),
        tables: Arc::clone(&supply.tables),
        now: wall_clock(),
        leaving: TransmitTimes::default(),
        load: Load::default(),
        overload: Arc::clone(&supply.overload),
        sent: Vec::with_capacity(BATCH),
    }
}

/// An answer of which it matters when it left.
#[derive(Clone, Copy, Debug)]
struct Sent {
    receipt: Receipt,
    /// How long it is: a frame ends with it.
    length: usize,
    /// It was made after this.
    made_after: UnixTime,
}

/// Answers on one thread.
#[derive(Debug)]
struct Answerer {
    policy: Reader<Policy>,
    reference: Reader<Reference>,
    responder: Responder,
    tables: Arc<Tables>,
    /// The wall clock at the beginning of the batch.
    now: UnixTime,
    leaving: TransmitTimes,
    load: Load,
    overload: Arc<Notify>,
    /// Answers of this batch of which it matters when they left.
    sent: Vec<Sent>,
}

impl Respond for Answerer {
    fn refresh(&mut self) {
        self.policy.refresh();
        self.reference.refresh();
        self.now = wall_clock();
    }

    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let (received, stamp) = stamp(datagram.arrived(), self.now);
        let request = Request {
            datagram: datagram.payload(),
            from: datagram.peer(),
            received,
            stamp,
        };
        let (policy, reference) = (self.policy.get(), self.reference.get());
        let turn = datagram.turn();
        self.load.taken();
        let leaving = &mut self.leaving;
        let clock = || leaving.foretell(turn, wall_clock);
        match self
            .responder
            .answer(&request, policy, reference, clock, reply)
        {
            Answer::Reply {
                length,
                receipt: None,
            } => Outcome::Reply(length),
            Answer::Reply {
                length,
                receipt: Some(receipt),
            } => {
                self.sent.push(Sent {
                    receipt,
                    length,
                    made_after: self.now,
                });
                Outcome::ReplyTold(length)
            }
            Answer::Drop(_) => Outcome::Silent,
        }
    }

    fn sending(&mut self, _: usize) {
        self.leaving.made(wall_clock());
    }

    fn sent(&mut self, replies: usize) {
        self.leaving.sent(replies, wall_clock());
    }

    /// The kernel says when an answer left. It is known by its receive timestamp.
    fn departed(&mut self, frame: &[u8], at: Duration) {
        let Ok(at) = i64::try_from(at.as_nanos()) else {
            return;
        };
        let is_in_frame = |sent: &Sent| {
            let answer = frame.len().checked_sub(sent.length);
            let answer = answer.and_then(|start| frame.get(start..)?.first_chunk());
            answer.is_some_and(|header| Packet::decode(header).receive == sent.receipt.receive())
        };
        let index = self.sent.iter().position(is_in_frame);
        if let Some(sent) = index.map(|index| self.sent.swap_remove(index)) {
            // A clock that was stepped in between says nothing.
            let left = UnixTime(at);
            if left >= sent.made_after && left - sent.made_after <= OLDEST_STAMP {
                self.tables
                    .transmitted(sent.receipt, left, StampSource::Kernel);
            }
        }
    }

    /// The batch was sent. Responses without a timestamp of the kernel keep the predicted one.
    fn settle(&mut self) {
        self.sent.clear();
        if self.load.settled() {
            self.overload.notify_one();
        }
    }
}

/// When a request came: as the kernel says if that can be, else when it was picked up.
fn stamp(arrived: Option<Duration>, picked_up: UnixTime) -> (UnixTime, StampSource) {
    let arrived = arrived.and_then(|arrived| i64::try_from(arrived.as_nanos()).ok());
    match arrived.map(UnixTime) {
        Some(arrived) if arrived <= picked_up && picked_up - arrived <= OLDEST_STAMP => {
            (arrived, StampSource::Kernel)
        }
        _ => (picked_up, StampSource::Daemon),
    }
}

/// Reads the wall clock.
pub(crate) fn wall_clock() -> UnixTime {
    let now = clock_gettime(ClockId::Realtime);
    UnixTime(
        now.tv_sec
            .saturating_mul(SECOND)
            .saturating_add(now.tv_nsec),
    )
}

/// The precision of the clock, as a power of two in seconds (RFC 5905 §7.3): the least difference of two readings.
#[must_use]
pub fn measure_precision() -> i8 {
    let mut least = Span(SECOND);
    let mut last = wall_clock();
    for _ in 0..N_READINGS {
        let now = wall_clock();
        if now > last {
            least = least.min(now - last);
        }
        last = now;
    }
    precision(least.seconds())
}

/// The power of two that is not below a number of seconds.
#[must_use]
pub fn precision(seconds: f64) -> i8 {
    // From 2^-32, the last digit of a timestamp, to a second.
    (-32..0)
        .find(|log2| f64::from(*log2).exp2() >= seconds)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
