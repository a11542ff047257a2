//! Answers as text, to be kept over a restart: a line for each record, as in a zone file.
//!
//! ```text
//! www.example. A 192.0.2.1
//! _http._tcp.example. SRV 10 5 8080 www.example.
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Instant;

use dns_wire::Name;

use crate::lookup::Lookup;
use crate::message::{Kind, MAX_RECORDS, Place, Question, Record};
use crate::names::Names;

impl Names {
    /// The records that hold.
    #[must_use]
    pub fn kept(&self) -> String {
        let mut text = String::new();
        for (question, lookup) in &self.lookups {
            for record in lookup.records() {
                // Text takes everything.
                let _written = match record {
                    Record::Address(address) => writeln!(text, "{question} {address}"),
                    Record::Place(place) => {
                        let (priority, weight) = (place.priority, place.weight);
                        let (port, target) = (place.port, &place.target);
                        writeln!(text, "{question} {priority} {weight} {port} {target}")
                    }
                };
            }
        }
        text
    }

    /// Begins with records that were kept, of the names that have had no answer: they hold until one comes. Those of other names
    /// are left out.
    ///
    /// # Errors
    ///
    /// The number of the first line that is no record; nothing is taken then.
    pub fn restore(&mut self, text: &str, now: Instant) -> Result<(), usize> {
        let mut kept: BTreeMap<Question, BTreeSet<Record>> = BTreeMap::new();
        for (number, line) in (1_usize..).zip(text.lines()) {
            let (question, record) = record(line).ok_or(number)?;
            let records = kept.entry(question).or_default();
            if records.len() < MAX_RECORDS {
                records.insert(record);
            }
        }
        // A host without addresses of one family had none.
        let others: Vec<Question> = kept.keys().filter_map(other_family).collect();
        for question in others {
            kept.entry(question).or_default();
        }
        for (question, records) in kept {
            let known = self.lookups.get(&question);
            if known.is_none_or(|lookup| !lookup.is_settled()) {
                self.lookups.insert(question, Lookup::kept(records, now));
            }
        }
        self.settle(now);
        Ok(())
    }
}

/// The question for the addresses of the other family.
fn other_family(question: &Question) -> Option<Question> {
    let kind = match question.kind {
        Kind::V4 => Kind::V6,
        Kind::V6 => Kind::V4,
        Kind::Service => return None,
    };
    let name = question.name.clone();
    Some(Question { name, kind })
}

