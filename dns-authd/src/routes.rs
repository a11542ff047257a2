//! The routes of the admin listener that other daemons do not have.
//!
//! ```text
//! GET  /zones                    each zone's state, as JSON
//! GET  /zones/show?name=NAME     a zone as it is served, as a master file
//! POST /zones/reload[?name=NAME] loads one zone or all from their files, and answers after that
//! POST /zones/accept?name=NAME   publishes the version of a zone that is held back
//! POST /zones/retransfer?name=NAME   transfers a zone from its primaries, whatever its serial is
//! POST /zones/sync?name=NAME     writes a zone with its updates into its file
//! GET  /zones/history?name=NAME  the versions of a zone that are kept, as JSON
//! GET  /zones/diff?name=NAME[&from=SERIAL&to=SERIAL]   the difference between two of them, as JSON
//! POST /zones/rollback?name=NAME&serial=SERIAL   publishes an older version of a zone again
//! ```

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use api::dns_authd::{Reloaded, ZoneChange, ZoneDifference, ZoneHistory};
use daemon::admin::{Reply, Request, Routes};
use daemon::latest::Latest;
use dns_answer::Snapshot;
use dns_history::{Difference, History};
use dns_views::ZoneId;
use dns_zone::Zone;
use dns_zone::incoming::line;
use dns_zone::text::master_file;
use dns_zone::zone::cursor::ZoneRecord;
use tokio::sync::oneshot;

use crate::publisher::{
    Command, NoSuchZone, NotHeld, NotLoaded, NotRolledBack, NotSynced, Outcome, Reports,
    RolledBack, ZoneReport, rollback_view,
};
use crate::secondary::NotRetransferred;
use crate::{load, secondary, status};
use dns_primary::histories::Histories;

/// Adds the paths.
pub fn add(
    routes: &Routes,
    (cell, histories): (&Arc<Latest<Snapshot>>, &Histories),
    reports: &Arc<Latest<Reports>>,
    publisher: &SyncSender<Command>,
    secondaries: &secondary::Handle,
) {
    let of_zone = Past {
        cell: Arc::clone(cell),
        reports: Arc::clone(reports),
        histories: histories.clone(),
    };
    let past = of_zone.clone();
    routes.get("/zones/history", move |request| {
        let reply = past.history(&request).unwrap_or_else(|reply| reply);
        async move { reply }
    });
    routes.get("/zones/diff", move |request| {
        let reply = of_zone.difference(&request).unwrap_or_else(|reply| reply);
        async move { reply }
    });
    let rollbacks = publisher.clone();
    routes.post("/zones/rollback", move |request| {
        roll_back(request, rollbacks.clone())
    });
    let (reports, all) = (Arc::clone(reports), Arc::clone(reports));
    let views = Arc::clone(secondaries.views());
    routes.get("/zones", move |_| {
        let zones = status::zones(&reports.current(), &views.current());
        async move { Reply::json(200, &zones) }
    });
    let cell = Arc::clone(cell);
    routes.get("/zones/show", move |request| {
        let reply = show(&request, &cell.current());
        async move { reply }
    });
    let (reloads, accepts) = (publisher.clone(), publisher.clone());
    routes.post("/zones/reload", move |request| {
        reload(request, reloads.clone(), Arc::clone(&all))
    });
    routes.post("/zones/accept", move |request| {
        accept(request, accepts.clone())
    });
    let syncs = publisher.clone();
    routes.post("/zones/sync", move |request| sync(request, syncs.clone()));
    let secondaries = secondaries.clone();
    routes.post("/zones/retransfer", move |request| {
        retransfer(request, secondaries.clone())
    });
}

/// The answer to a request without a zone.
const NO_NAME: &str = "which zone? say ?name=NAME\n";

fn show(request: &Request, snapshot: &Snapshot) -> Reply {
    let name = match zone_name(request) {
        Ok(Some(name)) => name,
        Ok(None) => return Reply::text(400, NO_NAME),
        Err(reply) => return reply,
    };
    match snapshot.zone(&name) {
        None => Reply::text(404, format!("zone {name} is not served\n")),
        Some(served) => match &served.zone {
            None => Reply::text(503, format!("zone {name} was never loaded\n")),
            Some(root) => {
                let parts = served.parts.iter().flat_map(|parts| parts.zones.iter());
                Reply::text(200, master_file(root, parts.map(|part| &**part)))
            }
        },
    }
}

