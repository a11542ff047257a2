//! The table.

use super::Duty::{
    AskOthers, Delete, Discard, EndLease, Fetch, Heal, Judge, Lease, MoveToTrash, Place, PutAway,
    Settle, SyncName, TakeBack, TakeLinksBack,
};
use super::{Duty, Event, State, Step, Visit};

/// The outcome of an event in a state. An event that means nothing to a state leaves it as it is, without a duty.
#[must_use]
pub fn step(state: State, event: Event) -> Step {
    let (next, duties) = match state {
        State::Absent | State::Remote => without_octets(state, event),
        State::Part => of_part(event),
        State::Named | State::Leased | State::Linked => in_place(state, event),
        State::Trashed => in_trash(event),
        State::Quarantined => of_damaged(event),
    };
    Step { next, duties }
}

/// Content without octets: it is to be healed if a repository has it, and is at most on other nodes if not.
fn without_octets(state: State, event: Event) -> (State, &'static [Duty]) {
    let is_named = state == State::Remote;
    match event {
        Event::Begun => (State::Part, &[]),
        Event::Wanted if is_named => (state, &[Heal, AskOthers]),
        Event::Wanted => (state, &[AskOthers]),
        Event::Lost if is_named => (state, &[EndLease, Heal]),
        Event::Lost => (state, &[EndLease]),
        Event::Started if is_named => (state, &[Heal]),
        Event::Due if is_named => (state, &[Fetch]),
        Event::Due => (state, &[Settle]),
        Event::Broken
        | Event::Arrived
        | Event::Started
        | Event::Swept(_)
        | Event::Doubted
        | Event::Damaged
        | Event::Whole => (state, &[]),
    }
}

/// Content on its way in: no client sees it before it is whole and durable.
fn of_part(event: Event) -> (State, &'static [Duty]) {
    match event {
        Event::Arrived => (State::Leased, &[Place, Lease, Settle]),
        Event::Broken => (State::Absent, &[Discard]),
        Event::Wanted => (State::Part, &[AskOthers]),
        Event::Begun
        | Event::Started
        | Event::Swept(_)
        | Event::Doubted
        | Event::Damaged
        | Event::Whole
        | Event::Lost
        | Event::Due => (State::Part, &[]),
    }
}

/// Content in its place: a request is promised it, and the sweep moves content without a claim.
fn in_place(state: State, event: Event) -> (State, &'static [Duty]) {
    match event {
        Event::Wanted => {
            let next = match state {
                State::Linked => State::Linked,
                _ => State::Leased,
            };
            (next, &[SyncName, Lease])
        }
        Event::Swept(_) if state == State::Named => (State::Trashed, &[MoveToTrash, EndLease]),
        Event::Doubted => (State::Quarantined, &[EndLease, Heal]),
        Event::Damaged => (State::Quarantined, &[EndLease, Heal, PutAway]),
        Event::Lost if state == State::Linked => (State::Remote, &[EndLease, Heal]),
        Event::Lost => (State::Absent, &[EndLease]),
        Event::Whole | Event::Due => (state, &[Settle]),
        Event::Begun | Event::Broken | Event::Arrived | Event::Started | Event::Swept(_) => {
            (state, &[])
        }
    }
}

/// Content in the trash: a request takes it back, and it goes only when no link can hold any more.
fn in_trash(event: Event) -> (State, &'static [Duty]) {
    match event {
        Event::Wanted | Event::Due => (State::Leased, &[TakeBack, Lease]),
        Event::Swept(Visit::Due) => (State::Absent, &[TakeLinksBack, Delete]),
        Event::Damaged => (State::Quarantined, &[EndLease, Heal, PutAway]),
        // The look at its place that did not find it is not of its loss.
        Event::Lost
        | Event::Begun
        | Event::Broken
        | Event::Arrived
        | Event::Started
        | Event::Swept(Visit::Early | Visit::Unheard)
        | Event::Doubted
        | Event::Whole => (State::Trashed, &[]),
    }
}

