use super::*;

fn upstream() -> Upstream {
    let address = "192.0.2.1:53".parse().unwrap();
    let route = Route::new(Name::root(), Mode::Recursive, vec![address]);
    Upstream::new(address, Probe::of(&route), Instant::START)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Lets time pass until `end`; gives the times of probes and the time it became absent.
fn wait(upstream: &mut Upstream, end: u64) -> (Vec<u64>, Option<u64>) {
    let (mut probes, mut absent) = (Vec::new(), None);
    while let Some(next) = upstream.deadline().filter(|next| *next <= at(end)) {
        let (change, probe) = upstream.probe_due(next);
        if probe {
            probes.push(next.as_millis());
        }
        if change.is_some_and(|change| change.to == Fitness::Absent) {
            absent = Some(next.as_millis());
        }
    }
    (probes, absent)
}

#[test]
fn one_slow_answer_raises_doubt_and_a_probe_settles_it() {
    let mut upstream = upstream();
    upstream.answered(Duration::from_millis(1), at(0));
    let change = upstream.unanswered(b"q", at(0), at(100)).unwrap();
    assert_eq!((change.from, change.to), (Fitness::Good, Fitness::Doubtful));
    assert_eq!(wait(&mut upstream, 110), (vec![100], None));
    let change = upstream
        .answered(Duration::from_millis(1), at(111))
        .unwrap();
    assert_eq!(change.to, Fitness::Good);
    assert_eq!(upstream.deadline(), None);
}

#[test]
fn a_silent_upstream_is_absent_after_four_probes_and_probed_every_750_ms() {
    let mut upstream = upstream();
    upstream.unanswered(b"q", at(0), at(80));
    let (probes, absent) = wait(&mut upstream, 10_000);
    assert_eq!(absent, Some(1280));
    assert_eq!(probes[..8], [80, 380, 680, 980, 1330, 1430, 1630, 2030]);
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] <= 750));
    assert_eq!(upstream.absence(), Some(Absence::Silent));
}

#[test]
fn a_query_raises_no_doubt_when_the_upstream_has_answered_since() {
    let mut upstream = upstream();
    upstream.answered(Duration::from_millis(1), at(50));
    assert_eq!(upstream.unanswered(b"q", at(40), at(100)), None);
    assert!(upstream.unanswered(b"q", at(60), at(100)).is_some());
}

#[test]
fn an_absent_upstream_gets_whole_trials_until_its_silence_has_lasted() {
    let mut upstream = upstream();
    upstream.unreachable(Absence::Silent, at(0));
    assert_eq!(upstream.trial_wait(at(9_000)), Some(Duration::MAX));
    assert_eq!(
        upstream.trial_wait(at(10_000)),
        Some(Duration::from_millis(300))
    );
    upstream.answered(Duration::from_millis(1), at(10_000));
    upstream.unreachable(Absence::Refused, at(10_000));
    assert!(upstream.trial_wait(at(10_000)).unwrap() < Duration::from_secs(1));
    upstream.reported(Report::Drained, at(11_000));
    assert_eq!(upstream.trial_wait(at(11_000)), None);
}

#[test]
fn a_closed_port_is_absent_at_once_and_probed_soon() {
    let mut upstream = upstream();
    assert!(upstream.unreachable(Absence::Refused, at(1000)).is_some());
    assert!(upstream.unreachable(Absence::Refused, at(1001)).is_none());
    assert_eq!(wait(&mut upstream, 1200).0, [1050, 1150]);
    assert!(upstream.unanswered(b"q", at(0), at(1200)).is_none());
    assert_eq!(upstream.fitness(), Fitness::Absent);
}

#[test]
fn healthd_can_take_it_out_and_bring_it_back() {
    let mut upstream = upstream();
    assert!(upstream.reported(Report::Answers, at(1)).is_none());
    let change = upstream.reported(Report::Silent, at(2)).unwrap();
    assert_eq!(change.to, Fitness::Absent);
    assert_eq!(upstream.absence(), Some(Absence::Reported));
    let change = upstream.reported(Report::Answers, at(3)).unwrap();
    assert_eq!(change.to, Fitness::Good);
    assert_eq!((upstream.deadline(), upstream.since()), (None, at(3)));
}

#[test]
fn one_that_an_operator_has_taken_out_stays_out_though_it_answers() {
    let mut upstream = upstream();
    let change = upstream.reported(Report::Drained, at(1)).unwrap();
    assert_eq!((change.from, change.to), (Fitness::Good, Fitness::Absent));
    assert!(upstream.answered(Duration::from_millis(1), at(2)).is_none());
    assert!(upstream.reported(Report::Silent, at(3)).is_none());
    assert_eq!(upstream.absence(), Some(Absence::Reported));
    assert!(upstream.reported(Report::Drained, at(4)).is_none());
    assert_eq!(upstream.absence(), Some(Absence::Drained));
    let change = upstream.reported(Report::Answers, at(5)).unwrap();
    assert_eq!((change.from, change.to), (Fitness::Absent, Fitness::Good));
}

#[test]
fn an_upstream_that_no_route_uses_is_not_probed() {
    let mut upstream = upstream();
    upstream.unreachable(Absence::Refused, at(0));
    assert!(upstream.set_wanted(None, at(10)).is_some());
    assert_eq!(upstream.deadline(), None);
}

#[test]
fn patience_follows_the_usual_time_within_bounds() {
    let mut upstream = upstream();
    assert_eq!(upstream.patience(Others::Some), Duration::from_millis(80));
    assert_eq!(upstream.patience(Others::None), Duration::from_millis(400));
    for _ in 0..100 {
        upstream.answered(Duration::from_micros(200), at(0));
    }
    assert_eq!(upstream.patience(Others::Some), Duration::from_millis(20));
    for _ in 0..100 {
        upstream.answered(Duration::from_millis(600), at(0));
    }
    // One that is slow is not in doubt before its usual time.
    for others in [Others::Some, Others::None] {
        let patience = upstream.patience(others).as_millis();
        assert!((600..=1200).contains(&patience), "{patience} ms");
    }
    for _ in 0..100 {
        upstream.answered(Duration::from_secs(5), at(0));
    }
    assert_eq!(upstream.patience(Others::None), Duration::from_secs(2));
}

#[test]
fn hedging_is_a_tenth_of_the_queries_after_a_burst() {
    let mut upstream = upstream();
    let burst = (0..1000).take_while(|_| upstream.spend_hedge()).count();
    assert_eq!(burst, 100);
    let mut later = 0;
    for _ in 0..1000 {
        upstream.earn_hedge();
        later += u32::from(upstream.spend_hedge());
    }
    assert_eq!(later, 100);
}

#[test]
fn every_other_probe_asks_what_was_left_unanswered() {
    let mut upstream = upstream();
    upstream.unanswered(b"real", at(0), at(0));
    let questions: Vec<_> = (0..4).map(|_| upstream.probe().next_question()).collect();
    assert_eq!(&*questions[0], b"\0\0\x02\0\x01");
    assert_eq!(
        (&*questions[1], &*questions[3]),
        (&b"real"[..], &b"real"[..])
    );
}

#[test]
fn what_it_cannot_do_is_forgotten_in_time() {
    let mut upstream = upstream();
    upstream.cannot_edns(at(0));
    upstream.cannot_keep_case(at(0));
    assert!(!upstream.takes_edns(at(899_999)) && !upstream.keeps_case(at(899_999)));
    assert!(upstream.takes_edns(at(900_000)) && upstream.keeps_case(at(900_000)));
}
