//! Reasons to doubt a new version of a zone, compared with the version in service.
//!
//! Decides only; the caller holds a doubtful version back until an operator accepts it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use config_text::Problem;

use crate::merge::canonical;
use crate::zone::{Soa, Zone};
use config::dns_authd::Zones;

/// The rules for new versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Whether the serial must rise when the data changes.
    pub serial_must_rise: bool,
    /// The largest share of its records that a zone may lose at once, in percent.
    pub largest_loss: u8,
}

/// A reason to doubt a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The data differs, and the serial is the same.
    SameSerial(u32),
    /// The serial is lower (RFC 1982).
    LowerSerial {
        /// The serial in service.
        served: u32,
        /// The serial of the new version.
        new: u32,
    },
    /// The zone would lose more records than the largest share.
    Loss {
        /// The number of records in service.
        served: usize,
        /// The number of records of the new version.
        new: usize,
        /// The largest share, in percent.
        largest: u8,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameSerial(serial) => write!(
                f,
                "its data differs, but its serial is {serial} as before: secondaries would keep the old data"
            ),
            Self::LowerSerial { served, new } => write!(
                f,
                "its serial {new} is lower than {served}: secondaries would keep the old data"
            ),
            Self::Loss {
                served,
                new,
                largest,
            } => write!(
                f,
                "it has {new} of {served} records: more than {largest} percent would be lost"
            ),
        }
    }
}

/// An update that removes this many records or fewer is no accident, however small the zone is.
const FEW: usize = 64;

impl Guard {
    /// The rules of a configuration.
    #[must_use]
    pub const fn of(zones: &Zones) -> Self {
        Self {
            serial_must_rise: zones.serial_must_rise,
            largest_loss: zones.largest_loss.get(),
        }
    }

    /// Every reason to doubt a new version of a zone.
    #[must_use]
    pub fn doubts(&self, served: &Zone, new: &Zone) -> Vec<Doubt> {
        let serial = self.serial_must_rise.then(|| serial_doubt(served, new));
        let mut doubts: Vec<Doubt> = serial.flatten().into_iter().collect();
        doubts.extend(self.loss(served, new));
        doubts
    }

    /// Why secondaries keep the old data, though the new version is published: the serial need not rise.
    #[must_use]
    pub fn oddity(&self, served: &Zone, new: &Zone) -> Option<Problem> {
        let is_odd = !self.serial_must_rise;
        let doubt = is_odd.then(|| serial_doubt(served, new)).flatten()?;
        Some(Problem {
            position: None,
            message: doubt.to_string(),
        })
    }

    /// The reason to doubt the version that an update (RFC 2136) makes: it loses more records than the largest share, and not just a
    /// few. Its serial rises by itself.
    #[must_use]
    pub fn doubt_of_update(&self, served: &Zone, new: &Zone) -> Option<Doubt> {
        let n_lost = served.n_records().saturating_sub(new.n_records());
        self.loss(served, new).filter(|_| n_lost > FEW)
    }

    fn loss(&self, served: &Zone, new: &Zone) -> Option<Doubt> {
        let n_lost = served.n_records().saturating_sub(new.n_records());
        let most = served.n_records() * usize::from(self.largest_loss);
        (n_lost.saturating_mul(100) > most).then(|| Doubt::Loss {
            served: served.n_records(),
            new: new.n_records(),
            largest: self.largest_loss,
        })
    }
}

/// The reason to doubt the serial of a new version.
fn serial_doubt(served: &Zone, new: &Zone) -> Option<Doubt> {
    let (before, after) = (served.soa().serial, new.soa().serial);
    if before == after {
        let differs = served.fingerprint() != new.fingerprint();
        return differs.then_some(Doubt::SameSerial(before));
    }
    (!Soa::is_newer(after, before)).then_some(Doubt::LowerSerial {
        served: before,
        new: after,
    })
}

