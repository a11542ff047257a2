//! Response policy zones (draft-vixie-dnsop-dns-rpz): master files whose owner names are triggers, and whose records say what
//! becomes of a query that one of them fits.
//!
//! | record | consequence |
//! | --- | --- |
//! | `CNAME .` | NXDOMAIN |
//! | `CNAME *.` | no data |
//! | `CNAME rpz-passthru.` | as if there were no rule |
//! | `CNAME rpz-drop.` | no response |
//! | `CNAME rpz-tcp-only.` | truncated over UDP |
//! | `CNAME *.garden.example.` | an alias of the name below garden.example |
//! | other records | themselves |
//!
//! Triggers about names of queries, addresses of answers (`rpz-ip`) and clients (`rpz-client-ip`) are honoured; those about name servers
//! are counted and left out, as are addresses that are none.

use std::io;
use std::path::Path;

use config_text::{Problem, Rejected};
use dns_wire::{Name, Type};
use dns_zone::RecordData;
use dns_zone::parse::{self, Options};

use crate::networks::network;
use crate::policy::{Data, PolicyZone, Rule, Trigger};

/// Labels of the triggers about name servers.
const SERVERS: [&[u8]; 2] = [b"rpz-nsdname", b"rpz-nsip"];

/// Reads the zone `apex`; `fixed` is what becomes of every trigger, whatever its records say.
///
/// # Errors
/// All problems of the file, with line and column.
pub fn parse(
    path: &Path,
    apex: &Name,
    text: &[u8],
    fixed: Option<&Rule>,
) -> Result<PolicyZone, Vec<Problem>> {
    let mut load = |wanted: &Path| match wanted == path {
        true => Ok(text.to_vec()),
        false => Err(io::Error::other("a response policy zone is one file")),
    };
    let file = parse::parse(path, apex, &mut load, &Options::default())
        .map_err(|Rejected { problems, .. }| problems)?;
    let mut zone = PolicyZone::default();
    let mut problems = Vec::new();
    for record in &file.records {
        let n = record.owner.n_labels().saturating_sub(apex.n_labels());
        let is_meta = matches!(record.rtype(), Type::SOA | Type::NS | Type::DNSKEY);
        if n == 0 || is_meta {
            continue;
        }
        let labels: Vec<&[u8]> = record.owner.labels().take(n).collect();
        let RecordData::Wire { rtype, rdata } = &record.data else {
            zone.n_left_out += 1;
            continue;
        };
        let Some(trigger) = trigger(&labels) else {
            zone.n_left_out += 1;
            continue;
        };
        let rule = match fixed {
            Some(rule) => rule.clone(),
            None => rule_of(&trigger, *rtype, record.ttl, rdata),
        };
        if let Some(known) = zone.rule_mut(&trigger) {
            match (known, rule) {
                (Rule::Records(known), Rule::Records(more)) => known.extend(more),
                (known, rule) if *known == rule => {}
                _ => problems.push(Problem::at(
                    record.position.clone(),
                    format!("{} has two rules", record.owner),
                )),
            }
            continue;
        }
        zone.add_trigger(trigger, rule);
    }
    match problems.is_empty() {
        true => Ok(zone),
        false => Err(problems),
    }
}

/// The trigger that the labels of an owner name write; none of one that is not honoured.
fn trigger(labels: &[&[u8]]) -> Option<Trigger> {
    let (last, rest) = labels.split_last()?;
    let is = |label: &[u8]| last.eq_ignore_ascii_case(label);
    if is(b"rpz-client-ip") {
        return network(rest).map(Trigger::Client);
    }
    if is(b"rpz-ip") {
        return network(rest).map(Trigger::Answer);
    }
    if SERVERS.iter().any(|label| is(label)) {
        return None;
    }
    let is_below = labels.first() == Some(&&b"*"[..]);
    let mut labels = labels.get(usize::from(is_below)..)?.iter().rev();
    let name = labels.try_fold(Name::root(), |name, label| name.prepend(label));
    Some(match is_below {
        true => Trigger::Below(name.ok()?),
        false => Trigger::Name(name.ok()?),
    })
}

