//! How far a copy is: counted by what copies, shown by [`show`].
//!
//! On a terminal that is one line with a bar, which is drawn again; elsewhere a line at times, so
//! that the log of a copy that takes hours shows that it continues.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use config_text::counted;
use oci::digest::Digest;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::items::Item;
use crate::report::{Octets, per_second, shown};

/// How often a bar is drawn.
const DRAW: Duration = Duration::from_millis(200);
/// How often a plain line is written.
const LINE: Duration = Duration::from_secs(10);
/// The narrowest that a terminal is taken for.
const NARROWEST: usize = 40;
/// A bar without its brackets.
const BAR: usize = 24;

/// How far a copy is.
#[derive(Debug, Default)]
pub struct Progress {
    images: Count,
    blobs: Count,
    octets: Count,
    copied: AtomicU64,
    copied_octets: AtomicU64,
    held: AtomicU64,
    batches: AtomicU64,
    /// Blobs that are counted: images share them.
    seen: Mutex<BTreeSet<Digest>>,
    at: Mutex<String>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Count {
    done: AtomicU64,
    of: AtomicU64,
}

impl Count {
    fn add(&self, number: u64) {
        self.done.fetch_add(number, Ordering::Relaxed);
    }

    fn now(&self) -> (u64, u64) {
        let done = self.done.load(Ordering::Relaxed);
        (done, self.of.load(Ordering::Relaxed).max(done))
    }
}

impl Progress {
    /// How many images there are.
    pub fn planned_images(&self, number: usize) {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        self.images.of.store(number, Ordering::Relaxed);
    }

    /// How many blobs they have, and how long these are together.
    pub fn planned(&self, blobs: usize, octets: u64) {
        let blobs = u64::try_from(blobs).unwrap_or(u64::MAX);
        self.blobs.of.store(blobs, Ordering::Relaxed);
        self.octets.of.store(octets, Ordering::Relaxed);
    }

    /// Sets the current item.
    pub fn at(&self, item: &Item) {
        let name = match &item.tag {
            Some(tag) => format!("{}:{}", item.to.as_str(), tag.as_str()),
            None => format!("{}@{}", item.to.as_str(), item.digest),
        };
        *self.at.lock() = name;
    }

    /// An image is done with.
    pub fn image_done(&self) {
        self.images.add(1);
    }

