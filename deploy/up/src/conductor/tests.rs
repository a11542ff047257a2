//! The conductor, told stories.

use super::Service::{
    Clusterd, DnsAuthd, DnsRecursor, Healthd, LbProxy, RegistrySvc, TimesyncAgent,
};
use super::*;

/// A step of a story: what happens so many milliseconds after the start.
enum Step {
    Told(Input),
    Clock,
}

#[expect(clippy::disallowed_methods, reason = "any moment will do")]
fn moment() -> Instant {
    Instant::now()
}

/// Plays a story and gives the outputs in words.
fn play(steps: Vec<(u64, Step)>) -> Vec<String> {
    play_with(Conductor::new(|service| service != Clusterd), steps)
}

fn play_with(mut conductor: Conductor, steps: Vec<(u64, Step)>) -> Vec<String> {
    let start = moment();
    let mut words = Vec::new();
    for (at, step) in steps {
        let now = start + Duration::from_millis(at);
        match step {
            Step::Told(input) => conductor.handle(input, now),
            Step::Clock => {
                let deadline = conductor.next_deadline().expect("a deadline is armed");
                assert_eq!(
                    (deadline - start).as_millis(),
                    u128::from(at),
                    "the armed deadline"
                );
                conductor.handle_deadline(now);
            }
        }
        while let Some(output) = conductor.poll_output() {
            words.push(match output {
                Output::Spawn(service) => format!("spawn {service}"),
                Output::Terminate(service) => format!("terminate {service}"),
                Output::Kill(service) => format!("kill {service}"),
                Output::Finished => "finished".to_owned(),
                Output::Tell(event) => format!("{}: {event}", event.subject()),
            });
        }
    }
    words
}

fn told(at: u64, input: Input) -> (u64, Step) {
    (at, Step::Told(input))
}

/// All services started and ready within 60 ms.
fn running() -> Vec<(u64, Step)> {
    vec![
        told(0, Input::Begin),
        told(10, Input::Ready(Healthd)),
        told(20, Input::Ready(DnsAuthd)),
        told(30, Input::Ready(DnsRecursor)),
        told(40, Input::Ready(LbProxy)),
        told(50, Input::Ready(RegistrySvc)),
        told(60, Input::Ready(TimesyncAgent)),
    ]
}

fn after_running(more: Vec<(u64, Step)>) -> Vec<String> {
    let mut steps = running();
    steps.extend(more);
    play(steps).split_off(12)
}

#[test]
fn each_service_starts_when_the_one_before_is_ready() {
    assert_eq!(
        play(running()),
        [
            "spawn healthd",
            "healthd: ready after 0.01 s",
            "spawn dns-authd",
            "dns-authd: ready after 0.01 s",
            "spawn dns-recursor",
            "dns-recursor: ready after 0.01 s",
            "spawn lb-proxy",
            "lb-proxy: ready after 0.01 s",
            "spawn registry-svc",
            "registry-svc: ready after 0.01 s",
            "spawn timesync-agent",
            "timesync-agent: ready after 0.01 s",
        ]
    );
}

#[test]
fn a_service_that_is_slow_to_be_ready_holds_nobody_up_for_long() {
    assert_eq!(
        play(vec![
            told(0, Input::Begin),
            (3_000, Step::Clock),
            (6_000, Step::Clock),
            (9_000, Step::Clock),
            (12_000, Step::Clock),
            (15_000, Step::Clock),
            told(15_100, Input::Ready(Healthd)),
        ]),
        [
            "spawn healthd",
            "spawn dns-authd",
            "spawn dns-recursor",
            "spawn lb-proxy",
            "spawn registry-svc",
            "spawn timesync-agent",
            "healthd: ready after 15.10 s"
        ]
    );
}

#[test]
fn stop_goes_in_reverse_and_waits_for_each() {
    assert_eq!(
        after_running(vec![
            told(100, Input::Stop),
            told(105, Input::Ended(TimesyncAgent, Ending::Code(0))),
            told(110, Input::Ended(RegistrySvc, Ending::Code(0))),
            told(120, Input::Ended(LbProxy, Ending::Code(0))),
            told(150, Input::Ended(DnsRecursor, Ending::Code(0))),
            told(200, Input::Ended(DnsAuthd, Ending::Code(0))),
            told(250, Input::Ended(Healthd, Ending::Code(0))),
        ]),
        [
            "terminate timesync-agent",
            "timesync-agent: stopped",
            "terminate registry-svc",
            "registry-svc: stopped",
            "terminate lb-proxy",
            "lb-proxy: stopped",
            "terminate dns-recursor",
            "dns-recursor: stopped",
            "terminate dns-authd",
            "dns-authd: stopped",
            "terminate healthd",
            "healthd: stopped",
            "finished",
        ]
    );
}

