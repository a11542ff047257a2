use super::*;

fn file(text: &str) -> FileState {
    FileState {
        mode: 0o644,
        owner: (0, 0),
        digest: Sha256::of(text.as_bytes()),
    }
}

const CONFIG: &str = "/etc/outpost/healthd/healthd.toml";
const QUADLET: &str = "/etc/containers/systemd/outpost-healthd-a.container";
const SOCKET: &str = "/etc/systemd/system/outpost-healthd-exchange.socket";
const PATHS: [&str; 6] = [
    CONFIG,
    QUADLET,
    SOCKET,
    "/etc/outpost/healthd/pki/node.crt",
    "/etc/systemd/system/outpost-setup.service",
    "/etc/systemd/system/outpost-sockets.service",
];

fn wanted() -> DesiredState {
    DesiredState {
        files: PATHS.map(|path| (path.into(), file("1"))).into(),
        enabled: ["outpost-healthd-exchange.socket".to_owned()].into(),
        archives: [(Service::Healthd, Sha256::of(b"1"))].into(),
    }
}

/// A node that is all that is wanted.
fn installed() -> Found {
    let wanted = wanted();
    Found {
        installed: wanted.files.keys().cloned().collect(),
        files: wanted.files,
        had_enabled: wanted.enabled.clone(),
        enabled: wanted.enabled,
        archives: wanted.archives,
        rivals_active: BTreeSet::new(),
        pending: BTreeSet::new(),
    }
}

fn actions(change: impl FnOnce(&mut Found)) -> Vec<Action> {
    let mut found = installed();
    change(&mut found);
    plan(&wanted(), &found).actions.into_iter().collect()
}

fn changed(path: &str) -> Vec<Action> {
    actions(|found| {
        found.files.insert(path.into(), file("0"));
    })
}

#[test]
fn a_node_that_is_all_that_is_wanted_needs_nothing() {
    assert!(plan(&wanted(), &installed()).is_empty());
}

#[test]
fn the_first_time_everything_is_written_and_started_and_nothing_reloaded() {
    let plan = plan(&wanted(), &Found::default());
    assert_eq!(plan.writes.len(), PATHS.len());
    assert!(plan.writes.values().all(|how| *how == Write::New));
    assert_eq!(
        plan.actions.into_iter().collect::<Vec<_>>(),
        [Action::Manager, Action::Images, Action::Start]
    );
    assert_eq!(plan.archives, [Service::Healthd].into());
    assert_eq!(
        plan.enable,
        ["outpost-healthd-exchange.socket".to_owned()].into()
    );
}

#[test]
fn what_changed_is_all_that_is_disturbed() {
    let healthd = Service::Healthd;
    for (path, expected) in [
        (CONFIG, vec![Action::Reload(healthd)]),
        (QUADLET, vec![Action::Manager, Action::Swap(healthd)]),
        (
            SOCKET,
            vec![
                Action::Manager,
                Action::Socket("outpost-healthd-exchange.socket".to_owned()),
            ],
        ),
        (
            "/etc/outpost/healthd/pki/node.crt",
            vec![Action::Reload(healthd)],
        ),
        (
            "/etc/systemd/system/outpost-setup.service",
            vec![Action::Manager],
        ),
        (
            "/etc/systemd/system/outpost-sockets.service",
            vec![Action::Manager],
        ),
    ] {
        assert_eq!(changed(path), expected, "{path}");
    }
}

#[test]
fn a_swap_makes_a_reload_unnecessary() {
    let found = actions(|found| {
        found.files.insert(CONFIG.into(), file("0"));
        found.archives.insert(Service::Healthd, Sha256::of(b"0"));
    });
    assert_eq!(found, [Action::Swap(Service::Healthd)]);
}

#[test]
fn rights_are_given_back_without_disturbing_anybody_but_the_reader() {
    let mut found = installed();
    let open = FileState {
        mode: 0o666,
        ..file("1")
    };
    found.files.insert(SOCKET.into(), open);
    let plan = plan(&wanted(), &found);
    assert_eq!(plan.writes, [(SOCKET.into(), Write::Rights)].into());
    assert_eq!(plan.actions, [Action::Manager].into());
}

#[test]
fn what_was_left_undone_is_done() {
    let socket = Action::Socket("outpost-healthd-exchange.socket".to_owned());
    let pending = BTreeSet::from([Action::Start, socket, Action::Swap(Service::Healthd)]);
    let left = actions(|found| found.pending.clone_from(&pending));
    assert_eq!(left, pending.into_iter().collect::<Vec<_>>());
}

