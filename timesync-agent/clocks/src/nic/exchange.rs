//! Chooses between the timestamps of one exchange.
//!
//! The answer of a server near by may be here before the card has said when the request left. Such an answer waits for a moment:
//! then both stamps are the card's, or both are the kernel's.

use std::collections::VecDeque;

use time_model::sample::Stamp;
use time_model::time::{RawTime, Span};
use time_model::view::StampSource;

/// How long an answer waits for the card's word on its request; chrony's. Cards take some 10 to 100 µs.
const PATIENCE: Span = Span(1_000_000);
/// Responses to one request that may wait: a sender of more than one is no server, or another host.
const WAITING: usize = 4;

/// When something left, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Departed {
    /// By the process or the kernel.
    ByKernel(Stamp),
    /// By the card.
    ByCard(Stamp),
}

/// An answer that can be told of.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// When its request left by the card, if that counts.
    pub sent: Option<Stamp>,
    /// The answer.
    pub octets: Vec<u8>,
    /// When it came.
    pub arrived: Stamp,
}

/// One request and its answers.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    sent_by_card: Option<Stamp>,
    waiting: VecDeque<Waiting>,
}

/// An answer that waits.
#[derive(Clone, Debug)]
struct Waiting {
    octets: Vec<u8>,
    by_kernel: Stamp,
    by_card: Stamp,
    until: RawTime,
}

impl Exchange {
    /// The card has said when the request left. Take [`Self::poll_ready`] after it.
    pub fn sent(&mut self, stamp: Stamp) {
        debug_assert_eq!(stamp.by, StampSource::Hardware, "by a NIC");
        self.sent_by_card = Some(stamp);
    }

    /// An answer came; gives it back if it need not wait.
    pub fn arrived(
        &mut self,
        octets: &[u8],
        by_kernel: Stamp,
        by_card: Option<Stamp>,
        now: RawTime,
    ) -> Option<Ready> {
        let by_card = by_card.filter(|_| self.waiting.len() < WAITING);
        match (by_card, self.sent_by_card) {
            (Some(by_card), None) => {
                self.waiting.push_back(Waiting {
                    octets: octets.to_vec(),
                    by_kernel,
                    by_card,
                    until: now + PATIENCE,
                });
                None
            }
            (Some(arrived), sent @ Some(_)) => Some(Ready {
                sent,
                octets: octets.to_vec(),
                arrived,
            }),
            (None, _) => Some(Ready {
                sent: None,
                octets: octets.to_vec(),
                arrived: by_kernel,
            }),
        }
    }

    /// When [`Self::poll_ready`] has something whatever happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<RawTime> {
        self.waiting.front().map(|waiting| waiting.until)
    }

    /// An answer that waits no longer; ask until there is none.
    pub fn poll_ready(&mut self, now: RawTime) -> Option<Ready> {
        let sent = self.sent_by_card;
        let is_due = |waiting: &Waiting| sent.is_some() || waiting.until <= now;
        let waiting = self.waiting.pop_front_if(|waiting| is_due(waiting))?;
        Some(Ready {
            sent,
            octets: waiting.octets,
            arrived: match sent {
                Some(_) => waiting.by_card,
                None => waiting.by_kernel,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::UnixTime;

    fn stamp(by: StampSource, at: i64) -> Stamp {
        Stamp {
            wall: UnixTime(at),
            raw: None,
            by,
            error: 0.0,
        }
    }

    fn card(at: i64) -> Stamp {
        stamp(StampSource::Hardware, at)
    }

    fn kernel(at: i64) -> Stamp {
        stamp(StampSource::Kernel, at)
    }

    fn ready(sent: Option<Stamp>, arrived: Stamp) -> Option<Ready> {
        let octets = b"answer".to_vec();
        Some(Ready {
            sent,
            octets,
            arrived,
        })
    }

    #[test]
    fn stamps_are_both_of_the_card_or_both_of_the_kernel() {
        let at = RawTime(1_000);
        // The usual: the card has told before the answer is here.
        let mut exchange = Exchange::default();
        exchange.sent(card(1));
        let came = exchange.arrived(b"answer", kernel(6), Some(card(5)), at);
        assert_eq!(came, ready(Some(card(1)), card(5)));
        // The answer was not stamped by it: the kernel's own pair counts.
        let came = exchange.arrived(b"answer", kernel(6), None, at);
        assert_eq!(came, ready(None, kernel(6)));
        assert_eq!(exchange.poll_timeout(), None);
    }

    #[test]
    fn an_answer_waits_for_the_stamp_of_its_request() {
        let at = RawTime(1_000);
        let mut exchange = Exchange::default();
        assert_eq!(
            exchange.arrived(b"answer", kernel(6), Some(card(5)), at),
            None
        );
        assert_eq!(exchange.poll_ready(at), None);
        exchange.sent(card(1));
        assert_eq!(exchange.poll_ready(at), ready(Some(card(1)), card(5)));
        assert_eq!(exchange.poll_ready(at), None);
    }

    #[test]
    fn a_card_that_says_nothing_is_not_waited_for_long() {
        let at = RawTime(1_000);
        let mut exchange = Exchange::default();
        assert_eq!(
            exchange.arrived(b"answer", kernel(6), Some(card(5)), at),
            None
        );
        let until = exchange.poll_timeout().expect("it waits");
        assert_eq!(until, at + PATIENCE);
        assert_eq!(exchange.poll_ready(until), ready(None, kernel(6)));
        assert_eq!(exchange.poll_timeout(), None);
    }

    #[test]
    fn more_answers_than_one_may_have_are_not_kept() {
        let at = RawTime(1_000);
        let mut exchange = Exchange::default();
        for _ in 0..WAITING {
            assert_eq!(
                exchange.arrived(b"answer", kernel(6), Some(card(5)), at),
                None
            );
        }
        let came = exchange.arrived(b"answer", kernel(7), Some(card(5)), at);
        assert_eq!(came, ready(None, kernel(7)));
    }
}
