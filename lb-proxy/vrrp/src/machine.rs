//! The election of one virtual router (RFC 9568 §6.4, RFC 3768 §6.4), with keepalived's `FAULT`.
//!
//! Told what happens and what time it is, it says what to do; the diagram is in [`vrrp`](super).
//! Never sends, sleeps, reads a clock or touches an interface.
//!
//! Additions, where the standard leaves room or peers have shown that something is missing:
//!
//! - **Takeover**: addresses, then advertisement, then announcement at once. keepalived advertises
//!   first; the holder of the addresses still gives them up then, and any time before the announcement
//!   is time without a holder. And a refusal of the kernel has not been advertised.
//! - **Release**: advertisement of priority 0, then every flow reset, then addresses removed. A flow
//!   that is not reset hangs at its client until that gives up.
//! - **Handing over**: priority 0 is advertised, and the addresses stay until the next router has been
//!   heard and has announced them (`depart`). An unmodified peer takes over after its skew time; the addresses
//!   always have a holder. The last words of a competitor that has just yielded are no takeover: if
//!   there was one lately, a message that comes at once does not count. A router that never heard another waits for
//!   one skew time, the longest there is. Addresses of IPv6 stay longer, until the heir's kernel surely has
//!   them, and are announced by both meanwhile; so a new active router does not defend them.
//! - **Yielding** to a higher priority goes the same way, from the heir's advertisement on.
//! - **Lower priority heard while active**: two were active, and caches may point to the other one. It
//!   is answered at once, and the addresses are announced again.
//! - **Higher priority heard while active**: answered once more before yielding, so that the other one
//!   announces itself over whatever the network learnt from this one.
//! - **Relief**: an active router whose priority falls to 1 asks to be relieved; neither no-preempt
//!   nor a preempt delay stands against that, and backups wait their skew time only.
//! - **Unknown peers**: a router that advertises over unicast without being among the peers is heard, reported,
//!   and sent to as if it were, or it would become active after every down interval.
//! - **A holder that does not advertise** is found after a start, by probes (`probe`).
//! - **A lease** (`lease`): if a majority of the nodes grants it, no advertisement makes a router active or ends it.
//! - **Never two**: a router that has not advertised for three intervals may have been replaced. It goes back to
//!   backup without a word, and only then listens.

mod announcements;
mod backup;
mod change;
mod depart;
mod event;
mod lease;
mod probe;
mod receive;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::announcements::Announcements;
use self::backup::{Backup, Wait};
use self::depart::{Advice, Departing, Heir, Purpose};
pub use self::event::{
    Action, Audience, Demand, Departure, Eligibility, Event, Fault, Input, Lease, Reason, Start,
    State,
};
pub use self::lease::PRIORITY_HOLDER;
use self::lease::{Tenancy, Tenure};
use self::probe::{Holder, Probe};
pub use self::status::{Counters, Heard, Status};
use super::packet::{Advertisement, PRIORITY_OWNER, PRIORITY_STOPPED, Refusal, Version};
use super::settings::{Peers, RouterSettings};

/// The priority of an active router that cannot serve and asks to be relieved, and the last word of one
/// that has handed over: lower than any that could be configured.
pub const PRIORITY_LEAVING: u8 = 1;

/// How often a claim to an address that is held is answered in a [`DEFENCE_TIME`], so that two
/// routers that both answer do not flood the link. RFC 5227 §2.4 allows one in ten seconds; here a node depends
/// on it, and a router that has just been replaced may claim several times in its last moments.
const DEFENCES: u8 = 10;

/// See [`DEFENCES`].
const DEFENCE_TIME: Duration = Duration::from_secs(1);

/// Between two reports of the same kind (RFC 9568 §7.1: subject to rate-limiting).
const REPORT_GAP: Duration = Duration::from_secs(60);

/// How many routers that are not among the peers are answered: a site has few nodes, and an attacker that
/// invents sources gets no more than this.
const MAX_GUESTS: usize = 8;