async fn reload(
    request: Request,
    publisher: SyncSender<Command>,
    reports: Arc<Latest<Reports>>,
) -> Reply {
    let name = match zone_name(&request) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let is_named = |report: &Arc<ZoneReport>| Some(&report.name) == name.as_ref();
    let is_served = reports.current().zones.iter().any(is_named);
    let (done, outcome) = oneshot::channel();
    if publisher.try_send(Command::Reload(name, done)).is_err() {
        return Reply::text(503, "the zone publisher is busy\n");
    }
    reloads(outcome.await, is_served)
}

/// The outcomes of loads. `is_served` says that a zone of that name is there, whether or not it has a file.
fn reloads(
    outcomes: Result<Result<Vec<Outcome>, NoSuchZone>, oneshot::error::RecvError>,
    is_served: bool,
) -> Reply {
    match outcomes {
        Ok(Ok(outcomes)) => {
            let failed = outcomes.iter().any(|outcome| outcome.result.is_err());
            let outcomes: Vec<Reloaded> = outcomes.into_iter().map(reloaded).collect();
            let status = if failed { 422 } else { 200 };
            Reply::json(status, &outcomes)
        }
        // The publisher loads files; the other zones follow the objects of a cluster.
        Ok(Err(NoSuchZone)) if is_served => Reply::text(
            409,
            "that zone has no file: it follows the cluster by itself\n",
        ),
        Ok(Err(NoSuchZone)) => Reply::text(404, "that zone is not served\n"),
        Err(_) => Reply::text(503, "the server is ending\n"),
    }
}

async fn accept(request: Request, publisher: SyncSender<Command>) -> Reply {
    let name = match zone_name(&request) {
        Ok(Some(name)) => name,
        Ok(None) => return Reply::text(400, NO_NAME),
        Err(reply) => return reply,
    };
    let (done, outcome) = oneshot::channel();
    if publisher.try_send(Command::Accept(name, done)).is_err() {
        return Reply::text(503, "the zone publisher is busy\n");
    }
    match outcome.await {
        Ok(Ok(outcome)) => Reply::json(200, &[reloaded(outcome)]),
        Ok(Err(NotHeld::NoSuchZone)) => Reply::text(404, "that zone is not served\n"),
        Ok(Err(NotHeld::Nothing)) => Reply::text(409, "no version of that zone is held back\n"),
        Err(_) => Reply::text(503, "the server is ending\n"),
    }
}

async fn sync(request: Request, publisher: SyncSender<Command>) -> Reply {
    let name = match zone_name(&request) {
        Ok(Some(name)) => name,
        Ok(None) => return Reply::text(400, NO_NAME),
        Err(reply) => return reply,
    };
    let (done, zone) = oneshot::channel();
    if publisher
        .try_send(Command::Sync(name.clone(), done))
        .is_err()
    {
        return Reply::text(503, "the zone publisher is busy\n");
    }
    let (zone, file) = match zone.await {
        Ok(Ok(zone)) => zone,
        Ok(Err(NotSynced::NoSuchZone)) => return Reply::text(404, "that zone is not served\n"),
        Ok(Err(NotSynced::Refused(why))) => return Reply::text(409, format!("{why}\n")),
        Err(_) => return Reply::text(503, "the server is ending\n"),
    };
    let write = move || load::write_back(&master_file(&zone, std::iter::empty()), &file);
    let written = tokio::task::spawn_blocking(write).await;
    match written {
        Ok(Ok(())) => load_one(name, &publisher).await,
        Ok(Err(error)) => Reply::text(500, format!("{error}\n")),
        Err(_) => Reply::text(500, "the zone was not written\n"),
    }
}

/// Has the publisher load the file of a zone, and reports the outcome.
async fn load_one(name: ZoneId, publisher: &SyncSender<Command>) -> Reply {
    let (done, outcome) = oneshot::channel();
    if publisher
        .try_send(Command::Reload(Some(name), done))
        .is_err()
    {
        return Reply::text(503, "the zone publisher is busy\n");
    }
    reloads(outcome.await, false)
}

