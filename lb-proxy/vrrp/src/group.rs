//! Virtual routers that move together: keepalived's sync group.
//!
//! A member becomes active only when every member would, and they do at one moment; so members that
//! see the network differently end as backups and do not drag each other to and fro. When one yields,
//! all yield; when one has a fault, all have.
//!
//! A router in no group is driven the same way, as the only member of its own.
//!
//! ```text
//!   member:   Active → Backup        →  others:  GroupYields
//!             own fault              →           FaultFound(Group)
//!             last own fault gone    →           FaultCleared(Group)
//!   all:      Active or would claim  →  those:   GroupClaims
//! ```
//!
//! Never does what a machine does not ask for.

use std::collections::VecDeque;
use std::time::Instant;

use super::machine::{Action, Fault, Input, Machine, State};

/// Machines of one group, or the one of none.
#[derive(Debug, Default)]
pub struct Group {
    members: Vec<Machine>,
    actions: VecDeque<(usize, Action)>,
}

impl Group {
    /// These, in this order; they have not been started.
    #[must_use]
    pub fn new(members: Vec<Machine>) -> Self {
        Self {
            members,
            actions: VecDeque::new(),
        }
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[Machine] {
        &self.members
    }

    /// Tells one member what happened. `Deadline` goes to all whose time has come.
    pub fn handle(&mut self, member: usize, input: Input<'_>, now: Instant) {
        if matches!(input, Input::Deadline) {
            for due in 0..self.members.len() {
                self.change(due, |machine| machine.handle(Input::Deadline, now), now);
            }
        } else {
            self.change(member, |machine| machine.handle(input, now), now);
        }
    }

    /// The next thing to do, and for which member.
    pub fn poll_action(&mut self) -> Option<(usize, Action)> {
        self.actions.pop_front()
    }

    /// When to say [`Input::Deadline`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.members.iter().map(Machine::next_deadline);
        deadlines.flatten().min()
    }

    /// Adds a member, not started or from another group, and says which it is.
    pub fn push(&mut self, machine: Machine) -> usize {
        self.members.push(machine);
        self.members.len() - 1
    }

    /// Takes a member out; those after it move up.
    pub fn remove(&mut self, member: usize) -> Option<Machine> {
        (member < self.members.len()).then(|| self.members.remove(member))
    }

    /// Does something to a member and lets the others follow.
    fn change(&mut self, member: usize, act: impl FnOnce(&mut Machine), now: Instant) {
        let Some(machine) = self.members.get_mut(member) else {
            return;
        };
        let before = machine.state();
        act(machine);
        self.collect(member);
        let yielded = before == State::Active && self.state(member) == State::Backup;
        if yielded {
            self.tell_others(member, &Input::GroupYields, now);
        }
        // One that is alone may have had others until a moment ago, whose faults are gone with them.
        self.share_faults(now);
        self.claim_together(now);
    }

    fn state(&self, member: usize) -> State {
        self.members
            .get(member)
            .map(Machine::state)
            .unwrap_or_default()
    }

    fn share_faults(&mut self, now: Instant) {
        // One that has not started does not know yet how its link is.
        let is_at_fault =
            |machine: &Machine| machine.state() != State::Initialize && machine.has_own_fault();
        let at_fault: Vec<bool> = self.members.iter().map(is_at_fault).collect();
        for member in 0..self.members.len() {
            let others = at_fault.iter().enumerate();
            let has_other = others
                .filter(|(other, _)| *other != member)
                .any(|(_, at_fault)| *at_fault);
            let input = if has_other {
                Input::FaultFound(Fault::Group)
            } else {
                Input::FaultCleared(Fault::Group)
            };
            self.tell(member, input, now);
        }
    }

    fn claim_together(&mut self, now: Instant) {
        // One that has not started, or has ended, holds the others back: the group is about to stop. So
        // does one on its way out: the others follow.
        let is_ready = |machine: &Machine| {
            let stays = machine.state() == State::Active && !machine.is_going();
            machine.would_claim() || stays
        };
        if !self.members.iter().all(is_ready) {
            return;
        }
        for member in 0..self.members.len() {
            if self.members.get(member).is_some_and(Machine::would_claim) {
                self.tell(member, Input::GroupClaims, now);
            }
        }
    }

    fn tell_others(&mut self, member: usize, input: &Input<'_>, now: Instant) {
        for other in 0..self.members.len() {
            if other != member {
                self.tell(other, input.clone(), now);
            }
        }
    }

    fn tell(&mut self, member: usize, input: Input<'_>, now: Instant) {
        if let Some(machine) = self.members.get_mut(member) {
            machine.handle(input, now);
            self.collect(member);
        }
    }

    fn collect(&mut self, member: usize) {
        if let Some(machine) = self.members.get_mut(member) {
            while let Some(action) = machine.poll_action() {
                self.actions.push_back((member, action));
            }
        }
    }
}

#[cfg(test)]
mod tests;
