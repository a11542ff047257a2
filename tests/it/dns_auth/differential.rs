//! dns-authd beside Knot and NSD: random zones, signed and not, and random queries.
//!
//! A seed makes zones and queries. An answer that one of the peers gives too needs no explanation; every other one must be in the
//! table of reasons. `OUTPOST_DIFFERENTIAL=FIRST,COUNT` runs other seeds, and more of them, than a test run has time for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, run};
use tests::dns::{Question, SOA, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::peers::{Case, essence, message, opt, question, send, start_knot, start_nsd};

/// The seeds of a test run.
const SEEDS: (u64, u64) = (1, 2);
/// The zones of a seed.
const ZONES: usize = 8;
/// The queries for each zone.
const QUERIES: usize = 220;
const PATIENCE: Duration = Duration::from_secs(60);

/// A sequence of numbers that a seed makes.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % most as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

//--- Zones

/// The way in which a zone is signed: options of `dnssec-signzone`.
const WAYS: [(&str, Option<&[&str]>); 5] = [
    ("plain", None),
    ("plain", None),
    ("nsec", Some(&[])),
    ("nsec3", Some(&["-3", "-", "-H", "0"])),
    ("opt-out", Some(&["-3", "aabb", "-H", "2", "-A"])),
];

const LABELS: [&str; 9] = ["a", "b", "c", "www", "*", "d", "x", "ns1", "e"];

struct Zone {
    name: String,
    way: &'static str,
    /// Its names, relative to it.
    names: Vec<String>,
}

/// The records of a name, so that no peer refuses the zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Alias,
    Tree,
    Cut,
}

fn is_below(name: &str, above: &str) -> bool {
    name.len() > above.len() && name.ends_with(&format!(".{above}"))
}

/// A name of the zone that may be an alias's target, or one elsewhere.
fn target(random: &mut Random, names: &[String], zones: &[String]) -> String {
    match random.below(10) {
        0 => "www.elsewhere.example.".to_owned(),
        1 => format!("{}.{}.", random.pick(&LABELS[..4]), random.pick(zones)),
        2 => "nowhere".to_owned(),
        3 => format!("q.{}", random.pick(names)).replace("*.", "w."),
        _ => random.pick(names).clone(),
    }
}

/// The text of a zone and its names.
fn make_zone(random: &mut Random, zones: &[String]) -> (String, Vec<String>) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for _ in 0..6 + random.below(14) {
        let depth = 1 + random.below(4);
        let labels: Vec<&str> = (0..depth).map(|_| *random.pick(&LABELS)).collect();
        names.insert(labels.join("."));
    }
    names.insert("ns1".to_owned());
    let names: Vec<String> = names.into_iter().collect();
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    for name in &names {
        let is_wild = name.starts_with('*');
        let kind = match random.below(20) {
            _ if name == "ns1" => Kind::Data,
            0..=3 => Kind::Alias,
            4 if !is_wild => Kind::Tree,
            5..=7 if !is_wild => Kind::Cut,
            _ => Kind::Data,
        };
        kinds.insert(name, kind);
    }
    let apart: Vec<(&str, Kind)> = kinds
        .iter()
        .filter(|(_, kind)| matches!(kind, Kind::Tree | Kind::Cut))
        .map(|(name, kind)| (*name, *kind))
        .collect();
    let mut text = format!(
        "$TTL 300\n@ SOA ns1 host {} 3600 600 86400 60\n@ NS ns1\n",
        1 + random.below(1000)
    );
    if random.chance(50) {
        text.push_str("@ MX 10 mail\n@ TXT \"apex\"\n");
    }
    for name in &names {
        // Nothing is below a DNAME, and below a cut there are addresses alone.
        let above = apart.iter().filter(|(above, _)| is_below(name, above));
        let above: Vec<Kind> = above.map(|(_, kind)| *kind).collect();
        if above.contains(&Kind::Tree) {
            continue;
        }
        let kind = match above.contains(&Kind::Cut) {
            true if name.starts_with('*') => continue,
            true => {
                writeln!(text, "{name} A 192.0.2.{}", 1 + random.below(200)).unwrap();
                continue;
            }
            false => kinds[name.as_str()],
        };
        match kind {
            Kind::Alias => {
                let target = target(random, &names, zones);
                writeln!(text, "{name} CNAME {target}").unwrap();
            }
            Kind::Tree => {
                let target = target(random, &names, zones)
                    .replace("*.", "w.")
                    .replace('*', "w");
                writeln!(text, "{name} DNAME {target}").unwrap();
                if random.chance(30) {
                    writeln!(text, "{name} TXT \"beside\"").unwrap();
                }
            }
            Kind::Cut => {
                writeln!(text, "{name} NS ns.{name}\nns.{name} A 192.0.2.99").unwrap();
                if random.chance(30) {
                    writeln!(text, "{name} NS ns1").unwrap();
                }
                if random.chance(50) {
                    let digest = "0123456789abcdef".repeat(4);
                    writeln!(text, "{name} DS 12345 13 2 {digest}").unwrap();
                }
            }
            Kind::Data => make_data(random, name, &names, &mut text),
        }
    }
    (text, names)
}

