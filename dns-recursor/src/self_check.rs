//! Tests the server's purpose once: makes the resolver find the SOA of a forwarded zone.
//!
//! Bypasses the cache, so that the query reaches an upstream, and the access list.

use dns_cache::answer::{Asker, Transport};
use dns_cache::key::Variant;
use dns_resolve::forward::Table;
use dns_wire::header::Flags;
use dns_wire::{Name, Rcode, Type};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::driver::{Job, ReturnTo, Waiter};
use crate::totals::Arrival;

/// The most zones that are tried: one answer is enough, and many would take too long.
const ZONES: usize = 3;

/// The longest answer.
const LIMIT: usize = 4096;

/// The class of the internet (RFC 1035 §3.2.4).
const INTERNET: u16 = 1;

/// Looks up zones of the table until one is found.
///
/// The root is behind servers outside the site, which may be away without any fault of this process: any
/// response about it is enough.
///
/// # Errors
/// The outcome of each zone.
pub async fn run(table: &Table, jobs: &mpsc::Sender<Job>, clock: Clock) -> Result<String, String> {
    let zones: Vec<&Name> = table.routes().map(|route| &route.zone).collect();
    let own = zones.iter().copied().filter(|zone| !zone.is_root());
    let mut failures = Vec::new();
    for zone in own.take(ZONES) {
        match look_up(zone, jobs, clock).await? {
            Rcode::SERVFAIL | Rcode::REFUSED => failures.push(format!("{zone}: no server answers")),
            rcode => return Ok(format!("{zone} is resolved ({rcode})")),
        }
    }
    if !failures.is_empty() {
        return Err(failures.join(", "));
    }
    match zones.iter().any(|zone| zone.is_root()) {
        true => {
            let rcode = look_up(&Name::root(), jobs, clock).await?;
            Ok(format!("the resolver answers ({rcode} for the root)"))
        }
        false => Ok("nothing is forwarded".to_owned()),
    }
}

async fn look_up(zone: &Name, jobs: &mpsc::Sender<Job>, clock: Clock) -> Result<Rcode, String> {
    let mut question = zone.as_wire().to_vec();
    question.extend_from_slice(&Type::SOA.0.to_be_bytes());
    question.extend_from_slice(&INTERNET.to_be_bytes());
    let (answers, mut answer) = mpsc::channel(1);
    let asker = Asker {
        id: 0,
        flags: Flags::default().with(Flags::RD),
        question: &question,
        edns: None,
        limit: LIMIT,
        cookie: None,
    };
    let arrival = Arrival {
        transport: Transport::Tcp,
        ipv6: false,
    };
    let waiter = Waiter::new(&asker, arrival, clock.now(), ReturnTo::Stream(answers));
    let job = Job {
        question: question.as_slice().into(),
        asked: None,
        variant: Variant::new(false, false),
        has_stale: false,
        waiter: Some(waiter),
    };
    let sent = jobs.send(job).await;
    sent.map_err(|_| "the resolver has ended".to_owned())?;
    let reply = answer.recv().await;
    let reply = reply.ok_or_else(|| format!("{zone}: the resolver drops the question"))?;
    let flags = Flags::read(&reply).ok_or("the answer has no header")?;
    Ok(flags.rcode())
}
