//! `outpost bundle` and `outpost key`, held against minisign.

use std::fs;
use std::process::Command;

use tests::bundle::{Site, images, other, outpost, text, well};
use tests::daemon::run;

#[test]
fn the_same_site_and_images_give_the_same_bundle() {
    let (site, images) = (Site::seed(), images("0.1.0"));
    let (one, two) = (site.bundle(&images, "one"), site.bundle(&images, "two"));
    assert!(fs::read(one).unwrap() == fs::read(two).unwrap());
}

#[test]
fn minisign_believes_our_signature_and_we_believe_its_own() {
    let (site, images) = (Site::seed(), images("0.1.0"));
    let bundle = site.bundle(&images, "bundle");
    let inside = site.path("inside");
    fs::create_dir(&inside).unwrap();
    other(
        "tar",
        &["--extract", "--file", &bundle, "--directory", &inside],
    );
    let manifest = format!("{inside}/manifest.json");
    let said = other(
        "minisign",
        &["-V", "-p", &site.path("maker.pub"), "-m", &manifest],
    );
    assert!(
        said.contains("Signature and comment signature verified"),
        "{said}"
    );
    assert!(said.contains("outpost bundle of ocp4.redhat.ren"), "{said}");

    // A key that minisign made.
    let (public, secret) = (site.path("other.pub"), site.path("other.key"));
    other("minisign", &["-G", "-W", "-p", &public, "-s", &secret]);
    let arguments = [
        "bundle",
        "--site",
        &site.path("site.toml"),
        "--images",
        &text(images.path()),
    ];
    let output = site.path("another");
    well(&[&arguments[..], &["--key", &secret, "--output", &output]].concat());
    let said = well(&["bundle", "verify", &output, "--public-key", &public]);
    assert!(said.contains("all as they were signed"), "{said}");
    let (code, _, complaint) = outpost(&[
        "bundle",
        "verify",
        &output,
        "--public-key",
        &site.path("maker.pub"),
    ]);
    assert_eq!(code, Some(65));
    assert!(complaint.contains("not to be believed"), "{complaint}");
}

#[test]
fn what_is_changed_anywhere_is_not_believed() {
    let (site, images) = (Site::seed(), images("0.1.0"));
    let bundle = site.bundle(&images, "bundle");
    let whole = fs::read(&bundle).unwrap();
    let public = site.path("maker.pub");
    let verify = |bytes: &[u8]| {
        let path = site.path("changed");
        fs::write(&path, bytes).unwrap();
        outpost(&["bundle", "verify", &path, "--public-key", &public]).0
    };
    assert_eq!(verify(&whole), Some(0));
    // Some of its parts, from the manifest to the last image; no byte of them may be another.
    for part in 0..20 {
        let mut changed = whole.clone();
        let at = 512 + part * (whole.len() - 4096) / 20;
        changed[at] ^= 0x20;
        let found = verify(&changed);
        assert!(found == Some(65) || is_filler(&whole, at), "byte {at}");
    }
    for length in [0, 511, 20_000, whole.len() / 2, whole.len() - 2048] {
        assert_eq!(verify(&whole[..length]), Some(65), "{length}");
    }
}

#[test]
fn images_that_are_not_those_that_were_built_are_not_signed() {
    let (site, built) = (Site::seed(), images("0.1.0"));
    let directory = site.path("images");
    other("cp", &["-r", &text(built.path()), &directory]);
    let arguments = [
        "bundle",
        "--site",
        &site.path("site.toml"),
        "--images",
        &directory,
        "--key",
        &site.path("maker.key"),
        "--output",
        &site.path("bundle"),
    ];
    // An image of the same service that somebody has put there, and another program.
    let another = images("0.2.0");
    for name in ["dns-authd.tar", "outpost"] {
        let path = format!("{directory}/{name}");
        let before = fs::read(&path).unwrap();
        let swapped = match name {
            "outpost" => [&before[..], b"more"].concat(),
            name => fs::read(another.join(name)).unwrap(),
        };
        fs::write(&path, swapped).unwrap();
        let (code, _, complaint) = outpost(&arguments);
        assert_eq!(code, Some(65), "{name}: {complaint}");
        assert!(complaint.contains("SHA256SUMS lists"), "{complaint}");
        assert!(complaint.contains("outpost image build"), "{complaint}");
        assert!(
            !std::path::Path::new(&site.path("bundle")).exists(),
            "{name}"
        );
        fs::write(&path, before).unwrap();
    }
    well(&arguments);
}

/// Whether nothing is around a byte: what fills the last block of a member.
fn is_filler(bytes: &[u8], at: usize) -> bool {
    bytes[at.saturating_sub(4)..at + 4]
        .iter()
        .all(|byte| *byte == 0)
}

