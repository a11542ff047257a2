//! Reads a temperature periodically, in a thread of its own: a sensor may be slow, and timekeeping continues.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use daemon::disk;

use crate::system::timer::Waker;
use time_model::settings::TemperatureCompensation;
use timekeeper::tempcomp::{Law, Points, Reading, TemperatureError};

/// Readings that wait for the loop. It takes them at once; if it is that far behind, one more is lost.
const QUEUE: usize = 4;
/// The longest content of a sensor's file.
const LONGEST: u64 = 256;

/// Why there is no temperature.
#[derive(Debug, thiserror::Error)]
pub enum ThermometerError {
    /// The file of points or of the sensor.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The contents.
    #[error("cannot use {}", path.display())]
    Content {
        /// The file of the error.
        path: PathBuf,
        /// Why.
        #[source]
        source: TemperatureError,
    },
}

/// A temperature that is read; none, if that is not configured. The thread ends when this goes.
#[derive(Debug, Default)]
pub struct Thermometer {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    readings: Receiver<Reading>,
    /// Ends the thread when it goes.
    _stop: SyncSender<()>,
}

impl Thermometer {
    /// Begins to read, and wakes the loop for each reading. Logs a failure; the clock continues without.
    #[must_use]
    pub fn start(settings: Option<&TemperatureCompensation>, waker: &Arc<Waker>) -> Self {
        let Some(settings) = settings else {
            return Self::default();
        };
        let law = match law(settings) {
            Ok(law) => law,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, "The frequency does not follow the temperature");
                return Self::default();
            }
        };
        let (readings, taken) = mpsc::sync_channel(QUEUE);
        let (stop, stopped) = mpsc::sync_channel(0);
        let interval = Duration::try_from_secs_f64(settings.interval).unwrap_or(Duration::MAX);
        let (path, waker) = (settings.file.clone(), Arc::clone(waker));
        let watch = move || watch(&path, &law, interval, &readings, &stopped, &waker);
        let thread = thread::Builder::new()
            .name("thermometer".to_owned())
            .spawn(watch);
        if let Err(error) = thread {
            tracing::error!(%error, "Cannot start a thread for the temperature");
            return Self::default();
        }
        Self {
            running: Some(Running {
                readings: taken,
                _stop: stop,
            }),
        }
    }

    /// The last reading, if there is one.
    pub fn reading(&self) -> Option<Reading> {
        self.running.as_ref()?.readings.try_recv().ok()
    }
}

/// The law, with its points.
///
/// # Errors
///
/// There is no file of points, or it has none.
pub fn law(settings: &TemperatureCompensation) -> Result<Law, ThermometerError> {
    let Some(path) = settings.points.clone() else {
        return Ok(Law::Quadratic {
            t0: settings.t0,
            k0: settings.k0,
            k1: settings.k1,
            k2: settings.k2,
        });
    };
    let text = match disk::read(&path) {
        Ok(octets) => octets,
        Err(source) => return Err(ThermometerError::Read { path, source }),
    };
    let points = Points::parse(&String::from_utf8_lossy(&text));
    points
        .map(Law::Points)
        .map_err(|source| ThermometerError::Content { path, source })
}

/// Reads the sensor.
///
/// # Errors
///
/// It cannot be read, says no number, or one that is not believed.
pub(crate) fn read(path: &Path, law: &Law) -> Result<Reading, ThermometerError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    let path = || path.to_owned();
    read.map_err(|source| ThermometerError::Read {
        path: path(),
        source,
    })?;
    law.read(&text).map_err(|source| ThermometerError::Content {
        path: path(),
        source,
    })
}

fn watch(
    path: &Path,
    law: &Law,
    interval: Duration,
    readings: &SyncSender<Reading>,
    stopped: &Receiver<()>,
    waker: &Waker,
) {
    // Reports a failing sensor once, and again after a success in between.
    let mut has_failed = false;
    loop {
        let reading = read(path, law);
        if let (Err(error), false) = (&reading, has_failed) {
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, "Cannot read the temperature");
        }
        has_failed = reading.is_err();
        if let Ok(reading) = reading
            && readings.try_send(reading).is_ok()
        {
            waker.wake();
        }
        match stopped.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(file: PathBuf, points: PathBuf) -> TemperatureCompensation {
        TemperatureCompensation {
            file,
            interval: 0.01,
            points: Some(points),
            ..TemperatureCompensation::default()
        }
    }

    fn next(thermometer: &Thermometer, wanted: f64) -> Reading {
        for _ in 0..2000 {
            if let Some(reading) = thermometer.reading()
                && (reading.temperature - wanted).abs() < 1e-9
            {
                return reading;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("no reading of {wanted}");
    }

    #[test]
    fn a_sensor_is_read_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let (sensor, points) = (directory.join("t"), directory.join("points"));
        let waker = Arc::new(Waker::new().unwrap());
        assert!(Thermometer::start(None, &waker).reading().is_none());
        let settings = settings(sensor.clone(), points.clone());
        assert!(law(&settings).is_err(), "no points");
        fs::write(&points, "10 0\n").unwrap();
        assert!(law(&settings).is_err(), "too few");
        fs::write(&points, "10 0\n20 1\n").unwrap();
        // The sensor is not there at first, and goes away in between.
        let thermometer = Thermometer::start(Some(&settings), &waker);
        for (temperature, compensation) in [("15", 0.5), ("20", 1.0)] {
            thread::sleep(Duration::from_millis(30));
            fs::write(&sensor, temperature).unwrap();
            let reading = next(&thermometer, temperature.parse().unwrap());
            assert!((reading.compensation - compensation).abs() < 1e-9);
            fs::remove_file(&sensor).unwrap();
        }
    }
}
