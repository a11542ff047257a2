//! PTP hardware clocks, read through their devices.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use clocks::refclock::{Observation, Observed, Scale, phc};
use time_model::time::{RawTime, Span, UnixTime};
use time_model::view::Leap;

use crate::reading;
use sys::device as requests;

/// A hardware clock.
#[derive(Debug)]
pub struct Phc {
    pub(crate) device: OwnedFd,
    way: ReadMethod,
}

/// How it is read: the most exact way that its driver has.
#[derive(Clone, Copy, Debug)]
enum ReadMethod {
    Precise,
    Extended,
    Plain,
}

impl Phc {
    /// Opens it, and finds out how it can be read.
    pub fn open(device: &Path, no_cross: bool) -> io::Result<Self> {
        let device = requests::open(device)?;
        let ways = [ReadMethod::Precise, ReadMethod::Extended, ReadMethod::Plain];
        let mut refused = io::ErrorKind::Unsupported.into();
        for way in ways.into_iter().skip(usize::from(no_cross)) {
            let phc = Self {
                device: device.try_clone()?,
                way,
            };
            match phc.pair() {
                Ok(Some(_)) => return Ok(phc),
                Ok(None) => {}
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn pair(&self) -> io::Result<Option<phc::Pair>> {
        let head = phc::head();
        match self.way {
            ReadMethod::Precise => {
                let mut answer = [0; phc::PRECISE_SIZE];
                requests::request(&self.device, phc::PRECISE, &mut answer)?;
                Ok(phc::precise(&answer))
            }
            ReadMethod::Extended => {
                let mut answer = [0; phc::EXTENDED_SIZE];
                begin(&mut answer, &head);
                requests::request(&self.device, phc::EXTENDED, &mut answer)?;
                Ok(phc::extended(&answer))
            }
            ReadMethod::Plain => {
                let mut answer = [0; phc::PLAIN_SIZE];
                begin(&mut answer, &head);
                requests::request(&self.device, phc::PLAIN, &mut answer)?;
                Ok(phc::plain(&answer))
            }
        }
    }

    /// It and the raw clock, at one moment, and how long it took to read them.
    pub fn both(&self) -> Option<(UnixTime, RawTime, Span)> {
        let pair = self.pair().ok()??;
        // The wall clock gained next to nothing since it was read, just before.
        Some((pair.clock, raw(&pair, 0.0), pair.took))
    }

    pub fn read(&self, rate: f64) -> Option<Observation> {
        let pair = self.pair().ok()??;
        let at = raw(&pair, rate);
        Some(Observation {
            at,
            what: Observed::Time {
                time: pair.clock,
                scale: Scale::Configured,
            },
            dispersion: pair.took.seconds() / 2.0,
            leap: Leap::Normal,
        })
    }
}

/// When a pair was read, just before.
fn raw(pair: &phc::Pair, rate: f64) -> RawTime {
    match pair.system {
        phc::System::Raw(raw) => raw,
        phc::System::Wall(wall) => reading().raw_at(wall, rate),
    }
}

fn begin(answer: &mut [u8], head: &[u8]) {
    for (octet, value) in answer.iter_mut().zip(head) {
        *octet = *value;
    }
}
