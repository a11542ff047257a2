//! The explanation of an answer: `GET /explain?name=NAME&type=TYPE&client=IP`, which `dns-recursor explain` asks for.
//!
//! Asks no upstream, and leaves the cache as it is.

use std::net::Ipv4Addr;
use std::sync::Arc;

use api::explain::dns_recursor::{Cached, Explanation, Outcome, Route};
use daemon::admin::Routes;
use daemon::latest::Latest;
use dns_cache::cache::{Cache, Entry};
use dns_cache::key::{Key, Variant};
use dns_front::foresee::Foreseen;
use dns_front::front::Front;
use dns_names::Names;
use dns_resolve::forward::{self, ForwardMode, Mode, Table};
use dns_serve::question::{self, Question};
use dns_wire::{Flags, Name, Query, Records, records};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::driver::Observed;
use crate::routing::Routing;
use crate::server::Snapshot;
use crate::status;

/// The sources of explanations.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) cell: Arc<Latest<Snapshot>>,
    pub(crate) names: Arc<Latest<Names>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) observed: Arc<Mutex<Observed>>,
    pub(crate) clock: Clock,
    pub(crate) routing: Arc<Routing>,
}

/// Adds the path.
pub(crate) fn add(routes: &Routes, sources: &Sources) {
    let sources = sources.clone();
    question::add(routes, move |question| sources.explain(question));
}

impl Sources {
    fn explain(&self, question: &Question) -> Explanation {
        let snapshot = self.cell.current();
        let names = self.names.current();
        let now = self.clock.now();
        let may_ask = question
            .client
            .is_none_or(|client| snapshot.allow.contains(client));
        let front = Front {
            view: &snapshot.view,
            names: &names,
            cache: &self.cache,
            now,
            // Only answers with a cookie depend on them, and this query has none.
            client: question
                .client
                .unwrap_or_else(|| Ipv4Addr::LOCALHOST.into()),
            clock: dns_serve::cookies::clock,
        };
        let message = question.query();
        let mut key = Key::default();
        let prospect = match Query::parse(&message) {
            Ok(query) => front.foresee(&query, may_ask, &mut key),
            Err(_) => Foreseen::Rejected.into(),
        };
        let outcome = outcome(prospect.foreseen);
        let local_zone = match outcome {
            Outcome::Local => snapshot.view.local.zone_of(key.name()),
            _ => None,
        };
        let route = snapshot.view.table.find(key.name(), key.qtype());
        let variants = (0..=u8::MAX).map_while(Variant::from_bits);
        let cached = variants.filter_map(|variant| {
            let key = Key::new(self.cache.seed(), key.question(), variant);
            self.cache.peek(&key, now, cached)
        });
        Explanation {
            name: question.name.to_string(),
            rtype: question.rtype.to_string(),
            client: question.client.map(|client| client.to_string()),
            allow_from: snapshot.allow.to_string(),
            outcome,
            alias: prospect.alias.map(|alias| alias.to_string()),
            rewritten: prospect
                .rewritten
                .map(|(name, rtype)| format!("{name} {rtype}")),
            synthesized: prospect.is_synthesized,
            local_zone: local_zone.map(Name::to_string),
            route: route.map(|route| self.route(route, &key, &snapshot.view.table)),
            cached: cached.collect(),
        }
    }

    fn route(&self, route: &forward::Route, key: &Key, table: &Table) -> Route {
        let observed = self.observed.lock();
        let now = self.clock.now();
        let upstreams = route.upstreams.iter().filter_map(|address| {
            let mut views = observed.upstreams.iter();
            let view = views.find(|view| view.address == *address)?;
            Some(status::upstream(view, now))
        });
        Route {
            zone: route.zone.to_string(),
            iterates: route.source != ForwardMode::Forward,
            recursive: route.mode == Mode::Recursive,
            down: route.is_down(),
            dnssec: status::mode(route.dnssec).to_owned(),
            trust_anchor: match Name::from_wire(key.name()) {
                Ok((name, _)) if route.validates() => {
                    let now = daemon::clock::since_1970().as_secs();
                    Some(table.anchors().words(&name, now))
                }
                _ => None,
            },
            upstreams: upstreams.collect(),
            learned: self.routing.is_learned(&route.zone),
        }
    }
}

const fn outcome(foreseen: Foreseen) -> Outcome {
    match foreseen {
        Foreseen::Refused => Outcome::Refused,
        Foreseen::Ignored => Outcome::Ignored,
        Foreseen::Rejected => Outcome::Rejected,
        Foreseen::Fresh => Outcome::Cache,
        Foreseen::Failed => Outcome::Failure,
        Foreseen::Held => Outcome::Held,
        Foreseen::Unreachable => Outcome::Stale,
        Foreseen::Local => Outcome::Local,
        Foreseen::Names => Outcome::Names,
        Foreseen::Policy => Outcome::Policy,
        Foreseen::Resolve { has_stale: false } => Outcome::Upstreams,
        Foreseen::Resolve { has_stale: true } => Outcome::UpstreamsOrStale,
        Foreseen::NoRoute => Outcome::NoRoute,
    }
}

fn cached(entry: &Entry<'_>) -> Cached {
    let bytes = entry.message.bytes();
    let records = Records::new(bytes).into_iter().flatten().flatten();
    Cached {
        rcode: entry.message.rcode().to_string(),
        failure: entry.failure,
        dnssec_ok: entry.variant.dnssec_ok(),
        checking_disabled: entry.variant.checking_disabled(),
        secure: entry.message.flags().has(Flags::AD),
        age_seconds: entry.age,
        left_seconds: entry.left,
        denied_seconds: entry.denied,
        records: records
            .filter_map(|record| records::line(bytes, &record, entry.age))
            .collect(),
    }
}
