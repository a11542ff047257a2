//! Nobody waits while there is room, nobody is overtaken, nobody is forgotten.

mod races;
mod simulation;

use std::collections::VecDeque;

use crate::pool::tests::Bench;
use crate::pool::{Algorithm, Choice, Pool, Slot, Tried, Wait};

use super::*;

/// Tokens that were called, in order.
#[derive(Debug, Default)]
struct Mailbox(Mutex<VecDeque<u64>>);

impl Mailbox {
    fn take(&self) -> Option<u64> {
        self.0.lock().pop_front()
    }

    fn all(&self) -> Vec<u64> {
        self.0.lock().drain(..).collect()
    }
}

impl Wake for Mailbox {
    fn wake(&self, token: u64) {
        self.0.lock().push_back(token);
    }
}

/// A pool, and a worker's mailbox.
struct Waiting {
    bench: Bench,
    pool: Arc<Pool>,
    mailbox: Arc<Mailbox>,
    wake: Arc<dyn Wake>,
}

impl Waiting {
    fn new(servers: &[&str]) -> Self {
        let mut bench = Bench::new(Algorithm::LeastConnections, servers);
        let mailbox = Arc::new(Mailbox::default());
        Self {
            pool: bench.pool(),
            bench,
            wake: Arc::clone(&mailbox) as Arc<dyn Wake>,
            mailbox,
        }
    }

    fn choose(&mut self) -> Option<Slot> {
        match self.bench.choose(&self.pool, &Tried::default()) {
            Choice::Take { slot, .. } => Some(slot),
            Choice::Full => None,
            Choice::Nobody => panic!("there are servers"),
        }
    }

    fn wait_with(&mut self, token: u64, tried: &Tried) -> Wait {
        let hint = self.bench.hint();
        self.pool
            .wait(&self.wake, token, &hint, tried, self.bench.now)
    }

    fn wait(&mut self, token: u64) -> Ticket {
        match self.wait_with(token, &Tried::default()) {
            Wait::Waiting(ticket) => ticket,
            other => panic!("{token}: {other:?}"),
        }
    }

    fn retry_with(&mut self, ticket: &mut Ticket, tried: &Tried) -> Option<Slot> {
        let hint = self.bench.hint();
        match self.pool.retry(ticket, &hint, tried, self.bench.now) {
            Choice::Take { slot, .. } => Some(slot),
            _ => None,
        }
    }

    fn retry(&mut self, ticket: &mut Ticket) -> Option<Slot> {
        self.retry_with(ticket, &Tried::default())
    }

    fn assert_quiet(&self) {
        let called = self.mailbox.all();
        assert!(called.is_empty(), "called: {called:?}");
    }
}

#[test]
fn the_first_that_waits_is_called_when_a_session_ends() {
    let mut waiting = Waiting::new(&["a max=1"]);
    let slot = waiting.choose().unwrap();
    assert!(waiting.choose().is_none());
    let mut first = waiting.wait(1);
    let mut second = waiting.wait(2);
    assert_eq!(waiting.pool.queue.waiting(), 2);
    waiting.assert_quiet();

    drop(slot);
    assert_eq!(waiting.mailbox.all(), [1]);
    assert!(first.is_called() && !second.is_called());
    // The room is the first one's, whoever else comes.
    assert!(waiting.choose().is_none());
    assert!(waiting.retry(&mut second).is_none());
    let slot = waiting.retry(&mut first).unwrap();
    assert_eq!(waiting.pool.queue.waiting(), 1);
    waiting.assert_quiet();

    drop(slot);
    assert_eq!(waiting.mailbox.all(), [2]);
    let slot = waiting.retry(&mut second).unwrap();
    assert_eq!(waiting.pool.queue.waiting(), 0);
    drop(slot);
    assert!(waiting.choose().is_some());
}

#[test]
fn each_session_that_ends_calls_one() {
    let mut waiting = Waiting::new(&["a max=3"]);
    let mut slots: Vec<Slot> = (0..3).map(|_| waiting.choose().unwrap()).collect();
    let mut tickets: Vec<Ticket> = (0..5).map(|token| waiting.wait(token)).collect();
    slots.truncate(1);
    assert_eq!(waiting.mailbox.all(), [0, 1]);
    // The later one is faster.
    slots.push(waiting.retry(&mut tickets[1]).unwrap());
    slots.push(waiting.retry(&mut tickets[0]).unwrap());
    waiting.assert_quiet();
    assert_eq!(waiting.pool.queue.waiting(), 3);
}

#[test]
fn who_gives_up_hands_its_call_on() {
    let mut waiting = Waiting::new(&["a max=1"]);
    let slot = waiting.choose().unwrap();
    let first = waiting.wait(1);
    let second = waiting.wait(2);
    let mut third = waiting.wait(3);
    drop(second);
    drop(slot);
    assert_eq!(waiting.mailbox.all(), [1]);
    drop(first);
    assert_eq!(waiting.mailbox.all(), [3]);
    assert!(waiting.retry(&mut third).is_some());
    drop(third);
    assert_eq!(waiting.pool.queue.waiting(), 0);
}

