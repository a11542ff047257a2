//! Views for people, records for logs.

use super::exchange::ReferenceClockRecord;
use super::{Engine, Measurement, Output, Record};
use time_model::sample::ClockSample;
use time_model::settings::{LogFile, reference_id_text};
use time_model::time::{Reading, Span};
use time_model::view::{KeyView, PtpView, SourceView, Tracking, View};
use timekeeper::SourceId;

impl Engine {
    /// The whole view. The caller adds the state of PTP timeReceivers.
    #[must_use]
    pub fn view(&self, ptp: Vec<PtpView>, now: Reading) -> View {
        View {
            now,
            state: self.timekeeper.state(now),
            tracking: self.tracking(now),
            sources: self.sources(now).collect(),
            n_unresolved: u32::try_from(self.pool.n_unresolved()).unwrap_or(u32::MAX),
            ptp,
            smoothing: self.timekeeper.smoothing(now.raw),
            manual: self.timekeeper.manual_entries(now),
        }
    }

    /// Servers, then reference clocks, each as configured.
    fn sources(&self, now: Reading) -> impl Iterator<Item = SourceView> {
        let clocks = self.clocks.iter().map(|clock| clock.id);
        let ids = self.pool.ids().chain(clocks);
        ids.filter_map(move |id| self.source(id, now))
    }

    /// Returns whether a burst of any source is running.
    #[must_use]
    pub fn is_bursting(&self) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.association.is_bursting())
    }

    /// A source, for people: its address, and its name if it has another one.
    #[must_use]
    pub fn title(&self, id: SourceId) -> String {
        if let Some(member) = self.members.get(&id) {
            let address = member.association.address().ip().to_string();
            return if member.name == address {
                address
            } else {
                format!("{address} ({})", member.name)
            };
        }
        let clock = self.clocks.iter().find(|clock| clock.id == id);
        clock.map_or_else(String::new, |clock| {
            reference_id_text(clock.settings.reference_id)
        })
    }

    fn key(&self, id: u32) -> KeyView {
        let key = self.keys.get(id);
        KeyView {
            id,
            kind: key.map_or(0, |key| key.algorithm().number()),
            bits: key.map_or(0, |key| u16::try_from(key.bits()).unwrap_or(u16::MAX)),
        }
    }

    fn tracking(&self, now: Reading) -> Tracking {
        let leading = self.timekeeper.leading();
        let leading = leading.and_then(|id| self.members.get(&id));
        Tracking {
            address: leading.map(|member| member.association.address().ip()),
            ..self.timekeeper.tracking(now)
        }
    }

    fn source(&self, id: SourceId, now: Reading) -> Option<SourceView> {
        let mut view = SourceView::default();
        self.timekeeper.source(id, now, &mut view);
        if let Some(member) = self.members.get(&id) {
            view.name.clone_from(&member.name);
            member.association.show(&mut view);
            let key = member.association.options().key;
            view.key = key.map(|key| self.key(key));
            return Some(view);
        }
        let clock = self.clocks.iter().find(|clock| clock.id == id)?;
        view.name = reference_id_text(clock.settings.reference_id);
        view.poll = clock.settings.options.poll;
        view.online = true;
        Some(view)
    }

    /// A server answered.
    pub(super) fn record_measurement(&mut self, id: SourceId, now: Reading) {
        let is_wanted =
            self.logs.has(LogFile::Measurements) || self.logs.has(LogFile::RawMeasurements);
        let Some(member) = self.members.get(&id).filter(|_| is_wanted) else {
            return;
        };
        let association = &member.association;
        let packet = association.packet().filter(|_| association.has_measured());
        let Some(packet) = packet else {
            return;
        };
        self.outputs
            .push_back(Output::Log(Record::Measurement(Box::new(Measurement {
                at: now.wall,
                address: association.address().ip(),
                poll: association.poll(),
                packet: *packet,
            }))));
    }

    /// A sample was good.
    pub(super) fn record_update(&mut self, id: SourceId, now: Reading) {
        if self.logs.has(LogFile::Statistics)
            && let Some(view) = self.source(id, now)
        {
            self.outputs
                .push_back(Output::Log(Record::Statistics(Box::new(view))));
        }
        if self.logs.has(LogFile::Selection) {
            let views: Vec<SourceView> = self.sources(now).collect();
            for view in views {
                let age = view.last_sample.map_or(0.0, |at| (now.raw - at).seconds());
                let view = Box::new(view);
                self.outputs
                    .push_back(Output::Log(Record::Selection { view, age }));
            }
        }
        if self.logs.has(LogFile::Tracking) {
            let tracking = Box::new(self.tracking(now));
            self.outputs
                .push_back(Output::Log(Record::Tracking(tracking)));
        }
    }

    /// A reference clock gave a sample.
    pub(super) fn record_reference_clock(&mut self, made: &ClockSample, now: Reading) {
        if !self.logs.has(LogFile::Refclocks) {
            return;
        }
        let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
        self.outputs
            .push_back(Output::Log(Record::ReferenceClock(Box::new(
                ReferenceClockRecord {
                    at: now.wall - (now.raw - made.at),
                    reference_id: made.reference_id,
                    leap: made.leap,
                    offset: Span(made.ahead.saturating_sub(wall_ahead)).seconds(),
                    dispersion: made.dispersion,
                },
            ))));
    }
}
