//! `outpost render`: what a site file makes of every node, held against files that people have read,
//! and against the services that are to read it.
//!
//! `OUTPOST_BLESS=1 cargo test -p tests --test it deploy::render` writes the files that the
//! renderings are held against (tests/data/deploy/SITE/rendered); the difference is for people to read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::binaries::{ALL_SERVICES, binary, checkout};
use tests::daemon::run;
use tests::scratch::Scratch;

/// The sites: without virtual IPs, with some of both families, alone, without a way out, with workers, with a cluster.
const SITES: [&str; 6] = ["seed", "vips", "single", "island", "workers", "cluster"];

/// Files by their paths below a directory.
type Tree = BTreeMap<String, Vec<u8>>;

/// A copy of a site, with certificates.
struct Site {
    files: Scratch,
    name: &'static str,
}

impl Site {
    fn new(name: &'static str) -> Self {
        let files = Scratch::new(&format!("render-{name}"));
        let from = data(name);
        super::copy_site(&from, &files);
        let site = Self { files, name };
        let (code, stdout, stderr) = outpost(&["pki", "make", &site.file()]);
        assert_eq!(code, Some(0), "{name}: {stdout}{stderr}");
        site
    }

    fn file(&self) -> String {
        self.files.join("site.toml").display().to_string()
    }

    /// Renders into `output` below the site's directory.
    fn render(&self, output: &str, more: &[&str]) -> (Option<i32>, String, String) {
        let (file, output) = (self.file(), self.output(output).display().to_string());
        let arguments = [&["render", &file, "--output", &output], more].concat();
        outpost(&arguments)
    }

    fn render_well(&self, output: &str, more: &[&str]) -> String {
        let (code, stdout, stderr) = self.render(output, more);
        assert_eq!(code, Some(0), "{}: {stdout}{stderr}", self.name);
        assert!(stderr.is_empty(), "{}: {stderr}", self.name);
        stdout
    }

    fn output(&self, output: &str) -> PathBuf {
        self.files.join(output)
    }

    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.files.join("site.toml")).unwrap();
        assert!(text.contains(from), "{from:?} in {text}");
        self.files.write("site.toml", &text.replace(from, to));
    }
}

fn data(site: &str) -> PathBuf {
    checkout().join("tests/data/deploy").join(site)
}

fn outpost(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("outpost"));
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    (status.code(), stdout, stderr)
}

