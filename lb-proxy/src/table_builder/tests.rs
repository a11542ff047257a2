use std::time::SystemTime;

use balance::pool::Standing;
use daemon::config::Document;
use proto::health::{Liveness, TargetStatus};

use super::*;
use crate::config::v1;

const TWO: &str = r#"
[[frontend]]
name = "api"
listen = ["127.0.0.1:1"]
backend = "api"
limits = { connections = 7 }
[[backend]]
name = "api"
slow-start = "10s"
[[backend.server]]
name = "a"
address = "192.0.2.1:6443"
[[backend.server]]
name = "b"
address = "192.0.2.2:6443"
"#;

fn config(text: &str) -> Config {
    v1::parse(&Document::inline("x", format!("version = \"v1\"\n{text}"))).unwrap()
}

fn keeper(text: &str) -> Arc<TableBuilder> {
    TableBuilder::new(config(text), Arc::default(), 1)
}

/// What healthd would say: of each address ending, its liveness and administrative state.
fn snapshot(config: &Config, states: &[(u8, Liveness, AdminState)]) -> Arc<Snapshot> {
    let status = |target: &Target| {
        let last = match target.address.ip() {
            std::net::IpAddr::V4(address) => address.octets()[3],
            std::net::IpAddr::V6(_) => 0,
        };
        let (_, liveness, admin) = *states.iter().find(|state| state.0 == last)?;
        Some(TargetStatus {
            liveness,
            admin,
            since: Some(SystemTime::UNIX_EPOCH),
            ..TargetStatus::default()
        })
    };
    let targets = config.targets().into_iter();
    Arc::new(Snapshot {
        generation: 1,
        targets: targets
            .filter_map(|target| Some((target.clone(), status(&target)?)))
            .collect(),
    })
}

fn standings(keeper: &TableBuilder) -> Vec<Standing> {
    let table = keeper.cell().current();
    let servers = &table.backends[0].pool.servers;
    servers.iter().map(|server| server.standing).collect()
}

const UP: Standing = Standing::Up { since: None };

#[test]
fn without_a_word_from_healthd_every_server_is_taken_for_good() {
    let keeper = keeper(TWO);
    assert_eq!(standings(&keeper), [UP, UP]);
    assert_eq!(keeper.view().abilities.get("frontend:api"), Some(&true));
}

#[test]
fn a_table_is_published_only_when_something_has_moved() {
    let keeper = keeper(TWO);
    let config = config(TWO);
    let cell = keeper.cell();
    let ready = AdminState::Ready;
    let before = cell.generation();
    keeper.observe(snapshot(&config, &[(1, Liveness::Up, ready)]));
    assert_eq!(cell.generation(), before);
    keeper.observe(snapshot(&config, &[(1, Liveness::Down, ready)]));
    assert_eq!(cell.generation(), before + 1);
    assert_eq!(standings(&keeper), [Standing::Down, UP]);
    // healthd's own operators count for every subscriber.
    let drained = [
        (1, Liveness::Down, ready),
        (2, Liveness::Up, AdminState::Drain),
    ];
    keeper.observe(snapshot(&config, &drained));
    assert_eq!(standings(&keeper), [Standing::Down, Standing::Drain]);
    assert_eq!(keeper.view().abilities.get("frontend:api"), Some(&false));
    assert_eq!(keeper.view().abilities.get("backend:api"), Some(&false));
}

#[test]
fn a_backend_is_down_while_it_has_no_server_to_choose() {
    let keeper = keeper(TWO);
    let config = config(TWO);
    let said = |first, second| {
        let ready = AdminState::Ready;
        snapshot(&config, &[(1, first, ready), (2, second, ready)])
    };
    let downs = || {
        let history = keeper.view().backends["api"];
        (history.verdict, history.n_downs)
    };
    keeper.observe(said(Liveness::Down, Liveness::Up));
    assert_eq!(downs(), (Verdict::Up, 0));
    keeper.observe(said(Liveness::Down, Liveness::Down));
    assert_eq!(downs(), (Verdict::Down, 1));
    keeper.observe(said(Liveness::Up, Liveness::Down));
    assert_eq!(downs(), (Verdict::Up, 1));
}

#[test]
fn a_server_that_is_back_starts_slowly() {
    let keeper = keeper(TWO);
    let config = config(TWO);
    let said = |liveness| snapshot(&config, &[(1, liveness, AdminState::Ready)]);
    keeper.observe(said(Liveness::Down));
    keeper.observe(said(Liveness::Up));
    let standing = standings(&keeper)[0];
    assert!(
        matches!(standing, Standing::Up { since: Some(_) }),
        "{standing:?}"
    );
}

