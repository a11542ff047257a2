use super::*;

const SECOND: u64 = 125;

fn limits() -> Limits {
    Limits {
        idle: None,
        client_fin: None,
        server_fin: None,
        client_silence: Some(60 * SECOND),
        server_silence: Some(60 * SECOND),
    }
}

fn quiet(sent: u64) -> Direction {
    Direction {
        sent,
        queue: Some(Queue::default()),
        ..Direction::default()
    }
}

fn waiting(sent: u64, unacknowledged: u64, queue: Queue) -> Direction {
    Direction {
        sent,
        queue: Some(Queue {
            unacknowledged,
            ..queue
        }),
        ..Direction::default()
    }
}

/// A closed window, the last probe of which was answered.
const PAUSED: Queue = Queue {
    unacknowledged: 0,
    in_flight: false,
    is_window_closed: true,
    is_probe_open: false,
    heard: 0,
};

const IN_FLIGHT: Queue = Queue {
    unacknowledged: 0,
    in_flight: true,
    is_window_closed: false,
    is_probe_open: false,
    heard: 0,
};

/// The decision of the last of several checks, each at a tick with the direction to the client.
fn last(limits: &Limits, server_closed: bool, checks: &[(u64, Direction)]) -> Decision {
    let mut deliveries = Deliveries::default();
    let mut decision = Decision::Check(None);
    for (number, (now, down)) in checks.iter().enumerate() {
        if number > 0 {
            assert!(
                matches!(decision, Decision::Check(_)),
                "{now}: {decision:?}"
            );
        }
        let situation = Situation {
            up: quiet(10),
            down: Direction {
                is_closed: server_closed,
                ..*down
            },
            moved: 0,
            is_parting: false,
        };
        decision = deliveries.check(*now, &situation, limits);
    }
    decision
}

#[test]
fn a_session_without_a_limit_and_without_bytes_on_their_way_is_not_checked_again() {
    let decision = last(&limits(), false, &[(15 * SECOND, quiet(1000))]);
    assert_eq!(decision, Decision::Check(None));
}

#[test]
fn an_idle_session_ends_in_its_time_whether_or_not_it_was_checked_before() {
    let idle = Limits {
        idle: Some(20 * SECOND),
        ..limits()
    };
    let end = Decision::Quiet(Cause::ClientTimeout);
    let at = 20 * SECOND + 1;
    assert_eq!(last(&idle, false, &[(at, quiet(9))]), end);
    assert_eq!(
        last(&idle, false, &[(at - 1, quiet(9))]),
        Decision::Check(Some(at))
    );
    assert_eq!(
        last(&idle, false, &[(15 * SECOND, quiet(9)), (at, quiet(9))]),
        end
    );
}

#[test]
fn a_slow_reader_is_not_quiet_and_the_limit_counts_from_its_last_acknowledgement() {
    let fin = Limits {
        client_fin: Some(SECOND),
        ..limits()
    };
    let slow = |left| waiting(300_000, left, PAUSED);
    let mut checks = vec![
        (SECOND + 1, slow(190_000)),
        (3 * SECOND, slow(120_000)),
        (11 * SECOND, slow(30_000)),
        (12 * SECOND, quiet(300_000)),
    ];
    let due = 13 * SECOND + 1;
    assert_eq!(last(&fin, true, &checks), Decision::Check(Some(due)));
    checks.push((due, quiet(300_000)));
    let end = Decision::Quiet(Cause::ClientTimeout);
    assert_eq!(last(&fin, true, &checks), end);
}

#[test]
fn a_client_with_bytes_to_take_has_the_idle_limit_and_never_less_than_a_stall() {
    let short = Limits {
        idle: Some(SECOND),
        client_fin: Some(SECOND),
        ..limits()
    };
    let paused = waiting(1000, 600, PAUSED);
    // The first check is taken for progress: the one before may have been long ago.
    let due = SECOND + ticks(STALL) + 1;
    let checks = [(SECOND, paused), (due - 1, paused), (due, paused)];
    let end = Decision::Quiet(Cause::ClientTimeout);
    assert_eq!(last(&short, true, &checks), end);
    let none = Limits {
        client_fin: Some(SECOND),
        ..limits()
    };
    let checks = [(SECOND, paused), (3600 * SECOND, paused)];
    assert!(matches!(
        last(&none, true, &checks),
        Decision::Check(Some(_))
    ));
}

#[test]
fn the_side_that_takes_nothing_is_at_fault() {
    let idle = Limits {
        idle: Some(SECOND),
        ..Limits::default()
    };
    let mut deliveries = Deliveries::default();
    let situation = Situation {
        up: waiting(1000, 600, PAUSED),
        down: quiet(5),
        ..Situation::default()
    };
    let first = deliveries.check(1, &situation, &idle);
    assert!(matches!(first, Decision::Check(_)));
    let end = deliveries.check(20 * SECOND, &situation, &idle);
    assert_eq!(end, Decision::Quiet(Cause::ServerTimeout));
}

