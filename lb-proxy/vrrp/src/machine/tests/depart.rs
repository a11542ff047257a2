//! How addresses go to another router.

use super::*;

/// What a router does that hands over, at the end.
const LEFT: &str =
    "reset 100, remove 100, send 1, active > initialize: handed over to 192.168.7.13, stopped";

#[test]
fn handing_over_keeps_the_address_until_the_next_router_has_announced_it() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.tell(Input::Shutdown(Departure::HandOver)),
        "report HandOverStarted, send 0"
    );
    assert_eq!(bench.machine.status().priority, 0);
    assert_eq!(bench.pass(millis(600)), "");
    assert_eq!(bench.hear(LOWER, 50), "");
    assert_eq!(bench.machine.state(), State::Active);
    bench.pass(millis(40));
    assert_eq!(bench.claimed(100), "");
    // For what is on its way to this node.
    assert_eq!(bench.until_deadline(), millis(10));
    assert_eq!(bench.wait_out(), LEFT);
    assert_eq!(bench.machine.next_deadline(), None);
}

#[test]
fn an_announcement_that_comes_before_the_advertisement_counts() {
    let mut bench = Bench::leaving(settings());
    bench.pass(millis(600));
    assert_eq!(bench.claimed(100), "");
    assert_eq!(bench.machine.state(), State::Active);
    assert_eq!(bench.hear(LOWER, 50), "");
    assert_eq!(bench.until_deadline(), millis(10));
}

#[test]
fn every_address_has_to_be_announced() {
    let mut settings = settings();
    settings.addresses.push(address(101));
    let mut bench = Bench::leaving(settings);
    bench.pass(millis(600));
    bench.hear(LOWER, 50);
    bench.claimed(100);
    assert_eq!(bench.until_deadline(), millis(250));
    bench.claimed(100);
    assert_eq!(bench.until_deadline(), millis(250));
    bench.claimed(101);
    assert_eq!(bench.until_deadline(), millis(10));
}

#[test]
fn an_heir_that_announces_nothing_is_not_waited_for_for_long() {
    let mut bench = Bench::leaving(settings());
    bench.pass(millis(600));
    bench.hear(LOWER, 50);
    assert_eq!(bench.pass(millis(249)), "");
    assert_eq!(bench.wait_out(), LEFT);
    // Nor longer than half of a short interval.
    let mut settings = settings();
    settings.interval = millis(100);
    let mut bench = Bench::leaving(settings);
    bench.pass(millis(60));
    bench.hear(LOWER, 50);
    assert_eq!(bench.until_deadline(), millis(50));
    bench.claimed(100);
    assert_eq!(bench.until_deadline(), millis(10));
}

/// The last word is there so that the heir announces itself again, not to make it yield.
#[test]
fn the_last_word_is_lower_than_the_heir() {
    for (heir, is_said) in [(HIGHER, true), (LOWER, false)] {
        let mut bench = Bench::leaving(settings());
        bench.pass(millis(600));
        bench.hear(heir, 1);
        let said = bench.wait_out();
        assert_eq!(said.contains("send 1,"), is_said, "{said}");
        assert!(said.ends_with("stopped"), "{said}");
    }
}

#[test]
fn the_last_word_of_another_is_answered_and_no_trouble() {
    let mut bench = Bench::active(settings());
    assert_eq!(bench.hear(LOWER, 1), "send 100, announce 100 x5");
}

#[test]
fn a_router_that_never_heard_anybody_waits_for_one_skew_time() {
    let mut bench = Bench::leaving(settings());
    assert_eq!(bench.until_deadline(), millis(1_500));
    assert_eq!(
        bench.wait_out(),
        "report LeftAlone, reset 100, remove 100, active > initialize: stopped, stopped"
    );
    // Of version 2 it is part of a second, whatever the interval.
    let mut settings = settings();
    settings.version = Version::V2;
    settings.interval = Duration::from_secs(4);
    let bench = Bench::leaving(settings);
    assert_eq!(bench.until_deadline(), Duration::from_secs(3));
}

#[test]
fn a_router_that_has_heard_others_asks_again_until_they_must_have_missed_it() {
    let mut bench = Bench::backup(settings());
    bench.hear(HIGHER, 200);
    bench.wait_out();
    bench.pass(millis(6_500));
    bench.tell(Input::Shutdown(Departure::HandOver));
    let said = bench.pass(millis(5_000));
    assert_eq!(said.matches("send 0").count(), 2, "{said}");
    assert!(
        said.ends_with(
            "report HandOverTimedOut, reset 100, remove 100, active > initialize: stopped, stopped"
        ),
        "{said}"
    );
}

#[test]
fn a_second_order_to_stop_does_not_wait() {
    let mut bench = Bench::leaving(settings());
    // The others wait their skew time already, and would begin anew.
    assert_eq!(
        bench.tell(Input::Shutdown(Departure::Release)),
        "reset 100, remove 100, active > initialize: stopped, stopped"
    );
}

/// A rival that has just yielded may be heard once more after this router has begun to leave.
#[test]
fn a_rival_s_last_words_are_no_takeover() {
    let mut bench = Bench::active(settings());
    bench.hear(LOWER, 50);
    bench.tell(Input::Shutdown(Departure::HandOver));
    assert_eq!(bench.hear(LOWER, 50), "");
    assert_eq!(bench.pass(millis(749)), "");
    assert_eq!(bench.hear(LOWER, 50), "");
    // One that is active answers.
    assert_eq!(bench.wait_out(), "send 0");
    assert_eq!(bench.hear(LOWER, 50), "");
    assert_eq!(bench.wait_out(), LEFT);
}

