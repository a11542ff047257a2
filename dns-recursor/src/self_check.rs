//! Tests the server's purpose once: makes the resolver find the SOA of a forwarded zone.
//!
//! Bypasses the cache, so that the query reaches an upstream, and the access list.

use dns_cache::key::Variant;
use dns_resolve::forward::Table;
use dns_wire::header::Flags;
use dns_wire::{Name, Rcode, Type};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::driver::Job;
use crate::own_question::Asked;

/// The most zones that are tried: one answer is enough, and many would take too long.
const ZONES: usize = 3;

/// The longest answer.
const LIMIT: usize = 4096;

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
    let question = Asked {
        name: zone,
        rtype: Type::SOA,
        variant: Variant::new(false, false),
        limit: LIMIT,
    };
    let reply = question.ask(jobs, clock).await?;
    let flags = Flags::read(&reply).ok_or("the answer has no header")?;
    Ok(flags.rcode())
}
