use super::*;

const TERM: Duration = Duration::from_secs(3);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three nodes whose messages arrive at once, unless one cannot be reached.
struct Site {
    nodes: Vec<Leases>,
    now: Instant,
    /// Nodes that no message reaches, and none leaves.
    cut: Vec<usize>,
    /// Nodes that no response reaches.
    deaf: Vec<usize>,
}

fn vip() -> Arc<str> {
    "vrid 51".into()
}

fn leases(node: usize, now: Instant) -> Leases {
    let peers: Vec<String> = others(node).map(|other| NAMES[other].to_owned()).collect();
    let mut leases = Leases::new(NAMES[node], &peers, now);
    leases.set_rule(Rule::Leases, now);
    leases
}

fn others(node: usize) -> impl Iterator<Item = usize> {
    (0..NAMES.len()).filter(move |other| *other != node)
}

impl Site {
    /// All have been there for long.
    fn new() -> Self {
        let now = start();
        let mut site = Self {
            nodes: (0..3).map(|node| leases(node, now)).collect(),
            now,
            cut: Vec::new(),
            deaf: Vec::new(),
        };
        site.now += QUIET;
        site
    }

    fn demand(&mut self, node: usize, priority: u8, preempts: bool) {
        let demand = self.demand_of(priority, preempts);
        self.nodes[node].demand(&vip(), demand, self.now);
        self.settle();
    }

    fn demand_of(&self, priority: u8, preempts: bool) -> Demand {
        Demand {
            wants: true,
            preempts,
            priority,
            term: TERM,
            holds_until: None,
            counts_until: self.now + 1000 * TERM,
        }
    }

    fn drop_demand(&mut self, node: usize) {
        let demand = Demand {
            wants: false,
            ..self.demand_of(100, false)
        };
        self.nodes[node].demand(&vip(), demand, self.now);
        self.settle();
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cut.contains(&one) || self.cut.contains(&other)
    }

    /// Carries messages until there are none.
    fn settle(&mut self) {
        while let Some((from, (peer, request))) = (0..3).find_map(|node| {
            let request = self.nodes[node].poll_request();
            request.map(|request| (node, request))
        }) {
            let to = others(from).nth(peer.0).unwrap();
            if self.is_cut(from, to) {
                continue;
            }
            let response = self.nodes[to].answer(NAMES[from], &request, self.now);
            if !self.deaf.contains(&from) {
                self.nodes[from].hear(peer, &response, self.now);
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(10);
            for node in &mut self.nodes {
                node.advance(self.now);
            }
            self.settle();
            self.holder();
        }
    }

    fn holder(&self) -> Option<usize> {
        let is_own = |node: &usize| {
            let state = self.nodes[*node].state(&vip(), self.now);
            matches!(state, State::Own { .. })
        };
        let holders: Vec<usize> = (0..3).filter(is_own).collect();
        assert!(holders.len() <= 1, "{holders:?}");
        holders.first().copied()
    }
}

#[expect(clippy::disallowed_methods, reason = "where time begins")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn the_first_that_asks_has_it_and_keeps_it_whatever_priority_another_has() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.pass(Duration::from_millis(10));
    assert_eq!(site.holder(), Some(0));
    site.demand(1, 250, false);
    site.pass(10 * TERM);
    assert_eq!(site.holder(), Some(0));
    let state = site.nodes[1].state(&vip(), site.now);
    let holder = NAMES[0].into();
    assert_eq!(
        state,
        State::Other {
            holder,
            priority: 100
        }
    );
}

