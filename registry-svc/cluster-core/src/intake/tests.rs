use oci::digest::Algorithm;
use registry_facts::hlc::Hlc;
use registry_facts::record::{Fact, Link};

use super::*;

/// An intake, and a clock.
struct Bench {
    intake: Intake,
    begun: Instant,
    seconds: u64,
}

impl Bench {
    #[expect(
        clippy::disallowed_methods,
        reason = "any instant does as the beginning"
    )]
    fn new(queue: usize) -> Self {
        let limits = Limits {
            queue,
            patience: Duration::from_secs(60),
            ..Limits::default()
        };
        Self {
            intake: Intake::new(limits, Vector::default()),
            begun: Instant::now(),
            seconds: 0,
        }
    }

    fn now(&self) -> Instant {
        self.begun + Duration::from_secs(self.seconds)
    }

    /// Takes the next record of an origin, with these blobs.
    fn receive(&mut self, origin: &str, sequence: u64, blobs: &[&str]) -> Receipt {
        self.receive_in("r", origin, sequence, blobs, 1)
    }

    /// The same, with blobs of a size in a repository.
    fn receive_in(
        &mut self,
        repository: &str,
        origin: &str,
        sequence: u64,
        blobs: &[&str],
        size: u64,
    ) -> Receipt {
        let mut record = record(origin, sequence, &[]);
        record.facts = blobs
            .iter()
            .map(|content| Fact::Blob {
                repository: repository.parse().unwrap(),
                digest: digest(content),
                size: Some(size),
            })
            .collect();
        self.intake
            .receive(&"peer".parse().unwrap(), record, sequence - 1)
    }

    fn settle(&mut self, content: &str, outcome: Outcome) {
        let now = self.now();
        self.intake.settle(&digest(content), outcome, 0, now);
    }

    fn pass(&mut self, seconds: u64) {
        self.seconds += seconds;
        let now = self.now();
        self.intake.tick(now);
    }

    /// What is asked for, in words; what is to be applied is applied.
    fn asked(&mut self) -> Vec<String> {
        let mut asked = Vec::new();
        while let Some(output) = self.intake.poll_output() {
            asked.push(match output {
                Output::Ensure { digest, .. } => format!("ensure {}", word(&digest)),
                Output::Look { digest } => format!("look {}", word(&digest)),
                Output::Apply { batch, records } => {
                    self.intake.applied(batch, true);
                    let places = records.iter().map(|one| {
                        format!(
                            "{}{}:{}",
                            one.origin.name.as_str(),
                            one.sequence,
                            one.facts.len()
                        )
                    });
                    format!("apply {}", places.collect::<Vec<_>>().join(" "))
                }
                Output::SetAside { missing, .. } => format!("set aside {}", word(&missing[0])),
                Output::Restart => "restart".to_owned(),
            });
        }
        asked
    }
}

const WORDS: [&str; 8] = ["a", "b", "c", "d", "e", "layer", "child", "manifest"];

fn digest(content: &str) -> Digest {
    Digest::of(Algorithm::Sha256, content.as_bytes())
}

fn word(of: &Digest) -> &'static str {
    WORDS.into_iter().find(|word| digest(word) == *of).unwrap()
}

fn record(origin: &str, sequence: u64, blobs: &[&str]) -> Record {
    let blob = |content: &&str| Fact::Blob {
        repository: "r".parse().unwrap(),
        digest: digest(content),
        size: Some(1),
    };
    Record {
        origin: NodeId {
            name: origin.parse().unwrap(),
            incarnation: 1,
        },
        sequence,
        stamp: Hlc::at(sequence),
        facts: blobs.iter().map(blob).collect(),
    }
}

fn held() -> Outcome {
    Outcome::Held(Vec::new())
}

#[test]
fn a_record_waits_for_its_content_and_origins_do_not_wait_for_each_other() {
    let mut bench = Bench::new(10);
    assert_eq!(bench.receive("x", 1, &["a"]), Receipt::Taken);
    assert_eq!(bench.receive("x", 2, &[]), Receipt::Taken);
    assert_eq!(bench.receive("y", 1, &["b"]), Receipt::Taken);
    assert_eq!(bench.receive("x", 1, &["a"]), Receipt::Known);
    assert_eq!(bench.asked(), ["ensure a", "ensure b"]);
    bench.settle("b", held());
    assert_eq!(bench.asked(), ["apply y1:1"]);
    bench.settle("a", Outcome::Unreachable);
    assert!(bench.asked().is_empty());
    bench.intake.reached();
    assert_eq!(bench.asked(), ["ensure a"]);
    bench.settle("a", held());
    assert_eq!(bench.asked(), ["apply x1:1 x2:0"]);
    assert_eq!(bench.intake.n_waiting(), 0);
}