/// One virtual router.
#[derive(Debug)]
pub struct Machine {
    settings: Arc<RouterSettings>,
    phase: Phase,
    since: Option<Instant>,
    faults: BTreeSet<Fault>,
    /// The advertised priority while active and not leaving.
    priority: u8,
    source: Option<IpAddr>,
    /// `Active_Adver_Interval`.
    active_interval: Duration,
    /// Routers that advertise without being among the unicast peers, the last heard at the end.
    guests: VecDeque<IpAddr>,
    /// When another router was heard last. A backup says nothing, so that `None` does not mean that
    /// there are none; a router that was heard may be there.
    heard_at: Option<Instant>,
    counters: Counters,
    reported: BTreeMap<ReportKind, Instant>,
    tenancy: Tenancy,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
enum Phase {
    Initialize,
    Backup(Backup),
    Active(Active),
    Fault,
}

#[derive(Debug)]
struct Active {
    /// When the last advertisement was sent.
    sent: Instant,
    /// `Adver_Timer`.
    due: Instant,
    announcements: Announcements,
    /// When a claim by another node was answered with an advertisement, and how often since.
    defended: Option<(Instant, u8)>,
    /// When another was last known to be active: heard besides this one, or replaced by it.
    rivalled: Instant,
    /// On its way out.
    going: Option<Departing>,
    tenure: Tenure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReportKind {
    Refused(Refusal),
    AddressesDiffer,
    ChecksumDiffers,
    UnknownPeer,
    TwoOwners,
    LowerHeard,
    Overruled,
    Duplicate,
    Taken,
    IntervalLearnt,
}

impl Machine {
    /// A router that has not been started and does not know its source.
    #[must_use]
    pub fn new(settings: impl Into<Arc<RouterSettings>>) -> Self {
        let settings = settings.into();
        let mut faults = BTreeSet::from([Fault::Source]);
        if are_unknown(&settings.peers) {
            faults.insert(Fault::PeersUnknown);
        }
        Self {
            phase: Phase::Initialize,
            since: None,
            faults,
            priority: settings.priority.max(1),
            source: None,
            active_interval: settings.interval,
            guests: VecDeque::new(),
            heard_at: None,
            counters: Counters::default(),
            reported: BTreeMap::new(),
            tenancy: Tenancy::default(),
            actions: VecDeque::new(),
            settings,
        }
    }

    /// Takes in what happened. Actions are to be taken out afterwards.
    pub fn handle(&mut self, input: Input<'_>, now: Instant) {
        self.fence(now);
        match input {
            Input::Startup(start) => self.start(start, now),
            Input::Shutdown(departure) => self.shut_down(departure, now),
            Input::Datagram(datagram) => self.receive(&datagram, now),
            Input::FaultFound(fault) => self.find_fault(fault, now),
            Input::FaultCleared(fault) => self.clear_fault(fault, now),
            Input::Source(source) => self.set_source(source, now),
            Input::Eligibility(Eligibility::Able(priority)) => {
                self.set_priority(priority.max(1), now);
                self.clear_fault(Fault::Unable, now);
            }
            Input::Eligibility(Eligibility::Unable) => self.find_fault(Fault::Unable, now),
            Input::Lease(lease) => self.set_lease(lease, now),
            Input::Reconfigured(settings) => self.reconfigure(settings, now),
            Input::DuplicateSeen { address, by } => self.hear_claim(address, by, now),
            Input::Deadline => self.run_deadlines(now),
            Input::GroupClaims => {
                if self.lacks_lease(now) {
                    return;
                }
                if let Phase::Backup(Backup {
                    would_claim: true, ..
                }) = self.phase
                {
                    self.become_active(Reason::Group, now);
                }
            }
            Input::GroupYields => {
                if matches!(&self.phase, Phase::Active(active) if active.going.is_none()) {
                    self.release(FinalAdvertisement::Advertised);
                    self.become_backup(Reason::Group, Wait::Down, now);
                }
            }
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to say [`Input::Deadline`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Initialize | Phase::Fault => None,
            Phase::Backup(backup) if backup.would_claim => None,
            Phase::Backup(_) if self.tenancy.rules() => self.asks_at(),
            Phase::Backup(backup) => {
                let question = backup.probe.as_ref().and_then(Probe::next);
                let down = backup.set + self.wait(backup.wait);
                Some(question.map_or(down, |question| question.min(down)))
            }
            Phase::Active(active) => match &active.going {
                Some(going) if going.is_silent() => Some(going.next()),
                going => {
                    let until = going.as_ref().map(Departing::until);
                    let others = [until, active.announcements.next(), active.tenure.end()];
                    others.into_iter().flatten().chain([active.due]).min()
                }
            },
        }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Initialize => State::Initialize,
            Phase::Backup(_) => State::Backup,
            Phase::Active(_) => State::Active,
            Phase::Fault => State::Fault,
        }
    }