#[test]
fn a_lease_has_the_term_that_was_asked_for_whatever_is_wanted_by_then() {
    let mut site = Site::new();
    let short = Demand {
        term: TERM / 3,
        ..site.demand_of(100, false)
    };
    site.nodes[0].demand(&vip(), short, site.now);
    site.settle();
    assert_eq!(site.holder(), Some(0));
    // The next round begins.
    site.now += 2 * round_time(TERM / 3);
    site.nodes[0].advance(site.now);
    let requests: Vec<_> = std::iter::from_fn(|| site.nodes[0].poll_request()).collect();
    assert_eq!(requests.len(), 2);
    let sent = site.now;
    // A longer term is wanted before the voters' answers are here.
    let long = site.demand_of(100, false);
    site.nodes[0].demand(&vip(), long, site.now);
    for (peer, request) in requests {
        let to = others(0).nth(peer.0).unwrap();
        let response = site.nodes[to].answer(NAMES[0], &request, site.now);
        site.nodes[0].hear(peer, &response, site.now);
    }
    let state = site.nodes[0].state(&vip(), site.now);
    let State::Own { until, .. } = state else {
        panic!("{state:?}");
    };
    assert_eq!(until, sent + horizon(TERM / 3));
}

#[test]
fn a_holder_learns_of_a_node_that_may_preempt_it() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.demand(1, 150, true);
    site.pass(TERM);
    let state = site.nodes[0].state(&vip(), site.now);
    assert!(
        matches!(
            state,
            State::Own {
                preempting: 150,
                ..
            }
        ),
        "{state:?}"
    );
    site.drop_demand(0);
    site.pass(TERM / 6);
    assert_eq!(
        site.holder(),
        Some(1),
        "a lease that is released is free at once"
    );
}

#[test]
fn a_lease_of_a_node_that_is_cut_off_is_free_within_a_term() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.pass(TERM);
    site.cut = vec![0];
    site.demand(1, 100, false);
    site.pass(horizon(TERM) + Duration::from_millis(20));
    assert_eq!(site.holder(), None);
    site.pass(TERM.saturating_sub(horizon(TERM)) + round_time(TERM) * 2);
    assert_eq!(site.holder(), Some(1));
    site.cut.clear();
    site.pass(5 * TERM);
    assert_eq!(site.holder(), Some(1));
}

#[test]
fn a_cut_between_the_holder_and_one_other_moves_nothing() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.pass(TERM);
    // It is reached by the third alone.
    site.cut = vec![1];
    site.pass(5 * TERM);
    assert_eq!(site.holder(), Some(0));
}

#[test]
fn voters_do_not_keep_a_lease_for_a_node_that_does_not_hear_them() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.pass(TERM);
    site.deaf = vec![0];
    site.demand(1, 100, false);
    site.pass(2 * TERM);
    assert_eq!(site.holder(), Some(1));
}

#[test]
fn a_voter_that_has_restarted_grants_the_lease_to_its_holder_alone() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.pass(TERM);
    // The holder's own healthd and another restart.
    for node in [0, 1] {
        site.nodes[node] = leases(node, site.now);
    }
    let holds = Demand {
        holds_until: Some(site.now + horizon(TERM)),
        ..site.demand_of(100, false)
    };
    site.demand(1, 200, false);
    assert_eq!(site.holder(), None);
    site.nodes[0].demand(&vip(), holds, site.now);
    site.pass(TERM);
    assert_eq!(site.holder(), Some(0));
}

#[test]
fn a_ballot_that_has_lost_is_tried_again_at_once() {
    let mut site = Site::new();
    site.demand(0, 100, false);
    site.pass(TERM);
    // The voters have promised numbers that the next candidate does not know.
    site.nodes[0].slots.get_mut(&vip()).unwrap().is_outbid = true;
    site.pass(TERM);
    site.drop_demand(0);
    site.demand(1, 100, false);
    assert_eq!(site.holder(), Some(1));
}

#[test]
fn a_candidate_that_is_not_answered_asks_and_outbids_nobody() {
    let mut site = Site::new();
    site.cut = vec![0, 1];
    site.demand(0, 100, false);
    site.pass(5 * TERM);
    let counter = site.nodes[0].slots[&vip()].counter;
    assert_eq!(counter, 1, "the first ballot, before it knew");
    site.cut.clear();
    site.pass(TERM / 4);
    assert_eq!(site.holder(), Some(0));
}