async fn retransfer(request: Request, secondaries: secondary::Handle) -> Reply {
    let name = match zone_name(&request) {
        Ok(Some(name)) => name,
        Ok(None) => return Reply::text(400, NO_NAME),
        Err(reply) => return reply,
    };
    match secondaries.retransfer(name).await {
        Ok(outcome) => {
            let status = if outcome.result.is_err() { 422 } else { 200 };
            Reply::json(status, &[reloaded(outcome)])
        }
        Err(error) => {
            let status = match error {
                NotRetransferred::NoPrimaries(_) => 404,
                NotRetransferred::Failed(_) => 502,
                NotRetransferred::Ended => 503,
            };
            Reply::text(status, format!("{error}\n"))
        }
    }
}

async fn roll_back(request: Request, publisher: SyncSender<Command>) -> Reply {
    let name = match zone_name(&request) {
        Ok(Some(name)) => name,
        Ok(None) => return Reply::text(400, NO_NAME),
        Err(reply) => return reply,
    };
    let serial = match serial(&request, "serial") {
        Ok(Some(serial)) => serial,
        Ok(None) => return Reply::text(400, "back to which version? say &serial=SERIAL\n"),
        Err(reply) => return reply,
    };
    let (done, outcome) = oneshot::channel();
    let command = Command::Rollback(name, serial, done);
    if publisher.try_send(command).is_err() {
        return Reply::text(503, "the zone publisher is busy\n");
    }
    match outcome.await {
        Ok(Ok(RolledBack { outcome, written })) => {
            let written = written.await;
            match written.unwrap_or_else(|_| Err("the server is ending".to_owned())) {
                Ok(()) => Reply::json(200, &[reloaded(outcome)]),
                Err(error) => Reply::text(
                    500,
                    format!("the zone is rolled back, but a restart would undo that: {error}\n"),
                ),
            }
        }
        Ok(Err(NotRolledBack::NoSuchZone)) => Reply::text(404, "that zone is not served\n"),
        Ok(Err(NotRolledBack::Refused(why))) => Reply::text(409, format!("{why}\n")),
        Err(_) => Reply::text(503, "the server is ending\n"),
    }
}

//--- Versions

/// The versions of zones.
#[derive(Clone)]
struct Past {
    cell: Arc<Latest<Snapshot>>,
    reports: Arc<Latest<Reports>>,
    histories: Histories,
}

impl Past {
    /// The zone that a request names, and its history.
    fn find(&self, request: &Request) -> Result<(ZoneId, Arc<Zone>, History), Reply> {
        let name = zone_name(request)?.ok_or_else(|| Reply::text(400, NO_NAME))?;
        let snapshot = self.cell.current();
        let served = snapshot.zone(&name);
        let served =
            served.ok_or_else(|| Reply::text(404, format!("zone {name} is not served\n")))?;
        let zone = served.zone.clone();
        let zone = zone.ok_or_else(|| Reply::text(503, format!("zone {name} has no data\n")))?;
        let history = self.histories.of(&zone).unwrap_or_default();
        Ok((name, zone, history))
    }

    fn history(&self, request: &Request) -> Result<Reply, Reply> {
        let (name, zone, history) = self.find(request)?;
        let changes = history.changes().rev().map(|change| ZoneChange {
            from: change.from.serial(),
            to: change.to.serial(),
            published: change.published,
            removed: change.removed.len(),
            added: change.added.len(),
        });
        let answer = ZoneHistory {
            zone: name.to_string(),
            serial: zone.soa().serial,
            rollback: history.rollback().map(rollback_view),
            changes: changes.collect(),
        };
        Ok(Reply::json(200, &answer))
    }

