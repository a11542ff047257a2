//! The one of several clusterds that writes: it holds a Lease of the Kubernetes API (`coordination.k8s.io`).
//!
//! ```text
//! every two seconds: read the Lease ─► Election::decide ─► wait, make, or update it ─► the answer ─► Election::written
//! ```
//!
//! As client-go does it: a Lease counts as given up when it has not changed for its duration, by the clock of the one that looks.
//! Times in the Lease are for people. The holder stops before others may begin: its right ends [`Settings::renew`] after the
//! last update that it has *begun* and that has come through. Two clocks never need to agree, they only need to run at about the
//! same rate. A Lease fences nothing: each write has to name the version of the object that it changes.
//!
//! Never reads a clock, and never sends a request.

#![warn(missing_docs)]

mod json;

use std::time::{Duration, Instant};

pub use json::{NotLease, object, read};

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a Lease that does not change holds.
    pub duration: Duration,
    /// How long the right of the holder lasts after an update; shorter than that.
    pub renew: Duration,
    /// Between two looks at the Lease.
    pub retry: Duration,
}

impl Default for Settings {
    /// Those of client-go.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A Lease, as far as it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// The holder; empty when it was given up.
    pub holder: String,
    /// How long it holds without a change, in seconds.
    pub duration: u64,
    /// How often the holder changed.
    pub transitions: u64,
    /// When the holder got it; a text for people.
    pub acquired: String,
    /// When it was last updated; a text for people.
    pub renewed: String,
}

/// A Lease that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The Lease itself.
    pub lease: Lease,
    /// Its version.
    pub version: String,
}

/// The next step with the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: another has it.
    Wait,
    /// There is none: make it.
    Make(Lease),
    /// Update it, if it is of this version still.
    Update(Lease, String),
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    settings: Settings,
    /// The last Lease that was another than the one before, and when it was first seen.
    seen: Option<(Seen, Instant)>,
    /// Until when this one may write.
    until: Option<Instant>,
}

impl Election {
    /// A candidate, whose identity no other one has.
    #[must_use]
    pub const fn new(identity: String, settings: Settings) -> Self {
        Self {
            identity,
            settings,
            seen: None,
            until: None,
        }
    }

    /// The identity.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The holder as it was last seen; none while there is none.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let (seen, _) = self.seen.as_ref()?;
        Some(seen.lease.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Whether this one may write.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Decides what to do with the Lease as it was read; `written` is the time of day, for people.
    pub fn decide(&mut self, read: Option<Seen>, now: Instant, written: &str) -> Step {
        let duration = self.settings.duration.as_secs();
        let Some(read) = read else {
            self.seen = None;
            return Step::Make(Lease {
                holder: self.identity.clone(),
                duration,
                transitions: 0,
                acquired: written.to_owned(),
                renewed: written.to_owned(),
            });
        };
        let since = match &self.seen {
            Some((seen, since)) if *seen == read => *since,
            _ => now,
        };
        self.seen = Some((read.clone(), since));
        let Seen { lease, version } = read;
        let is_own = lease.holder == self.identity;
        if !is_own {
            self.until = None;
        }
        // The holder's own word for how long it holds, and no less than this one's.
        let holds = Duration::from_secs(lease.duration).max(self.settings.duration);
        let is_free = lease.holder.is_empty() || now.saturating_duration_since(since) >= holds;
        if !is_own && !is_free {
            return Step::Wait;
        }
        let update = Lease {
            holder: self.identity.clone(),
            duration,
            transitions: lease.transitions.saturating_add(u64::from(!is_own)),
            acquired: match is_own {
                true => lease.acquired,
                false => written.to_owned(),
            },
            renewed: written.to_owned(),
        };
        Step::Update(update, version)
    }

    /// Notes that a step has come through; `begun` is when it was sent.
    pub fn written(&mut self, written: Seen, begun: Instant, now: Instant) {
        let is_own = written.lease.holder == self.identity;
        self.until = is_own.then(|| begun + self.settings.renew);
        self.seen = Some((written, now));
    }

    /// Gives the Lease up, if this one has it; returns the update for that: another may take it at once.
    pub fn release(&mut self, written: &str) -> Option<(Lease, String)> {
        self.until = None;
        let (seen, _) = self.seen.take()?;
        if seen.lease.holder != self.identity {
            return None;
        }
        let lease = Lease {
            holder: String::new(),
            duration: 1,
            renewed: written.to_owned(),
            ..seen.lease
        };
        Some((lease, seen.version))
    }
}

#[cfg(test)]
mod tests;
