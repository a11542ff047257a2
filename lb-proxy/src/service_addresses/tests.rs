use balance::pool::mix;

use super::*;

/// Numbers that a seed decides.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = mix(self.0);
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn pool(name: &str, ranges: &[&str]) -> AddressPool {
    AddressPool {
        name: name.into(),
        ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        automatic: true,
    }
}

fn request(service: &str) -> AddressRequest {
    AddressRequest {
        service: service.into(),
        pool: None,
        wanted: None,
        ipv6: false,
    }
}

fn assign(
    pools: &[AddressPool],
    requests: &[AddressRequest],
) -> Vec<Result<IpAddr, AddressRefusal>> {
    assign_addresses(pools, requests, &BTreeSet::new())
}

fn services(count: usize) -> Vec<AddressRequest> {
    let name = |number| request(&format!("demo/service-{number}"));
    (0..count).map(name).collect()
}

#[test]
fn everybody_gets_one_of_their_own_until_none_is_left() {
    let pools = [pool("a", &["10.0.0.1-10.0.0.4", "10.0.1.1-10.0.1.4"])];
    let results = assign(&pools, &services(9));
    let given: BTreeSet<_> = results.iter().flatten().collect();
    assert_eq!(given.len(), 8);
    assert_eq!(results[8], Err(AddressRefusal::Exhausted));
    assert!(given.iter().all(|address| {
        let mut ranges = pools[0].ranges.iter();
        ranges.any(|range| range.contains(**address))
    }));
}

#[test]
fn one_that_is_added_last_moves_nobody() {
    let pools = [pool("a", &["10.0.0.0/26"])];
    let all = assign(&pools, &services(62));
    for count in 1..62 {
        assert_eq!(assign(&pools, &services(count)), all[..count]);
    }
}

#[test]
fn one_that_is_removed_moves_few() {
    let pools = [pool("a", &["10.0.0.0/24"])];
    let requests = services(40);
    let before = assign(&pools, &requests);
    for removed in 0..requests.len() {
        let mut fewer = requests.clone();
        fewer.remove(removed);
        let mut kept = before.clone();
        drop(kept.remove(removed));
        let after = assign(&pools, &fewer);
        let moved = after.iter().zip(&kept).filter(|(a, b)| a != b).count();
        assert!(moved <= 2, "{moved} moved when {removed} went");
    }
}

#[test]
fn what_is_written_down_is_given_first() {
    let pools = [pool("a", &["10.0.0.1-10.0.0.2"])];
    let mut requests = services(2);
    let unfixed = assign(&pools, &requests);
    // The second asks for what the first would find.
    requests[1].wanted = unfixed[0].clone().ok();
    let results = assign(&pools, &requests);
    assert_eq!(results[1], unfixed[0]);
    assert_eq!(results[0], unfixed[1]);
}

#[test]
fn what_cannot_be_had_is_refused() {
    let mut closed = pool("closed", &["10.9.0.1"]);
    closed.automatic = false;
    let pools = [pool("a", &["10.0.0.1-10.0.0.2"]), closed];
    let wanted = |address: &str, service| AddressRequest {
        wanted: Some(address.parse().unwrap()),
        ..request(service)
    };
    let from = |pool: &str, service| AddressRequest {
        pool: Some(pool.into()),
        ..request(service)
    };
    let results = assign(
        &pools,
        &[
            wanted("10.0.0.1", "first"),
            wanted("10.0.0.1", "second"),
            wanted("10.9.0.1", "not automatic"),
            from("closed", "named"),
            from("none", "nowhere"),
            AddressRequest {
                ipv6: true,
                ..request("six")
            },
        ],
    );
    let address = |text: &str| Ok(text.parse().unwrap());
    assert_eq!(
        results,
        [
            address("10.0.0.1"),
            Err(AddressRefusal::Taken("first".into())),
            Err(AddressRefusal::NotInPool),
            address("10.9.0.1"),
            Err(AddressRefusal::NoSuchPool),
            Err(AddressRefusal::Exhausted),
        ]
    );
}

#[test]
fn reserved_addresses_are_nobodys() {
    let pools = [pool("a", &["10.0.0.1-10.0.0.3"])];
    let reserved = ["10.0.0.1", "10.0.0.3"].map(|text| text.parse().unwrap());
    let results = assign_addresses(&pools, &services(2), &reserved.into());
    assert_eq!(results[0], Ok("10.0.0.2".parse().unwrap()));
    assert_eq!(results[1], Err(AddressRefusal::Exhausted));
}

