use std::collections::{BTreeMap, BTreeSet};

use dns_cache::testing::Random;

use super::*;

/// A query with this id.
fn query(id: u16) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[0; 10]].concat()
}

fn id(message: &[u8]) -> u16 {
    u16::from_be_bytes(*message.first_chunk().unwrap())
}

fn actions(pool: &mut Pool) -> Vec<Action> {
    std::iter::from_fn(|| pool.poll_action()).collect()
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

const FIRST: ConnectionId = ConnectionId(1);
const SECOND: ConnectionId = ConnectionId(2);

/// A pool with one open connection, which carries this query with the id 7.
fn with_one(exchange: u64) -> Pool {
    let mut pool = Pool::new(ConnectionId(0));
    pool.ask(ExchangeId(exchange), query(7), at(0));
    assert_eq!(actions(&mut pool), [Action::Open(FIRST)]);
    pool.opened(FIRST, at(10));
    assert_eq!(actions(&mut pool), [Action::Send(FIRST, query(7))]);
    pool
}

#[test]
fn one_connection_carries_many_queries_and_each_gets_its_own_response() {
    let mut pool = with_one(1);
    // Its id is taken on the connection.
    pool.ask(ExchangeId(2), query(7), at(20));
    assert_eq!(actions(&mut pool), [Action::Send(FIRST, query(8))]);
    pool.ask(ExchangeId(3), query(9), at(20));
    assert_eq!(actions(&mut pool), [Action::Send(FIRST, query(9))]);
    // In another order, and with the ids that the queries had.
    for (wire, exchange, own) in [(8, 2, 7), (9, 3, 9), (7, 1, 7)] {
        pool.received(FIRST, query(wire), at(30));
        let expected = Action::Received(ExchangeId(exchange), query(own));
        assert_eq!(actions(&mut pool), [expected]);
    }
    // Nobody has asked that, and nobody any more.
    pool.received(FIRST, query(7), at(30));
    pool.received(FIRST, vec![1], at(30));
    pool.received(SECOND, query(7), at(30));
    assert_eq!(actions(&mut pool), []);
}

#[test]
fn a_connection_that_the_server_closes_loses_no_query() {
    let mut pool = with_one(1);
    pool.received(FIRST, query(7), at(20));
    actions(&mut pool);
    pool.ask(ExchangeId(2), query(5), at(500));
    pool.ask(ExchangeId(3), query(5), at(500));
    pool.ask(ExchangeId(4), query(6), at(500));
    pool.abandon(ExchangeId(4));
    actions(&mut pool);
    // It has closed it while the queries were on their way.
    pool.ended(FIRST, Loss::Broken, at(501));
    assert_eq!(actions(&mut pool), [Action::Open(SECOND)]);
    pool.opened(SECOND, at(510));
    let again = [
        Action::Send(SECOND, query(5)),
        Action::Send(SECOND, query(6)),
    ];
    assert_eq!(actions(&mut pool), again);
    // A second time, they are lost.
    pool.ended(SECOND, Loss::Broken, at(520));
    let mut lost = actions(&mut pool);
    lost.sort_by_key(|action| format!("{action:?}"));
    let expected = [2, 3].map(|n| Action::Lost(ExchangeId(n), Loss::Broken));
    assert_eq!(lost, expected);
    assert!(pool.is_empty());
}

#[test]
fn a_server_that_takes_no_connection_loses_its_queries_at_once() {
    for loss in [
        Loss::Refused,
        Loss::Unreachable,
        Loss::Untrusted,
        Loss::Broken,
    ] {
        let mut pool = Pool::new(ConnectionId(0));
        for n in 1..4 {
            pool.ask(ExchangeId(n), query(7), at(0));
        }
        assert_eq!(actions(&mut pool), [Action::Open(FIRST)]);
        pool.abandon(ExchangeId(2));
        pool.ended(FIRST, loss, at(5));
        let expected = [1, 3].map(|n| Action::Lost(ExchangeId(n), loss));
        assert_eq!(actions(&mut pool), expected);
        // The next one tries again.
        pool.ask(ExchangeId(9), query(7), at(5));
        assert_eq!(actions(&mut pool), [Action::Open(SECOND)]);
    }
}

#[test]
fn a_server_that_takes_no_further_connection_is_not_tried_without_end() {
    let mut pool = with_one(0);
    for n in 1..PIPELINE as u64 + 5 {
        pool.ask(ExchangeId(n), query(7), at(20));
    }
    let opened = |pool: &mut Pool| {
        let actions = actions(pool);
        actions
            .iter()
            .filter(|it| matches!(it, Action::Open(_)))
            .count()
    };
    assert_eq!(opened(&mut pool), 1);
    pool.ended(SECOND, Loss::Refused, at(25));
    assert_eq!(opened(&mut pool), 0);
    let due = pool.next_deadline().unwrap();
    assert_eq!(due, at(1025));
    pool.expire(due);
    assert_eq!(opened(&mut pool), 1);
    // Meanwhile, responses make room.
    pool.received(FIRST, query(7), due);
    let sent = actions(&mut pool);
    assert!(matches!(
        sent.as_slice(),
        [Action::Received(..), Action::Send(FIRST, _)]
    ));
}

#[test]
fn an_abandoned_query_keeps_its_id_until_its_response_comes() {
    let mut pool = with_one(1);
    pool.abandon(ExchangeId(1));
    pool.ask(ExchangeId(2), query(7), at(20));
    assert_eq!(actions(&mut pool), [Action::Send(FIRST, query(8))]);
    pool.received(FIRST, query(7), at(30));
    assert_eq!(actions(&mut pool), []);
    pool.ask(ExchangeId(3), query(7), at(30));
    assert_eq!(actions(&mut pool), [Action::Send(FIRST, query(7))]);
}

#[test]
fn a_silent_connection_gets_a_successor_and_then_ends() {
    let mut pool = with_one(1);
    let stalled = at(10).after(STALL);
    pool.ask(ExchangeId(2), query(8), stalled);
    assert_eq!(actions(&mut pool), [Action::Open(SECOND)]);
    pool.opened(SECOND, stalled);
    assert_eq!(actions(&mut pool), [Action::Send(SECOND, query(8))]);
    let dead = at(10).after(DEAD);
    assert_eq!(pool.next_deadline(), Some(dead));
    pool.received(SECOND, query(8), dead);
    actions(&mut pool);
    pool.expire(dead);
    let expected = [Action::Close(FIRST), Action::Send(SECOND, query(7))];
    assert_eq!(actions(&mut pool), expected);
}

#[test]
fn a_connection_without_queries_is_closed() {
    let mut pool = with_one(1);
    pool.received(FIRST, query(7), at(100));
    actions(&mut pool);
    let idle = at(100).after(IDLE);
    pool.expire(at(99).after(IDLE));
    assert_eq!(actions(&mut pool), []);
    assert_eq!(pool.next_deadline(), Some(idle));
    pool.expire(idle);
    assert_eq!(actions(&mut pool), [Action::Close(FIRST)]);
    assert!(pool.is_empty() && pool.next_deadline().is_none());
}

#[test]
fn other_settings_let_a_connection_end_with_its_last_response() {
    let mut pool = with_one(1);
    pool.retire();
    pool.ask(ExchangeId(2), query(8), at(20));
    assert_eq!(actions(&mut pool), [Action::Open(SECOND)]);
    pool.received(FIRST, query(7), at(30));
    let ended = [
        Action::Close(FIRST),
        Action::Received(ExchangeId(1), query(7)),
    ];
    assert_eq!(actions(&mut pool), ended);
    pool.opened(SECOND, at(40));
    assert_eq!(actions(&mut pool), [Action::Send(SECOND, query(8))]);
}

#[test]
fn a_request_that_is_refused_is_lost_and_one_that_is_cut_off_goes_again() {
    let mut pool = with_one(1);
    pool.ask(ExchangeId(2), query(8), at(20));
    actions(&mut pool);
    pool.failed(FIRST, 7, Failure::Refused, at(30));
    let lost = [Action::Lost(ExchangeId(1), Loss::Broken)];
    assert_eq!(actions(&mut pool), lost);
    pool.failed(FIRST, 8, Failure::CutOff, at(30));
    assert_eq!(
        actions(&mut pool),
        [Action::Close(FIRST), Action::Open(SECOND)]
    );
}

#[test]
fn queries_and_connections_are_bounded() {
    let mut pool = Pool::new(ConnectionId(0));
    let most = MAX_CONNECTIONS * PIPELINE + MAX_WAITING;
    let (mut n_open, mut n_lost) = (0, 0);
    for n in 0..most as u64 + 10 {
        pool.ask(ExchangeId(n), query(7), at(0));
        for action in actions(&mut pool) {
            match action {
                Action::Open(id) => {
                    n_open += 1;
                    pool.opened(id, at(0));
                }
                Action::Lost(..) => n_lost += 1,
                _ => {}
            }
        }
    }
    assert_eq!((n_open, n_lost), (MAX_CONNECTIONS, 10));
    assert_eq!(pool.n_connections(), MAX_CONNECTIONS);
}

/// A server that takes, answers, delays and closes as the seed says.
struct World {
    pool: Pool,
    random: Random,
    now: u64,
    /// Connections that are being opened, and those that are open with the ids that they owe.
    opening: BTreeSet<ConnectionId>,
    open: BTreeMap<ConnectionId, BTreeSet<u16>>,
    /// Queries that wait for an outcome, and their ids.
    asked: BTreeMap<u64, u16>,
}

impl World {
    fn chance(&mut self, one_in: u64) -> bool {
        self.random.next().is_multiple_of(one_in)
    }

    fn pick(&mut self) -> Option<ConnectionId> {
        let n = u64::try_from(self.open.len()).unwrap();
        let index = usize::try_from(self.random.next() % n.max(1)).unwrap();
        self.open.keys().nth(index).copied()
    }

    fn perform(&mut self, seed: u64) {
        for action in actions(&mut self.pool) {
            match action {
                Action::Open(id) => assert!(self.opening.insert(id), "seed {seed}"),
                Action::Send(connection, message) => {
                    let owed = self.open.get_mut(&connection).unwrap();
                    assert!(owed.insert(id(&message)), "an id twice: seed {seed}");
                }
                Action::Close(id) => {
                    self.open.remove(&id);
                    self.opening.remove(&id);
                }
                Action::Received(exchange, message) => {
                    let own = self.asked.remove(&exchange.0);
                    assert_eq!(own, Some(id(&message)), "seed {seed}");
                }
                Action::Lost(exchange, _) => {
                    assert!(self.asked.remove(&exchange.0).is_some(), "seed {seed}");
                }
            }
        }
        assert!(self.open.len() <= 2 * MAX_CONNECTIONS, "seed {seed}");
        assert!(
            self.open.values().all(|owed| owed.len() <= PIPELINE),
            "seed {seed}"
        );
    }

    fn step(&mut self, n: u64, seed: u64) {
        self.now += self.random.next() % 400;
        let now = at(self.now);
        match self.random.next() % 8 {
            0..3 => {
                let own = u16::try_from(self.random.next() % 16).unwrap();
                self.asked.insert(n, own);
                self.pool.ask(ExchangeId(n), query(own), now);
            }
            3 | 4 => {
                if let Some(connection) = self.pick()
                    && let Some(owed) = self.open.get_mut(&connection).unwrap().pop_first()
                {
                    self.pool.received(connection, query(owed), now);
                }
            }
            5 => {
                if let Some(connection) = self.opening.pop_first() {
                    if self.chance(3) {
                        self.pool.ended(connection, Loss::Refused, now);
                    } else {
                        self.open.insert(connection, BTreeSet::new());
                        self.pool.opened(connection, now);
                    }
                }
            }
            6 => {
                if self.chance(4)
                    && let Some(connection) = self.pick()
                {
                    self.open.remove(&connection);
                    self.pool.ended(connection, Loss::Broken, now);
                } else if self.chance(9) {
                    self.pool.retire();
                } else if let Some((exchange, _)) = self.asked.pop_first() {
                    self.pool.abandon(ExchangeId(exchange));
                }
            }
            _ => self.pool.expire(now),
        }
        self.perform(seed);
    }
}

#[test]
fn every_query_has_one_outcome_whatever_the_server_does() {
    for seed in 0..256 {
        let mut world = World {
            pool: Pool::new(ConnectionId(0)),
            random: Random(seed),
            now: 0,
            opening: BTreeSet::new(),
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
        };
        for n in 0..600 {
            world.step(n, seed);
        }
        // The server takes no connection any more: what is left is lost, and nothing stays.
        for _ in 0..20 {
            world.now += 20_000;
            world.pool.expire(at(world.now));
            world.perform(seed);
            while let Some(connection) = world.opening.pop_first() {
                world.pool.ended(connection, Loss::Refused, at(world.now));
                world.perform(seed);
            }
        }
        assert!(world.asked.is_empty(), "seed {seed}: {:?}", world.asked);
        assert!(world.pool.is_empty(), "seed {seed}");
    }
}
