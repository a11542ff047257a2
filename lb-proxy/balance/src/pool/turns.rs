//! Turns of a weighted round robin.
//!
//! The turns of one round are laid out when servers change, so that a pick is one look-up. They are
//! as smooth as they can be: with weights 5, 1 and 1 a round is `a a b a c a a`, not
//! `a a a a a b c`.

/// The longest round that is laid out to the letter. With more servers and weights than fit, each
/// server's number of turns is rounded, which is never more than half a turn off.
const MAX_ROUND: usize = 4096;

/// One round: the index of a server for each turn.
pub(crate) fn round(weights: &[(u16, u16)]) -> Box<[u16]> {
    let weights = fit(weights);
    let total: i64 = weights.iter().map(|(_, weight)| i64::from(*weight)).sum();
    let mut eligibilities: Vec<(u16, i64, i64)> = weights
        .iter()
        .map(|(index, weight)| (*index, i64::from(*weight), 0))
        .collect();
    let mut round = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
    for _ in 0..total {
        // Everybody gains its weight; the one furthest ahead has its turn and pays for it. Between
        // equals the first in order.
        let mut ahead: Option<&mut (u16, i64, i64)> = None;
        for eligibility in &mut eligibilities {
            eligibility.2 += eligibility.1;
            if ahead.as_ref().is_none_or(|ahead| eligibility.2 > ahead.2) {
                ahead = Some(eligibility);
            }
        }
        if let Some(ahead) = ahead {
            ahead.2 -= total;
            round.push(ahead.0);
        }
    }
    round.into_boxed_slice()
}

/// The same proportions in the smallest numbers, of which the sum makes a round.
fn fit(weights: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let divisor = weights
        .iter()
        .fold(0, |divisor, (_, weight)| common_divisor(divisor, *weight))
        .max(1);
    let total: usize = weights
        .iter()
        .map(|(_, weight)| usize::from(weight / divisor))
        .sum();
    let longest = MAX_ROUND.max(weights.len());
    weights
        .iter()
        .map(|(index, weight)| {
            let weight = weight / divisor;
            if total <= longest {
                return (*index, weight);
            }
            let turns = (usize::from(weight) * longest + total / 2) / total;
            (*index, u16::try_from(turns).unwrap_or(weight).max(1))
        })
        .collect()
}

fn common_divisor(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(weights: &[u16], expected: &str) {
        let weights: Vec<(u16, u16)> = (0..).zip(weights.iter().copied()).collect();
        let turns: String = round(&weights)
            .iter()
            .map(|index| char::from(b'a' + u8::try_from(*index).unwrap()))
            .collect();
        assert_eq!(turns, expected, "{weights:?}");
    }

    #[test]
    fn a_round_is_smooth() {
        check(&[1, 1, 1], "abc");
        check(&[100, 100, 100], "abc");
        check(&[5, 1, 1], "aabacaa");
        check(&[2, 1], "aba");
        check(&[200, 100], "aba");
        check(&[256], "a");
        check(&[], "");
    }

    #[test]
    fn every_server_has_turns_in_proportion() {
        for n_servers in [1, 2, 3, 7, 16, 17, 64, 300] {
            let weights: Vec<(u16, u16)> = (0..n_servers)
                .map(|index| (index, 1 + (index * 37) % 256))
                .collect();
            let round = round(&weights);
            let total: usize = weights.iter().map(|(_, weight)| usize::from(*weight)).sum();
            for (index, weight) in &weights {
                let turns = round.iter().filter(|turn| *turn == index).count();
                let exact = usize::from(*weight) * round.len();
                let off = (turns * total).abs_diff(exact);
                assert!(off <= total, "{n_servers} servers, {index}: {turns} turns");
            }
            assert!(round.len() <= MAX_ROUND * 2, "{n_servers}: {}", round.len());
        }
    }
}