#[test]
fn what_a_manifest_refers_to_is_fetched_before_it_is_applied() {
    let mut bench = Bench::new(10);
    let mut pushed = record("x", 1, &[]);
    pushed.facts.push(Fact::Manifest {
        repository: "r".parse().unwrap(),
        digest: digest("manifest"),
        link: Some(Link {
            media_type: "a/b".into(),
            size: 1,
            subject: None,
        }),
    });
    let from = "peer".parse().unwrap();
    bench.intake.receive(&from, pushed, 0);
    assert_eq!(bench.asked(), ["ensure manifest"]);
    let refers = vec![
        (digest("child"), Kind::Manifest),
        (digest("layer"), Kind::Blob),
    ];
    bench.settle("manifest", Outcome::Held(refers));
    let mut asked = bench.asked();
    asked.sort();
    assert_eq!(asked, ["ensure child", "ensure layer"]);
    bench.settle("layer", held());
    assert!(bench.asked().is_empty());
    // It was pushed without: the sender has none either.
    bench.settle("child", Outcome::Denied);
    assert_eq!(bench.asked(), ["apply x1:1"]);
}

#[test]
fn what_nobody_has_is_set_aside_when_patience_ends() {
    let mut bench = Bench::new(10);
    bench.receive("x", 1, &["a"]);
    bench.receive("x", 2, &["b"]);
    bench.asked();
    bench.settle("b", held());
    bench.settle("a", Outcome::Denied);
    bench.pass(59);
    let asked = bench.asked();
    assert!(asked.contains(&"ensure a".to_owned()), "{asked:?}");
    assert!(!asked.contains(&"set aside a".to_owned()), "{asked:?}");
    bench.settle("a", Outcome::Unreachable);
    bench.pass(1);
    let asked = bench.asked();
    assert_eq!(asked[..2], ["set aside a", "apply x1:0 x2:1"]);
    assert_eq!(bench.intake.n_set_aside(), 1);
}

#[test]
fn a_full_disk_is_waited_for() {
    let mut bench = Bench::new(10);
    bench.receive("x", 1, &["a"]);
    for _ in 0..20 {
        bench.asked();
        bench.settle("a", Outcome::NoRoom);
        bench.pass(30);
    }
    assert_eq!(bench.intake.n_set_aside(), 0);
    bench.settle("a", held());
    assert!(bench.asked().contains(&"apply x1:1".to_owned()));
}

#[test]
fn what_finds_no_room_is_asked_for_again_once_there_is_some() {
    let mut bench = Bench::new(2);
    bench.receive("x", 1, &["a"]);
    bench.receive("x", 2, &["b"]);
    assert_eq!(bench.receive("x", 3, &[]), Receipt::TurnedAway);
    // What comes after a gap cannot be taken either; another origin can.
    assert_eq!(bench.receive("x", 4, &[]), Receipt::TurnedAway);
    assert_eq!(bench.receive("y", 1, &[]), Receipt::Taken);
    assert_eq!(bench.asked(), ["ensure a", "ensure b", "apply y1:0"]);
    bench.settle("a", held());
    assert_eq!(bench.asked(), ["apply x1:1", "restart"]);
    let from = bench.intake.expected();
    assert_eq!(from.of(&record("x", 1, &[]).origin), 2);
    assert_eq!(bench.receive("x", 3, &[]), Receipt::Taken);
}

#[test]
fn content_that_goes_while_a_record_waits_is_fetched_again() {
    let mut bench = Bench::new(10);
    bench.receive("x", 1, &["a", "b"]);
    bench.asked();
    bench.settle("a", held());
    bench.pass(600);
    assert_eq!(bench.asked(), ["look a"]);
    assert!(bench.intake.lost(&digest("a")));
    assert!(!bench.intake.lost(&digest("unknown")));
    assert_eq!(bench.asked(), ["ensure a"]);
    bench.settle("b", held());
    assert!(bench.asked().is_empty(), "applied without its content");
    bench.settle("a", held());
    assert_eq!(bench.asked(), ["apply x1:2"]);
}

#[test]
fn a_repair_that_cannot_be_completed_is_let_go() {
    let mut bench = Bench::new(10);
    let from = "peer".parse().unwrap();
    bench.intake.repair(&from, record("x", 0, &["a"]));
    assert_eq!(bench.asked(), ["ensure a"]);
    bench.settle("a", Outcome::Unreachable);
    assert_eq!(bench.intake.n_waiting(), 0);
    bench.intake.repair(&from, record("x", 0, &["b"]));
    bench.asked();
    bench.settle("b", held());
    assert_eq!(bench.asked(), ["apply x0:1"]);
    assert_eq!(bench.intake.n_waiting(), 0);
}

const LAYER: u64 = 1 << 30;

