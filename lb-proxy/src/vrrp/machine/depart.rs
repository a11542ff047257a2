//! How an active router gives its addresses to another one without a moment in which nobody has them.
//!
//! ```text
//!              others are asked        heir heard            heir has announced
//!   HandOver ──────(priority 0)──────►────────────►──────────────────────────────► left
//!   Yield    ─────────────────────────(last word)─►──────────────────────────────► left
//!                 nobody comes: left           it does not: left after half an interval
//! ```
//!
//! An heir advertises first, and puts the addresses on its interface and announces them afterwards
//! (keepalived does). Between the two a client that asks for an address finds nobody, if the router that
//! leaves goes by the advertisement. So it goes by the announcement, which is what the clients go by: it
//! stays until the heir's gratuitous ARP or neighbour advertisement of each address was seen, and a
//! moment longer, for what is on its way.
//!
//! Two answer ARP meanwhile. That is little harm to whoever knows the address, as an announcement
//! overrides what an answer has said and an answer does not override an announcement. But whoever asks
//! for the first time in that moment may learn the wrong place, and so may whoever is itself asked by the
//! router that leaves, which says that it has the address. So a last word comes when the addresses are
//! gone: an active router that hears a lower priority announces its addresses again.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::announcements::Announcements;
use super::event::{Action, Event, Reason};
use super::status::Heard;
use super::{Goodbye, Machine, PRIORITY_LEAVING, Phase, Wait};
use crate::vrrp::packet::{Advertisement, PRIORITY_STOPPED, Version};

/// How long the announcement of an heir that has advertised is waited for, at most: an heir takes
/// milliseconds, and two hold the addresses. Half an interval where that is less.
const LONGEST_OVERLAP: Duration = Duration::from_millis(250);

/// How long the addresses stay after the heir's announcement, for what clients have sent before they
/// heard it. A tenth of an interval where that is less.
const GRACE: Duration = Duration::from_millis(10);

/// When nothing that a rival said before it gave way is on its way any more, in quarters of an interval:
/// its last word comes up to half an interval after its first.
const QUIET_QUARTERS: u32 = 3;

/// An active router on its way out.
#[derive(Debug)]
pub(super) struct Going {
    pub(super) purpose: Purpose,
    since: Instant,
    /// When it goes, whatever has been seen.
    pub(super) until: Instant,
    heir: Option<Heir>,
    /// What another router has been seen to announce.
    announced: BTreeSet<IpAddr>,
}

/// Why an active router goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It ends; others have been asked to take over.
    HandOver,
    /// Another one is active that has a higher priority.
    Yield,
}

/// Whoever is active afterwards.
#[derive(Clone, Copy, Debug)]
struct Heir {
    heard: Heard,
    interval: Duration,
}

impl Going {
    /// Whether nothing is said any more: somebody else is active.
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
        active.going = Some(Going {
            purpose: Purpose::HandOver,
            since: now,
            until: now + limit,
            heir: None,
            announced: BTreeSet::new(),
        });
        // What is learnt from it would have to be forgotten again.
        active.announcements = Announcements::default();
        self.actions
            .push_back(Action::Report(Event::HandOverStarted));
        self.advertise(now);
    }

    /// Another one is active that has a higher priority.
    pub(super) fn begin_yield(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        // Whoever takes over announces itself, once more, when it hears a lower priority.
        self.advertise(now);
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        active.announcements = Announcements::default();
        active.going = Some(Going {
            purpose: Purpose::Yield,
            since: now,
            until: now,
            heir: None,
            announced: BTreeSet::new(),
        });
        self.find_heir(source, heard, now);
    }

    /// What a router on its way out makes of an advertisement.
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
        let Some(going) = active.going.as_ref().filter(|going| !going.is_silent()) else {
            return;
        };
        if is_heir {
            self.find_heir(source, heard, now);
        } else {
            // Asked again as soon as the answer means something.
            active.due = active.due.min(going.since + quiet);
        }
    }

    /// Whether what is heard while handing over is of somebody who has taken over. A rival that yields
    /// says so with a last advertisement, which may be on its way when this router begins to leave.
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
        let overlap = LONGEST_OVERLAP.min(self.settings.interval / 2);
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
    }

    /// Somebody else says to have an address. Whether that was to be expected.
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
        true
    }

    fn go_if_announced(&mut self, now: Instant) {
        let all = self.all_addresses();
        let grace = GRACE.min(self.settings.interval / 10);
        if let Phase::Active(active) = &mut self.phase
            && let Some(going) = &mut active.going
            && going.heir.is_some()
            && all.iter().all(|address| going.announced.contains(address))
        {
            going.until = going.until.min(now + grace);
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
                self.release(Goodbye::Silent);
                self.say_last_word(PRIORITY_LEAVING, heir.heard);
                self.stop(Reason::HandedOver(heir.heard.source), now);
            }
            (Purpose::HandOver, None) => {
                let event = match self.heard_at {
                    Some(_) => Event::HandOverTimedOut,
                    None => Event::LeftAlone,
                };
                self.actions.push_back(Action::Report(event));
                self.release(Goodbye::Silent);
                self.stop(Reason::Stopped, now);
            }
            (Purpose::Yield, heir) => {
                self.release(Goodbye::Silent);
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
                    }
                    self.learn_interval(heir.heard.source, heir.interval, now);
                }
            }
        }
    }

    /// Has the heir announce itself once more; never what somebody would yield to.
    fn say_last_word(&mut self, priority: u8, heir: Heard) {
        if (priority, self.source) < (heir.priority, Some(heir.source)) {
            self.send(priority);
        }
    }

    /// How long after a goodbye somebody else is active, if there is anybody: no skew time is longer than
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
