//! A holder of the addresses that does not advertise them: probed for once, after a start, while the
//! router listens for others anyway (RFC 5227 §2.1.1, RFC 4862 §5.4).
//!
//! A start is when addresses clash: a host was given one manually, another virtual router has another
//! number. A router that listens loses nothing by probing meanwhile. A holder that is heard to advertise explains
//! itself, and the probes stop: a takeover never waits for an answer.
//!
//! A holder that does not advertise may be the kernel of a node whose process has died, and then the
//! addresses are needed here. So it is reported and waited for, within a bound.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Questions in the first down interval, all in its first half: the last one has the other half for
/// its answer.
const QUESTIONS: u8 = 3;

/// How many intervals to wait for a silent holder, besides the first down interval: it is reported, and
/// a process that was started again has removed what the one before left. Not more, as the holder may be
/// the kernel of a node that hangs.
const MAX_WAITS: u8 = 3;

/// The probes so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// When the next question is due, if there is one.
    next: Option<Instant>,
    /// Between questions.
    gap: Duration,
    n_left: u8,
    /// The node that has answered the last one.
    holder: Option<(IpAddr, [u8; 6])>,
    /// How often the router waited for a holder.
    n_waits: u8,
}

/// A node that answers for the addresses without advertising them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) address: IpAddr,
    pub(super) by: [u8; 6],
    /// False when this router has waited for it as often as it may.
    pub(super) is_waited_for: bool,
}

impl Probe {
    /// The probes of a router that listens for `listen`.
    pub(super) fn new(listen: Duration, now: Instant) -> Self {
        Self {
            next: Some(now),
            gap: listen / 4,
            n_left: QUESTIONS,
            holder: None,
            n_waits: 0,
        }
    }

    /// When the next question is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// True when a question is due, which counts as sent.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        if self.next.is_none_or(|next| now < next) {
            return false;
        }
        self.n_left = self.n_left.saturating_sub(1);
        self.next = (self.n_left > 0).then(|| now + self.gap);
        // A node that answered before may be gone.
        self.holder = None;
        true
    }

    /// Notes that a node answers for an address.
    pub(super) fn note_holder(&mut self, address: IpAddr, by: [u8; 6]) {
        self.holder = Some((address, by));
    }

    /// The holder, if one has answered the last question, though no router was heard. While it waits for the holder,
    /// the router asks it again at once.
    pub(super) fn wait_for_holder(&mut self, now: Instant) -> Option<Holder> {
        let (address, by) = self.holder?;
        self.n_waits += 1;
        let is_waited_for = self.n_waits <= MAX_WAITS;
        if is_waited_for {
            self.n_left = 1;
            self.next = Some(now);
        }
        Some(Holder {
            address,
            by,
            is_waited_for,
        })
    }
}
