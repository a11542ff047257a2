//! Single courses of events.

use super::*;

fn pass(simulation: &mut Simulation, time: Duration) {
    let end = simulation.now + time;
    while simulation.now < end {
        simulation.now += TICK;
        simulation.step();
    }
}

#[test]
fn a_forged_advertisement_of_the_highest_priority_each_second_moves_nothing() {
    let mut simulation = Simulation::new(1);
    pass(&mut simulation, Duration::from_secs(12));
    let holder = simulation.active.unwrap();
    let n_moves = simulation.seen.n_moves;
    simulation.forging = true;
    pass(&mut simulation, Duration::from_secs(60));
    assert_eq!(
        (simulation.active, simulation.seen.n_moves),
        (Some(holder), n_moves)
    );
    assert_eq!(simulation.gap_since, None);
    // It does not keep the others from taking over either.
    simulation.nodes[holder].proxy = None;
    let killed = simulation.now;
    simulation.disturbed = killed;
    pass(&mut simulation, 4 * INTERVAL);
    assert_ne!(simulation.active, Some(holder));
    assert!(simulation.gap_since.is_none());
    let rounds = round_time(TERM);
    assert!(rounds < INTERVAL);
}

#[test]
fn healthds_that_return_leave_the_address_where_it_is() {
    let mut n_kept = 0;
    for seed in 0..64 {
        let mut simulation = Simulation::new(seed);
        pass(&mut simulation, Duration::from_secs(12));
        for node in 0..simulation.nodes.len() {
            simulation.nodes[node].healthd = None;
            simulation.nodes[node].healthd_back = None;
        }
        simulation.disturbed = simulation.now;
        pass(&mut simulation, Duration::from_secs(8));
        let is_active = |simulation: &Simulation, node: &usize| simulation.nodes[*node].holds();
        let all = 0..simulation.nodes.len();
        let active: Vec<usize> = all.filter(|node| is_active(&simulation, node)).collect();
        assert_eq!(
            active.len(),
            1,
            "seed {seed}: one continues by advertisements"
        );
        let of = |node: usize| &simulation.nodes[node].settings;
        let holder = of(active[0]).priority;
        let mut others = (0..simulation.nodes.len()).map(of);
        if others.any(|other| other.preempt != Preempt::Never && other.priority > holder) {
            continue;
        }
        n_kept += 1;
        for node in 0..simulation.nodes.len() {
            let back = simulation.now + simulation.random.duration(INTERVAL);
            simulation.nodes[node].healthd_back = Some(back);
        }
        let end = simulation.now + Duration::from_secs(12);
        while simulation.now < end {
            pass(&mut simulation, TICK);
            assert!(
                is_active(&simulation, &active[0]),
                "seed {seed}: the address moved"
            );
        }
        let lease = simulation.nodes[active[0]]
            .proxy
            .as_ref()
            .map(|proxy| proxy.lease);
        assert!(
            matches!(lease, Some(Lease::Own { .. })),
            "seed {seed}: {lease:?}"
        );
    }
    assert!(
        n_kept >= 16,
        "{n_kept} seeds without a router that preempts"
    );
}