#[test]
fn a_service_that_does_not_stop_is_killed() {
    assert_eq!(
        after_running(vec![
            told(100, Input::Stop),
            (4_100, Step::Clock),
            told(4_110, Input::Ended(TimesyncAgent, Ending::Signal(9))),
        ]),
        [
            "terminate timesync-agent",
            "kill timesync-agent",
            "timesync-agent: did not stop in time: killed",
            "timesync-agent: stopped",
            "terminate registry-svc",
        ]
    );
}

#[test]
fn who_does_not_want_to_wait_has_everything_killed() {
    let words = after_running(vec![told(100, Input::Stop), told(110, Input::Hurry)]);
    for service in Service::ALL {
        if service == Clusterd {
            continue;
        }
        assert!(words.contains(&format!("kill {service}")), "{words:?}");
    }
}

#[test]
fn clusterd_runs_between_healthd_and_dns_authd_where_it_runs() {
    let two = |service| matches!(service, Healthd | Clusterd | DnsAuthd);
    let words = play_with(
        Conductor::new(two),
        vec![
            told(0, Input::Begin),
            told(10, Input::Ready(Healthd)),
            told(20, Input::Ready(Clusterd)),
            told(30, Input::Restart(LbProxy)),
            told(40, Input::Stop),
            told(50, Input::Ended(DnsAuthd, Ending::Code(0))),
            told(60, Input::Ended(Clusterd, Ending::Code(0))),
            told(70, Input::Ended(Healthd, Ending::Code(0))),
        ],
    );
    assert_eq!(
        words,
        [
            "spawn healthd",
            "healthd: ready after 0.01 s",
            "spawn clusterd",
            "clusterd: ready after 0.01 s",
            "spawn dns-authd",
            "terminate dns-authd",
            "dns-authd: stopped",
            "terminate clusterd",
            "clusterd: stopped",
            "terminate healthd",
            "healthd: stopped",
            "finished",
        ]
    );
}

#[test]
fn a_second_stop_changes_nothing() {
    assert_eq!(
        after_running(vec![told(100, Input::Stop), told(110, Input::Stop)]),
        ["terminate timesync-agent"]
    );
}

#[test]
fn a_dead_service_starts_again_after_a_pause_that_doubles() {
    let died = |at| told(at, Input::Ended(DnsAuthd, Ending::Signal(9)));
    assert_eq!(
        after_running(vec![
            died(1_000),
            (1_200, Step::Clock),
            died(1_300),
            (1_700, Step::Clock),
            died(1_800),
            (2_600, Step::Clock),
            told(2_700, Input::Ready(DnsAuthd)),
            died(13_000),
        ]),
        [
            "dns-authd: ended (killed); starts again in 0.2 s",
            "spawn dns-authd",
            "dns-authd: ended (killed); starts again in 0.4 s",
            "spawn dns-authd",
            "dns-authd: ended (killed); starts again in 0.8 s",
            "spawn dns-authd",
            "dns-authd: ready after 0.10 s",
            "dns-authd: ended (killed); starts again in 0.2 s",
        ]
    );
}

#[test]
fn the_pause_has_an_upper_bound() {
    assert_eq!(pause(1), Duration::from_millis(200));
    assert_eq!(pause(5), Duration::from_millis(3_200));
    assert_eq!(pause(6), LONGEST_PAUSE);
    assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
}

#[test]
fn a_refused_configuration_stops_everything_at_once() {
    assert_eq!(
        play(vec![
            told(0, Input::Begin),
            told(10, Input::Ready(Healthd)),
            told(20, Input::Ended(DnsAuthd, Ending::Code(78))),
            told(30, Input::Ended(Healthd, Ending::Code(0))),
        ])
        .split_off(3),
        [
            "dns-authd: does not start (exit code 78, configuration refused)",
            "terminate healthd",
            "healthd: stopped",
            "finished",
        ]
    );
}

#[test]
fn a_service_that_never_was_ready_gets_three_attempts() {
    let died = |at| told(at, Input::Ended(Healthd, Ending::Code(70)));
    assert_eq!(
        play(vec![
            told(0, Input::Begin),
            died(10),
            (210, Step::Clock),
            died(220),
            (620, Step::Clock),
            died(630),
        ])
        .split_off(4),
        [
            "spawn healthd",
            "healthd: does not start (exit code 70, internal error)",
            "finished"
        ]
    );
}