    /// The priority of this node, whatever it advertises.
    #[must_use]
    pub const fn priority(&self) -> u8 {
        self.priority
    }

    /// The settings in use.
    #[must_use]
    pub fn settings(&self) -> &Arc<RouterSettings> {
        &self.settings
    }

    /// Whether it would be active but for its group.
    #[must_use]
    pub fn would_claim(&self) -> bool {
        matches!(&self.phase, Phase::Backup(backup) if backup.would_claim)
    }

    /// Whether it hands over.
    #[must_use]
    pub fn is_handing_over(&self) -> bool {
        self.purpose() == Some(Purpose::HandOver)
    }

    /// Whether it is active by a lease.
    #[must_use]
    pub fn has_lease(&self) -> bool {
        matches!(&self.phase, Phase::Active(active) if active.tenure.has_lease())
    }

    /// Whether it is active and about to give the addresses to another.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.purpose().is_some()
    }

    /// Whether it has a fault of its own, not one of its group.
    #[must_use]
    pub fn has_own_fault(&self) -> bool {
        self.faults.iter().any(|fault| *fault != Fault::Group)
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> Status {
        let active = match &self.phase {
            Phase::Backup(backup) => backup.active,
            Phase::Active(active) => self.source.map(|source| Heard {
                source,
                priority: self.advertised_priority(),
                at: active.sent,
            }),
            Phase::Initialize | Phase::Fault => None,
        };
        Status {
            settings: Arc::clone(&self.settings),
            state: self.state(),
            since: self.since,
            faults: self.faults.iter().copied().collect(),
            priority: self.advertised_priority(),
            source: self.source,
            active,
            interval: self.active_interval,
            is_handing_over: self.is_handing_over(),
            lease: self.tenancy.lease,
            counters: self.counters.clone(),
        }
    }
}

//--- Times (RFC 9568 §6.1, RFC 3768 §6.1)

impl Machine {
    /// `Skew_Time`: the lower the priority, the longer.
    #[must_use]
    pub fn skew_time(&self) -> Duration {
        let unit = match self.settings.version {
            Version::V2 => Duration::from_secs(1),
            Version::V3 => self.active_interval,
        };
        unit * (256 - u32::from(self.priority)) / 256
    }

    /// `Active_Down_Interval`: how long an active router is silent before it counts as gone.
    #[must_use]
    pub fn active_down_interval(&self) -> Duration {
        3 * self.active_interval + self.skew_time()
    }

    fn wait(&self, wait: Wait) -> Duration {
        match wait {
            Wait::Down => self.active_down_interval(),
            Wait::Skew(_) => self.skew_time(),
            Wait::Listen => self.active_interval,
            Wait::Regain => self.active_interval * 3 / 2,
        }
    }

    /// An edit has made waits shorter: a timer that should have run out already does so at this moment,
    /// and is not late.
    fn catch_up(&mut self, now: Instant) {
        let Phase::Backup(backup) = &self.phase else {
            return;
        };
        let wait = self.wait(backup.wait);
        if backup.set + wait < now
            && let Some(set) = now.checked_sub(wait)
            && let Phase::Backup(backup) = &mut self.phase
        {
            backup.set = set;
        }
    }

