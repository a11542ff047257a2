//! The order in which a service is swapped, and the way back out of every step.
//!
//! ```text
//!  Verify ► Serve(old) ► Stop(new) ► Load ► Permit ► Start ► Watch ► Record(new) ► Stop(old) ► Forbid
//!    │                      │          │       │        │       │         │                        │
//!    │ nothing was touched  └──────────┴───┬───┘        └───┬───┘         ▼                        ▼
//!    ▼                                     ▼                │        Record(old)                 swapped
//!  refused                              Forbid              ▼             │
//!                                                       Serve(old) ◄──────┘
//!                                                           │ whether it could take over or not
//!                                                           ▼
//!                                                       Stop(new) ► Serve(old) again ► Forbid
//! ```
//!
//! The record is what the node starts from after a power cut, so it is the point of no return: before it
//! every way out ends with the old slot, after it with the new one. The old slot is stopped in one place
//! only, after the record, and the record is written only once the new slot was watched and passed.
//!
//! An interrupted swap needs no memory of its own: the next swap makes the slot on record serve
//! and clears the other one, which is how every swap begins.
//!
//! When the slot on record cannot be made to serve at that beginning, the other one is watched: if it
//! works it becomes the slot on record, because one slot that serves is worth more than the one that should.
//!
//! [`versions`] decides which versions a node keeps, and which of them a rollback takes.
//!
//! Never runs, asks or waits for anything; the verb `swap` of `outpost` does.

pub mod versions;

use site::slot::Slot;

/// The old and the new version of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The slot on record.
    pub old: Slot,
    /// The content for the other slot.
    pub with: With,
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// An archive: one that is brought, or one that the node keeps.
    Archive,
    /// Nothing: only an interrupted swap is resolved.
    Nothing,
}

/// A step that the shell takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Looks whether what is to be run is whole and of this service.
    Verify,
    /// Makes sure that a slot serves: starts it unless it does.
    Serve(Slot),
    /// Makes sure that a slot does not run.
    Stop(Slot),
    /// Puts the image into the store under the slot's name.
    Load(Slot),
    /// Lets a slot run that is not on record.
    Permit(Slot),
    /// Starts a slot beside the other, until it says that it is ready.
    Start(Slot),
    /// Asks the new process, its manager and healthd for a while whether it works.
    Watch(Slot),
    /// Puts a slot on record.
    Record(Slot),
    /// Takes the permission back.
    Forbid(Slot),
}

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// As it should.
    Done,
    /// It failed; how far it came is unknown.
    Failed(String),
    /// The operator asks to give up. A step that was begun is either finished or undone.
    Interrupted,
}

/// How a swap ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The new slot serves; with what could not be tidied up.
    Swapped(Option<String>),
    /// The slot on record could not be brought to serve. The other one does, and is on record instead.
    Rescued(String),
    /// The slot on record serves, and an interrupted swap has left nothing.
    Settled,
    /// The old slot serves as before.
    Kept(String),
    /// The old slot could not be brought back: systemd keeps trying.
    Down(String),
}

/// A swap on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    plan: Plan,
    state: State,
    /// Why the slot on record does not serve, when the other one is taken instead.
    rescue: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Verifying,
    /// The slot on record is made to serve, as it may not after an interrupted swap.
    Settling,
    /// It cannot be: perhaps the other one serves.
    Rescuing(String),
    Clearing,
    /// The cleared slot may have taken over once more just before.
    Confirming,
    Loading,
    Permitting,
    Starting,
    Watching,
    Recording,
    StoppingOld,
    /// Everything is done but for the permission.
    Closing(Option<String>),
    /// The record is put back: how far writing the new one came is unknown.
    Reverting(String),
    /// The old slot serves on, or takes over from the new one.
    Restoring(String),
    /// The old slot serves, unless the new one has come back: that one goes.
    Discarding(String),
    /// The old slot could not take over: first the new one goes.
    Evicting(String),
    RestoringAgain(String),
    /// The permission goes; the old slot serves.
    Abandoning(String),
    /// The permission goes; the old slot does not serve.
    Despairing(String),
    Ended(Outcome),
}

impl Swap {
    /// Before the first step.
    pub fn new(plan: Plan) -> Self {
        let state = match plan.with {
            With::Archive => State::Verifying,
            With::Nothing => State::Settling,
        };
        Self {
            plan,
            state,
            rescue: None,
        }
    }

