//! A paced load of queries that counts what is lost and what is wrong.
//!
//! A query is lost if it has no answer within `PATIENCE`, the time after which a stub resolver
//! asks again: no client retries here.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::dns::{Message, Question, check};

/// The questions, in turn, and the expected answer of each.
pub struct Mix {
    /// The questions.
    pub questions: Vec<Question>,
    /// Says what is wrong with an answer to one of them.
    pub judge: Box<dyn Fn(&Question, &Message) -> Result<(), String> + Send>,
}

/// A load that runs until it is stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    pub sent: u64,
    pub answered: u64,
    /// Questions that had no answer in time, with the time since the start at which they were sent.
    pub lost: Vec<(Duration, String)>,
    /// The mistakes of answers, each kind once, with its number.
    pub wrong: BTreeMap<String, u64>,
    /// The longest time to an answer.
    pub slowest: Duration,
}

impl Report {
    /// Fails unless every query has had a right answer.
    ///
    /// # Panics
    ///
    /// Panics with the first losses and mistakes.
    #[track_caller]
    pub fn assert_clean(&self) {
        let lost = &self.lost[..self.lost.len().min(5)];
        assert!(
            self.lost.is_empty() && self.wrong.is_empty(),
            "{} sent, {} answered, {} lost {lost:?}, wrong {:?}",
            self.sent,
            self.answered,
            self.lost.len(),
            self.wrong
        );
        assert!(self.sent > 0, "nothing was asked");
    }
}

impl Load {
    /// Begins to ask `server` `rate` questions in a second.
    ///
    /// # Panics
    ///
    /// Panics if there are no sockets to be had.
    #[must_use]
    pub fn start(server: SocketAddr, rate: u32, mix: Mix) -> Self {
        Self::start_patient(server, rate, mix, PATIENCE)
    }

    /// The same, and an answer may take as long as that: for servers that are away for a while, and whose
    /// queue has to hold what comes meanwhile.
    ///
    /// # Panics
    ///
    /// As [`Self::start`].
    #[must_use]
    pub fn start_patient(server: SocketAddr, rate: u32, mix: Mix, patience: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let any: IpAddr = if server.is_ipv4() {
            [0; 4].into()
        } else {
            [0_u16; 8].into()
        };
        let sockets = (0..SOCKETS).map(|_| {
            let socket = UdpSocket::bind((any, 0)).expect("a port is free");
            socket.connect(server).expect("loopback has a route");
            socket
                .set_nonblocking(true)
                .expect("a socket can be made non-blocking");
            socket
        });
        let flow = Flow {
            sockets: sockets.collect(),
            mix,
            patience,
            waiting: BTreeMap::new(),
            start: Instant::now(),
            next: 0,
            report: Report::default(),
        };
        let thread = std::thread::spawn(move || flow.run(rate, &stopped));
        Self { stop, thread }
    }

    /// Runs on for a while.
    #[must_use]
    pub fn go_on(self, time: Duration) -> Self {
        std::thread::sleep(time);
        self
    }

    /// Stops asking, waits for the last answers, and reports.
    ///
    /// # Panics
    ///
    /// Panics if the load did.
    #[must_use]
    pub fn stop(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load does not panic")
    }
}

struct Flow {
    sockets: Vec<UdpSocket>,
    mix: Mix,
    patience: Duration,
    /// Sent and not answered, by number of the query; its id and socket follow from that.
    waiting: BTreeMap<u64, Instant>,
    start: Instant,
    next: u64,
    report: Report,
}

impl Flow {
    fn run(mut self, rate: u32, stop: &AtomicBool) -> Report {
        let gap = Duration::from_secs(1) / rate;
        let mut due = self.start;
        let mut buffer = vec![0; 65_535];
        loop {
            let stopping = stop.load(Ordering::Relaxed);
            let now = Instant::now();
            while !stopping && due <= now {
                self.send();
                due += gap;
            }
            self.receive(&mut buffer);
            self.give_up(Instant::now());
            if stopping && self.waiting.is_empty() {
                return self.report;
            }
            std::thread::sleep(gap.min(Duration::from_micros(500)));
        }
    }

    fn send(&mut self) {
        let number = self.next;
        self.next += 1;
        let question = pick(&self.mix.questions, number);
        let wire = question.to_wire(id_of(number));
        let socket = pick(&self.sockets, number);
        self.report.sent += 1;
        // A refused port shows here as an error of an earlier datagram: this one is still to be sent.
        let sent = socket.send(&wire).or_else(|_| socket.send(&wire));
        drop(sent);
        self.waiting.insert(number, Instant::now());
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        for (index, socket) in (0_u64..).zip(&self.sockets) {
            while let Ok(length) = socket.recv(buffer) {
                let wire = &buffer[..length];
                let id = wire.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
                let found = self
                    .waiting
                    .iter()
                    .find(|(number, _)| id_of(**number) == id && **number % SOCKETS == index);
                let Some((&number, &sent)) = found else {
                    let kind = "an answer to nothing, or a second one".to_owned();
                    *self.report.wrong.entry(kind).or_default() += 1;
                    continue;
                };
                self.waiting.remove(&number);
                self.report.answered += 1;
                self.report.slowest = self.report.slowest.max(sent.elapsed());
                let question = pick(&self.mix.questions, number);
                let verdict = check(id, question, wire)
                    .and_then(|message| (self.mix.judge)(question, &message));
                if let Err(mistake) = verdict {
                    let kind = format!("{}: {mistake}", question.name);
                    *self.report.wrong.entry(kind).or_default() += 1;
                }
            }
        }
    }

    fn give_up(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry() {
            if now.duration_since(*first.get()) < self.patience {
                break;
            }
            let (number, sent) = first.remove_entry();
            let name = pick(&self.mix.questions, number).name.clone();
            self.report
                .lost
                .push((sent.duration_since(self.start), name));
        }
    }
}

fn pick<T>(list: &[T], number: u64) -> &T {
    let length = u64::try_from(list.len()).expect("lists are short");
    &list[usize::try_from(number % length).expect("an index")]
}

fn id_of(number: u64) -> u16 {
    u16::try_from(number & 0xffff).expect("sixteen bits")
}

/// How long an answer may take: what glibc and most stub resolvers wait at least.
const PATIENCE: Duration = Duration::from_secs(2);

/// Source ports in use, so that every thread of a server gets its share.
const SOCKETS: u64 = 16;
