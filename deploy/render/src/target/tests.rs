//! What holds for every target at once.

mod golden;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use site::facts;
use site::paths;
use site::service::Service;
use site::{Vip, VipRole};

/// A virtual IP of the API.
pub fn vip() -> Vip {
    Vip {
        name: "api".to_owned(),
        role: VipRole::Api,
        addresses: vec!["192.168.7.100/24".parse().unwrap()],
        router_id: None,
    }
}

/// The seeds' site, its services started so.
pub(super) fn site(runtime: Runtime) -> Site {
    let mut site = Site::example();
    site.platform.runtime = runtime;
    site
}

pub(super) const RUNTIMES: [Runtime; 6] = [
    Runtime::Quadlet(Podman::V4_4),
    Runtime::Quadlet(Podman::V4_9),
    Runtime::Quadlet(Podman::V5_2),
    Runtime::Quadlet(Podman::V5_4),
    Runtime::NoQuadlet,
    Runtime::Native,
];

/// The text of a unit by its name, quadlets as the units that they become.
fn unit_texts(files: &[NodeFile]) -> BTreeMap<String, String> {
    files
        .iter()
        .filter_map(|file| {
            let name = file.path.file_name()?.to_str()?.to_owned();
            let text = String::from_utf8(file.contents.clone()).ok()?;
            let is_unit = [".service", ".socket", ".container"]
                .iter()
                .any(|kind| name.ends_with(kind));
            is_unit.then(|| (name.replace(".container", ".service"), text))
        })
        .collect()
}

/// The words of all lines of a key.
fn words<'a>(text: &'a str, key: &str) -> BTreeSet<&'a str> {
    text.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .flat_map(str::split_whitespace)
        .collect()
}

#[test]
fn every_slot_has_its_sockets_and_every_socket_its_slot() {
    for runtime in RUNTIMES {
        let mut site = site(runtime);
        site.nodes[0].services = Service::of(Role::Master, true);
        let units = unit_texts(&files(&site, &site.nodes[0]));
        let mut used = BTreeSet::new();
        for service in Service::ALL {
            for slot in ["a", "b"] {
                let text = &units[&format!("outpost-{service}-{slot}.service")];
                let sockets = words(text, "Sockets");
                for socket in sockets {
                    let socket_text = &units[socket];
                    assert!(words(socket_text, "Service").contains(HOLDER));
                    used.insert(socket.to_owned());
                }
            }
        }
        let all: BTreeSet<String> = units
            .keys()
            .filter(|name| name.ends_with(".socket"))
            .cloned()
            .collect();
        assert_eq!(used, all, "{runtime:?}");
    }
}

/// What OpenShift's nodes have, before and after (templates of the Machine Config Operator, with
/// OVN-Kubernetes), and what a slot that says so gets from podman.
const PLATFORM: [(&str, &str); 9] = [
    (
        "NetworkManager-wait-online.service",
        "nodeip-configuration.service",
    ),
    ("nodeip-configuration.service", "ovs-configuration.service"),
    ("ovs-configuration.service", "node-valid-hostname.service"),
    ("ovs-configuration.service", "kubelet-dependencies.target"),
    ("node-valid-hostname.service", "network-online.target"),
    ("network-online.target", "kubelet-dependencies.target"),
    ("chrony-wait.service", "kubelet-dependencies.target"),
    ("chronyd.service", "chrony-wait.service"),
    ("kubelet-dependencies.target", "crio.service"),
];

