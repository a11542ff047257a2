//! Symmetric mode (RFC 5905 §8 and §9.2): two nodes poll each other, and the packet of each repeats the transmit timestamp of the
//! last one of the other.
//!
//! ```text
//!   own    ──── T1 ──────────────► T2    T1: what its next packet has to repeat; T2 and T3 are the peer's
//!   own T4 ◄────────────── T3 ────       most of a polling interval may pass between T2 and T3
//! ```
//!
//! A packet is valid if it repeats the own last transmit timestamp and is signed as it has to be; the first such packet after each
//! own one makes a sample. One that only proves its key may begin the exchange again, and no more: the next packet repeats its
//! timestamp. So an old packet that is sent again makes no sample, and costs the exchange one poll at most, as in chronyd.

use super::measure::{self, Times};
use super::poll::PeerPolls;
use super::{Association, Context, EPOCH, Ignored, NO_STRATUM, Outcome, RawStamp};
use crate::responder::header;
use crate::wire::{Message, Mode, Packet};
use time_model::time::NtpTimestamp;
use timekeeper::Reference;

/// The finest precision that a packet may state (as a power of two in seconds), so that random digits are left below it; chrony's.
const FINEST_PRECISION: f64 = -30.0;

/// The packets of the other side, as far as they matter for the next own one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peering {
    /// The last valid one.
    valid: Option<Heard>,
    /// A later one that was not valid, from which the exchange can begin.
    beginning: Option<Heard>,
    /// It came since the last own packet.
    has_beginning: bool,
    /// The first valid one since the last own packet came.
    has_answer: bool,
    /// The timestamps of the last own packet.
    receive: NtpTimestamp,
    transmit: NtpTimestamp,
}

/// A packet of the other side.
#[derive(Clone, Copy, Debug)]
struct Heard {
    receive: NtpTimestamp,
    transmit: NtpTimestamp,
    arrived: RawStamp,
}

impl Peering {
    /// The next packet to the peer. `bits` are random.
    pub(super) fn packet(
        &mut self,
        version: u8,
        poll: i8,
        bits: [u64; 2],
        context: &Context<'_>,
    ) -> Packet {
        let heard = match self.has_answer {
            true => self.valid,
            false => self.beginning.or(self.valid),
        };
        self.has_answer = false;
        self.has_beginning = false;
        let unknown = Reference::default();
        let reference = context.told.unwrap_or(&unknown);
        let now = context.now;
        let precision = precision(context.precision);
        let mask = (1_u64 << (32 + i32::from(precision))) - 1;
        let [first, second] = bits.map(|bits| bits & mask);
        let origin = heard.map_or(NtpTimestamp::ZERO, |heard| heard.transmit);
        // As if the clock had run with its learned frequency since then: a slew would make the time between the two packets
        // longer or shorter for the peer.
        let receive = heard.map_or(NtpTimestamp::ZERO, |heard| {
            let at = now.wall_at(heard.arrived.at, context.frequency);
            let at = NtpTimestamp(NtpTimestamp::of(reference.time_at(at)).0 ^ first);
            distinct(at, [origin, self.receive, origin])
        });
        let transmit = NtpTimestamp(NtpTimestamp::of(reference.time_at(now.wall)).0 ^ second);
        // A packet that comes back is no answer to itself, and no answer to an earlier one is one to this.
        let transmit = distinct(transmit, [receive, origin, self.transmit]);
        (self.receive, self.transmit) = (receive, transmit);
        Packet {
            version,
            mode: Mode::SymmetricActive,
            poll,
            origin,
            receive,
            transmit,
            ..header(reference, precision, now.wall)
        }
    }

    /// No packet that comes now answers the last own one.
    pub(super) fn forget(&mut self) {
        self.transmit = NtpTimestamp::ZERO;
    }

    /// The transmit timestamp of the last valid packet of the peer.
    #[cfg(test)]
    pub(super) fn valid_transmit(&self) -> NtpTimestamp {
        self.valid
            .map_or(NtpTimestamp::ZERO, |valid| valid.transmit)
    }

