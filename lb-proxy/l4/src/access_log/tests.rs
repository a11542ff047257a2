use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use l4_core::access_log::{Cause, Counts, Phase, Termination, Timers};

use super::*;

fn record() -> Record {
    Record {
        accepted: UNIX_EPOCH + Duration::from_millis(1_233_922_371_443),
        client: "10.0.1.2:33313".parse().unwrap(),
        local: Some("10.0.1.1:443".parse().unwrap()),
        frontend: "fnt".into(),
        backend: Some("bck".into()),
        server: Some("srv1".into()),
        server_address: Some("10.0.2.1:443".parse().unwrap()),
        name: Some("console.apps.ocp4.redhat.ren".into()),
        timers: Timers {
            queue: Some(Duration::ZERO),
            connect: Some(Duration::from_micros(1_250)),
            total: Duration::from_millis(5_007),
        },
        bytes_in: 17,
        bytes_out: 212,
        termination: Termination::NORMAL,
        generation: NonZeroU64::new(7),
        counts: Counts {
            process: 5,
            frontend: 4,
            backend: 3,
            server: 2,
            retries: 1,
            ..Counts::default()
        },
    }
}

fn line(format: Format, record: &Record) -> String {
    let mut out = Vec::new();
    write(format, record, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    text.trim_end().to_owned()
}

fn to_file(path: &Path) -> Settings {
    Settings {
        target: Target::File(path.to_owned()),
        format: Format::Text,
    }
}

#[test]
fn text_has_the_fields_of_tcplog_in_their_order() {
    assert_eq!(
        line(Format::Text, &record()),
        "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/1/5007 212 -- 5/4/3/2/1 0/0"
    );
}

#[test]
fn text_says_what_it_did_not_come_to() {
    let mut record = record();
    record.client = "[::ffff:10.0.1.2]:33313".parse().unwrap();
    record.backend = None;
    record.server = None;
    record.timers = Timers::default();
    record.termination = Termination::PROXY_REQUEST;
    record.counts.is_redispatched = true;
    record.bytes_out = 0;
    assert_eq!(
        line(Format::Text, &record),
        "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt fnt/<NOSRV> -1/-1/0 0 PR 5/4/3/2/+1 0/0"
    );
    record.client = "[2001:db8::1]:33313".parse().unwrap();
    assert!(line(Format::Text, &record).starts_with("2001:db8::1:33313 ["));
}

#[test]
fn json_has_every_field_and_null_for_what_there_is_not() {
    let mut record = record();
    let value: serde_json::Value = serde_json::from_str(&line(Format::Json, &record)).unwrap();
    let expected = serde_json::json!({
        "accepted": "2009-02-06T12:12:51.443Z",
        "client": "10.0.1.2:33313",
        "local": "10.0.1.1:443",
        "frontend": "fnt",
        "backend": "bck",
        "server": "srv1",
        "server_address": "10.0.2.1:443",
        "name": "console.apps.ocp4.redhat.ren",
        "queue_ms": 0.0,
        "connect_ms": 1.25,
        "total_ms": 5007.0,
        "bytes_in": 17,
        "bytes_out": 212,
        "termination": "--",
        "actconn": 5, "feconn": 4, "beconn": 3, "srv_conn": 2, "retries": 1,
        "redispatched": false, "srv_queue": 0, "backend_queue": 0, "generation": 7,
    });
    assert_eq!(value, expected);
    record.frontend = "a\"b\\c\n\u{1}ü".into();
    (record.local, record.backend, record.server, record.name) = (None, None, None, None);
    record.server_address = None;
    record.timers = Timers::default();
    let value: serde_json::Value = serde_json::from_str(&line(Format::Json, &record)).unwrap();
    assert_eq!(value["frontend"], "a\"b\\c\n\u{1}ü");
    for key in [
        "local",
        "backend",
        "server",
        "server_address",
        "name",
        "queue_ms",
        "connect_ms",
    ] {
        assert!(value[key].is_null(), "{key}");
    }
}

#[test]
fn terminations_are_two_letters() {
    for (termination, letters) in [
        (Termination::NORMAL, "--"),
        (Termination::CLIENT_DATA, "CD"),
        (Termination::CLIENT_TIMEOUT_LAST, "cL"),
        (Termination::SERVER_TIMEOUT_QUEUE, "sQ"),
        (Termination::SERVER_CONNECT, "SC"),
        (Termination::PROXY_QUEUE, "PQ"),
        (Termination::RESOURCE_CONNECT, "RC"),
        (Termination::DOWN_DATA, "DD"),
        (Termination::KILLED_DATA, "KD"),
        (Termination::new(Cause::Up, Phase::Data), "UD"),
        (Termination::new(Cause::Internal, Phase::Request), "IR"),
    ] {
        assert_eq!(termination.to_string(), letters);
    }
}

#[test]
fn every_record_handed_over_is_written_before_the_writer_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("access.log");
    let writer = Writer::start(&to_file(&path)).unwrap();
    let log = writer.log();
    for _ in 0..1_000 {
        log.write(record());
    }
    writer.close();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1_000);
    assert_eq!((log.written(), log.dropped()), (1_000, 0));
    assert!(!log.is_on());
    log.write(record());
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1_000);
}

