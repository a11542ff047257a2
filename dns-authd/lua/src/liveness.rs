//! From sets of candidates and their liveness to a choice.
//!
//! The rules are those of `PowerDNS` 5.1: the first set that has a member up wins, and the selector draws
//! among those of its members that are up; when nothing is up the backup selector draws from the first set
//! that has any member. There is one addition, *unknown*: to `PowerDNS`, an address that was never probed
//! is down.

use std::time::Duration;

use health::{Liveness, Schedule, Snapshot, TargetStatus, Watched};

use crate::choice::{Certainty, Choice};
use crate::error::LuaError;
use crate::listed::ListedNode;
use crate::options::{Options, Selector};
use crate::select::{Member, Select};
use crate::settings::{AllDown, LuaSettings, WhileUnknown};

/// The liveness of every target, and the nodes of lists.
pub trait LivenessView: Send + Sync {
    /// The liveness of this target; `Unknown` if it is not watched.
    fn liveness(&self, watched: &Watched) -> Liveness;

    /// The schedule that makes its liveness, as far as it is known.
    fn schedule(&self, watched: &Watched) -> Schedule {
        Schedule::default().with(&watched.deviation)
    }

    /// Whether this server's own probes make it, because healthd is away.
    fn stands_in(&self) -> bool {
        false
    }

    /// The nodes of a list; none if there is no such list.
    fn nodes(&self, _list: &str) -> Option<Vec<ListedNode>> {
        None
    }
}

impl LivenessView for Snapshot {
    fn liveness(&self, watched: &Watched) -> Liveness {
        let status = self.watched(watched);
        status.map_or(Liveness::Unknown, TargetStatus::effective)
    }

    fn schedule(&self, watched: &Watched) -> Schedule {
        let status = self.watched(watched).map(|status| status.schedule);
        status.unwrap_or_else(|| Schedule::default().with(&watched.deviation))
    }

    fn stands_in(&self) -> bool {
        self.stands_in
    }
}

/// A possible answer and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) answer: String,
    /// `None` if it can never be up.
    pub(crate) target: Option<Watched>,
}

/// Sets of candidates, each with its liveness.
type Rated<'a> = Vec<Vec<RatedCandidate<'a>>>;

/// A candidate with its liveness.
struct RatedCandidate<'a> {
    answer: &'a str,
    liveness: Liveness,
    /// The least time that it keeps its liveness, as a rule; `None` if it keeps it always.
    lasts: Option<Duration>,
}

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
    let rated = rate(sets, view, |_, candidate| match &candidate.target {
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
    view: &dyn LivenessView,
    settings: &LuaSettings,
) -> Result<Choice, LuaError> {
    let rated = rate(sets, view, |set, _| match set == up {
        true => Liveness::Up,
        false => Liveness::Down,
    });
    conclude(&rated, options, settings)
}

fn rate<'a>(
    sets: &'a [Vec<Candidate>],
    view: &dyn LivenessView,
    state: impl Fn(usize, &Candidate) -> Liveness,
) -> Rated<'a> {
    let rated = |number: usize, candidate: &'a Candidate| {
        let liveness = state(number, candidate);
        let target = candidate.target.as_ref();
        RatedCandidate {
            answer: &candidate.answer,
            liveness,
            // healthd may be back at any instant, and know better.
            lasts: target.map(|target| match view.stands_in() {
                true => Duration::ZERO,
                false => view.schedule(target).time_to_change(liveness),
            }),
        }
    };
    sets.iter()
        .enumerate()
        .map(|(number, set)| set.iter().map(|one| rated(number, one)).collect())
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
    let n_known = all.filter(|one| one.liveness != Liveness::Unknown).count();
    if n_known == 0 && options.fail_on_incomplete {
        return Err(LuaError::Incomplete);
    }
    let has = |set: &[RatedCandidate<'_>], wanted| set.iter().any(|one| one.liveness == wanted);
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

fn those(set: &[RatedCandidate<'_>], wanted: impl Fn(Liveness) -> bool) -> Vec<Member> {
    set.iter()
        .filter(|one| wanted(one.liveness))
        .map(|one| Member {
            value: one.answer.to_owned(),
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
fn bound(sets: &[Vec<RatedCandidate<'_>>], settings: &LuaSettings) -> Duration {
    let lasts = sets.iter().flatten().filter_map(|one| one.lasts);
    lasts
        .min()
        .unwrap_or_default()
        .max(settings.health.min_ttl.0)
}
