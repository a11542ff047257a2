//! What the admin listener does beside what every daemon's does.
//!
//! ```text
//! GET  /zones                    each zone's state, as JSON
//! GET  /zones/show?name=NAME     a zone as it is served, as a master file
//! POST /zones/reload[?name=NAME] loads one zone or all from their files
//! ```

use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use daemon_base::admin::{Reply, Request, Routes};
use daemon_base::snapshot::Cell;
use dns_wire::{Name, Type};
use serde_json::json;
use tokio::sync::oneshot;

use crate::answer::Snapshot;
use crate::keeper::{Command, NoSuchZone, Outcome, Reports};
use crate::status;
use crate::zone::Zone;

/// Adds the paths.
pub fn add(
    routes: &Routes,
    cell: &Arc<Cell<Snapshot>>,
    reports: &Arc<Cell<Reports>>,
    keeper: &SyncSender<Command>,
) {
    let reports = Arc::clone(reports);
    routes.get("/zones", move |_| {
        let zones = status::zones(&reports.current());
        async move { Reply::json(200, &zones) }
    });
    let cell = Arc::clone(cell);
    routes.get("/zones/show", move |request| {
        let reply = show(&request, &cell.current());
        async move { reply }
    });
    let keeper = keeper.clone();
    routes.post("/zones/reload", move |request| {
        reload(request, keeper.clone())
    });
}

fn show(request: &Request, snapshot: &Snapshot) -> Reply {
    let name = match zone_name(request) {
        Ok(Some(name)) => name,
        Ok(None) => return Reply::text(400, "which zone? say ?name=NAME\n"),
        Err(reply) => return reply,
    };
    match snapshot.table.zone(&name) {
        None => Reply::text(404, format!("zone {name} is not served\n")),
        Some(served) => match &served.zone {
            None => Reply::text(503, format!("zone {name} was never loaded\n")),
            Some(zone) => Reply::text(200, master_file(zone)),
        },
    }
}

async fn reload(request: Request, keeper: SyncSender<Command>) -> Reply {
    let name = match zone_name(&request) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let (done, outcome) = oneshot::channel();
    if keeper.try_send(Command::Reload(name, done)).is_err() {
        return Reply::text(503, "the zone keeper is busy\n");
    }
    match outcome.await {
        Ok(Ok(outcomes)) => {
            let failed = outcomes.iter().any(|outcome| outcome.result.is_err());
            let outcomes: Vec<_> = outcomes.iter().map(outcome_value).collect();
            let status = if failed { 422 } else { 200 };
            Reply::json(status, &json!(outcomes))
        }
        Ok(Err(NoSuchZone)) => Reply::text(404, "that zone is not served\n"),
        Err(_) => Reply::text(503, "the server is ending\n"),
    }
}

fn outcome_value(outcome: &Outcome) -> serde_json::Value {
    match &outcome.result {
        Ok((serial, records)) => json!({
            "zone": outcome.name.to_string(),
            "serial": serial,
            "records": records,
        }),
        Err(problems) => json!({
            "zone": outcome.name.to_string(),
            "problems": problems,
        }),
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

/// The zone as a master file, names absolute, in canonical order (RFC 4034 §6.1), SOA first.
#[must_use]
pub fn master_file(zone: &Zone) -> String {
    let mut records = zone.records();
    records.sort_by(|a, b| {
        let key = |rtype: Type| (rtype != Type::SOA, rtype);
        (&a.0, key(a.1), &a.3).cmp(&(&b.0, key(b.1), &b.3))
    });
    let mut text = String::new();
    for (owner, rtype, ttl, rdata) in records {
        let data = match rtype {
            Type::LUA => lua_text(&rdata),
            _ => dns_wire::rdata::display(rtype, &rdata),
        };
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{owner}\t{ttl}\tIN\t{rtype}\t{data}");
    }
    text
}

/// A program as master files have it: the type it makes, and its text in quotes.
fn lua_text(rdata: &[u8]) -> String {
    let Some((rtype, strings)) = rdata.split_first_chunk::<2>() else {
        return String::new();
    };
    let strings = dns_wire::rdata::display(Type::TXT, strings);
    format!("{} {strings}", Type(u16::from_be_bytes(*rtype)))
}
