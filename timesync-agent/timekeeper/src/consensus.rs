//! The consensus of sources: the truechimers, the system peer, and the offset and frequency that follow from them.
//!
//! Knows no clock and corrects nothing: the [discipline](crate::discipline) does.

use crate::delays::Delays;
use crate::filter::Filter;
use crate::knowledge::Root;
use crate::select::{self, Candidate, Failure, Selection};
use crate::source::Source;
use crate::terms::{SourceId, Weighing};
use time_model::settings::{Local, SelectionSettings, Settings};
use time_model::time::{RawTime, Reading, Span};
use time_model::view::{Leap, SelectionView, SourceState};

/// With several sources, the first one that answers is not followed before half of them did, or this has passed: the quickest
/// one may be wrong.
pub(super) const PATIENCE: Span = Span(2 * time_model::time::SECOND);
/// Uncertainty of a hidden asymmetry, as a part of the shortest round trip: sources differ by it.
const ASYMMETRY: f64 = 0.02;
/// The combined estimate of several sources.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Combined {
    /// True time less wall time.
    pub(super) offset: f64,
    pub(super) offset_variance: f64,
    pub(super) frequency: f64,
    pub(super) frequency_variance: f64,
}

/// The system peer, or the reason for having none.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    selection: Selection,
    best: Option<usize>,
    /// The best one, which may lead already.
    pub(super) leads: Option<SourceId>,
    /// The best one is another orphan.
    orphan: bool,
    /// The source with the new sample is one of those that are combined.
    pub(super) is_news: bool,
    /// Sources that were not falsetickers before.
    pub(super) falsetickers: Vec<SourceId>,
}

impl Decision {
    pub(super) fn has_leader(&self) -> bool {
        self.best.is_some()
    }

    /// The reason for having no system peer.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.selection.failure
    }
}

/// The combined estimate, and the root values of the system peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreement {
    pub(super) combined: Combined,
    pub(super) root: Root,
    /// When the next sample of the leading source is due, in seconds.
    pub(super) interval: f64,
}

/// All sources, and the rules of selection.
#[derive(Clone, Debug)]
pub(super) struct Consensus {
    pub(super) rules: SelectionSettings,
    max_samples: Option<u32>,
    sources: Vec<Source>,
    first_sample: Option<RawTime>,
}

