//! The environment that statime needs, and its forms of known values: a clock, a filter, chance, times.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use rand_core::RngCore;
use statime::Clock;
use statime::config::TimePropertiesDS;
use statime::filters::{Filter, FilterEstimate, FilterUpdate};
use statime::port::Measurement;
use statime::time::{Duration, Time};

use random::Random;
use time_model::time::{RawTime, SECOND, Span};

/// Zero of the raw clock, as statime sees it: in 2001, so that nothing before it is reached.
pub(super) const EPOCH: i64 = 1_000_000_000 * SECOND;

pub(super) fn span(duration: std::time::Duration) -> Span {
    Span(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

pub(super) fn time(at: RawTime) -> Time {
    Time::from_nanos(u64::try_from(at.0.saturating_add(EPOCH)).unwrap_or(0))
}

pub(super) fn nanoseconds(time: Time) -> i64 {
    i64::try_from((time - Time::from_nanos(0)).nanos_rounded()).unwrap_or(i64::MAX)
}

/// Raw time − the master's, without statime's zero.
pub(super) fn offset(offset: Duration) -> Option<i64> {
    i64::try_from(offset.nanos_rounded())
        .ok()?
        .checked_sub(EPOCH)
}

/// Measurements, in the order in which they were taken.
#[derive(Debug)]
pub(super) enum Recorded {
    /// Another master.
    Reset,
    /// A message of the one that is followed.
    Measured(Measurement),
}

/// A filter that passes everything on, and leaves the clock alone.
#[derive(Debug)]
pub struct Recorder(Rc<RefCell<VecDeque<Recorded>>>);

impl Filter for Recorder {
    type Config = Queue;

    fn new(queue: Self::Config) -> Self {
        Self(queue.0)
    }

    fn measurement<C: Clock>(&mut self, measurement: Measurement, _: &mut C) -> FilterUpdate {
        self.0
            .borrow_mut()
            .push_back(Recorded::Measured(measurement));
        FilterUpdate::default()
    }

    fn update<C: Clock>(&mut self, _: &mut C) -> FilterUpdate {
        FilterUpdate::default()
    }

    fn demobilize<C: Clock>(self, _: &mut C) {
        self.0.borrow_mut().push_back(Recorded::Reset);
    }

    fn current_estimates(&self) -> FilterEstimate {
        FilterEstimate {
            offset_from_master: Duration::ZERO,
            mean_delay: Duration::ZERO,
        }
    }
}

/// The target of a [`Recorder`].
#[derive(Clone, Debug, Default)]
pub struct Queue(pub(super) Rc<RefCell<VecDeque<Recorded>>>);

/// The raw clock, which cannot be set.
#[derive(Debug)]
pub(super) struct RawClock(pub(super) Rc<Cell<RawTime>>);

impl Clock for RawClock {
    type Error = Infallible;

    fn now(&self) -> Time {
        time(self.0.get())
    }

    fn step_clock(&mut self, _: Duration) -> Result<Time, Self::Error> {
        Ok(self.now())
    }

    fn set_frequency(&mut self, _: f64) -> Result<Time, Self::Error> {
        Ok(self.now())
    }

    fn set_properties(&mut self, _: &TimePropertiesDS) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Our generator as statime wants it.
#[derive(Debug)]
pub(super) struct Chance(pub(super) Random);

impl RngCore for Chance {
    fn next_u32(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.0.bits().to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    fn next_u64(&mut self) -> u64 {
        self.0.bits()
    }

    fn fill_bytes(&mut self, octets: &mut [u8]) {
        for chunk in octets.chunks_mut(8) {
            for (octet, value) in chunk.iter_mut().zip(self.0.bits().to_ne_bytes()) {
                *octet = value;
            }
        }
    }

    fn try_fill_bytes(&mut self, octets: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(octets);
        Ok(())
    }
}
