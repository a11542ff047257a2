//! The shell of reference clocks: opens what they are read from, and reads it.
//!
//! It lives in the thread that keeps the time and never waits: a driver is read when its time has come, a socket when the poll
//! loop says that it has something. A slave of PTP has a thread of its own, and what it tells is read like any other driver.

mod local;
pub mod nic;
pub mod phc_device;
#[cfg(feature = "ptp")]
pub mod ptp;
mod ptp4l;
mod pulses;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
#[cfg(feature = "ptp")]
use std::sync::mpsc::Receiver;

#[cfg(feature = "ptp")]
use crate::ptp::Slave;
use time_model::settings::{RefclockDriver, RefclockSettings};
use time_model::time::{RawTime, Reading, UnixTime};
use time_model::view::{Leap, PtpView};

use clocks::refclock::{Context, Observation, Observed, ReferenceClock, Scale, pps, shm, sock};
use time_model::sample::ClockSample;

use pulses::Pulses;

use phc_device::Phc;
use ptp4l::Ptp4l;
use sys::device;

/// Datagrams taken from one socket at one turn of the loop; the rest waits for the next turn.
const AT_ONCE: usize = 64;

/// The raw and the wall clock at one moment, as nearly as can be.
fn reading() -> Reading {
    let (raw, wall) = sys::clock::raw_and_wall();
    Reading {
        raw: RawTime(raw),
        wall: UnixTime(wall),
    }
}

/// The result of reading a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// Its place in the configuration.
    pub clock: usize,
    /// Its sample; none if it had nothing to say since the last one.
    pub sample: Option<ClockSample>,
}

/// Returns an unpredictable seed, for a PTP timeReceiver.
pub type Seed = fn() -> io::Result<[u8; 16]>;

/// All reference clocks of the configuration.
#[derive(Debug, Default)]
pub struct Clocks {
    clocks: Vec<Clock>,
}

/// One of them.
#[derive(Debug)]
struct Clock {
    core: ReferenceClock,
    /// None if it could not be opened.
    driver: Option<Driver>,
}

/// A clock that cannot be read.
#[derive(Debug)]
pub struct Failure {
    /// Its place in the configuration.
    pub clock: usize,
    /// The error of the system.
    pub error: io::Error,
}

impl Clocks {
    /// Opens all of them; reports those that fail to open, which stay silent.
    #[must_use]
    pub fn open(settings: &[RefclockSettings], now: Reading, seed: Seed) -> (Self, Vec<Failure>) {
        let mut failures = Vec::new();
        let mut clocks = Vec::new();
        for (index, settings) in settings.iter().enumerate() {
            let driver = match Driver::open(&settings.driver, index, seed) {
                Ok(driver) => Some(driver),
                Err(error) => {
                    failures.push(Failure {
                        clock: index,
                        error,
                    });
                    None
                }
            };
            let core = ReferenceClock::new(settings.clone(), now);
            clocks.push(Clock { core, driver });
        }
        (Self { clocks }, failures)
    }

    /// The descriptors for the poll loop: the place of a clock, and a descriptor that may get something to read.
    pub fn descriptors(&self) -> impl Iterator<Item = (usize, RawFd)> {
        let descriptor = |clock: &Clock| clock.driver.as_ref()?.descriptor();
        self.clocks
            .iter()
            .enumerate()
            .filter_map(move |(index, clock)| Some((index, descriptor(clock)?)))
    }