    /// Steps back if this router has been silent for so long that another may be active.
    fn fence(&mut self, now: Instant) {
        if self.fence_by_lease(now) {
            return;
        }
        let Phase::Active(active) = &self.phase else {
            return;
        };
        if now < active.sent + self.settings.silence_allowed() {
            return;
        }
        let late = now.saturating_duration_since(active.due);
        let leaving = self.is_handing_over();
        self.counters.pauses += 1;
        self.actions
            .push_back(Action::Report(Event::Paused { late }));
        self.release(FinalAdvertisement::Silent);
        if leaving {
            self.stop(Reason::Paused, now);
        } else {
            self.become_backup(Reason::Paused, Wait::Down, now);
        }
    }

    fn run_deadlines(&mut self, now: Instant) {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match &self.phase {
            Phase::Initialize | Phase::Fault => {}
            Phase::Backup(_) if self.tenancy.rules() => self.ask_for_lease(now),
            Phase::Backup(backup) if now < backup.set + self.wait(backup.wait) => self.ask(now),
            Phase::Backup(_) => self.active_is_down(now),
            Phase::Active(_) => self.keep_active(now),
        }
    }

    /// `Active_Down_Timer` fired (RFC 9568 §6.4.2).
    fn active_is_down(&mut self, now: Instant) {
        let interval = self.active_interval;
        let Phase::Backup(backup) = &self.phase else {
            return;
        };
        let deadline = backup.set + self.wait(backup.wait);
        let Phase::Backup(backup) = &mut self.phase else {
            return;
        };
        let late = now.saturating_duration_since(deadline);
        if late > interval && backup.wait != Wait::Listen {
            backup.set = now;
            backup.wait = Wait::Listen;
            self.counters.pauses += 1;
            self.actions
                .push_back(Action::Report(Event::Paused { late }));
            return;
        }
        let reason = match backup.wait {
            Wait::Skew(reason) => reason,
            _ if backup.preempt_from.is_some() => Reason::Preempted,
            Wait::Down | Wait::Listen | Wait::Regain => Reason::NobodyHeard,
        };
        if self.waits_for_holder(now) {
            return;
        }
        self.claim(reason, now);
    }

    /// Becomes active, or asks the group whether it may. A router that needs a lease asks for that first.
    fn claim(&mut self, reason: Reason, now: Instant) {
        if self.lacks_lease(now) {
            return;
        }
        if self.settings.group.is_none() {
            self.become_active(reason, now);
        } else if let Phase::Backup(backup) = &mut self.phase {
            backup.would_claim = true;
            self.actions.push_back(Action::WouldClaim);
        }
    }

    fn keep_active(&mut self, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        if let Some(going) = &active.going {
            if going.until() <= now {
                return self.leave(now);
            }
            if going.is_silent() {
                return self.ask_heir(now);
            }
        }
        let count = active.announcements.due(&self.settings.announce, now);
        if active.due <= now {
            self.advertise(now);
        }
        if let Some(count) = count {
            self.announce(count);
        }
    }

    /// Begins to probe, as a backup that has just been started.
    fn begin_probe(&mut self, now: Instant) {
        let listen = self.active_down_interval();
        if self.settings.probe
            && let Phase::Backup(backup) = &mut self.phase
        {
            backup.probe = Some(Probe::new(listen, now));
            self.ask(now);
        }
    }

    /// Probes for a holder of the addresses, if it is time to.
    fn ask(&mut self, now: Instant) {
        if let Phase::Backup(backup) = &mut self.phase
            && let Some(probe) = &mut backup.probe
            && probe.ask(now)
        {
            let addresses = self.all_addresses();
            self.actions.push_back(Action::Probe(addresses));
        }
    }