#[test]
fn no_order_goes_in_a_circle_on_a_node_of_openshift() {
    for runtime in RUNTIMES {
        for role in [Role::Master, Role::Worker] {
            let site = site(runtime);
            let scope = Scope::role(&site, role).unwrap();
            let mut host = host(&scope, runtime);
            role::add(&mut host, &scope, &Secrets::made_up(&site));
            let mut edges: BTreeSet<(String, String)> = PLATFORM
                .iter()
                .map(|(first, then)| ((*first).to_owned(), (*then).to_owned()))
                .collect();
            for (name, text) in unit_texts(&host.clone().into_files()) {
                for other in words(&text, "After") {
                    edges.insert((other.to_owned(), name.clone()));
                }
                for other in words(&text, "Before") {
                    edges.insert((name.clone(), other.to_owned()));
                }
                for socket in words(&text, "Sockets") {
                    edges.insert((socket.to_owned(), name.clone()));
                }
                let is_quadlet = matches!(runtime, Runtime::Quadlet(level) if quadlet::is_after_network(level))
                    && (name.ends_with("-a.service") || name.ends_with("-b.service"));
                if is_quadlet {
                    edges.insert(("network-online.target".to_owned(), name.clone()));
                }
            }
            assert_eq!(circle(&edges), None, "{runtime:?} {role:?}");
        }
    }
}

/// Those that are left when all are taken away that nothing comes before.
fn circle(edges: &BTreeSet<(String, String)>) -> Option<BTreeSet<(String, String)>> {
    let mut left = edges.clone();
    loop {
        let later: BTreeSet<&String> = left.iter().map(|(_, then)| then).collect();
        let next: BTreeSet<_> = left
            .iter()
            .filter(|(first, _)| later.contains(first))
            .cloned()
            .collect();
        if next.len() == left.len() {
            return (!left.is_empty()).then_some(left);
        }
        left = next;
    }
}

#[test]
fn a_role_has_one_place_for_what_is_the_same_and_one_for_each_node_for_what_is_not() {
    let site = site(Runtime::Quadlet(Podman::V5_2));
    let scope = Scope::role(&site, Role::Master).unwrap();
    let mut host = host(&scope, site.platform.runtime);
    role::add(&mut host, &scope, &Secrets::made_up(&site));
    let files = host.into_files();
    let at = |path: &str| {
        files
            .iter()
            .filter(|file| file.path.ends_with(path))
            .count()
    };
    assert_eq!(at("etc/outpost/dns-authd/zones/ocp4.redhat.ren"), 1);
    assert_eq!(at("etc/outpost/pki/ca.crt"), 1);
    // healthd and registry-svc have one each.
    assert_eq!(at("pki/node.key"), 6);
    assert_eq!(at("etc/NetworkManager/conf.d/90-outpost-dns.conf"), 3);
    let key = files
        .iter()
        .find(|file| {
            file.path
                .ends_with("nodes/master-1/etc/outpost/registry-svc/pki/node.key")
        })
        .unwrap();
    assert_eq!(key.contents, b"key of master-1\n");
    let mut paths: Vec<_> = files.iter().map(|file| &file.path).collect();
    let n_paths = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), n_paths, "no path twice");
}

#[test]
fn a_site_gives_the_same_bytes_every_time_and_manifests_fit_into_etcd() {
    for runtime in RUNTIMES {
        let site = site(runtime);
        let secrets = Secrets::made_up(&site);
        let all = || -> Vec<Output> {
            [
                ignition(&site, &secrets),
                machineconfig(&site, &secrets),
                butane(&site, &secrets),
            ]
            .concat()
        };
        assert_eq!(all(), all());
        for output in all() {
            // A request to etcd is 1.5 MiB at most, and there are two roles and a rendered sum of all.
            assert!(
                output.contents.len() < 256 * 1024,
                "{}",
                output.path.display()
            );
        }
    }
}

#[test]
fn rendered_files_are_of_kinds_that_openshift_takes() {
    let site = site(Runtime::Quadlet(Podman::V5_2));
    for role in [Role::Master, Role::Worker] {
        let scope = Scope::role(&site, role).unwrap();
        let mut host = host(&scope, site.platform.runtime);
        role::add(&mut host, &scope, &Secrets::made_up(&site));
        for file in &host.files {
            assert!(file.path.is_absolute());
            // No set-user-ID, set-group-ID or sticky bits.
            assert_eq!(file.mode & !0o777, 0, "{}", file.path.display());
        }
    }
}