#[test]
fn what_was_left_undone_of_what_is_wanted_no_more_is_forgotten() {
    let left = actions(|found| {
        found.pending = [
            Action::Swap(Service::LbProxy),
            Action::Reload(Service::LbProxy),
            Action::Socket("outpost-lb-proxy-api.socket".to_owned()),
            Action::Rerun("outpost-redirect.service".to_owned()),
        ]
        .into();
    });
    assert_eq!(left, []);
}

#[test]
fn what_no_longer_belongs_to_the_node_goes() {
    let mut found = installed();
    let old: PathBuf = "/etc/systemd/system/outpost-old.socket".into();
    found
        .installed
        .extend([old.clone(), "/etc/outpost/gone".into()]);
    found.files.insert(old.clone(), file("x"));
    for unit in ["outpost-old.socket", "outpost-long-gone.socket"] {
        found.had_enabled.insert(unit.to_owned());
    }
    found.enabled.insert("outpost-old.socket".to_owned());
    let plan = plan(&wanted(), &found);
    assert_eq!(plan.removals, [old].into());
    assert_eq!(plan.disable, ["outpost-old.socket".to_owned()].into());
    assert_eq!(plan.stop, plan.disable);
    assert_eq!(plan.actions, [Action::Manager].into());
}

#[test]
fn a_service_that_is_taken_off_ends_in_both_slots_though_no_quadlet_is_enabled() {
    let mut found = installed();
    for quadlet in [
        "outpost-lb-proxy-a.container",
        "outpost-lb-proxy-b.container",
        // Of a service that stays, and is run by something else from here on.
        "outpost-healthd-b.container",
    ] {
        let path = Path::new("/etc/containers/systemd").join(quadlet);
        found.installed.insert(path.clone());
        found.files.insert(path, file("x"));
    }
    let stop = ["outpost-lb-proxy-a.service", "outpost-lb-proxy-b.service"];
    assert_eq!(plan(&wanted(), &found).stop, stop.map(str::to_owned).into());
}

#[test]
fn another_program_that_sets_the_clock_stops_first_and_may_go_on_after() {
    let rival: PathBuf = "/etc/systemd/system/chrony.service.d/50-outpost.conf".into();
    let asks: PathBuf = "/etc/systemd/system/chrony-wait.service.d/50-outpost.conf".into();
    let unit = || "chrony.service".to_owned();
    let mut held_back = wanted();
    held_back
        .files
        .extend([(rival.clone(), file("!")), (asks, file("!"))]);
    let mut found = installed();
    let actions = plan(&held_back, &found).actions;
    let expected = [Action::Manager, Action::Halt(unit()), Action::Start];
    assert_eq!(actions.into_iter().collect::<Vec<_>>(), expected);

    found.installed.insert(rival.clone());
    found.files.insert(rival, file("!"));
    let actions = plan(&wanted(), &found).actions;
    let expected = [Action::Manager, Action::Resume(unit())];
    assert_eq!(actions.into_iter().collect::<Vec<_>>(), expected);

    found.files.extend(held_back.files.clone());
    // One that runs although the addition has long been there: that stops nobody.
    found.rivals_active = [unit(), "chronyd.service".to_owned()].into();
    assert_eq!(
        plan(&held_back, &found).actions,
        [Action::Halt(unit())].into()
    );

    // What was left undone is only done while it is right.
    found = installed();
    found.pending = [Action::Halt(unit()), Action::Resume(unit())].into();
    assert_eq!(
        plan(&wanted(), &found).actions,
        [Action::Resume(unit())].into()
    );
}

#[test]
fn an_action_is_what_its_text_says() {
    let unit = "outpost-x.socket".to_owned();
    for action in [
        Action::Users,
        Action::Start,
        Action::Resolver,
        Action::Swap(Service::LbProxy),
        Action::Reload(Service::Healthd),
        Action::Socket(unit.clone()),
        Action::Rerun(unit.clone()),
        Action::Halt(unit.clone()),
        Action::Resume(unit),
    ] {
        assert_eq!(action.to_string().parse(), Ok(action));
    }
    assert_eq!("swap x".parse::<Action>(), Err(UnknownAction));
}

#[test]
fn slots_are_told_from_other_units() {
    for (name, service) in [
        (
            "outpost-lb-proxy-a.container",
            Some((Service::LbProxy, Slot::A)),
        ),
        (
            "outpost-dns-authd-b.service",
            Some((Service::DnsAuthd, Slot::B)),
        ),
        ("outpost-images.service", None),
        ("outpost-lb-proxy-api.socket", None),
        ("chronyd-a.service", None),
    ] {
        assert_eq!(slot_of(name), service, "{name}");
    }
}
