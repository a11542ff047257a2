//! The serials of the flattened versions of a zone.
//!
//! A serial that a secondary may have seen must never come again with other records, also behind a crash. So a range is written to
//! disk before its first serial is used, and the next process begins behind that range.

use dns_zone::Soa;

/// How many serials are reserved at once.
const RANGE: u32 = 32;

/// The serials that were used, and those that are reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serials {
    last: Option<u32>,
    /// The last of the reserved ones.
    reserved: Option<u32>,
}

impl Serials {
    /// Those behind a range that another process had reserved.
    #[must_use]
    pub const fn behind(reserved: Option<u32>) -> Self {
        Self {
            last: reserved,
            reserved,
        }
    }

    /// The next serial. It is that of the zone, or higher.
    #[must_use]
    pub fn next(&self, zone: u32) -> u32 {
        match self.last {
            Some(last) if !Soa::is_newer(zone, last) => last.wrapping_add(1),
            _ => zone,
        }
    }

    /// The last serial of the range to write to disk before this one is used; `None` if it is reserved.
    #[must_use]
    pub fn must_reserve(&self, serial: u32) -> Option<u32> {
        let is_beyond = |reserved| Soa::is_newer(serial, reserved);
        let must = self.reserved.is_none_or(is_beyond);
        must.then(|| serial.wrapping_add(RANGE - 1))
    }

    /// Notes that the serials up to this one are on disk.
    pub const fn reserve(&mut self, to: u32) {
        self.reserved = Some(to);
    }

    /// Notes that a serial is used.
    pub const fn take(&mut self, serial: u32) {
        self.last = Some(serial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next serials of a process, and what it has on disk in the end.
    fn run(disk: Option<u32>, zones: &[u32]) -> (Vec<u32>, Option<u32>) {
        let mut serials = Serials::behind(disk);
        let mut disk = disk;
        let used = zones.iter().map(|zone| {
            let serial = serials.next(*zone);
            if let Some(to) = serials.must_reserve(serial) {
                serials.reserve(to);
                disk = Some(to);
            }
            serials.take(serial);
            serial
        });
        (used.collect(), disk)
    }

    #[test]
    fn serials_rise_and_follow_the_zone_when_it_is_ahead() {
        assert_eq!(run(None, &[7, 7, 8, 20, 3]).0, [7, 8, 9, 20, 21]);
        assert_eq!(run(None, &[u32::MAX; 3]).0, [u32::MAX, 0, 1]);
    }

    #[test]
    fn no_serial_comes_again_behind_a_crash() {
        for zone in [1_u32, 2_026_112_801, u32::MAX - 40] {
            let mut disk = None;
            let mut before: Option<u32> = None;
            for life in 0..20_usize {
                let (used, kept) = run(disk, &vec![zone; 1 + life * 7]);
                for serial in used {
                    if let Some(before) = before {
                        assert!(Soa::is_newer(serial, before), "{serial} behind {before}");
                    }
                    before = Some(serial);
                }
                disk = kept;
            }
        }
    }

    #[test]
    fn one_write_is_for_many_serials() {
        let mut serials = Serials::behind(Some(100));
        let mut writes = 0;
        for _ in 0..3 * RANGE {
            let serial = serials.next(5);
            if let Some(to) = serials.must_reserve(serial) {
                serials.reserve(to);
                writes += 1;
            }
            serials.take(serial);
        }
        assert_eq!((writes, serials.next(5)), (3, 101 + 3 * RANGE));
    }
}
