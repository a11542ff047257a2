//! The versions of a zone that dns-authd published: what an operator sees of them, and the way back.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::run;
use tests::dns::ask_a;
use tests::site::Site;
use tests::wait;

use super::addresses;

const PATIENCE: Duration = Duration::from_secs(60);

/// A version whose address ends with its serial, with a name of its own and a program.
fn zone(serial: u32) -> String {
    format!(
        "$TTL 60\n@ SOA a b {serial} 2 3 4 60\n NS a\na A 192.0.2.{serial}\nsame A 192.0.2.99\n\
         only{serial} TXT \"of {serial}\"\nl LUA TXT \"'program {serial}'\"\n"
    )
}

fn configure(site: &Site) {
    let directory = site.files.join("history");
    // The guard is on: the key is named.
    let more = format!(
        "zones.serial-must-rise = true\nhistory.directory = \"{}\"",
        directory.display()
    );
    site.configure_authd(&[("example.com", &zone(1))], &more);
}

/// What `dns-authd zone` says, and whether it succeeded.
fn verb(site: &Site, arguments: &[&str]) -> (bool, String) {
    let admin = site.admin("dns-authd").to_string();
    let socket = site.admin_socket("dns-authd").display().to_string();
    let mut command = Command::new(binary("dns-authd"));
    command
        .arg("zone")
        .args(arguments)
        .args(["--admin", &admin]);
    if matches!(arguments, ["rollback" | "accept" | "reload", ..]) {
        command.args(["--socket", &socket]);
    }
    let (status, out, err) = run(command);
    (status.success(), out + &err)
}

fn has(site: &Site, last: u32) -> bool {
    let expected = addresses(&[&format!("192.0.2.{last}")]);
    ask_a(site.authority(), "a.example.com").is_ok_and(|answer| answer.addresses() == expected)
}

fn publish(site: &Site, serial: u32, text: &str) {
    let new = site.files.write("new", text);
    std::fs::rename(new, site.files.join("example.com.zone")).unwrap();
    wait::for_it("the version is published", PATIENCE, || {
        status(site)["serial"] == serial
    });
}

/// The zone in the status.
fn status(site: &Site) -> Value {
    let (_, text) = site.get("dns-authd", "/zones");
    let zones: Value = serde_json::from_str(&text).unwrap();
    zones[0].clone()
}

#[test]
fn an_operator_sees_what_changed_and_what_a_version_that_is_held_back_would_change() {
    let site = Site::new();
    configure(&site);
    let daemon = site.start("dns-authd");
    let (is_there, text) = verb(&site, &["diff", "example.com"]);
    assert!(!is_there && text.contains("no earlier version"), "{text}");
    publish(&site, 2, &zone(2));
    publish(&site, 3, &zone(3));
    let (_, text) = verb(&site, &["history", "example.com"]);
    assert!(
        text.contains("  2 -> 3  ") && text.contains("-3 +3"),
        "{text}"
    );
    let (_, text) = verb(&site, &["diff", "example.com"]);
    for line in [
        "example.com.  2 -> 3",
        "-a.example.com.\t60\tIN\tA\t192.0.2.2",
        "+a.example.com.\t60\tIN\tA\t192.0.2.3",
        "-l.example.com.\t60\tIN\tLUA\tTXT \"'program 2'\"",
        "+only3.example.com.\t60\tIN\tTXT\t\"of 3\"",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} in {text}");
    }
    assert!(!text.contains("same."), "{text}");
    let (_, text) = verb(&site, &["diff", "example.com", "1", "3", "--json"]);
    let difference: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&difference["from"], &difference["to"]),
        (&1.into(), &3.into())
    );
    assert_eq!(difference["removed"].as_array().unwrap().len(), 4);
    let (is_kept, text) = verb(&site, &["diff", "example.com", "9"]);
    assert!(
        !is_kept && text.contains("no version with serial 9"),
        "{text}"
    );
    // The same serial with other data is held back.
    let new = site.files.write("new", &zone(3).replace("same", "other"));
    std::fs::rename(new, site.files.join("example.com.zone")).unwrap();
    wait::for_it("it is held back", PATIENCE, || {
        status(&site)["state"] == "held"
    });
    let (_, text) = verb(&site, &["diff", "example.com"]);
    let expected = "example.com.  3 -> 3, held back\n-same.example.com.\t60\tIN\tA\t192.0.2.99\n\
        +other.example.com.\t60\tIN\tA\t192.0.2.99\n";
    assert_eq!(text, expected);
    let (is_back, text) = verb(&site, &["rollback", "example.com", "1"]);
    assert!(!is_back && text.contains("held back"), "{text}");
    daemon.stop();
}

