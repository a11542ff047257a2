//! Filters messages: only plausible ones reach the machine.
//!
//! statime computes with what messages say; times and corrections at the ends of their ranges would overflow there. So whatever a
//! slave has no use for, and whatever no clock would say, is left outside.

/// Length of the common header (IEEE 1588-2019 §13.3).
const HEADER: usize = 34;

/// The largest correction: a second, in nanoseconds times 2¹⁶. All ones but the sign is "too large to be said" (§13.3.2.9).
const CORRECTION: u64 = 1_000_000_000 << 16;

/// Seconds of a time; the earliest leaves room for a correction, the latest is in the year 2514.
const SECONDS: std::ops::Range<u64> = 2..1 << 34;

/// An Announce message with this many steps is not qualified (§9.3.2.5).
const STEPS: u16 = 255;

/// Returns whether a message reaches the machine.
#[must_use]
pub fn admits(message: &[u8]) -> bool {
    admitted(message).is_some()
}

fn admitted(message: &[u8]) -> Option<()> {
    let [kind, version, length @ ..] = *message.first_chunk::<4>()?;
    let length = usize::from(u16::from_be_bytes(length));
    let message = message.get(..length)?;
    let flags = *message.get(6)?;
    let correction: i64 = i64::from_be_bytes(field(message, 8)?);
    let is_alternate = flags & 1 != 0;
    let is_two_step = flags & 2 != 0;
    if version & 0xf != 2 || is_alternate || correction.unsigned_abs() > CORRECTION {
        return None;
    }
    match kind & 0xf {
        // Sync: a one-step one, or a Follow_Up brings its time.
        0x0 => is_two_step.then_some(()).or_else(|| time(message)),
        // Pdelay_Req; its time is not used.
        0x2 => Some(()),
        // Pdelay_Resp, Follow_Up, Delay_Resp, Pdelay_Resp_Follow_Up.
        0x3 | 0x8 | 0x9 | 0xa => time(message),
        // Announce: stepsRemoved, and grandmasterPriority1. A clock with the last priority of all never claims to be a master;
        // statime would compare it with this clock, which has that priority, too.
        0xb => {
            let steps = u16::from_be_bytes(field(message, HEADER + 27)?);
            let [priority] = field(message, HEADER + 13)?;
            (steps < STEPS && priority < u8::MAX).then_some(())
        }
        // Delay_Req is for masters; Management and Signaling are not heard.
        _ => None,
    }
}

/// The time behind the header (§5.3.3).
fn time(message: &[u8]) -> Option<()> {
    let [a, b, c, d, e, f] = field(message, HEADER)?;
    let seconds = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let nanoseconds = u32::from_be_bytes(field(message, HEADER + 6)?);
    (SECONDS.contains(&seconds) && nanoseconds < 1_000_000_000).then_some(())
}

fn field<const N: usize>(message: &[u8], at: usize) -> Option<[u8; N]> {
    message.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, length: u16) -> Vec<u8> {
        let mut message = vec![kind, 0x12];
        message.extend(length.to_be_bytes());
        message.resize(length.into(), 0);
        message
    }

    fn with_time(kind: u8, seconds: u64, nanoseconds: u32) -> Vec<u8> {
        let mut message = message(kind, 54);
        message[34..40].copy_from_slice(&seconds.to_be_bytes()[2..]);
        message[40..44].copy_from_slice(&nanoseconds.to_be_bytes());
        message
    }

    #[test]
    fn times_are_those_of_clocks() {
        for kind in [0x0, 0x3, 0x8, 0x9, 0xa] {
            for (seconds, nanoseconds, expected) in [
                (1_700_000_000, 999_999_999, true),
                (1_700_000_000, 1_000_000_000, false),
                (1, 0, false),
                (2, 0, true),
                ((1 << 34) - 1, 0, true),
                (1 << 34, 0, false),
                ((1 << 48) - 1, 0, false),
            ] {
                let message = with_time(kind, seconds, nanoseconds);
                assert_eq!(admits(&message), expected, "{kind} {seconds} {nanoseconds}");
            }
            assert!(!admits(&message(kind, 43)), "{kind}: it has no time");
        }
        // A Sync message of two steps says nothing yet.
        let mut sync = message(0x0, 44);
        assert!(!admits(&sync));
        sync[6] = 2;
        assert!(admits(&sync));
    }

    #[test]
    fn corrections_are_below_a_second() {
        for (correction, expected) in [
            (0, true),
            (65_536_000_000_000_i64, true),
            (-65_536_000_000_000, true),
            (65_536_000_000_001, false),
            (i64::MAX, false),
            (i64::MIN, false),
        ] {
            let mut message = with_time(0x8, 5, 0);
            message[8..16].copy_from_slice(&correction.to_be_bytes());
            assert_eq!(admits(&message), expected, "{correction}");
        }
    }

    #[test]
    fn what_is_not_for_a_slave_stays_outside() {
        let mut announce = message(0xb, 64);
        assert!(admits(&announce));
        // Padding is no part of it.
        announce.push(0);
        assert!(admits(&announce));
        announce[61..63].copy_from_slice(&255_u16.to_be_bytes());
        assert!(!admits(&announce), "too far away");
        announce[61..63].fill(0);
        announce[47] = 255;
        assert!(!admits(&announce), "no claim to be a master");
        announce[47] = 254;
        assert!(admits(&announce));
        announce[6] = 1;
        assert!(!admits(&announce), "an alternate master");
        announce[6] = 0;
        announce[1] = 1;
        assert!(!admits(&announce), "version 1");
        for kind in [0x1, 0x4, 0x7, 0xc, 0xd, 0xe, 0xf] {
            assert!(!admits(&message(kind, 64)), "{kind}");
        }
        for length in 0..4 {
            assert!(!admits(&message(0x2, 54)[..length]), "{length}");
        }
        let mut long = message(0x2, 54);
        long.pop();
        assert!(!admits(&long), "it is shorter than it says");
    }
}