fn tree(directory: &Path) -> Tree {
    let mut files = Tree::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(here) = directories.pop() {
        let Ok(entries) = fs::read_dir(&here) else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap();
                files.insert(name.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

//--- What is rendered

#[test]
fn every_site_is_rendered_as_people_have_read_it() {
    let mut different = Vec::new();
    for name in SITES {
        let site = Site::new(name);
        site.render_well("out", &["--target", "configs", "--target", "kubernetes"]);
        let mut rendered = tree(&site.output("out"));
        // Certificates and keys are new each time.
        rendered.retain(|path, _| path.contains('/') && !path.contains("/pki/"));
        let golden = data(name).join("rendered");
        if std::env::var_os("OUTPOST_BLESS").is_some() {
            drop(fs::remove_dir_all(&golden));
            for (path, contents) in &rendered {
                let path = golden.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, contents).unwrap();
            }
            continue;
        }
        let known = tree(&golden);
        let paths: BTreeSet<&String> = rendered.keys().chain(known.keys()).collect();
        let wrong = paths
            .into_iter()
            .filter(|path| rendered.get(*path) != known.get(*path));
        different.extend(wrong.map(|path| format!("{name}/rendered/{path}")));
    }
    assert!(
        different.is_empty(),
        "not as in tests/data/deploy (OUTPOST_BLESS=1 writes what is rendered there):\n{}",
        different.join("\n")
    );
}

#[test]
fn the_same_site_gives_the_same_bytes_wherever_it_is_rendered() {
    for name in SITES {
        let site = Site::new(name);
        site.render_well("one", &[]);
        let elsewhere = Scratch::new("elsewhere");
        let copy = Command::new("cp")
            .arg("-a")
            .arg(site.files.path())
            .arg(elsewhere.join("site"))
            .status();
        assert!(copy.unwrap().success());
        let (file, output) = (
            elsewhere.join("site/site.toml"),
            elsewhere.join("a/deeper/place"),
        );
        let (code, _, stderr) = outpost(&[
            "render",
            &file.display().to_string(),
            "--output",
            &output.display().to_string(),
        ]);
        assert_eq!(code, Some(0), "{stderr}");
        let (one, other) = (tree(&site.output("one")), tree(&output));
        assert!(one.len() > 10, "{name}: {:?}", one.keys());
        for path in one.keys().chain(other.keys()) {
            assert!(one.get(path) == other.get(path), "{name}: {path} differs");
        }
    }
}

#[test]
fn keys_are_their_owners_alone() {
    let site = Site::new("vips");
    site.render_well("out", &[]);
    let mut n_private = 0;
    for (path, contents) in tree(&site.output("out")) {
        let mode = fs::metadata(site.output("out").join(&path))
            .unwrap()
            .permissions()
            .mode();
        let has_key = String::from_utf8_lossy(&contents).contains("PRIVATE KEY");
        if has_key {
            assert_eq!(mode & 0o077, 0, "{path}: {mode:o}");
            n_private += 1;
        }
    }
    // A key of its own and one for tokens, on each of three nodes.
    assert!(n_private >= 6, "{n_private}");
}

#[test]
fn a_node_has_its_first_certificate_for_clients_and_the_later_ones_of_the_others() {
    let site = Site::new("vips");
    site.render_well("out", &["--target", "configs"]);
    let count = |path: &str| {
        let text = fs::read_to_string(site.output("out/configs").join(path)).ok()?;
        Some(text.matches("BEGIN CERTIFICATE").count())
    };
    for node in ["master-0", "master-1", "master-2"] {
        for service in ["registry-svc", "healthd"] {
            let pki = format!("{node}/etc/outpost/{service}/pki");
            assert_eq!(count(&format!("{pki}/served.crt")), Some(1), "{pki}");
            for other in ["master-0", "master-1", "master-2"] {
                let later = count(&format!("{pki}/later/{other}.crt"));
                assert_eq!(later.is_some(), other != node, "{pki}: {other}");
                // A hundred and some in five years.
                assert!(later.is_none_or(|number| number > 100), "{pki}: {other}");
            }
        }
        for service in ["lb-proxy", "dns-authd", "dns-recursor", "timesync-agent"] {
            let pki = format!("{node}/etc/outpost/{service}/pki/later");
            assert!(!site.output("out/configs").join(&pki).exists(), "{pki}");
        }
    }
}

//--- What the services say

/// Every node of every site: its name, and a copy of its files with paths that lead into the copy.
fn each_node(mut check: impl FnMut(&str, &Path)) {
    for name in SITES {
        let site = Site::new(name);
        site.render_well("out", &["--target", "configs"]);
        for node in fs::read_dir(site.output("out/configs")).unwrap() {
            let node = node.unwrap();
            let etc = node.path().join("etc/outpost");
            for (path, contents) in tree(&etc) {
                let Ok(text) = String::from_utf8(contents) else {
                    continue;
                };
                if path.ends_with(".toml") {
                    let here = etc.display().to_string();
                    fs::write(etc.join(&path), text.replace("/etc/outpost", &here)).unwrap();
                }
            }
            check(
                &format!("{name}/{}", node.file_name().to_string_lossy()),
                &etc,
            );
        }
    }
}

#[test]
fn every_service_takes_the_configuration_that_is_rendered_for_it() {
    let mut checked: BTreeMap<&str, u32> = BTreeMap::new();
    each_node(|node, etc| {
        for service in ALL_SERVICES {
            let config = etc.join(format!("{service}/{service}.toml"));
            if !config.exists() {
                continue;
            }
            let mut command = Command::new(binary(service));
            command.args(["check", "--config"]).arg(&config);
            let (status, stdout, stderr) = run(command);
            assert_eq!(
                status.code(),
                Some(0),
                "{node} {service}: {stdout}{stderr}\n{}",
                fs::read_to_string(&config).unwrap()
            );
            *checked.entry(service).or_default() += 1;
        }
    });
    // Fourteen masters, three of them with a cluster, and workers of which one answers for names.
    for (service, n) in [
        ("healthd", 15),
        ("clusterd", 3),
        ("dns-authd", 15),
        ("dns-recursor", 15),
        ("lb-proxy", 14),
        ("registry-svc", 14),
        ("timesync-agent", 20),
    ] {
        assert_eq!(checked.get(service), Some(&n), "{service}: {checked:?}");
    }
}

#[test]
fn nothing_is_wrong_with_any_zone() {
    let mut n_zones = 0;
    each_node(|node, etc| {
        let own = etc.join("dns-authd");
        if !own.join("zones.conf").exists() {
            return;
        }
        let mut command = Command::new(binary("dns-authd"));
        command
            .args(["zone", "check", "--config"])
            .arg(own.join("dns-authd.toml"));
        let (status, stdout, stderr) = run(command);
        assert_eq!(status.code(), Some(0), "{node}: {stdout}{stderr}");
        let list = fs::read_to_string(own.join("zones.conf")).unwrap();
        n_zones += list.matches("zone \"").count();
    });
    assert!(
        n_zones >= 24,
        "each site has a zone and its reverse: {n_zones}"
    );
}

#[test]
fn the_seeds_zone_has_the_records_that_its_people_wrote() {
    let records = |text: &str| -> BTreeSet<String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with([';', '$', ' ']) && !line.contains("SOA"));
        let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        words.filter(|line| !line.is_empty()).collect()
    };
    let site = Site::new("seed");
    site.render_well("out", &["--target", "configs", "--node", "master-1"]);
    let zone = site.output("out/configs/master-1/etc/outpost/dns-authd/zones/ocp4.redhat.ren");
    let written = checkout().join("tests/data/seed/inside-out.xyz");
    assert_eq!(
        records(&fs::read_to_string(zone).unwrap()),
        records(&fs::read_to_string(written).unwrap())
    );
}

