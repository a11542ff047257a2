//! The times of polls: polling interval, bursts, and backoff.

use super::PollRequest;
use random::Random;
use time_model::settings::{MAX_SUBSECOND_DELAY, SourceOptions};
use time_model::time::{RawTime, Span};

/// Good samples that end `iburst`, and requests that do; chrony's.
const INITIAL_BURST: (u32, u32) = (4, 8);
/// The same of `burst`.
const POLL_BURST: (u32, u32) = (1, 4);
/// The same of the burst that checks a sample which contradicts earlier ones.
const CHECK_BURST: (u32, u32) = (3, 3);
/// Between the requests of a burst, in seconds, where the polling interval is not shorter.
const BURST_INTERVAL: f64 = 2.0;
/// Between a request that goes ahead and the one that counts, in seconds; chrony's.
const AHEAD: f64 = 2.0;
/// By which part of it an interval is longer at random, so that the clients of a server do not all come at once.
const JITTER: f64 = 0.02;
/// An unanswered request adds this to the polling interval, as a power of two; so does one that is refused.
const MISSED: f64 = 0.25;
/// An answer of a server that has no time adds this: it may have one soon. chrony's.
const NO_TIME: f64 = 0.1;
/// Intervals to wait for a peer whose packet is about to come; chrony's.
const PEER_WAIT: f64 = 1.1;
/// Intervals to wait after a kiss-o'-death that says RATE, as chrony does.
const BACK_OFF: f64 = 4.0;

/// When the next request is due.
#[derive(Debug)]
pub(super) struct Schedule {
    jitter: Random,
    minpoll: i8,
    maxpoll: i8,
    /// The server asked for no less, if it ever asked.
    asked: i8,
    advised: i8,
    /// Added while there are no answers.
    penalty: f64,
    /// The burst of each start, if there is one.
    initial_burst: Option<(u32, u32)>,
    /// The burst of each poll, if there is one.
    poll_burst: Option<(u32, u32)>,
    burst_left: Option<Burst>,
    /// From this interval on a request goes ahead of each, or two.
    presend: Option<i8>,
    n_ahead: u8,
    /// The number of requests before the next one that counts, with the one that is out.
    ahead_left: u8,
    /// The wish after the last good sample. If too little was learned so far, polls are bursts, too, where the start was one. If that
    /// sample contradicted earlier ones, a burst has checked it.
    wish: Option<PollRequest>,
    /// In symmetric mode, the polls of the other side.
    peer: Option<PeerPolls>,
    is_online: bool,
    /// The server is so near that it may be asked more than once a second.
    is_near: bool,
    last: Option<RawTime>,
    next: Option<RawTime>,
}

/// The polls of the other side of symmetric mode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerPolls {
    /// Its polling interval, as a power of two in seconds, if it answered lately.
    pub(super) poll: Option<i8>,
    /// Its stratum less the own one.
    pub(super) strata_below: i16,
}

/// A burst under way.
#[derive(Clone, Copy, Debug)]
struct Burst {
    good: u32,
    total: u32,
}

impl Schedule {
    pub(super) fn new(options: &SourceOptions, jitter: Random) -> Self {
        Self {
            jitter,
            minpoll: options.minpoll,
            maxpoll: options.maxpoll,
            asked: i8::MIN,
            advised: options.minpoll,
            penalty: 0.0,
            initial_burst: options.iburst.then_some(INITIAL_BURST),
            poll_burst: options.burst.then_some(POLL_BURST),
            burst_left: None,
            presend: options.presend,
            // In interleaved mode an answer tells of the exchange before it, which is to be a good one, too.
            n_ahead: if options.xleave { 2 } else { 1 },
            ahead_left: 0,
            wish: None,
            peer: None,
            is_online: false,
            is_near: false,
            last: None,
            next: None,
        }
    }

    /// The schedule of a peer: one packet in each interval, and no burst.
    pub(super) fn of_peer(options: &SourceOptions, jitter: Random) -> Self {
        Self {
            initial_burst: None,
            poll_burst: None,
            presend: None,
            peer: Some(PeerPolls::default()),
            ..Self::new(options, jitter)
        }
    }

    /// A valid packet of the peer came.
    pub(super) fn heard(&mut self, polls: PeerPolls) {
        self.peer = Some(polls);
    }

    pub(super) fn next(&self) -> Option<RawTime> {
        self.next
    }

    pub(super) fn is_online(&self) -> bool {
        self.is_online
    }

    pub(super) fn is_bursting(&self) -> bool {
        self.burst_left.is_some()
    }

