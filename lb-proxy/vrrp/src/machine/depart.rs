//! An active router gives its addresses to another one without a moment in which they have no holder.
//!
//! ```text
//!              others are asked        heir heard            heir has announced
//!   HandOver ──────(priority 0)──────►────────────►──────────────────────────────► left
//!   Yield    ─────────────────────────(last word)─►──────────────────────────────► left
//!                 nobody comes: left           it does not: left after half an interval
//! ```
//!
//! An heir advertises first, and puts the addresses on its interface and announces them afterwards
//! (keepalived does). Between the two a client that asks for an address gets no answer, if the router that
//! leaves goes by the advertisement. So it goes by the announcement, as the clients do: it
//! stays until the heir's gratuitous ARP or neighbour advertisement of each address was seen, and a
//! moment longer, for what is on its way.
//!
//! Two answer ARP meanwhile. That is little harm to a client that knows the address, as an announcement
//! overrides an answer and an answer does not override an announcement. But a client that asks
//! for the first time in that moment may learn the wrong place, and so may a client that gets a question from the
//! router that leaves, which says that it has the address. So a last word comes when the addresses are
//! gone: an active router that hears a lower priority announces its addresses again.
//!
//! # Over IPv6
//!
//! ```text
//!    heir has announced           half the overlap later            heir has announced again
//!   ────(announced back)──► kept ───────(last word)───────► asked ──────────────────────────► left
//! ```
//!
//! An address of IPv6 has a route in the heir's kernel only some time after it was put on the interface:
//! milliseconds, and many of them on a busy machine. keepalived announces at once, and what clients then
//! send is lost. Nothing tells from outside when the route is there. So the router that leaves announces
//! the address back, and continues to serve, for much longer than a kernel takes; then a last word has the
//! heir announce itself, and this router goes by that announcement. To stay without announcing would not
//! help: clients are at the heir by then.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::status::Heard;
use crate::packet::PRIORITY_STOPPED;
use crate::settings::RouterSettings;

/// The longest wait for the announcement of an heir that has advertised: an heir takes
/// milliseconds, and two hold the addresses. Half an interval where that is less.
const LONGEST_OVERLAP: Duration = Duration::from_millis(250);

/// How long the addresses stay after the heir's announcement, for what clients have sent before they
/// heard it. A tenth of an interval where that is less.
const GRACE: Duration = Duration::from_millis(10);

/// How often the announcement of one address is taken back: an heir says it five times, and as often again
/// when it hears this router's last advertisement. Not for ever: an heir that defends itself would continue too.
const MOST_TAKEN_BACK: usize = 16;

/// When nothing that a rival said before it gave way is on its way any more, in quarters of an interval:
/// its last word comes up to half an interval after its first.
const QUIET_QUARTERS: u32 = 3;

/// An active router on its way out.
#[derive(Debug)]
pub(super) struct Departing {
    pub(super) purpose: Purpose,
    since: Instant,
    until: Instant,
    heir: Option<Heir>,
    /// The addresses that another router has been seen to announce.
    announced: BTreeSet<IpAddr>,
    stay: Stay,
    /// How often an announcement was taken back.
    n_taken_back: usize,
}

/// The next event that a router with an heir waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// That it announces itself.
    Unannounced,
    /// It has, and is to announce again at this time.
    Kept { ask: Instant },
    /// It was asked to.
    Asked,
}

/// Why an active router goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It ends; others have been asked to take over.
    HandOver,
    /// Another one is active that has a higher priority.
    Yield,
}

/// The router that is active afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heir {
    pub(super) heard: Heard,
    pub(super) interval: Duration,
}

/// The meaning of an advertisement to a router on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Nothing,
    /// Its sender has taken over.
    Follow,
    /// It may be the last word of a competitor; an answer to an advertisement at this time would mean something.
    AdvertiseBy(Instant),
}

