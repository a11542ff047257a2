use super::*;

fn start() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "where a test's time begins")]
    Instant::now()
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tracked(name: &str, effect: Effect) -> Tracked {
    Tracked {
        name: name.into(),
        effect,
        rise: seconds(10),
        fall: seconds(2),
    }
}

fn settings() -> PrioritySettings {
    PrioritySettings {
        base: 100,
        tracked: vec![
            tracked("proxy", Effect::Required),
            tracked("api", Effect::Weight(20)),
            tracked("ingress", Effect::Weight(-30)),
        ],
        hold_down: seconds(30),
        when_unable: WhenUnable::Yield,
    }
}

#[test]
fn nothing_known_is_not_bad() {
    let now = start();
    let mut priority = Priority::new(settings());
    assert_eq!(priority.standing(now), Eligibility::Able(100));
    assert_eq!(priority.next_deadline(), None);
}

#[test]
fn what_is_said_first_counts_at_once() {
    let now = start();
    let mut priority = Priority::new(settings());
    priority.observe("api", true, now);
    assert_eq!(priority.standing(now), Eligibility::Able(120));
    priority.observe("ingress", false, now);
    assert_eq!(priority.standing(now), Eligibility::Able(90));
    priority.observe("proxy", false, now);
    assert_eq!(priority.standing(now), Eligibility::Able(1));
}

#[test]
fn a_change_counts_when_it_has_lasted() {
    let now = start();
    let mut priority = Priority::new(settings());
    priority.observe("api", true, now);
    priority.observe("api", false, now + seconds(1));
    assert_eq!(priority.standing(now + seconds(2)), Eligibility::Able(120));
    assert_eq!(priority.next_deadline(), Some(now + seconds(3)));
    assert_eq!(priority.standing(now + seconds(3)), Eligibility::Able(100));
    // Good for 9 s, bad for a moment, good again: it starts over.
    priority.observe("api", true, now + seconds(10));
    priority.observe("api", false, now + seconds(19));
    priority.observe("api", true, now + seconds(20));
    assert_eq!(priority.standing(now + seconds(29)), Eligibility::Able(100));
    assert_eq!(priority.standing(now + seconds(30)), Eligibility::Able(120));
    assert_eq!(priority.next_deadline(), None);
}

#[test]
fn saying_the_same_again_does_not_start_over() {
    let now = start();
    let mut priority = Priority::new(settings());
    priority.observe("proxy", true, now);
    for second in 0..2 {
        priority.observe("proxy", false, now + seconds(second));
        assert_eq!(
            priority.standing(now + seconds(second)),
            Eligibility::Able(100)
        );
    }
    assert_eq!(priority.standing(now + seconds(2)), Eligibility::Able(1));
}

#[test]
fn who_cannot_serve_yields_or_lets_go() {
    let now = start();
    for (when_unable, expected) in [
        (WhenUnable::Yield, Eligibility::Able(1)),
        (WhenUnable::Release, Eligibility::Unable),
    ] {
        let mut priority = Priority::new(PrioritySettings {
            when_unable,
            ..settings()
        });
        priority.observe("proxy", false, now);
        assert_eq!(priority.standing(now), expected);
        assert!(!priority.is_able());
        priority.observe("proxy", true, now);
        assert_eq!(priority.standing(now + seconds(9)), expected);
        assert_eq!(priority.standing(now + seconds(10)), Eligibility::Able(100));
    }
}

#[test]
fn after_a_move_only_cannot_serve_counts() {
    let now = start();
    let mut priority = Priority::new(settings());
    priority.observe("api", true, now);
    assert_eq!(priority.standing(now), Eligibility::Able(120));
    priority.moved(now);
    priority.observe("api", false, now);
    assert_eq!(priority.standing(now + seconds(29)), Eligibility::Able(120));
    assert_eq!(priority.next_deadline(), Some(now + seconds(30)));
    assert_eq!(priority.standing(now + seconds(30)), Eligibility::Able(100));

    priority.moved(now + seconds(40));
    priority.observe("proxy", false, now + seconds(41));
    assert_eq!(priority.standing(now + seconds(41)), Eligibility::Able(1));
    // It can again, and waits for the end.
    priority.observe("proxy", true, now + seconds(42));
    assert_eq!(priority.standing(now + seconds(69)), Eligibility::Able(1));
    assert_eq!(priority.standing(now + seconds(70)), Eligibility::Able(100));
}

#[test]
fn priorities_stay_within_what_a_router_may_have() {
    let now = start();
    let with = |base, weight: i16, good| {
        let mut priority = Priority::new(PrioritySettings {
            base,
            tracked: vec![tracked("it", Effect::Weight(weight))],
            ..settings()
        });
        priority.observe("it", good, now);
        priority.standing(now)
    };
    assert_eq!(with(100, 254, true), Eligibility::Able(254));
    // 1 is what who cannot serve has.
    assert_eq!(with(100, -254, false), Eligibility::Able(2));
    assert_eq!(with(1, -254, false), Eligibility::Able(1));
    assert_eq!(with(255, -254, false), Eligibility::Able(255));
    assert_eq!(with(100, -254, true), Eligibility::Able(100));
    assert_eq!(with(100, 254, false), Eligibility::Able(100));
}

#[test]
fn an_edit_keeps_what_is_known() {
    let now = start();
    let mut priority = Priority::new(settings());
    priority.observe("proxy", false, now);
    priority.observe("api", true, now);
    let mut edited = settings();
    edited.base = 50;
    edited.tracked.remove(2);
    edited.tracked.swap(0, 1);
    edited.when_unable = WhenUnable::Release;
    priority.reconfigure(edited);
    assert_eq!(priority.standing(now), Eligibility::Unable);
    priority.observe("proxy", true, now);
    assert_eq!(priority.standing(now + seconds(10)), Eligibility::Able(70));
}

/// A node whose API flaps faster than it rises stays where it is.
#[test]
fn what_flaps_moves_nothing() {
    let now = start();
    let mut priority = Priority::new(settings());
    priority.observe("proxy", true, now);
    priority.observe("proxy", false, now + seconds(1));
    let mut changes = 0;
    let mut last = priority.standing(now + seconds(1));
    for second in 2..120 {
        priority.observe("proxy", second % 6 == 0, now + seconds(second));
        let standing = priority.standing(now + seconds(second));
        changes += u32::from(standing != last);
        last = standing;
    }
    assert_eq!(changes, 1);
    assert_eq!(last, Eligibility::Able(1));
}
