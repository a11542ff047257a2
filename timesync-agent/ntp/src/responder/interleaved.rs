//! The departure times of answers: interleaved mode sends each to a client with its next answer (RFC 9769 §2).
//!
//! A client that wants it repeats our receive timestamp as its origin timestamp. Our receive timestamps are odd and our
//! transmit timestamps are even, so that such a request is recognised without a memory of clients: only these requests cost
//! memory. A client has a set of places by its address, which it cannot aim at others'; in it the oldest makes room.

use parking_lot::{Mutex, MutexGuard};
use std::net::IpAddr;

use super::place::place;
use time_model::time::{NtpTimestamp, UnixTime};
use time_model::view::StampSource;

/// Answers remembered in one set: as many clients in interleaved mode may share an address.
const SET_SIZE: usize = 64;
/// Octets of a set.
const SET_OCTETS: usize = SET_SIZE * size_of::<Stamp>();
/// The most sets, whatever the limit says: half a million answers.
const MOST_SETS: usize = 1 << 13;

/// A remembered answer: its place, and its receive timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    set: usize,
    receive: NtpTimestamp,
}

impl Receipt {
    /// The receive timestamp of the answer, which no other has.
    #[must_use]
    pub fn receive(&self) -> NtpTimestamp {
        self.receive
    }
}

#[derive(Clone, Copy, Debug)]
struct Stamp {
    receive: NtpTimestamp,
    received: UnixTime,
    transmitted: UnixTime,
    source: StampSource,
}

/// The table.
#[derive(Debug)]
pub(super) struct Stamps {
    sets: Box<[Mutex<Vec<Stamp>>]>,
    seed: [u64; 2],
}

impl Stamps {
    /// A table of at most `limit` octets, but of one set at least.
    pub(super) fn new(limit: usize, seed: [u64; 2]) -> Self {
        let n_sets = (limit / SET_OCTETS).clamp(1, MOST_SETS);
        Self {
            sets: (0..n_sets).map(|_| Mutex::default()).collect(),
            seed,
        }
    }

    /// Takes out the departure time of the answer that had `receive` as receive timestamp; returns it once.
    pub(super) fn take(
        &self,
        client: IpAddr,
        receive: NtpTimestamp,
    ) -> Option<(UnixTime, StampSource)> {
        let mut set = lock(self.sets.get(self.set_of(client))?);
        let index = set.iter().position(|stamp| stamp.receive == receive)?;
        let stamp = set.swap_remove(index);
        Some((stamp.transmitted, stamp.source))
    }

    /// Remembers an answer.
    pub(super) fn keep(
        &self,
        client: IpAddr,
        receive: NtpTimestamp,
        received: UnixTime,
        transmitted: UnixTime,
    ) -> Option<Receipt> {
        let number = self.set_of(client);
        let mut set = lock(self.sets.get(number)?);
        let stamp = Stamp {
            receive,
            received,
            transmitted,
            source: StampSource::Daemon,
        };
        if set.len() < SET_SIZE {
            set.push(stamp);
        } else if let Some(oldest) = set.iter_mut().min_by_key(|stamp| stamp.received) {
            *oldest = stamp;
        }
        Some(Receipt {
            set: number,
            receive,
        })
    }

    /// The kernel or the card says when an answer left.
    pub(super) fn correct(&self, receipt: Receipt, transmitted: UnixTime, source: StampSource) {
        let Some(set) = self.sets.get(receipt.set) else {
            return;
        };
        let mut set = lock(set);
        if let Some(stamp) = set
            .iter_mut()
            .find(|stamp| stamp.receive == receipt.receive)
        {
            stamp.transmitted = transmitted;
            stamp.source = source;
        }
    }

    /// The clock was stepped: the remembered times belong to another time.
    pub(super) fn clear(&self) {
        for set in &self.sets {
            lock(set).clear();
        }
    }

    /// How many answers are remembered, and from when the oldest and the newest are.
    pub(super) fn extent(&self) -> (usize, Option<(UnixTime, UnixTime)>) {
        let mut n_stamps = 0;
        let mut ends: Option<(UnixTime, UnixTime)> = None;
        for set in &self.sets {
            for stamp in lock(set).iter() {
                n_stamps += 1;
                let (first, last) = ends.unwrap_or((stamp.received, stamp.received));
                ends = Some((first.min(stamp.received), last.max(stamp.received)));
            }
        }
        (n_stamps, ends)
    }

    fn set_of(&self, client: IpAddr) -> usize {
        let address = match client {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let n_sets = u64::try_from(self.sets.len()).unwrap_or(u64::MAX).max(1);
        usize::try_from(place(address.to_bits(), self.seed) % n_sets).unwrap_or_default()
    }
}

fn lock(set: &Mutex<Vec<Stamp>>) -> MutexGuard<'_, Vec<Stamp>> {
    // Stamps are put in and taken out in one step.
    set.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn keep(stamps: &Stamps, client: IpAddr, number: i64) -> Option<Receipt> {
        let receive = NtpTimestamp(u64::try_from(number).unwrap());
        stamps.keep(client, receive, UnixTime(number), UnixTime(number + 1))
    }

    #[test]
    fn an_answer_is_told_once_and_to_its_client() {
        let stamps = Stamps::new(1 << 17, [1, 2]);
        keep(&stamps, CLIENT, 7);
        assert_eq!(stamps.take(OTHER, NtpTimestamp(7)), None);
        assert_eq!(stamps.take(CLIENT, NtpTimestamp(8)), None);
        let told = Some((UnixTime(8), StampSource::Daemon));
        assert_eq!(stamps.take(CLIENT, NtpTimestamp(7)), told);
        assert_eq!(stamps.take(CLIENT, NtpTimestamp(7)), None);
    }

    #[test]
    fn the_kernel_knows_better() {
        let stamps = Stamps::new(1 << 17, [1, 2]);
        let receipt = keep(&stamps, CLIENT, 7).unwrap();
        stamps.correct(receipt, UnixTime(9), StampSource::Kernel);
        let told = Some((UnixTime(9), StampSource::Kernel));
        assert_eq!(stamps.take(CLIENT, NtpTimestamp(7)), told);
        // Taken already: nothing to correct.
        stamps.correct(receipt, UnixTime(9), StampSource::Kernel);
        assert_eq!(stamps.extent(), (0, None));
    }

    #[test]
    fn a_client_crowds_out_itself() {
        let stamps = Stamps::new(1 << 17, [1, 2]);
        keep(&stamps, OTHER, 1);
        for number in 10..1000 {
            keep(&stamps, CLIENT, number);
        }
        let ends = Some((UnixTime(1), UnixTime(999)));
        assert_eq!(stamps.extent(), (1 + SET_SIZE, ends));
        assert_eq!(stamps.take(CLIENT, NtpTimestamp(935)), None);
        assert!(stamps.take(CLIENT, NtpTimestamp(936)).is_some());
        assert!(stamps.take(OTHER, NtpTimestamp(1)).is_some());
        stamps.clear();
        assert_eq!(stamps.extent(), (0, None));
    }
}
