//! `outpost init`, `check` and `pki`: from nothing to a site file and certificates that services take.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tests::binaries::{binary, checkout};
use tests::daemon::run;
use tests::scratch::Scratch;

/// Exit code, standard output, standard error.
fn outpost(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("outpost"));
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    (status.code(), stdout, stderr)
}

/// The same, with a person who answers.
fn answered(arguments: &[&str], answers: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(binary("outpost"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(answers.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn template() -> String {
    fs::read_to_string(checkout().join("deploy/config/site.toml")).unwrap()
}

#[test]
fn the_template_passes_and_says_what_there_is_to_know() {
    let files = Scratch::new("site-template");
    let path = shown(&files.write("site.toml", &template()));
    let (code, stdout, stderr) = outpost(&["check", &path]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{stdout}");
    assert!(lines[0].starts_with(&format!("{path}:13:8: note: no [time] servers")));
    assert!(
        lines[1].starts_with("note: no certificates in "),
        "{stdout}"
    );
    assert_eq!(
        lines[2],
        format!(
            "{path}: site ocp4 (ocp4.redhat.ren), 3 masters, 3 workers, 21 services, 0 virtual IPs, 5 further records"
        )
    );
}

#[test]
fn every_problem_is_a_line_with_its_place_and_nothing_is_changed() {
    let files = Scratch::new("site-wrong");
    let text = template()
        .replace("address = \"192.168.7.14\"", "address = \"192.168.8.14\"")
        .replace("name = \"worker-2\"", "name = \"etcd-1\"")
        .replace("#users = \"registry", "users = \"registry")
        .replace("openshift = \"4.18\"", "openshift = \"3.11\"");
    let path = shown(&files.write("site.toml", &text));
    let (code, stdout, stderr) = outpost(&["check", &path]);
    assert_eq!((code, stderr.as_str()), (Some(78), ""), "{stdout}");
    let line_of = |needle: &str| text.lines().position(|line| line.contains(needle)).unwrap() + 1;
    for (needle, said) in [
        (
            "\"192.168.8.14\"",
            "192.168.8.14 is outside the site's networks (192.168.7.0/24)",
        ),
        ("\"etcd-1\"", "`etcd-1` is "),
        ("users = ", "cannot read "),
        ("openshift = ", "`3.11` is no release of OpenShift"),
    ] {
        let begins = format!("{path}:{}:", line_of(needle));
        let found = stdout
            .lines()
            .any(|line| line.starts_with(&begins) && line.contains(said));
        assert!(found, "{begins} {said}\n{stdout}");
    }
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 1);
    // Warnings alone pass, unless they may not.
    let odd = template().replace("name = \"ocp4\"", "name = \"ocp5\"");
    let path = shown(&files.write("odd.toml", &odd));
    assert_eq!(outpost(&["check", &path]).0, Some(0));
    assert_eq!(outpost(&["check", "--strict", &path]).0, Some(78));
    let (code, stdout, _) = outpost(&["check", "/nowhere/site.toml"]);
    assert_eq!(code, Some(78));
    assert!(stdout.contains("`outpost init` makes one"), "{stdout}");
}

#[test]
fn a_running_cluster_makes_a_site_that_check_accepts_and_render_takes() {
    for (name, n_nodes) in [
        ("openshift", "3 masters, 2 workers"),
        ("kubeadm", "1 master, 1 worker"),
    ] {
        let files = Scratch::new(&format!("site-of-{name}"));
        let manifests = shown(&checkout().join("tests/data/clusters").join(name));
        let output = shown(files.path());
        let from = [
            "init",
            "--from-cluster",
            "--manifests",
            &manifests,
            "--output",
            &output,
        ];
        let (code, stdout, stderr) = outpost(&from);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        // Each thing that no object says is a line, there and in the file.
        let path = files.path().join("site.toml");
        let text = fs::read_to_string(&path).unwrap();
        let notes: Vec<&str> = stderr
            .lines()
            .filter(|line| line.starts_with("not "))
            .collect();
        assert!(!notes.is_empty(), "{stderr}");
        for note in notes {
            assert!(text.contains(&format!("# {note}\n")), "{note}\n{text}");
        }
        let path = shown(&path);
        let (code, stdout, _) = outpost(&["check", &path]);
        assert_eq!(code, Some(0), "{stdout}");
        assert!(stdout.contains(n_nodes), "{stdout}");
        let (code, stdout, stderr) = outpost(&["pki", "make", &path]);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        let rendered = shown(&files.path().join("out"));
        let (code, stdout, stderr) = outpost(&["render", &path, "--output", &rendered]);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        assert_eq!(outpost(&from).0, Some(64), "a file that is there stays");
    }
    let (code, _, stderr) = outpost(&["init", "--from-cluster", "--kubeconfig", "/nowhere/config"]);
    assert_eq!(code, Some(65), "{stderr}");
    assert!(stderr.contains("cannot read /nowhere/config"), "{stderr}");
    assert_eq!(outpost(&["init", "--kubeconfig", "x"]).0, Some(64));
}

#[test]
fn users_of_the_registry_are_looked_at() {
    let files = Scratch::new("site-users");
    let text = template().replace("#users = \"registry", "users = \"registry");
    let path = shown(&files.write("site.toml", &text));
    for (users, code, said) in [
        ("# nobody\n", 78, "names no user"),
        (
            "alice:plain\n",
            78,
            "registry.users:1:1: no user with a bcrypt password",
        ),
        ("alice:$2y$05$abcdefghijklmnopqrstuv\n", 0, "site ocp4"),
    ] {
        files.write("registry.users", users);
        let (found, stdout, _) = outpost(&["check", &path]);
        assert_eq!(found, Some(code), "{stdout}");
        assert!(stdout.contains(said), "{said}\n{stdout}");
    }
}

#[test]
fn what_a_mirror_shows_and_trusts_is_looked_at() {
    let files = Scratch::new("site-mirror");
    super::copy_site(&checkout().join("tests/data/deploy/vips"), &files);
    let path = shown(&files.join("site.toml"));
    let (code, stdout, _) = outpost(&["check", &path]);
    assert_eq!(code, Some(0), "{stdout}");
    files.write("hub.credentials", "s3cret\n");
    files.write("hub.crt", "s3cret\n");
    fs::remove_file(files.join("registry.users")).unwrap();
    let (code, stdout, _) = outpost(&["check", &path]);
    assert_eq!(code, Some(78), "{stdout}");
    for said in [
        "hub.credentials:1:1: no credentials, as in user:password",
        "hub.crt is no PEM",
        "the users of the registry: No such file",
    ] {
        assert!(stdout.contains(said), "{said}\n{stdout}");
    }
    assert!(!stdout.contains("s3cret"), "{stdout}");
}

#[test]
fn openshifts_files_become_a_site_that_passes() {
    let files = Scratch::new("site-from");
    let corpus = checkout().join("tests/fuzz/corpus/install_config");
    let install = shown(&corpus.join("install-config.yaml"));
    let agent = shown(&corpus.join("agent-config.yaml"));
    let output = shown(&files.join("north"));
    // In any order: the domain is in one, the hosts are in the other.
    let arguments = [
        "init", "--from", &agent, "--from", &install, "--output", &output,
    ];
    let (code, stdout, stderr) = outpost(&arguments);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let path = shown(&files.join("north/site.toml"));
    let (code, stdout, _) = outpost(&["check", "--strict", &path]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(
        stdout.contains("3 masters, 2 workers") && stdout.contains("2 virtual IPs"),
        "{stdout}"
    );
    // Existing files stay, unless they may not.
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{before}# mine\n")).unwrap();
    let (code, _, stderr) = outpost(&arguments);
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("is there already"), "{stderr}");
    assert!(fs::read_to_string(&path).unwrap().ends_with("# mine\n"));
    assert_eq!(outpost(&[&arguments[..], &["--force"]].concat()).0, Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_none_says_where() {
    let files = Scratch::new("site-none");
    let path = shown(&files.write("install-config.yaml", "metadata:\n  name: [\n"));
    let output = shown(files.path());
    let (code, stdout, stderr) = outpost(&["init", "--from", &path, "--output", &output]);
    assert_eq!((code, stdout.as_str()), (Some(65), ""));
    assert!(stderr.starts_with(&format!("{path}:2:")), "{stderr}");
    assert!(!files.join("site.toml").exists());
}

#[test]
fn what_nobody_said_is_named_where_nobody_can_be_asked() {
    let files = Scratch::new("site-missing");
    let output = shown(files.path());
    let (code, _, stderr) = outpost(&["init", "--name", "edge", "--output", &output]);
    assert_eq!(code, Some(64));
    assert_eq!(
        stderr,
        "missing: --domain DOMAIN --network CIDR --master NAME=ADDRESS\n"
    );
    // Said, but it does not fit together: nothing is written either.
    let arguments = [
        "init",
        "--name",
        "edge",
        "--domain",
        "edge.example.com",
        "--network",
        "192.0.2.0/24",
    ];
    let rest = ["--master", "node-0=198.51.100.1", "--output", &output];
    let (code, _, stderr) = outpost(&[&arguments[..], &rest].concat());
    assert_eq!(code, Some(65), "{stderr}");
    assert!(
        stderr.contains("198.51.100.1 is outside the site's networks"),
        "{stderr}"
    );
    assert!(!files.join("site.toml").exists());
}

#[test]
fn a_few_answers_become_a_site_that_passes() {
    let files = Scratch::new("site-asked");
    let output = shown(files.path());
    let answers = "edge\nedge.example.com\n192.0.2.0/24\n1\n0\n192.0.2.10\n-\n-\n-\n\nnone\n";
    let (code, stdout, stderr) = answered(&["init", "--ask", "--output", &output], answers);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(
        stderr.contains("Address of master-0 [192.0.2.13]: "),
        "{stderr}"
    );
    let (code, stdout, _) = outpost(&["check", &shown(&files.join("site.toml"))]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(
        stdout.contains("site edge (edge.example.com), 1 master, 0 workers"),
        "{stdout}"
    );
    // Answers that end early write nothing.
    let empty = shown(&files.join("empty"));
    let (code, _, stderr) = answered(&["init", "--ask", "--output", &empty], "edge\n");
    assert_eq!(code, Some(64), "{stderr}");
    assert!(!files.join("empty").exists());
}

#[test]
fn certificates_are_made_once_and_a_registry_takes_them() {
    let files = Scratch::new("site-pki");
    let path = shown(&files.write("site.toml", &template()));
    let (code, stdout, _) = outpost(&["pki", "show", &path]);
    assert_eq!(code, Some(78), "{stdout}");
    assert_eq!(stdout.matches("not there; ").count(), 4, "{stdout}");
    let (code, stdout, stderr) = outpost(&["pki", "make", &path]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let mode = |name: &str| {
        let metadata = fs::metadata(files.join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode("pki"), 0o700);
    assert_eq!(mode("pki/ca.key"), 0o600);
    assert_eq!(mode("pki/nodes/master-2.key"), 0o600);
    let (code, again, _) = outpost(&["pki", "make", &path]);
    assert_eq!(code, Some(0));
    assert_eq!(again, "good as they were: 3 of the nodes' certificates\n");
    let (code, stdout, _) = outpost(&["pki", "show", &path]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(
        stdout.contains("for 127.0.0.1 192.168.7.13 ::1 localhost master-0 "),
        "{stdout}"
    );

    // For its clients and for the other nodes.
    let at = |name: &str| shown(&files.join(name));
    let config = format!(
        "version = \"v1\"\nroot = \"{root}\"\n[tls]\ncertificates = [{{ certificate = \"{crt}\", key = \"{key}\" }}]\n\
         client-ca = \"{ca}\"\n[cluster]\nnode = \"master-0\"\npeers = [{{ name = \"master-1\", address = \"192.168.7.14:5444\" }}]\n\
         ca = \"{ca}\"\ncertificate = \"{crt}\"\nkey = \"{key}\"\n",
        root = at("root"),
        crt = at("pki/nodes/master-0.crt"),
        key = at("pki/nodes/master-0.key"),
        ca = at("pki/ca.crt"),
    );
    let config = files.write("registry.toml", &config);
    let mut command = Command::new(binary("registry-svc"));
    command.arg("check").arg("--config").arg(config);
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{stdout}{stderr}");
}

#[test]
fn every_verb_has_help_with_examples_and_exit_codes() {
    for verb in [
        &["init"][..],
        &["check"],
        &["pki", "make"],
        &["pki", "show"],
    ] {
        let (code, stdout, _) = outpost(&[verb, &["--help"]].concat());
        assert_eq!(code, Some(0), "{verb:?}");
        for part in ["Examples:", "Exit status:", "Usage:"] {
            assert!(stdout.contains(part), "{verb:?} {part}\n{stdout}");
        }
        assert_eq!(outpost(&[verb, &["--no-such-flag"]].concat()).0, Some(64));
    }
}
