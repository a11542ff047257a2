//! Does what chronyc asks for: tells the thread that keeps the time, reads files again, ends the process.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use daemon::disk::Disk;
use rustix::process::{Signal, getpid, kill_process};

use super::ntp_listeners::NtpListeners;
use crate::agent::Commander;
use crate::cmdmon::{Control, Outcome};
use crate::keys;
use crate::learned::Sources;
use chronyc::answer::{ControlRequest, replied};
use chronyc::reply::{Report, Status};
use ntp::engine::{self, Reply};
use peer_chrony::parse_source_directories;
use time_model::settings::{AccessRule, Settings, SourceSettings, sources};

/// Rules of access that a configuration has, and what chronyc says besides. More than this is a program gone wrong.
const MAX_RULES: usize = 16_384;

/// Does what chronyc asks for: mostly tells the agent.
pub(super) struct Controller {
    commander: Commander,
    ntp_listeners: Arc<NtpListeners>,
    known: Arc<Mutex<Known>>,
}

/// The settings that the agent got last.
#[derive(Debug)]
struct Known {
    settings: Settings,
    /// The sources that came from directories.
    from_directories: Vec<SourceSettings>,
}

impl Known {
    fn new(settings: &Settings) -> Self {
        let draft = parse_source_directories(&settings.source_directories, &mut Disk);
        Self {
            settings: settings.clone(),
            from_directories: sources(&draft.config),
        }
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").finish_non_exhaustive()
    }
}

impl Controller {
    /// For an agent that began with these settings.
    #[must_use]
    pub(super) fn new(
        commander: Commander,
        settings: &Settings,
        ntp_listeners: Arc<NtpListeners>,
    ) -> Self {
        let known = Arc::new(Mutex::new(Known::new(settings)));
        Self {
            commander,
            ntp_listeners,
            known,
        }
    }

    /// Another handle of the same controller, for [reloads](Self::reload).
    #[must_use]
    pub(super) fn handle(&self) -> Self {
        Self {
            commander: self.commander.clone(),
            ntp_listeners: Arc::clone(&self.ntp_listeners),
            known: Arc::clone(&self.known),
        }
    }

    /// The agent got other settings.
    pub(super) fn reload(&self, settings: &Settings) {
        *self.known() = Known::new(settings);
    }

    /// Tells the agent its settings again, with what files say now.
    fn tell(&self, reads_sources: bool) -> Status {
        let mut known = self.known();
        if reads_sources {
            let directories = known.settings.source_directories.clone();
            let draft = parse_source_directories(&directories, &mut Disk);
            for warning in &draft.notes {
                tracing::warn!(%warning, "A source is left out");
            }
            let new = sources(&draft.config);
            let old = std::mem::replace(&mut known.from_directories, new.clone());
            known
                .settings
                .sources
                .retain(|source| !old.contains(source));
            known.settings.sources.extend(new);
        }
        let (keys, odd) = keys::read(&known.settings);
        for warning in odd {
            tracing::warn!(warning, "The keys have a problem");
        }
        self.ntp_listeners.tell(&known.settings, &keys);
        if self.commander.reload(known.settings.clone(), keys) {
            Status::Success
        } else {
            Status::Failed
        }
    }
}

impl Controller {
    /// Allows or denies a network, until the end of the process.
    fn admit(&self, commands: bool, rule: AccessRule) -> Status {
        {
            let mut known = self.known();
            let access = match commands {
                true => &mut known.settings.commands.access,
                false => &mut known.settings.server.access,
            };
            // Removes earlier lines for the same network, which have no effect any more.
            access.retain(|other| *other != rule);
            if access.len() >= MAX_RULES {
                return Status::Failed;
            }
            access.push(rule);
        }
        // The sockets for chronyc have a list of their own.
        if commands {
            Status::Success
        } else {
            self.tell(false)
        }
    }

    /// Has something done, which lasts until the configuration is read again.
    fn command(&self, command: engine::Command) -> Outcome {
        let (commander, known) = (self.commander.clone(), Arc::clone(&self.known));
        Box::pin(async move {
            let reply = commander.command(command.clone()).await;
            let mut known = known.lock();
            remember(&mut known.settings, &command, &reply);
            replied(reply)
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

impl Sources for Controller {
    async fn command(&self, command: engine::Command) -> Reply {
        let reply = self.commander.command(command.clone()).await;
        remember(&mut self.known().settings, &command, &reply);
        reply
    }
}

impl Control for Controller {
    fn perform(&self, errand: ControlRequest) -> Outcome {
        let commander = self.commander.clone();
        match errand {
            ControlRequest::Engine(command) => self.command(command),
            ControlRequest::Access { commands, rule } => ready(self.admit(commands, rule)),
            ControlRequest::OnOffline => {
                Box::pin(async move { replied(commander.on_offline().await) })
            }
            ControlRequest::Rekey | ControlRequest::CycleLogs => ready(self.tell(false)),
            ControlRequest::ReloadSources => ready(self.tell(true)),
            // Ends the process as a signal would.
            ControlRequest::Shutdown => ready(match kill_process(getpid(), Signal::TERM) {
                Ok(()) => Status::Success,
                Err(_) => Status::Failed,
            }),
        }
    }
}

/// Repeats the settings with a change applied, such as new keys.
fn remember(settings: &mut Settings, command: &engine::Command, reply: &Reply) {
    use engine::Command as Done;
    match (command, reply) {
        (_, Reply::Sources(sources)) => settings.sources.clone_from(sources),
        (Done::SetMakeStep(rule), Reply::Done) => settings.clock.makestep = *rule,
        (Done::SetMaxUpdateSkew(ppm), Reply::Done) => settings.clock.max_update_skew = *ppm,
        (Done::EnableManual(enabled), Reply::Done) => settings.clock.manual = *enabled,
        (Done::SetLocal(local), Reply::Done) => settings.local = *local,
        _ => {}
    }
}

fn ready(status: Status) -> Outcome {
    Box::pin(std::future::ready((status, Report::Null)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::settings::{Local, MakeStep};

    #[test]
    fn what_chronyc_has_said_is_remembered_once_it_is_done() {
        let before = Settings::default();
        let after = |command: engine::Command, reply: Reply| {
            let mut settings = before.clone();
            remember(&mut settings, &command, &reply);
            settings
        };
        let local = Some(Local::default());
        let step = Some(MakeStep {
            threshold: 1.0,
            limit: None,
        });
        let set_local = engine::Command::SetLocal(local);
        assert_eq!(after(set_local.clone(), Reply::Done).local, local);
        assert_eq!(after(set_local, Reply::Failed), before);
        let set_step = engine::Command::SetMakeStep(step);
        assert_eq!(after(set_step, Reply::Done).clock.makestep, step);
        let enable = engine::Command::EnableManual(true);
        assert!(after(enable, Reply::Done).clock.manual);
        let set_skew = engine::Command::SetMaxUpdateSkew(5.0);
        let skew = after(set_skew, Reply::Done).clock.max_update_skew;
        assert!((skew - 5.0).abs() < 1e-9);
        assert_eq!(after(engine::Command::Refresh, Reply::Done), before);
    }
}
