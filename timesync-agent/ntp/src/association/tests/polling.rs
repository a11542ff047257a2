//! When a source is asked, and how often.

use super::*;

#[test]
fn a_burst_at_the_start_ends_with_four_good_samples_or_eight_requests() {
    let options = SourceOptions {
        iburst: true,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    let mut times = Vec::new();
    for _ in 0..6 {
        client.sample(&mut server).unwrap();
        times.push((client.now - RawTime(RAW)).seconds().floor());
    }
    assert_eq!(times[..4], [0.0, 2.0, 4.0, 6.0]);
    assert!((70.0..72.0).contains(&times[4]), "{times:?}");
    assert!((134.0..137.0).contains(&times[5]), "{times:?}");
    let mut client = Client::new(&options);
    let mut times = Vec::new();
    for _ in 0..10 {
        client.request();
        times.push((client.now - RawTime(RAW)).seconds().floor());
    }
    assert_eq!(times[..8], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]);
    // Four unanswered ones are an interval twice as long.
    assert!(
        times[8] - times[7] >= 64.0 && times[9] - times[8] >= 128.0,
        "{times:?}"
    );
}

#[test]
fn intervals_follow_the_timekeeper_within_bounds_and_grow_without_answers() {
    let options = SourceOptions {
        minpoll: 2,
        maxpoll: 5,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    for (advised, expected) in [(3, 3), (9, 5), (-3, 2)] {
        assert!(matches!(
            client.exchange(&mut server),
            Outcome::Answered(Some(_))
        ));
        client.judge(Verdict::Good, advised);
        assert_eq!(client.association.poll(), expected);
        let wait = (client.association.poll_timeout().unwrap() - client.now).seconds();
        let interval = f64::from(expected).exp2();
        assert!(wait > interval - 0.1 && wait < interval * 1.03, "{wait}");
    }
    let polls: Vec<i8> = (0..16)
        .map(|_| {
            client.request();
            client.association.poll()
        })
        .collect();
    assert_eq!(polls, [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]);
    assert_eq!(client.view().reach, 0);
    // The last of sixteen may still be answered.
    assert_eq!(client.association.n_useless(), 15);
    client.sample(&mut server);
    assert_eq!(client.view().reach, 1);
    assert_eq!(client.association.n_useless(), 0);
}

#[test]
fn limits_of_the_interval_move_each_other_and_never_cross() {
    let options = SourceOptions {
        minpoll: 2,
        maxpoll: 5,
        ..SourceOptions::default()
    };
    for (minpoll, maxpoll, expected) in [
        (Some(1), None, (1, 5)),
        (Some(7), None, (7, 7)),
        (None, Some(3), (2, 3)),
        (None, Some(0), (0, 0)),
        (Some(4), Some(6), (4, 6)),
    ] {
        let mut client = Client::new(&options);
        let mut server = Server::new();
        client.exchange(&mut server);
        client.association.limit(minpoll, maxpoll);
        let options = client.association.options();
        assert_eq!((options.minpoll, options.maxpoll), expected);
        for (advised, limit) in [(-6, expected.0), (20, expected.1)] {
            client.judge(Verdict::Good, advised);
            assert_eq!(client.association.poll(), limit, "{expected:?}");
        }
    }
}

#[test]
fn only_a_near_server_is_asked_more_than_once_a_second() {
    let options = SourceOptions {
        minpoll: -4,
        maxpoll: -2,
        ..SourceOptions::default()
    };
    for (back, expected) in [(MS, -4), (20 * MS, 0)] {
        let mut client = Client::new(&options);
        let mut server = Server::new();
        server.back = back;
        client.exchange(&mut server);
        client.judge(Verdict::Good, -4);
        assert_eq!(client.association.poll(), expected);
    }
}

#[test]
fn who_is_offline_is_not_asked_but_by_a_burst() {
    let options = SourceOptions {
        offline: true,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    assert_eq!(client.association.poll_timeout(), None);
    client.association.burst(2, 3, client.now);
    client.sample(&mut server).unwrap();
    client.sample(&mut server).unwrap();
    assert!(!client.association.is_bursting());
    assert_eq!(client.association.poll_timeout(), None, "offline as before");
    client.association.go_online(client.now);
    client.sample(&mut server).unwrap();
    client.association.go_offline();
    assert_eq!(client.association.poll_timeout(), None);
    let mut client = Client::new(&SourceOptions {
        auto_offline: true,
        ..SourceOptions::default()
    });
    client.request();
    client.association.failed();
    assert!(!client.association.is_online());
}

#[test]
fn an_answer_is_waited_for_as_long_as_it_could_be_of_use() {
    let mut client = Client::new(&SourceOptions::default());
    client.request();
    assert_eq!(client.next(), Some(Due::GiveUp));
    assert_eq!(client.now, RawTime(RAW + 3 * SECOND));
    assert_eq!(
        client.receive(&[0; 48]),
        Outcome::Ignored(Ignored::Malformed)
    );
}

#[test]
fn far_apart_a_request_goes_ahead_of_the_one_that_counts() {
    for (xleave, n_ahead) in [(false, 1), (true, 2)] {
        let options = SourceOptions {
            presend: Some(6),
            xleave,
            ..SourceOptions::default()
        };
        let mut server = Server::new();
        server.interleaves = xleave;
        let mut client = Client::new(&options);
        for poll in 0..3 {
            for ahead in 0..n_ahead {
                assert_eq!(client.sample(&mut server), None, "{poll}.{ahead} counts");
                let (sent, before) = (client.now, client.association.poll_timeout());
                let pause = before.expect("another follows") - sent;
                assert!((1.9..2.1).contains(&pause.seconds()), "{pause:?}");
            }
            assert!(
                client.sample(&mut server).is_some(),
                "{poll} does not count"
            );
            let pause = client.association.poll_timeout().expect("a poll") - client.now;
            assert!(pause.seconds() > 60.0, "{pause:?}");
        }
    }
    // Below that interval none does.
    let options = SourceOptions {
        presend: Some(7),
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    assert!(client.sample(&mut Server::new()).is_some());
}

#[test]
fn a_server_that_refuses_or_has_no_time_is_asked_ever_more_rarely() {
    for (refuses, n_polls) in [(true, 16), (false, 40)] {
        let mut client = Client::new(&SourceOptions {
            minpoll: 4,
            maxpoll: 8,
            ..SourceOptions::default()
        });
        let mut server = Server::new();
        server.packet.leap = Leap::Unsynchronised;
        if refuses {
            server.packet.stratum = 0;
            server.packet.reference_id = u32::from_be_bytes(*b"DENY");
        }
        let mut last = client.association.poll();
        for _ in 0..=n_polls {
            let outcome = client.exchange(&mut server);
            assert!(!matches!(outcome, Outcome::Answered(Some(_))));
            assert!(client.association.poll() >= last);
            last = client.association.poll();
        }
        assert_eq!(last, 8);
        assert!(client.association.is_online());
        let pause = client.association.poll_timeout().unwrap() - client.now;
        assert!((255.0..263.0).contains(&pause.seconds()), "{pause:?}");
        // Once it has time, it is asked as the timekeeper says.
        client.sample(&mut Server::new()).unwrap();
        client.judge(Verdict::Good, 4);
        assert_eq!(client.association.poll(), 4);
    }
}

#[test]
fn a_burst_asks_every_two_seconds_and_not_a_server_that_refuses() {
    let options = SourceOptions {
        burst: true,
        ..SourceOptions::default()
    };
    let mut client = Client::new(&options);
    let mut server = Server::new();
    client.sample(&mut server).unwrap();
    // Of the burst of the next poll, three requests are lost.
    let mut times = Vec::new();
    for _ in 0..4 {
        client.request();
        times.push(client.now);
    }
    for pair in times.windows(2) {
        let pause = (pair[1] - pair[0]).seconds();
        assert!((2.0..2.05).contains(&pause), "{pause}");
    }
    let mut client = Client::new(&SourceOptions {
        iburst: true,
        ..options
    });
    server.packet.leap = Leap::Unsynchronised;
    server.packet.stratum = 0;
    server.packet.reference_id = u32::from_be_bytes(*b"DENY");
    client.exchange(&mut server);
    assert!(!client.association.is_bursting());
    let pause = client.association.poll_timeout().unwrap() - client.now;
    assert!(pause.seconds() > 60.0, "{pause:?}");
}

#[test]
fn a_filter_waits_for_as_many_polls_and_not_for_as_many_answers() {
    let mut client = Client::new(&SourceOptions {
        filter: Some(4),
        ..SourceOptions::default()
    });
    let mut server = Server::new();
    let mut lossless: Vec<bool> = Vec::new();
    for _ in 0..8 {
        lossless.push(client.sample(&mut server).is_some());
    }
    assert_eq!(lossless, [false, false, false, true].repeat(2));
    for _ in 0..3 {
        // Two answers in four polls: the first, and the last.
        assert_eq!(client.sample(&mut server), None);
        client.request();
        client.request();
        server.back += MS;
        let sample = client.sample(&mut server).expect("the fourth poll");
        server.back -= MS;
        assert!(sample.delay < 6.5e-3, "{sample:?}");
    }
}

#[test]
fn whoever_allows_for_a_long_way_has_its_answers_waited_for() {
    let mut client = Client::new(&SourceOptions {
        presend: Some(6),
        max_delay: 16.0,
        ..SourceOptions::default()
    });
    let mut server = Server::new();
    (server.there, server.back) = (5 * SECOND, 5 * SECOND);
    for _ in 0..3 {
        // Another request follows the one that goes ahead, whose answer comes too late to be one.
        client.request();
        let sample = client.sample(&mut server).expect("it is waited for");
        assert!((sample.delay - 10.0).abs() < 1e-3, "{sample:?}");
    }
}
