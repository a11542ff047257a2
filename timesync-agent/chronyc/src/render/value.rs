//! Values, in as many places as chronyc gives them.

use crate::reply::{Address, NEVER};
use time_model::time::{SECOND, UnixTime};

/// A number with this many digits behind the point.
pub(super) fn fixed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// The same, with its sign.
pub(super) fn signed(value: f64, digits: usize) -> String {
    format!("{value:+.digits$}")
}

/// Seconds since 1970, with nanoseconds.
pub(crate) fn timestamp(time: UnixTime) -> String {
    let (seconds, rest) = (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND));
    format!("{seconds}.{rest:09}")
}

/// A power of two in seconds.
pub(crate) fn exponential(power: i8) -> f64 {
    2_f64.powi(power.into())
}

/// Whole seconds in four places.
pub(super) fn interval(seconds: u32) -> String {
    match seconds {
        NEVER => "   -".to_owned(),
        0..1200 => format!("{seconds:4}"),
        1200..36_000 => format!("{:3}m", seconds / 60),
        36_000..345_600 => format!("{:3}h", seconds / 3600),
        _ => match seconds / 86_400 {
            days @ 0..=999 => format!("{days:3}d"),
            days => format!("{:3}y", days / 365),
        },
    }
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.0 * DAY;

/// A span in six or seven places.
pub(super) fn signed_span(seconds: f64) -> String {
    let size = seconds.abs();
    if size < 9999.5e-9 {
        format!("{:+5.0}ns", seconds * 1e9)
    } else if size < 9999.5e-6 {
        format!("{:+5.0}us", seconds * 1e6)
    } else if size < 9999.5e-3 {
        format!("{:+5.0}ms", seconds * 1e3)
    } else if size < 999.5 {
        format!("{seconds:+6.1}s")
    } else {
        let (unit, name) = large(size);
        format!("{:+6.0}{name}", seconds / unit)
    }
}

/// A span without sign in six places.
pub(super) fn span(seconds: f64) -> String {
    let size = seconds.abs();
    if size < 9999.5e-9 {
        format!("{:4.0}ns", size * 1e9)
    } else if size < 9999.5e-6 {
        format!("{:4.0}us", size * 1e6)
    } else if size < 9999.5e-3 {
        format!("{:4.0}ms", size * 1e3)
    } else if size < 999.5 {
        format!("{size:5.1}s")
    } else {
        let (unit, name) = large(size);
        format!("{:5.0}{name}", size / unit)
    }
}

fn large(size: f64) -> (f64, char) {
    if size < 99_999.5 {
        (1.0, 's')
    } else if size < 99_999.5 * MINUTE {
        (MINUTE, 'm')
    } else if size < 99_999.5 * HOUR {
        (HOUR, 'h')
    } else if size < 99_999.5 * DAY {
        (DAY, 'd')
    } else {
        (YEAR, 'y')
    }
}

/// Parts per million in ten places.
pub(super) fn ppm(value: f64) -> String {
    if value.abs() < 99_999.5 {
        format!("{value:10.3}")
    } else {
        format!("{value:10.0}")
    }
}

pub(super) fn signed_ppm(value: f64) -> String {
    if value.abs() < 99_999.5 {
        format!("{value:+10.3}")
    } else {
        format!("{value:+10.0}")
    }
}

/// The letters of a reference ID.
pub(crate) fn letters(id: u32) -> String {
    let octets = id.to_be_bytes().into_iter();
    octets
        .filter(|octet| octet.is_ascii_graphic() || *octet == b' ')
        .map(char::from)
        .collect()
}

/// The number of an address that a reference ID is made of (RFC 5905 §7.3); that of an IPv6 address takes MD5.
pub(crate) fn id_of(address: Address) -> u32 {
    match address {
        Address::Ip(address) => ntp::association::reference_id(address),
        Address::Unspecified | Address::Id(_) => 0,
    }
}

pub(super) fn letter(letters: &[u8], index: u16) -> char {
    letters
        .get(usize::from(index))
        .map_or(' ', |letter| char::from(*letter))
}

pub(crate) fn leap(leap: u16) -> &'static str {
    match leap {
        0 => "Normal",
        1 => "Insert second",
        2 => "Delete second",
        3 => "Not synchronised",
        _ => "Invalid",
    }
}

pub(super) fn leap_letter(leap: u8) -> char {
    match leap {
        0 => 'N',
        1 => '+',
        2 => '-',
        _ => '?',
    }
}

pub(crate) fn mode(mode: u8) -> &'static str {
    match mode {
        1 => "Symmetric active",
        2 => "Symmetric passive",
        4 => "Server",
        _ => "Invalid",
    }
}

pub(crate) fn stamp(by: u8) -> &'static str {
    match by {
        b'D' => "Daemon",
        b'K' => "Kernel",
        b'H' => "Hardware",
        _ => "Invalid",
    }
}
