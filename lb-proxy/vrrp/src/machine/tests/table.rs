//! Every state and every input: what is done, and what state follows.

use std::fmt::Write;

use super::*;

/// What an input is called, and how it is told.
type Told = (&'static str, fn(&mut Bench) -> String);

/// A state's name, and how to get there.
type Begun = (&'static str, fn() -> Bench);

const STATES: [Begun; 9] = [
    ("initialize", || Bench::new(settings())),
    ("backup", || Bench::backup(settings())),
    ("asking", || Bench::asking(settings())),
    ("waiting", waiting),
    ("active", || Bench::active(settings())),
    ("leaving", || Bench::leaving(settings())),
    ("succeeded", || Bench::succeeded(settings())),
    ("yielding", || Bench::yielding(settings())),
    ("fault", || Bench::failed(settings())),
];

const INPUTS: [Told; 32] = [
    ("startup, fresh", |bench| {
        bench.tell(Input::Startup(Start::Fresh))
    }),
    ("startup, resume", |bench| {
        bench.tell(Input::Startup(Start::Resume))
    }),
    ("shutdown, release", |bench| {
        bench.tell(Input::Shutdown(Departure::Release))
    }),
    ("shutdown, hand over", |bench| {
        bench.tell(Input::Shutdown(Departure::HandOver))
    }),
    ("shutdown, swap", |bench| {
        bench.tell(Input::Shutdown(Departure::Swap))
    }),
    ("heard 0", |bench| bench.hear(HIGHER, 0)),
    ("heard 1, lower address", |bench| bench.hear(LOWER, 1)),
    ("heard lower", |bench| bench.hear(HIGHER, 99)),
    ("heard equal, lower address", |bench| bench.hear(LOWER, 100)),
    ("heard equal, higher address", |bench| {
        bench.hear(HIGHER, 100)
    }),
    ("heard higher", |bench| bench.hear(LOWER, 101)),
    ("heard owner", |bench| bench.hear(LOWER, 255)),
    ("heard nonsense", |bench| {
        let advertisement = Advertisement {
            router_id: 52,
            ..bench.advertisement(200)
        };
        bench.hear_this(HIGHER, &advertisement)
    }),
    ("fault: link", |bench| {
        bench.tell(Input::FaultFound(Fault::Link))
    }),
    ("fault: kernel", |bench| {
        bench.tell(Input::FaultFound(Fault::Kernel))
    }),
    ("fault: group", |bench| {
        bench.tell(Input::FaultFound(Fault::Group))
    }),
    ("fault cleared: link", |bench| {
        bench.tell(Input::FaultCleared(Fault::Link))
    }),
    ("fault cleared: other", |bench| {
        bench.tell(Input::FaultCleared(Fault::Kernel))
    }),
    ("source: another", |bench| {
        bench.tell(Input::Source(Some(ip("192.168.7.99"))))
    }),
    ("source: none", |bench| bench.tell(Input::Source(None))),
    ("standing: lower", |bench| {
        bench.tell(Input::Eligibility(Eligibility::Able(60)))
    }),
    ("standing: the same", |bench| {
        bench.tell(Input::Eligibility(Eligibility::Able(100)))
    }),
    ("standing: owner", |bench| {
        bench.tell(Input::Eligibility(Eligibility::Able(255)))
    }),
    ("standing: unable", |bench| {
        bench.tell(Input::Eligibility(Eligibility::Unable))
    }),
    ("edit: address", |bench| {
        bench.edit(|settings| settings.addresses.push(address(101)))
    }),
    ("edit: no peers", |bench| {
        bench.edit(|settings| settings.peers = Peers::Unicast(Vec::new()))
    }),
    ("edit: another router", |bench| {
        bench.edit(|settings| settings.router_id = 52)
    }),
    ("duplicate", |bench| {
        bench.tell(Input::DuplicateSeen {
            address: address(100).address,
            by: [2; 6],
        })
    }),
    ("deadline, early", |bench| bench.tell(Input::Deadline)),
    ("deadline, due", |bench| {
        match bench.machine.next_deadline() {
            Some(_) => bench.wait_out(),
            None => "no deadline".to_owned(),
        }
    }),
    ("group claims", |bench| bench.tell(Input::GroupClaims)),
    ("group yields", |bench| bench.tell(Input::GroupYields)),
];

/// A backup whose timer has run out and whose group is not ready.
fn waiting() -> Bench {
    let mut settings = settings();
    settings.group = Some("both".into());
    let mut bench = Bench::backup(settings);
    assert_eq!(bench.wait_out(), "would claim");
    bench
}

/// `table.txt` is the machine as a table: RFC 9568 §6.4 and what [`machine`](crate::machine) adds.
/// With `VRRP_TABLE=write` it is written anew; read the difference as a change of the protocol.
#[test]
fn every_state_does_with_every_input_what_the_table_says() {
    let mut text = String::new();
    for (input, tell) in INPUTS {
        writeln!(text, "{input}").unwrap();
        for (state, begin) in STATES {
            let mut bench = begin();
            let said = tell(&mut bench);
            let follows = match bench.machine.state() {
                State::Backup if bench.machine.would_claim() => "waiting".to_owned(),
                State::Backup if is_asking(&bench.machine) => "asking".to_owned(),
                State::Active => match bench.machine.purpose() {
                    None => "active".to_owned(),
                    Some(Purpose::Yield) => "yielding".to_owned(),
                    Some(Purpose::HandOver) if bench.is_succeeded() => "succeeded".to_owned(),
                    Some(Purpose::HandOver) => "leaving".to_owned(),
                },
                other => other.to_string(),
            };
            let follows = if follows == state {
                "-".to_owned()
            } else {
                follows
            };
            let said = if said.is_empty() {
                "nothing".to_owned()
            } else {
                said
            };
            writeln!(text, "  {state:10} {follows:10} {said}").unwrap();
        }
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/vrrp/machine/tests/table.txt"
    );
    if std::env::var("VRRP_TABLE").as_deref() == Ok("write") {
        std::fs::write(path, &text).unwrap();
    }
    let expected = include_str!("table.txt");
    for (found, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}

/// Whether it probes for a holder of the addresses.
fn is_asking(machine: &Machine) -> bool {
    matches!(&machine.phase, Phase::Backup(backup) if backup.probe.is_some())
}
