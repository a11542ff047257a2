//! Selection of the truechimers and of the system peer: intersection of their intervals (RFC 5905 §11.2.1), then chrony's rules
//! of preference, hysteresis and combining.

use super::terms::SourceId;
use time_model::settings::{AuthSelectMode, SelectOptions, SelectionSettings};
use time_model::view::{Reason, SourceState};

/// A source as selection sees it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) id: SourceId,
    pub(super) options: SelectOptions,
    pub(super) authenticated: bool,
    /// Why it cannot be used; none of one that is reached, synchronised, has samples, and does not follow this node.
    pub(super) lack: Option<Reason>,
    /// Its last sample contradicts what it said before.
    pub(super) in_doubt: bool,
    pub(super) stratum: u8,
    /// True time less wall time, by this source, in seconds.
    pub(super) offset: f64,
    /// Root distance: the offset is right within this (RFC 5905 appendix A.5.5.2).
    pub(super) distance: f64,
    /// Deviation of its samples.
    pub(super) deviation: f64,
    /// Gain in a second, and its standard deviation.
    pub(super) frequency: f64,
    pub(super) skew: f64,
    /// By what factor it was nearer than the leading one, over time.
    pub(super) score: f64,
}

/// The result of selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selection {
    /// The result for each candidate, in their order.
    pub(super) states: Vec<SourceState>,
    /// The system peer.
    pub(super) best: Option<usize>,
    /// The reason for having no system peer.
    pub(super) failure: Option<Failure>,
}

/// The reason for having no system peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No source is usable.
    Nothing,
    /// No majority agrees.
    NoMajority,
    /// Fewer than `minsources` agree, or none of the required ones does.
    TooFew {
        /// This many agree.
        n_agreeing: u32,
    },
}

/// A source has to be better by this factor, over time, to take the lead.
const SCORE_LIMIT: f64 = 10.0;

/// Selects; scores of candidates are brought up to date, `updated` being the one that has a new sample.
pub(super) fn select(
    rules: &SelectionSettings,
    candidates: &mut [Candidate],
    leading: Option<SourceId>,
    updated: Option<SourceId>,
) -> Selection {
    authenticate(rules.authentication, candidates);
    let mut states = usable(rules, candidates);
    let fail = |states, failure| Selection {
        states,
        best: None,
        failure: Some(failure),
    };
    if !states.contains(&SourceState::Combined) {
        return fail(states, Failure::Nothing);
    }
    let Some((low, high)) = intersection(candidates, &states) else {
        replace(&mut states, SourceState::Combined, SourceState::Falseticker);
        return fail(states, Failure::NoMajority);
    };
    for (candidate, state) in candidates.iter().zip(&mut states) {
        let contains = candidate.offset - candidate.distance <= low
            && candidate.offset + candidate.distance >= high;
        if *state == SourceState::Combined && !contains {
            *state = SourceState::Falseticker;
        }
    }
    let (mut n_agreeing, mut has_required, mut preferred) = (0, false, false);
    for (candidate, state) in candidates.iter().zip(&states) {
        if *state == SourceState::Combined {
            n_agreeing += 1;
            has_required |= candidate.options.require;
            preferred |= candidate.options.prefer;
        }
    }
    let required = candidates.iter().any(|candidate| candidate.options.require);
    if n_agreeing < rules.min_sources || (required && !has_required) {
        replace(&mut states, SourceState::Combined, SourceState::Outlier);
        let n_agreeing = u32::try_from(n_agreeing).unwrap_or(u32::MAX);
        return fail(states, Failure::TooFew { n_agreeing });
    }
    for (candidate, state) in candidates.iter().zip(&mut states) {
        if *state == SourceState::Combined && preferred && !candidate.options.prefer {
            *state = SourceState::Outlier;
        }
    }
    let best = lead(rules, candidates, &states, leading, updated);
    if let Some(best) = best {
        restrict_combining(rules, candidates, &mut states, best);
    }
    Selection {
        states,
        best,
        failure: None,
    }
}