fn make_data(random: &mut Random, name: &str, names: &[String], text: &mut String) {
    let mut has_any = name == "ns1";
    if has_any {
        writeln!(text, "{name} A 192.0.2.53").unwrap();
    }
    for _ in 0..2 {
        match random.below(8) {
            0 | 1 => {
                for _ in 0..1 + random.below(3) {
                    writeln!(text, "{name} A 192.0.2.{}", 1 + random.below(200)).unwrap();
                }
            }
            2 => writeln!(text, "{name} AAAA 2001:db8::{}", random.below(900)).unwrap(),
            3 => writeln!(text, "{name} TXT \"{}\"", "t".repeat(random.below(200))).unwrap(),
            4 => writeln!(
                text,
                "{name} MX {} {}",
                random.below(50),
                random.pick(names)
            )
            .unwrap(),
            5 => writeln!(text, "{name} SRV 1 2 80 {}", random.pick(names)).unwrap(),
            6 => {
                for n in 0..40 {
                    writeln!(text, "{name} TXT \"{n} {}\"", "long".repeat(10)).unwrap();
                }
            }
            _ => writeln!(text, "{name} TYPE65280 \\# 3 010203").unwrap(),
        }
        has_any = true;
    }
    assert!(has_any);
}

/// Writes the zones of a seed, signed or not, as master files that all servers read.
fn write_zones(seed: u64, files: &Scratch) -> Vec<Zone> {
    let mut random = Random(seed);
    let names: Vec<String> = (0..ZONES).map(|n| format!("z{n}.test")).collect();
    let tool = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(files.path()).args(arguments);
        let (status, out, err) = run(command);
        assert!(status.success(), "seed {seed}: {program}: {out}{err}");
        out
    };
    let zones = names.iter().map(|name| {
        let (mut text, below) = make_zone(&mut random, &names);
        let (way, options) = *random.pick(&WAYS);
        let file = format!("{name}.zone");
        match options {
            None => drop(files.write(&file, &format!("$ORIGIN {name}.\n{text}"))),
            Some(options) => {
                let key = tool("dnssec-keygen", &["-q", "-a", "ED25519", "-f", "KSK", name]);
                let path = files.join(&format!("{}.key", key.trim()));
                text.push_str(&std::fs::read_to_string(path).unwrap());
                let unsigned = format!("{name}.unsigned");
                files.write(&unsigned, &format!("$ORIGIN {name}.\n{text}"));
                let fixed = ["-q", "-P", "-z", "-o", name, "-O", "full", "-f", &file];
                tool(
                    "dnssec-signzone",
                    &[&fixed[..], options, &[&unsigned]].concat(),
                );
            }
        }
        Zone {
            name: name.clone(),
            way,
            names: below,
        }
    });
    zones.collect()
}

//--- Queries

/// A, NS, CNAME, SOA, MX, TXT, AAAA, SRV, DNAME, DS, NSEC, DNSKEY, NSEC3PARAM, one that has data, and one that has none.
const TYPES: [u16; 19] = [
    1, 1, 1, 2, 5, 6, 15, 16, 16, 28, 33, 39, 43, 47, 48, 51, 65_280, 99, 50,
];

