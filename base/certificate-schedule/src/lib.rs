//! When a node asks the others for its next certificate, and which one they give it. Never reads a clock.
//!
//! The authority's key is on no node. Its owner signs the certificates of years ahead at once: each ends half a life after the
//! one before. A node has its first, and every other node has all of them; a certificate is no secret, and worth nothing
//! without the key. The others give a node the next one when the one that it has is about to end, and give a revoked node none. So
//! a thief of a node's key is believed by clients, which read no list of revoked certificates, for one life at most.
//!
//! ```text
//! certificates    |--1--|--2--|--3--|--4--|--5--|     their ends, half a life apart
//! now                      ^
//! the node has             2, and asks: less than half a life is left
//! it is given              the first that ends half a life from now or later: 4
//! ```

#![warn(missing_docs)]

/// Seconds.
const DAY: u64 = 86_400;

/// The rules of a site, by the life of its certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Half of the life, in seconds.
    half: u64,
}

impl Schedule {
    /// The rules where clients believe a certificate for this many days after it was given; 2 at least.
    #[must_use]
    pub const fn of_days(days: u16) -> Self {
        let days = if days < 2 { 2 } else { days };
        Self {
            half: days as u64 * DAY / 2,
        }
    }

    /// The life of a certificate after it was given at the latest, in seconds.
    #[must_use]
    pub const fn life(self) -> u64 {
        self.half * 2
    }

    /// The days, since 1970, on which the certificates of a series end that is signed on the day `today` and reaches to
    /// `last`; the first ends after a whole life. Empty when `last` comes before that.
    pub fn ends(self, today: u64, last: u64) -> impl Iterator<Item = u64> {
        let first = today * DAY + self.life();
        let ends = (0..).map(move |number| first + number * self.half);
        ends.map(|end| end / DAY)
            .take_while(move |day| *day <= last)
    }

    /// Whether a node asks for the next certificate, when the one that it has ends at `end`, in seconds since 1970.
    #[must_use]
    pub const fn is_due(self, end: u64, now: u64) -> bool {
        end.saturating_sub(now) < self.half
    }

    /// How many seconds it is until a node asks; zero when it does now.
    #[must_use]
    pub const fn until_due(self, end: u64, now: u64) -> u64 {
        // Less than half a life is left: one second after half a life.
        match end.saturating_sub(now).checked_sub(self.half) {
            Some(more) => more + 1,
            None => 0,
        }
    }

    /// The number of the certificate that another node gets now, of those that end at `ends`, in seconds since 1970, in this
    /// order; none when all are about to end.
    pub fn choose(self, ends: impl IntoIterator<Item = u64>, now: u64) -> Option<usize> {
        let enough = now.saturating_add(self.half);
        ends.into_iter().position(|end| end >= enough)
    }
}

#[cfg(test)]
mod tests;
