//! From sets of candidates and their liveness to a choice.
//!
//! The rules are those of `PowerDNS` 5.1: the first set that has a member up wins, and the selector draws
//! among those of its members that are up; when nothing is up the backup selector draws from the first set
//! that has any member. There is one addition, *unknown*: to `PowerDNS`, an address that was never probed
//! is down.

use std::time::Duration;

use health::{Liveness, Snapshot, Target};

use crate::choice::{Certainty, Choice};
use crate::error::LuaError;
use crate::options::{Options, Selector};
use crate::select::{Member, Select};
use crate::settings::{AllDown, LuaSettings, WhileUnknown};

/// The liveness of every target.
pub trait LivenessView: Send + Sync {
    /// The liveness of this target; `Unknown` if it is not watched.
    fn liveness(&self, target: &Target) -> Liveness;
}

impl LivenessView for Snapshot {
    fn liveness(&self, target: &Target) -> Liveness {
        Self::liveness(self, target)
    }
}

/// A possible answer and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) answer: String,
    /// `None` if it can never be up.
    pub(crate) target: Option<Target>,
}

/// Sets of candidates, each with its liveness.
type Rated<'a> = Vec<Vec<(&'a Candidate, Liveness)>>;

/// Decides among sets of candidates in order of priority.
///
/// # Errors
///
/// Fails if there is no candidate at all, and if the options or settings call for no answer.
pub(crate) fn decide(
    sets: &[Vec<Candidate>],
    options: &Options,
    view: &dyn LivenessView,
    settings: &LuaSettings,
) -> Result<Choice, LuaError> {
    let rated = rate(sets, |_, candidate| match &candidate.target {
        Some(target) => view.liveness(target),
        None => Liveness::Down,
    });
    conclude(&rated, options, settings)
}

/// Decides as if one set were up and all others down; all sets are down if there is no set of that number.
pub(crate) fn suppose(
    sets: &[Vec<Candidate>],
    options: &Options,
    up: usize,
    settings: &LuaSettings,
) -> Result<Choice, LuaError> {
    let rated = rate(sets, |set, _| match set == up {
        true => Liveness::Up,
        false => Liveness::Down,
    });
    conclude(&rated, options, settings)
}

fn rate(sets: &[Vec<Candidate>], state: impl Fn(usize, &Candidate) -> Liveness) -> Rated<'_> {
    sets.iter()
        .enumerate()
        .map(|(number, set)| {
            set.iter()
                .map(|candidate| (candidate, state(number, candidate)))
                .collect()
        })
        .collect()
}

fn conclude(
    rated: &Rated<'_>,
    options: &Options,
    settings: &LuaSettings,
) -> Result<Choice, LuaError> {
    let mut all = rated.iter().flatten().peekable();
    if all.peek().is_none() {
        return Err(LuaError::Program("no address is given".to_owned()));
    }
    let n_known = all.filter(|(_, state)| *state != Liveness::Unknown).count();
    if n_known == 0 && options.fail_on_incomplete {
        return Err(LuaError::Incomplete);
    }
    let has =
        |set: &[(&Candidate, Liveness)], wanted| set.iter().any(|(_, state)| *state == wanted);
    if let Some(winner) = rated.iter().position(|set| has(set, Liveness::Up)) {
        let passed = rated.get(..winner).unwrap_or_default();
        let certainty = if passed.iter().any(|set| has(set, Liveness::Unknown)) {
            Certainty::Unknown
        } else {
            Certainty::Known
        };
        let decided = rated.get(..=winner).unwrap_or_default();
        let members = rated
            .get(winner)
            .map(|set| those(set, |state| state == Liveness::Up));
        return Ok(choice(
            members.unwrap_or_default(),
            &options.selector,
            certainty,
            Some(bound(decided, settings)),
        ));
    }
    let ttl_bound = Some(bound(rated, settings));
    let undecided = rated.iter().find(|set| has(set, Liveness::Unknown));
    if let Some(set) = undecided
        && settings.health.while_unknown == WhileUnknown::All
    {
        let members = those(set, |state| state != Liveness::Down);
        let all = Selector::Select(Select::All);
        return Ok(choice(members, &all, Certainty::Unknown, ttl_bound));
    }
    let certainty = match undecided {
        Some(_) => Certainty::Unknown,
        None => Certainty::AllDown,
    };
    let first = rated.iter().find(|set| !set.is_empty());
    let members = first.map_or_else(Vec::new, |set| those(set, |_| true));
    let backup = match (&options.backup, settings.health.all_down) {
        (Some(backup), _) => backup.clone(),
        (None, AllDown::Random) => Selector::Select(Select::Random),
        (None, AllDown::All) => Selector::Select(Select::All),
        (None, AllDown::Empty) => Selector::Empty,
        (None, AllDown::Servfail) => return Err(LuaError::AllDown),
    };
    Ok(choice(members, &backup, certainty, ttl_bound))
}

fn those(set: &[(&Candidate, Liveness)], wanted: impl Fn(Liveness) -> bool) -> Vec<Member> {
    set.iter()
        .filter(|(_, state)| wanted(*state))
        .map(|(candidate, _)| Member {
            value: candidate.answer.clone(),
            weight: 1,
        })
        .collect()
}

fn choice(
    members: Vec<Member>,
    selector: &Selector,
    certainty: Certainty,
    ttl_bound: Option<Duration>,
) -> Choice {
    let (members, select) = match selector {
        Selector::Select(select) => (members, select.clone()),
        Selector::Empty => (Vec::new(), Select::All),
    };
    Choice {
        members,
        select,
        certainty,
        ttl_bound,
    }
}

/// The shortest time in which one of these targets can change its state.
fn bound(sets: &[Vec<(&Candidate, Liveness)>], settings: &LuaSettings) -> Duration {
    sets.iter()
        .flatten()
        .filter_map(|(candidate, state)| Some(time_to_change(candidate.target.as_ref()?, *state)))
        .min()
        .unwrap_or_default()
        .max(settings.health.min_ttl.0)
}

/// The least time that a target in this state keeps it, as a rule: the first result that contradicts the
/// state comes within one interval, and the further ones it takes follow at the fast interval.
fn time_to_change(target: &Target, state: Liveness) -> Duration {
    let schedule = &target.schedule;
    let results = match state {
        Liveness::Up => schedule.fall,
        Liveness::Down => schedule.rise,
        Liveness::Unknown => return Duration::ZERO,
    };
    let further = schedule.fast_interval.min(schedule.interval);
    schedule
        .interval
        .saturating_add(further.saturating_mul(results.saturating_sub(1)))
}
