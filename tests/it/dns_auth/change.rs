//! dns-authd while its files, its configuration and its processes change.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, metric, run};
use tests::dns::{A, Question, REFUSED, ask_a, ask_tcp, check};
use tests::load::{Load, Mix};
use tests::site::Site;
use tests::sockets::Held;
use tests::wait;

use super::{addresses, start};

const SMALL: &str = "$TTL 60\n@ SOA a b 1 2 3 4 60\n NS a\na A 192.0.2.1\n";

fn with_address(last: u8) -> String {
    SMALL.replace("192.0.2.1", &format!("192.0.2.{last}"))
}

fn wait_for_address(site: &Site, last: u8) {
    let expected = BTreeSet::from([IpAddr::from([192, 0, 2, last])]);
    wait::for_it("the new zone is served", Duration::from_secs(10), || {
        ask_a(site.authority(), "a.example.com")
            .unwrap()
            .addresses()
            == expected
    });
}

#[test]
fn an_edited_zone_is_served_without_being_asked_to() {
    let (site, _daemon) = start(SMALL, "");
    for last in [2, 3, 4] {
        site.files.write("example.com.zone", &with_address(last));
        wait_for_address(&site, last);
    }
    // In place, too, as `echo >>` does.
    let path = site.files.join("example.com.zone");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "b A 192.0.2.9\n").unwrap();
    wait::for_it("the new name is served", Duration::from_secs(10), || {
        ask_a(site.authority(), "b.example.com")
            .unwrap()
            .addresses()
            .len()
            == 1
    });
}

#[test]
fn a_broken_zone_file_leaves_the_old_zone_in_service_and_says_so() {
    let (site, daemon) = start(SMALL, "");
    for broken in [
        "$TTL 60\n@ SOA a b 1 2 3 4 60\n NS a\na A 300.0.2.1\n",
        "",
        "a A 192.0.2.66\n",
        "$TTL 60\n@ SOA a b 1 2 3 4 60\n NS a\na A 192.0.2.66 (\n",
        "$INCLUDE nowhere\n",
    ] {
        site.files.write("example.com.zone", broken);
        daemon.hang_up();
        wait::for_it("the problem shows", Duration::from_secs(10), || {
            site.get("dns-authd", "/readyz").1.contains("example.com")
        });
        let answer = ask_a(site.authority(), "a.example.com").unwrap();
        assert_eq!(answer.addresses(), addresses(&["192.0.2.1"]), "{broken:?}");
        assert_eq!(
            site.get("dns-authd", "/readyz").0,
            200,
            "what is served is still served"
        );

        site.files.write("example.com.zone", SMALL);
        daemon.hang_up();
        wait::for_it("the problem is gone", Duration::from_secs(10), || {
            !site.get("dns-authd", "/readyz").1.contains("example.com")
        });
    }
    assert!(
        daemon.log().contains("example.com.zone:4:"),
        "{}",
        daemon.log()
    );
}

#[test]
fn a_zone_file_that_is_no_file_holds_nothing_up() {
    let site = Site::new();
    site.configure_authd(&[("odd.example", SMALL), ("example.com", SMALL)], "");
    let daemon = site.start("dns-authd");
    let odd = site.files.join("odd.example.zone");
    for (last, make) in [
        (2, "mkfifo \"$0\""),
        (3, "mkdir \"$0\""),
        (4, "ln -s /dev/zero \"$0\""),
        (5, "ln -s \"$0\" \"$0\""),
    ] {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("rm -rf \"$0\"; {make}")])
            .arg(&odd);
        let (status, _, stderr) = run(command);
        assert!(status.success(), "{make}: {stderr}");
        site.files.write("example.com.zone", &with_address(last));
        daemon.hang_up();
        wait_for_address(&site, last);
        let old = ask_a(site.authority(), "a.odd.example").unwrap();
        assert_eq!(old.addresses(), addresses(&["192.0.2.1"]), "{make}");
    }
    daemon.stop();
}

#[test]
fn a_broken_configuration_changes_nothing_and_says_so() {
    let (site, daemon) = start(SMALL, "");
    let good = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    site.files
        .write("dns-authd.toml", &good.replace("[[zone]]", "[[zoen]]"));
    daemon.hang_up();
    daemon.wait_log("zoen");
    assert_eq!(
        ask_a(site.authority(), "a.example.com")
            .unwrap()
            .answers
            .len(),
        1
    );
    let metrics = site.get("dns-authd", "/metrics").1;
    assert_eq!(
        metric(&metrics, "outpost_reload_failed_total"),
        Some(1.0),
        "{metrics}"
    );
    site.files.write("dns-authd.toml", &good);
    site.files.write("example.com.zone", &with_address(7));
    daemon.hang_up();
    wait_for_address(&site, 7);
}