    /// When [`Self::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<RawTime> {
        let timeouts = self.clocks.iter().map(|clock| clock.core.poll_timeout());
        timeouts.min()
    }

    /// A descriptor of [`Self::descriptors`] has something to read.
    pub fn handle_readable(&mut self, clock: usize, context: &Context) {
        let Some(readable) = self.clocks.get_mut(clock) else {
            return;
        };
        let driver = readable.driver.as_mut();
        let told = driver.map(|driver| driver.receive(context.rate));
        self.tell(clock, &told.unwrap_or_default(), context);
    }

    /// A descriptor of [`Self::descriptors`] has failed, and does so from now on: its clock is closed, and stays silent.
    pub fn close(&mut self, clock: usize) {
        if let Some(failed) = self.clocks.get_mut(clock) {
            failed.driver = None;
        }
    }

    /// Reads what is due; gives what has become of it.
    pub fn handle_timeout(&mut self, context: &Context, now: Reading) -> Vec<Output> {
        let mut outputs = Vec::new();
        for index in 0..self.clocks.len() {
            let Some(clock) = self.clocks.get_mut(index) else {
                break;
            };
            let due = clock.core.handle_timeout(now);
            if due.read {
                let driver = clock.driver.as_mut();
                let told = driver.map(|driver| driver.read(context.rate));
                self.tell(index, &told.unwrap_or_default(), context);
            }
            if due.make
                && let Some(clock) = self.clocks.get_mut(index)
            {
                outputs.push(Output {
                    clock: index,
                    sample: clock.core.make(),
                });
            }
        }
        outputs
    }

    /// The clocks themselves, for views.
    pub fn cores(&self) -> impl Iterator<Item = &ReferenceClock> {
        self.clocks.iter().map(|clock| &clock.core)
    }

    /// The view of each clock that follows PTP.
    pub fn ptp(&self) -> impl Iterator<Item = PtpView> {
        let clocks = self.clocks.iter().enumerate();
        clocks.filter_map(|(index, clock)| match clock.driver.as_ref()? {
            Driver::Ptp4l(ptp4l) => Some(ptp4l.view(index)),
            #[cfg(feature = "ptp")]
            Driver::Ptp(slave, _) => Some(slave.view()),
            Driver::Phc(_)
            | Driver::Pulses(_)
            | Driver::Shm(_)
            | Driver::Sock { .. }
            | Driver::Pps(_) => None,
        })
    }

    fn tell(&mut self, index: usize, told: &[Observation], context: &Context) {
        if told.is_empty() {
            return;
        }
        let lock = self
            .clocks
            .get(index)
            .and_then(|clock| clock.core.settings().options.lock);
        let seconds = lock.and_then(|id| {
            let mut clocks = self.clocks.iter();
            let named = clocks.find(|clock| clock.core.settings().reference_id == id);
            named?.core.last()
        });
        let now = reading();
        if let Some(clock) = self.clocks.get_mut(index) {
            for told in told {
                if let Err(reason) = clock.core.tell(told, seconds, context, now) {
                    tracing::debug!(clock = index, ?reason, "Reference clock was of no use");
                }
            }
        }
    }
}

/// How one clock is read.
#[derive(Debug)]
enum Driver {
    Phc(Phc),
    Pulses(Box<Pulses>),
    Shm(Segment),
    Sock {
        socket: OwnedFd,
        path: PathBuf,
    },
    Pps(Pps),
    Ptp4l(Box<Ptp4l>),
    #[cfg(feature = "ptp")]
    Ptp(Slave, Receiver<Observation>),
}

