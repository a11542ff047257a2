//! Reacts to evidence about upstreams: probes, routes without an upstream, and queries that wait for an
//! absent one.

use dns_cache::instant::Instant;
use dns_cache::key::Variant;

use super::exchanges::{Pending, Purpose};
use super::upstreams::UpstreamId;
use super::{Cause, ExchangeId, FlightId, Output, Resolver};
use crate::exchange::{Asking, Entropy};
use crate::forward::{Fitness, ForwardMode};
use crate::upstream_state::{Change, Upstream};

impl<C, E: Entropy> Resolver<C, E> {
    pub(super) fn upstream_due(&mut self, upstream: UpstreamId, now: Instant) {
        let Some(state) = self.upstreams.get_mut(upstream) else {
            return;
        };
        let (change, probe) = state.probe_due(now);
        if probe {
            self.send_probe(upstream, now);
        }
        self.apply(upstream, change, now);
    }

    fn send_probe(&mut self, upstream: UpstreamId, now: Instant) {
        let Some(state) = self.upstreams.get_mut(upstream) else {
            return;
        };
        let (to, edns) = (state.address(), state.takes_edns(now));
        let keeps_case = state.keeps_case(now);
        let probe = state.probe();
        let (question, mode, protocol) = (probe.next_question(), probe.mode, probe.protocol);
        let asking = Asking {
            question: &question,
            variant: Variant::default(),
            mode,
            edns,
            randomize_case: self.settings.randomize_case && keeps_case,
        };
        let Some((sent, message)) = asking.compose(&mut self.entropy) else {
            return;
        };
        let exchange = self.exchanges.open(Pending {
            purpose: Purpose::Probe,
            upstream,
            sent,
            at: now,
            protocol,
            overdue: false,
            hidden: None,
            case_in_doubt: false,
        });
        if let Some(oldest) = self.upstreams.begin_probe(upstream, exchange) {
            self.close(oldest);
        }
        self.counts.probes += 1;
        self.outputs.push_back(Output::Send {
            exchange,
            to,
            protocol,
            message,
        });
    }

    /// Reacts to evidence: sets the upstream's timer and acts on a change.
    pub(super) fn apply(&mut self, upstream: UpstreamId, change: Option<Change>, now: Instant) {
        if let Some(change) = change {
            self.health_changed(upstream, change, now);
        }
        self.arm_upstream(upstream);
    }

    pub(super) fn health_changed(&mut self, upstream: UpstreamId, change: Change, now: Instant) {
        let why = self
            .upstreams
            .get_mut(upstream)
            .and_then(|state| state.absence());
        let address = self.upstreams.address(upstream);
        if self.is_upstream(address) {
            let best = self.upstreams.best_of_others(upstream);
            let over_all = |fitness: Fitness| best.map_or(fitness, |best| best.min(fitness));
            self.outputs.push_back(Output::Health {
                upstream: address,
                change: Change {
                    from: over_all(change.from),
                    to: over_all(change.to),
                },
                why,
            });
        }
        self.mark_routes();
        if let Some((zone, since)) = self.upstreams.note_change(upstream, change, now) {
            self.outputs.push_back(Output::Recovered { zone, since });
        }
        match change.to {
            Fitness::Absent => self.give_up_on(upstream, now),
            Fitness::Good => {
                for probe in self.upstreams.take_probes(upstream) {
                    self.close(probe);
                }
            }
            Fitness::Doubtful => {}
        }
    }

    /// Sends the queries that wait for an absent upstream to others. One that has neither another upstream nor a stale
    /// answer stays until its deadline while nothing but silence speaks against the upstream.
    fn give_up_on(&mut self, upstream: UpstreamId, now: Instant) {
        let is_silent = self
            .upstreams
            .get(upstream)
            .is_some_and(Upstream::is_silent);
        let stuck: Vec<(FlightId, ExchangeId)> = self
            .flights
            .iter()
            .flat_map(|(id, flight)| flight.exchanges().map(move |exchange| (id, exchange)))
            .filter(|(_, exchange)| {
                let pending = self.exchanges.get(*exchange);
                pending.is_some_and(|pending| pending.upstream == upstream)
            })
            .collect();
        for (id, exchange) in &stuck {
            let flight = self.flights.get_mut(*id);
            match flight.filter(|flight| is_silent && !flight.has_stale) {
                Some(flight) => {
                    flight.is_trial = true;
                    if let Some(pending) = self.exchanges.get_mut(*exchange) {
                        pending.overdue = true;
                    }
                }
                None => self.drop_exchange(*id, *exchange),
            }
        }
        for (id, _) in stuck {
            self.advance(id, Cause::Failed, now);
            self.arm(id);
        }
    }

    /// Tells every route whether it has an upstream left.
    pub(super) fn mark_routes(&self) {
        for route in self.table.routes() {
            let (_, fitness) = self.upstreams.of(route);
            let is_down = fitness.iter().all(|fitness| *fitness == Fitness::Absent);
            route.set_down(is_down && route.source == ForwardMode::Forward);
        }
    }
}