#[test]
fn a_rotated_file_is_let_go_and_the_same_name_made_anew() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, rotated) = (
        scratch.path().join("access.log"),
        scratch.path().join("access.log.1"),
    );
    let writer = Writer::start(&to_file(&path)).unwrap();
    let log = writer.log();
    log.write(record());
    while log.written() < 1 {
        thread::yield_now();
    }
    fs::rename(&path, &rotated).unwrap();
    log.configure(&to_file(&path)).unwrap();
    log.write(record());
    log.write(record());
    writer.close();
    assert_eq!(fs::read_to_string(&rotated).unwrap().lines().count(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
}

#[test]
fn a_file_that_cannot_be_opened_leaves_everything_as_it_was() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("access.log");
    let writer = Writer::start(&to_file(&path)).unwrap();
    let log = writer.log();
    log.configure(&to_file(&scratch.path().join("no/such/directory")))
        .unwrap_err();
    log.write(record());
    writer.close();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    Writer::start(&to_file(scratch.path())).unwrap_err();
}

#[test]
fn nothing_is_made_for_a_log_that_is_off_and_it_can_be_turned_on() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("access.log");
    let writer = Writer::start(&Settings::default()).unwrap();
    let log = writer.log();
    assert!(!log.is_on());
    log.write(record());
    log.configure(&to_file(&path)).unwrap();
    assert!(log.is_on());
    log.write(record());
    log.configure(&Settings::default()).unwrap();
    assert!(!log.is_on());
    writer.close();
    assert_eq!(log.dropped(), 0);
}

#[test]
fn what_cannot_be_written_is_counted() {
    let writer = Writer::start(&to_file(Path::new("/dev/full"))).unwrap();
    let log = writer.log();
    for _ in 0..10 {
        log.write(record());
    }
    writer.close();
    assert_eq!((log.written(), log.dropped()), (0, 10));
}

#[test]
fn workers_never_wait_for_a_writer_that_does() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    let status = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(status.success());
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || File::open(pipe).unwrap()
    });
    let writer = Writer::start(&to_file(&pipe)).unwrap();
    let reader = reader.join().unwrap();
    let log = writer.log();
    // A pipe takes 64 KiB and the channel thousands; nobody reads, and still nobody waits.
    let n_records = 30_000;
    for _ in 0..n_records {
        log.write(record());
    }
    assert!(log.dropped() > 10_000, "{}", log.dropped());
    drop(reader);
    writer.close();
    assert_eq!(log.written() + log.dropped(), n_records);
}