fn make_query(random: &mut Random, zone: &Zone, number: usize) -> Case {
    let mut name = match random.below(8) {
        0 => String::new(),
        1..=3 => random.pick(&zone.names).clone(),
        4 => format!(
            "{}.{}",
            random.pick(&["q", "a", "*", "ns"]),
            random.pick(&zone.names)
        ),
        5 => {
            let name = random.pick(&zone.names).clone();
            name.split_once('.')
                .map_or_else(String::new, |(_, above)| above.to_owned())
        }
        6 => random.pick(&zone.names).replace('*', "w"),
        _ => format!("{}.{}", random.pick(&LABELS), random.pick(&LABELS)),
    };
    if !name.is_empty() {
        name.push('.');
    }
    name.push_str(&zone.name);
    if random.chance(10) {
        name = name.to_ascii_uppercase();
    }
    let rtype = *random.pick(&TYPES);
    let flags = match random.below(8) {
        0 => 0x100,
        1 => 0x10,
        2 => 0x20,
        3 => 0x130,
        _ => 0,
    };
    let (words, record) = match random.below(10) {
        0..=2 => ("", None),
        3 => ("edns", Some(opt(1232, 0, 0, &[]))),
        4 => ("edns small", Some(opt(512, 0, 0x8000, &[]))),
        5 => ("edns large", Some(opt(4096, 0, 0x8000, &[]))),
        _ => ("do", Some(opt(1232, 0, 0x8000, &[]))),
    };
    let tcp = random.chance(10);
    let asked = question(&name, rtype, 1);
    let n = u8::from(record.is_some());
    let body = [asked, record.unwrap_or_default()].concat();
    let transport = if tcp { "tcp" } else { "udp" };
    Case {
        name: format!(
            "{number}: {transport} {name} {rtype} flags {flags:#x} {words} ({})",
            zone.way
        ),
        wire: message(flags, 1, n, &body),
        tcp,
    }
}

//--- Comparison

/// Why an answer differs from both peers', if its query and the answers are of this kind.
type Reason = (fn(&str, &[String; 3]) -> bool, &'static str);

const REASONS: [Reason; 7] = [
    (
        ends_a_loop_that_grows,
        "DNAMEs that lead to each other make a longer name with each turn: we follow eighteen aliases, as NSD since 4.15; NSD 4.6 follows more, as \
         long as there is room, and Knot five",
    ),
    (
        leads_elsewhere,
        "an alias that leads into another zone of the server is followed there, as BIND and pdns do",
    ),
    (
        is_hidden_by_opt_out,
        "below a name that exists for delegations without DS alone, Knot gives no proof, and delv refuses NSD's; it takes ours",
    ),
    (
        proves_a_half,
        "a wildcard would match that no record has: we prove that the name is not there and that the wildcard has no data (RFC 4035 §3.1.3.4); \
         Knot and NSD prove one of it each, and Unbound takes ours",
    ),
    (
        stays_at_the_alias,
        "NSEC and NSEC3 at an alias: one of Knot and NSD does not follow it, and the other one's answer is ours but for its proofs",
    ),
    (
        is_made_of_a_wildcard,
        "a name that begins with `*`, and that another wildcard makes: Knot and NSD leave out a part of the proof (RFC 5155 §7.2.5)",
    ),
    (
        differs_in_additions,
        "additional records are optional: Knot has more addresses, NSD fewer, and each leaves out others for want of room",
    ),
];

/// Whether the chain of aliases in ours has the greatest length, that of Knot is shorter, and that of NSD longer or cut.
fn ends_a_loop_that_grows(_: &str, answers: &[String; 3]) -> bool {
    /// Aliases that dns-authd and Knot follow.
    const FOLLOWED: (usize, usize) = (18, 5);
    let n_answers = |answer: &String| {
        let mut lines = answer.lines().map(str::trim_start);
        let counted = lines.find_map(|line| line.strip_prefix("answer: "))?;
        counted.split(',').next()?.parse::<usize>().ok()
    };
    let first = |answer: &String| answer.lines().next().map(str::to_owned);
    let [ours, knot, nsd] = answers;
    let (Some(n), Some(n_knot)) = (n_answers(ours), n_answers(knot)) else {
        return false;
    };
    // Beside the aliases there are at least two DNAMEs, in all answers alike.
    let n_beside = n.checked_sub(FOLLOWED.0);
    let is_prefix = n_beside.is_some_and(|n| n >= 2 && n_knot == FOLLOWED.1 + n);
    let nsd_has_more = nsd.contains("\"tc\"") || n_answers(nsd) > Some(n);
    is_prefix && first(ours) == first(knot) && nsd_has_more
}

/// Whether an answer continues in another zone than that of the question.
fn leads_elsewhere(case: &str, [ours, _, nsd]: &[String; 3]) -> bool {
    let case = case.to_ascii_lowercase();
    let is_other = |n: usize| !case.contains(&format!("z{n}.test "));
    // With more to say, ours may be truncated.
    let answer = if ours.contains("\"tc\"") { nsd } else { ours };
    let mut others = (0..ZONES).filter(|n| is_other(*n));
    answer.contains(" 5 name(") && others.any(|n| answer.contains(&format!("z{n}.test.")))
}

fn is_hidden_by_opt_out(case: &str, [ours, knot, _]: &[String; 3]) -> bool {
    let (gave_up, is_no_name) = (knot.starts_with("rcode 3"), ours.starts_with("rcode 3"));
    case.contains("(opt-out)") && gave_up && is_no_name && !knot.contains("\"aa\"")
}

/// An answer: all but its authority section, and that.
struct Parts<'a> {
    rest: Vec<&'a str>,
    authority: &'a str,
}

