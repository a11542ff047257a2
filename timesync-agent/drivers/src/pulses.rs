//! Pulses that a hardware clock stamps by itself (`extpps`).
//!
//! Both clocks are read whenever the driver is, and a stamp is put on the raw clock by the line through those readings: whether the
//! hardware clock is right does not count.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use clocks::nic::{NicClock, Rules};
use clocks::refclock::{Observation, Observed, phc};
use time_model::settings::ExternalPulses;
use time_model::time::UnixTime;
use time_model::view::Leap;

use crate::phc_device::Phc;
use sys::device;

/// How the hardware clock is followed: a line takes two readings.
const RULES: Rules = Rules {
    min_readings: 2,
    max_readings: 16,
    precision: 0.0,
};
/// Pulses that are taken at one time; the rest waits for the next turn.
const AT_ONCE: usize = 8;

/// A hardware clock that stamps pulses.
#[derive(Debug)]
pub(super) struct Pulses {
    phc: Phc,
    settings: ExternalPulses,
    line: NicClock,
}

impl Pulses {
    /// Sets the pin up.
    pub(super) fn open(phc: Phc, settings: ExternalPulses) -> io::Result<Self> {
        let pulses = Self {
            phc,
            settings,
            line: NicClock::new(RULES),
        };
        pulses.set(true)?;
        Ok(pulses)
    }

    fn set(&self, on: bool) -> io::Result<()> {
        if let Some(mut pin) = phc::pin(&self.settings, on) {
            device::request(&self.phc.device, phc::PIN, &mut pin)?;
        }
        let mut request = phc::pulses(&self.settings, on);
        device::request(&self.phc.device, phc::PULSES, &mut request)
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.phc.device.as_raw_fd()
    }

    /// Its time has come.
    pub(super) fn read(&mut self) {
        if let Some((clock, raw, took)) = self.phc.both() {
            self.line.put(clock, raw, took);
        }
    }

    /// Its descriptor has something.
    pub(super) fn receive(&mut self) -> Vec<Observation> {
        let mut octets = [0; AT_ONCE * phc::PULSE_SIZE];
        let length = device::read(&self.phc.device, &mut octets).unwrap_or(0);
        let octets = octets.get(..length).unwrap_or_default();
        told(octets, &self.settings, &self.line)
    }
}

impl Drop for Pulses {
    fn drop(&mut self) {
        // A device that is gone stamps nothing.
        drop(self.set(false));
    }
}

/// Readings of a device, of one channel; without pulses that are far from any reading, since their time is unknown.
fn told(octets: &[u8], settings: &ExternalPulses, line: &NicClock) -> Vec<Observation> {
    let ours = phc::stamps(octets).filter(|(_, channel)| *channel == settings.channel);
    let told = ours.filter_map(|(stamp, _)| {
        let (at, dispersion) = line.raw(stamp)?;
        Some(Observation {
            at,
            what: Observed::Pulse { time: UnixTime(0) },
            dispersion,
            leap: Leap::Normal,
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::{RawTime, SECOND, Span};

    #[test]
    fn stamps_are_put_on_the_raw_clock() {
        let settings = ExternalPulses {
            channel: 1,
            ..ExternalPulses::default()
        };
        let event = |at: i64, channel: u32| {
            let mut event = vec![0; phc::PULSE_SIZE];
            event[..8].copy_from_slice(&(at / SECOND).to_ne_bytes());
            let below = u32::try_from(at % SECOND).unwrap();
            event[8..12].copy_from_slice(&below.to_ne_bytes());
            event[16..20].copy_from_slice(&channel.to_ne_bytes());
            event
        };
        let mut line = NicClock::new(RULES);
        let octets = [event(101 * SECOND + 500, 1), event(101 * SECOND + 600, 0)].concat();
        line.put(UnixTime(100 * SECOND), RawTime(7 * SECOND), Span::ZERO);
        assert_eq!(
            told(&octets, &settings, &line),
            [],
            "one reading is no line"
        );
        line.put(UnixTime(101 * SECOND), RawTime(8 * SECOND), Span::ZERO);
        let all = told(&octets, &settings, &line);
        assert_eq!(all.len(), 1, "the other channel is not ours");
        assert_eq!(all[0].at, RawTime(8 * SECOND + 500));
        assert_eq!(all[0].what, Observed::Pulse { time: UnixTime(0) });
    }
}