    /// The next step; none at the end.
    pub fn action(&self) -> Option<Action> {
        let Plan { old, .. } = self.plan;
        let new = old.other();
        Some(match &self.state {
            State::Verifying => Action::Verify,
            State::Settling
            | State::Confirming
            | State::Restoring(_)
            | State::RestoringAgain(_) => Action::Serve(old),
            State::Clearing | State::Discarding(_) | State::Evicting(_) => Action::Stop(new),
            State::Loading => Action::Load(new),
            State::Permitting => Action::Permit(new),
            State::Starting => Action::Start(new),
            State::Watching | State::Rescuing(_) => Action::Watch(new),
            State::Recording => Action::Record(new),
            State::Reverting(_) => Action::Record(old),
            State::StoppingOld => Action::Stop(old),
            State::Closing(_) | State::Abandoning(_) | State::Despairing(_) => Action::Forbid(new),
            State::Ended(_) => return None,
        })
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether giving up leads back to the old slot; not after the record, nor on the way out.
    pub fn can_be_interrupted(&self) -> bool {
        matches!(
            self.state,
            State::Verifying
                | State::Settling
                | State::Rescuing(_)
                | State::Clearing
                | State::Confirming
                | State::Loading
                | State::Permitting
                | State::Starting
                | State::Watching
        )
    }

    /// Takes up how the step went.
    pub fn handle(&mut self, event: Event) {
        let state = std::mem::replace(&mut self.state, State::Verifying);
        self.state = match event {
            Event::Done => self.done(state),
            Event::Failed(reason) => self.failed(state, reason),
            Event::Interrupted => interrupted(state),
        };
    }

    fn done(&mut self, state: State) -> State {
        match state {
            State::Verifying => State::Settling,
            State::Settling => State::Clearing,
            State::Rescuing(reason) => {
                self.rescue = Some(reason);
                State::Recording
            }
            State::Clearing => State::Confirming,
            State::Confirming => match self.plan.with {
                With::Archive => State::Loading,
                With::Nothing => State::Closing(None),
            },
            State::Loading => State::Permitting,
            State::Permitting => State::Starting,
            State::Starting => State::Watching,
            State::Watching => State::Recording,
            State::Recording => State::StoppingOld,
            State::StoppingOld => State::Closing(None),
            State::Closing(untidy) => State::Ended(self.good(untidy)),
            State::Reverting(reason) => State::Restoring(reason),
            State::Restoring(reason) => State::Discarding(reason),
            // A new process that its manager starts again may have taken over once more meanwhile.
            State::Discarding(reason) | State::Evicting(reason) => State::RestoringAgain(reason),
            State::RestoringAgain(reason) => State::Abandoning(reason),
            State::Abandoning(reason) => State::Ended(Outcome::Kept(reason)),
            State::Despairing(reason) => State::Ended(Outcome::Down(reason)),
            State::Ended(outcome) => State::Ended(outcome),
        }
    }

    fn failed(&mut self, state: State, why: String) -> State {
        match state {
            State::Verifying => State::Ended(Outcome::Kept(why)),
            State::Settling => State::Rescuing(why),
            // Neither serves. A new version may be just what the service needs.
            State::Rescuing(reason) => match self.plan.with {
                With::Nothing => State::Evicting(both(&reason, &why)),
                With::Archive => State::Clearing,
            },
            State::Confirming if self.plan.with == With::Nothing => State::Despairing(why),
            // Neither serves: the new version may.
            State::Confirming => self.done(State::Confirming),
            State::Clearing => State::RestoringAgain(why),
            State::Loading | State::Permitting => State::Abandoning(why),
            State::Starting | State::Watching => State::Restoring(why),
            State::Recording => State::Reverting(why),
            // It is off the record, and does not come back.
            State::StoppingOld => State::Closing(Some(why)),
            State::Closing(untidy) => State::Ended(self.good(untidy.or(Some(why)))),
            // The record may name the new slot: the next swap resolves that, and so does this.
            State::Reverting(reason) => State::Restoring(both(&reason, &why)),
            State::Restoring(reason) => State::Evicting(both(&reason, &why)),
            State::Discarding(reason) | State::Evicting(reason) => {
                State::RestoringAgain(both(&reason, &why))
            }
            State::RestoringAgain(reason) => State::Despairing(both(&reason, &why)),
            State::Abandoning(reason) => State::Ended(Outcome::Kept(both(&reason, &why))),
            State::Despairing(reason) => State::Ended(Outcome::Down(both(&reason, &why))),
            State::Ended(outcome) => State::Ended(outcome),
        }
    }

    fn good(&self, untidy: Option<String>) -> Outcome {
        match (&self.rescue, self.plan.with) {
            (Some(reason), _) => Outcome::Rescued(reason.clone()),
            (None, With::Nothing) => Outcome::Settled,
            (None, With::Archive) => Outcome::Swapped(untidy),
        }
    }
}

/// Gives up where that leads back; elsewhere the step is taken once more, each of which may be.
fn interrupted(state: State) -> State {
    let why = || "it was interrupted".to_owned();
    match state {
        State::Verifying | State::Settling | State::Rescuing(_) => {
            State::Ended(Outcome::Kept(why()))
        }
        State::Clearing | State::Confirming => State::RestoringAgain(why()),
        State::Loading | State::Permitting => State::Abandoning(why()),
        State::Starting | State::Watching => State::Restoring(why()),
        state => state,
    }
}

fn both(reason: &str, why: &str) -> String {
    format!("{reason}; then {why}")
}

#[cfg(test)]
mod tests;
