use std::sync::Mutex;

use balance::pool::{Algorithm, Eligibility, Registry, ServerSettings, Settings as PoolSettings};
use balance::table::{Route, Sources};

use super::*;

/// Flows with their servers and a clock.
pub(super) struct World {
    pub(super) flows: Flows,
    pub(super) now: Instant,
    registry: Mutex<Registry>,
}

const UP: Eligibility = Eligibility::Up { since: None };

impl World {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        let now = start();
        Self {
            flows: Flows::new(settings, frontend(Sources::default()), seed, now),
            now,
            registry: Mutex::new(Registry::new()),
        }
    }

    fn with(settings: Settings, eligibilities: &[Eligibility]) -> Self {
        let mut world = Self::new(settings, 1);
        world.serve(eligibilities);
        world
    }

    /// The servers `s0`, `s1` and so on stand like this.
    pub(super) fn serve(&mut self, eligibilities: &[Eligibility]) {
        let pool = self.pool(eligibilities, false);
        let frontend = Arc::clone(self.flows.frontend());
        self.flows.handle_servers(frontend, Some(&pool));
    }

    pub(super) fn pool(&self, eligibilities: &[Eligibility], fail_open: bool) -> Arc<Pool> {
        let mut settings = PoolSettings::new("dns");
        settings.algorithm = Algorithm::RoundRobin;
        settings.fail_open = fail_open;
        settings.servers = (1..)
            .zip(eligibilities)
            .map(|(port, eligibility)| {
                let address = SocketAddr::from(([10, 0, 0, 1], port));
                let mut server = ServerSettings::new(format!("s{}", port - 1), address);
                server.eligibility = *eligibility;
                server
            })
            .collect();
        self.registry.lock().unwrap().pool(settings)
    }

    fn request(&mut self, client: u16) -> String {
        self.flows
            .handle_request(address(client), None, 1, self.now);
        self.outputs()
    }

    fn response(&mut self, index: u32, generation: u32) -> String {
        self.flows
            .handle_response(FlowId { index, generation }, 1, self.now);
        self.outputs()
    }

    fn pass(&mut self, time: Duration) -> String {
        self.now += time;
        self.flows.handle_timeout(self.now);
        self.outputs()
    }

    /// What is to be done, in words: `open 0.0 s1`, with index and generation of the flow.
    fn outputs(&mut self) -> String {
        let mut words = Vec::new();
        while let Some(output) = self.flows.poll_output() {
            let id = |flow: FlowId| format!("{}.{}", flow.index, flow.generation);
            words.push(match output {
                Output::Open { flow, server } => format!("open {} {}", id(flow), server.name),
                Output::Forward { flow } => format!("forward {}", id(flow)),
                Output::Close { flow, reason } => format!("close {} {reason:?}", id(flow)),
                Output::Drop(dropped) => format!("drop {dropped:?}"),
                Output::Refused { server } => format!("refused {}", server.name),
            });
        }
        self.flows.check_invariants();
        words.join(", ")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is no other way to an Instant"
)]
fn start() -> Instant {
    Instant::now()
}

pub(super) fn frontend(sources: Sources) -> Arc<Frontend> {
    let mut frontend = Frontend::new("dns", Vec::new(), Route::to(0));
    frontend.sources = sources;
    Arc::new(frontend)
}

pub(super) fn address(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from(([198, 51, high, low], 4000))
}

impl Flows {
    /// Panics when the parts do not fit together.
    pub(super) fn check_invariants(&self) {
        let mut index = self.newest;
        let (mut newer, mut n_linked, mut moved_at) = (NONE, 0, None::<Instant>);
        while let Some((_, flow)) = self.at(index) {
            assert_eq!(flow.newer, newer, "links point both ways");
            assert!(
                moved_at.is_none_or(|later| later >= flow.moved_at),
                "the order is that of time"
            );
            moved_at = Some(flow.moved_at);
            n_linked += 1;
            newer = index;
            index = flow.older;
        }
        assert_eq!(self.oldest, newer, "the last is the oldest");
        assert_eq!(n_linked, self.len(), "every flow is linked once");
        assert!(self.len() <= self.most(), "there are never too many");
        for (key, index) in &self.by_key {
            let (_, flow) = self.at(*index).expect("a key leads to a flow");
            assert_eq!(flow.key, *key, "a key leads to its own flow");
        }
        assert!(self.by_key.len() <= self.len());
        let sessions = self.frontend.tally.sessions.load(Ordering::Relaxed);
        assert_eq!(sessions, self.len() as u64, "sessions are counted");
        let mut of_servers: HashMap<u32, u32> = HashMap::new();
        for flow in self.list(self.now) {
            *of_servers.entry(flow.server.load.id()).or_default() += 1;
        }
        for flow in self.list(self.now) {
            let load = &flow.server.load;
            assert_eq!(load.sessions(), of_servers[&load.id()], "slots are kept");
        }
    }
}

