//! The explanation of an answer: `GET /explain?name=NAME&type=TYPE&client=IP`, which `dns-authd explain` asks for.
//!
//! The response is the one that a client would get: the same responder makes it. Nothing is counted, and no query waits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use api::explain::dns_authd::{
    Explanation, LiveSet, Place, Program, Response, Step, Target, Zone as ExplainedZone,
};
use daemon::admin::Routes;
use daemon::clock;
use daemon::latest::Latest;
use daemon::random;
use dns_answer::table::{Served, Table};
use dns_answer::{Client, MAX_MESSAGE, Responder, Snapshot, Transport, Verdict};
use dns_serve::question::{self, Question};
use dns_views::ZoneId;
use dns_wire::hash::Suffixes;
use dns_wire::header::Flags;
use dns_wire::{Name, Records, Section, Type, records};
use dns_zone::{MAX_CHAIN, NamePlace};
use proto::health::{self, AdminState, Watched};
use proto::link::Link;

use crate::access::Access;
use crate::publisher::{Reports, ZoneReport};
use crate::status;
use dns_primary::histories::Histories;
use dns_programs::{LiveReport, LuaPrograms};

/// The sources of explanations.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) cell: Arc<Latest<Snapshot>>,
    pub(crate) reports: Arc<Latest<Reports>>,
    pub(crate) histories: Histories,
    pub(crate) access: Arc<Latest<Access>>,
    pub(crate) link: Link,
}

/// Adds the path.
pub(crate) fn add(routes: &Routes, sources: &Sources) {
    let sources = sources.clone();
    question::add(routes, move |question| sources.explain(question));
}

impl Sources {
    fn explain(&self, question: &Question) -> Explanation {
        let snapshot = self.cell.current();
        let reports = self.reports.current();
        let access = self.access.current();
        let liveness = self.link.current();
        let client = question.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let allowed = access.may_ask(client);
        let picture = Picture {
            snapshot: &snapshot,
            table: snapshot.seen_by(client, None).table,
            reports: &reports,
            liveness: &liveness,
        };
        let served = picture.served(&question.name, question.rtype);
        let zone = served.and_then(|served| {
            let report = picture.report(&served.id())?;
            let zone = served.zone.as_ref();
            let history = zone.and_then(|zone| self.histories.of(zone));
            let versions = history.map_or(0, |history| history.changes().count());
            Some(explained_zone(report, versions, clock::wall()))
        });
        let message = picture.response(question, client, allowed);
        let response = message.as_deref().and_then(response);
        Explanation {
            name: question.name.to_string(),
            rtype: question.rtype.to_string(),
            client: question.client.map(|client| client.to_string()),
            allowed,
            allow_from: access.ask.as_ref().map(ToString::to_string),
            zone,
            steps: picture.steps(question, message.as_deref().unwrap_or_default()),
            response,
            health: status::health(&reports, &self.link),
            generation: liveness.generation,
        }
    }
}

/// The zones, and what they follow, at one moment.
struct Picture<'a> {
    snapshot: &'a Snapshot,
    /// The zones that the client sees.
    table: &'a Table,
    reports: &'a Reports,
    liveness: &'a health::Snapshot,
}

impl<'a> Picture<'a> {
    fn suffixes(&self, name: &Name) -> Suffixes {
        let mut suffixes = Suffixes::default();
        suffixes.read(self.table.seed(), name.as_wire());
        suffixes
    }