#[test]
fn nobody_has_a_capability_that_it_does_not_need() {
    let mut site = site(Runtime::Quadlet(Podman::V5_4));
    let capabilities = |site: &Site| -> Vec<String> {
        let units = unit_texts(&files(site, &site.nodes[0]));
        let lines = units.values().flat_map(|text| text.lines());
        let mut lines: Vec<String> = lines
            .filter_map(|line| line.strip_prefix("AddCapability="))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines.dedup();
        lines
    };
    assert_eq!(capabilities(&site), ["NET_BIND_SERVICE SYS_TIME"]);
    site.time.correct_clock = false;
    assert_eq!(capabilities(&site), ["NET_BIND_SERVICE"]);
    site.vips.push(vip());
    assert_eq!(
        capabilities(&site),
        ["NET_ADMIN NET_RAW", "NET_BIND_SERVICE"]
    );
}

/// The options of `podman run` that keys of quadlets stand for, as in docs/deploy/machineconfig.md.
const SHUT_IN: [(&str, &str); 6] = [
    ("ReadOnly=true", "--read-only"),
    ("NoNewPrivileges=true", "--security-opt=no-new-privileges"),
    ("DropCapability=all", "--cap-drop=all"),
    ("Notify=true", "--sdnotify=container"),
    ("Network=host", "--network=host"),
    ("User=", "--user="),
];

#[test]
fn every_slot_is_bounded_and_shut_in_however_it_is_run() {
    for runtime in RUNTIMES {
        let mut site = site(runtime);
        site.nodes[0].services = Service::of(Role::Master, true);
        let units = unit_texts(&files(&site, &site.nodes[0]));
        for service in Service::ALL {
            let limits = facts::limits(service);
            let user = facts::user(service);
            for slot in ["a", "b"] {
                let text = &units[&format!("outpost-{service}-{slot}.service")];
                let has = |what: &str| assert!(text.contains(what), "{what} in {text}");
                match runtime {
                    Runtime::NoQuadlet => {
                        has(&format!("--memory={}m ", limits.memory_max));
                        has(&format!("--pids-limit={} ", limits.tasks));
                        has("--cpu-shares=");
                    }
                    Runtime::Quadlet(_) | Runtime::Native => {
                        has(&format!("\nMemoryMax={}M\n", limits.memory_max));
                        has(&format!("\nMemoryHigh={}M\n", limits.memory_high));
                        has(&format!("\nTasksMax={}\n", limits.tasks));
                        has(&format!("\nCPUWeight={}\n", limits.cpu_weight));
                        has(&format!("\nOOMScoreAdjust={}\n", limits.oom_score));
                    }
                }
                for (key, option) in SHUT_IN {
                    match runtime {
                        Runtime::Quadlet(_) => has(key),
                        Runtime::NoQuadlet => has(option),
                        // systemd's own tool says of these what they are worth.
                        Runtime::Native => {}
                    }
                }
                match runtime {
                    Runtime::Native => has(&format!("\nUser={}\n", user.name)),
                    Runtime::NoQuadlet => has(&format!("--user={0}:{0} ", user.id)),
                    Runtime::Quadlet(_) => has(&format!("\nUser={0}\nGroup={0}\n", user.id)),
                }
                if runtime != Runtime::Native {
                    has(&format!("--oom-score-adj={}", limits.oom_score));
                }
            }
        }
    }
}

#[test]
fn a_container_sees_what_is_its_own_and_the_sockets_that_it_connects_to() {
    for runtime in RUNTIMES
        .into_iter()
        .filter(|runtime| *runtime != Runtime::Native)
    {
        let mut site = site(runtime);
        site.nodes[0].services = Service::of(Role::Master, true);
        let units = unit_texts(&files(&site, &site.nodes[0]));
        for service in Service::ALL {
            let text = &units[&format!("outpost-{service}-a.service")];
            let volumes = text.split_whitespace().filter_map(|word| {
                let volume = word.strip_prefix("Volume=");
                volume.or_else(|| word.strip_prefix("--volume="))
            });
            let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
            for volume in volumes {
                let parts: Vec<&str> = volume.split(':').collect();
                assert_eq!(parts[0], parts[1]);
                let is_read = parts[2].split(',').any(|option| option == "ro");
                match is_read {
                    true => reads.insert(parts[0].to_owned()),
                    false => writes.insert(parts[0].to_owned()),
                };
            }
            reads.remove("/usr/share");
            let path = |path: PathBuf| path.display().to_string();
            let servers = facts::servers(service).iter().copied();
            let sockets = servers.filter_map(facts::run).map(path);
            let expected: BTreeSet<String> = [path(paths::etc(service))]
                .into_iter()
                .chain(sockets)
                .collect();
            assert_eq!(reads, expected, "{service}");
            let own = [facts::run(service), Some(paths::state(service))];
            let own = own.into_iter().flatten().map(path);
            let expected: BTreeSet<String> = [path(paths::admin_directory(service))]
                .into_iter()
                .chain(own)
                .collect();
            assert_eq!(writes, expected, "{service}");
        }
    }
}