#[test]
fn a_pool_of_all_of_ipv6_is_searched_in_no_time() {
    let pools = [pool("a", &["::/0"])];
    let six = |number: usize| AddressRequest {
        ipv6: true,
        ..request(&format!("{number}"))
    };
    let requests: Vec<_> = (0..100).map(six).collect();
    let results = assign(&pools, &requests);
    assert_eq!(results.iter().flatten().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn router_numbers_are_distinct_and_spare_the_reserved() {
    let names: Vec<Arc<str>> = (0..255).map(|n| format!("service-{n}").into()).collect();
    let reserved = BTreeSet::from([51, 223]);
    let ids = assign_router_ids(&names, &reserved);
    let given: BTreeSet<u8> = ids.iter().flatten().copied().collect();
    assert_eq!(given.len(), 253);
    assert!(given.is_disjoint(&reserved) && !given.contains(&0));
    assert_eq!(ids.iter().filter(|id| id.is_none()).count(), 2);
    assert_eq!(assign_router_ids(&names[..9], &reserved), ids[..9]);
}

/// What must hold of any result, by the plainest means.
fn check_result(
    pools: &[AddressPool],
    requests: &[AddressRequest],
    reserved: &BTreeSet<IpAddr>,
    results: &[Result<IpAddr, AddressRefusal>],
) {
    assert_eq!(results.len(), requests.len());
    let given: Vec<IpAddr> = results.iter().flatten().copied().collect();
    let distinct: BTreeSet<IpAddr> = given.iter().copied().collect();
    assert_eq!(distinct.len(), given.len(), "an address is given twice");
    assert!(
        distinct.is_disjoint(reserved),
        "a reserved address is given"
    );
    for (request, result) in requests.iter().zip(results) {
        let allowed: Vec<&AddressPool> = pools
            .iter()
            .filter(|pool| match &request.pool {
                Some(name) => pool.name == *name,
                None => pool.automatic,
            })
            .collect();
        let in_pools = |address: IpAddr| {
            let mut ranges = allowed.iter().flat_map(|pool| &pool.ranges);
            ranges.any(|range| range.contains(address))
        };
        match result {
            Ok(address) => {
                assert!(in_pools(*address), "{address} is in no pool");
                assert!(request.wanted.is_none_or(|wanted| wanted == *address));
                assert!(request.wanted.is_some() || address.is_ipv6() == request.ipv6);
            }
            Err(AddressRefusal::NoSuchPool) => assert!(allowed.is_empty()),
            Err(AddressRefusal::NotInPool) => {
                let wanted = request.wanted.unwrap();
                assert!(!in_pools(wanted) || reserved.contains(&wanted));
            }
            Err(AddressRefusal::Taken(_)) => {
                assert!(distinct.contains(&request.wanted.unwrap()));
            }
            Err(AddressRefusal::Exhausted) => {
                let every = (0..=255).map(|last| -> IpAddr { [10, 0, 0, last].into() });
                let mut left = every.filter(|address| {
                    in_pools(*address) && !reserved.contains(address) && !distinct.contains(address)
                });
                assert!(request.ipv6 || left.next().is_none(), "one is left");
            }
        }
    }
}

#[test]
fn every_result_follows_the_rules() {
    for seed in 0..2000 {
        let mut numbers = Numbers(seed);
        let random = |numbers: &mut Numbers| -> IpAddr {
            [10, 0, 0, u8::try_from(numbers.below(20)).unwrap()].into()
        };
        let pools: Vec<AddressPool> = ["a", "b", "c"]
            .iter()
            .map(|name| AddressPool {
                name: (*name).into(),
                // They overlap, and come in any order.
                ranges: (0..numbers.below(4))
                    .map(|_| {
                        let (one, other) = (random(&mut numbers), random(&mut numbers));
                        AddressRange::new(one.min(other), one.max(other)).unwrap()
                    })
                    .collect(),
                automatic: !numbers.one_in(3),
            })
            .collect();
        let requests: Vec<AddressRequest> = (0..numbers.below(24))
            .map(|number| AddressRequest {
                service: format!("service-{number}").into(),
                pool: [None, None, Some("a"), Some("b"), Some("none")][numbers.below(5)]
                    .map(Arc::from),
                wanted: numbers.one_in(4).then(|| random(&mut numbers)),
                ipv6: numbers.one_in(16),
            })
            .collect();
        let reserved: BTreeSet<IpAddr> = (0..numbers.below(4))
            .map(|_| random(&mut numbers))
            .collect();
        let results = assign_addresses(&pools, &requests, &reserved);
        let held = std::panic::catch_unwind(|| {
            check_result(&pools, &requests, &reserved, &results);
        });
        assert!(
            held.is_ok(),
            "seed {seed}: {pools:?} {requests:?} {reserved:?}"
        );
        // A pool at the end moves nobody.
        let mut more = pools.clone();
        more.push(pool("d", &["10.0.1.0/24"]));
        let after = assign_addresses(&more, &requests, &reserved);
        for (before, after) in results.iter().zip(after) {
            assert!(before.is_err() || *before == after, "seed {seed}");
        }
    }
}

#[test]
fn a_range_that_is_added_last_moves_nobody() {
    let mut pools = [pool("a", &["10.0.0.0/27"])];
    let before = assign(&pools, &services(30));
    pools[0].ranges.push("10.0.1.0/24".parse().unwrap());
    let after = assign(&pools, &services(60));
    assert_eq!(after[..30], before);
    assert!(after.iter().all(Result::is_ok));
}
