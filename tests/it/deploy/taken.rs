//! A service is taken: an attacker has its process, and with it its user, its groups and its capabilities. The kernel says
//! what the attacker reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::time::Duration;

use tests::binaries::SERVICES;
use tests::bundle::other;
use tests::daemon::http_get;
use tests::installed::{DIRECTORIES, Identity, Installed, SITE, nobody, values};
use tests::wait;

/// What an identity reaches of the node.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    reads: BTreeSet<String>,
    writes: BTreeSet<String>,
    connects: BTreeSet<String>,
    /// The other services whose processes take a signal.
    signals: BTreeSet<String>,
}

impl Reach {
    fn of(node: &Installed, identity: &Identity) -> Self {
        let found = |conditions: &[&str]| -> BTreeSet<String> {
            let arguments = [&DIRECTORIES[..], conditions].concat();
            let lines = node.lines(identity, "find", &arguments);
            lines.into_iter().collect()
        };
        let signals = node.daemons.iter().filter(|(_, daemon)| {
            let id = daemon.id().to_string();
            let said = node.lines(identity, "sh", &["-c", "kill -0 \"$0\" && echo taken", &id]);
            said == ["taken"]
        });
        Self {
            reads: found(&["-type", "f", "-readable"]),
            writes: found(&["(", "-type", "f", "-o", "-type", "d", ")", "-writable"]),
            connects: found(&["-type", "s", "-writable"]),
            signals: signals.map(|(name, _)| (*name).to_owned()).collect(),
        }
    }
}

/// The directories of a service's own.
fn own(service: &str) -> Vec<String> {
    let state = match service {
        "registry-svc" => "registry",
        other => other,
    };
    let mut all = vec![
        format!("/etc/outpost/{service}"),
        format!("/run/outpost/{service}"),
        format!("/run/outpost-admin/{service}"),
        format!("/var/lib/outpost/{state}"),
    ];
    if service == "timesync-agent" {
        all.push("/run/chrony".to_owned());
    }
    all
}