impl Consensus {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            rules: settings.selection.clone(),
            max_samples: settings.client.max_samples,
            sources: Vec::new(),
            first_sample: None,
        }
    }

    /// Changes the rules. The knowledge of sources stays.
    pub(super) fn configure(&mut self, settings: &Settings) {
        self.rules = settings.selection.clone();
        self.max_samples = settings.client.max_samples;
    }

    /// A source is known from now on. `known` is the frequency that was learned, `tempered` what the temperature adds to it.
    pub(super) fn add(
        &mut self,
        id: SourceId,
        reference_id: u32,
        options: Weighing,
        known: Option<(f64, f64)>,
        (tempered, since): (f64, RawTime),
    ) {
        let mut filter = Filter::new(known, options.min_delay);
        filter.restrict(options.asymmetry, options.max_samples.or(self.max_samples));
        filter.temper(tempered, since);
        self.sources.push(Source {
            id,
            reference_id,
            filter,
            delays: Delays::default(),
            last: None,
            reach: 0,
            state: SourceState::Unselectable,
            selection: SelectionView {
                configured: options.select,
                effective: options.select,
                ..SelectionView::default()
            },
            score: 1.0,
            poll: options.minpoll,
            measured: 0.0,
            withdrawn: false,
            options,
        });
    }

    pub(super) fn remove(&mut self, id: SourceId) {
        self.sources.retain(|source| source.id != id);
    }

    pub(super) fn source(&self, id: SourceId) -> Option<&Source> {
        self.sources.iter().find(|source| source.id == id)
    }

    pub(super) fn source_mut(&mut self, id: SourceId) -> Option<&mut Source> {
        self.sources.iter_mut().find(|source| source.id == id)
    }

    /// Forgets the samples of a source (all sources for `None`).
    pub(super) fn restart(&mut self, id: Option<SourceId>, known: Option<(f64, f64)>) {
        for source in &mut self.sources {
            if id.is_none_or(|id| source.id == id) {
                source.filter.restart(known);
                source.last = None;
            }
        }
    }

    /// The temperature adds so much to the frequency from here on.
    pub(super) fn temper(&mut self, rate: f64, at: RawTime) {
        for source in &mut self.sources {
            source.filter.temper(rate, at);
        }
    }

    /// Every clock but the raw one has jumped.
    pub(super) fn shift(&mut self, seconds: f64) {
        for source in &mut self.sources {
            source.filter.shift(seconds);
        }
    }

    /// A sample was taken.
    pub(super) fn heard(&mut self, at: RawTime) {
        self.first_sample.get_or_insert(at);
    }

    pub(super) fn first_sample(&self) -> Option<RawTime> {
        self.first_sample
    }

    /// Chooses the system peer again; `updated` has a new sample.
    pub(super) fn decide(
        &mut self,
        local: Option<Local>,
        leading: Option<SourceId>,
        updated: Option<SourceId>,
        error_rate: f64,
        now: Reading,
    ) -> Decision {
        let orphan_stratum = local
            .filter(|local| local.orphan)
            .map(|local| local.stratum);
        let mut candidates: Vec<Candidate> = self
            .sources
            .iter()
            .map(|source| source.candidate(now, error_rate, source.lack(orphan_stratum)))
            .collect();
        let mut selection = select::select(&self.rules, &mut candidates, leading, updated);
        let mut orphan = false;
        if selection.best.is_none()
            && selection.failure == Some(Failure::Nothing)
            && let Some(index) = self.leading_orphan(local)
        {
            orphan = true;
            selection = self.follow_orphan(index, &candidates);
        }
        let reasons = select::reasons(&self.rules, &candidates, &selection);
        for ((source, candidate), reason) in self.sources.iter_mut().zip(&candidates).zip(reasons) {
            source.score = candidate.score;
            source.selection = SelectionView {
                reason,
                configured: source.options.select,
                effective: candidate.options,
                score: candidate.score,
                low: candidate.offset - candidate.distance,
                high: candidate.offset + candidate.distance,
            };
        }
        let falsetickers = self.set_states(&selection);
        let best = selection.best;
        let combined = updated.and_then(|id| {
            let index = self.sources.iter().position(|source| source.id == id)?;
            selection.states.get(index)
        });
        Decision {
            best,
            leads: best.and_then(|best| candidates.get(best).map(|candidate| candidate.id)),
            orphan,
            is_news: matches!(combined, Some(SourceState::Best | SourceState::Combined)),
            falsetickers,
            selection,
        }
    }

    /// Whether enough sources were heard to follow one of them.
    pub(super) fn is_settled(&self, now: Reading) -> bool {
        let selectable = || self.sources.iter().filter(|s| !s.options.select.noselect);
        let n_heard = selectable().filter(|source| source.last.is_some()).count();
        n_heard * 2 > selectable().count()
            || self
                .first_sample
                .is_some_and(|first| now.raw - first >= PATIENCE)
    }

    /// The consequences of a decision, if there is a system peer.
    pub(super) fn agree(
        &self,
        decision: &Decision,
        error_rate: f64,
        now: Reading,
    ) -> Option<Agreement> {
        let combined = self.combine(&decision.selection, now)?;
        let source = self.sources.get(decision.best?)?;
        let (sample, estimate) = (source.last?, source.filter.estimate(now.raw)?);
        let age = (now.raw - sample.at).seconds();
        let (delay, dispersion) = source.root(&sample, &estimate, age, error_rate);
        let root = Root {
            source: Some(source.id),
            reference_id: match source.options.copy {
                true => sample.reference_id,
                false => source.reference_id,
            },
            stratum: sample.stratum.saturating_add(source.options.stratum),
            at: now,
            delay,
            dispersion,
            orphan: decision.orphan,
        };
        Some(Agreement {
            combined,
            root,
            interval: f64::from(source.poll).exp2(),
        })
    }

    /// Leap seconds that the sources which are right announce.
    pub(super) fn leaps(&self, decision: &Decision) -> impl Iterator<Item = Leap> {
        let states = &decision.selection.states;
        let right = self.sources.iter().zip(states).filter(|(_, state)| {
            matches!(
                state,
                SourceState::Best | SourceState::Combined | SourceState::Outlier
            )
        });
        right
            .filter_map(|(source, _)| source.last.as_ref())
            .map(|sample| sample.leap)
    }

    /// Weighs sources by the uncertainty of each.
    fn combine(&self, selection: &Selection, now: Reading) -> Option<Combined> {
        let mut combined = Combined::default();
        let (mut offsets, mut frequencies) = (0.0, 0.0);
        for (source, state) in self.sources.iter().zip(&selection.states) {
            if !matches!(state, SourceState::Best | SourceState::Combined) {
                continue;
            }
            let Some(estimate) = source.filter.estimate(now.raw) else {
                continue;
            };
            let asymmetry = ASYMMETRY * source.filter.path_shortest();
            let weight = 1.0 / (estimate.offset_variance + asymmetry * asymmetry);
            offsets += weight;
            combined.offset += weight * source.offset(&estimate, now);
            combined.offset_variance += weight * weight * estimate.offset_variance;
            let weight = 1.0 / estimate.frequency_variance;
            frequencies += weight;
            combined.frequency += weight * estimate.frequency;
        }
        if offsets <= 0.0 || frequencies <= 0.0 {
            return None;
        }
        combined.offset /= offsets;
        combined.offset_variance /= offsets * offsets;
        combined.frequency /= frequencies;
        combined.frequency_variance = 1.0 / frequencies;
        Some(combined)
    }

    /// The orphan to follow, if it is not this node that leads.
    fn leading_orphan(&self, local: Option<Local>) -> Option<usize> {
        let local = local.filter(|local| local.orphan)?;
        let leads = |source: &Source| {
            source.reach != 0
                && !source.options.select.noselect
                && source.last.as_ref().is_some_and(|sample| {
                    sample.stratum == local.stratum
                        && sample.leap != Leap::Unsynchronised
                        && sample.local_reference_id != 0
                        && source.reference_id < sample.local_reference_id
                })
        };
        self.sources
            .iter()
            .enumerate()
            .filter(|(_, source)| leads(source))
            .min_by_key(|(_, source)| source.reference_id)
            .map(|(index, _)| index)
    }

    /// A selection of this source alone.
    fn follow_orphan(&self, index: usize, candidates: &[Candidate]) -> Selection {
        let near = candidates
            .get(index)
            .is_some_and(|candidate| candidate.distance <= self.rules.max_distance);
        let mut states = vec![SourceState::Unselectable; candidates.len()];
        if let Some(state) = states.get_mut(index).filter(|_| near) {
            *state = SourceState::Best;
        }
        Selection {
            states,
            best: near.then_some(index),
            failure: (!near).then_some(Failure::Nothing),
        }
    }

    /// Notes what selection made of each; gives those that have become falsetickers.
    fn set_states(&mut self, selection: &Selection) -> Vec<SourceId> {
        let mut falsetickers = Vec::new();
        for (source, state) in self.sources.iter_mut().zip(&selection.states) {
            if *state == SourceState::Falseticker && source.state != SourceState::Falseticker {
                falsetickers.push(source.id);
            }
            source.state = *state;
        }
        falsetickers
    }
}