#[test]
fn a_flow_stays_with_its_server() {
    let mut world = World::with(Settings::default(), &[UP, UP]);
    assert_eq!(world.request(1), "open 0.0 s0, forward 0.0");
    assert_eq!(world.request(2), "open 1.0 s1, forward 1.0");
    assert_eq!(world.request(1), "forward 0.0");
    assert_eq!(world.response(0, 0), "");
    assert_eq!(world.request(1), "forward 0.0");
    // The same client that sends to another address has another flow.
    let local = Some(IpAddr::from([192, 0, 2, 1]));
    world.flows.handle_request(address(1), local, 1, world.now);
    assert_eq!(world.outputs(), "open 2.0 s0, forward 2.0");
}

#[test]
fn a_flow_in_which_nothing_moves_ends() {
    let mut world = World::with(Settings::default(), &[UP]);
    let idle = Settings::default().idle_timeout;
    assert_eq!(world.flows.poll_timeout(), None);
    world.request(1);
    world.pass(idle / 2);
    world.request(2);
    assert_eq!(world.flows.poll_timeout(), Some(world.now + idle / 2));
    assert_eq!(world.pass(idle / 2), "close 0.0 Idle");
    // An answer counts as well.
    let almost = idle.saturating_sub(Duration::from_nanos(1));
    world.response(1, 0);
    assert_eq!(world.pass(almost), "");
    assert_eq!(world.pass(Duration::from_nanos(1)), "close 1.0 Idle");
    assert_eq!(world.request(1), "open 1.1 s0, forward 1.1");
    // What is late finds nobody.
    assert_eq!(world.response(1, 0), "");
}

#[test]
fn flows_of_a_server_that_goes_move_at_once() {
    for gone in [Eligibility::Down, Eligibility::Maintenance] {
        let mut world = World::with(Settings::default(), &[UP, UP]);
        world.request(1);
        world.request(2);
        world.serve(&[gone, UP]);
        assert_eq!(world.outputs(), "close 0.0 ServerGone");
        assert_eq!(world.request(1), "open 0.1 s1, forward 0.1");
    }
    let mut world = World::with(Settings::default(), &[UP, UP]);
    world.request(1);
    world.serve(&[Eligibility::Drain, UP]);
    assert_eq!(world.outputs(), "");
    assert_eq!(world.request(1), "forward 0.0");
    world.serve(&[]);
    assert_eq!(world.outputs(), "close 0.0 ServerGone");
    assert_eq!(world.request(1), "drop Nobody");
}

#[test]
fn with_fail_open_flows_stay_when_all_are_down() {
    let mut world = World::with(Settings::default(), &[UP]);
    world.request(1);
    let pool = world.pool(&[Eligibility::Down], true);
    let frontend = Arc::clone(world.flows.frontend());
    world.flows.handle_servers(frontend, Some(&pool));
    assert_eq!(world.outputs(), "");
    assert_eq!(world.request(2), "open 1.0 s0, forward 1.0");
}

#[test]
fn a_server_that_refuses_is_passed_over_for_a_while() {
    let mut world = World::with(Settings::default(), &[UP, UP]);
    world.request(1);
    let refused = FlowId {
        index: 0,
        generation: 0,
    };
    world.flows.handle_refused(refused, world.now);
    assert_eq!(world.outputs(), "close 0.0 Refused, refused s0");
    for client in 1..5 {
        assert!(world.request(client).contains(" s1,"));
    }
    world.pass(PASSED_OVER);
    let both = [world.request(5), world.request(6)].concat();
    assert!(both.contains("s0") && both.contains("s1"), "{both}");
    // Alone it is asked all the same.
    world.serve(&[UP]);
    world.outputs();
    world.request(7);
    let flow = world.flows.list(world.now).next().unwrap().id;
    world.flows.handle_refused(flow, world.now);
    world.outputs();
    assert!(world.request(8).contains("s0"));
}

#[test]
fn the_flow_that_was_idle_the_longest_makes_room() {
    let settings = Settings {
        max_flows: 2,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[UP]);
    world.request(1);
    world.request(2);
    world.request(1);
    assert_eq!(
        world.request(3),
        "close 1.0 Evicted, open 1.1 s0, forward 1.1"
    );
    world.flows.handle_exhausted(FlowId {
        index: 1,
        generation: 1,
    });
    assert_eq!(world.outputs(), "close 1.1 NoWay, close 0.0 Evicted");
    assert!(world.flows.is_empty());
}

