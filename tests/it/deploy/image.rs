//! `outpost image build` and `outpost images`, held against skopeo, sha256sum and podman.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tests::binaries::{ALL_SERVICES, binary};
use tests::bundle::{build, images, other, outpost, programs, text, well};
use tests::daemon::run;
use tests::scratch::Scratch;

use super::fixture::Node;

#[test]
fn the_same_programs_give_the_same_archives() {
    let programs = programs("0.1.0");
    let (one, two) = (Scratch::new("one"), Scratch::new("two"));
    let said = build(&programs, one.path(), &[]);
    build(&programs, two.path(), &[]);
    assert!(said.contains("all images"), "{said}");
    for name in fs::read_dir(one.path()).unwrap() {
        let name = name.unwrap().file_name();
        let read = |files: &Scratch| fs::read(files.path().join(&name)).unwrap();
        assert!(read(&one) == read(&two), "{name:?} differs");
    }
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(one.path());
    assert!(run(check).0.success());
}

#[test]
fn skopeo_reads_what_is_written() {
    let images = images("0.1.0");
    for service in ALL_SERVICES {
        let archive = format!(
            "oci-archive:{}",
            text(&images.join(&format!("{service}.tar")))
        );
        let told: serde_json::Value =
            serde_json::from_str(&other("skopeo", &["inspect", &archive])).unwrap();
        let label = |name: &str| told["Labels"][format!("org.opencontainers.image.{name}")].clone();
        assert_eq!(label("title"), service);
        assert_eq!(label("version"), "0.1.0");
        assert_eq!(label("revision"), "1a2b3c4d5");
        assert_eq!(told["Os"], "linux");
        let config: serde_json::Value =
            serde_json::from_str(&other("skopeo", &["inspect", "--config", &archive])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"][0], format!("/{service}"));
        assert_eq!(told["Layers"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_bill_names_what_is_in_the_program() {
    let images = images("0.1.0");
    let bill = fs::read(images.join("dns-authd.cdx.json")).unwrap();
    let bill: serde_json::Value = serde_json::from_slice(&bill).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let parts = bill["components"].as_array().unwrap();
    let names: Vec<&str> = parts
        .iter()
        .map(|part| part["name"].as_str().unwrap())
        .collect();
    for name in ["dns-wire", "mlua", "tokio", "glibc"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"tonic-prost-build"), "it only builds");
    let is_known = |part: &serde_json::Value| part["purl"].is_string();
    assert!(parts.iter().all(is_known));
}

#[test]
fn a_program_that_needs_libraries_is_refused() {
    let programs = Scratch::new("dynamic");
    fs::copy("/bin/true", programs.join("healthd")).unwrap();
    let (binaries, output) = (text(programs.path()), text(&programs.join("out")));
    let checkout = text(tests::binaries::checkout());
    let (code, _, complaint) = outpost(&[
        "image",
        "build",
        "healthd",
        "--binaries",
        &binaries,
        "--output",
        &output,
        "--checkout",
        &checkout,
    ]);
    assert_eq!(code, Some(69));
    assert!(complaint.contains("needs libraries"), "{complaint}");
    assert!(!Path::new(&output).join("healthd.tar").exists());
}

#[test]
fn without_podman_programs_are_unpacked_and_mended() {
    let (node, images) = (Node::new(), images("0.1.0"));
    node.fill(&images);
    let native = || {
        let mut command = node.command("load");
        command
            .args(["--native", "--programs"])
            .arg(node.files.join("bin"));
        command.env_remove("PATH");
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{stdout}{stderr}");
        stdout
    };
    assert_eq!(native().matches("loaded").count(), 14);
    assert_eq!(native().matches("is there").count(), 14);
    // Nothing loads any more, so nothing is waited for.
    let mut wait = Command::new(binary("outpost"));
    wait.args(["images", "wait", "healthd", "--archives"])
        .arg(node.files.join("images"));
    let (status, _, stderr) = run(wait);
    assert!(status.success(), "{stderr}");
    let program = node.files.join("bin/healthd-b");
    let said = other(&text(&program), &["--version"]);
    assert!(said.contains("0.1.0"), "{said}");
    fs::remove_file(&program).unwrap();
    fs::write(&program, "half").unwrap();
    let said = native();
    assert!(said.contains("healthd b: 0.1.0"), "{said}");
    assert_eq!(said.matches("it was damaged").count(), 1, "{said}");
}

#[test]
#[ignore = "needs root for podman"]
fn podman_loads_and_runs_what_is_written() {
    let (node, images) = (Node::new(), images("0.1.0"));
    node.fill(&images);
    let said = node.images("load");
    assert_eq!(said.matches("loaded in").count(), 7, "{said}");
    assert_eq!(node.images("load").matches("is there").count(), 14);
    for service in ALL_SERVICES {
        let image = format!("localhost/outpost/{service}:a");
        let (well, said) = node.podman(&[
            "run",
            "--rm",
            "--network=none",
            "--read-only",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            &image,
            "--version",
        ]);
        assert!(well, "{said}");
        assert!(said.starts_with(&format!("{service} 0.1.0")), "{said}");
    }
    let (_, user) = node.podman(&[
        "image",
        "inspect",
        "--format",
        "{{.User}}",
        "localhost/outpost/healthd:b",
    ]);
    assert_eq!(user.trim(), "65532:65532");
    assert_eq!(node.images("verify").matches(": whole").count(), 14);
}

#[test]
#[ignore = "needs root for podman"]
fn what_a_power_cut_leaves_is_mended() {
    let (node, images) = (Node::new(), images("0.1.0"));
    node.fill(&images);
    node.images("load");
    // A file that never reached the disk.
    for file in node.stored("healthd") {
        fs::write(file, "").unwrap();
    }
    let said = node.images("load");
    assert!(said.contains("it was damaged: /healthd"), "{said}");
    assert_eq!(said.matches("is there").count(), 12, "{said}");
    // All files of all layers.
    for service in ALL_SERVICES {
        for file in node.stored(service) {
            fs::remove_dir_all(file.parent().unwrap()).unwrap();
        }
    }
    assert_eq!(node.images("load").matches("loaded in").count(), 7);
    // A store that podman refuses to open.
    fs::write(node.files.join("storage/overlay-layers/layers.json"), "").unwrap();
    let said = node.images("load");
    assert_eq!(said.matches("loaded in").count(), 7, "{said}");
    // No store at all.
    let aside = node.files.join("gone");
    fs::rename(node.files.join("storage"), aside).unwrap();
    assert_eq!(node.images("load").matches("loaded in").count(), 7);
    assert_eq!(node.images("verify").matches(": whole").count(), 14);
}

#[test]
#[ignore = "needs root for podman"]
fn a_load_that_is_killed_is_finished_by_the_next() {
    let (node, images) = (Node::new(), images("0.1.0"));
    node.fill(&images);
    for after in [40, 90, 170, 260, 400, 650, 900] {
        let mut load = node.command("load");
        load.stdout(Stdio::null()).stderr(Stdio::null());
        // podman, which it has started, dies with it as it would with the power.
        let mut command = Command::new("setsid");
        command.arg(load.get_program()).args(load.get_args());
        for (key, value) in load.get_envs() {
            command.env(key, value.unwrap());
        }
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(after));
        let group = format!("-{}", child.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).output());
        child.wait().unwrap();
    }
    node.images("load");
    assert_eq!(node.images("verify").matches(": whole").count(), 14);
}

#[test]
#[ignore = "needs root for podman"]
fn a_damaged_archive_is_told_and_what_is_whole_serves() {
    let (node, images) = (Node::new(), images("0.1.0"));
    node.fill(&images);
    node.images("load");
    let own = node.files.join("images/healthd-b.tar");
    let mut bytes = fs::read(images.join("healthd.tar")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&own, &bytes).unwrap();
    let (status, stdout, stderr) = run(node.command("load"));
    assert!(status.success(), "{stdout}{stderr}");
    assert!(
        stderr.contains("healthd b: runs healthd.tar instead"),
        "{stderr}"
    );
    let (status, stdout, _) = run(node.command("verify"));
    assert!(!status.success(), "{stdout}");
    // With nothing whole to run it is a failure.
    fs::write(node.files.join("images/healthd.tar"), &bytes).unwrap();
    fs::remove_file(&own).unwrap();
    node.podman(&[
        "rmi",
        "--force",
        "localhost/outpost/healthd:a",
        "localhost/outpost/healthd:b",
    ]);
    let (status, _, stderr) = run(node.command("load"));
    assert_eq!(status.code(), Some(69), "{stderr}");
    well(&["--version"]);
}
