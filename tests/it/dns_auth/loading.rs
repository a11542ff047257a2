//! dns-authd while a zone loads for as long as the test wants.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::{Daemon, metric};
use tests::dns::{A, Message, NOERROR, Question, REFUSED, SERVFAIL, ask, ask_a};
use tests::masters::Master;
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::slots::{Slots, with};
use tests::sockets::Held;
use tests::wait;

use super::addresses;

const SMALL: &str = "$TTL 60\n@ SOA a b 1 2 3 4 60\n NS a\na A 192.0.2.1\n";
/// The EDNS option of an extended error (RFC 8914), and its code for a server that is not ready.
const EXTENDED_ERROR: u16 = 15;
const NOT_READY: [u8; 2] = [0, 14];
const PATIENCE: Duration = Duration::from_secs(60);

/// A zone that includes one file of comments so often that it loads for minutes. It ends at once when that file
/// is emptied.
fn big() -> String {
    format!("{SMALL}{}", "$INCLUDE pause\n".repeat(9_900))
}

/// Loads of the big zone take their time from here on.
fn hold_up(site: &Site) {
    let comment = format!("; {}\n", "pause ".repeat(20));
    site.files.write("pause", &comment.repeat(20_000));
}

/// Loads of the big zone end.
fn let_go(site: &Site) {
    site.files.write("pause", "");
}

fn status(site: &Site) -> Value {
    let (_, text) = site.get("dns-authd", "/status");
    serde_json::from_str(&text).expect("/status is JSON")
}

/// The zones whose files are being read.
fn running(site: &Site) -> Value {
    status(site)["detail"]["zones"]["loads"]["running"].clone()
}

fn answers(site: &Site, name: &str) -> bool {
    let expected = addresses(&["192.0.2.1"]);
    ask_a(site.authority(), name).is_ok_and(|answer| answer.addresses() == expected)
}

fn is_not_ready(answer: &Message) -> bool {
    let options = answer.edns.iter().flat_map(|edns| &edns.options);
    let mut errors = options.filter(|(code, _)| *code == EXTENDED_ERROR);
    answer.rcode == u16::from(SERVFAIL) && errors.any(|(_, data)| data.starts_with(&NOT_READY))
}

#[test]
fn each_zone_answers_as_soon_as_it_is_loaded() {
    let site = Site::new();
    site.configure_authd(&[("big.example", &big()), ("example.com", SMALL)], "");
    hold_up(&site);
    let mut daemon = Daemon::spawn("dns-authd", site.serve("dns-authd"));
    wait::for_it("the small zone answers", PATIENCE, || {
        answers(&site, "a.example.com")
    });
    for name in ["a.big.example", "big.example", "none.big.example"] {
        let answer = ask(site.authority(), &Question::new(name, A)).unwrap();
        assert!(is_not_ready(&answer), "{name}: {answer:?}");
    }
    let other = ask_a(site.authority(), "a.example.org").unwrap();
    assert_eq!(other.rcode, u16::from(REFUSED));
    // What is asked about a server that loads shows which zone it is.
    let (code, ready) = site.get("dns-authd", "/readyz");
    assert_eq!(code, 503, "{ready}");
    assert!(ready.contains("loading zones: big.example.:"), "{ready}");
    let zones = &status(&site)["detail"]["zones"];
    assert_eq!(
        (&zones["loading"], &zones["loaded"]),
        (&1.into(), &1.into()),
        "{zones:#}"
    );
    let metrics = site.get("dns-authd", "/metrics").1;
    for (series, expected) in [
        ("dns_authd_zones{state=\"loading\"}", 1.0),
        ("dns_authd_loading_zones{stage=\"running\"}", 1.0),
        ("dns_authd_loading_zones{stage=\"waiting\"}", 0.0),
    ] {
        assert_eq!(metric(&metrics, series), Some(expected), "{metrics}");
    }
    assert_eq!(running(&site), serde_json::json!(["big.example."]));

    let_go(&site);
    daemon.wait_told("READY=1");
    assert!(answers(&site, "a.big.example"));
    assert_eq!(site.get("dns-authd", "/readyz").0, 200);
    daemon.stop();
}

#[test]
fn a_server_that_still_loads_ends_when_it_is_asked_to() {
    let site = Site::new();
    site.configure_authd(&[("big.example", &big()), ("example.com", SMALL)], "");
    hold_up(&site);
    let daemon = Daemon::spawn("dns-authd", site.serve("dns-authd"));
    wait::for_it("the small zone answers", PATIENCE, || {
        answers(&site, "a.example.com")
    });
    daemon.stop();
}