#[test]
fn a_rollback_stays_over_restarts_until_the_file_changes() {
    let site = Site::new();
    configure(&site);
    let daemon = site.start("dns-authd");
    publish(&site, 2, &zone(2));
    publish(&site, 3, &zone(3));
    let (is_back, text) = verb(&site, &["rollback", "example.com", "9"]);
    assert!(
        !is_back && text.contains("no version with serial 9"),
        "{text}"
    );
    let (is_back, text) = verb(&site, &["rollback", "example.com", "3"]);
    assert!(!is_back && text.contains("in service"), "{text}");
    let (is_back, text) = verb(&site, &["rollback", "example.com", "1"]);
    assert!(is_back && text.contains("serial 4"), "{text}");
    let is_rolled_back = || {
        let status = status(&site);
        assert_eq!(status["serial"], 4);
        assert_eq!(
            (&status["rollback"]["to"], &status["rollback"]["file"]),
            (&1.into(), &3.into())
        );
        assert!(has(&site, 1));
        let (_, text) = verb(&site, &["list"]);
        assert!(
            text.contains("rolled back: the records of serial 1"),
            "{text}"
        );
        let (code, text) = site.get("dns-authd", "/readyz");
        assert!(code == 200 && text.contains("rolled back"), "{text}");
    };
    is_rolled_back();
    let (_, text) = verb(&site, &["show", "example.com"]);
    assert!(
        text.contains("only1") && text.contains("program 1"),
        "{text}"
    );
    // The same file says nothing new.
    let (is_loaded, text) = verb(&site, &["reload", "example.com"]);
    assert!(is_loaded && text.contains("serial 4"), "{text}");
    is_rolled_back();
    daemon.kill();
    let daemon = site.start("dns-authd");
    daemon.wait_log("still rolled back");
    is_rolled_back();
    // Back again, from the version that was rolled back to.
    let (is_back, text) = verb(&site, &["rollback", "example.com", "2"]);
    assert!(is_back && text.contains("serial 5"), "{text}");
    assert!(has(&site, 2));
    // The file's next serial would be one that secondaries have with other data.
    let new = site.files.write("new", &zone(4));
    std::fs::rename(new, site.files.join("example.com.zone")).unwrap();
    wait::for_it("it is held back", PATIENCE, || {
        status(&site)["state"] == "held"
    });
    publish(&site, 6, &zone(6));
    assert!(has(&site, 6));
    assert_eq!(status(&site)["rollback"], Value::Null);
    let (_, text) = verb(&site, &["history", "example.com"]);
    for step in ["1 -> 2", "2 -> 3", "3 -> 4", "4 -> 5", "5 -> 6"] {
        assert!(text.contains(step), "{step} in {text}");
    }
    daemon.stop();
    // The history is there after a restart, and a file that has changed meanwhile begins another.
    let daemon = site.start("dns-authd");
    let (_, text) = verb(&site, &["history", "example.com"]);
    assert!(text.contains("5 -> 6"), "{text}");
    daemon.stop();
    site.files.write("example.com.zone", &zone(7));
    let daemon = site.start("dns-authd");
    daemon.wait_log("begins again");
    let (_, text) = verb(&site, &["history", "example.com"]);
    assert!(
        text.contains("serial 7") && text.contains("no earlier version"),
        "{text}"
    );
    daemon.stop();
}

#[test]
fn without_a_directory_a_rollback_is_refused() {
    let site = Site::new();
    site.configure_authd(&[("example.com", &zone(1))], "");
    let daemon = site.start("dns-authd");
    publish(&site, 2, &zone(2));
    let (is_back, text) = verb(&site, &["rollback", "example.com", "1"]);
    assert!(!is_back && text.contains("[history] directory"), "{text}");
    assert!(has(&site, 2));
    let (is_back, text) = verb(&site, &["rollback", "example.org", "1"]);
    assert!(!is_back && text.contains("not served"), "{text}");
    daemon.stop();
}
