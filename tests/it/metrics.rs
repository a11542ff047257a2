//! Prometheus can read `/metrics`, and every metric is documented.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use tests::binaries::checkout;
use tests::dns::ask_a;
use tests::lb::{Place, pair};
use tests::masters::Master;
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::wait;

/// A family of metrics: its type, and its samples by name with labels.
#[derive(Default)]
struct Family {
    kind: String,
    samples: BTreeMap<String, f64>,
}

/// Reads the text format 0.0.4, and panics at what Prometheus would refuse.
fn read(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (word, name) = (words.next().unwrap(), words.next().unwrap_or_default());
            let value = words.next().unwrap_or_default();
            match word {
                "HELP" => assert!(!value.is_empty(), "{name} has no help"),
                "TYPE" => {
                    let family = Family {
                        kind: value.to_owned(),
                        ..Family::default()
                    };
                    assert!(
                        families.insert(name.to_owned(), family).is_none(),
                        "{name} comes twice"
                    );
                    current = name.to_owned();
                }
                _ => assert_eq!(rest, "EOF", "{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value
            .parse()
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        let name = series.split('{').next().unwrap();
        let family = families
            .get_mut(&current)
            .unwrap_or_else(|| panic!("{line} has no type"));
        let suffixes: &[&str] = if family.kind == "histogram" {
            &["_bucket", "_sum", "_count"]
        } else {
            &[""]
        };
        let belongs = suffixes
            .iter()
            .any(|suffix| name == format!("{current}{suffix}"));
        assert!(belongs, "{name} stands below {current}");
        assert!(
            family.samples.insert(series.to_owned(), value).is_none(),
            "{series} comes twice"
        );
    }
    families
}

/// Each histogram ends with `+Inf`, which is its count, and never falls.
fn check_histograms(families: &BTreeMap<String, Family>) {
    for (name, family) in families
        .iter()
        .filter(|(_, family)| family.kind == "histogram")
    {
        let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (series, value) in &family.samples {
            let Some(labels) = series.strip_prefix(&format!("{name}_bucket{{")) else {
                continue;
            };
            let (before, rest) = labels
                .split_once("le=\"")
                .unwrap_or_else(|| panic!("{series}"));
            let (bound, after) = rest.split_once('"').unwrap();
            let bound = if bound == "+Inf" {
                f64::INFINITY
            } else {
                bound.parse().unwrap()
            };
            let others = format!("{before}{}", after.trim_start_matches(','));
            buckets.entry(others).or_default().push((bound, *value));
        }
        for (labels, mut list) in buckets {
            list.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(
                list.is_sorted_by_key(|(_, value)| *value),
                "{name} {labels}: {list:?}"
            );
            let (last, total) = list[list.len() - 1];
            assert!(last.is_infinite(), "{name} {labels}: no +Inf, {list:?}");
            let labels = labels.trim_end_matches([',', '}']);
            let series = if labels.is_empty() {
                format!("{name}_count")
            } else {
                format!("{name}_count{{{labels}}}")
            };
            assert_eq!(family.samples.get(&series), Some(&total), "{series}");
        }
    }
}

#[test]
fn prometheus_can_read_what_every_daemon_shows_and_people_find_it_documented() {
    let site = Site::new();
    let _master = Master::local(vec![at(site.ip, 6443)]);
    let zone = format!(
        "@ SOA a b 1 2 3 4 5\n NS a\na A 192.0.2.1\nl LUA A \"ifportup(6443, {{'{}'}})\"\n",
        site.ip
    );
    site.configure_authd(&[("example.com", &zone)], "");
    site.configure_recursor(&site.forward("example.com"), "");
    let _daemons = ["healthd", "dns-authd", "dns-recursor"].map(|name| site.start(name));
    for server in [site.authority(), site.resolver(), site.resolver()] {
        for name in ["a.example.com", "l.example.com", "none.example.com"] {
            ask_a(server, name).unwrap();
        }
    }
    let mut found = Vec::new();
    for daemon in ["healthd", "dns-authd", "dns-recursor"] {
        let (status, text) = site.get(daemon, "/metrics");
        assert_eq!(status, 200);
        found.extend(undocumented(daemon, &text));
    }
    assert!(
        found.is_empty(),
        "not in docs/metrics.md:\n{}",
        found.join("\n")
    );
}

#[test]
fn prometheus_can_read_what_the_proxy_shows_and_people_find_it_documented() {
    let place = Place::new();
    let server = at(loopback(), 80);
    let _server = Master::local(vec![server]);
    let _healthd = place.start_healthd("");
    let _proxy = place.start(&pair(&place, "", "check.kind = \"tcp\"", &[server]));
    let mut stream = TcpStream::connect(place.front()).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    drop(stream);
    wait::for_it("the session is over", Duration::from_secs(5), || {
        place
            .metrics()
            .contains("haproxy_frontend_sessions_total{proxy=\"front\"} 1")
    });
    let found = undocumented("lb-proxy", &place.metrics());
    assert!(
        found.is_empty(),
        "not in docs/metrics.md:\n{}",
        found.join("\n")
    );
}

/// The metrics of a daemon that docs/metrics.md lacks, as rows for it.
fn undocumented(daemon: &str, text: &str) -> Vec<String> {
    let documented = std::fs::read_to_string(checkout().join("docs/metrics.md")).unwrap();
    let families = read(text);
    check_histograms(&families);
    assert!(families["outpost_ready"].samples["outpost_ready"] > 0.0);
    let rows = families
        .iter()
        .map(|(name, family)| format!("| `{name}` | {} |", family.kind));
    rows.filter(|row| !documented.contains(row))
        .map(|row| format!("{daemon}: {row}"))
        .collect()
}