#[test]
fn answers_follow_liveness_while_a_zone_loads() {
    const PORT: u16 = 6443;
    let site = Site::new();
    let ips = [loopback(), loopback()];
    let members = ips.map(|ip| format!("'{ip}'")).join(", ");
    let live =
        format!("{SMALL}api LUA A \"ifportup({PORT}, {{{members}}}, {{selector='all'}})\"\n");
    site.configure_authd(&[("big.example", &big()), ("live.example", &live)], "");
    let_go(&site);
    let mut masters = ips.map(|ip| Master::local(vec![at(ip, PORT)]));
    let _healthd = site.start("healthd");
    let daemon = site.start("dns-authd");
    let served = |site: &Site| {
        let answer = ask_a(site.authority(), "api.live.example").unwrap();
        assert_eq!(answer.rcode, u16::from(NOERROR));
        answer.addresses()
    };
    let both: BTreeSet<IpAddr> = ips.iter().map(|ip| (*ip).into()).collect();
    let first = BTreeSet::from([ips[0].into()]);
    masters[1].down();
    wait::for_it("the liveness is known", PATIENCE, || served(&site) == first);

    hold_up(&site);
    let mut command = Command::new(binary("dns-authd"));
    command
        .args(["zone", "reload", "big.example", "--admin"])
        .arg(site.admin("dns-authd").to_string());
    let mut reload = command.stdout(Stdio::piped()).spawn().unwrap();
    wait::for_it("the big zone loads", PATIENCE, || {
        running(&site) == serde_json::json!(["big.example."])
    });
    for _ in 0..2 {
        masters[1].up();
        wait::for_it("it is up", PATIENCE, || served(&site) == both);
        masters[1].down();
        wait::for_it("it is down", PATIENCE, || served(&site) == first);
        assert!(answers(&site, "a.big.example"), "the old version");
    }
    // Another zone is loaded meanwhile.
    let edited = live.replace("192.0.2.1", "192.0.2.7");
    site.files.write("live.example.zone", &edited);
    wait::for_it("the edited zone is served", PATIENCE, || {
        let answer = ask_a(site.authority(), "a.live.example").unwrap();
        answer.addresses() == addresses(&["192.0.2.7"])
    });
    assert!(reload.try_wait().unwrap().is_none(), "it still loads");
    assert_eq!(running(&site), serde_json::json!(["big.example."]));

    let_go(&site);
    let output = reload.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("big.example."), "{text}");
    daemon.stop();
}

/// Slots whose processes share a socket: one queue of queries, which both read.
fn slots(zones: &[(&str, &str)]) -> (Slots, std::net::SocketAddr, std::path::PathBuf) {
    let site = Site::new();
    site.configure_authd(zones, "");
    let_go(&site);
    let (address, pause) = (site.authority(), site.files.join("pause"));
    let held = Held::bind(address);
    let slots = Slots::new("dns-authd", move |arguments| {
        held.hand_to("dns", &with(site.serve("dns-authd"), arguments))
    });
    (slots, address, pause)
}

#[test]
fn a_successor_answers_when_every_zone_is_loaded_and_its_predecessor_until_then() {
    let (slots, address, pause) = slots(&[("big.example", &big()), ("example.com", SMALL)]);
    let comment = format!("; {}\n", "pause ".repeat(20)).repeat(20_000);
    let asks = |name: &str| ask_a(address, name).unwrap().addresses() == addresses(&["192.0.2.1"]);
    let a = slots.start("a");
    std::fs::write(&pause, &comment).unwrap();
    let mut b = Daemon::spawn("dns-authd-b", slots.command_of("b"));
    b.wait_log("Another process may answer");
    // If it read from the queue, it would get some of these.
    for _ in 0..100 {
        assert!(asks("a.big.example") && asks("a.example.com"));
    }
    assert!(!slots.get("b", "/readyz").is_success());
    std::fs::write(&pause, "").unwrap();
    b.wait_told("READY=1");
    a.stop();
    for _ in 0..100 {
        assert!(asks("a.big.example") && asks("a.example.com"));
    }
    b.stop();
}

#[test]
fn a_successor_answers_at_once_when_its_predecessor_dies() {
    let (slots, address, pause) = slots(&[("big.example", &big()), ("example.com", SMALL)]);
    let comment = format!("; {}\n", "pause ".repeat(20)).repeat(20_000);
    let a = slots.start("a");
    std::fs::write(&pause, &comment).unwrap();
    let b = Daemon::spawn("dns-authd-b", slots.command_of("b"));
    b.wait_log("Another process may answer");
    a.kill();
    wait::for_it("the small zone answers", PATIENCE, || {
        ask_a(address, "a.example.com")
            .is_ok_and(|answer| answer.addresses() == addresses(&["192.0.2.1"]))
    });
    assert!(is_not_ready(&ask_a(address, "a.big.example").unwrap()));
    b.stop();
}
