//! The commands of chronyc for sources and the clock.

use super::{Command, Engine, Reply, SmoothTime, SourceMatch, Tuning};
use crate::association::reselected;
use crate::pool::Refused;
use time_model::settings::{MAX_POLL, MIN_POLL};
use time_model::time::Reading;
use timekeeper::{NotEntered, SourceId};

/// The most that one burst may ask for; chronyc's own bounds are those of a number of 32 bits.
const LONGEST_BURST: u32 = 32;

impl Engine {
    /// Does what was asked for. Take [`Engine::poll_output`] after it.
    pub fn command(&mut self, command: &Command, now: Reading) -> Reply {
        let reply = match command {
            Command::Online(sources) => self.each(*sources, |engine, id| engine.go_online(id, now)),
            Command::Offline(sources) => self.each(*sources, Self::go_offline),
            Command::Burst {
                good,
                total,
                sources,
            } => {
                if *good == 0 || *total == 0 || good > total || *total > LONGEST_BURST {
                    return Reply::Invalid;
                }
                self.each(*sources, |engine, id| {
                    if let Some(member) = engine.members.get_mut(&id) {
                        member.association.burst(*good, *total, now.raw);
                    }
                })
            }
            Command::SmoothTime(what) => {
                let is_wanted = match what {
                    SmoothTime::Reset => self.timekeeper.reset_smoothing(now.raw),
                    SmoothTime::Activate => self.timekeeper.activate_smoothing(now.raw),
                };
                match is_wanted {
                    true => Reply::Done,
                    false => Reply::NotEnabled,
                }
            }
            Command::Refresh => {
                self.pool.refresh(now.raw);
                Reply::Done
            }
            Command::Reselect => {
                self.timekeeper.reselect_now(now);
                Reply::Done
            }
            Command::ResetSources => {
                self.timekeeper.reset_source(None, now);
                Reply::Done
            }
            Command::SetPolling {
                sources,
                minpoll,
                maxpoll,
            } => self.set_polling(*sources, *minpoll, *maxpoll, now),
            Command::Tune { sources, tuning } => self.tune(*sources, *tuning, now),
            Command::AddSource(source) => match self.pool.append(source, now.raw) {
                Ok(()) => Reply::Sources(self.pool.settings()),
                Err(Refused::AlreadyPresent) => Reply::AlreadyPresent,
                Err(Refused::TooMany) => Reply::TooMany,
            },
            Command::DeleteSource(address) => match self.pool.delete(*address) {
                true => Reply::Sources(self.pool.settings()),
                false => Reply::NoSuchSource,
            },
            _ => self.command_clock(command, now),
        };
        self.settle(now);
        reply
    }

    /// The commands for the clock, and for the choice of the system peer.
    fn command_clock(&mut self, command: &Command, now: Reading) -> Reply {
        match command {
            Command::MakeStep => {
                // A clock that is let alone is not stepped, either.
                if !self.timekeeper.makestep(now) {
                    return Reply::Failed;
                }
            }
            Command::SetMakeStep(rule) => self.timekeeper.allow_steps(*rule),
            Command::SetReselectDistance(distance) => {
                self.timekeeper.set_reselect_distance(*distance);
            }
            Command::SetMaxUpdateSkew(ppm) => self.timekeeper.set_max_update_skew(*ppm),
            Command::SetLocal(local) => self.timekeeper.set_local(*local, now),
            _ => return self.command_by_hand(command, now),
        }
        Reply::Done
    }

