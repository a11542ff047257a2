//! Seeded runs of one session over a server that sends, a kernel that queues, and a client that reads, pauses or
//! dies. `SIM_SEED=17 cargo test delivery` replays one.
//!
//! A byte that the proxy has accepted is lost only with the client that it was for.

use super::*;
use crate::access_log::Phase;
use crate::ending::{Closing, closing};

const SEEDS: u64 = 300;
const SECOND: u64 = 125;

/// Half an hour.
const LENGTH: u64 = 1800 * SECOND;

/// Octets that the kernel takes for the client.
const SEND_BUFFER: u64 = 4000;

/// Octets in the hands of the proxy.
const PIPE: u64 = 1000;

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The client and both kernels between it and the proxy.
#[derive(Default)]
struct Client {
    dies_at: Option<u64>,
    /// Octets that it reads in a tick.
    rate: u64,
    until: u64,
    window: u64,
    /// Arrived and acknowledged, and not read.
    unread: u64,
    is_open: bool,
    /// In the proxy's kernel.
    queue: u64,
    delivered: u64,
    heard_at: u64,
    probe_at: u64,
    pause: u64,
    probes: u64,
    acknowledged_at: u64,
}

impl Client {
    fn is_dead(&self, now: u64) -> bool {
        self.dies_at.is_some_and(|at| now >= at)
    }

    fn tick(&mut self, now: u64, chance: &mut Chance) {
        if self.is_dead(now) {
            self.probe(now, false);
            return;
        }
        if now >= self.until {
            // Half of the time it reads, at any rate; else it pauses, up to five minutes.
            self.rate = if chance.one_in(2) {
                0
            } else {
                1 + chance.below(20)
            };
            self.until = now + 1 + chance.below(if self.rate == 0 { 300 } else { 20 } * SECOND);
        }
        self.unread = self.unread.saturating_sub(self.rate);
        // A window opens again once half of the buffer is free.
        if !self.is_open && self.window - self.unread >= self.window / 2 {
            self.is_open = true;
            self.heard_at = now;
        }
        if self.is_open && self.queue > 0 {
            let taken = self.queue.min(self.window - self.unread);
            self.queue -= taken;
            self.unread += taken;
            self.delivered += taken;
            self.heard_at = now;
            self.acknowledged_at = now;
            self.is_open = self.unread < self.window;
            self.probe_at = now + 25;
            self.pause = 25;
            self.probes = 0;
        }
        self.probe(now, true);
    }

    fn probe(&mut self, now: u64, is_answered: bool) {
        if self.is_open || self.queue == 0 || now < self.probe_at {
            return;
        }
        self.pause = (self.pause * 2).clamp(25, ticks(LONGEST_PAUSE));
        self.probe_at = now + self.pause;
        if is_answered {
            self.probes = 0;
            self.heard_at = now;
        } else {
            self.probes += 1;
        }
    }

    fn direction(&self, now: u64, in_hand: u64, sent: u64, is_closed: bool) -> Direction {
        Direction {
            is_closed,
            in_hand: in_hand > 0,
            sent,
            queue: Some(Queue {
                unacknowledged: self.queue,
                in_flight: self.is_open && self.queue > 0,
                is_window_closed: !self.is_open,
                is_probe_open: self.probes > 0,
                heard: now - self.heard_at,
            }),
        }
    }
}

/// How a run came out.
#[derive(Default)]
struct Outcomes {
    silent: u64,
    quiet: u64,
    delivered: u64,
    abandoned: u64,
    open: u64,
}

struct Session {
    limits: Limits,
    client: Client,
    to_send: u64,
    closes: bool,
    in_hand: u64,
    sent: u64,
    moved: u64,
    parting: Option<Cause>,
    goes_down_at: Option<u64>,
    deliveries: Deliveries,
    swapped_at: u64,
    due: Option<u64>,
}

fn session(chance: &mut Chance) -> Session {
    let mut some = |seconds: u64| {
        chance
            .one_in(2)
            .then(|| SECOND * (1 + chance.below(seconds)))
    };
    let limits = Limits {
        idle: some(400),
        client_fin: some(3),
        server_fin: None,
        client_silence: some(90),
        server_silence: None,
    };
    Session {
        limits,
        client: Client {
            dies_at: chance.one_in(3).then(|| chance.below(600 * SECOND)),
            window: 200 + chance.below(2000),
            is_open: true,
            ..Client::default()
        },
        to_send: chance.below(60_000),
        closes: chance.one_in(2),
        in_hand: 0,
        sent: 0,
        moved: 0,
        parting: None,
        goes_down_at: chance.one_in(4).then(|| chance.below(300 * SECOND)),
        deliveries: Deliveries::default(),
        swapped_at: 0,
        due: None,
    }
}

