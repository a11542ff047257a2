//! Numbers in packets: seven bits of exponent e and 25 bits of coefficient c, both in two's complement, for c·2^(e−25).

const EXPONENT_MIN: i32 = -64;
const EXPONENT_MAX: i32 = 63;
const COEFFICIENT_BITS: i32 = 25;
const COEFFICIENT_MIN: i32 = -(1 << 24);
const COEFFICIENT_MAX: i32 = (1 << 24) - 1;

/// The value of a number in a packet. Too large ones become the largest, and NaN becomes 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the coefficient is below 2^24 and the exponent below 2^11"
)]
pub fn encode(number: f64) -> u32 {
    if number == 0.0 || number.is_nan() {
        return 0;
    }
    let largest = f64::from(COEFFICIENT_MAX) * 2_f64.powi(EXPONENT_MAX - COEFFICIENT_BITS);
    let smallest = f64::from(COEFFICIENT_MIN) * 2_f64.powi(EXPONENT_MAX - COEFFICIENT_BITS);
    let number = number.clamp(smallest, largest);
    // The exponent that makes the most of the coefficient's bits.
    let mut exponent = (number.abs().log2().floor() as i32).saturating_add(2);
    exponent = exponent.clamp(EXPONENT_MIN, EXPONENT_MAX);
    loop {
        let scaled = number * 2_f64.powi(COEFFICIENT_BITS - exponent);
        let coefficient = scaled.round();
        if coefficient > f64::from(COEFFICIENT_MAX) || coefficient < f64::from(COEFFICIENT_MIN) {
            if exponent == EXPONENT_MAX {
                let end = if number < 0.0 {
                    COEFFICIENT_MIN
                } else {
                    COEFFICIENT_MAX
                };
                return pack(exponent, end);
            }
            exponent += 1;
        } else {
            return pack(exponent, coefficient as i32);
        }
    }
}

/// The number that a packet says.
#[must_use]
pub fn decode(bits: u32) -> f64 {
    let signed = bits.cast_signed();
    // Shifts of signed numbers keep the sign.
    let exponent = signed >> COEFFICIENT_BITS;
    let coefficient = (signed << 7) >> 7;
    f64::from(coefficient) * 2_f64.powi(exponent - COEFFICIENT_BITS)
}

fn pack(exponent: i32, coefficient: i32) -> u32 {
    let low = coefficient.cast_unsigned() & 0x01ff_ffff;
    (exponent.cast_unsigned() << COEFFICIENT_BITS) | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chronys_own_numbers_are_understood() {
        // As chronyc sends them.
        for (bits, number) in [
            (0xfccc_cccd_u32, 0.1),
            (0x08a0_0000, 5.0),
            (0x0480_0000, 1.0),
            (0, 0.0),
        ] {
            assert!(
                (decode(bits) - number).abs() <= number * 1e-7,
                "{bits:08x}: {}",
                decode(bits)
            );
            assert_eq!(encode(number), bits, "{number}: {:08x}", encode(number));
        }
    }

    #[test]
    fn numbers_come_back() {
        let mut number = 1e-18;
        while number < 1e18 {
            for number in [number, -number] {
                let back = decode(encode(number));
                assert!(
                    (back - number).abs() <= number.abs() * 2_f64.powi(-23),
                    "{number} {back}"
                );
            }
            number *= 1.7;
        }
        for (number, expected) in [
            (f64::NAN, 0.0),
            (1e-300, 0.0),
            (f64::INFINITY, f64::from(COEFFICIENT_MAX) * 2_f64.powi(38)),
            (f64::NEG_INFINITY, -(2_f64.powi(62))),
        ] {
            assert!(
                (decode(encode(number)) - expected).abs() < 1e-18,
                "{number}"
            );
        }
    }

    #[test]
    fn every_bit_pattern_is_a_number() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let number = decode(bits);
            assert!(number.is_finite());
            assert!(
                (decode(encode(number)) - number).abs() <= number.abs() * 1e-7,
                "{bits:08x}"
            );
        }
    }
}
