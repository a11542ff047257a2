//! Places on Earth (RFC 1876): `52 22 23.000 N 4 53 32.000 E -2.00m 1m 10000m 10m`.

use super::RdataError;
use super::text::{Text, decimal};
use super::wire::Wire;

/// Latitude and longitude 0, in thousandths of a second of arc (RFC 1876 §2).
const MERIDIAN: u32 = 1 << 31;
/// The zero of the altitude: 100 km below the reference spheroid, in centimetres.
const GROUND: i64 = 10_000_000;
/// The defaults of size and precisions: 1 m, 10 km and 10 m.
const DEFAULTS: [u8; 3] = [0x12, 0x16, 0x13];

/// `D [M [S]] N|S  D [M [S]] E|W  ALTITUDE[m] [SIZE [HORIZONTAL [VERTICAL]]]`.
pub(super) fn parse(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let latitude = angle(text, 90, ["N", "S"])?;
    let longitude = angle(text, 180, ["E", "W"])?;
    let altitude = text.bare("the altitude")?;
    let altitude = centimetres(altitude)
        .and_then(|height| u32::try_from(height + GROUND).ok())
        .ok_or_else(|| text.error(format!("`{altitude}` is no altitude in metres")))?;
    let mut sizes = DEFAULTS;
    for size in &mut sizes {
        let Some(token) = text.next_if_any() else {
            break;
        };
        let word = std::str::from_utf8(token.text)
            .ok()
            .filter(|_| !token.quoted);
        let length = word
            .and_then(centimetres)
            .and_then(|length| precision(length.try_into().ok()?));
        *size = length.ok_or_else(|| text.wrong(token, "length in metres"))?;
    }
    out.push(0);
    out.extend_from_slice(&sizes);
    for value in [latitude, longitude, altitude] {
        out.extend_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

/// Degrees, minutes, seconds, and on which side of the meridian.
fn angle(text: &mut Text<'_>, limit: u32, sides: [&str; 2]) -> Result<u32, RdataError> {
    let degrees: u32 = text.number("the degrees")?;
    let (mut minutes, mut thousandths, mut parts) = (0, 0, 0);
    let side = loop {
        let word = text.bare("the side of the meridian")?;
        if let Some(side) = sides
            .iter()
            .position(|side| side.eq_ignore_ascii_case(word))
        {
            break side;
        }
        parts += 1;
        let value = match parts {
            1 => decimal::<u32>(word.as_bytes())
                .filter(|value| *value < 60)
                .map(|it| minutes = it),
            2 => fraction(word, 3)
                .and_then(|value| u32::try_from(value).ok())
                .filter(|value| *value < 60_000)
                .map(|it| thousandths = it),
            _ => None,
        };
        let [plus, minus] = sides;
        value.ok_or_else(|| {
            text.error(format!(
                "`{word}` is neither minutes, seconds, {plus} nor {minus}"
            ))
        })?;
    };
    let arc = degrees
        .checked_mul(3_600_000)
        .and_then(|arc| arc.checked_add(minutes * 60_000));
    let arc = arc.and_then(|arc| arc.checked_add(thousandths));
    let arc = arc.filter(|arc| *arc <= limit * 3_600_000);
    let arc = arc.ok_or_else(|| text.error(format!("an angle is at most {limit} degrees")))?;
    Ok(if side == 0 {
        MERIDIAN + arc
    } else {
        MERIDIAN - arc
    })
}

/// Metres with at most two decimals, in centimetres.
fn centimetres(word: &str) -> Option<i64> {
    let number = word.strip_suffix(['m', 'M']).unwrap_or(word);
    match number.strip_prefix('-') {
        Some(positive) => fraction(positive, 2).map(|value| -value),
        None => fraction(number, 2),
    }
}

/// A decimal number with at most `places` decimals, as a multiple of the last place.
fn fraction(word: &str, places: u32) -> Option<i64> {
    let (whole, decimals) = word.split_once('.').unwrap_or((word, "0"));
    let n_decimals = u32::try_from(decimals.len())
        .ok()
        .filter(|n| (1..=places).contains(n))?;
    let whole: i64 = i64::from(decimal::<u32>(whole.as_bytes())?);
    let decimals = i64::from(decimal::<u32>(decimals.as_bytes())?);
    Some(whole * 10_i64.pow(places) + decimals * 10_i64.pow(places - n_decimals))
}

/// A length as a digit and a power of ten of centimetres (RFC 1876 §2), rounded down, as in other servers.
fn precision(length: u64) -> Option<u8> {
    let (mut base, mut exponent) = (length, 0_u8);
    while base > 9 {
        base /= 10;
        exponent += 1;
    }
    (exponent <= 9).then_some(u8::try_from(base).ok()? << 4 | exponent)
}

/// Appends the place.
pub(super) fn show(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    if wire.u8()? != 0 {
        return None;
    }
    let sizes = wire.array::<3>()?;
    show_angle(wire.u32()?, 90, ['N', 'S'], out)?;
    show_angle(wire.u32()?, 180, ['E', 'W'], out)?;
    show_metres(i64::from(wire.u32()?) - GROUND, out);
    for size in sizes {
        let (base, exponent) = (size >> 4, size & 0xf);
        if base > 9 || exponent > 9 {
            return None;
        }
        out.push(' ');
        show_metres(i64::from(base) * 10_i64.pow(u32::from(exponent)), out);
    }
    Some(())
}

fn show_angle(value: u32, limit: u32, sides: [char; 2], out: &mut String) -> Option<()> {
    let [plus, minus] = sides;
    let side = if value >= MERIDIAN { plus } else { minus };
    let arc = value.abs_diff(MERIDIAN);
    if arc > limit * 3_600_000 {
        return None;
    }
    let (degrees, minutes, rest) = (arc / 3_600_000, arc / 60_000 % 60, arc % 60_000);
    let (seconds, thousandths) = (rest / 1000, rest % 1000);
    out.push_str(&format!(
        "{degrees} {minutes} {seconds}.{thousandths:03} {side} "
    ));
    Some(())
}

fn show_metres(centimetres: i64, out: &mut String) {
    let sign = if centimetres < 0 { "-" } else { "" };
    let (metres, rest) = (
        centimetres.unsigned_abs() / 100,
        centimetres.unsigned_abs() % 100,
    );
    out.push_str(&format!("{sign}{metres}.{rest:02}m"));
}