    /// Takes a packet that is signed as it has to be. True if it is the first valid one since the last own packet.
    fn take(&mut self, packet: &Packet, arrived: RawStamp) -> bool {
        let heard = Heard {
            receive: packet.receive,
            transmit: packet.transmit,
            arrived,
        };
        let is_later = |before: Option<Heard>| {
            before.is_none_or(|before| is_after(packet.transmit, before.transmit))
        };
        // Tests 1 to 3.
        let is_duplicate = self.valid.is_some_and(|valid| {
            valid.receive == packet.receive && valid.transmit == packet.transmit
        });
        if is_duplicate || packet.transmit == NtpTimestamp::ZERO {
            return false;
        }
        let is_valid = packet.origin != NtpTimestamp::ZERO
            && packet.origin == self.transmit
            && packet.receive != NtpTimestamp::ZERO;
        if is_valid && (!self.has_answer || is_later(self.valid)) {
            self.valid = Some(heard);
            self.beginning = None;
            self.has_beginning = false;
        } else if !self.has_beginning || is_later(self.beginning) {
            self.beginning = Some(heard);
            self.has_beginning = true;
        }
        is_valid && !std::mem::replace(&mut self.has_answer, true)
    }
}

/// Whether a timestamp is later than another one, in whatever era (RFC 5905 §6).
fn is_after(one: NtpTimestamp, other: NtpTimestamp) -> bool {
    one.0.wrapping_sub(other.0).cast_signed() > 0
}

/// This timestamp, or the next one that differs from the others and from zero.
fn distinct(timestamp: NtpTimestamp, others: [NtpTimestamp; 3]) -> NtpTimestamp {
    let candidates = (0..=4).map(|more| NtpTimestamp(timestamp.0.wrapping_add(more)));
    candidates
        .into_iter()
        .find(|one| *one != NtpTimestamp::ZERO && !others.contains(one))
        .unwrap_or(timestamp)
}

/// The precision of a clock as a packet has it: the power of two that is not below it.
#[expect(clippy::cast_possible_truncation, reason = "from -30 to 0")]
fn precision(seconds: f64) -> i8 {
    seconds.log2().ceil().clamp(FINEST_PRECISION, 0.0) as i8
}

impl Association {
    /// A packet of symmetric mode came from the peer.
    pub(super) fn handle_peer(
        &mut self,
        message: &Message<'_>,
        arrived: RawStamp,
        context: &Context<'_>,
    ) -> Outcome {
        let packet = &message.packet;
        if !self.schedule.is_online() {
            return Outcome::Ignored(Ignored::Unexpected);
        }
        // Without it, anyone could spoil the exchange of two nodes that share a key.
        if !self.is_authentic(message, context.keys) {
            return Outcome::Ignored(Ignored::Unauthenticated);
        }
        let Some(peering) = &mut self.peering else {
            return Outcome::Ignored(Ignored::Malformed);
        };
        let is_answer = peering.take(packet, arrived);
        let Some(pending) = self.pending.filter(|_| is_answer) else {
            return Outcome::Ignored(Ignored::Bogus);
        };
        self.count_valid();
        if let Some(code) = measure::kiss_code(packet) {
            return self.kissed(code, packet, context);
        }
        let pivot = context.now.wall.max(EPOCH);
        let times = Times {
            sent: pending.sent,
            receive: packet.receive.near(pivot),
            transmit: packet.transmit.near(pivot),
            arrived,
            root_delay: packet.root_delay.seconds(),
            root_dispersion: packet.root_dispersion.seconds(),
        };
        let sample = self.weigh(message, &pending, Some(&times), context);
        let own = context.told.filter(|told| told.is_synchronised());
        let own = own.map_or(NO_STRATUM, |told| told.stratum);
        let theirs = match packet.stratum {
            0 => NO_STRATUM,
            stratum => stratum.min(NO_STRATUM),
        };
        self.schedule.heard(PeerPolls {
            poll: (self.reach != 0).then_some(packet.poll),
            strata_below: i16::from(theirs) - i16::from(own),
        });
        self.plan_after_answer(context.now.raw);
        Outcome::Answered(sample)
    }
}
