//! The routes of the admin listener that other daemons do not have.
//!
//! ```text
//! GET  /zones                    each zone's state, as JSON
//! GET  /zones/show?name=NAME     a zone as it is served, as a master file
//! POST /zones/reload[?name=NAME] loads one zone or all from their files, and answers after that
//! POST /zones/accept?name=NAME   publishes the version of a zone that is held back
//! POST /zones/retransfer?name=NAME   transfers a zone from its primaries, whatever its serial is
//! ```

use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use api::dns_authd::Reloaded;
use daemon::admin::{Reply, Request, Routes};
use daemon::latest::Latest;
use dns_answer::Snapshot;
use dns_wire::{Name, Type};
use dns_zone::Zone;
use tokio::sync::oneshot;

use crate::publisher::{Command, NoSuchZone, NotHeld, NotLoaded, Outcome, Reports};
use crate::secondary::NotRetransferred;
use crate::{secondary, status};

/// Adds the paths.
pub fn add(
    routes: &Routes,
    cell: &Arc<Latest<Snapshot>>,
    reports: &Arc<Latest<Reports>>,
    publisher: &SyncSender<Command>,
    secondaries: &secondary::Handle,
) {
    let reports = Arc::clone(reports);
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
        reload(request, reloads.clone())
    });
    routes.post("/zones/accept", move |request| {
        accept(request, accepts.clone())
    });
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
    match snapshot.table.zone(&name) {
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

async fn reload(request: Request, publisher: SyncSender<Command>) -> Reply {
    let name = match zone_name(&request) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let (done, outcome) = oneshot::channel();
    if publisher.try_send(Command::Reload(name, done)).is_err() {
        return Reply::text(503, "the zone publisher is busy\n");
    }
    match outcome.await {
        Ok(Ok(outcomes)) => {
            let failed = outcomes.iter().any(|outcome| outcome.result.is_err());
            let outcomes: Vec<Reloaded> = outcomes.into_iter().map(reloaded).collect();
            let status = if failed { 422 } else { 200 };
            Reply::json(status, &outcomes)
        }
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

fn zone_name(request: &Request) -> Result<Option<Name>, Reply> {
    match request.parameter("name") {
        None => Ok(None),
        Some(text) => match Name::parse(&text) {
            Ok(name) => Ok(Some(name)),
            Err(error) => Err(Reply::text(400, format!("`{text}` is no name: {error}\n"))),
        },
    }
}

/// The zone with its parts as a master file, names absolute, in canonical order (RFC 4034 §6.1), SOA first.
#[must_use]
pub fn master_file<'z>(zone: &Zone, parts: impl Iterator<Item = &'z Zone>) -> String {
    let of_parts = parts.flat_map(Zone::plain_records);
    // Each part has a SOA record, for its negative answers.
    let of_parts = of_parts.filter(|(_, rtype, ..)| *rtype != Type::SOA);
    let records = zone.plain_records().into_iter().chain(of_parts);
    let records = records.map(|(owner, rtype, ttl, rdata)| {
        let data = dns_wire::rdata::display(rtype, &rdata);
        (owner, rtype, ttl, rdata, data)
    });
    let programs = zone.programs().map(|(owner, rtype, program)| {
        let data = program.display(rtype);
        (owner.clone(), Type::LUA, program.ttl, Vec::new(), data)
    });
    let mut records: Vec<_> = records.chain(programs).collect();
    records.sort_by(|a, b| {
        let key = |rtype: Type| (rtype != Type::SOA, rtype);
        (&a.0, key(a.1), &a.3, &a.4).cmp(&(&b.0, key(b.1), &b.3, &b.4))
    });
    let mut text = String::new();
    for (owner, rtype, ttl, _, data) in records {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{owner}\t{ttl}\tIN\t{rtype}\t{data}");
    }
    text
}

#[cfg(test)]
mod tests {
    use dns_wire::hash::Seed;

    use super::*;
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