/// The verdict on each alone. Those that may count are `Combined`, until the intersection is known.
fn usable(rules: &SelectionSettings, candidates: &[Candidate]) -> Vec<SourceState> {
    // A source that contradicts itself counts only if there is no other.
    let consistent = candidates.iter().any(|c| {
        c.lack.is_none() && !c.in_doubt && !c.options.noselect && c.distance <= rules.max_distance
    });
    let state = |candidate: &Candidate| {
        let near = candidate.distance <= rules.max_distance;
        let in_doubt = candidate.in_doubt && consistent;
        if candidate.lack.is_some() || in_doubt || candidate.options.noselect || !near {
            SourceState::Unselectable
        } else if candidate.deviation > rules.max_jitter {
            SourceState::TooVariable
        } else {
            SourceState::Combined
        }
    };
    candidates.iter().map(state).collect()
}

/// Why each is in the state that it is in, for who wants to know.
pub(super) fn reasons(
    rules: &SelectionSettings,
    candidates: &[Candidate],
    selection: &Selection,
) -> Vec<Reason> {
    let agrees = |state: &SourceState| {
        matches!(
            state,
            SourceState::Best | SourceState::Combined | SourceState::Outlier
        )
    };
    let both = || candidates.iter().zip(&selection.states);
    let trusted = both().any(|(candidate, state)| candidate.options.trust && agrees(state));
    let preferred = both().any(|(candidate, state)| candidate.options.prefer && agrees(state));
    let leader = selection.best.and_then(|best| candidates.get(best));
    let reach = leader.map_or(f64::INFINITY, |leader| {
        rules.combine_limit * (rules.reselect_distance + leader.distance)
    });
    let reason = |(candidate, state): (&Candidate, &SourceState)| match state {
        SourceState::Best => Reason::Best,
        SourceState::Combined => Reason::Combined,
        SourceState::TooVariable => Reason::Jitter,
        SourceState::Falseticker if trusted && !candidate.options.trust => Reason::Untrusted,
        SourceState::Falseticker => Reason::Falseticker,
        SourceState::Outlier if leader.is_none() => Reason::WaitsSources,
        SourceState::Outlier if preferred && !candidate.options.prefer => Reason::NotPreferred,
        SourceState::Outlier if candidate.distance > reach => Reason::Distant,
        SourceState::Outlier => Reason::Outlier,
        SourceState::Unselectable if candidate.options.noselect => Reason::NoSelect,
        SourceState::Unselectable => candidate.lack.unwrap_or({
            if candidate.distance > rules.max_distance {
                Reason::Distance
            } else {
                Reason::WaitsSamples
            }
        }),
    };
    both().map(reason).collect()
}

fn replace(states: &mut [SourceState], old: SourceState, new: SourceState) {
    for state in states {
        if *state == old {
            *state = new;
        }
    }
}

/// `authselectmode`.
fn authenticate(mode: AuthSelectMode, candidates: &mut [Candidate]) {
    let any_with = candidates
        .iter()
        .any(|c| c.authenticated && !c.options.noselect);
    let any_without = candidates
        .iter()
        .any(|c| !c.authenticated && !c.options.noselect);
    for candidate in candidates {
        match mode {
            AuthSelectMode::Require => candidate.options.noselect |= !candidate.authenticated,
            AuthSelectMode::Prefer if any_with => {
                candidate.options.noselect |= !candidate.authenticated;
            }
            AuthSelectMode::Mix if any_with && any_without && candidate.authenticated => {
                candidate.options.require = true;
                candidate.options.trust = true;
            }
            AuthSelectMode::Prefer | AuthSelectMode::Mix | AuthSelectMode::Ignore => {}
        }
    }
}