#[test]
fn what_is_read_of_the_system_is_read_only_and_on_every_host() {
    for runtime in RUNTIMES {
        let site = site(runtime);
        let units = unit_texts(&files(&site, &site.nodes[0]));
        for (unit, text) in units {
            // No host is without it; one without time zones has to start the container, too.
            let has_system = text.contains("/usr/share:/usr/share:ro");
            let is_meant =
                unit.starts_with("outpost-timesync-agent-") && unit.ends_with(".service");
            let in_container = runtime != Runtime::Native;
            assert_eq!(has_system, is_meant && in_container, "{unit}:\n{text}");
        }
    }
}

#[test]
fn a_worker_gets_its_own_services_and_asks_the_masters_for_names() {
    let site = site(Runtime::Quadlet(Podman::V5_2));
    let worker = files(&site, &site.nodes[3]);
    let units = unit_texts(&worker);
    assert!(units.contains_key("outpost-timesync-agent-a.service"));
    assert!(!units.contains_key("outpost-dns-recursor-a.service"));
    let resolver = worker
        .iter()
        .find(|file| file.path.ends_with("90-outpost-dns.conf"))
        .unwrap();
    let text = String::from_utf8(resolver.contents.clone()).unwrap();
    assert!(
        text.contains("servers=192.168.7.13,192.168.7.14,192.168.7.15\n"),
        "{text}"
    );
    let own = scope::resolvers(&site, Some(&site.nodes[1]));
    assert_eq!(
        own[0].to_string(),
        "192.168.7.14",
        "a node asks itself first"
    );
}

#[test]
fn either_kind_can_be_had_whatever_the_site_says() {
    for runtime in RUNTIMES {
        let site = site(runtime);
        let node = &site.nodes[0];
        let quadlets = quadlet(&site, node);
        assert!(
            quadlets
                .iter()
                .any(|file| file.path.ends_with("outpost-healthd-a.container"))
        );
        let units = units(&site, node);
        assert!(
            units
                .iter()
                .any(|file| file.path.ends_with("outpost-healthd-a.service"))
        );
        let states = units_of(&site, node);
        let is_enabled = |name: &str| {
            states
                .iter()
                .find(|unit| unit.name == name)
                .map(|unit| unit.enable)
        };
        assert_eq!(is_enabled("outpost-dns-recursor.socket"), Some(true));
        assert_eq!(is_enabled("outpost-reload.service"), Some(false));
        assert_eq!(is_enabled("chronyd.service"), None, "it is not ours");
        let slot = is_enabled("outpost-healthd-b.service");
        assert_eq!(slot.is_none(), matches!(runtime, Runtime::Quadlet(_)));
    }
}

#[test]
fn what_the_platform_restarts_ends_no_service() {
    for runtime in RUNTIMES {
        let site = site(runtime);
        let scope = Scope::role(&site, Role::Master).unwrap();
        let mut host = host(&scope, runtime);
        role::add(&mut host, &scope, &Secrets::made_up(&site));
        for (name, text) in unit_texts(&host.into_files()) {
            // These only wait, and no unit requires them.
            if name.starts_with("outpost-image-") {
                continue;
            }
            for key in ["Requires", "BindsTo", "PartOf"] {
                let ours = words(&text, key)
                    .into_iter()
                    .find(|unit| unit.starts_with("outpost"));
                assert_eq!(ours, None, "{name}");
            }
        }
    }
}
