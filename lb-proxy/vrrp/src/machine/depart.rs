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

use super::announcements::Announcements;
use super::event::{Action, Event, Reason};
use super::status::Heard;
use super::{FinalAdvertisement, Machine, PRIORITY_LEAVING, Phase, Wait};
use crate::packet::{Advertisement, PRIORITY_STOPPED, Version};

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
    /// When it goes, whatever has been seen.
    pub(super) until: Instant,
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
struct Heir {
    heard: Heard,
    interval: Duration,
}

impl Departing {
    fn new(purpose: Purpose, now: Instant, until: Instant) -> Self {
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

    /// When something is to be done, if nothing is said any more.
    pub(super) fn next(&self) -> Instant {
        match self.stay {
            Stay::Kept { ask } => self.until.min(ask),
            Stay::Unannounced | Stay::Asked => self.until,
        }
    }

    /// True when nothing is sent any more: another router is active.
    pub(super) fn is_silent(&self) -> bool {
        self.heir.is_some()
    }
}

impl Machine {
    /// Asks the others to take over.
    pub(super) fn begin_hand_over(&mut self, now: Instant) {
        let limit = match self.heard_at {
            // Whatever was lost, they take over when they have not heard anything for long enough.
            Some(_) => 4 * self.settings.interval + self.settings.interval / 2,
            None => self.goodbye_interval(),
        };
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        if let Some(going) = &mut active.going {
            going.purpose = Purpose::HandOver;
            return;
        }
        active.going = Some(Departing::new(Purpose::HandOver, now, now + limit));
        // A router that is learnt from it would have to be forgotten again.
        active.announcements = Announcements::default();
        self.actions
            .push_back(Action::Report(Event::HandOverStarted));
        self.advertise(now);
    }

    /// Another one is active that has a higher priority.
    pub(super) fn begin_yield(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        // A router that takes over announces itself, once more, when it hears a lower priority.
        self.advertise(now);
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        active.announcements = Announcements::default();
        active.going = Some(Departing::new(Purpose::Yield, now, now));
        self.find_heir(source, heard, now);
    }

    /// The reaction of a router on its way out to an advertisement.
    pub(super) fn receive_while_going(
        &mut self,
        source: IpAddr,
        heard: &Advertisement,
        now: Instant,
    ) {
        // One that stops as well is no heir, and an answer would be answered.
        if heard.priority == PRIORITY_STOPPED {
            return;
        }
        let quiet = self.quiet();
        let is_heir = self.is_heir(now);
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        let Some(going) = &mut active.going else {
            return;
        };
        if let Some(heir) = &mut going.heir {
            if heir.heard.source == source {
                heir.heard.at = now;
            }
            return;
        }
        if is_heir {
            self.find_heir(source, heard, now);
        } else {
            // Asked again as soon as the answer means something.
            active.due = active.due.min(going.since + quiet);
        }
    }

    /// True when an advertisement that comes while handing over is from a router that has taken over. A competitor
    /// that yields sends a last advertisement, which may be on its way when this router begins to leave.
    fn is_heir(&self, now: Instant) -> bool {
        let Phase::Active(active) = &self.phase else {
            return false;
        };
        let since = active.going.as_ref().map_or(now, |going| going.since);
        let had_rival = since < active.rivalled + self.silence_allowed();
        !had_rival || now >= since + self.quiet()
    }

    fn quiet(&self) -> Duration {
        self.settings.interval * QUIET_QUARTERS / 4
    }

    fn find_heir(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        let overlap = self.overlap();
        if let Phase::Active(active) = &mut self.phase
            && let Some(going) = &mut active.going
        {
            going.until = now + overlap;
            going.heir = Some(Heir {
                heard: Heard {
                    source,
                    priority: heard.priority,
                    at: now,
                },
                interval: heard.interval,
            });
        }
        self.go_if_announced(now);
        if self.is_kept() {
            // Announced before it was heard.
            self.announce(1);
        }
    }

    fn overlap(&self) -> Duration {
        LONGEST_OVERLAP.min(self.settings.interval / 2)
    }

    fn is_kept(&self) -> bool {
        let Phase::Active(active) = &self.phase else {
            return false;
        };
        let stay = active.going.as_ref().map(|going| going.stay);
        matches!(stay, Some(Stay::Kept { .. }))
    }

    /// Another node says to have an address. True when that was to be expected.
    pub(super) fn note_announced(&mut self, address: IpAddr, now: Instant) -> bool {
        let Phase::Active(active) = &mut self.phase else {
            return false;
        };
        let Some(going) = &mut active.going else {
            return false;
        };
        if going.announced.insert(address) {
            self.go_if_announced(now);
        }
        self.take_back(address);
        true
    }

