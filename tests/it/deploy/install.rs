//! `outpost install` and `outpost uninstall` on the root of a machine that does not run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use tests::binaries::binary;
use tests::bundle::{Site, images, outpost, text, well};
use tests::daemon::run;
use tests::netns::Network;
use tests::scratch::Scratch;

/// The files below a directory: bytes, permissions, owner.
type Tree = BTreeMap<PathBuf, (Vec<u8>, u32, u32)>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if metadata.is_dir() {
                waiting.push(path);
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(name, (text(&target).into_bytes(), 0, 0));
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(name, (bytes, metadata.mode() & 0o7777, metadata.uid()));
            }
        }
    }
    found
}

/// How many files there are in a tree that is changing.
fn n_files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => n_files(&entry.path()),
        _ => 1,
    };
    entries.map(count).sum()
}

fn install(root: &Scratch, bundle: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let root = text(root.path());
    outpost(
        &[
            &["install", bundle, "--node", "master-0", "--root", &root],
            more,
        ]
        .concat(),
    )
}

fn installed(root: &Scratch, bundle: &str, more: &[&str]) -> String {
    let (code, stdout, stderr) = install(root, bundle, more);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    stdout
}

#[test]
#[ignore = "needs root for owners of files"]
fn a_dry_run_shows_all_and_changes_nothing() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let bundle = site.bundle(&images, "bundle");
    let public = site.path("maker.pub");
    let said = installed(&root, &bundle, &["--public-key", &public, "--dry-run"]);
    assert!(
        said.contains("--- /dev/null\n+++ b/etc/outpost/healthd/healthd.toml\n@@ "),
        "{said}"
    );
    assert!(said.contains("image of healthd: none to sha256:"), "{said}");
    assert!(said.contains("node.key\n(private, not shown)"), "{said}");
    assert!(!said.contains("PRIVATE KEY"));
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("dry run of master-"), "{last}");
    assert!(last.ends_with("; nothing was changed"), "{last}");
    assert!(!last.contains(" 0 files"), "{last}");
    assert!(tree(root.path()).is_empty());
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_machine_is_known_by_its_address_where_any_could_be_bound() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let bundle = site.bundle(&images, "bundle");
    let mut network = Network::new();
    let machine = network.machine("any", "192.168.7.14/24");
    machine.configure("net/ipv4/ip_nonlocal_bind", "1");
    let mut command = machine.command(binary("outpost"));
    command.args(["install", &bundle, "--dry-run", "--root"]);
    command.arg(root.path());
    command.args(["--public-key", &site.path("maker.pub")]);
    let (status, said, complaint) = run(command);
    assert!(status.success(), "{complaint}");
    assert!(said.contains("master-1"), "{said}");
}

#[test]
#[ignore = "needs root for owners of files"]
fn an_install_is_what_was_rendered_and_the_next_has_nothing_to_do() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let bundle = site.bundle(&images, "bundle");
    let public = site.path("maker.pub");
    installed(&root, &bundle, &["--public-key", &public]);
    let there = tree(root.path());
    let rendered = site.path("rendered");
    well(&[
        "render",
        &site.path("site.toml"),
        "--target",
        "configs",
        "--output",
        &rendered,
    ]);
    let configs = tree(&Path::new(&rendered).join("configs/master-0"));
    assert!(configs.len() > 8);
    for (path, (bytes, _, _)) in &configs {
        assert_eq!(
            there.get(path).map(|(bytes, _, _)| bytes),
            Some(bytes),
            "{}",
            path.display()
        );
    }
    for (name, mode) in [
        ("usr/local/bin/outpost", 0o755),
        ("etc/outpost/healthd/healthd.toml", 0o644),
    ] {
        assert_eq!(there[Path::new(name)].1, mode, "{name}");
    }
    let key = &there[Path::new("etc/outpost/healthd/pki/node.key")];
    assert_eq!((key.1 & 0o077, key.2), (0, 65_520));
    let archive = fs::read(images.join("healthd.tar")).unwrap();
    assert!(there[Path::new("var/lib/outpost/images/healthd.tar")].0 == archive);

    // The key is known by now.
    let said = installed(&root, &bundle, &[]);
    assert!(said.contains("nothing to do"), "{said}");
    assert!(tree(root.path()) == there);
}

