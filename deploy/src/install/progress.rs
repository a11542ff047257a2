//! How far something is: a bar on a terminal, and nothing where lines are collected.

use std::io::{self, IsTerminal as _, Write as _};

/// A bar on standard error.
#[derive(Debug)]
pub(crate) struct Bar {
    what: &'static str,
    total: u64,
    done: u64,
    shown: Option<u64>,
    is_terminal: bool,
}

impl Bar {
    /// A bar for this many bytes.
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        Self {
            what,
            total,
            done: 0,
            shown: None,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// Adds to the bytes that are done.
    pub(crate) fn add(&mut self, octets: u64) {
        self.done = self.done.saturating_add(octets);
        let percent = percent(self.done, self.total);
        if self.is_terminal && self.shown != Some(percent) {
            self.shown = Some(percent);
            // A terminal that is gone is no reason to stop.
            drop(write!(io::stderr(), "\r{}", line(self.what, percent)));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown.is_some() {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }
}

fn percent(done: u64, total: u64) -> u64 {
    match total {
        0 => 100,
        total => (done.saturating_mul(100) / total).min(100),
    }
}

fn line(what: &str, percent: u64) -> String {
    let full = usize::try_from(percent / 4).unwrap_or(25);
    format!("{what} [{:<25}] {percent:>3} %", "#".repeat(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        assert_eq!(
            line("checking", 0),
            "checking [                         ]   0 %"
        );
        assert_eq!(
            line("checking", 100),
            "checking [#########################] 100 %"
        );
        assert_eq!(
            (percent(0, 0), percent(1, 3), percent(9, 3)),
            (100, 33, 100)
        );
    }
}