#[test]
fn a_large_layer_holds_up_no_other_repository() {
    let mut bench = Bench::new(10);
    bench.receive_in("big", "x", 1, &["layer"], LAYER);
    bench.receive_in("small", "x", 2, &["a"], 1);
    bench.receive_in("small", "x", 3, &["b"], 1);
    bench.receive_in("big", "x", 4, &["c"], 1);
    assert_eq!(
        bench.asked(),
        ["ensure layer", "ensure a", "ensure b", "ensure c"]
    );
    // Those of one repository stay in their order.
    bench.settle("b", held());
    bench.settle("c", held());
    assert!(bench.asked().is_empty());
    let origin = record("x", 1, &[]).origin;
    assert_eq!(bench.intake.ahead(&origin), None);
    bench.settle("a", held());
    // Without a place in the sequence.
    assert_eq!(bench.asked(), ["apply x0:1 x0:1"]);
    let ahead = bench.intake.ahead(&origin).unwrap();
    assert_eq!(ahead.ranges, [2..=3]);
    assert_eq!(bench.intake.n_waiting(), 4);
    bench.pass(1);
    assert!(
        bench
            .asked()
            .iter()
            .all(|asked| !asked.starts_with("apply"))
    );
    // Each takes its place after all.
    bench.settle("layer", held());
    assert_eq!(bench.asked(), ["apply x1:1 x2:1 x3:1 x4:1"]);
    assert_eq!(bench.intake.ahead(&origin), None);
    assert_eq!(bench.intake.n_waiting(), 0);
    assert_eq!(bench.intake.expected().of(&origin), 4);
}

#[test]
fn what_is_on_its_way_for_a_moment_only_is_waited_for() {
    let mut bench = Bench::new(10);
    bench.receive_in("one", "x", 1, &["a"], 1);
    bench.receive_in("two", "x", 2, &["b"], 1);
    bench.asked();
    bench.settle("b", held());
    assert!(bench.asked().is_empty());
    // It turns out not to be a moment.
    bench.settle("a", Outcome::Unreachable);
    bench.pass(1);
    let asked = bench.asked();
    assert!(asked.contains(&"apply x0:1".to_owned()), "{asked:?}");
}

#[test]
fn what_could_not_be_applied_ahead_is_tried_again() {
    let mut bench = Bench::new(10);
    bench.receive_in("big", "x", 1, &["layer"], LAYER);
    bench.receive_in("small", "x", 2, &["a"], 1);
    bench.asked();
    bench.settle("a", held());
    let output = bench.intake.poll_output();
    let Some(Output::Apply { batch, .. }) = output else {
        panic!("{output:?}");
    };
    assert!(!bench.intake.applied(batch, false));
    assert!(bench.asked().is_empty());
    assert_eq!(bench.intake.ahead(&record("x", 1, &[]).origin), None);
    bench.pass(1);
    let asked = bench.asked();
    assert!(asked.contains(&"apply x0:1".to_owned()), "{asked:?}");
}

#[test]
fn records_ahead_leave_room_for_others() {
    let mut bench = Bench::new(2);
    bench.receive_in("big", "x", 1, &["layer"], LAYER);
    for sequence in 2..=9 {
        let receipt = bench.receive_in("small", "x", sequence, &["a"], 1);
        assert_eq!(receipt, Receipt::Taken, "{sequence}");
        bench.asked();
        bench.settle("a", held());
        bench.asked();
    }
    // And no more than a multiple.
    let receipt = (10..20).map(|sequence| bench.receive_in("small", "x", sequence, &[], 1));
    let receipts: Vec<Receipt> = receipt.collect();
    assert_eq!(receipts.last(), Some(&Receipt::TurnedAway));
}

/// A manifest that a node sends, whose layer no record states.
fn receive_manifest(bench: &mut Bench, sender: &str, origin: &str) {
    let mut pushed = record(origin, 1, &[]);
    pushed.facts.push(Fact::Manifest {
        repository: "r".parse().unwrap(),
        digest: digest("manifest"),
        link: Some(Link {
            media_type: "a/b".into(),
            size: 1,
            subject: None,
        }),
    });
    let receipt = bench.intake.receive(&sender.parse().unwrap(), pushed, 0);
    assert_eq!(receipt, Receipt::Taken);
}

fn with_layer() -> Outcome {
    Outcome::Held(vec![(digest("layer"), Kind::Blob)])
}

#[test]
fn a_sender_that_has_lost_its_disk_does_not_say_what_its_records_do_without() {
    let mut bench = Bench::new(10);
    receive_manifest(&mut bench, "peer", "x");
    bench.asked();
    bench.settle("manifest", with_layer());
    bench.asked();
    bench.intake.sender_renewed(&"peer".parse().unwrap());
    bench.settle("layer", Outcome::Denied);
    assert!(bench.asked().is_empty(), "applied without its layer");
    // Another node may have it.
    bench.pass(30);
    let asked = bench.asked();
    assert!(asked.contains(&"ensure layer".to_owned()), "{asked:?}");
    bench.settle("layer", held());
    assert_eq!(bench.asked(), ["apply x1:1"]);
}

#[test]
fn a_record_does_without_what_its_own_sender_denies() {
    let mut bench = Bench::new(10);
    for (sender, origin) in [("a", "x"), ("b", "y"), ("c", "z")] {
        receive_manifest(&mut bench, sender, origin);
    }
    bench.asked();
    bench.settle("manifest", with_layer());
    let mut applied = Vec::new();
    // Each sender is asked in its turn.
    for _ in 0..3 {
        bench.settle("layer", Outcome::Denied);
        let asked = bench.asked().into_iter();
        applied.push(
            asked
                .filter(|it| it.starts_with("apply"))
                .collect::<Vec<_>>(),
        );
        bench.pass(5);
    }
    assert_eq!(applied, [["apply x1:1"], ["apply y1:1"], ["apply z1:1"]]);
}