const LIMIT: u64 = 60 * SECOND;

/// The queue at two checks, each with the time since the peer was heard; the second is this long after the first.
type Row = (&'static str, [(Queue, u64); 2], u64, Decision);

fn check_silence(rows: &[Row]) {
    for (name, queues, wait, expected) in rows {
        let [first, second] = queues.map(|(queue, heard)| {
            let queue = Queue { heard, ..queue };
            waiting(1000, 600, queue)
        });
        let found = last(&limits(), false, &[(1, first), (1 + wait, second)]);
        assert_eq!(found, *expected, "{name}");
    }
}

const SILENT: Decision = Decision::Silent(Peer::Client);

/// The next part of the limit.
const AGAIN: Decision = Decision::Check(Some(1 + LIMIT + 15 * SECOND + 1));

#[test]
fn a_peer_owes_an_acknowledgement_of_segments() {
    let queues = |first, second| [(IN_FLIGHT, first), (IN_FLIGHT, second)];
    let soon = Decision::Check(Some(1 + LIMIT));
    check_silence(&[
        ("lost", queues(500, LIMIT + 500), LIMIT, SILENT),
        ("young", queues(500, LIMIT + 499), LIMIT - 1, soon),
        ("heard", queues(3, 5), LIMIT, AGAIN),
    ]);
}

#[test]
fn a_peer_with_a_closed_window_owes_an_answer_to_probes_alone() {
    let open = Queue {
        is_probe_open: true,
        ..PAUSED
    };
    let refused = Queue {
        in_flight: true,
        ..PAUSED
    };
    let long = LIMIT + 120 * SECOND;
    check_silence(&[
        ("no answer", [(open, 9), (open, LIMIT + 9)], LIMIT, SILENT),
        ("answered", [(open, 9), (PAUSED, LIMIT)], LIMIT, AGAIN),
        ("paused", [(PAUSED, 9999), (PAUSED, 14_999)], LIMIT, AGAIN),
        ("probed", [(PAUSED, 9999), (open, 14_999)], LIMIT, AGAIN),
        ("refused", [(refused, 9), (refused, 14_999)], LIMIT, AGAIN),
        (
            "refused long",
            [(refused, 9), (refused, long)],
            long,
            SILENT,
        ),
    ]);
}

#[test]
fn an_idle_connection_that_sends_again_owes_from_then_on() {
    // Nothing was heard for an hour, as nothing was sent.
    let hour = 3600 * SECOND;
    let sent = Queue {
        heard: hour,
        ..IN_FLIGHT
    };
    let decision = last(&limits(), false, &[(hour, waiting(1000, 10, sent))]);
    assert_eq!(decision, Decision::Check(Some(hour + 15 * SECOND + 1)));
}

#[test]
fn a_parting_session_ends_when_all_is_delivered_or_nothing_is_any_more() {
    let mut deliveries = Deliveries::default();
    let mut check = |now, down| {
        let situation = Situation {
            up: Direction::default(),
            down,
            moved: 0,
            is_parting: true,
        };
        deliveries.check(now, &situation, &Limits::default())
    };
    let paused = |left| waiting(1000, left, PAUSED);
    assert_eq!(check(1, paused(600)), Decision::Check(Some(3)));
    assert_eq!(check(3, paused(400)), Decision::Check(Some(5)));
    let late = 3 + ticks(PARTING);
    assert_eq!(
        check(late - 1, paused(400)),
        Decision::Check(Some(late - 1 + 32))
    );
    assert_eq!(check(late, paused(300)), Decision::Check(Some(late + 2)));
    assert_eq!(
        check(late + ticks(PARTING), paused(300)),
        Decision::Abandoned
    );
    assert_eq!(check(late + 3, quiet(1000)), Decision::Delivered);
    // What was not sent at all counts as well.
    let in_hand = Direction {
        in_hand: true,
        ..quiet(1000)
    };
    assert!(matches!(check(late + 4, in_hand), Decision::Check(_)));
    let gone = Direction {
        queue: None,
        ..quiet(1000)
    };
    assert_eq!(check(late + 5, gone), Decision::Delivered);
}

#[test]
fn the_first_check_follows_the_limits_that_apply() {
    let all = Limits {
        idle: Some(1000),
        client_fin: Some(50),
        server_fin: Some(60),
        client_silence: Some(800),
        server_silence: None,
    };
    for (up, down, expected) in [
        (false, false, 10 + 200 + 1),
        (false, true, 10 + 50 + 1),
        (true, false, 10 + 60 + 1),
        (true, true, 10 + 200 + 1),
    ] {
        assert_eq!(all.first_check(10, up, down), Some(expected), "{up} {down}");
    }
    assert_eq!(Limits::default().first_check(10, false, true), None);
}
