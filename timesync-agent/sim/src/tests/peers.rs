//! Nodes in symmetric mode.

use super::*;

/// Node 0 is the peer of node 1, which has a server or not; `is_mutual` if node 1 has it as its peer, too.
fn peers(has_server: bool, is_mutual: bool, polls: (i8, i8), seed: u64) -> World {
    let mut world = World::new(seed, Network::new(lan()));
    for (host, (offset, frequency)) in [(0.3, 30e-6), (0.0, -20e-6)].iter().enumerate() {
        let clock = LocalClock::new(*offset, *frequency, 1e-9);
        let mut settings = asking((2..3).filter(|_| host == 1 && has_server));
        if host == 0 || is_mutual {
            let mut peer = source(1 - host, &options());
            peer.is_peer = true;
            (peer.options.minpoll, peer.options.maxpoll) = polls;
            settings.sources.push(peer);
        }
        if host == 1 && !has_server {
            settings.local = Some(Local::default());
        }
        let node = Node::new(&settings, host, seed + host as u64, clock.reading());
        world.add(clock, Box::new(node));
    }
    world.add(LocalClock::perfect(), perfect(Leap::Normal, seed));
    world
}

/// The largest offset between the first two hosts from a second on, and steps of theirs.
#[derive(Debug, Default)]
struct Apart {
    since: f64,
    own: f64,
    largest: f64,
    n_steps: usize,
}

impl Observer for Apart {
    fn second(&mut self, now: f64, host: HostId, offset: f64, _frequency: f64) {
        match host {
            0 => self.own = offset,
            1 if now > self.since => self.largest = self.largest.max((offset - self.own).abs()),
            _ => {}
        }
    }

    fn stepped(&mut self, _now: f64, _host: HostId, _span: Span) {
        self.n_steps += 1;
    }
}

#[test]
fn sim_a_peer_follows_the_one_that_has_the_better_time() {
    for seed in seeds(2) {
        for polls in [(2, 4), (4, 6), (6, 10)] {
            for (has_server, is_mutual) in [(true, true), (true, false), (false, true)] {
                let mut world = peers(has_server, is_mutual, polls, seed);
                let mut apart = Apart {
                    since: 3000.0,
                    ..Apart::default()
                };
                world.run(9000.0, &mut apart);
                let what = format!("{polls:?}, server {has_server}, mutual {is_mutual}, {seed}");
                assert!(apart.largest < 200e-6, "{what}: {apart:?}");
                assert_eq!(apart.n_steps, 0, "{what}");
                // Node 1 has no use for the time of node 0, which has it from there.
                let expected = if has_server { [3, 2] } else { [11, 10] };
                assert_eq!(strata_of(&world, 2), expected, "{what}");
                let least = if polls.1 == 10 { 9 } else { 140 };
                assert!(
                    world.n_requests(0) >= least,
                    "{what}: {}",
                    world.n_requests(0)
                );
            }
        }
    }
}

#[test]
fn a_peer_that_dies_and_returns_is_followed_again() {
    let away = Path {
        outage: Some((2000.0, 3000.0)),
        ..lan()
    };
    let mut world = peers(true, true, (2, 4), 3);
    world.network().set(0, 1, away);
    let mut watch = Watch::default();
    world.run(1990.0, &mut watch);
    let state = |world: &World| world.timekeeper(0).unwrap().state(world.reading(0));
    assert_eq!(state(&world), ClockState::Locked);
    world.run(2990.0, &mut watch);
    assert_eq!(state(&world), ClockState::Holdover);
    world.run(3200.0, &mut watch);
    assert_eq!(state(&world), ClockState::Locked);
    assert_eq!(watch.steps, []);
    assert!(world.offset(0).abs() < 100e-6, "{}", world.offset(0));
}
