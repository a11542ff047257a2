//! Workers whose steps a seed interleaves: when everybody has come to rest, nobody waits for room
//! that is there.

use crate::pool::tests::Numbers;

use super::*;

struct Client {
    tried: Tried,
    ticket: Option<Ticket>,
    slot: Option<Slot>,
}

struct Simulation {
    seed: u64,
    numbers: Numbers,
    bench: Bench,
    pool: Arc<Pool>,
    mailboxes: Vec<Arc<Mailbox>>,
    clients: Vec<Option<Client>>,
    /// Who waits.
    line: Vec<usize>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::new(
            Algorithm::LeastConnections,
            &["a max=1", "b max=2", "c max=1 backup"],
        );
        Self {
            seed,
            numbers: Numbers(seed),
            pool: bench.pool(),
            bench,
            mailboxes: (0..3).map(|_| Arc::default()).collect(),
            clients: Vec::new(),
            line: Vec::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.numbers.below(bound)
    }

    fn arrive(&mut self) {
        let token = self.clients.len();
        let mut client = Client {
            tried: Tried::default(),
            ticket: None,
            slot: None,
        };
        if self.below(4) == 0 {
            let at = self.below(2);
            client.tried.add(&self.pool.servers[at]);
        }
        let hint = self.bench.hint();
        let now = self.bench.now;
        match self.pool.choose(&hint, &client.tried, now) {
            Choice::Take { slot, .. } => client.slot = Some(slot),
            Choice::Nobody => panic!("seed {}", self.seed),
            Choice::Full => {
                let mailbox = &self.mailboxes[token % 3];
                let wake = Arc::clone(mailbox) as Arc<dyn Wake>;
                let wait = self
                    .pool
                    .wait(&wake, token as u64, &hint, &client.tried, now);
                match wait {
                    Wait::Take { slot, .. } => client.slot = Some(slot),
                    Wait::Waiting(ticket) => {
                        client.ticket = Some(ticket);
                        self.line.push(token);
                    }
                    other => panic!("seed {}: {other:?}", self.seed),
                }
            }
        }
        self.clients.push(Some(client));
    }

    /// One worker handles one token; false if it had none.
    fn work(&mut self, worker: usize) -> bool {
        let Some(token) = self.mailboxes[worker].take() else {
            return false;
        };
        let hint = self.bench.hint();
        let now = self.bench.now;
        let token = usize::try_from(token).unwrap();
        let Some(client) = &mut self.clients[token] else {
            return true;
        };
        let Some(ticket) = &mut client.ticket else {
            return true;
        };
        if let Choice::Take { slot, .. } = self.pool.retry(ticket, &hint, &client.tried, now) {
            client.slot = Some(slot);
            client.ticket = None;
            self.line.retain(|other| *other != token);
        }
        true
    }

    fn end(&mut self, with_slot: bool) {
        let some: Vec<usize> = (0..self.clients.len())
            .filter(|at| {
                let client = self.clients[*at].as_ref();
                client.is_some_and(|client| client.slot.is_some() == with_slot)
            })
            .collect();
        if !some.is_empty() {
            let at = some[self.below(some.len())];
            self.clients[at] = None;
            self.line.retain(|other| *other != at);
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let worker = self.below(3);
            let others = [worker, (worker + 1) % 3, (worker + 2) % 3];
            if !others.iter().any(|worker| self.work(*worker)) {
                return;
            }
        }
        panic!("seed {}: they call each other for ever", self.seed);
    }

    fn check(&self, step: usize) {
        let seed = self.seed;
        assert_eq!(self.pool.queue.waiting() as usize, self.line.len());
        assert!(!self.pool.queue.is_calling(), "seed {seed} step {step}");
        for token in &self.line {
            let client = self.clients[*token].as_ref().unwrap();
            let room = self.pool.servers.iter().any(|server| {
                !server.backup && !client.tried.contains(server) && server.has_room(self.bench.now)
            });
            assert!(!room, "seed {seed} step {step}: {token} waits for nothing");
        }
    }
}

#[test]
fn at_rest_nobody_waits_for_room_that_is_there() {
    for seed in 0..1000 {
        let mut simulation = Simulation::new(seed);
        for step in 0..120 {
            match simulation.below(8) {
                0 | 1 => simulation.arrive(),
                2 | 3 => simulation.end(true),
                4 => simulation.end(false),
                5 => simulation.pool.queue.stir(),
                6 => {
                    let worker = simulation.below(3);
                    simulation.work(worker);
                }
                _ => {
                    simulation.settle();
                    simulation.check(step);
                }
            }
        }
        simulation.clients.clear();
        assert_eq!(simulation.pool.queue.waiting(), 0);
        let mut servers = simulation.pool.servers.iter();
        assert!(servers.all(|server| server.load.sessions() == 0));
    }
}