/// Content whose file is damaged: other nodes serve it until it is whole.
fn of_damaged(event: Event) -> (State, &'static [Duty]) {
    match event {
        Event::Begun => (State::Part, &[]),
        Event::Wanted => (State::Quarantined, &[Heal, AskOthers]),
        Event::Doubted => (State::Quarantined, &[EndLease, Heal]),
        Event::Damaged => (State::Quarantined, &[EndLease, Heal, PutAway]),
        Event::Whole => (State::Named, &[Settle]),
        Event::Started => (State::Quarantined, &[Heal]),
        Event::Due => (State::Quarantined, &[Judge]),
        Event::Swept(Visit::Due) => (State::Remote, &[Delete]),
        Event::Lost => (State::Remote, &[EndLease, Heal]),
        Event::Broken | Event::Arrived | Event::Swept(Visit::Early | Visit::Unheard) => {
            (State::Quarantined, &[])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::{Claim, File, Holders, Proof, Since};

    /// The cells of a state that ask for something or lead elsewhere.
    fn row(state: State) -> String {
        let mut row = format!("{state:?}:");
        for event in Event::ALL {
            let Step { next, duties } = step(state, event);
            if next != state || !duties.is_empty() {
                write!(row, " {event:?}→{next:?}{duties:?}").unwrap();
            }
        }
        row
    }

    #[test]
    fn the_whole_table() {
        let rows: Vec<String> = State::ALL.into_iter().map(row).collect();
        let wanted = [
            "Absent: Begun→Part[] Wanted→Absent[AskOthers] Lost→Absent[EndLease] Due→Absent[Settle]",
            "Part: Broken→Absent[Discard] Arrived→Leased[Place, Lease, Settle] Wanted→Part[AskOthers]",
            "Named: Wanted→Leased[SyncName, Lease] Swept(Early)→Trashed[MoveToTrash, EndLease] \
             Swept(Unheard)→Trashed[MoveToTrash, EndLease] Swept(Due)→Trashed[MoveToTrash, EndLease] \
             Doubted→Quarantined[EndLease, Heal] Damaged→Quarantined[EndLease, Heal, PutAway] Whole→Named[Settle] \
             Lost→Absent[EndLease] Due→Named[Settle]",
            "Leased: Wanted→Leased[SyncName, Lease] Doubted→Quarantined[EndLease, Heal] \
             Damaged→Quarantined[EndLease, Heal, PutAway] Whole→Leased[Settle] Lost→Absent[EndLease] \
             Due→Leased[Settle]",
            "Linked: Wanted→Linked[SyncName, Lease] Doubted→Quarantined[EndLease, Heal] \
             Damaged→Quarantined[EndLease, Heal, PutAway] Whole→Linked[Settle] Lost→Remote[EndLease, Heal] \
             Due→Linked[Settle]",
            "Trashed: Wanted→Leased[TakeBack, Lease] Swept(Due)→Absent[TakeLinksBack, Delete] \
             Damaged→Quarantined[EndLease, Heal, PutAway] Due→Leased[TakeBack, Lease]",
            "Quarantined: Begun→Part[] Wanted→Quarantined[Heal, AskOthers] Swept(Due)→Remote[Delete] \
             Doubted→Quarantined[EndLease, Heal] Damaged→Quarantined[EndLease, Heal, PutAway] Whole→Named[Settle] \
             Lost→Remote[EndLease, Heal] Started→Quarantined[Heal] Due→Quarantined[Judge]",
            "Remote: Begun→Part[] Wanted→Remote[Heal, AskOthers] Lost→Remote[EndLease, Heal] Started→Remote[Heal] \
             Due→Remote[Fetch]",
        ];
        assert_eq!(rows, wanted, "{}", rows.join("\n"));
    }

    /// A caller that does not know the claim on a file in its place gets the same duties when it is wanted.
    #[test]
    fn whoever_wants_a_file_in_its_place_need_not_know_who_else_does() {
        let duties = |claim| step(State::of(File::InPlace, claim), Event::Wanted).duties;
        assert_eq!(duties(Claim::None), duties(Claim::Leased));
        assert_eq!(duties(Claim::None), duties(Claim::Linked));
    }

    #[test]
    fn nothing_that_is_claimed_leaves_its_place_for_the_sweep() {
        for proof in Proof::ALL {
            for visit in Visit::ALL {
                let state = State::of(File::InPlace, proof.claim());
                assert_eq!(step(state, Event::Swept(visit)).next, state, "{proof:?}");
            }
        }
        assert_eq!(Claim::of(None), Claim::None);
    }

    #[test]
    fn the_trash_is_emptied_when_its_grace_has_ended_and_every_node_was_heard() {
        let visits = [Since::WithinGrace, Since::Long].map(|since| {
            [Holders::None, Holders::Heard, Holders::UnheardNodes]
                .map(|holders| Visit::to_trash(since, holders))
        });
        let late = [Visit::Due, Visit::Due, Visit::Unheard];
        assert_eq!(visits, [[Visit::Early; 3], late]);
    }

    /// What is served is what is here: any other state has other nodes answer.
    #[test]
    fn content_that_is_wanted_is_promised_or_asked_for_elsewhere() {
        for state in State::ALL {
            let wanted = step(state, Event::Wanted);
            assert_eq!(wanted.asks_for(Lease), state.is_here(), "{state:?}");
            assert_eq!(wanted.asks_for(AskOthers), !state.is_here(), "{state:?}");
        }
    }
}
