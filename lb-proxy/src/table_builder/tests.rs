use std::time::SystemTime;

use balance::pool::Eligibility;
use daemon::config::Document;
use proto::health::{Liveness, TargetStatus};

use super::*;
use crate::config::Config;

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
    Config::from_document(&Document::inline("x", format!("version = \"v1\"\n{text}"))).unwrap()
}

/// One backend `api` with servers of these names.
pub(crate) fn builder_of(servers: &[&str]) -> Arc<TableBuilder> {
    let mut text = "[[backend]]\nname = \"api\"\n".to_owned();
    for name in servers {
        let server = format!("name = \"{name}\"\naddress = \"192.0.2.1:6443\"\n");
        text.push_str(&format!("[[backend.server]]\n{server}"));
    }
    builder(&text)
}

/// Nothing said of a decision.
fn none() -> Terms {
    Terms::default()
}

fn builder(text: &str) -> Arc<TableBuilder> {
    TableBuilder::new(config(text), Arc::default(), 1)
}

/// What healthd would say: of each address ending, its liveness and administrative state.
fn snapshot(config: &Config, states: &[(u8, Liveness, AdminState)]) -> Arc<Snapshot> {
    let status = |target: &proto::health::Target| {
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
            .map(|watched| watched.target)
            .filter_map(|target| Some((target.clone(), status(&target)?)))
            .collect(),
        ..Snapshot::default()
    })
}

fn eligibilities(builder: &TableBuilder) -> Vec<Eligibility> {
    let table = builder.cell().current();
    let servers = &table.backends[0].pool.servers;
    servers.iter().map(|server| server.eligibility).collect()
}

const UP: Eligibility = Eligibility::Up { since: None };

#[test]
fn without_a_word_from_healthd_every_server_is_taken_for_good() {
    let builder = builder(TWO);
    assert_eq!(eligibilities(&builder), [UP, UP]);
    assert_eq!(builder.view().abilities.get("frontend:api"), Some(&true));
}

#[test]
fn a_table_is_published_only_when_something_has_moved() {
    let builder = builder(TWO);
    let config = config(TWO);
    let cell = builder.cell();
    let ready = AdminState::Ready;
    let before = cell.generation();
    builder.observe(snapshot(&config, &[(1, Liveness::Up, ready)]));
    assert_eq!(cell.generation(), before);
    builder.observe(snapshot(&config, &[(1, Liveness::Down, ready)]));
    assert_eq!(cell.generation(), before + 1);
    assert_eq!(eligibilities(&builder), [Eligibility::Down, UP]);
    // healthd's own operators count for every subscriber.
    let drained = [
        (1, Liveness::Down, ready),
        (2, Liveness::Up, AdminState::Drain),
    ];
    builder.observe(snapshot(&config, &drained));
    assert_eq!(
        eligibilities(&builder),
        [Eligibility::Down, Eligibility::Drain]
    );
    assert_eq!(builder.view().abilities.get("frontend:api"), Some(&false));
    assert_eq!(builder.view().abilities.get("backend:api"), Some(&false));
}

#[test]
fn a_table_has_the_generation_of_the_last_change_that_concerns_it() {
    let builder = builder(TWO);
    let config = config(TWO);
    let table = || builder.cell().current().generation;
    assert_eq!(table(), 0);
    for (generation, liveness, expected) in [
        (5, Liveness::Down, 5),
        (6, Liveness::Down, 5),
        (7, Liveness::Up, 7),
    ] {
        let said = snapshot(&config, &[(1, liveness, AdminState::Ready)]);
        let mut said = Arc::unwrap_or_clone(said);
        said.generation = generation;
        builder.observe(Arc::new(said));
        assert_eq!(table(), expected);
        assert_eq!(builder.view().snapshot.generation, generation);
    }
}

#[test]
fn a_backend_is_down_while_it_has_no_server_to_choose() {
    let builder = builder(TWO);
    let config = config(TWO);
    let said = |first, second| {
        let ready = AdminState::Ready;
        snapshot(&config, &[(1, first, ready), (2, second, ready)])
    };
    let downs = || {
        let history = builder.view().backends["api"];
        (history.verdict, history.n_downs)
    };
    builder.observe(said(Liveness::Down, Liveness::Up));
    assert_eq!(downs(), (Verdict::Up, 0));
    builder.observe(said(Liveness::Down, Liveness::Down));
    assert_eq!(downs(), (Verdict::Down, 1));
    builder.observe(said(Liveness::Up, Liveness::Down));
    assert_eq!(downs(), (Verdict::Up, 1));
}

#[test]
fn a_server_that_is_back_starts_slowly() {
    let builder = builder(TWO);
    let config = config(TWO);
    let said = |liveness| snapshot(&config, &[(1, liveness, AdminState::Ready)]);
    builder.observe(said(Liveness::Down));
    builder.observe(said(Liveness::Up));
    let eligibility = eligibilities(&builder)[0];
    assert!(
        matches!(eligibility, Eligibility::Up { since: Some(_) }),
        "{eligibility:?}"
    );
}

#[test]
fn what_an_operator_said_outlives_a_reload() {
    let builder = builder(TWO);
    builder
        .set_state("api", "a", AdminState::Drain, none())
        .unwrap();
    builder.set_weight("api", "b", Some(7), none()).unwrap();
    assert_eq!(eligibilities(&builder), [Eligibility::Drain, UP]);
    builder.adopt(config(&TWO.replace("\"10s\"", "\"20s\"")));
    assert_eq!(eligibilities(&builder), [Eligibility::Drain, UP]);
    let table = builder.cell().current();
    assert_eq!(table.backends[0].pool.servers[1].weight, 7);
    builder
        .set_state("api", "a", AdminState::Ready, none())
        .unwrap();
    builder.set_weight("api", "b", None, none()).unwrap();
    assert!(builder.view().overrides.is_empty());
    assert_eq!(
        builder.set_state("api", "c", AdminState::Drain, none()),
        Err(NoSuchServer("api".to_owned(), "c".to_owned()))
    );
}