    /// Polling interval, as a power of two in seconds.
    pub(super) fn poll(&self) -> i8 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are no more than sixty-odd intervals"
        )]
        let penalty = self.penalty as i8;
        let poll = self
            .advised
            .max(self.asked)
            .max(self.minpoll.saturating_add(penalty))
            .min(self.maxpoll);
        if self.is_near { poll } else { poll.max(0) }
    }

    pub(super) fn go_online(&mut self, now: RawTime) {
        if self.is_online {
            return;
        }
        self.is_online = true;
        self.penalty = 0.0;
        if let Some(burst) = self.initial_burst {
            self.start(burst);
        }
        self.next = Some(now);
    }

    pub(super) fn go_offline(&mut self) {
        self.is_online = false;
        self.ahead_left = 0;
        self.burst_left = None;
        self.next = None;
    }

    /// chronyc's `burst`: polls an offline source, too.
    pub(super) fn burst(&mut self, good: u32, total: u32, now: RawTime) {
        if self.burst_left.is_none() && self.peer.is_none() && good > 0 && total > 0 {
            self.start((good, total));
            self.next = Some(now);
        }
    }

    fn start(&mut self, (good, total): (u32, u32)) {
        self.ahead_left = 0;
        self.burst_left = Some(Burst { good, total });
    }

    /// Whether the request that is out went ahead of one that counts: it has the network ready, and its answer is no sample.
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead_left > 0
    }

    /// A request leaves, to a server that answered one of the last eight or did not.
    pub(super) fn sent(&mut self, is_reached: bool, now: RawTime) {
        self.last = Some(now);
        if let Some(peer) = self.peer.as_mut().filter(|_| !is_reached) {
            peer.poll = None;
        }
        let is_far = self.presend.is_some_and(|presend| self.poll() >= presend);
        self.ahead_left = match self.ahead_left {
            0 if is_far && self.burst_left.is_none() => self.n_ahead,
            left => left.saturating_sub(1),
        };
        if self.is_ahead() {
            return self.plan(now);
        }
        match &mut self.burst_left {
            Some(burst) => {
                burst.total = burst.total.saturating_sub(1);
                if burst.total == 0 {
                    self.burst_left = None;
                }
            }
            None => {
                let wants_more = self.wish.is_some_and(|wish| wish.wants_more);
                let is_learning = wants_more && self.initial_burst.is_some();
                if is_reached && (is_learning || self.poll_burst.is_some()) {
                    let (good, total) = POLL_BURST;
                    self.start((good, total - 1));
                }
            }
        }
        self.plan(now);
    }

    /// The next request comes an interval after the last one.
    fn plan(&mut self, now: RawTime) {
        let Some(last) = self.last.filter(|_| self.is_online || self.is_bursting()) else {
            self.next = None;
            return;
        };
        let next = last + self.interval((now - last).seconds());
        self.next = Some(next.max(now));
    }

    /// The interval after the last request, of which `passed` seconds are over.
    fn interval(&mut self, passed: f64) -> Span {
        let whole = f64::from(self.poll()).exp2();
        let seconds = if let Some(peer) = self.peer {
            self.interval_of_peer(peer, passed)
        } else if self.is_ahead() {
            AHEAD.min(whole)
        } else if self.is_bursting() {
            BURST_INTERVAL.min(whole)
        } else {
            whole
        };
        Span::from_seconds(seconds * (1.0 + JITTER * self.jitter.unit()))
    }

    /// As chronyd has it, both sides poll at the shorter of their intervals. The side with the better stratum waits for the
    /// packet of the other one, and answers it at once, so that the other one measures a short exchange. Equal ones send
    /// halfway between the packets of each other.
    fn interval_of_peer(&self, peer: PeerPolls, passed: f64) -> f64 {
        let poll = self.poll();
        let poll = peer
            .poll
            .map_or(poll, |other| poll.min(other.max(self.minpoll)));
        let whole = f64::from(poll).exp2();
        let is_early = passed * PEER_WAIT < whole;
        let is_past_half = passed > whole * (PEER_WAIT - 0.5);
        match peer.strata_below {
            1.. if is_early => whole * PEER_WAIT,
            0 if is_past_half => whole * PEER_WAIT,
            _ => whole,
        }
    }

    /// The last request was not answered.
    pub(super) fn missed(&mut self) {
        self.add_penalty(MISSED);
    }

    /// It was refused: no burst.
    pub(super) fn refused(&mut self, now: RawTime) {
        self.burst_left = None;
        self.add_penalty(MISSED);
        self.plan(now);
    }

    /// It was answered by a server that has no time.
    pub(super) fn answered_without_time(&mut self, now: RawTime) {
        self.add_penalty(NO_TIME);
        self.plan(now);
    }

    fn add_penalty(&mut self, penalty: f64) {
        let most = f64::from(self.maxpoll) - f64::from(self.minpoll);
        self.penalty = (self.penalty + penalty).min(most);
    }

    /// It was.
    pub(super) fn answered(&mut self, now: RawTime) {
        self.penalty = 0.0;
        self.plan(now);
    }

    /// And it gave a good sample. More of them may still be of use.
    pub(super) fn satisfied(&mut self, wish: PollRequest, now: RawTime) {
        let before = self.wish.replace(wish);
        let has_checked = before.is_some_and(|wish| wish.is_contradicted);
        let is_idle = self.burst_left.is_none() && self.initial_burst.is_some();
        if wish.is_contradicted && is_idle && !has_checked {
            self.start(CHECK_BURST);
        }
        if let Some(burst) = &mut self.burst_left {
            burst.good = burst.good.saturating_sub(1);
            if burst.good == 0 && !wish.wants_more {
                self.burst_left = None;
            }
        }
        self.plan(now);
    }

    pub(super) fn advise(&mut self, poll: i8) {
        self.advised = poll;
    }

    pub(super) fn is_near(&mut self, delay: f64) {
        self.is_near = delay < MAX_SUBSECOND_DELAY;
    }

    /// RATE (RFC 5905 §7.4): no burst, longer intervals permanently, and a pause.
    pub(super) fn slow_down(&mut self, asked: i8, now: RawTime) {
        self.ahead_left = 0;
        self.burst_left = None;
        self.initial_burst = None;
        self.poll_burst = None;
        self.asked = asked
            .max(self.poll().saturating_add(1))
            .clamp(self.minpoll, self.maxpoll);
        let pause = f64::from(self.poll()).exp2() * BACK_OFF;
        self.next = self
            .is_online
            .then(|| now + Span::from_seconds(pause * (1.0 + JITTER * self.jitter.unit())));
    }

    pub(super) fn limit(&mut self, minpoll: i8, maxpoll: i8) {
        self.minpoll = minpoll;
        self.maxpoll = maxpoll;
        self.asked = self.asked.min(maxpoll);
    }
}