impl Departing {
    pub(super) fn new(purpose: Purpose, now: Instant, until: Instant) -> Self {
        Self {
            purpose,
            since: now,
            until,
            heir: None,
            announced: BTreeSet::new(),
            stay: Stay::Unannounced,
            n_taken_back: 0,
        }
    }

    /// The next deadline while nothing is advertised any more.
    pub(super) fn next(&self) -> Instant {
        match self.stay {
            Stay::Kept { ask } => self.until.min(ask),
            Stay::Unannounced | Stay::Asked => self.until,
        }
    }

    /// True when nothing is advertised any more: another router is active.
    pub(super) fn is_silent(&self) -> bool {
        self.heir.is_some()
    }

    /// The deadline by which it leaves, whatever it has seen.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// The router that is active afterwards, if one was heard.
    pub(super) fn heir(&self) -> Option<Heir> {
        self.heir
    }

    /// Takes in an advertisement. `rivalled` is when another router was last known to be active.
    pub(super) fn hear(
        &mut self,
        source: IpAddr,
        priority: u8,
        rivalled: Instant,
        settings: &RouterSettings,
        now: Instant,
    ) -> Advice {
        // A router that stops as well is no heir, and an answer to it would be answered again.
        if priority == PRIORITY_STOPPED {
            return Advice::Nothing;
        }
        if let Some(heir) = &mut self.heir {
            if heir.heard.source == source {
                heir.heard.at = now;
            }
            return Advice::Nothing;
        }
        let quiet = settings.interval * QUIET_QUARTERS / 4;
        // A competitor that yields sends a last advertisement, which may be on its way when this router
        // begins to leave.
        let had_rival = self.since < rivalled + settings.silence_allowed();
        if had_rival && now < self.since + quiet {
            return Advice::AdvertiseBy(self.since + quiet);
        }
        Advice::Follow
    }

    /// Takes the router that advertised this as the heir. True when it has announced the addresses already,
    /// and they are to be announced back.
    pub(super) fn follow(&mut self, heir: Heir, settings: &RouterSettings, now: Instant) -> bool {
        self.until = now + overlap(settings);
        self.heir = Some(heir);
        self.go_if_announced(settings, now);
        matches!(self.stay, Stay::Kept { .. })
    }

    /// Notes that another node announces an address. True when this router is to announce it back: clients
    /// are to find this router, as the kernel of the heir may not have the address yet.
    pub(super) fn note_announced(
        &mut self,
        address: IpAddr,
        settings: &RouterSettings,
        now: Instant,
    ) -> bool {
        if self.announced.insert(address) {
            self.go_if_announced(settings, now);
        }
        let most = MOST_TAKEN_BACK * settings.addresses.len();
        let is_taken_back = address.is_ipv6()
            && self.heir.is_some()
            && self.stay != Stay::Asked
            && self.n_taken_back < most;
        self.n_taken_back += usize::from(is_taken_back);
        is_taken_back
    }

    fn go_if_announced(&mut self, settings: &RouterSettings, now: Instant) {
        let mut all = settings.addresses.iter();
        if self.heir.is_none() || !all.all(|entry| self.announced.contains(&entry.address)) {
            return;
        }
        match self.stay {
            Stay::Unannounced if settings.is_ipv6() => {
                let half = overlap(settings) / 2;
                let ask = now + half;
                self.stay = Stay::Kept { ask };
                self.until = ask + half;
            }
            Stay::Kept { .. } => {}
            Stay::Unannounced | Stay::Asked => {
                let grace = GRACE.min(settings.interval / 10);
                self.until = self.until.min(now + grace);
            }
        }
    }

    /// The heir that may announce the addresses now: it has had time to get them, if they were kept for that.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Heir> {
        if !matches!(self.stay, Stay::Kept { ask } if ask <= now) {
            return None;
        }
        self.stay = Stay::Asked;
        self.announced.clear();
        self.heir
    }
}

fn overlap(settings: &RouterSettings) -> Duration {
    LONGEST_OVERLAP.min(settings.interval / 2)
}