    /// Octets went through.
    pub fn passed(&self, length: usize) {
        self.octets.add(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// A blob was copied.
    pub fn blob_copied(&self, digest: Digest, size: u64) {
        if self.is_new(digest) {
            self.blobs.add(1);
        }
        self.copied.fetch_add(1, Ordering::Relaxed);
        self.copied_octets.fetch_add(size, Ordering::Relaxed);
    }

    /// A blob was there.
    pub fn blob_held(&self, digest: Digest, size: u64) {
        if self.is_new(digest) {
            self.blobs.add(1);
            self.octets.add(size);
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A batch of blobs was made durable.
    pub fn batch_done(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    fn is_new(&self, digest: Digest) -> bool {
        let mut seen = self.seen.lock();
        seen.insert(digest)
    }

    /// Blobs that were copied.
    #[must_use]
    pub fn blobs_copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Their octets.
    #[must_use]
    pub fn octets_copied(&self) -> u64 {
        self.copied_octets.load(Ordering::Relaxed)
    }

    /// Blobs that were there.
    #[must_use]
    pub fn blobs_held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// One line of progress, of at most `width` characters.
    #[must_use]
    pub fn line(&self, took: Duration, width: usize) -> String {
        let (octets, of_octets) = self.octets.now();
        let (blobs, of_blobs) = self.blobs.now();
        let (images, of_images) = self.images.now();
        let rate = per_second(octets, took);
        let batches = match self.batches.load(Ordering::Relaxed) {
            0 => String::new(),
            batches => format!(", {}", counted(batches, "batch")),
        };
        let at = self.at.lock();
        let line = format!(
            "[{}] {} of {}, {blobs}/{of_blobs} blobs{batches}, {images}/{of_images} images, {}/s{}  {}",
            bar(octets, of_octets),
            Octets(octets),
            Octets(of_octets),
            Octets(rate),
            left(octets, of_octets, rate),
            shown(&at),
        );
        line.chars().take(width).collect()
    }
}

fn bar(done: u64, of: u64) -> String {
    let width = u64::try_from(BAR).unwrap_or_default();
    let full = match of {
        0 => 0,
        of => u128::from(done) * u128::from(width) / u128::from(of),
    };
    let full = usize::try_from(full).map_or(BAR, |full| full.min(BAR));
    format!("{}{}", "#".repeat(full), "-".repeat(BAR - full))
}

/// The time for the rest at the present rate.
fn left(done: u64, of: u64, rate: u64) -> String {
    let rest = of.saturating_sub(done);
    match rest.checked_div(rate) {
        None | Some(0) => String::new(),
        Some(seconds) => {
            let (minutes, seconds) = (seconds / 60, seconds % 60);
            format!(", {}:{:02}:{seconds:02} left", minutes / 60, minutes % 60)
        }
    }
}

/// Shows how far a copy is on standard error until it is stopped.
#[derive(Debug)]
pub struct Shown {
    progress: Arc<Progress>,
    task: JoinHandle<()>,
    is_terminal: bool,
}

/// Begins to show.
#[must_use]
pub fn show(progress: &Arc<Progress>) -> Shown {
    let is_terminal = std::io::stderr().is_terminal();
    let watched = Arc::clone(progress);
    let task = tokio::spawn(async move {
        let begun = Instant::now();
        let mut ticks = interval(if is_terminal { DRAW } else { LINE });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first comes at once, and there is nothing to say yet.
        ticks.tick().await;
        while !watched.is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let line = |width| watched.line(begun.elapsed(), width);
            match is_terminal {
                // Back to the first column, and what is left of a longer line removed.
                true => daemon::print::err(format_args!("\r{}\u{1b}[K", line(width()))),
                false => daemon::errln!("{}", line(usize::MAX)),
            }
        }
    });
    Shown {
        progress: Arc::clone(progress),
        task,
        is_terminal,
    }
}

impl Shown {
    /// Shows no more; the line that was drawn is gone.
    pub fn stop(self) {
        self.progress.is_over.store(true, Ordering::Relaxed);
        self.task.abort();
        if self.is_terminal {
            daemon::print::err(format_args!("\r\u{1b}[K"));
        }
    }
}

/// The last column stays empty: terminals break the line there.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let columns = size.map_or(80, |size| usize::from(size.ws_col));
    columns.max(NARROWEST) - 1
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let progress = Progress::default();
        progress.planned_images(2);
        progress.planned(3, 300 << 20);
        let digest = |octets: &[u8]| Digest::of(Algorithm::Sha256, octets);
        progress.at(&Item {
            from: "a".parse().unwrap(),
            to: "ocp4/release".parse().unwrap(),
            tag: Some("4.17".parse().unwrap()),
            digest: digest(b""),
            media_type: None,
            entry: String::new(),
        });
        progress.passed(100 << 20);
        progress.blob_copied(digest(b"1"), 100 << 20);
        progress.blob_held(digest(b"2"), 50 << 20);
        // For another image, which shares it.
        progress.blob_held(digest(b"2"), 50 << 20);
        progress.image_done();
        let line = progress.line(Duration::from_secs(10), 200);
        assert_eq!(
            line,
            "[############------------] 150.0 MiB of 300.0 MiB, 2/3 blobs, 1/2 images, \
             15.0 MiB/s, 0:00:10 left  ocp4/release:4.17"
        );
        progress.batch_done();
        let line = progress.line(Duration::from_secs(10), 200);
        assert!(line.contains("2/3 blobs, 1 batch, 1/2 images"), "{line}");
        assert_eq!(progress.line(Duration::from_secs(10), 40).len(), 40);
        assert_eq!(progress.blobs_copied(), 1);
        assert_eq!(progress.blobs_held(), 1);
    }

    #[test]
    fn nothing_to_do_is_no_division_by_zero() {
        let progress = Progress::default();
        let line = progress.line(Duration::ZERO, 200);
        assert!(
            line.starts_with("[------------------------] 0 B of 0 B"),
            "{line}"
        );
    }
}
