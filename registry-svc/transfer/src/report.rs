//! The report at the end: copied and failed images.

use std::fmt;
use std::time::Duration;

use config_text::counted;
use registry_archive::catalogue::Problems;

/// How a copy went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Images that are there now and were not.
    pub n_copied: u64,
    /// Images that were there.
    pub n_held: u64,
    /// Images that could not be copied.
    pub n_failed: u64,
    /// Blobs that were copied.
    pub n_blobs: u64,
    /// Their octets.
    pub n_octets: u64,
    /// Blobs that were there.
    pub n_blobs_held: u64,
    /// Files of the archive that belong to no image.
    pub n_left: u64,
    /// The problems.
    pub problems: Problems,
    /// Whether the rest was not tried.
    pub is_stopped: bool,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Both, one after the other.
    #[must_use]
    pub fn and(mut self, next: Self) -> Self {
        self.n_copied += next.n_copied;
        self.n_held += next.n_held;
        self.n_failed += next.n_failed;
        self.n_blobs += next.n_blobs;
        self.n_octets += next.n_octets;
        self.n_blobs_held += next.n_blobs_held;
        self.n_left += next.n_left;
        self.problems.extend(next.problems);
        self.is_stopped |= next.is_stopped;
        self.took += next.took;
        self
    }

    /// Whether everything that was asked for is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.n_failed == 0 && self.problems.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.problems.iter() {
            writeln!(
                to,
                "problem: {}: {}",
                shown(&problem.entry),
                shown(&problem.what)
            )?;
        }
        let n_told = u64::try_from(self.problems.iter().count()).unwrap_or(u64::MAX);
        let n_more = self.problems.count().saturating_sub(n_told);
        if n_more > 0 {
            writeln!(to, "problem: and {n_more} more like these")?;
        }
        if self.is_stopped {
            writeln!(
                to,
                "stopped: the rest was not tried; the same command continues from here"
            )?;
        }
        let images = counted(self.n_copied, "image");
        let blobs = counted(self.n_blobs, "blob");
        let size = Octets(self.n_octets);
        write!(to, "copied {images} ({blobs}, {size}")?;
        if !self.took.is_zero() && self.n_octets > 0 {
            let rate = Octets(per_second(self.n_octets, self.took));
            write!(to, " in {:.1} s, {rate}/s", self.took.as_secs_f64())?;
        }
        write!(to, "); held already: {}", counted(self.n_held, "image"))?;
        write!(to, ", {}", counted(self.n_blobs_held, "blob"))?;
        if self.n_failed > 0 {
            write!(to, "; failed: {}", counted(self.n_failed, "image"))?;
        }
        if self.n_left > 0 {
            write!(
                to,
                "; belonging to no image: {}",
                counted(self.n_left, "file")
            )?;
        }
        Ok(())
    }
}

/// Names come from outside: escapes characters that could steer a terminal.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Octets a second.
#[must_use]
pub fn per_second(octets: u64, time: Duration) -> u64 {
    let milliseconds = time.as_millis().max(1);
    let rate = u128::from(octets) * 1000 / milliseconds;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// A number of octets as people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets(pub u64);

impl fmt::Display for Octets {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(to, "{} B", self.0);
        }
        let mut tenths = u128::from(self.0) * 10;
        let mut unit = "B";
        for next in units {
            if tenths < 10 * 1024 {
                break;
            }
            tenths /= 1024;
            unit = next;
        }
        write!(to, "{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_readable() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 << 20, "10.0 MiB"),
            (1023 << 20, "1023.0 MiB"),
            (3 << 30, "3.0 GiB"),
            (u64::MAX, "15.9 EiB"),
        ];
        for (octets, expected) in table {
            assert_eq!(Octets(octets).to_string(), expected);
        }
    }

    #[test]
    fn a_report_says_what_was_done() {
        let mut report = Report {
            n_copied: 1,
            n_held: 2,
            n_blobs: 3,
            n_octets: 10 << 20,
            took: Duration::from_secs(2),
            ..Report::default()
        };
        assert!(report.is_whole());
        assert_eq!(
            report.to_string(),
            "copied 1 image (3 blobs, 10.0 MiB in 2.0 s, 5.0 MiB/s); held already: 2 images, 0 blobs"
        );
        report.problems.add("a\u{1b}[2Jb", "bad\n");
        report.n_failed = 1;
        let text = report.to_string();
        assert!(
            text.starts_with("problem: a\\u{1b}[2Jb: bad\\n\n"),
            "{text}"
        );
        assert!(text.ends_with("; failed: 1 image"), "{text}");
        assert!(!report.is_whole());
    }
}