#[test]
fn who_has_just_been_replaced_is_no_heir_either() {
    let mut bench = Bench::backup(settings());
    bench.hear(LOWER, 50);
    bench.wait_out();
    bench.tell(Input::Shutdown(Departure::HandOver));
    bench.hear(LOWER, 50);
    assert!(!bench.is_succeeded());
    bench.pass(millis(750));
    bench.hear(LOWER, 50);
    assert!(bench.is_succeeded());
}

#[test]
fn two_that_hand_over_do_not_answer_each_other() {
    let mut bench = Bench::leaving(settings());
    assert_eq!(bench.hear(HIGHER, 0), "");
    assert_eq!(bench.hear(LOWER, 0), "");
}

#[test]
fn an_active_router_answers_one_that_stops_and_announces_itself() {
    let mut bench = Bench::active(settings());
    assert_eq!(bench.hear(LOWER, 0), "send 100, announce 100 x5");
}

#[test]
fn a_leaving_router_that_was_silent_for_too_long_is_gone() {
    let mut bench = Bench::leaving(settings());
    bench.oversleep(millis(3_000));
    assert_eq!(
        bench.tell(Input::Deadline),
        "report Paused, reset 100, remove 100, active > initialize: was paused, stopped"
    );
}

#[test]
fn a_router_that_yields_keeps_the_address_until_it_is_announced() {
    let mut bench = Bench::yielding(settings());
    assert_eq!(bench.until_deadline(), millis(250));
    assert_eq!(bench.pass(millis(40)), "");
    // It does not defend what it gives up.
    assert_eq!(bench.claimed(100), "");
    assert_eq!(bench.until_deadline(), millis(10));
    assert_eq!(
        bench.wait_out(),
        "reset 100, remove 100, send 100, active > backup: 192.168.7.15 has a higher priority"
    );
    // Since the heir was heard.
    assert_eq!(bench.until_deadline() + millis(50), DOWN);
    let active = bench.machine.status().active.unwrap();
    assert_eq!((active.source, active.priority), (ip(HIGHER), 200));
}

#[test]
fn a_router_that_yields_can_be_told_to_end() {
    let mut bench = Bench::yielding(settings());
    assert_eq!(bench.tell(Input::Shutdown(Departure::HandOver)), "");
    bench.claimed(100);
    assert_eq!(
        bench.wait_out(),
        "reset 100, remove 100, send 1, active > initialize: handed over to 192.168.7.15, stopped"
    );
}

//--- Over IPv6

const VIP_6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100));

#[test]
fn an_address_of_ipv6_is_kept_until_the_heir_s_kernel_surely_has_it() {
    let mut bench = Bench::leaving(settings_6());
    bench.pass(millis(600));
    assert_eq!(bench.hear(LOWER_6, 50), "");
    // Clients come back, however often it is said.
    for _ in 0..5 {
        assert_eq!(bench.claimed_this(VIP_6), "announce 100 x1");
    }
    assert_eq!(bench.until_deadline(), millis(125));
    assert_eq!(bench.wait_out(), "send 1");
    assert_eq!(bench.machine.state(), State::Active);
    // From here on it is the heir's.
    assert_eq!(bench.hear(LOWER_6, 50), "");
    assert_eq!(bench.claimed_this(VIP_6), "");
    assert_eq!(bench.until_deadline(), millis(10));
    assert_eq!(
        bench.wait_out(),
        "reset 100, remove 100, send 1, active > initialize: handed over to fe80::13, stopped"
    );
}

#[test]
fn a_router_that_yields_keeps_an_address_of_ipv6_too() {
    let mut bench = Bench::active(settings_6());
    assert_eq!(bench.hear(HIGHER_6, 200), "send 100");
    assert_eq!(bench.until_deadline(), millis(250));
    assert_eq!(bench.claimed_this(VIP_6), "announce 100 x1");
    assert_eq!(bench.wait_out(), "send 100");
    bench.claimed_this(VIP_6);
    assert_eq!(
        bench.wait_out(),
        "reset 100, remove 100, send 100, active > backup: fe80::15 has a higher priority"
    );
}

#[test]
fn an_announcement_of_ipv6_before_the_advertisement_is_taken_back_with_it() {
    let mut bench = Bench::leaving(settings_6());
    bench.pass(millis(600));
    assert_eq!(bench.claimed_this(VIP_6), "");
    assert_eq!(bench.hear(LOWER_6, 50), "announce 100 x1");
    assert_eq!(bench.until_deadline(), millis(125));
}

#[test]
fn an_heir_that_does_not_announce_an_address_of_ipv6_again_is_not_waited_for_for_long() {
    let mut bench = Bench::leaving(settings_6());
    bench.pass(millis(600));
    bench.hear(LOWER_6, 50);
    bench.claimed_this(VIP_6);
    assert_eq!(bench.wait_out(), "send 1");
    assert_eq!(bench.until_deadline(), millis(125));
    assert!(bench.wait_out().ends_with("stopped"));
    // Nor is one that defends itself answered for ever.
    let mut bench = Bench::leaving(settings_6());
    bench.pass(millis(600));
    bench.hear(LOWER_6, 50);
    let taken_back = (0..100).filter(|_| !bench.claimed_this(VIP_6).is_empty());
    assert_eq!(taken_back.count(), 16);
    assert_eq!(bench.until_deadline(), millis(125));
}

/// Its predecessor keeps the address for a moment, and says so.
#[test]
fn who_has_just_taken_over_an_address_of_ipv6_does_not_defend_it() {
    let mut bench = Bench::backup(settings_6());
    bench.wait_out();
    assert_eq!(bench.machine.state(), State::Active);
    bench.oversleep(millis(400));
    assert_eq!(bench.claimed_this(VIP_6), "");
    bench.oversleep(millis(200));
    assert_eq!(
        bench.claimed_this(VIP_6),
        "report Duplicate, send 100, announce 100 x1"
    );
}