#[test]
fn an_operator_changes_how_many_sessions_a_server_may_have() {
    let text = TWO.replace("2.1:6443\"", "2.1:6443\"\nmax-connections = 5");
    let builder = builder(&text);
    let limits = || -> Vec<Option<u32>> {
        let table = builder.cell().current();
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
        builder
            .set_max_connections("api", "a", said, none())
            .unwrap();
        builder
            .set_max_connections("api", "b", said, none())
            .unwrap();
        assert_eq!(limits(), expected, "{said:?}");
    }
    assert!(builder.view().overrides.is_empty());
}

#[test]
fn a_successor_takes_over_what_operators_said() {
    let before = builder(TWO);
    before
        .set_state("api", "a", AdminState::Maintenance, none())
        .unwrap();
    before.set_weight("api", "a", Some(3), none()).unwrap();
    before
        .set_max_connections("api", "a", Some(0), none())
        .unwrap();
    let told = crate::decisions::overrides(&before.view());
    let after = builder(TWO);
    let gone = (("api".into(), "gone".into()), Override::default());
    let overrides = crate::decisions::parse_overrides(told);
    assert_eq!(overrides.len(), 1);
    after.take_over(overrides.into_iter().chain([gone]));
    assert_eq!(after.view().overrides, before.view().overrides);
    assert_eq!(eligibilities(&after), [Eligibility::Maintenance, UP]);
    // What was taken back before it let go is not brought up again.
    after.take_over([]);
    assert!(after.view().overrides.is_empty());
    assert!(eligibilities(&after)[0].is_up());
}

#[test]
fn what_is_configured_out_of_service_is_brought_in_by_hand() {
    let text = TWO.replace("2.1:6443\"", "2.1:6443\"\nmaintenance = true");
    let builder = builder(&text);
    assert_eq!(eligibilities(&builder)[0], Eligibility::Maintenance);
    builder
        .set_state("api", "a", AdminState::Ready, none())
        .unwrap();
    assert!(eligibilities(&builder)[0].is_up());
}

#[test]
fn a_reload_keeps_counters_and_loads_by_name() {
    let builder = builder(TWO);
    let before = builder.cell().current();
    builder.adopt(config(&TWO.replace("connections = 7", "connections = 9")));
    let after = builder.cell().current();
    let tallies = [&before, &after].map(|table| Arc::as_ptr(&table.frontends[0].tally));
    assert_eq!(tallies[0], tallies[1]);
    let loads = [&before, &after].map(|table| Arc::as_ptr(&table.backends[0].pool.servers[0].load));
    assert_eq!(loads[0], loads[1]);
    let limits = [&before, &after].map(|table| table.frontends[0].limits.as_ref().map(Arc::as_ptr));
    assert_eq!(limits[0], limits[1]);
}

#[test]
fn targets_are_known_by_server() {
    let builder = builder(TWO);
    let targets = builder.targets().current();
    let target = &targets[&("api".into(), "b".into())];
    assert_eq!(target.to_string(), "tcp 192.0.2.2:6443");
}

#[test]
fn servers_that_healthd_probes_now_are_told_from_others() {
    let builder = builder(TWO);
    let config = config(TWO);
    let probed = || -> Vec<bool> {
        let table = builder.cell().current();
        let servers = &table.backends[0].pool.servers;
        servers.iter().map(|server| server.is_probed).collect()
    };
    builder.observe(snapshot(&config, &[(1, Liveness::Up, AdminState::Ready)]));
    assert_eq!(probed(), [false, false], "healthd is not connected");
    builder.note_healthd(true);
    assert_eq!(probed(), [true, false]);
    let generation = builder.cell().generation();
    builder.note_healthd(true);
    assert_eq!(builder.cell().generation(), generation);
    builder.note_healthd(false);
    assert_eq!(probed(), [false, false]);
    assert_eq!(
        eligibilities(&builder),
        [UP, UP],
        "its last word stays in force"
    );
}

#[test]
fn a_table_by_own_probes_is_of_no_generation_and_its_servers_are_probed() {
    let builder = builder(TWO);
    let config = config(TWO);
    let seen = || {
        let table = builder.cell().current();
        let servers = &table.backends[0].pool.servers;
        let probed: Vec<bool> = servers.iter().map(|server| server.is_probed).collect();
        (table.generation, probed, builder.view().snapshot.stands_in)
    };
    let both = [
        (1, Liveness::Down, AdminState::Ready),
        (2, Liveness::Up, AdminState::Ready),
    ];
    let said = snapshot(&config, &both);
    builder.note_healthd(true);
    builder.observe(Arc::clone(&said));
    assert_eq!(seen(), (1, vec![true, true], false));
    builder.note_healthd(false);
    assert_eq!(seen(), (1, vec![false, false], false));
    // The same states: the table changes all the same.
    let own = Snapshot {
        generation: 0,
        stands_in: true,
        ..Snapshot::clone(&said)
    };
    builder.observe(Arc::new(own));
    assert_eq!(seen(), (0, vec![true, true], true));
    builder.note_healthd(true);
    builder.observe(said);
    assert_eq!(seen(), (1, vec![true, true], false));
}