#[test]
#[ignore = "needs root for owners of files"]
fn only_what_changed_is_written() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let public = site.path("maker.pub");
    installed(
        &root,
        &site.bundle(&images, "one"),
        &["--public-key", &public],
    );
    let before = tree(root.path());
    let file = site.path("site.toml");
    let changed = fs::read_to_string(&file).unwrap()
        + "\n[[record]]\nname = \"new\"\naddress = \"192.168.7.99\"\n";
    fs::write(&file, changed).unwrap();
    // Somebody has opened a file and taken another away.
    let zones = root.join("etc/outpost/healthd/healthd.toml");
    fs::set_permissions(zones, fs::Permissions::from_mode(0o666)).unwrap();
    let bundle = site.bundle(&images, "two");
    let said = installed(&root, &bundle, &["--dry-run"]);
    assert!(said.contains("+new"), "{said}");
    assert!(
        said.contains("rights of /etc/outpost/healthd/healthd.toml: 0666 0:0 to 0644 0:0"),
        "{said}"
    );
    installed(&root, &bundle, &[]);
    let after = tree(root.path());
    let mut differ: Vec<String> = Vec::new();
    for path in after.keys() {
        if before.get(path) != after.get(path) && !path.starts_with("var/lib/outpost/install") {
            differ.push(text(path));
        }
    }
    assert!(
        differ
            .iter()
            .all(|path| path.starts_with("etc/outpost/dns-authd/zones")),
        "{differ:?}"
    );
    assert!(!differ.is_empty());
}

/// How many times an install is killed, each time when more of it is there.
const ROUNDS: usize = 16;

#[test]
#[ignore = "needs root for owners of files"]
fn an_install_that_is_killed_anywhere_is_finished_by_the_next() {
    let (site, images) = (Site::seed(), images("0.1.0"));
    let bundle = site.bundle(&images, "bundle");
    let public = site.path("maker.pub");
    let whole = Scratch::new("whole");
    installed(&whole, &bundle, &["--public-key", &public]);
    let expected = tree(whole.path());
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        let root = Scratch::new("killed");
        let mut child = Command::new(binary("outpost"))
            .args([
                "install",
                &bundle,
                "--node",
                "master-0",
                "--public-key",
                &public,
                "--root",
            ])
            .arg(root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // By what it has done and not by the clock, which knows nothing of the machine.
        let enough = expected.len() * round / ROUNDS;
        while n_files(root.path()) <= enough && child.try_wait().unwrap().is_none() {
            thread::yield_now();
        }
        drop(child.kill());
        let ended = child.wait().unwrap();
        let left = tree(root.path());
        for (path, file) in &left {
            let known = path.starts_with("var/lib/outpost") || is_beside(path);
            assert!(
                known || expected.get(path) == Some(file),
                "half a file: {}",
                path.display()
            );
        }
        interrupted += usize::from(!ended.success() && !left.is_empty());
        installed(&root, &bundle, &["--public-key", &public]);
        let mut found = tree(root.path());
        found.retain(|path, _| !is_beside(path));
        assert!(found.keys().eq(expected.keys()), "round {round}");
        for (path, file) in &found {
            // The record of a run that went on says which directories it found.
            assert!(
                path.ends_with("record.json") || Some(file) == expected.get(path),
                "{}",
                path.display()
            );
        }
    }
    assert!(
        interrupted >= ROUNDS / 4,
        "only {interrupted} were killed in the middle"
    );
}

/// The temporary files that are written beside a file before it has its name.
fn is_beside(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "outpost-new")
}