#[test]
fn a_flow_is_complete_after_as_many_datagrams_as_there_may_be() {
    let responses = |responses| Settings {
        responses: Some(responses),
        ..Settings::default()
    };
    let mut world = World::with(responses(1), &[UP, UP]);
    world.request(1);
    world.request(1);
    assert_eq!(world.response(0, 0), "");
    assert_eq!(world.response(0, 0), "close 0.0 Complete");
    let mut world = World::with(responses(0), &[UP]);
    assert_eq!(
        world.request(1),
        "open 0.0 s0, forward 0.0, close 0.0 Complete"
    );
    let requests = Settings {
        requests: Some(2),
        ..Settings::default()
    };
    let mut world = World::with(requests, &[UP, UP]);
    world.request(1);
    assert_eq!(world.request(1), "forward 0.0");
    assert_eq!(world.request(1), "open 1.0 s1, forward 1.0");
    // The first still gets its answers.
    assert_eq!(world.response(0, 0), "");
    assert_eq!(world.flows.len(), 2);
}

#[test]
fn sources_that_are_not_admitted_get_no_flow() {
    let mut world = World::with(Settings::default(), &[UP]);
    world.request(1);
    let denied = Sources {
        allow: None,
        deny: "198.51.0.0/16".parse().unwrap(),
    };
    let pool = world.pool(&[UP], false);
    world.flows.handle_servers(frontend(denied), Some(&pool));
    assert_eq!(world.outputs(), "close 0.0 Denied");
    assert_eq!(world.request(1), "drop Denied");
}

#[test]
fn a_flow_can_be_ended_by_hand() {
    let mut world = World::with(Settings::default(), &[UP]);
    world.request(1);
    let flow = world.flows.list(world.now).next().unwrap().id;
    assert_eq!(FlowId::from_bits(flow.to_bits()), flow);
    world.flows.handle_kill(flow);
    assert_eq!(world.outputs(), "close 0.0 Killed");
}

#[test]
fn flows_that_began_elsewhere_go_on_where_they_were() {
    let settings = Settings {
        max_flows: 3,
        requests: Some(5),
        ..Settings::default()
    };
    let mut world = World::with(settings, &[UP, UP, Eligibility::Drain, Eligibility::Down]);
    world.now += Duration::from_secs(100);
    let known = |client, server: u16, requests, idle| Known {
        client: address(client),
        local: None,
        server: format!("s{server}").into(),
        server_address: SocketAddr::from(([10, 0, 0, 1], server + 1)),
        requests,
        responses: 1,
        idle: Duration::from_secs(idle),
    };
    let flows = [
        known(1, 1, 1, 20),
        known(2, 2, 1, 10),
        // Their servers are down, gone, and elsewhere.
        known(3, 3, 1, 5),
        known(4, 9, 1, 5),
        Known {
            server_address: address(1),
            ..known(5, 1, 1, 5)
        },
        // Twice the same, and one that has had its requests.
        known(1, 0, 1, 1),
        known(6, 0, 5, 2),
    ];
    let now = world.now;
    let ids = world.flows.handle_adopted(&flows, now);
    let server = |id: &Option<FlowId>| {
        let server = world.flows.server((*id)?)?;
        Some(server.name.to_string())
    };
    let servers: Vec<_> = ids.iter().map(server).collect();
    let named = |name: &str| Some(name.to_owned());
    let expected = [
        named("s1"),
        named("s2"),
        None,
        None,
        None,
        None,
        named("s0"),
    ];
    assert_eq!(servers, expected);
    assert_eq!(world.outputs(), "");
    // The next datagram follows; where there were enough requests, it begins anew and makes room.
    assert_eq!(world.request(1), "forward 0.0");
    assert_eq!(world.request(2), "forward 1.0");
    assert!(world.request(6).starts_with("close 2.0 Evicted, open 2.1 "));
    // Idleness goes on too.
    assert_eq!(world.flows.list(now).count(), 3);
    let idle = world.flows.list(now).map(|flow| flow.idle).max();
    assert_eq!(idle, Some(Duration::ZERO));
}

#[test]
fn of_more_flows_than_there_may_be_those_that_were_idle_the_longest_end() {
    let settings = Settings {
        max_flows: 2,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[UP]);
    let known: Vec<Known> = (0..4)
        .map(|client| Known {
            client: address(client),
            local: None,
            server: "s0".into(),
            server_address: SocketAddr::from(([10, 0, 0, 1], 1)),
            requests: 1,
            responses: 0,
            idle: Duration::from_secs(client.into()),
        })
        .collect();
    let now = world.now;
    let ids = world.flows.handle_adopted(&known, now);
    let stay: Vec<bool> = ids.iter().map(Option::is_some).collect();
    assert_eq!(stay, [true, true, false, false]);
    assert_eq!(world.outputs(), "close 0.0 Evicted, close 1.0 Evicted");
    assert_eq!(world.flows.counts().evicted, 2);
}