impl Driver {
    fn open(driver: &RefclockDriver, index: usize, seed: Seed) -> io::Result<Self> {
        match driver {
            RefclockDriver::Phc { device, options } => {
                let phc = Phc::open(device, options.no_cross)?;
                match options.external_pulses {
                    Some(pulses) => Ok(Self::Pulses(Box::new(Pulses::open(phc, pulses)?))),
                    None => Ok(Self::Phc(phc)),
                }
            }
            RefclockDriver::Shm { segment, mode } => {
                let key = shm::FIRST_KEY.wrapping_add(*segment);
                Segment::attach(key, *mode).map(Self::Shm)
            }
            RefclockDriver::Sock { path } => listen(path),
            RefclockDriver::Pps { device, clear } => Pps::open(device, *clear).map(Self::Pps),
            RefclockDriver::Ptp4l { socket, domain } => {
                Ok(Self::Ptp4l(Box::new(Ptp4l::open(socket, *domain)?)))
            }
            #[cfg(feature = "ptp")]
            RefclockDriver::Ptp(settings) => {
                let (slave, receiver) = Slave::start(settings, index, seed()?)?;
                Ok(Self::Ptp(slave, receiver))
            }
            #[cfg(not(feature = "ptp"))]
            RefclockDriver::Ptp(_) => {
                tracing::error!(clock = index, "This program was built without PTP");
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Sock { socket, .. } => Some(socket.as_raw_fd()),
            Self::Ptp4l(ptp4l) => Some(ptp4l.descriptor()),
            Self::Pulses(pulses) => Some(pulses.descriptor()),
            Self::Phc(_) | Self::Shm(_) | Self::Pps(_) => None,
            #[cfg(feature = "ptp")]
            Self::Ptp(..) => None,
        }
    }

    /// Its time has come. `rate` is that of the wall clock ([`Context::rate`]).
    fn read(&mut self, rate: f64) -> Vec<Observation> {
        match self {
            Self::Phc(phc) => phc.read(rate).into_iter().collect(),
            Self::Shm(segment) => shared(segment, rate).into_iter().collect(),
            Self::Pps(pps) => pps.read(rate).into_iter().collect(),
            #[cfg(feature = "ptp")]
            Self::Ptp(_, receiver) => receiver.try_iter().take(AT_ONCE).collect(),
            Self::Ptp4l(ptp4l) => {
                ptp4l.ask();
                Vec::new()
            }
            Self::Pulses(pulses) => {
                pulses.read();
                Vec::new()
            }
            Self::Sock { .. } => Vec::new(),
        }
    }

    /// Its descriptor has something.
    fn receive(&mut self, rate: f64) -> Vec<Observation> {
        match self {
            Self::Sock { socket, .. } => received(socket, rate),
            Self::Ptp4l(ptp4l) => ptp4l.receive(rate),
            Self::Pulses(pulses) => pulses.receive(),
            Self::Phc(_) | Self::Shm(_) | Self::Pps(_) => Vec::new(),
            #[cfg(feature = "ptp")]
            Self::Ptp(..) => Vec::new(),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Self::Sock { path, .. } = self {
            // A writer notices so that the listener is gone. A path that is gone already is no error.
            drop(std::fs::remove_file(path));
        }
    }
}

/// A reading of a clock at a time of the wall clock, which has gained this many parts per billion since: that may be seconds
/// ago.
fn told(wall: UnixTime, clock: UnixTime, leap: Leap, rate: f64) -> Observation {
    Observation {
        at: reading().raw_at(wall, rate),
        what: Observed::Time {
            time: clock,
            scale: Scale::Configured,
        },
        dispersion: 0.0,
        leap,
    }
}

//--- SHM

/// A segment that another program writes to.
type Segment = sys::shared::Segment<{ shm::SIZE / 4 }>;

/// The words of a segment as octets, in the order of memory.
fn octets(words: &[u32; shm::SIZE / 4]) -> [u8; shm::SIZE] {
    let mut octets = [0; shm::SIZE];
    for (place, word) in octets.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    octets
}

fn shared(segment: &Segment, rate: f64) -> Option<Observation> {
    let copy = segment.copy();
    // Read once more: a writer that has counted meanwhile has changed the copy under way.
    let count = segment.word(shm::COUNT / 4).cast_signed();
    let decoded = shm::decode(&octets(&copy), count);
    if decoded != Err(shm::NoSample::NotValid) {
        // Tells the writer that the sample was read.
        segment.set_word(shm::VALID / 4, 0);
    }
    let sample = decoded.ok()?;
    Some(told(sample.received, sample.clock, sample.leap, rate))
}

//--- SOCK

fn listen(path: &Path) -> io::Result<Driver> {
    // The socket of an earlier run is in the way.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let socket = local::bind(Some(path))?;
    let path = path.to_owned();
    Ok(Driver::Sock { socket, path })
}

fn received(socket: &OwnedFd, rate: f64) -> Vec<Observation> {
    // One octet more, so that what is too long is not taken for a sample.
    let mut buffer = [0; sock::SIZE + 1];
    let mut all = Vec::new();
    for _ in 0..AT_ONCE {
        let Ok(length) = local::receive(socket, &mut buffer) else {
            break;
        };
        let Some(sample) = buffer.get(..length).and_then(sock::decode) else {
            continue;
        };
        let mut told = told(sample.local, sample.clock(), sample.leap, rate);
        if sample.is_pulse {
            told.what = Observed::Pulse {
                time: sample.clock(),
            };
        }
        all.push(told);
    }
    all
}

//--- PPS

/// Pulses.
#[derive(Debug)]
struct Pps {
    device: OwnedFd,
    clear: bool,
    last: u32,
}

impl Pps {
    fn open(device: &Path, clear: bool) -> io::Result<Self> {
        let device = device::open(device)?;
        let mut parameters = pps::parameters(clear);
        device::request(&device, pps::SET_PARAMETERS, &mut parameters)?;
        Ok(Self {
            device,
            clear,
            last: 0,
        })
    }

    fn read(&mut self, rate: f64) -> Option<Observation> {
        let mut answer = pps::request();
        device::request(&self.device, pps::FETCH, &mut answer).ok()?;
        let pulse = pps::decode(&answer, self.clear)?;
        if pulse.sequence == std::mem::replace(&mut self.last, pulse.sequence) {
            return None;
        }
        Some(Observation {
            what: Observed::Pulse { time: UnixTime(0) },
            ..told(pulse.at, pulse.at, Leap::Normal, rate)
        })
    }
}

#[cfg(test)]
mod tests;
