//! An ordinary clock of PTP (IEEE 1588-2019) that follows a grandmaster and never becomes one, without ptp4l.
//!
//! ```text
//!  socket ── datagram, stamp ──► guard ──► machine (statime) ──► path ── Observation ──► reference clock ──► timekeeper
//!     ▲                                       │
//!     └───────────── Delay_Req ◄──────────────┘             a thread of its own, for each [[ptp]] of the configuration
//! ```
//!
//! statime elects the master and runs the exchange of messages; its measurements go no further than `clocks::ptp`, which makes
//! the master's time from them. statime steers no clock: its clock is the raw clock, which cannot be set. Timestamps are put on
//! the raw clock as soon as they arrive, so that a correction of the wall clock meanwhile does not count as delay.

mod socket;

use parking_lot::Mutex;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::reading;
use clocks::refclock::Observation;
use random::Random;
use time_model::settings::PtpSettings;
use time_model::time::{RawTime, SECOND, Span};
use time_model::view::PtpView;

use clocks::ptp::guard;
use clocks::ptp::machine::{self, Machine};
use socket::{Event, Sockets};

/// Measurements that wait for the thread that keeps the time, which reads them once in `driver-poll`. A second of the fastest
/// profile has 128; more are lost, which means that the thread does not read.
const QUEUE: usize = 1024;

/// The longest that the thread sleeps: interfaces come and go, and are looked for so often.
const LONGEST_SLEEP: Span = Span(SECOND);

/// A slave, for as long as this lives.
#[derive(Debug)]
pub struct Slave {
    shared: Arc<Mutex<PtpView>>,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Slave {
    /// Opens the sockets and starts the thread. `clock` is its place among the reference clocks; `seed` gives its requests
    /// times that differ from other nodes'. Waits for an interface that is not there.
    ///
    /// # Errors
    ///
    /// The ports are taken or not allowed, or the card cannot stamp and has to.
    pub fn start(
        settings: &PtpSettings,
        clock: usize,
        seed: [u8; 16],
    ) -> io::Result<(Self, Receiver<Observation>)> {
        let sockets = match Sockets::open(settings) {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => return Err(error),
            opened => opened.ok(),
        };
        let (sender, receiver) = sync_channel(QUEUE);
        let shared = Arc::new(Mutex::new(PtpView::default()));
        let (stop, stopped) = UnixStream::pair()?;
        let worker = Worker {
            settings: settings.clone(),
            clock,
            random: Random::new(seed),
            sender,
            shared: Arc::clone(&shared),
            stopped,
        };
        let name = format!("ptp-{}", settings.interface);
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || worker.run(sockets))?;
        let slave = Self {
            shared,
            stop,
            thread: Some(thread),
        };
        Ok((slave, receiver))
    }

    /// The view for people.
    #[must_use]
    pub fn view(&self) -> PtpView {
        self.shared.lock().clone()
    }
}

impl Drop for Slave {
    fn drop(&mut self) {
        // The thread is gone, or will be.
        if self.stop.shutdown(Shutdown::Both).is_ok()
            && let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The thread that follows PTP has failed");
        }
    }
}

/// The thread.
struct Worker {
    settings: PtpSettings,
    clock: usize,
    random: Random,
    sender: SyncSender<Observation>,
    shared: Arc<Mutex<PtpView>>,
    stopped: UnixStream,
}

/// Why a thread has left its loop.
enum Left {
    /// It has to end.
    Stopped,
    /// The interface is gone, or another has its name.
    Gone,
}

impl Worker {
    fn run(mut self, mut sockets: Option<Sockets>) {
        loop {
            let interface = &self.settings.interface;
            if let Some(mut open) = sockets.take() {
                tracing::info!(
                    interface,
                    hardware = open.is_hardware(),
                    domain = self.settings.domain,
                    "Following PTP"
                );
                match self.follow(&mut open) {
                    Ok(Left::Stopped) => return,
                    Ok(Left::Gone) => {
                        tracing::warn!(interface = self.settings.interface, "Interface is gone");
                    }
                    Err(error) => {
                        tracing::warn!(interface = self.settings.interface, %error, "PTP failed");
                    }
                }
            }
            if wait(&[self.stopped.as_fd()], LONGEST_SLEEP).is_ok_and(|ready| ready == [true]) {
                return;
            }
            sockets = Sockets::open(&self.settings).ok();
        }
    }

    /// Until the interface is gone.
    fn follow(&mut self, sockets: &mut Sockets) -> io::Result<Left> {
        let instance = machine::instance(&self.settings, sockets.identity());
        let random = self.random.fork();
        let mut machine = Machine::new(&instance, &self.settings, random, reading().raw);
        loop {
            while let Some(message) = machine.poll_transmit() {
                let sent = sockets.send(&message.octets, message.is_event, message.is_peer);
                // A link that is down comes up again; then the next request is sent.
                if let (Ok(Some(key)), Some(context)) = (sent, message.context) {
                    machine.sent(key, context);
                }
            }
            self.publish(&mut machine);
            let now = reading().raw;
            let sleep = (machine.poll_timeout() - now).clamp(Span::ZERO, LONGEST_SLEEP);
            let [stop, event, general] = self.sleep(sockets, sleep)?;
            if stop {
                return Ok(Left::Stopped);
            }
            let now = reading();
            if event || general {
                sockets.receive(|event| match event {
                    Event::Received { octets, at } => {
                        if guard::admits(octets) {
                            machine.handle_event(octets, at, now.raw);
                        }
                    }
                    Event::General { octets } => {
                        if guard::admits(octets) {
                            machine.handle_general(octets, now.raw);
                        }
                    }
                    Event::Sent { key, at } => machine.handle_sent(key, at, now.raw),
                });
            }
            if !sockets.is_there() {
                return Ok(Left::Gone);
            }
            sockets.keep_stamps();
            machine.handle_timeout(now.raw);
        }
    }

    fn sleep(&self, sockets: &Sockets, longest: Span) -> io::Result<[bool; 3]> {
        let [event, general] = sockets.descriptors();
        let ready = wait(&[self.stopped.as_fd(), event, general], longest)?;
        let at = |index: usize| ready.get(index).copied().unwrap_or(false);
        Ok([at(0), at(1), at(2)])
    }

    /// Hands on what was measured.
    fn publish(&self, machine: &mut Machine<'_>) {
        let view = machine.view(self.clock, &self.settings, reading());
        let mut shared = self.shared.lock();
        if *shared != view {
            *shared = view;
        }
        drop(shared);
        while let Some(told) = machine.poll_observation() {
            match self.sender.try_send(told) {
                // A reader that does not read has gone, or will.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

/// Waits until one of them has something, and which do.
fn wait(descriptors: &[std::os::fd::BorrowedFd<'_>], longest: Span) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let longest = Duration::from_nanos(u64::try_from(longest.0).unwrap_or(0));
    let longest = Timespec::try_from(longest).unwrap_or_default();
    match rustix::event::poll(&mut polled, Some(&longest)) {
        // A signal; nothing is lost.
        Err(rustix::io::Errno::INTR) | Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// The raw time of a timestamp of the wall clock; nothing if the wall clock was stepped between, as it must have been if the
/// timestamp is not recent.
fn on_raw(wall: time_model::time::UnixTime) -> Option<RawTime> {
    let now = reading();
    let age = now.wall - wall;
    (Span::ZERO..Span(SECOND))
        .contains(&age)
        .then(|| now.raw - age)
}
