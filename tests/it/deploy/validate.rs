//! Every target, by its own tool: Ignition's validation, systemd's, and podman's generator of
//! quadlets.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::binaries::{binary, checkout};
use tests::daemon::run;
use tests::node;
use tests::scratch::Scratch;

/// A site of tests/data/deploy on a platform, rendered.
struct Rendered {
    files: Scratch,
}

impl Rendered {
    /// `platform` is what stands below `[platform]`.
    fn new(site: &str, platform: &str, targets: &[&str]) -> Self {
        let files = Scratch::new(&format!("validate-{site}"));
        let from = checkout().join("tests/data/deploy").join(site);
        super::copy_site(&from, &files);
        let text = fs::read_to_string(from.join("site.toml")).unwrap();
        let (before, _) = text.split_once("[platform]").unwrap();
        files.write("site.toml", &format!("{before}[platform]\n{platform}\n"));
        let rendered = Self { files };
        let file = rendered.files.join("site.toml").display().to_string();
        rendered.outpost(&["pki", "make", &file]);
        let output = rendered.files.join("out").display().to_string();
        for target in targets {
            rendered.outpost(&["render", &file, "--target", target, "--output", &output]);
        }
        rendered
    }

    fn outpost(&self, arguments: &[&str]) {
        let mut command = Command::new(binary("outpost"));
        command.args(arguments);
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{arguments:?}: {stdout}{stderr}");
    }

    /// Everything below a directory of the output with this ending, by its name.
    fn named(&self, below: &str, ending: &str) -> BTreeMap<String, PathBuf> {
        let mut found = BTreeMap::new();
        let mut directories = vec![self.files.join("out").join(below)];
        while let Some(here) = directories.pop() {
            for entry in fs::read_dir(&here).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.to_string_lossy().ends_with(ending) {
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    found.insert(name, path);
                }
            }
        }
        assert!(!found.is_empty(), "no {ending} in {below}");
        found
    }
}

/// The levels of podman that have quadlets, and one of OpenShift that is on the way of each.
const QUADLETS: [&str; 4] = [
    "openshift = \"4.14\"\npodman = \"4.4\"",
    "openshift = \"4.16\"\npodman = \"4.9\"",
    "openshift = \"4.18\"\npodman = \"5.2\"",
    "podman = \"5.4\"",
];

//--- Ignition

/// Says nothing at all about what is right.
fn validate(config: &Path) {
    let mut command = Command::new("ignition-validate");
    command.arg(config);
    let (status, stdout, stderr) = run(command);
    let said = format!("{stdout}{stderr}");
    assert!(
        status.success() && said.is_empty(),
        "{}: {said}",
        config.display()
    );
}

#[test]
fn ignition_finds_nothing_wrong_with_a_node() {
    for (site, platform) in [
        ("seed", QUADLETS[2]),
        ("vips", QUADLETS[0]),
        ("single", "podman = \"none\""),
        ("island", "openshift = \"4.12\""),
    ] {
        let rendered = Rendered::new(site, platform, &["ignition"]);
        for config in rendered.named("ignition", ".ign").values() {
            validate(config);
        }
    }
}

#[test]
fn ignition_finds_nothing_wrong_with_a_machine_config() {
    let rendered = Rendered::new("vips", QUADLETS[2], &["machineconfig"]);
    let mut n_configs = 0;
    for (name, path) in rendered.named("machineconfig", ".yaml") {
        let text = fs::read_to_string(path).unwrap();
        let manifest: Value = serde_saphyr::from_str(&text).unwrap();
        if manifest["kind"] != "MachineConfig" {
            assert_eq!(manifest["kind"], "MachineConfiguration");
            continue;
        }
        n_configs += 1;
        let role = &manifest["metadata"]["labels"]["machineconfiguration.openshift.io/role"];
        assert!(name.contains(role.as_str().unwrap()), "{name}");
        let config = rendered.files.join(&format!("{name}.ign"));
        fs::write(&config, manifest["spec"]["config"].to_string()).unwrap();
        validate(&config);
    }
    assert_eq!(n_configs, 1, "there are masters only");
}

//--- systemd