//--- The directory

#[test]
fn a_difference_is_shown_and_nothing_is_written() {
    let site = Site::new("island");
    let (code, stdout, _) = site.render("out", &["--target", "configs", "--diff"]);
    assert_eq!(code, Some(1));
    assert!(
        stdout.contains("+++ b/configs/a/etc/outpost/healthd/healthd.toml\n"),
        "{stdout}"
    );
    assert!(!stdout.contains("PRIVATE KEY"), "{stdout}");
    assert!(!site.output("out").exists());

    site.render_well("out", &["--target", "configs"]);
    let before = tree(&site.output("out"));
    let (code, stdout, _) = site.render("out", &["--target", "configs", "--diff"]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));

    site.edit("serial = 7", "serial = 8");
    let (code, stdout, _) = site.render("out", &["--target", "configs", "--diff"]);
    assert_eq!(code, Some(1));
    assert!(
        stdout.contains("\n-        7           ; serial\n+        8           ; serial\n"),
        "{stdout}"
    );
    assert_eq!(tree(&site.output("out")), before);
}

#[test]
fn what_is_rendered_no_more_is_removed_and_nothing_else() {
    let site = Site::new("workers");
    let all = site.render_well("out", &["--target", "configs"]);
    assert!(
        all.contains("configs/worker-1/etc/outpost/timesync-agent/timesync-agent.toml"),
        "{all}"
    );
    let note = site.output("out/configs/worker-1/notes.txt");
    fs::write(&note, "mine").unwrap();
    site.edit("name = \"worker-1\"", "name = \"worker-7\"");
    site.edit("serial = 3", "serial = 4");
    // The certificates are those of the nodes that there are.
    let (code, _, stderr) = outpost(&["pki", "make", &site.file()]);
    assert_eq!(code, Some(0), "{stderr}");
    let changed = site.render_well("out", &["--target", "configs"]);
    let gone = site.output("out/configs/worker-1/etc/outpost/timesync-agent/timesync-agent.toml");
    assert!(!gone.exists(), "{changed}");
    assert!(
        changed.contains(&format!("removed  {}", gone.display())),
        "{changed}"
    );
    assert!(
        site.output("out/configs/worker-7/etc/outpost/timesync-agent/timesync-agent.toml")
            .exists()
    );
    assert_eq!(fs::read_to_string(note).unwrap(), "mine");
    let again = site.render_well("out", &["--target", "configs"]);
    assert!(again.contains("0 written, 0 removed"), "{again}");
}

#[test]
fn one_node_is_rendered_without_touching_the_others() {
    let site = Site::new("island");
    site.render_well("out", &["--target", "configs"]);
    site.edit("serial = 7", "serial = 8");
    let before = tree(&site.output("out"));
    let changed = site.render_well("out", &["--target", "configs", "--node", "b"]);
    let after = tree(&site.output("out"));
    for (path, contents) in &before {
        let is_same = after.get(path) == Some(contents);
        assert!(
            is_same || path.starts_with("configs/b/"),
            "{path}\n{changed}"
        );
    }
    assert_ne!(before, after);
    let (code, _, stderr) = site.render("out", &["--node", "d"]);
    assert_eq!(code, Some(69));
    assert!(stderr.contains("no node d; it has a, b, c"), "{stderr}");
}

#[test]
fn a_file_that_was_not_rendered_is_never_overwritten() {
    let site = Site::new("single");
    let mine = site.output("out/configs/node-0/etc/outpost/healthd/healthd.toml");
    fs::create_dir_all(mine.parent().unwrap()).unwrap();
    fs::write(&mine, "mine").unwrap();
    let (code, _, stderr) = site.render("out", &["--target", "configs"]);
    assert_eq!(code, Some(69), "{stderr}");
    assert!(
        stderr.contains("configs/node-0/etc/outpost/healthd/healthd.toml"),
        "{stderr}"
    );
    assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
    assert_eq!(tree(&site.output("out")).len(), 1);
}

#[test]
fn a_site_that_is_wrong_is_not_rendered() {
    let site = Site::new("single");
    site.edit("role = \"master\"", "role = \"captain\"");
    let (code, _, stderr) = site.render("out", &[]);
    assert_eq!(code, Some(78));
    assert!(stderr.contains("site.toml:10:8: "), "{stderr}");
    assert!(!site.output("out").exists());
}
