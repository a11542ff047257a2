//! The delays of packets.

use super::HostId;
use super::random::Random;

/// How much a packet is late beyond the base delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// Never.
    #[default]
    None,
    /// Exponentially, with this mean in seconds.
    Exponential(f64),
    /// An exponential number to the third power, times this many seconds: mostly nothing, at times a lot.
    HeavyTail(f64),
}

impl Jitter {
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Exponential(mean) => mean * random.exponential(),
            Self::HeavyTail(scale) => scale * random.exponential().powi(3),
        }
    }
}

/// A time of more delay, again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// From one beginning to the next, in seconds.
    pub period: f64,
    /// How long it lasts, in seconds.
    pub duration: f64,
    /// The delay of the outward path.
    pub there: Jitter,
    /// The delay of the return path.
    pub back: Jitter,
}

/// The way between two hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// Delay there and back, in seconds, of an idle network.
    pub base: f64,
    /// More of it on the way there, from a moment on: that moment and how much, in seconds.
    pub longer: Option<(f64, f64)>,
    /// The added delay.
    pub jitter: Jitter,
    /// The occasional added delay.
    pub congestion: Option<Congestion>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Nothing gets through from the first moment to the second.
    pub outage: Option<(f64, f64)>,
}

/// All ways. "There" is from the lower number to the higher one.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Unless there is another one.
    usual: Path,
    ways: Vec<(HostId, HostId, Path)>,
}

impl Network {
    /// Every way is like this.
    #[must_use]
    pub fn new(usual: Path) -> Self {
        Self {
            usual,
            ways: Vec::new(),
        }
    }

    /// This way is another.
    pub fn set(&mut self, a: HostId, b: HostId, path: Path) {
        self.ways
            .retain(|(x, y, _)| (*x, *y) != (a.min(b), a.max(b)));
        self.ways.push((a.min(b), a.max(b), path));
    }

    pub(super) fn delay(
        &self,
        from: HostId,
        to: HostId,
        now: f64,
        random: &mut Random,
    ) -> Option<f64> {
        let ends = (from.min(to), from.max(to));
        let path = self
            .ways
            .iter()
            .find(|(a, b, _)| (*a, *b) == ends)
            .map_or(&self.usual, |(_, _, path)| path);
        let lost = path.loss > 0.0 && random.uniform() < path.loss;
        if lost
            || path
                .outage
                .is_some_and(|(begin, end)| now >= begin && now < end)
        {
            return None;
        }
        let there = from < to;
        let mut delay = path.base + path.jitter.draw(random);
        if let Some((since, more)) = path.longer
            && there
            && now >= since
        {
            delay += more;
        }
        if let Some(congestion) = path.congestion
            && now.rem_euclid(congestion.period) >= congestion.period - congestion.duration
        {
            let jitter = if there {
                congestion.there
            } else {
                congestion.back
            };
            delay += jitter.draw(random);
        }
        Some(delay)
    }
}