/// systemd's verdict on units as a machine would have them, but for programs that this one lacks and
/// what is wrong with its own units.
fn verify(units: &BTreeMap<String, PathBuf>, scratch: &Scratch) -> Vec<String> {
    let directory = scratch.join("units");
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(&directory).unwrap();
    let mut paths = Vec::new();
    for (name, path) in units {
        let copy = directory.join(name);
        fs::copy(path, &copy).unwrap();
        paths.push(copy);
    }
    let mut command = Command::new("systemd-analyze");
    // The empty entry stands for where units are usually found.
    command.env("SYSTEMD_UNIT_PATH", format!("{}:", directory.display()));
    command.args(["verify", "--man=no"]).args(&paths);
    let (_, stdout, stderr) = run(command);
    format!("{stdout}{stderr}")
        .lines()
        .filter(|line| line.contains("outpost") && !line.contains("is not executable"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn systemd_finds_nothing_wrong_with_plain_units() {
    for platform in ["openshift = \"4.12\"", "podman = \"none\""] {
        let rendered = Rendered::new("vips", platform, &["units"]);
        let mut units = rendered.named("units/master-1", ".service");
        units.extend(rendered.named("units/master-1", ".socket"));
        assert_eq!(verify(&units, &rendered.files), [""; 0], "{platform}");
        // And it would have said so.
        let name = "outpost-healthd-a.service";
        let path = &units[name];
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, format!("{text}\n[Service]\nRestrat=no\n")).unwrap();
        let said = verify(&units, &rendered.files);
        assert!(
            said.iter().any(|line| line.contains("Restrat")),
            "{name}: {said:?}"
        );
    }
}

/// The most that systemd may count against a unit that runs the binary itself, times ten: for services
/// without capabilities, and for those that set addresses or the clock. More than half of theirs is the network of
/// the host, and the rest the two capabilities and the calls and address families that go with them. chronyd of Debian has
/// 35, and a container of podman 98, because it is podman that is looked at.
const EXPOSURE: [(&str, &[&str]); 3] = [
    (
        "11",
        &["healthd", "dns-authd", "dns-recursor", "registry-svc"],
    ),
    ("18", &["lb-proxy"]),
    ("20", &["timesync-agent"]),
];

#[test]
fn native_units_are_shut_in() {
    let rendered = Rendered::new("vips", "podman = \"none\"", &["units"]);
    let units = rendered.named("units/master-0", ".service");
    for (most, services) in EXPOSURE {
        for service in services {
            for slot in ["a", "b"] {
                let mut command = Command::new("systemd-analyze");
                command.args([
                    "security",
                    "--no-pager",
                    "--offline=yes",
                    "--threshold",
                    most,
                ]);
                command.arg(&units[&format!("outpost-{service}-{slot}.service")]);
                let (status, stdout, stderr) = run(command);
                assert!(status.success(), "{service}: {stdout}{stderr}");
            }
        }
    }
}

/// Everything that a unit could have besides and that systemd would count for it, whether or not the service could live with it.
/// A list begins again after an empty value.
const BESIDES: &str = "\n[Service]\nSupplementaryGroups=\nProcSubset=pid\nRootDirectory=/nowhere\n\
                       IPAddressDeny=any\nIPAddressAllow=192.0.2.0/24\n";

/// The capability without which each of two services would be of no use, and the least that systemd counts with it, times ten.
const FLOORS: [(&str, &str, u32); 2] = [
    ("timesync-agent", "CAP_SYS_TIME", 17),
    ("lb-proxy", "CAP_NET_ADMIN CAP_NET_RAW", 17),
];

#[test]
fn a_service_that_acts_on_the_machine_has_a_floor() {
    let rendered = Rendered::new("vips", "podman = \"none\"", &["units"]);
    let units = rendered.named("units/master-0", ".service");
    for (service, capabilities, floor) in FLOORS {
        let unit = &units[&format!("outpost-{service}-a.service")];
        let own = ["CapabilityBoundingSet", "AmbientCapabilities"]
            .map(|key| format!("{key}=\n{key}={capabilities}\n"));
        let text = fs::read_to_string(unit).unwrap() + BESIDES + &own.concat();
        fs::write(unit, text).unwrap();
        let is_within = |most: u32| {
            let mut command = Command::new("systemd-analyze");
            command.args(["security", "--no-pager", "--offline=yes", "--threshold"]);
            command.arg(most.to_string()).arg(unit);
            run(command).0.success()
        };
        assert!(is_within(floor), "{service}: the floor is higher");
        assert!(!is_within(floor - 1), "{service}: the floor is lower");
    }
}

//--- The nodes of a role

#[test]
#[ignore = "makes a network namespace"]
fn a_machine_takes_the_files_of_the_node_whose_address_it_has() {
    let rendered = Rendered::new("vips", QUADLETS[2], &["butane"]);
    let root = rendered.files.join("root");
    let text =
        fs::read_to_string(&rendered.named("butane", ".bu")["99-master-outpost.bu"]).unwrap();
    let butane: Value = serde_saphyr::from_str(&text).unwrap();
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let mut script = String::new();
    for file in butane["storage"]["files"].as_array().unwrap() {
        let (path, text) = (
            file["path"].as_str().unwrap(),
            file["contents"]["inline"].as_str().unwrap(),
        );
        if path == "/usr/local/bin/outpost-node" {
            text.clone_into(&mut script);
        }
        fs::create_dir_all(below(path).parent().unwrap()).unwrap();
        fs::write(below(path), text).unwrap();
    }
    let script = rendered.files.write("outpost-node", &script);
    let reloads = rendered.files.join("reloads");
    let stand_in = format!("#!/bin/sh\necho \"$*\" >>{}\n", reloads.display());
    fs::create_dir_all(rendered.files.join("bin")).unwrap();
    let systemctl = rendered.files.write("bin/systemctl", &stand_in);
    let mut command = Command::new("chmod");
    command.arg("+x").arg(&systemctl);
    assert!(run(command).0.success());
    let take = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c"]);
        command.arg(
            "ip link set lo up && ip address add 192.168.7.14/24 dev lo && exec sh \"$0\" \"$1\"",
        );
        command.arg(&script).arg(&root);
        let path = std::env::var("PATH").unwrap();
        command.env(
            "PATH",
            format!("{}:{path}", systemctl.parent().unwrap().display()),
        );
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{stdout}{stderr}");
        assert!(stdout.contains("This machine is master-1"), "{stdout}");
    };
    take();
    let own = |path: &str| fs::read(below(path)).unwrap();
    let expected = |path: &str| own(&format!("/etc/outpost/nodes/master-1{path}"));
    let resolver = "/etc/NetworkManager/conf.d/90-outpost-dns.conf";
    for path in [
        "/etc/outpost/registry-svc/pki/node.key",
        "/etc/outpost/lb-proxy/lb-proxy.toml",
        resolver,
    ] {
        assert_eq!(own(path), expected(path));
        assert!(!own(path).is_empty());
        assert!(
            !below(path).is_symlink(),
            "a container sees no other directory"
        );
    }
    assert!(
        !below("/etc/outpost/nodes/master-1/etc/outpost/dns-authd/zones.conf").exists(),
        "it is the same on every node"
    );
    // Once more, and nothing has changed.
    take();
    assert_eq!(fs::read_to_string(&reloads).unwrap().lines().count(), 1);

    // A file that the node has no more goes, and one that the platform has put in the place of a copy stays.
    let (gone, common) = (
        "/etc/outpost/lb-proxy/lb-proxy.toml",
        "/etc/outpost/registry-svc/pki/node.key",
    );
    for path in [gone, common] {
        fs::remove_file(below(&format!("/etc/outpost/nodes/master-1{path}"))).unwrap();
    }
    let new = below("/etc/outpost/new");
    fs::write(&new, "the platform's").unwrap();
    fs::rename(new, below(common)).unwrap();
    take();
    assert!(!below(gone).exists());
    assert_eq!(own(common), b"the platform's");
}

//--- podman

/// The units that podman generates from quadlets, by name; podman leaves out keys that it does not understand.
fn generate(root: &Path, quadlets: &Path) -> (BTreeMap<String, String>, String) {
    // The loader of the root and its libraries, so that the generator runs on any Debian.
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(libraries);
    command
        .arg(root.join("usr/libexec/podman/quadlet"))
        .arg("-dryrun");
    command.env("QUADLET_UNIT_DIRS", quadlets);
    let (_, stdout, stderr) = run(command);
    let mut units = BTreeMap::new();
    let mut name = String::new();
    for line in stdout.lines() {
        match line
            .strip_prefix("---")
            .and_then(|line| line.strip_suffix("---"))
        {
            Some(begins) => begins.clone_into(&mut name),
            None => units
                .entry(name.clone())
                .or_insert_with(String::new)
                .push_str(&format!("{line}\n")),
        }
    }
    (units, stderr)
}

#[test]
#[ignore = "unpacks the root of a node"]
fn podman_makes_units_of_every_quadlet_and_systemd_finds_nothing_wrong_with_them() {
    let Some(root) = node::or_skip() else {
        return;
    };
    for platform in QUADLETS {
        let rendered = Rendered::new("vips", platform, &["quadlet"]);
        let quadlets = rendered.named("quadlet/master-0", ".container");
        let directory = quadlets.values().next().unwrap().parent().unwrap();
        let (made, said) = generate(root.path(), directory);
        assert_eq!(made.len(), quadlets.len(), "{platform}: {said}");
        let mut units = rendered.named("quadlet/master-0", ".socket");
        units.extend(rendered.named("quadlet/master-0", ".service"));
        for (name, text) in made {
            assert!(text.contains("--sdnotify=container"), "{text}");
            assert!(
                text.contains("--cap-drop") && text.contains("--read-only"),
                "{text}"
            );
            let path = rendered.files.join(&format!("made-{name}"));
            fs::write(&path, text).unwrap();
            units.insert(name, path);
        }
        assert_eq!(verify(&units, &rendered.files), [""; 0], "{platform}");
    }
}