impl<'a> Parts<'a> {
    fn of(answer: &'a str) -> Self {
        let is_authority = |line: &&str| line.trim_start().starts_with("authority");
        let rest = answer.lines().filter(|line| !is_authority(line));
        let authority = answer.lines().find(is_authority);
        Self {
            rest: rest.collect(),
            authority: authority.unwrap_or_default().trim_start(),
        }
    }

    /// The number of records of the authority section, each with a signature.
    fn n_records(&self) -> usize {
        match self.authority.strip_prefix("authority: ") {
            Some(counted) => {
                let n = counted.split(',').next().and_then(|n| n.parse().ok());
                n.unwrap_or(0)
            }
            None => 2 * self.authority.matches(" 46 other(").count(),
        }
    }

    /// Whether the response was too short for it.
    fn is_cut(&self) -> bool {
        self.rest.iter().any(|line| line.contains("\"tc\""))
    }
}

/// Whether the SOA record and two proofs are in ours, unless it is cut, and one proof in the other.
fn has_the_other_half(case: &str, ours: &Parts<'_>, other: &Parts<'_>) -> bool {
    let is_whole = ours.n_records() == 6 && ours.rest == other.rest;
    let is_cut = ours.is_cut() && case.contains("edns small");
    case.contains("(nsec)") && other.n_records() == 4 && (is_whole || is_cut)
}

fn proves_a_half(case: &str, answers: &[String; 3]) -> bool {
    let [ours, knot, nsd] = answers.each_ref().map(|answer| Parts::of(answer));
    has_the_other_half(case, &ours, &knot)
        && has_the_other_half(case, &ours, &nsd)
        && knot.authority != nsd.authority
}

fn stays_at_the_alias(case: &str, answers: &[String; 3]) -> bool {
    let [ours, knot, nsd] = answers.each_ref().map(|answer| Parts::of(answer));
    let rtype = case.split(' ').nth(3);
    let is_denial = rtype.is_some_and(|rtype| matches!(rtype, "47" | "50" | "51"));
    let follows = |parts: &&Parts<'_>| {
        let mut lines = parts.rest.iter();
        lines.any(|line| line.trim_start().starts_with("answer"))
    };
    let is_like_ours = |parts: &&Parts<'_>| {
        parts.rest == ours.rest || (ours.is_cut() && case.contains("edns small"))
    };
    let followers: Vec<&Parts<'_>> = [&knot, &nsd].into_iter().filter(follows).collect();
    is_denial && followers.len() == 1 && followers.iter().all(is_like_ours)
}