#[test]
fn who_waits_for_first_results_is_answered_before_the_server_ends() {
    // There is no healthd, so none ever come.
    let zone = format!("{SMALL}live LUA A \"ifportup(443, {{'192.0.2.5'}})\"\n");
    let (site, daemon) = start(&zone, "health.hold = \"2s\"");
    let client = UdpSocket::bind((site.ip, 0)).unwrap();
    let question = Question::new("live.example.com", A);
    client
        .send_to(&question.to_wire(7), site.authority())
        .unwrap();
    wait::for_it("the query waits", Duration::from_secs(20), || {
        let metrics = site.get("dns-authd", "/metrics").1;
        metric(&metrics, "dns_authd_held_queries_total") == Some(1.0)
    });
    daemon.stop();
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut reply = [0; 512];
    let length = wait::uninterrupted(|| client.recv(&mut reply)).expect("an answer");
    let message = check(7, &question, &reply[..length]).unwrap();
    assert_eq!(message.addresses(), addresses(&["192.0.2.5"]));
}

#[test]
fn reloading_under_load_loses_nothing() {
    let (site, daemon) = start(SMALL, "");
    let mix = || Mix {
        questions: ["a.example.com", "none.example.com"]
            .map(|name| Question::new(name, A))
            .to_vec(),
        judge: Box::new(|question, message| {
            let is_there = message
                .addresses()
                .iter()
                .any(|ip| ip.to_string().starts_with("192.0.2."));
            match question.name.starts_with("a.") == is_there {
                true => Ok(()),
                false => Err(format!("rcode {}", message.rcode)),
            }
        }),
    };
    let load = Load::start(site.authority(), 2_000, mix());
    for last in 10..40 {
        site.files.write("example.com.zone", &with_address(last));
        daemon.hang_up();
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for_address(&site, 39);
    load.stop().assert_clean();
    daemon.stop();
}

//--- Processes

#[test]
fn two_processes_share_sockets_and_swap_without_losing_a_query() {
    let site = Site::new();
    site.configure_authd(&[("example.com", SMALL)], "");
    let held = Held::bind(site.authority());
    let start = || {
        let mut command = site.serve("dns-authd");
        command = held.hand_to("dns", &command);
        Daemon::start("dns-authd", command)
    };
    let mut current = start();
    let mix = Mix {
        questions: vec![Question::new("a.example.com", A)],
        judge: Box::new(|_, message| match message.answers.len() {
            1 => Ok(()),
            _ => Err(format!("{message:?}")),
        }),
    };
    let load = Load::start(site.authority(), 2_000, mix).go_on(Duration::from_millis(500));
    for _ in 0..5 {
        let next = start();
        std::mem::replace(&mut current, next).stop();
        let question = Question::new("a.example.com", A);
        assert_eq!(
            ask_tcp(site.authority(), &question).unwrap().answers.len(),
            1
        );
    }
    load.stop().assert_clean();
    current.stop();
}

#[test]
fn ten_thousand_zones_start_and_answer() {
    let site = Site::new();
    site.files.write("any.zone", SMALL);
    let list: String = (0..10_000)
        .map(|n| format!("zone \"z{n}.example\" {{ type master; file \"any.zone\"; }};\n"))
        .collect();
    let directory = site.files.path().display();
    site.files.write(
        "named.conf",
        &format!("options {{ directory \"{directory}\"; }};\n{list}"),
    );
    site.configure_authd(&[], "zones.named-conf = \"named.conf\"");
    let _daemon = site.start("dns-authd");
    for n in [0, 1, 4_999, 9_999] {
        let answer = ask_a(site.authority(), &format!("a.z{n}.example")).unwrap();
        assert_eq!(answer.addresses(), addresses(&["192.0.2.1"]), "{n}");
    }
    assert_eq!(
        ask_a(site.authority(), "a.z10000.example").unwrap().rcode,
        u16::from(REFUSED)
    );
}

#[test]
fn a_taken_port_is_named_with_who_has_it() {
    let site = Site::new();
    site.configure_authd(&[("example.com", SMALL)], "");
    let _held = Held::bind(site.authority());
    let mut daemon = Daemon::spawn("dns-authd", site.serve("dns-authd"));
    let status = daemon.wait();
    assert!(!status.success(), "{status}");
    daemon.wait_log(&site.authority().to_string());
    daemon.wait_log(&std::process::id().to_string());
}