    /// The difference between two versions. Without serials it is the one that a version which is held back would make,
    /// or else that of the last change.
    fn difference(&self, request: &Request) -> Result<Reply, Reply> {
        let (name, zone, history) = self.find(request)?;
        let (from, to) = (serial(request, "from")?, serial(request, "to")?);
        let reports = self.reports.current();
        let report = reports.zones.iter().find(|report| report.name == name);
        let held = report.and_then(|report| Some((report.held.as_ref()?, &report.held_change)));
        let (ends, difference, held) = match (from, to, held) {
            (None, None, Some((held, change))) => {
                let change = change.as_ref().ok_or_else(|| {
                    let text =
                        "the difference of the version that is held back is too large to show\n";
                    Reply::text(409, text)
                })?;
                let ends = (zone.soa().serial, held.serial);
                (ends, Difference::of(&[Arc::clone(change)]), true)
            }
            (None, None, None) => {
                let change = history.changes().next_back();
                let change =
                    change.ok_or_else(|| Reply::text(409, "no earlier version is kept\n"))?;
                let ends = (change.from.serial(), change.to.serial());
                (ends, Difference::of(&[Arc::clone(change)]), false)
            }
            (None, Some(_), _) => {
                return Err(Reply::text(400, "from which version? say &from=SERIAL\n"));
            }
            (Some(from), to, _) => {
                let to = to.unwrap_or_else(|| zone.soa().serial);
                let difference = history.difference(from, to);
                let difference =
                    difference.map_err(|error| Reply::text(409, format!("{error}\n")))?;
                ((from, to), difference, false)
            }
        };
        let lines = |records: &[ZoneRecord<'static>]| {
            let records = records.iter();
            let line = |it: &ZoneRecord<'_>| line(&it.owner, it.rtype, it.ttl, &it.rdata);
            records.map(line).collect()
        };
        let answer = ZoneDifference {
            zone: name.to_string(),
            from: ends.0,
            to: ends.1,
            held,
            removed: lines(&difference.removed),
            added: lines(&difference.added),
        };
        Ok(Reply::json(200, &answer))
    }
}

/// The serial in a parameter.
fn serial(request: &Request, key: &str) -> Result<Option<u32>, Reply> {
    match request.parameter(key) {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(serial) => Ok(Some(serial)),
            Err(_) => Err(Reply::text(400, format!("`{text}` is no serial\n"))),
        },
    }
}

fn reloaded(outcome: Outcome) -> Reloaded {
    let zone = outcome.name.to_string();
    match outcome.result {
        Ok((serial, records)) => Reloaded::Loaded {
            zone,
            serial,
            records,
        },
        Err(NotLoaded::Broken(problems)) => Reloaded::Broken { zone, problems },
        Err(NotLoaded::Held(held)) => Reloaded::Held { zone, held },
    }
}

fn zone_name(request: &Request) -> Result<Option<ZoneId>, Reply> {
    match request.parameter("name") {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(name) => Ok(Some(name)),
            Err(error) => Err(Reply::text(400, format!("`{text}` is no zone: {error}\n"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use dns_wire::hash::Seed;

    use super::*;
    use dns_wire::Name;
    use dns_zone::parse::{self, Options};

    fn read(text: &str, options: &Options) -> Zone {
        let apex: Name = "example.".parse().unwrap();
        let path = std::path::Path::new("example.zone");
        let mut load = |_: &std::path::Path| Ok(text.as_bytes().to_vec());
        let file = parse::parse(path, &apex, &mut load, options).unwrap();
        Zone::build(&apex, &file.records, Seed(1)).unwrap()
    }

    #[test]
    fn what_is_shown_of_a_zone_is_the_zone() {
        let long = "x".repeat(600);
        let text = format!(
            "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
             a LUA A \"ifportup(443, {{'192.0.2.1',\" \"'192.0.2.2'}})\"\n\
             b LUA TXT \";return '\\065\\n\\\\' .. \\\"q\\\"\" \"\" \" .. 'z'\"\n\
             c LUA TXT \"'{long}'\"\n\
             d 7 LUA LUA \"x = 1\"\n\
             e LUA TXT \\# 10 0010 07 275c22275c0a27\n"
        );
        for lua_whitespace in [true, false] {
            let options = Options {
                lua_whitespace,
                ..Options::default()
            };
            let zone = read(&text, &options);
            let shown = master_file(&zone, std::iter::empty());
            let again = read(&shown, &options);
            let programs = |zone: &Zone| {
                let all = zone.programs();
                all.map(|(owner, rtype, program)| {
                    (owner.clone(), rtype, program.ttl, program.code.to_string())
                })
                .collect::<Vec<_>>()
            };
            assert_eq!(programs(&again), programs(&zone), "{shown}");
            assert_eq!(programs(&zone).len(), 5);
            assert_eq!(again.records().len(), zone.records().len());
            assert_eq!(master_file(&again, std::iter::empty()), shown);
        }
    }

    #[test]
    fn a_program_is_sent_in_the_strings_it_was_written_in() {
        let text =
            "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns.test.\na LUA A \"pick\" \"\" \"random()\"\n";
        let zone = read(text, &Options::default());
        let sent = zone.records().pop().unwrap().3;
        assert_eq!(sent, b"\0\x01\x04pick\0\x08random()");
    }
}