fn is_made_of_a_wildcard(case: &str, answers: &[String; 3]) -> bool {
    let [ours, knot, nsd] = answers.each_ref().map(|answer| Parts::of(answer));
    let name = case.split(' ').nth(2);
    let is_shorter = |other: &Parts<'_>| {
        let is_whole = ours.rest == other.rest && ours.n_records() > other.n_records();
        is_whole || (ours.is_cut() && case.contains("edns small"))
    };
    name.is_some_and(|name| name.starts_with("*."))
        && (case.contains("(nsec3)") || case.contains("(opt-out)"))
        && is_shorter(&knot)
        && is_shorter(&nsd)
}

fn differs_in_additions(_: &str, answers: &[String; 3]) -> bool {
    let [ours, knot, nsd] = answers.each_ref().map(|answer| {
        let lines = answer.lines();
        let lines = lines.filter(|line| !line.trim_start().starts_with("additional"));
        lines.collect::<Vec<_>>()
    });
    ours == knot || ours == nsd
}

struct Servers {
    servers: [SocketAddr; 3],
    _daemons: Vec<Daemon>,
    _site: Site,
}

fn start(files: &Scratch, zones: &[Zone]) -> Servers {
    let site = Site::new();
    site.configure_authd(&[], "");
    let mut config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    for Zone { name, .. } in zones {
        let file = files.join(&format!("{name}.zone"));
        write!(
            config,
            "\n[[zone]]\nname = \"{name}\"\nfile = \"{}\"\n",
            file.display()
        )
        .unwrap();
    }
    site.files.write("dns-authd.toml", &config);
    let names: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
    let (knot, nsd) = (at(loopback(), 5303), at(loopback(), 5304));
    let daemons = vec![
        site.start("dns-authd"),
        start_knot(files, knot, &names),
        start_nsd(files, nsd, &names),
    ];
    let servers = [site.authority(), knot, nsd];
    for server in servers {
        for name in &names {
            wait::for_it(&format!("{server} {name}"), PATIENCE, || {
                let answer = ask(server, &Question::new(name, SOA));
                answer.is_ok_and(|answer| answer.rcode == 0)
            });
        }
    }
    Servers {
        servers,
        _daemons: daemons,
        _site: site,
    }
}

/// Compares the answers of a seed; returns how many were compared, and the differences without a reason.
fn compare(seed: u64) -> (usize, String) {
    let files = Scratch::new("differential");
    let zones = write_zones(seed, &files);
    let servers = start(&files, &zones);
    let mut random = Random(seed ^ 0x5eed);
    let (mut n, mut differences) = (0, String::new());
    for zone in &zones {
        for number in 0..QUERIES {
            let case = make_query(&mut random, zone, number);
            // The letter case of names in data may be that of the question, to which they are compressed.
            let ask = |patience| {
                let answer = |server| essence(send(&case, server, patience));
                servers
                    .servers
                    .map(|server| answer(server).to_ascii_lowercase())
            };
            let is_alike = |[ours, knot, nsd]: &[String; 3]| ours == knot || ours == nsd;
            let mut answers = ask(Duration::from_secs(2));
            if !is_alike(&answers) {
                // A lost datagram is no difference.
                answers = ask(Duration::from_secs(5));
            }
            n += 1;
            let has_reason = REASONS.iter().any(|(fits, _)| fits(&case.name, &answers));
            if !is_alike(&answers) && !has_reason {
                let [ours, knot, nsd] = answers;
                let name = &case.name;
                writeln!(
                    differences,
                    "seed {seed}, {name}\n  ours  {ours}\n  Knot  {knot}\n  NSD   {nsd}"
                )
                .unwrap();
            }
        }
    }
    (n, differences)
}

#[test]
fn random_zones_are_answered_as_knot_or_nsd_answer_them() {
    let (first, count) = match std::env::var("OUTPOST_DIFFERENTIAL") {
        Ok(text) => {
            let (first, count) = text.split_once(',').expect("FIRST,COUNT");
            (first.parse().unwrap(), count.parse().unwrap())
        }
        Err(_) => SEEDS,
    };
    let (mut n, mut differences) = (0, String::new());
    for seed in first..first + count {
        let (compared, found) = compare(seed);
        n += compared;
        differences.push_str(&found);
        if count > SEEDS.1 {
            println!(
                "seed {seed}: {compared} answers, {} octets of differences",
                found.len()
            );
        }
    }
    println!("{n} answers compared");
    assert!(differences.is_empty(), "of {n}:\n{differences}");
}
