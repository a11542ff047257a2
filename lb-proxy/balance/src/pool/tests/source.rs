//! Which server a source belongs to.

use super::*;

const N_SOURCES: u32 = 20_000;

/// The name of the server of each source.
fn owners(bench: &mut Bench) -> Vec<String> {
    let pool = bench.pool();
    (0..N_SOURCES)
        .map(|number| name(&pool, &choose(bench, &pool, source(number))))
        .collect()
}

fn source(number: u32) -> IpAddr {
    std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn choose(bench: &mut Bench, pool: &Pool, source: IpAddr) -> Choice {
    let hint = Hint {
        source,
        ..bench.hint()
    };
    pool.choose(&hint, &Tried::default(), bench.now)
}

/// How many sources of servers other than `except` have another owner.
fn n_moved(before: &[String], after: &[String], except: &str) -> usize {
    before
        .iter()
        .zip(after)
        .filter(|(before, after)| *before != except && before != after)
        .count()
}

#[test]
fn the_same_names_have_the_same_owners_on_every_node() {
    let mut one = Bench::new(Algorithm::Source, &["master-0", "master-1", "master-2"]);
    let mut other = Bench::new(
        Algorithm::Source,
        &["master-2", "master-0", "x:0", "master-1", "b backup"],
    );
    other.server("master-0").address = "203.0.113.9:6443".parse().unwrap();
    assert_eq!(owners(&mut one), owners(&mut other));
    // And in every version: these must never change.
    let pool = one.pool();
    let names: Vec<String> = [
        "192.168.7.1",
        "192.168.7.2",
        "192.168.7.3",
        "10.128.0.7",
        "fd00::1",
        "2001:db8::8:800:200c:417a",
    ]
    .map(|address| name(&pool, &choose(&mut one, &pool, address.parse().unwrap())))
    .to_vec();
    assert_eq!(
        names,
        [
            "master-0", "master-0", "master-0", "master-2", "master-0", "master-1"
        ]
    );
}

#[test]
fn an_ipv4_source_is_the_same_however_it_is_written() {
    let mut bench = Bench::new(Algorithm::Source, &["a", "b", "c", "d", "e"]);
    let pool = bench.pool();
    for number in 0..500 {
        let IpAddr::V4(plain) = source(number) else {
            panic!("it is IPv4");
        };
        let mapped = plain.to_ipv6_mapped().into();
        let plain = choose(&mut bench, &pool, plain.into());
        let mapped = choose(&mut bench, &pool, mapped);
        assert_eq!(name(&pool, &plain), name(&pool, &mapped));
    }
}

#[test]
fn a_server_that_is_down_moves_its_own_sources_alone_and_gets_them_back() {
    let mut bench = Bench::new(Algorithm::Source, &["a", "b", "c", "d"]);
    let before = owners(&mut bench);
    for standing in [Standing::Down, Standing::Drain, Standing::Maintenance] {
        bench.server("b").standing = standing;
        let after = owners(&mut bench);
        assert_eq!(n_moved(&before, &after, "b"), 0);
        assert!(!after.iter().any(|owner| owner == "b"));
        // The others share what it had.
        for heir in ["a", "c", "d"] {
            let inherited = before
                .iter()
                .zip(&after)
                .filter(|(before, after)| *before == "b" && *after == heir)
                .count();
            let third = before.iter().filter(|owner| *owner == "b").count() / 3;
            assert!(
                inherited.abs_diff(third) < third / 10,
                "{heir}: {inherited}"
            );
        }
        bench.server("b").standing = Standing::Up { since: None };
        assert_eq!(owners(&mut bench), before);
    }
}

#[test]
fn a_server_that_leaves_moves_few_others() {
    for n_servers in [3, 10, 50] {
        let names: Vec<String> = (0..n_servers)
            .map(|number| format!("node-{number}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut bench = Bench::new(Algorithm::Source, &names);
        let before = owners(&mut bench);
        let gone = bench.settings.servers.remove(1).name;
        let after = owners(&mut bench);
        let moved = n_moved(&before, &after, &gone);
        assert!(
            moved < before.len() / 50,
            "{n_servers} servers: {moved} moved"
        );
    }
}

#[test]
fn whoever_is_left_of_many_gets_everybody() {
    let names: Vec<String> = (0..200).map(|number| format!("node-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(Algorithm::Source, &names);
    for server in &mut bench.settings.servers {
        server.standing = Standing::Down;
    }
    bench.server("node-77").standing = Standing::Up { since: None };
    assert!(owners(&mut bench).iter().all(|owner| owner == "node-77"));
    bench.server("node-78").standing = Standing::Up { since: None };
    let owners = owners(&mut bench);
    let half = owners.iter().filter(|owner| *owner == "node-77").count();
    assert!(half.abs_diff(owners.len() / 2) < 500, "{half}");
}

#[test]
fn a_full_server_lends_its_sources() {
    let mut bench = Bench::new(Algorithm::Source, &["a max=1", "b", "c"]);
    let before = owners(&mut bench);
    let held = bench.pool().servers[0].load.adopt();
    let after = owners(&mut bench);
    assert_eq!(n_moved(&before, &after, "a"), 0);
    drop(held);
    assert_eq!(owners(&mut bench), before);
}

#[test]
fn a_table_is_made_when_names_or_weights_change() {
    let mut bench = Bench::new(Algorithm::Source, &["a", "b", "c"]);
    let table = |bench: &mut Bench| Arc::as_ptr(bench.pool().tiers[0].table.as_ref().unwrap());
    let first = bench.pool();
    let before = Arc::as_ptr(first.tiers[0].table.as_ref().unwrap());
    bench.server("b").standing = Standing::Down;
    assert_eq!(table(&mut bench), before);
    bench.server("b").weight = 7;
    assert_ne!(table(&mut bench), before);
}