    /// No router was heard: true when a holder is there nevertheless, to wait for.
    fn waits_for_holder(&mut self, now: Instant) -> bool {
        let Phase::Backup(backup) = &mut self.phase else {
            return false;
        };
        let probe = backup.probe.as_mut();
        let Some(holder) = probe.and_then(|probe| probe.wait_for_holder(now)) else {
            return false;
        };
        let Holder {
            address,
            by,
            is_waited_for,
        } = holder;
        if is_waited_for {
            backup.set = now;
            backup.wait = Wait::Listen;
        }
        self.counters.duplicates += 1;
        let event = Event::AddressTaken {
            address,
            by,
            is_waited_for,
        };
        let kind = match is_waited_for {
            true => ReportKind::Taken,
            false => ReportKind::Duplicate,
        };
        self.report(kind, event, now);
        self.ask(now);
        is_waited_for
    }
}

//--- On its way out

impl Machine {
    /// Why it is on its way out, if it is.
    fn purpose(&self) -> Option<Purpose> {
        match &self.phase {
            Phase::Active(active) => active.going.as_ref().map(|going| going.purpose),
            _ => None,
        }
    }

    /// Asks the others to take over.
    fn begin_hand_over(&mut self, now: Instant) {
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
        active.tenure = Tenure::default();
        active.going = Some(Departing::new(Purpose::HandOver, now, now + limit));
        // A router that is learnt from it would have to be forgotten again.
        active.announcements = Announcements::default();
        self.actions
            .push_back(Action::Report(Event::HandOverStarted));
        self.demand(Demand::Drop);
        self.advertise(now);
    }

    /// Another one is active that has a higher priority.
    fn begin_yield(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        // A router that takes over announces itself, once more, when it hears a lower priority.
        self.advertise(now);
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        active.announcements = Announcements::default();
        active.going = Some(Departing::new(Purpose::Yield, now, now));
        self.follow(source, heard, now);
    }

    /// The reaction of a router on its way out to an advertisement.
    fn receive_while_going(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        let Some(going) = &mut active.going else {
            return;
        };
        match going.hear(source, heard.priority, active.rivalled, &self.settings, now) {
            Advice::Nothing => {}
            Advice::AdvertiseBy(at) => active.due = active.due.min(at),
            Advice::Follow => self.follow(source, heard, now),
        }
    }

    fn follow(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        let heir = Heir {
            heard: Heard {
                source,
                priority: heard.priority,
                at: now,
            },
            interval: heard.interval,
        };
        if let Phase::Active(active) = &mut self.phase
            && let Some(going) = &mut active.going
            && going.follow(heir, &self.settings, now)
        {
            self.announce(1);
        }
    }

    /// Another node says to have an address. True when that was to be expected.
    fn note_announced(&mut self, address: IpAddr, now: Instant) -> bool {
        let Phase::Active(active) = &mut self.phase else {
            return false;
        };
        let Some(going) = &mut active.going else {
            return false;
        };
        if going.note_announced(address, &self.settings, now) {
            let addresses = vec![address];
            self.actions.push_back(Action::Announce {
                addresses,
                count: 1,
            });
        }
        true
    }

    /// Has the heir announce the addresses, once its kernel has had time to get them.
    fn ask_heir(&mut self, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        let Some(going) = &mut active.going else {
            return;
        };
        let priority = match going.purpose {
            Purpose::HandOver => PRIORITY_LEAVING,
            Purpose::Yield => self.priority,
        };
        if let Some(heir) = going.ask(now) {
            active.sent = now;
            self.say_last_word(priority, heir.heard);
        }
    }

