//! Requests of other threads: resolved names, commands, settings.

use super::super::{Reload, Request};
use super::{Listeners, Nics, Run, SocketOptions, open_clocks};
use crate::system::clock;
use crate::system::socket::Socket;
use clock_drivers::Clocks;
use ntp::engine::{Command, Input, Reply, SourceMatch};
use time_model::time::Reading;

impl Run {
    /// Another thread has something.
    pub(super) fn awake(&mut self) {
        while let Some((name, addresses)) = self.resolver.answer() {
            let input = Input::Resolved {
                name: &name,
                addresses: &addresses,
            };
            self.engine.handle(input, clock::read());
        }
        while let Some(reading) = self.thermometer.reading() {
            let input = Input::Temperature(reading);
            self.engine.handle(input, clock::read());
        }
        while let Some(table) = self.leaps.table() {
            self.engine.set_leap_table(&table, clock::read());
        }
        while let Ok(request) = self.requests.try_recv() {
            let now = clock::read();
            match request {
                Request::Command(command, reply) => {
                    let done = self.engine.command(&command, now);
                    tracing::info!(?command, reply = ?done, "Command executed");
                    // The client may have disconnected.
                    reply.send(done).ok();
                }
                Request::OnOffline(reply) => {
                    reply.send(self.on_offline(now)).ok();
                }
                Request::Reload(reload) => self.reload(*reload, now),
            }
        }
    }

    fn reload(&mut self, reload: Reload, now: Reading) {
        let Reload {
            settings,
            keys,
            leaps: (leaps, table),
            file_writer,
            thermometer,
        } = reload;
        if self.hardware_stamps != settings.client.hardware_stamps {
            self.cards = Nics::open(&settings.client.hardware_stamps, now);
            self.hardware_stamps
                .clone_from(&settings.client.hardware_stamps);
        }
        self.is_serving = settings.server.is_open();
        self.socket_options = SocketOptions::new(&settings, &self.cards);
        self.clock.trust(settings.clock.rtcsync);
        self.file_writer = file_writer;
        self.thermometer = thermometer;
        if settings.clock.temperature.is_none() {
            self.engine.forget_temperature(now);
        }
        if self.refclocks != settings.refclocks {
            // The old ones let go of what they hold before the new ones ask for it.
            self.clocks = Clocks::default();
            self.clocks = open_clocks(&settings.refclocks, now);
            self.refclocks.clone_from(&settings.refclocks);
        }
        self.engine.configure(&settings, keys, now);
        self.leaps = leaps;
        if let Some(table) = table {
            self.engine.set_leap_table(&table, now);
        }
        if let Some(listeners) = &mut self.listeners
            && listeners.is_empty()
            && settings.server.is_open()
        {
            match Listeners::open(&settings.server, Vec::new()) {
                Ok(opened) => *listeners = opened,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "Cannot open the sockets for NTP clients");
                }
            }
        }
    }

    fn on_offline(&mut self, now: Reading) -> Reply {
        for view in self.engine.view(Vec::new(), now).sources {
            let Some(address) = view.address else {
                continue;
            };
            let sources = SourceMatch::Network(address.into());
            let has_way =
                Socket::open((address, 123).into(), self.socket_options.of(false)).is_ok();
            let command = if has_way {
                Command::Online(sources)
            } else {
                Command::Offline(sources)
            };
            self.engine.command(&command, now);
        }
        Reply::Done
    }
}
