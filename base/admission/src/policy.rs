//! The numbers of the policy.

use std::time::Duration;

use crate::Class;

/// The time for the first octet of a stream.
pub const FIRST_OCTET: Duration = Duration::from_secs(3);

/// The time for a handshake, from the arrival of the stream.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// The time for a request, from its first octet to its last, or to the end of a head of HTTP.
pub const REQUEST: Duration = Duration::from_secs(10);

/// The time that a stream may be idle at a listener without an option for it.
pub const IDLE: Duration = Duration::from_secs(30);

/// The time that a stream may be idle while all places are taken.
pub const SHORTEST_IDLE: Duration = Duration::from_millis(500);

/// The time in which the body of a request may be slower than [`BODY_RATE`].
pub const BODY_GRACE: Duration = Duration::from_secs(10);

/// The least octets a second of the body of a request, where a listener asks for it.
pub const BODY_RATE: u64 = 1024;

/// The time after which a client that takes nothing of its answer is gone. One that takes it slowly is not.
pub const STALL: Duration = Duration::from_secs(30);

/// The least that the bound of a source is, unless an option says less.
const SOURCE_LEAST: usize = 8;

/// A source's part of the places of everybody.
const SOURCE_PART: usize = 8;

/// The places of the node itself.
const FOR_NODE: usize = 4;

/// The least places of other nodes, and their part of all.
const FOR_MEMBERS: usize = 4;
const MEMBERS_PART: usize = 16;

/// The bounds of a network, in those of a source.
const SOURCES_OF_NETWORK: usize = 4;

/// The part of the places of everybody in which handshakes may be.
const HANDSHAKES_PART: usize = 4;

/// The bounds of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    places: usize,
    source: Option<usize>,
    has_members: bool,
    pub(crate) handshake: Duration,
    pub(crate) idle: Duration,
    pub(crate) stall: Duration,
}

impl Policy {
    /// The policy for this many places; one at least.
    #[must_use]
    pub const fn of(places: usize) -> Self {
        Self {
            places: if places == 0 { 1 } else { places },
            source: None,
            has_members: false,
            handshake: HANDSHAKE,
            idle: IDLE,
            stall: STALL,
        }
    }

    /// A source has at most this many, as an option says.
    #[must_use]
    pub const fn with_source(mut self, most: usize) -> Self {
        self.source = Some(most);
        self
    }

    /// Other nodes of the site connect here.
    #[must_use]
    pub const fn with_members(mut self) -> Self {
        self.has_members = true;
        self
    }

    /// The time for a handshake, as an option says.
    #[must_use]
    pub const fn with_handshake(mut self, handshake: Duration) -> Self {
        self.handshake = handshake;
        self
    }

    /// The time that a stream may be idle while places are not few, as an option says.
    #[must_use]
    pub const fn with_idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The time after which a client that takes nothing is gone, as an option says.
    #[must_use]
    pub const fn with_stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// M: all places.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.places
    }

    /// The places that only other nodes of the site take, a quarter at most.
    #[must_use]
    pub fn for_members(&self) -> usize {
        match self.has_members {
            true => (self.places / MEMBERS_PART)
                .max(FOR_MEMBERS)
                .min(self.places / 4),
            false => 0,
        }
    }

    /// The places that only the node itself takes, a quarter at most.
    #[must_use]
    pub fn for_node(&self) -> usize {
        FOR_NODE.min(self.places / 4)
    }

    /// S: the places of everybody.
    #[must_use]
    pub fn for_all(&self) -> usize {
        self.places - self.for_members() - self.for_node()
    }

    /// The most streams of one source. The node itself is many clients behind one address, and may have half.
    #[must_use]
    pub fn source_most(&self, class: Class) -> usize {
        self.source.unwrap_or_else(|| {
            let part = match class {
                Class::Other | Class::Member => SOURCE_PART,
                Class::Node => 2,
            };
            (self.for_all() / part).max(SOURCE_LEAST)
        })
    }

    /// The most streams of one network.
    #[must_use]
    pub fn network_most(&self) -> usize {
        self.source_most(Class::Other)
            .saturating_mul(SOURCES_OF_NETWORK)
    }

    /// The most handshakes at once.
    #[must_use]
    pub fn handshakes_most(&self) -> usize {
        (self.for_all() / HANDSHAKES_PART).max(1)
    }

    /// The time that a stream may be idle while this many of the places of everybody are taken: 2(1 - x) of the whole
    /// time when the part x is taken. None up to the half.
    pub(crate) fn idle_time(&self, taken: usize) -> Option<Duration> {
        let all = u32::try_from(self.for_all()).unwrap_or(u32::MAX);
        let free = all.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
        if u64::from(free) * 2 >= u64::from(all) {
            return None;
        }
        Some(
            (self.idle * 2)
                .mul_f64(f64::from(free) / f64::from(all))
                .max(SHORTEST_IDLE.min(self.idle)),
        )
    }
}