#[test]
#[ignore = "needs root for owners of files"]
fn an_uninstall_leaves_exactly_what_was_there() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let bundle = site.bundle(&images, "bundle");
    let foreign = root.join("etc/tmpfiles.d/outpost.conf");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "somebody's own\n").unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(root.join("usr/local/bin")).unwrap();
    fs::write(root.join("usr/local/bin/other"), "stays").unwrap();
    let before = tree(root.path());
    installed(&root, &bundle, &["--public-key", &site.path("maker.pub")]);
    // The registry has new content, and a person has edited a file.
    fs::create_dir_all(root.join("var/lib/outpost/registry")).unwrap();
    fs::write(root.join("var/lib/outpost/registry/blob"), "kept").unwrap();
    fs::write(root.join("etc/outpost/lb-proxy/lb-proxy.toml"), "edited\n").unwrap();
    let at = text(root.path());
    let said = well(&["uninstall", "--root", &at]);
    assert!(
        said.contains("/etc/outpost/lb-proxy/lb-proxy.toml was changed since, and stays"),
        "{said}"
    );
    let mut after = tree(root.path());
    assert_eq!(
        after
            .remove(Path::new("var/lib/outpost/registry/blob"))
            .map(|file| file.0),
        Some(b"kept".to_vec())
    );
    assert_eq!(
        after
            .remove(Path::new("etc/outpost/lb-proxy/lb-proxy.toml"))
            .map(|file| file.0),
        Some(b"edited\n".to_vec())
    );
    assert!(after == before, "{:?}", after.keys());
    well(&["uninstall", "--purge", "--root", &at]);
    assert!(!root.join("var/lib/outpost").exists());
}

#[test]
#[ignore = "needs root for owners of files"]
fn an_older_bundle_is_installed_only_when_asked_for() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let public = site.path("maker.pub");
    let older = site.bundle(&images, "older");
    installed(&root, &older, &["--public-key", &public]);
    let path = site.files.join("site.toml");
    let text = fs::read_to_string(&path).unwrap();
    let record = "\n[[record]]\nname = \"new\"\naddress = \"192.168.7.77\"\n";
    fs::write(&path, format!("{text}{record}")).unwrap();
    let newer = site.bundle(&images, "newer");
    let again = site.bundle(&images, "again");
    assert_eq!(fs::read(&newer).unwrap(), fs::read(&again).unwrap());
    installed(&root, &newer, &[]);
    let before = tree(root.path());
    let (code, _, complaint) = install(&root, &older, &[]);
    assert_eq!(code, Some(65), "{complaint}");
    let why = "the bundle has generation 1, and this node has had 2; nothing was changed";
    assert!(complaint.contains(why), "{complaint}");
    assert!(tree(root.path()) == before, "nothing is touched");
    installed(&root, &older, &["--allow-older"]);
    // What was begun may be finished without asking again.
    installed(&root, &older, &[]);
    installed(&root, &newer, &[]);
    let (code, _, complaint) = install(&root, &older, &[]);
    assert_eq!(code, Some(65), "{complaint}");
}

#[test]
#[ignore = "needs root for owners of files"]
fn nothing_is_touched_for_a_bundle_that_is_not_believed() {
    let (site, images, root) = (Site::seed(), images("0.1.0"), Scratch::new("root"));
    let bundle = site.bundle(&images, "bundle");
    let (code, _, complaint) = install(&root, &bundle, &[]);
    assert_eq!(code, Some(69), "{complaint}");
    assert!(complaint.contains("--public-key"), "{complaint}");
    well(&["key", "generate", "--output", &site.path("other")]);
    let (code, _, complaint) = install(&root, &bundle, &["--public-key", &site.path("other.pub")]);
    assert_eq!(code, Some(65), "{complaint}");
    let mut bytes = fs::read(&bundle).unwrap();
    let last = bytes.len() - 4000;
    bytes[last] ^= 1;
    fs::write(&bundle, bytes).unwrap();
    let (code, _, complaint) = install(&root, &bundle, &["--public-key", &site.path("maker.pub")]);
    assert_eq!(code, Some(65), "{complaint}");
    let (code, _, complaint) = outpost(&[
        "install",
        &bundle,
        "--node",
        "nobody",
        "--root",
        &text(root.path()),
        "--public-key",
        &site.path("maker.pub"),
    ]);
    assert_ne!(code, Some(0), "{complaint}");
    assert!(tree(root.path()).is_empty());
}
