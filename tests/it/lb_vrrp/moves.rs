//! Planned moves, many times: how long the address does not answer.
//!
//! `VRRP_MOVES=20` measures more of them; each kind prints the median and the longest.

use std::time::Duration;

use super::for_kinds;
use super::link::{Kind, Link};
use super::node::{Node, Settings};

const HIGHER: u8 = 150;
const LOWER: u8 = 50;
const MIDDLE: u8 = 100;

/// The time that a planned move may take on a machine that has nothing else to do: a longer one is explained.
const BOUND: Duration = Duration::from_millis(20);

/// The median of measured moves stays below this: less than the time that a node waits without notice
/// of the move.
const UNPLANNED: Duration = Duration::from_millis(100);

/// And in an ordinary run, however busy the machine is.
const BUSY: Duration = Duration::from_millis(300);

/// Moves of an ordinary run.
const MOVES: usize = 5;

/// How long the address is watched after it has moved: a cache may learn something wrong at the last
/// moment.
const AFTERMATH: Duration = Duration::from_millis(400);

/// The time that a process may take to start or to end, which is not measured.
const PATIENCE: Duration = Duration::from_secs(10);

/// One of each: the others differ in how advertisements travel.
const KINDS: [Kind; 4] = [
    Kind::new(2, true, false),
    Kind::new(3, false, false),
    Kind::new(3, true, false),
    Kind::new(3, false, true),
];

/// How many moves are to be measured, if they are.
fn n_measured() -> Option<usize> {
    std::env::var("VRRP_MOVES").ok()?.parse().ok()
}

fn n_moves() -> usize {
    n_measured().unwrap_or(MOVES)
}

/// Prints what went before a move that took long.
fn explain(link: &Link, gap: Duration, log: &str) {
    if gap > BOUND {
        println!("{}: a move took {gap:?}:\n{log}", link.kind.name());
    }
}

/// Prints median and maximum, and tells a move that was planned from one that was not.
fn judge(link: &Link, what: &str, mut gaps: Vec<Duration>) {
    gaps.sort();
    let (median, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    let name = link.kind.name();
    println!(
        "measured: {name:18} {what:44} median {:4.1} ms, longest {:4.1} ms of {}",
        median.as_secs_f64() * 1e3,
        longest.as_secs_f64() * 1e3,
        gaps.len(),
    );
    let bound = n_measured().map_or(BUSY, |_| UNPLANNED);
    assert!(median < bound, "{name}, {what}: {gaps:?}");
}

#[test]
#[ignore = "needs network namespaces"]
fn a_planned_move_to_keepalived_and_back_is_not_noticed() {
    for_kinds(&KINDS, |link| {
        let _them = link.start_them(MIDDLE);
        link.wait_for_them(PATIENCE);
        let mut there = Vec::new();
        let mut back = Vec::new();
        for _ in 0..n_moves() {
            let gap = link.gap();
            let us = link.start_us(HIGHER);
            link.wait_for_us(PATIENCE);
            std::thread::sleep(AFTERMATH);
            back.push(gap.stop());
            let gap = link.gap();
            let log = us.hand_over();
            link.wait_for_them(PATIENCE);
            std::thread::sleep(AFTERMATH);
            there.push(gap.stop());
            explain(link, there[there.len() - 1], &log);
        }
        judge(link, "we hand over to keepalived", there);
        judge(link, "we preempt keepalived", back);
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn keepalived_preempts_us_unnoticed() {
    for_kinds(&KINDS, |link| {
        let mut us = link.start_us(LOWER);
        link.wait_for_us(PATIENCE);
        let mut gaps = Vec::new();
        for _ in 0..n_moves() {
            let gap = link.gap();
            let them = link.start_them(MIDDLE);
            link.wait_for_them(PATIENCE);
            std::thread::sleep(AFTERMATH);
            gaps.push(gap.stop());
            them.stop();
            link.wait_for_us(PATIENCE);
        }
        judge(link, "keepalived preempts us", gaps);
        let status = us.status();
        assert_eq!(status["refused"]["chk_err"], 0, "{}", us.log());
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn a_planned_move_between_two_of_ours_and_back_is_not_noticed() {
    for_kinds(&KINDS, |link| {
        let kind = link.kind;
        let settings = Settings {
            peers: kind.is_unicast.then(|| vec![link.address(13)]),
            ..link.settings(MIDDLE)
        };
        let mut them = Node::start(&link.them, &settings);
        link.wait_for_them(PATIENCE);
        let mut there = Vec::new();
        let mut back = Vec::new();
        for _ in 0..n_moves() {
            let gap = link.gap();
            let us = link.start_us(HIGHER);
            link.wait_for_us(PATIENCE);
            std::thread::sleep(AFTERMATH);
            back.push(gap.stop());
            let gap = link.gap();
            let log = us.hand_over();
            link.wait_for_them(PATIENCE);
            std::thread::sleep(AFTERMATH);
            there.push(gap.stop());
            explain(link, there[there.len() - 1], &log);
        }
        judge(link, "we hand over to another of ours", there);
        judge(link, "we preempt another of ours", back);
        assert!(
            !them.log().contains("Two routers were active"),
            "{}",
            them.log()
        );
        // A loaded machine pauses a router whose advertisements come every 200 ms.
        if link.kind.version == 2 {
            assert_eq!(them.status()["pauses"], 0, "{}", them.log());
        }
    });
}