#[test]
fn a_session_that_ends_while_all_are_called_is_remembered() {
    let mut waiting = Waiting::new(&["a max=2"]);
    let slot = waiting.choose().unwrap();
    let other = waiting.choose().unwrap();
    let mut only = waiting.wait(1);
    drop(slot);
    assert_eq!(waiting.mailbox.all(), [1]);
    // Somebody who does not ask has the room.
    let taken = waiting.pool.servers[0].load.adopt();
    only.decline(false);
    waiting.assert_quiet();
    drop(taken);
    assert_eq!(waiting.mailbox.all(), [1]);
    drop(other);
    // It looked before the second session ended, and says so after: it must look again.
    only.decline(false);
    assert_eq!(waiting.mailbox.all(), [1]);
    assert!(only.is_called());
    assert!(waiting.retry(&mut only).is_some());
}

#[test]
fn who_begins_to_wait_while_a_session_ends_is_called() {
    let waiting = Waiting::new(&["a max=1"]);
    let queue = &waiting.pool.queue;
    // It looked before the session ended, and waits after that.
    let mut ticket = None;
    queue.free(|| ticket = queue.enter(&waiting.wake, 7));
    assert!(ticket.unwrap().is_called());
    assert_eq!(waiting.mailbox.all(), [7]);
}

#[test]
fn who_cannot_use_the_room_lets_the_next_one_try() {
    let mut waiting = Waiting::new(&["a max=1", "b max=1"]);
    let (a, b) = (waiting.choose().unwrap(), waiting.choose().unwrap());
    let mut tried = Tried::default();
    tried.add(&waiting.pool.servers[0]);
    let Wait::Waiting(mut first) = waiting.wait_with(1, &tried) else {
        panic!("b is full");
    };
    let mut second = waiting.wait(2);
    drop(a);
    assert_eq!(waiting.mailbox.all(), [1]);
    assert!(waiting.retry_with(&mut first, &tried).is_none());
    assert_eq!(waiting.mailbox.all(), [2]);
    let a = waiting.retry(&mut second).unwrap();
    // It has kept its place.
    let third = waiting.wait(3);
    drop(b);
    assert_eq!(waiting.mailbox.all(), [1]);
    assert!(waiting.retry_with(&mut first, &tried).is_some());
    drop((a, third));
}

#[test]
fn room_that_nobody_in_line_can_use_is_anybodys() {
    let mut waiting = Waiting::new(&["a max=1", "b max=1"]);
    let (a, _b) = (waiting.choose().unwrap(), waiting.choose().unwrap());
    let mut tried = Tried::default();
    tried.add(&waiting.pool.servers[0]);
    let Wait::Waiting(mut first) = waiting.wait_with(1, &tried) else {
        panic!("b is full");
    };
    drop(a);
    assert!(waiting.choose().is_none());
    assert!(waiting.retry_with(&mut first, &tried).is_none());
    assert!(waiting.choose().is_some());
}

#[test]
fn the_queue_is_bounded() {
    let mut waiting = Waiting::new(&["a max=1"]);
    waiting.bench.settings.queue = 2;
    waiting.pool = waiting.bench.pool();
    let _slot = waiting.choose().unwrap();
    let first = waiting.wait(1);
    let _second = waiting.wait(2);
    let tried = Tried::default();
    assert!(matches!(waiting.wait_with(3, &tried), Wait::Overflow));
    drop(first);
    let _third = waiting.wait(3);
    let queue = &waiting.pool.queue;
    assert_eq!(
        (
            queue.waiting(),
            queue.most_waiting(),
            queue.total(),
            queue.overflows()
        ),
        (2, 2, 3, 1)
    );
    waiting.bench.settings.queue = 0;
    waiting.pool = waiting.bench.pool();
    assert!(matches!(waiting.wait_with(4, &tried), Wait::Overflow));
}

#[test]
fn nobody_waits_for_nobody() {
    let mut waiting = Waiting::new(&["a max=1", "b drain"]);
    let mut tried = Tried::default();
    tried.add(&waiting.pool.servers[0]);
    assert!(matches!(waiting.wait_with(1, &tried), Wait::Nobody));
    assert_eq!(waiting.pool.queue.waiting(), 0);
    // And there may be room after all.
    assert!(matches!(
        waiting.wait_with(1, &Tried::default()),
        Wait::Take { index: 0, .. }
    ));
    assert_eq!(waiting.pool.queue.waiting(), 0);
}

#[test]
fn new_room_is_given_out_along_the_line() {
    let mut waiting = Waiting::new(&["a max=1"]);
    let slot = waiting.choose().unwrap();
    let mut tickets: Vec<Ticket> = (0..4).map(|token| waiting.wait(token)).collect();
    waiting.bench.server("a").max_connections = Some(3);
    waiting.pool = waiting.bench.pool();
    waiting.pool.queue.stir();
    let mut slots = vec![slot];
    for (token, ticket) in (0..2).zip(&mut tickets) {
        assert_eq!(waiting.mailbox.all(), [token]);
        slots.extend(waiting.retry(ticket));
    }
    assert_eq!(slots.len(), 3);
    waiting.assert_quiet();
    assert_eq!(waiting.pool.queue.waiting(), 2);
}

#[test]
fn a_server_without_a_limit_is_not_waited_for() {
    let mut waiting = Waiting::new(&["a max=1", "b"]);
    let slots: Vec<Slot> = (0..9).map(|_| waiting.choose().unwrap()).collect();
    assert_eq!(waiting.pool.servers[0].load.sessions(), 1);
    drop(slots);
}