/// A line.
fn record(line: &str) -> Option<(Question, Record)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, kind, record) = match *words {
        [name, "A", address] => (name, Kind::V4, Record::Address(address.parse().ok()?)),
        [name, "AAAA", address] => (name, Kind::V6, Record::Address(address.parse().ok()?)),
        [name, "SRV", priority, weight, port, target] => {
            let place = Place {
                priority: priority.parse().ok()?,
                weight: weight.parse().ok()?,
                port: port.parse().ok()?,
                target: Name::parse(target).ok()?,
            };
            (name, Kind::Service, Record::Place(place))
        }
        _ => return None,
    };
    let is_of_kind = match &record {
        Record::Address(address) => address.is_ipv4() == (kind == Kind::V4),
        Record::Place(_) => true,
    };
    let name = Name::parse(name).ok()?;
    is_of_kind.then_some((Question { name, kind }, record))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lookup::Settings;
    use crate::message::{Failure, Outcome};
    use crate::names::{Entry, Families, Family, Source};

    const SETTINGS: Settings = Settings {
        timeout_resolve: Duration::from_secs(1),
        hold_valid: Duration::from_secs(10),
        hold_nx: Duration::from_secs(30),
        hold_obsolete: Duration::ZERO,
    };

    const KEPT: &str = "b.example. A 192.0.2.2\nwww.example. A 192.0.2.1\nwww.example. AAAA 2001:db8::1\n\
                        _http._tcp.example. SRV 10 5 8080 b.example.\n";

    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    fn start() -> Instant {
        Instant::now()
    }

    fn entries() -> Vec<Entry> {
        let entry = |server: &str, source, preferred| Entry {
            backend: "b".into(),
            server: server.into(),
            source,
            most: 4,
            families: Families::Prefer(preferred),
        };
        let name = |text| Name::parse(text).unwrap();
        vec![
            entry("host", Source::Host(name("www.example"), 80), Family::V4),
            entry("six", Source::Host(name("b.example"), 81), Family::V6),
            entry(
                "srv",
                Source::Service(name("_http._tcp.example")),
                Family::V4,
            ),
        ]
    }

    /// The address of each server.
    fn servers(names: &Names) -> Vec<String> {
        let all = names.all().into_iter();
        all.map(|(_, server, address)| format!("{server} {address}"))
            .collect()
    }

    fn restored(now: Instant) -> Names {
        let mut names = Names::new(SETTINGS, entries(), now);
        assert_eq!(names.restore(KEPT, now), Ok(()));
        names
    }

    #[test]
    fn servers_are_there_again_and_are_asked_for_at_once() {
        let now = start();
        let mut names = restored(now);
        let expected = [
            "host 192.0.2.1:80",
            "six 192.0.2.2:81",
            "srv 192.0.2.2:8080",
        ];
        assert_eq!(servers(&names), expected);
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&names.kept()), sorted(KEPT));
        assert!(!names.is_settled());
        let due = names.due(now);
        assert!(due.len() >= 3, "{due:?}");
        // Silence, however long, changes nothing.
        for question in due {
            let silence = Outcome::Failed(Failure::Silent);
            assert!(!names.take(&question, silence, now), "{question}");
        }
        let later = now + Duration::from_secs(1_000_000);
        assert!(!names.tick(later));
        assert_eq!(servers(&names), expected);
    }

    #[test]
    fn an_answer_and_a_lasting_denial_count_more() {
        let now = start();
        let mut names = restored(now);
        let due = names.due(now);
        let of = |name: &str, kind| {
            let mut due = due.iter();
            due.find(|it| it.kind == kind && it.name == Name::parse(name).unwrap())
                .unwrap()
                .clone()
        };
        let other = Record::Address("192.0.2.9".parse().unwrap());
        let found = Outcome::Found {
            records: BTreeSet::from([other]),
            ttl: Duration::from_secs(5),
        };
        assert!(names.take(&of("www.example", Kind::V4), found, now));
        let denied = Outcome::Denied {
            exists: false,
            ttl: None,
        };
        names.take(&of("_http._tcp.example", Kind::Service), denied, now);
        let expected = [
            "host 192.0.2.9:80",
            "six 192.0.2.2:81",
            "srv 192.0.2.2:8080",
        ];
        assert_eq!(servers(&names), expected);
        assert!(names.tick(now + SETTINGS.hold_nx));
        assert_eq!(servers(&names), ["host 192.0.2.9:80", "six 192.0.2.2:81"]);
        // What has had an answer is not taken back.
        assert_eq!(names.restore(KEPT, now), Ok(()));
        assert_eq!(servers(&names), ["host 192.0.2.9:80", "six 192.0.2.2:81"]);
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let now = start();
        for line in [
            "www.example. A",
            "www.example. A 2001:db8::1",
            "www.example. AAAA 192.0.2.1",
            "www.example. A 192.0.2.1 more",
            "www.example. TXT 192.0.2.1",
            "www..example. A 192.0.2.1",
            "x. SRV 1 1 65536 www.example.",
            "",
        ] {
            let mut names = Names::new(SETTINGS, entries(), now);
            let text = format!("www.example. A 192.0.2.1\n{line}\n");
            assert_eq!(names.restore(&text, now), Err(2), "{line}");
            assert!(servers(&names).is_empty(), "{line}");
        }
    }

    #[test]
    fn no_more_records_are_taken_than_of_a_response() {
        let now = start();
        let line = |n: usize| format!("www.example. A 192.0.{}.{}\n", n / 256, n % 256);
        let text: String = (0..2 * MAX_RECORDS).map(line).collect();
        let mut names = Names::new(SETTINGS, entries(), now);
        assert_eq!(names.restore(&text, now), Ok(()));
        assert_eq!(names.kept().lines().count(), MAX_RECORDS);
    }
}