#[test]
fn a_restart_stops_and_starts_one_service_only() {
    assert_eq!(
        after_running(vec![
            told(100, Input::Restart(DnsAuthd)),
            told(101, Input::Restart(DnsAuthd)),
            told(200, Input::Ended(DnsAuthd, Ending::Code(0))),
            told(300, Input::Ready(DnsAuthd)),
        ]),
        [
            "dns-authd: stopping, to start again",
            "terminate dns-authd",
            "spawn dns-authd",
            "dns-authd: ready after 0.10 s",
        ]
    );
}

#[test]
fn a_restart_cuts_a_pause_short() {
    assert_eq!(
        after_running(vec![
            told(100, Input::Ended(DnsAuthd, Ending::Signal(11))),
            told(110, Input::Restart(DnsAuthd)),
        ]),
        [
            "dns-authd: ended (segmentation fault); starts again in 0.2 s",
            "spawn dns-authd"
        ]
    );
}

#[test]
fn a_stop_during_a_restart_does_not_start_it_again() {
    assert_eq!(
        after_running(vec![
            told(100, Input::Restart(TimesyncAgent)),
            told(110, Input::Stop),
            told(120, Input::Ended(TimesyncAgent, Ending::Code(0))),
        ])
        .split_off(2),
        ["timesync-agent: stopped", "terminate registry-svc"]
    );
}

#[test]
fn a_stop_during_a_pause_waits_for_nothing() {
    assert_eq!(
        play(vec![
            told(0, Input::Begin),
            told(10, Input::Ended(Healthd, Ending::Signal(9))),
            told(20, Input::Stop),
        ])
        .split_off(2),
        ["finished"]
    );
}

#[test]
fn a_late_word_of_readiness_from_a_dead_service_changes_nothing() {
    assert_eq!(
        after_running(vec![
            told(100, Input::Ended(DnsAuthd, Ending::Signal(9))),
            told(101, Input::Ready(DnsAuthd)),
        ]),
        ["dns-authd: ended (killed); starts again in 0.2 s"]
    );
}

/// Numbers that look random and depend on the seed alone (Knuth's 64-bit multiplier).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[test]
fn whatever_happens_no_service_runs_twice_and_the_end_comes() {
    for seed in 0..300_u64 {
        let mut dice = Dice(seed);
        let mut now = moment();
        let mut conductor = Conductor::new(|service| service != Clusterd || seed % 2 == 0);
        let mut alive = PerService::<bool>::default();
        let mut finished = false;
        conductor.handle(Input::Begin, now);
        for step in 0..400 {
            while let Some(output) = conductor.poll_output() {
                assert!(!finished, "output after the end: seed {seed} step {step}");
                match output {
                    Output::Spawn(service) => {
                        let before = std::mem::replace(alive.of_mut(service), true);
                        assert!(!before, "{service} runs twice: seed {seed} step {step}");
                    }
                    Output::Terminate(service) | Output::Kill(service) => {
                        assert!(
                            *alive.of(service),
                            "{service} is gone: seed {seed} step {step}"
                        );
                    }
                    Output::Finished => finished = true,
                    Output::Tell(_) => {}
                }
            }
            if finished {
                let left = alive.iter().find(|(_, alive)| **alive);
                assert_eq!(left, None, "something is left: seed {seed} step {step}");
            }
            let service = Service::ALL[usize::try_from(dice.roll(4)).unwrap()];
            now += Duration::from_millis(dice.roll(2_000));
            match dice.roll(10) {
                0..3 => conductor.handle(Input::Ready(service), now),
                3..6 if *alive.of(service) => {
                    *alive.of_mut(service) = false;
                    let ending = [Ending::Code(0), Ending::Code(70), Ending::Signal(9)]
                        [usize::try_from(dice.roll(3)).unwrap()]
                    .clone();
                    conductor.handle(Input::Ended(service, ending), now);
                }
                6 => conductor.handle(Input::Restart(service), now),
                7 if step > 350 => conductor.handle(Input::Stop, now),
                8 if conductor.is_stopping() => conductor.handle(Input::Hurry, now),
                _ => conductor.handle_deadline(now),
            }
        }
        // From here on everything that is told to stop stops.
        conductor.handle(Input::Stop, now);
        for _ in 0..20 {
            for service in Service::ALL {
                let leaving = matches!(conductor.phase(service), Phase::Leaving { .. });
                if leaving && std::mem::take(alive.of_mut(service)) {
                    conductor.handle(Input::Ended(service, Ending::Code(0)), now);
                }
            }
            while let Some(output) = conductor.poll_output() {
                if let Output::Spawn(service) = output {
                    *alive.of_mut(service) = true;
                }
                finished |= output == Output::Finished;
            }
        }
        assert!(finished, "no end: seed {seed}: {conductor:?}");
    }
}