#[test]
fn a_bundle_tells_what_is_in_it_and_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let (site, images) = (Site::seed(), images("0.1.0"));
    let bundle = site.bundle(&images, "bundle");
    let said = well(&["bundle", "list", &bundle]);
    for word in [
        "site ocp4 (ocp4.redhat.ren)",
        "image healthd",
        "node master-0 (192.168.7.13)",
    ] {
        assert!(said.contains(word), "{word}\n{said}");
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&well(&["bundle", "list", "--json", &bundle])).unwrap();
    assert_eq!(manifest["version"], "v1");
    let mode = fs::metadata(&bundle).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_bundle_of_one_node_has_no_key_of_another() {
    let (site, images) = (Site::seed(), images("0.1.0"));
    let whole = fs::read(site.bundle(&images, "bundle")).unwrap();
    let (file, images, key, output) = (
        site.path("site.toml"),
        text(images.path()),
        site.path("maker.key"),
        site.path("bundles"),
    );
    well(&[
        "bundle",
        "--site",
        &file,
        "--images",
        &images,
        "--key",
        &key,
        "--per-node",
        "--output",
        &output,
    ]);
    let nodes = ["master-0", "master-1", "master-2"];
    for node in nodes {
        let path = site.path(&format!("bundles/{node}.bundle"));
        well(&[
            "bundle",
            "verify",
            &path,
            "--public-key",
            &site.path("maker.pub"),
        ]);
        let bundle = fs::read(&path).unwrap();
        for other in nodes {
            let key = fs::read(site.files.join(&format!("pki/nodes/{other}.key"))).unwrap();
            assert!(has(&whole, &key), "{other}");
            assert_eq!(
                has(&bundle, &key),
                node == other,
                "{other} in that of {node}"
            );
        }
    }
}

#[test]
fn whoever_has_the_key_of_the_authority_stands_for_no_other_name() {
    let site = Site::seed();
    let at = |name: &str| site.path(name);
    let (ca, key) = (at("pki/ca.crt"), at("pki/ca.key"));
    let verify = |certificate: &str| {
        let mut command = Command::new("openssl");
        command.args(["verify", "-CAfile", &ca, certificate]);
        let (status, stdout, stderr) = run(command);
        (status.success(), format!("{stdout}{stderr}"))
    };
    let (is_good, said) = verify(&at("pki/nodes/master-0.crt"));
    assert!(is_good, "{said}");
    for name in ["DNS:bank.test", "DNS:redhat.ren", "IP:192.0.2.1"] {
        let (request, forged) = (at("forged.csr"), at("forged.crt"));
        let extension = format!("subjectAltName={name}");
        let (new_key, subject) = (at("forged.key"), "/CN=x");
        other(
            "openssl",
            &[
                "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout",
                &new_key, "-addext", &extension, "-out", &request,
            ],
        );
        other(
            "openssl",
            &[
                "x509",
                "-req",
                "-in",
                &request,
                "-CA",
                &ca,
                "-CAkey",
                &key,
                "-CAcreateserial",
                "-days",
                "9",
                "-copy_extensions",
                "copy",
                "-out",
                &forged,
            ],
        );
        let (is_good, said) = verify(&forged);
        assert!(
            !is_good && said.contains("permitted subtree violation"),
            "{name}: {said}"
        );
    }
}

/// Whether these bytes are among those.
fn has(all: &[u8], bytes: &[u8]) -> bool {
    all.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn keys_are_never_written_over_and_may_be_encrypted() {
    let (site, images) = (Site::seed(), images("0.1.0"));
    let (code, _, complaint) = outpost(&["key", "generate", "--output", &site.path("maker")]);
    assert_eq!(code, Some(69), "{complaint}");
    site.files.write("password", "correct horse\n");
    site.files.write("wrong", "battery\n");
    let output = site.path("locked");
    well(&[
        "key",
        "generate",
        "--output",
        &output,
        "--password-file",
        &site.path("password"),
    ]);
    let bundle = |password: &str| {
        let (site_file, key) = (site.path("site.toml"), site.path("locked.key"));
        let mut command = Command::new(tests::binaries::binary("outpost"));
        command.args([
            "bundle",
            "--site",
            &site_file,
            "--images",
            &text(images.path()),
            "--key",
            &key,
        ]);
        command.args([
            "--password-file",
            &site.path(password),
            "--output",
            &site.path("bundle"),
        ]);
        run(command).0.success()
    };
    assert!(!bundle("wrong"));
    assert!(bundle("password"));
    well(&[
        "bundle",
        "verify",
        &site.path("bundle"),
        "--public-key",
        &site.path("locked.pub"),
    ]);
}