impl Zone {
    /// A number that differs between zones with different records, in all likelihood. The order of the records
    /// and the letter case of names do not count.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut sum = 0_u64;
        let mut add = |record: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            record(&mut hasher);
            sum = sum.wrapping_add(hasher.finish());
        };
        self.visit(&mut |owner, rtype, ttl, rdata| {
            add(&|hasher| {
                owner.hash(hasher);
                (rtype, ttl).hash(hasher);
                canonical(rtype, rdata).hash(hasher);
            });
        });
        for (owner, rtype, program) in self.programs() {
            add(&|hasher| (owner, rtype, program.ttl, &program.code).hash(hasher));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use dns_wire::hash::Seed;

    use super::*;
    use crate::parse::parse_bytes;

    const STRICT: Guard = Guard {
        serial_must_rise: true,
        largest_loss: 50,
    };

    fn zone(serial: u32, text: &str) -> Zone {
        let text = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n NS ns\n{text}");
        let file = parse_bytes(text.as_bytes()).unwrap();
        Zone::build(&file.apex, &file.records, Seed(u64::from(serial))).unwrap()
    }

    #[track_caller]
    fn check(guard: Guard, served: (u32, &str), new: (u32, &str), expected: &[Doubt]) {
        let doubts = guard.doubts(&zone(served.0, served.1), &zone(new.0, new.1));
        assert_eq!(doubts, expected);
    }

    #[test]
    fn the_serial_has_to_rise_with_the_data() {
        let (a, b) = ("a A 192.0.2.1\n", "a A 192.0.2.2\n");
        check(STRICT, (1, a), (2, b), &[]);
        check(STRICT, (u32::MAX, a), (3, b), &[]);
        check(STRICT, (1, a), (1, b), &[Doubt::SameSerial(1)]);
        check(
            STRICT,
            (1, a),
            (1, "a 61 A 192.0.2.1\n"),
            &[Doubt::SameSerial(1)],
        );
        let lower = Doubt::LowerSerial { served: 2, new: 1 };
        check(STRICT, (2, a), (1, a), &[lower]);
        let lax = Guard {
            serial_must_rise: false,
            ..STRICT
        };
        check(lax, (1, a), (1, b), &[]);
        check(lax, (2, a), (1, b), &[]);
        // It is published all the same, and said.
        let oddity = |guard: Guard, served: (u32, &str), new: (u32, &str)| {
            let oddity = guard.oddity(&zone(served.0, served.1), &zone(new.0, new.1));
            oddity.map(|oddity| oddity.message)
        };
        assert_eq!(
            oddity(lax, (1, a), (1, b)),
            Some(Doubt::SameSerial(1).to_string())
        );
        assert_eq!(oddity(lax, (2, a), (1, b)), Some(lower.to_string()));
        assert_eq!(oddity(lax, (1, a), (1, a)), None);
        assert_eq!(oddity(lax, (1, a), (2, b)), None);
        assert_eq!(oddity(STRICT, (2, a), (1, b)), None);
    }

    #[test]
    fn order_and_letter_case_are_no_change() {
        let (a, b) = ("a A 192.0.2.1\nb MX 1 A\n", "B MX 1 a\nA A 192.0.2.1\n");
        check(STRICT, (1, a), (1, b), &[]);
        let program = "c LUA A \"x()\"\n";
        check(STRICT, (1, program), (1, program), &[]);
        let other = "c LUA A \"y()\"\n";
        check(STRICT, (1, program), (1, other), &[Doubt::SameSerial(1)]);
    }

    #[test]
    fn a_zone_that_shrinks_is_doubted_beyond_the_share() {
        let of = |n: usize| {
            (0..n)
                .map(|n| format!("a{n} A 192.0.2.1\n"))
                .collect::<String>()
        };
        // SOA and NS are two more.
        check(STRICT, (1, &of(18)), (2, &of(8)), &[]);
        let doubt = Doubt::Loss {
            served: 20,
            new: 9,
            largest: 50,
        };
        check(STRICT, (1, &of(18)), (2, &of(7)), &[doubt]);
        let all = Guard {
            largest_loss: 100,
            ..STRICT
        };
        check(all, (1, &of(18)), (2, &of(0)), &[]);
        // An update may remove a few.
        let update = |before, after| {
            let (before, after) = (zone(1, &of(before)), zone(2, &of(after)));
            STRICT.doubt_of_update(&before, &after).is_some()
        };
        assert!(!update(20, 0) && !update(64, 0) && update(65, 0) && !update(200, 120));
    }
}