    /// The commands of an operator who knows the time.
    fn command_by_hand(&mut self, command: &Command, now: Reading) -> Reply {
        match command {
            Command::EnableManual(enabled) => self.timekeeper.enable_manual(*enabled),
            Command::ResetManual => self.timekeeper.reset_manual(),
            Command::DeleteManual(index) => {
                if !self.timekeeper.delete_manual(*index, now) {
                    return Reply::NoSuchEntry;
                }
            }
            Command::EnterTime(time) => {
                return match self.timekeeper.enter_time(*time, now) {
                    Ok(entered) => Reply::Entered(entered),
                    Err(NotEntered::Disabled) => Reply::NotEnabled,
                    Err(NotEntered::Refused) => Reply::Failed,
                };
            }
            Command::ChangeFrequency(ppm) => self.timekeeper.change_frequency(*ppm, now),
            Command::ChangeOffset(seconds) => {
                if !self.timekeeper.change_offset(*seconds, now) {
                    return Reply::Failed;
                }
            }
            _ => return Reply::Invalid,
        }
        Reply::Done
    }

    fn go_online(&mut self, id: SourceId, now: Reading) {
        if let Some(member) = self.members.get_mut(&id) {
            member.association.go_online(now.raw);
        }
    }

    fn go_offline(&mut self, id: SourceId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.association.go_offline();
        }
    }

    fn set_polling(
        &mut self,
        sources: SourceMatch,
        minpoll: Option<i8>,
        maxpoll: Option<i8>,
        now: Reading,
    ) -> Reply {
        let legal = MIN_POLL..=MAX_POLL;
        let given = [minpoll, maxpoll];
        if !given.iter().flatten().all(|poll| legal.contains(poll)) {
            return Reply::Invalid;
        }
        self.each(sources, |engine, id| {
            let Some(member) = engine.members.get_mut(&id) else {
                return;
            };
            member.association.limit(minpoll, maxpoll);
            let options = member.association.options().clone();
            let is_peer = member.association.is_peer();
            let weighed = engine.server_options(&options, is_peer);
            engine.timekeeper.change_source(id, weighed, now);
        })
    }

    fn tune(&mut self, sources: SourceMatch, tuning: Tuning, now: Reading) -> Reply {
        if let SourceMatch::Clock(reference_id) = sources {
            return self.tune_clock(reference_id, tuning, now);
        }
        self.each(sources, |engine, id| {
            let Some(member) = engine.members.get_mut(&id) else {
                return;
            };
            member.association.tune(tuning);
            let options = member.association.options().clone();
            let is_peer = member.association.is_peer();
            let weighed = engine.server_options(&options, is_peer);
            engine.timekeeper.change_source(id, weighed, now);
        })
    }

    /// Until the configuration is read again, as for other sources.
    fn tune_clock(&mut self, reference_id: u32, tuning: Tuning, now: Reading) -> Reply {
        let mut clocks = self.clocks.iter_mut();
        let clock = clocks.find(|clock| clock.settings.reference_id == reference_id);
        let Some(clock) = clock else {
            return Reply::NoSuchSource;
        };
        let mut settings = clock.settings.clone();
        let options = &mut settings.options;
        match tuning {
            Tuning::Select { mask, to } => {
                let chosen = reselected(options.select(), mask, to);
                options.noselect = chosen.noselect;
                options.prefer = chosen.prefer;
                options.trust = chosen.trust;
                options.require = chosen.require;
            }
            _ => return Reply::NotEnabled,
        }
        let id = clock.id;
        clock.settings = settings.clone();
        let weighed = self.clock_options(&settings);
        self.timekeeper.change_source(id, weighed, now);
        Reply::Done
    }

    /// Does something to each of these; there has to be one.
    fn each(&mut self, sources: SourceMatch, mut act: impl FnMut(&mut Self, SourceId)) -> Reply {
        let ids: Vec<SourceId> = self
            .members
            .iter()
            .filter(|(_, member)| match sources {
                SourceMatch::All => true,
                SourceMatch::Network(network) => {
                    network.contains(&member.association.address().ip())
                }
                SourceMatch::Clock(_) => false,
            })
            .map(|(id, _)| *id)
            .collect();
        let is_known = sources == SourceMatch::All && self.pool.n_unresolved() > 0;
        if ids.is_empty() && !is_known {
            return Reply::NoSuchSource;
        }
        for id in ids {
            act(self, id);
        }
        Reply::Done
    }
}