#[test]
fn what_an_operator_said_outlives_a_reload() {
    let keeper = keeper(TWO);
    keeper.set_state("api", "a", AdminState::Drain).unwrap();
    keeper.set_weight("api", "b", Some(7)).unwrap();
    assert_eq!(standings(&keeper), [Standing::Drain, UP]);
    keeper.adopt(config(&TWO.replace("\"10s\"", "\"20s\"")));
    assert_eq!(standings(&keeper), [Standing::Drain, UP]);
    let table = keeper.cell().current();
    assert_eq!(table.backends[0].pool.servers[1].weight, 7);
    keeper.set_state("api", "a", AdminState::Ready).unwrap();
    keeper.set_weight("api", "b", None).unwrap();
    assert!(keeper.view().overrides.is_empty());
    assert_eq!(
        keeper.set_state("api", "c", AdminState::Drain),
        Err(NoSuchServer("api".to_owned(), "c".to_owned()))
    );
}

#[test]
fn an_operator_changes_how_many_sessions_a_server_may_have() {
    let text = TWO.replace("2.1:6443\"", "2.1:6443\"\nmax-connections = 5");
    let keeper = keeper(&text);
    let limits = || -> Vec<Option<u32>> {
        let table = keeper.cell().current();
        let servers = &table.backends[0].pool.servers;
        servers
            .iter()
            .map(|server| server.max_connections)
            .collect()
    };
    assert_eq!(limits(), [Some(5), None]);
    for (said, expected) in [
        (Some(1), [Some(1), Some(1)]),
        (Some(0), [None, None]),
        (None, [Some(5), None]),
    ] {
        keeper.set_max_connections("api", "a", said).unwrap();
        keeper.set_max_connections("api", "b", said).unwrap();
        assert_eq!(limits(), expected, "{said:?}");
    }
    assert!(keeper.view().overrides.is_empty());
}

#[test]
fn a_successor_takes_over_what_operators_said() {
    let before = keeper(TWO);
    before
        .set_state("api", "a", AdminState::Maintenance)
        .unwrap();
    before.set_weight("api", "a", Some(3)).unwrap();
    before.set_max_connections("api", "a", Some(0)).unwrap();
    let told = crate::routes::overrides(&before.view());
    let after = keeper(TWO);
    let gone = (("api".into(), "gone".into()), Override::default());
    let overrides = crate::routes::parse_overrides(&told);
    assert_eq!(overrides.len(), 1);
    after.take_over(overrides.into_iter().chain([gone]));
    assert_eq!(after.view().overrides, before.view().overrides);
    assert_eq!(standings(&after), [Standing::Maintenance, UP]);
    // What was taken back before it let go is not brought up again.
    after.take_over([]);
    assert!(after.view().overrides.is_empty());
    assert!(standings(&after)[0].is_up());
}

#[test]
fn what_is_configured_out_of_service_is_brought_in_by_hand() {
    let text = TWO.replace("2.1:6443\"", "2.1:6443\"\nmaintenance = true");
    let keeper = keeper(&text);
    assert_eq!(standings(&keeper)[0], Standing::Maintenance);
    keeper.set_state("api", "a", AdminState::Ready).unwrap();
    assert!(standings(&keeper)[0].is_up());
}

#[test]
fn a_reload_keeps_counters_and_loads_by_name() {
    let keeper = keeper(TWO);
    let before = keeper.cell().current();
    keeper.adopt(config(&TWO.replace("connections = 7", "connections = 9")));
    let after = keeper.cell().current();
    let tallies = [&before, &after].map(|table| Arc::as_ptr(&table.frontends[0].tally));
    assert_eq!(tallies[0], tallies[1]);
    let loads = [&before, &after].map(|table| Arc::as_ptr(&table.backends[0].pool.servers[0].load));
    assert_eq!(loads[0], loads[1]);
    let limits = [&before, &after].map(|table| table.frontends[0].limits.as_ref().map(Arc::as_ptr));
    assert_eq!(limits[0], limits[1]);
}

#[test]
fn targets_are_known_by_server() {
    let keeper = keeper(TWO);
    let targets = keeper.targets().current();
    let target = &targets[&("api".into(), "b".into())];
    assert_eq!(target.to_string(), "tcp 192.0.2.2:6443");
}
