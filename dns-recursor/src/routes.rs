//! The paths of the admin listener beside the common ones.
//!
//! | path | does |
//! | --- | --- |
//! | `GET /cache?name=NAME&subtree=1` | prints what is kept, as records |
//! | `POST /cache/flush?name=NAME&subtree=1` | drops what is kept, and says how many entries |

use std::fmt::Write as _;
use std::sync::Arc;

use config_text::counted;
use daemon::admin::{Reply, Request, Routes};
use dns_cache::cache::{Cache, Entry, Reach};
use dns_cache::instant::Instant;
use dns_cache::key;
use dns_cache::message::Pool;
use dns_wire::{Name, NameError, Records, records};

use crate::clock::Clock;

/// Adds the paths.
pub fn add(routes: &Routes, cache: &Arc<Cache>, clock: Clock) {
    let shown = Arc::clone(cache);
    routes.get("/cache", move |request| {
        let cache = Arc::clone(&shown);
        async move {
            match NameSelection::of(&request) {
                Ok(selection) => Reply::text(200, dump(&cache, clock.now(), selection.as_ref())),
                Err(error) => Reply::text(400, format!("{error}\n")),
            }
        }
    });
    let flushed = Arc::clone(cache);
    routes.post("/cache/flush", move |request| {
        let cache = Arc::clone(&flushed);
        async move {
            match NameSelection::of(&request) {
                Ok(selection) => Reply::text(200, flush(&cache, selection.as_ref())),
                Err(error) => Reply::text(400, format!("{error}\n")),
            }
        }
    });
}

/// The names that a request is about; all when there is none.
struct NameSelection {
    name: Name,
    reach: Reach,
}

impl NameSelection {
    fn of(request: &Request) -> Result<Option<Self>, NameError> {
        let Some(name) = request.parameter("name") else {
            return Ok(None);
        };
        let reach = match request.parameter("subtree") {
            Some(_) => Reach::Subtree,
            None => Reach::Name,
        };
        let name = Name::parse(&name)?;
        Ok(Some(Self { name, reach }))
    }

    fn includes(&self, name: &Name) -> bool {
        match self.reach {
            Reach::Name => *name == self.name,
            Reach::Subtree => name.is_within(&self.name),
        }
    }
}

fn flush(cache: &Cache, selection: Option<&NameSelection>) -> String {
    let n_dropped = match selection {
        Some(selection) => cache.flush(&selection.name, selection.reach),
        None => cache.flush(&Name::root(), Reach::Subtree),
    };
    format!("{} dropped\n", counted(n_dropped, "entry"))
}

/// Every entry as a comment and its records.
fn dump(cache: &Cache, now: Instant, selection: Option<&NameSelection>) -> String {
    let mut text = String::new();
    cache.visit(now, |entry| {
        let question = entry.message.question();
        let Ok((name, _)) = Name::from_wire(question) else {
            return;
        };
        if selection.is_none_or(|selection| selection.includes(&name)) {
            // Writing to a string does not fail.
            let _written = write_entry(&mut text, &name, entry);
        }
    });
    text
}

fn write_entry(text: &mut String, name: &Name, entry: &Entry<'_>) -> std::fmt::Result {
    let kind = match (entry.failure, entry.pool) {
        (true, _) => "failure",
        (false, Pool::Positive) => "positive",
        (false, Pool::Negative) => "negative",
    };
    let flags = match (entry.variant.dnssec_ok(), entry.variant.checking_disabled()) {
        (false, false) => "",
        (true, false) => " do",
        (false, true) => " cd",
        (true, true) => " do cd",
    };
    let message = entry.message;
    let qtype = key::qtype(message.question());
    let rcode = message.rcode();
    let life = match entry.left {
        left if left >= 0 => format!("{left}s left"),
        left => format!("stale for {}s", -left),
    };
    writeln!(
        text,
        "; {name} {qtype}{flags}: {kind}, {rcode}, {}s old, {life}",
        entry.age
    )?;
    let bytes = message.bytes();
    for record in Records::new(bytes).into_iter().flatten().flatten() {
        if let Some(line) = records::line(bytes, &record, entry.age) {
            writeln!(text, "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dns_cache::cache::{CacheOptions, Capacity, Keep};
    use dns_cache::key::{Key, Seed, Variant};
    use dns_cache::testing::{answer, question};
    use dns_wire::{Rcode, Section, Type};

    use super::*;

    #[test]
    fn the_cache_is_shown_as_records_and_flushed_by_name() {
        let capacity = Capacity {
            entries: 100,
            octets: 1 << 20,
        };
        let options = CacheOptions {
            positive: capacity,
            negative: capacity,
            stale: Duration::ZERO,
        };
        let cache = Cache::new(&options, Seed(1));
        let now = Instant::from_millis(500);
        for name in ["a.example", "b.a.example", "other"] {
            let row = (Section::Answer, name, Type::A, 60, "192.0.2.1");
            let key = Key::new(Seed(1), &question(name, Type::A), Variant::new(true, false));
            let keep = Keep {
                pool: Pool::Positive,
                lifetime: Duration::from_secs(60),
            };
            let message = answer(name, Type::A, Rcode::NOERROR, &[row]).message;
            cache.store(&key, message, keep, Instant::START);
        }
        let selection = |query: &str| {
            let request = Request {
                query: query.to_owned(),
                ..Request::default()
            };
            NameSelection::of(&request).unwrap()
        };
        let one = dump(&cache, now, selection("name=A.example").as_ref());
        assert_eq!(
            one,
            "; a.example. A do: positive, NOERROR, 0s old, 59s left\n\
             a.example. 60 IN A 192.0.2.1\n"
        );
        assert_eq!(dump(&cache, now, None).lines().count(), 6);
        assert_eq!(
            flush(&cache, selection("name=a.example&subtree=1").as_ref()),
            "2 entries dropped\n"
        );
        assert_eq!(
            flush(&cache, selection("name=a.example").as_ref()),
            "0 entries dropped\n"
        );
        assert_eq!(flush(&cache, None), "1 entry dropped\n");
        let bad = Request {
            query: "name=a..b".to_owned(),
            ..Request::default()
        };
        assert!(NameSelection::of(&bad).is_err());
    }
}
