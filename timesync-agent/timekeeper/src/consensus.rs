//! The consensus of sources: the truechimers, the system peer, and the offset and frequency that follow from them.
//!
//! Knows no clock and corrects nothing: the [discipline](crate::discipline) does.

use crate::delays::Delays;
use crate::filter::Filter;
use crate::knowledge::Root;
use crate::select::{self, Candidate, Failure, Selection};
use crate::source::Source;
use crate::terms::{SourceId, Weighing};
use time_model::settings::{Bounds, Local, SelectionSettings, Settings};
use time_model::time::{RawTime, Reading, Span};
use time_model::view::{Leap, Reason, SelectionView, SourceState};

/// The first burst of all sources: eight requests, two seconds apart. Without a majority the clock is let alone until it is over.
pub(super) const FIRST_BURST: Span = Span(16 * time_model::time::SECOND);
/// Samples after which a source has said what it has to say in its first burst.
const BURST_SAMPLES: usize = 4;
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
    /// Sources that give an impossible time, and did not before.
    pub(super) impossible: Vec<SourceId>,
}

/// The proof that the clock may be corrected; only the consensus makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled(Ground);

impl Settled {
    /// Whether more than half of all sources have agreed at some time.
    pub(super) fn is_majority(self) -> bool {
        self.0 == Ground::Majority
    }
}

/// The ground on which sources are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    /// The first burst of all sources is over, and no more than half of them agree.
    BurstOver,
    /// More than half of all sources agree.
    Majority,
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
    bounds: Bounds,
    max_samples: Option<u32>,
    sources: Vec<Source>,
    /// Sources of the configuration that may be followed, a pool counted once: names that are not resolved are among them.
    n_configured: usize,
    first_sample: Option<RawTime>,
    ground: Option<Ground>,
}

impl Consensus {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            rules: settings.selection.clone(),
            bounds: settings.bounds,
            max_samples: settings.client.max_samples,
            sources: Vec::new(),
            n_configured: n_configured(settings),
            first_sample: None,
            ground: None,
        }
    }

    /// Changes the rules. The knowledge of sources stays.
    pub(super) fn configure(&mut self, settings: &Settings) {
        self.rules = settings.selection.clone();
        self.bounds = settings.bounds;
        self.max_samples = settings.client.max_samples;
        self.n_configured = n_configured(settings);
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
            .map(|source| {
                let mut candidate = source.candidate(now, error_rate, source.lack(orphan_stratum));
                let time = now.wall + Span::from_seconds(candidate.offset);
                if candidate.lack.is_none() && !self.bounds.admit(time, candidate.authenticated) {
                    candidate.lack = Some(Reason::Impossible);
                }
                candidate
            })
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
        let mut impossible = Vec::new();
        for ((source, candidate), reason) in self.sources.iter_mut().zip(&candidates).zip(reasons) {
            if reason == Reason::Impossible && source.selection.reason != reason {
                impossible.push(source.id);
            }
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
            impossible,
            selection,
        }
    }

    /// The proof that the clock may be corrected by a decision: more than half of all sources agree, or the first burst of all
    /// is over. Those that answer first may be wrong, and may agree with each other. A proof holds from then on.
    pub(super) fn settle(&mut self, decision: &Decision, now: Reading) -> Option<Settled> {
        let ground = if self.is_majority(decision) {
            Some(Ground::Majority)
        } else if self.is_burst_over(now) {
            Some(Ground::BurstOver)
        } else {
            None
        };
        self.ground = self.ground.max(ground);
        self.ground.map(Settled)
    }

    /// Whether a majority may still come before the first burst is over.
    pub(super) fn is_unsettled(&self) -> bool {
        self.ground.is_none()
    }

    fn is_majority(&self, decision: &Decision) -> bool {
        let agrees = |state: &&SourceState| {
            matches!(
                state,
                SourceState::Best | SourceState::Combined | SourceState::Outlier
            )
        };
        let n_agreeing = decision.selection.states.iter().filter(agrees).count();
        let n_selectable = self.selectable().count().max(self.n_configured);
        n_agreeing * 2 > n_selectable
    }

    fn is_burst_over(&self, now: Reading) -> bool {
        let has_spoken =
            |source: &Source| source.withdrawn || source.filter.n_samples() >= BURST_SAMPLES;
        let all_have =
            self.selectable().count() >= self.n_configured && self.selectable().all(has_spoken);
        let is_past = |first| now.raw - first >= FIRST_BURST;
        all_have || self.first_sample.is_some_and(is_past)
    }

    /// Sources that may be followed, by the configuration and `authselectmode`.
    fn selectable(&self) -> impl Iterator<Item = &Source> {
        let is_selectable = |source: &&Source| !source.selection.effective.noselect;
        self.sources.iter().filter(is_selectable)
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

/// Sources of a configuration that may be followed.
fn n_configured(settings: &Settings) -> usize {
    let servers = settings.sources.iter();
    let n_servers = servers.filter(|source| !source.options.noselect).count();
    let clocks = settings.refclocks.iter().map(|clock| &clock.options);
    let n_clocks = clocks
        .filter(|clock| !clock.noselect && !clock.local)
        .count();
    n_servers + n_clocks
}