fn is_below(path: &str, directories: &[String]) -> bool {
    directories.iter().any(|directory| {
        let rest = path.strip_prefix(directory.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Those that are not below the directories.
fn beyond(paths: &BTreeSet<String>, directories: &[String]) -> Vec<String> {
    let others = paths.iter().filter(|path| !is_below(path, directories));
    others.cloned().collect()
}

/// How long a service may take to find healthd.
const PATIENCE: Duration = Duration::from_secs(20);

const HEALTHD: &str = "/run/outpost/healthd/healthd.sock";

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_service_that_is_taken_reaches_its_own_and_no_more() {
    let site = SITE.replace("[registry]\n", "[registry]\nusers = \"registry.users\"\n");
    let node = Installed::start(&site);
    let anyone = Reach::of(&node, &nobody());
    let taken: BTreeMap<&str, Reach> = SERVICES
        .iter()
        .map(|service| (*service, Reach::of(&node, &node.identity(service))))
        .collect();
    table(&anyone, &taken);

    // A user without rights changes nothing, connects nowhere and reads nothing of a service.
    assert_eq!(anyone.writes, BTreeSet::new());
    assert_eq!(anyone.connects, BTreeSet::new());
    assert_eq!(anyone.signals, BTreeSet::new());
    let of_services: Vec<String> = SERVICES.iter().flat_map(|service| own(service)).collect();
    let theirs = anyone
        .reads
        .iter()
        .filter(|path| is_below(path, &of_services));
    assert_eq!(theirs.collect::<Vec<_>>(), Vec::<&String>::new());

    for (service, reach) in &taken {
        let own = own(service);
        let reads = reach.reads.difference(&anyone.reads).cloned().collect();
        assert_eq!(beyond(&reads, &own), [""; 0], "{service} reads");
        assert_eq!(beyond(&reach.writes, &own), [""; 0], "{service} writes");
        let subscribes = ["dns-authd", "dns-recursor", "lb-proxy", "timesync-agent"];
        let to = match subscribes.contains(service) {
            true => vec![HEALTHD.to_owned()],
            false => Vec::new(),
        };
        assert_eq!(beyond(&reach.connects, &own), to, "{service} connects to");
        let itself = BTreeSet::from([(*service).to_owned()]);
        assert_eq!(reach.signals, itself, "{service} signals");
        // The rig sees what there is: the service itself has its configuration and its socket for operators.
        let config = format!("/etc/outpost/{service}/{service}.toml");
        assert!(reach.reads.contains(&config), "{reach:?}");
        let admin = format!("/run/outpost-admin/{service}/a.sock");
        assert!(reach.connects.contains(&admin), "{reach:?}");
        // It cannot change what it is told to do.
        let etc = format!("/etc/outpost/{service}");
        let changes = reach.writes.iter().filter(|path| path.starts_with(&etc));
        let secrets = changes.filter(|path| !is_secret(path));
        assert_eq!(secrets.collect::<Vec<_>>(), Vec::<&String>::new());
    }

    // Each secret is for one service.
    for (secret, owner) in [
        ("/etc/outpost/registry-svc/pki/node.key", "registry-svc"),
        ("/etc/outpost/registry-svc/pki/token.key", "registry-svc"),
        ("/etc/outpost/registry-svc/users", "registry-svc"),
        ("/etc/outpost/healthd/pki/node.key", "healthd"),
    ] {
        let readers = taken
            .iter()
            .filter(|(_, reach)| reach.reads.contains(secret));
        let readers: Vec<&str> = readers.map(|(service, _)| *service).collect();
        assert_eq!(readers, [owner], "{secret}");
    }
    let swap = "/run/outpost/lb-proxy/lb-proxy.swap";
    let takers = taken
        .iter()
        .filter(|(_, reach)| reach.connects.contains(swap));
    let takers: Vec<&str> = takers.map(|(service, _)| *service).collect();
    assert_eq!(takers, ["lb-proxy"]);

    // healthd is there for its subscribers: their processes are connected.
    let connected = || {
        let admin = ([127, 0, 0, 1], 9401).into();
        let status = node.machine.inside(|| http_get(admin, "/status"));
        let (_, status) = status.unwrap();
        let mut subscribers = ["dns-authd", "lb-proxy"].iter();
        subscribers.all(|name| status.contains(&format!("\"{name}\"")))
    };
    wait::for_it("services subscribe at healthd", PATIENCE, connected);
}

#[test]
#[ignore = "needs root for owners of files"]
fn state_that_another_user_has_left_is_given_to_its_service() {
    let node = Installed::install(SITE);
    let state = node.root.join("var/lib/outpost/registry");
    let (left, own) = (state.join("blobs/sha256"), state.join("own"));
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("blob"), "content").unwrap();
    fs::write(&own, "content").unwrap();
    // The directory itself is the service's already, as tmpfiles.d has it.
    for path in [state.join("blobs"), left.clone(), left.join("blob")] {
        chown(path, Some(65_532), Some(65_532)).unwrap();
    }
    let user = node.identity("registry-svc").user;
    chown(&own, Some(user), Some(user)).unwrap();
    let unit = node.root.join("etc/systemd/system/outpost-setup.service");
    let unit = fs::read_to_string(unit).unwrap();
    let below = node.root.join("var/lib/outpost").display().to_string();
    let commands = values(&unit, "ExecStart");
    let mut n_commands = 0;
    for command in commands
        .iter()
        .filter_map(|line| line.strip_prefix("-/usr/bin/find "))
    {
        let here = command.replace("/var/lib/outpost", &below);
        other("find", &here.split(' ').collect::<Vec<_>>());
        n_commands += 1;
    }
    assert_eq!(n_commands, SERVICES.len(), "each has state: {unit}");
    for path in [state.join("blobs"), left.clone(), left.join("blob"), own] {
        let found = fs::metadata(&path).unwrap();
        assert_eq!(
            (found.uid(), found.gid()),
            (user, user),
            "{}",
            path.display()
        );
    }
}

/// Secrets belong to their service: it could write to them, but not put others in their place.
fn is_secret(path: &str) -> bool {
    path.ends_with(".key") || path.ends_with(".secret") || path.ends_with("/users")
}

/// Prints what each service reaches, for people.
fn table(anyone: &Reach, taken: &BTreeMap<&str, Reach>) {
    println!("every user reads: {}", line(&anyone.reads));
    for (service, reach) in taken {
        let reads = reach.reads.difference(&anyone.reads).cloned().collect();
        println!("{service}");
        println!("  reads       {}", line(&reads));
        println!("  writes      {}", line(&reach.writes));
        println!("  connects to {}", line(&reach.connects));
        println!("  signals     {}", line(&reach.signals));
    }
}

/// The paths, without those in a directory that is named itself.
fn line(paths: &BTreeSet<String>) -> String {
    let is_inside = |path: &&str| {
        let mut above = Path::new(*path).ancestors().skip(1);
        above.any(|directory| directory.to_str().is_some_and(|name| paths.contains(name)))
    };
    let all = paths.iter().map(String::as_str);
    let all: Vec<&str> = all.filter(|path| !is_inside(path)).collect();
    match all.is_empty() {
        true => "nothing".to_owned(),
        false => all.join(" "),
    }
}