#[test]
fn a_proposal_without_a_majority_keeps_the_lease_from_nobody() {
    let mut site = Site::new();
    let demand = site.demand_of(100, false);
    site.nodes[0].demand(&vip(), demand, site.now);
    // Both others promise.
    let prepares: Vec<_> = std::iter::from_fn(|| site.nodes[0].poll_request()).collect();
    for (peer, request) in prepares {
        let to = others(0).nth(peer.0).unwrap();
        let response = site.nodes[to].answer(NAMES[0], &request, site.now);
        site.nodes[0].hear(peer, &response, site.now);
    }
    let proposals: Vec<_> = std::iter::from_fn(|| site.nodes[0].poll_request()).collect();
    assert!(
        proposals
            .iter()
            .all(|(_, request)| request.kind == Kind::Propose)
    );
    // Before they hear the proposal they promise a higher ballot to a node that ends then.
    for (peer, request) in proposals {
        let to = others(0).nth(peer.0).unwrap();
        let higher = Request {
            kind: Kind::Prepare,
            counter: request.counter + 1,
            ..request.clone()
        };
        let by = NAMES[3 - to];
        site.nodes[to].answer(by, &higher, site.now);
        let response = site.nodes[to].answer(NAMES[0], &request, site.now);
        assert!(matches!(response.answer, Answer::Outbid { .. }));
        site.nodes[0].hear(peer, &response, site.now);
    }
    assert!(site.nodes[0].slots[&vip()].grant.is_none(), "its own too");
    site.settle();
    assert_eq!(site.holder(), Some(0), "it tries again at once");
}

#[test]
fn a_release_that_overtakes_a_proposal_ends_it() {
    let mut site = Site::new();
    let request = |kind| Request {
        name: vip(),
        kind,
        counter: 7,
        round: 1,
        echo: 0,
        term: TERM,
        priority: 100,
        preempts: false,
        holds: false,
    };
    for kind in [Kind::Prepare, Kind::Release] {
        site.nodes[0].answer(NAMES[1], &request(kind), site.now);
    }
    let late = site.nodes[0].answer(NAMES[1], &request(Kind::Propose), site.now);
    assert!(matches!(late.answer, Answer::Outbid { .. }), "{late:?}");
}

#[test]
fn leases_need_three_nodes_and_a_majority_that_is_heard() {
    assert_eq!(Rule::of(Contact::Connected, 2), Rule::FewNodes);
    assert_eq!(Rule::of(Contact::Connected, 3), Rule::Leases);
    assert_eq!(Rule::of(Contact::CutOff, 3), Rule::CutOff);
    assert_eq!(Rule::of(Contact::Joining, 3), Rule::Joining);
    assert_eq!(Rule::of(Contact::Alone, 3), Rule::Alone);
}

#[test]
fn names_that_nodes_make_up_are_bounded() {
    let mut site = Site::new();
    let request = |number: usize| Request {
        name: format!("vip {number}").into(),
        kind: Kind::Propose,
        counter: u64::MAX,
        round: 1,
        echo: 0,
        term: TERM,
        priority: 255,
        preempts: true,
        holds: true,
    };
    for number in 0..2 * MAX_LEASES {
        let response = site.nodes[0].answer(NAMES[1], &request(number), site.now);
        let is_granted = matches!(response.answer, Answer::Granted { .. });
        assert_eq!(is_granted, number < MAX_LEASES);
    }
    let response = site.nodes[0].answer("stranger", &request(0), site.now);
    assert_eq!(response.answer, Answer::Abstained);
    site.now += QUIET;
    let response = site.nodes[0].answer(NAMES[1], &request(MAX_LEASES), site.now);
    assert!(matches!(response.answer, Answer::Granted { .. }));
}