    fn go_if_announced(&mut self, now: Instant) {
        let all = self.all_addresses();
        let grace = GRACE.min(self.settings.interval / 10);
        let (half, is_ipv6) = (self.overlap() / 2, self.settings.is_ipv6());
        if let Phase::Active(active) = &mut self.phase
            && let Some(going) = &mut active.going
            && going.heir.is_some()
            && all.iter().all(|address| going.announced.contains(address))
        {
            match going.stay {
                Stay::Unannounced if is_ipv6 => {
                    let ask = now + half;
                    going.stay = Stay::Kept { ask };
                    going.until = ask + half;
                }
                Stay::Kept { .. } => {}
                Stay::Unannounced | Stay::Asked => going.until = going.until.min(now + grace),
            }
        }
    }

    /// Has clients find this router again: the heir's kernel may not have the address yet.
    fn take_back(&mut self, address: IpAddr) {
        let most = MOST_TAKEN_BACK * self.settings.addresses.len();
        if let Phase::Active(active) = &mut self.phase
            && let Some(going) = &mut active.going
            && address.is_ipv6()
            && going.heir.is_some()
            && going.stay != Stay::Asked
            && going.n_taken_back < most
        {
            going.n_taken_back += 1;
            let addresses = vec![address];
            self.actions.push_back(Action::Announce {
                addresses,
                count: 1,
            });
        }
    }

    /// The heir has had time to get the addresses, if they are kept for that: now it may announce them.
    pub(super) fn ask_heir(&mut self, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        let Some(going) = &mut active.going else {
            return;
        };
        if !matches!(going.stay, Stay::Kept { ask } if ask <= now) {
            return;
        }
        going.stay = Stay::Asked;
        going.announced.clear();
        let priority = match going.purpose {
            Purpose::HandOver => PRIORITY_LEAVING,
            Purpose::Yield => self.priority,
        };
        if let Some(heir) = going.heir {
            active.sent = now;
            self.say_last_word(priority, heir.heard);
        }
    }

    /// The time of a router on its way out has come.
    pub(super) fn leave(&mut self, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        let Some(going) = active.going.take() else {
            return;
        };
        match (going.purpose, going.heir) {
            (Purpose::HandOver, Some(heir)) => {
                self.release(FinalAdvertisement::Silent);
                self.say_last_word(PRIORITY_LEAVING, heir.heard);
                self.stop(Reason::HandedOver(heir.heard.source), now);
            }
            (Purpose::HandOver, None) => {
                let event = match self.heard_at {
                    Some(_) => Event::HandOverTimedOut,
                    None => Event::LeftAlone,
                };
                self.actions.push_back(Action::Report(event));
                self.release(FinalAdvertisement::Silent);
                self.stop(Reason::Stopped, now);
            }
            (Purpose::Yield, heir) => {
                self.release(FinalAdvertisement::Silent);
                if let Some(heir) = heir {
                    self.say_last_word(self.priority, heir.heard);
                }
                let reason = heir.map_or(Reason::Stopped, |heir| {
                    Reason::HigherHeard(heir.heard.source)
                });
                self.become_backup(reason, Wait::Down, now);
                if let Some(heir) = heir {
                    if let Phase::Backup(backup) = &mut self.phase {
                        backup.active = Some(heir.heard);
                        // The time since then counts, as of any backup.
                        backup.set = heir.heard.at;
                    }
                    self.learn_interval(heir.heard.source, heir.interval, now);
                }
            }
        }
    }

    /// Has the heir announce itself once more; never a message that another router would yield to.
    fn say_last_word(&mut self, priority: u8, heir: Heard) {
        if (priority, self.source) < (heir.priority, Some(heir.source)) {
            self.send(priority);
        }
    }

    /// How long after a final advertisement another router is active, if there is one: no skew time is longer than
    /// its unit, and half an interval is for messages and late timers. Then it is said again.
    pub(super) fn goodbye_interval(&self) -> Duration {
        let interval = self.settings.interval;
        let longest_skew = match self.settings.version {
            Version::V2 => Duration::from_secs(1),
            Version::V3 => interval,
        };
        longest_skew + interval / 2
    }

    /// Why it is on its way out, if it is.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        match &self.phase {
            Phase::Active(active) => active.going.as_ref().map(|going| going.purpose),
            _ => None,
        }
    }
}