impl Session {
    /// As the workers do it: a move arms the first check if none is armed before it.
    fn tick(&mut self, now: u64, chance: &mut Chance) -> Option<Decision> {
        self.client.tick(now, chance);
        if self.parting.is_none() && self.in_hand == 0 && self.to_send > 0 && chance.one_in(8) {
            self.in_hand = self.to_send.min(1 + chance.below(PIPE));
            self.to_send -= self.in_hand;
        }
        let room = (SEND_BUFFER - self.client.queue).min(self.in_hand);
        if room > 0 {
            self.client.queue += room;
            self.in_hand -= room;
            self.sent += room;
            self.moved = now;
            self.arm(now);
        }
        if self.goes_down_at.is_some_and(|at| now >= at) && self.parting.is_none() {
            self.part(now, Cause::Down);
        }
        // A swap takes the session to a process that knows nothing of the checks before it.
        if chance.one_in(40_000) && self.parting.is_none() {
            self.deliveries = Deliveries::default();
            self.moved = now;
            self.swapped_at = now;
            self.due = None;
            self.arm(now);
        }
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        let situation = Situation {
            up: Direction {
                queue: Some(Queue::default()),
                ..Direction::default()
            },
            down: self
                .client
                .direction(now, self.in_hand, self.sent, self.is_closed()),
            moved: self.moved,
            is_parting: self.parting.is_some(),
        };
        match self.deliveries.check(now, &situation, &self.limits) {
            Decision::Check(next) => {
                assert!(
                    next.is_none_or(|next| next > now),
                    "a check that is due at once"
                );
                self.due = next;
                None
            }
            decision => Some(decision),
        }
    }

    fn arm(&mut self, now: u64) {
        let first = self.limits.first_check(now, false, self.is_closed());
        if let Some(first) = first {
            self.due = Some(self.due.map_or(first, |due| due.min(first)));
        }
    }

    fn is_closed(&self) -> bool {
        self.closes && self.to_send == 0 && self.in_hand == 0
    }

    fn part(&mut self, now: u64, cause: Cause) {
        self.to_send = 0;
        self.parting = Some(cause);
        self.moved = now;
        self.due = Some(now + 1);
    }
}

fn run(seed: u64, outcomes: &mut Outcomes) {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        chance.below(2);
    }
    let mut session = session(&mut chance);
    let mut owes_since = None;
    for now in 1..LENGTH {
        let decision = session.tick(now, &mut chance);
        let client = &session.client;
        let is_dead = client.is_dead(now);
        let owes = is_dead && client.queue > 0 && (client.is_open || client.probes > 0);
        owes_since = owes.then(|| owes_since.unwrap_or(now));
        let accepted = session.sent + session.in_hand;
        match decision {
            None => {
                if let (Some(since), Some(silence)) = (owes_since, session.limits.client_silence) {
                    let late = now - since.max(session.swapped_at);
                    assert!(
                        late <= silence + part(silence) + 300,
                        "seed {seed}: {late} ticks"
                    );
                }
                continue;
            }
            Some(Decision::Silent(Peer::Client)) => {
                assert!(is_dead, "seed {seed}: silent at {now}, though it answers");
                outcomes.silent += 1;
            }
            Some(Decision::Quiet(cause)) => {
                let gap = now - client.acknowledged_at.max(session.moved);
                let most = session.limits.idle.unwrap_or(0).max(ticks(STALL));
                let is_delivered = accepted == client.delivered;
                assert!(
                    is_delivered || gap >= most,
                    "seed {seed}: quiet after {gap} ticks"
                );
                let closing = closing(cause, Phase::Data, session.in_hand == 0);
                if closing == Closing::ResetAfterDelivery {
                    session.part(now, cause);
                    continue;
                }
                assert_eq!(closing, Closing::Orderly, "seed {seed}");
                outcomes.quiet += 1;
            }
            Some(Decision::Delivered) => {
                assert_eq!(accepted, client.delivered, "seed {seed}: bytes are lost");
                outcomes.delivered += 1;
            }
            Some(Decision::Abandoned) => {
                let gap = now - client.acknowledged_at.max(session.moved);
                assert!(
                    gap >= ticks(PARTING),
                    "seed {seed}: abandoned after {gap} ticks"
                );
                outcomes.abandoned += 1;
            }
            Some(decision) => panic!("seed {seed}: {decision:?}"),
        }
        return;
    }
    outcomes.open += 1;
}

#[test]
fn no_byte_that_was_accepted_is_lost_while_its_client_lives() {
    let mut outcomes = Outcomes::default();
    match std::env::var("SIM_SEED").map(|seed| seed.parse()) {
        Ok(Ok(seed)) => run(seed, &mut outcomes),
        _ => {
            for seed in 0..SEEDS {
                run(seed, &mut outcomes);
            }
            let Outcomes {
                silent,
                quiet,
                delivered,
                abandoned,
                open,
            } = outcomes;
            for (name, n) in [
                ("silent", silent),
                ("quiet", quiet),
                ("delivered", delivered),
                ("abandoned", abandoned),
                ("open", open),
            ] {
                assert!(n > 0, "no run was {name}");
            }
        }
    }
}