fn rule_of(trigger: &Trigger, rtype: Type, ttl: u32, rdata: &[u8]) -> Rule {
    let target = match rtype {
        Type::CNAME => Name::from_wire(rdata).ok().map(|(target, _)| target),
        _ => None,
    };
    let Some(target) = target else {
        return Rule::Records(vec![Data {
            rtype,
            ttl,
            rdata: rdata.into(),
        }]);
    };
    let text = target.to_lowercase().to_string();
    match text.as_str() {
        "." => Rule::NxDomain,
        "*." => Rule::NoData,
        "rpz-passthru." => Rule::PassThru,
        "rpz-drop." => Rule::Drop,
        "rpz-tcp-only." => Rule::TcpOnly,
        // The old form of `rpz-passthru.`.
        _ if matches!(trigger, Trigger::Name(name) | Trigger::Below(name) if target == *name) => {
            Rule::PassThru
        }
        _ if target.is_wildcard() => Rule::AliasBelow {
            ttl,
            suffix: target.parent().unwrap_or_else(Name::root),
        },
        _ => Rule::Alias { ttl, target },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = "$TTL 60
@ SOA localhost. root.localhost. (
    1 3600 900 86400 60 )
@ NS localhost.
nx.example CNAME .
*.nx.example CNAME .
empty.example CNAME *.
ok.nx.example CNAME rpz-passthru.
old.example CNAME old.example.
quiet.example CNAME rpz-drop.
slow.example CNAME rpz-tcp-only.
walled.example CNAME garden.test.
*.walled.example CNAME *.garden.test.
local.example 30 A 192.0.2.1
local.example 30 A 192.0.2.2
local.example TXT \"why\"
32.1.2.0.192.rpz-ip CNAME .
32.2.2.0.192.rpz-ip A 198.51.100.1
32.2.2.0.192.rpz-ip A 198.51.100.2
33.2.2.0.192.rpz-ip CNAME .
ns.bad.example.rpz-nsdname CNAME .
32.1.2.0.192.rpz-nsip CNAME .
24.0.2.0.192.rpz-client-ip CNAME rpz-drop.
";

    fn apex() -> Name {
        Name::parse("rpz.test").unwrap()
    }

    fn zone(text: &str, fixed: Option<&Rule>) -> Result<PolicyZone, Vec<String>> {
        parse(Path::new("rpz"), &apex(), text.as_bytes(), fixed)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    fn find(zone: &PolicyZone, name: &str) -> Option<Rule> {
        let name = Name::parse(name).unwrap();
        zone.find(name.as_wire()).cloned()
    }

    #[test]
    fn triggers_come_to_rules() {
        let zone = zone(ZONE, None).unwrap();
        assert_eq!((zone.len(), zone.n_left_out), (13, 3));
        let address = |text: &str| [text.parse().unwrap()];
        let of = |text: &str| zone.find_answer(&address(text)).cloned();
        assert_eq!(of("192.0.2.1"), Some(Rule::NxDomain));
        assert!(matches!(of("192.0.2.2"), Some(Rule::Records(records)) if records.len() == 2));
        assert_eq!(of("192.0.2.3"), None);
        for (client, expected) in [("192.0.2.9", Some(Rule::Drop)), ("198.51.100.9", None)] {
            let client = Some(client.parse().unwrap());
            assert_eq!(zone.find_query(client, b"\x01x\0").cloned(), expected);
        }
        let alias = |target: &str| Rule::Alias {
            ttl: 60,
            target: Name::parse(target).unwrap(),
        };
        for (name, rule) in [
            ("nx.example", Some(Rule::NxDomain)),
            ("a.b.nx.example", Some(Rule::NxDomain)),
            ("ok.nx.example", Some(Rule::PassThru)),
            ("empty.example", Some(Rule::NoData)),
            ("a.empty.example", None),
            ("old.example", Some(Rule::PassThru)),
            ("quiet.example", Some(Rule::Drop)),
            ("slow.example", Some(Rule::TcpOnly)),
            ("walled.example", Some(alias("garden.test"))),
            ("example", None),
            ("nx.example.rpz.test", None),
        ] {
            assert_eq!(find(&zone, name), rule, "{name}");
        }
        assert!(matches!(
            find(&zone, "x.walled.example"),
            Some(Rule::AliasBelow { ttl: 60, suffix }) if suffix == Name::parse("garden.test").unwrap()
        ));
        let Some(Rule::Records(records)) = find(&zone, "local.example") else {
            panic!("no records");
        };
        let types: Vec<Type> = records.iter().map(|data| data.rtype).collect();
        assert_eq!(types, [Type::A, Type::A, Type::TXT]);
    }

    #[test]
    fn an_action_of_the_configuration_overrides_the_records() {
        let zone = zone(ZONE, Some(&Rule::NoData)).unwrap();
        for name in [
            "nx.example",
            "local.example",
            "quiet.example",
            "x.walled.example",
        ] {
            assert_eq!(find(&zone, name), Some(Rule::NoData), "{name}");
        }
    }

    #[test]
    fn a_file_with_a_problem_is_refused_with_its_place() {
        let head = "$TTL 60\n@ SOA l. r. 1 2 3 4 5\n@ NS l.\n";
        for (line, problem) in [
            ("a.example A 192.0.2", "rpz:4:"),
            ("a.example CNAME .\na.example A 192.0.2.1", "has two rules"),
            ("$INCLUDE other", "one file"),
        ] {
            let problems = zone(&format!("{head}{line}\n"), None).unwrap_err();
            assert!(problems[0].contains(problem), "{problems:?}");
        }
        assert!(zone("a.example CNAME .\n", None).is_err());
    }
}