/// The point at which most of the intervals overlap, if a majority does. If there are trusted sources, they decide alone.
fn intersection(candidates: &[Candidate], states: &[SourceState]) -> Option<(f64, f64)> {
    let selectable = || {
        candidates
            .iter()
            .zip(states)
            .filter(|(_, state)| **state == SourceState::Combined)
            .map(|(candidate, _)| candidate)
    };
    let trusted = selectable().any(|candidate| candidate.options.trust);
    let voters: Vec<&Candidate> = selectable()
        .filter(|candidate| candidate.options.trust || !trusted)
        .collect();
    let mut ends: Vec<(f64, bool)> = voters
        .iter()
        .flat_map(|c| {
            [
                (c.offset - c.distance, true),
                (c.offset + c.distance, false),
            ]
        })
        .collect();
    // At one point, beginnings come before ends: intervals that touch overlap.
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut overlap = None;
    for (index, (end, begins)) in ends.iter().enumerate() {
        if *begins {
            depth += 1;
            if depth > deepest {
                deepest = depth;
                // Right after a beginning that is the deepest there is an end.
                overlap = ends.get(index + 1).map(|(next, _)| (*end, *next));
            }
        } else {
            depth = depth.saturating_sub(1);
        }
    }
    // RFC 5905 §11.2.1: more than half.
    if deepest * 2 > voters.len() {
        overlap
    } else {
        None
    }
}

/// The nearest becomes the system peer; the present one stays unless another is better for long.
fn lead(
    rules: &SelectionSettings,
    candidates: &mut [Candidate],
    states: &[SourceState],
    leading: Option<SourceId>,
    updated: Option<SourceId>,
) -> Option<usize> {
    let eligible: Vec<usize> = states
        .iter()
        .enumerate()
        .filter(|(_, state)| **state == SourceState::Combined)
        .map(|(index, _)| index)
        .collect();
    let lowest = eligible
        .iter()
        .filter_map(|i| candidates.get(*i))
        .map(|c| c.stratum)
        .min()?;
    let weighted = |c: &Candidate| {
        c.distance + f64::from(c.stratum.saturating_sub(lowest)) * rules.stratum_weight
    };
    let nearest = eligible.iter().copied().min_by(|a, b| {
        let of = |i: &usize| candidates.get(*i).map_or(f64::INFINITY, weighted);
        of(a).total_cmp(&of(b))
    });
    let current = eligible
        .iter()
        .copied()
        .find(|i| candidates.get(*i).is_some_and(|c| Some(c.id) == leading));
    let Some(current) = current else {
        for candidate in candidates.iter_mut() {
            candidate.score = 1.0;
        }
        return nearest;
    };
    let distance = candidates.get(current).map_or(f64::INFINITY, weighted);
    let mut best = (current, SCORE_LIMIT);
    for index in eligible {
        let Some(candidate) = candidates.get_mut(index) else {
            continue;
        };
        if index == current {
            candidate.score = 1.0;
            continue;
        }
        // A new sample of either is an occasion to compare.
        if updated == Some(candidate.id) || updated == leading {
            let own = candidate.distance
                + f64::from(candidate.stratum.saturating_sub(lowest)) * rules.stratum_weight;
            let better = distance / (own + rules.reselect_distance).max(1e-9);
            candidate.score = (candidate.score * better).max(1.0);
        }
        if candidate.score > best.1 {
            best = (index, candidate.score);
        }
    }
    if best.0 != current {
        for candidate in candidates.iter_mut() {
            candidate.score = 1.0;
        }
    }
    Some(best.0)
}

/// A source that is far from the system peer, in distance or in frequency, agrees but is not combined.
fn restrict_combining(
    rules: &SelectionSettings,
    candidates: &[Candidate],
    states: &mut [SourceState],
    best: usize,
) {
    let Some(leader) = candidates.get(best) else {
        return;
    };
    for (index, (candidate, state)) in candidates.iter().zip(states).enumerate() {
        if index == best {
            *state = SourceState::Best;
        } else if *state == SourceState::Combined {
            let far = candidate.distance
                > rules.combine_limit * (rules.reselect_distance + leader.distance);
            let apart = (candidate.frequency - leader.frequency).abs()
                > rules.combine_limit.max(3.0) * (candidate.skew + leader.skew + 1e-6);
            if far || apart || rules.combine_limit <= 0.0 {
                *state = SourceState::Outlier;
            }
        }
    }
}