    /// The time of a router on its way out has come.
    fn leave(&mut self, now: Instant) {
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        let Some(going) = active.going.take() else {
            return;
        };
        let heir = going.heir();
        if going.purpose == Purpose::HandOver && heir.is_none() {
            let event = match self.heard_at {
                Some(_) => Event::HandOverTimedOut,
                None => Event::LeftAlone,
            };
            self.actions.push_back(Action::Report(event));
        }
        self.release(FinalAdvertisement::Silent);
        match (going.purpose, heir) {
            (Purpose::HandOver, Some(heir)) => {
                self.say_last_word(PRIORITY_LEAVING, heir.heard);
                self.stop(Reason::HandedOver(heir.heard.source), now);
            }
            (Purpose::HandOver, None) => self.stop(Reason::Stopped, now),
            (Purpose::Yield, None) => self.become_backup(Reason::Stopped, Wait::Down, now),
            (Purpose::Yield, Some(heir)) => {
                self.say_last_word(self.priority, heir.heard);
                let reason = Reason::HigherHeard(heir.heard.source);
                self.become_backup(reason, Wait::Down, now);
                if let Phase::Backup(backup) = &mut self.phase {
                    backup.active = Some(heir.heard);
                    // The time since then counts, as of any backup.
                    backup.set = heir.heard.at;
                }
                self.learn_interval(heir.heard.source, heir.interval, now);
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
    fn goodbye_interval(&self) -> Duration {
        let interval = self.settings.interval;
        let longest_skew = match self.settings.version {
            Version::V2 => Duration::from_secs(1),
            Version::V3 => interval,
        };
        longest_skew + interval / 2
    }
}

//--- From a start to a stop, and how states are entered (RFC 9568 §6.4.1)

impl Machine {
    fn start(&mut self, start: Start, now: Instant) {
        if !matches!(self.phase, Phase::Initialize) {
            return;
        }
        self.active_interval = self.settings.interval;
        if let Some(fault) = self.faults.first().copied() {
            if start == Start::Resume {
                let addresses = self.all_addresses();
                self.actions.push_back(Action::ResetFlows(addresses));
            }
            self.remove_all();
            self.phase = Phase::Fault;
            self.changed(State::Initialize, Reason::Fault(fault), now);
        } else if start == Start::Resume {
            self.become_active(Reason::Resumed, now);
        } else {
            // An owner's addresses are the node's own, and it needs them.
            if self.priority != PRIORITY_OWNER {
                self.remove_all();
            }
            self.begin(Reason::Started, now);
        }
    }

    /// RFC 9568 §6.4.1: the owner is active at once, everybody else listens first.
    fn begin(&mut self, reason: Reason, now: Instant) {
        if self.priority == PRIORITY_OWNER
            && self.settings.group.is_none()
            && !self.lacks_lease(now)
        {
            self.become_active(Reason::Owner, now);
            return;
        }
        self.become_backup(reason, Wait::Down, now);
        if self.priority == PRIORITY_OWNER {
            self.claim(Reason::Owner, now);
        } else if reason == Reason::Started {
            self.begin_probe(now);
        }
    }

    fn shut_down(&mut self, departure: Departure, now: Instant) {
        if !matches!(self.phase, Phase::Active(_)) {
            self.stop(Reason::Stopped, now);
            return;
        }
        match departure {
            Departure::HandOver => self.begin_hand_over(now),
            Departure::Release => {
                self.release(self.goodbye());
                self.stop(Reason::Stopped, now);
            }
            Departure::Swap => {
                self.leave_lease();
                self.stop(Reason::Stopped, now);
            }
        }
    }

    fn stop(&mut self, reason: Reason, now: Instant) {
        let from = self.state();
        self.phase = Phase::Initialize;
        self.demand(Demand::Drop);
        if from != State::Initialize {
            self.changed(from, reason, now);
        }
        self.actions.push_back(Action::Stopped);
    }

    fn become_active(&mut self, reason: Reason, now: Instant) {
        let from = self.state();
        self.active_interval = self.settings.interval;
        let mut announcements = Announcements::default();
        announcements.begin(&self.settings.announce, self.settings.interval, now);
        self.phase = Phase::Active(Active {
            sent: now,
            due: now,
            announcements,
            defended: None,
            rivalled: now,
            going: None,
            tenure: self.tenure(),
        });
        self.counters.become_master += 1;
        let addresses = self.settings.addresses.clone();
        self.actions.push_back(Action::AddAddresses(addresses));
        self.advertise(now);
        self.announce(self.settings.announce.count);
        // Also while advertisements decide: healthds that have just started grant the lease to the holder alone.
        self.demand(Demand::ASK);
        self.changed(from, reason, now);
    }

    /// Backup, once addresses have been released.
    fn become_backup(&mut self, reason: Reason, wait: Wait, now: Instant) {
        let from = self.state();
        self.phase = Phase::Backup(Backup::new(wait, now));
        self.demand_nothing();
        self.changed(from, reason, now);
    }

    /// Gives up the addresses. The caller says what comes after.
    fn release(&mut self, goodbye: FinalAdvertisement) {
        self.counters.release_master += 1;
        match goodbye {
            FinalAdvertisement::Advertised => self.send(PRIORITY_STOPPED),
            FinalAdvertisement::Silent => {}
        }
        let addresses = self.all_addresses();
        self.actions.push_back(Action::ResetFlows(addresses));
        self.remove_all();
    }

    /// The last advertisement when addresses are given up at once. A router on the way out has sent it, and sending it
    /// again would have the others wait again.
    fn goodbye(&self) -> FinalAdvertisement {
        match self.purpose() {
            None => FinalAdvertisement::Advertised,
            Some(_) => FinalAdvertisement::Silent,
        }
    }

    fn changed(&mut self, from: State, reason: Reason, now: Instant) {
        let to = self.state();
        self.since = Some(now);
        self.actions
            .push_back(Action::StateChanged { from, to, reason });
    }
}

//--- The messages of an active router

impl Machine {
    /// To all, at what is its priority; the next follows an interval after.
    fn advertise(&mut self, now: Instant) {
        self.send(self.advertised_priority());
        let interval = self.settings.interval;
        let again = self.goodbye_interval();
        if let Phase::Active(active) = &mut self.phase {
            active.sent = now;
            if active.going.is_some() {
                active.due = now + again;
                return;
            }
            // On the beat, unless that is past or something was sent beside it.
            let beat = active.due + interval;
            let on_beat = active.due <= now && beat > now;
            active.due = if on_beat { beat } else { now + interval };
        }
    }

    fn send(&mut self, priority: u8) {
        self.counters.advert_sent += 1;
        if priority == PRIORITY_STOPPED {
            self.counters.pri_zero_sent += 1;
        }
        let guests: Vec<_> = self.guests.iter().copied().map(Audience::One).collect();
        let advertisement = Advertisement {
            version: self.settings.version,
            router_id: self.settings.router_id,
            priority,
            interval: self.settings.interval,
            addresses: self.all_addresses(),
        };
        let each = [Audience::All].into_iter().chain(guests);
        self.actions.extend(each.map(|to| Action::Send {
            advertisement: advertisement.clone(),
            to,
        }));
    }

    fn announce(&mut self, count: u8) {
        let addresses = self.all_addresses();
        self.actions
            .push_back(Action::Announce { addresses, count });
    }

    fn advertised_priority(&self) -> u8 {
        if self.is_handing_over() {
            PRIORITY_STOPPED
        } else if self.has_lease() {
            self.priority.max(PRIORITY_HOLDER)
        } else {
            self.priority
        }
    }

    fn all_addresses(&self) -> Vec<IpAddr> {
        let entries = self.settings.addresses.iter();
        entries.map(|entry| entry.address).collect()
    }

    fn remove_all(&mut self) {
        let addresses = self.settings.addresses.clone();
        self.actions.push_back(Action::RemoveAddresses(addresses));
    }
}

/// Whether a router says that it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalAdvertisement {
    Advertised,
    Silent,
}

/// True when there is no destination to send to.
fn are_unknown(peers: &Peers) -> bool {
    matches!(peers, Peers::Unicast(peers) if peers.is_empty())
}

#[cfg(test)]
mod tests;