    fn served(&self, name: &Name, rtype: Type) -> Option<&'a Served> {
        self.table.find(&self.suffixes(name), rtype)
    }

    fn report(&self, zone: &ZoneId) -> Option<&'a ZoneReport> {
        let mut reports = self.reports.zones.iter();
        reports
            .find(|report| report.name == *zone)
            .map(|report| &**report)
    }

    /// The response that a client gets to this question now.
    fn response(&self, question: &Question, client: IpAddr, allowed: bool) -> Option<Vec<u8>> {
        let client = Client {
            peer: SocketAddr::new(client, 0),
            local: None,
            local_port: 0,
            // Not cut short.
            transport: Transport::Tcp,
            can_wait: false,
            may_ask: allowed,
            clock: dns_serve::cookies::clock,
        };
        let query = question.query();
        let mut responder = Responder::new(LuaPrograms, random::seed());
        let mut out = vec![0; MAX_MESSAGE];
        match responder.respond(self.snapshot, &query, &client, &mut out) {
            Verdict::Reply(length) => {
                out.truncate(length);
                Some(out)
            }
            _ => None,
        }
    }

    /// The names that an answer goes through: the question's, and those that its aliases lead to.
    fn steps(&self, question: &Question, message: &[u8]) -> Vec<Step> {
        let mut steps = vec![self.step(&question.name, question.rtype)];
        let mut name = question.name.clone();
        while steps.len() < MAX_CHAIN
            && question.rtype != Type::CNAME
            && let Some(target) = alias(message, &name)
        {
            steps.push(self.step(&target, question.rtype));
            name = target;
        }
        steps
    }

    fn step(&self, name: &Name, rtype: Type) -> Step {
        let suffixes = self.suffixes(name);
        let served = self.table.find(&suffixes, rtype);
        let found = served.and_then(|served| Some((served, served.zone_of(&suffixes)?)));
        let Some((served, zone)) = found else {
            return Step {
                name: name.to_string(),
                place: Place::Elsewhere,
                live: Vec::new(),
            };
        };
        let place = zone.place(&suffixes, rtype);
        let owner = match &place {
            NamePlace::Exact => Some(name),
            NamePlace::Wildcard(owner) => Some(owner),
            NamePlace::Delegation(_) | NamePlace::Dname(_) | NamePlace::Missing(_) => None,
        };
        let is_answer = |set: &&dns_zone::LiveSet| {
            Some(&set.owner) == owner
                && (set.rtype == rtype || set.rtype == Type::CNAME || rtype == Type::ANY)
        };
        let report = self.report(&served.id());
        let live = zone.live_sets().iter().filter(is_answer).filter_map(|set| {
            let mut reports = report?.live.iter();
            let report = reports.find(|it| it.owner == set.owner && it.rtype == set.rtype)?;
            Some(self.live_set(set, report))
        });
        Step {
            name: name.to_string(),
            live: live.collect(),
            place: shown(place),
        }
    }

    fn live_set(&self, set: &dns_zone::LiveSet, report: &LiveReport) -> LiveSet {
        let programs = set.programs.iter().map(|program| Program {
            source: program.position.to_string(),
            code: program.code.to_string(),
        });
        LiveSet {
            owner: set.owner.to_string(),
            rtype: set.rtype.to_string(),
            programs: programs.collect(),
            certainty: status::certainty(report),
            members: report.members.clone(),
            ttl: report.ttl,
            targets: report.targets.iter().map(|it| self.target(it)).collect(),
            messages: report.messages.clone(),
        }
    }

    fn target(&self, watched: &Watched) -> Target {
        let status = self.liveness.watched(watched);
        Target {
            target: watched.target.to_string(),
            address: watched.target.address.to_string(),
            liveness: status.map(|status| status.liveness).unwrap_or_default(),
            admin: status.map_or(AdminState::Ready, |status| status.admin),
            reason: status.map_or_else(String::new, |status| status.reason.clone()),
        }
    }
}

fn shown(place: NamePlace) -> Place {
    match place {
        NamePlace::Exact => Place::Exact,
        NamePlace::Wildcard(owner) => Place::Wildcard(owner.to_string()),
        NamePlace::Delegation(owner) => Place::Delegation(owner.to_string()),
        NamePlace::Dname(owner) => Place::Dname(owner.to_string()),
        NamePlace::Missing(closest) => Place::Missing(closest.to_string()),
    }
}

fn explained_zone(report: &ZoneReport, versions: usize, now: SystemTime) -> ExplainedZone {
    let loaded = report.loaded.and_then(|at| now.duration_since(at).ok());
    ExplainedZone {
        name: report.name.to_string(),
        state: report.state,
        serial: report.serial,
        file: report.file.as_ref().map(|file| file.display().to_string()),
        loaded_seconds: loaded.map(|ago| ago.as_secs()),
        versions,
        held: report.held.clone(),
        rollback: report.rollback.clone(),
        problems: report.problems.clone(),
    }
}

/// The name that the alias of a name leads to, by this response.
fn alias(message: &[u8], owner: &Name) -> Option<Name> {
    let mut records = Records::new(message).ok()?.flatten();
    let alias = records.find(|record| {
        let is_its = Name::read(message, record.name_offset).is_ok_and(|(name, _)| name == *owner);
        record.section == Section::Answer && record.rtype == Type::CNAME && is_its
    })?;
    let (target, _) = Name::read(message, alias.rdata.start).ok()?;
    Some(target)
}

fn response(message: &[u8]) -> Option<Response> {
    let flags = Flags::read(message)?;
    let lines = |section: Section| {
        let records = Records::new(message).into_iter().flatten().flatten();
        let records = records.filter(|record| record.section == section);
        records
            .filter_map(|record| records::line(message, &record, 0))
            .collect()
    };
    Some(Response {
        rcode: flags.rcode().to_string(),
        authoritative: flags.has(Flags::AA),
        answer: lines(Section::Answer),
        authority: lines(Section::Authority),
    })
}

#[cfg(test)]
mod tests;
