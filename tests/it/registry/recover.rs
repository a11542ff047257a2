//! A journal that is damaged in both copies, on a node that stands alone: what is left of it is served at once, and
//! `registry-svc recover` gives images their names again.

use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tests::daemon::{http_get, run};
use tests::registry::{PORT, Registry, digest_of, exchange};
use tests::scratch::at;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The octets before the payload of a record: its length, its checksum, its batch.
const HEAD: usize = 16;

/// An image that was pushed, of one layer.
struct Image {
    tag: &'static str,
    layer: Vec<u8>,
    manifest: String,
}

impl Image {
    fn push(address: SocketAddr, tag: &'static str) -> Self {
        let layer = format!("the layer of {tag}").into_bytes();
        let digest = digest_of(&layer);
        let path = format!("/v2/ocp4/release/blobs/uploads/?digest={digest}");
        assert_eq!(exchange(address, "POST", &path, "", &layer).unwrap().0, 201);
        let config = json!({ "mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": layer.len() });
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [] })
                .to_string();
        let kind = format!("Content-Type: {MANIFEST}\r\n");
        let path = format!("/v2/ocp4/release/manifests/{tag}");
        let put = exchange(address, "PUT", &path, &kind, manifest.as_bytes());
        assert_eq!(put.unwrap().0, 201);
        Self {
            tag,
            layer,
            manifest,
        }
    }

    /// Whether the registry serves it under its tag, and its layer.
    fn is_served(&self, address: SocketAddr) -> bool {
        let get = |path: String| {
            let (status, _, body) = exchange(address, "GET", &path, "", b"").unwrap();
            (status == 200).then_some(body)
        };
        let manifest = get(format!("/v2/ocp4/release/manifests/{}", self.tag));
        let layer = get(format!("/v2/ocp4/release/blobs/{}", digest_of(&self.layer)));
        manifest.as_deref() == Some(self.manifest.as_bytes()) && layer.as_ref() == Some(&self.layer)
    }
}

/// Changes the checksum of every record between two places of both copies of the journal.
fn damage(root: &Path, begin: u64, end: u64) {
    let path = |copy: &str| root.join(copy).join("00000001.log");
    let journal = std::fs::read(path("journal")).unwrap();
    let mut at = usize::try_from(begin).unwrap();
    while (at as u64) < end {
        for copy in ["journal", "journal-copy"] {
            let file = std::fs::File::options().write(true).open(path(copy));
            let checksum = [!journal[at + 4]];
            file.unwrap()
                .write_all_at(&checksum, at as u64 + 4)
                .unwrap();
        }
        let length = u32::from_le_bytes(journal[at..at + 4].try_into().unwrap());
        at += HEAD + usize::try_from(length).unwrap();
    }
}

fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn images_get_the_names_again_that_a_damaged_journal_has_lost() {
    // The machine may have a full disk: its bounds are no concern of this test.
    let space = "[space]\nfree = \"1MiB\"\nstop = 99\n";
    let registry = Registry::with(&format!(
        "plain = true\n\n[access]\nanonymous = \"all\"\n\n{space}"
    ));
    let address = at(registry.ip, PORT);
    let journal = registry.root().join("journal");
    let end = || {
        std::fs::metadata(journal.join("00000001.log"))
            .unwrap()
            .len()
    };
    let daemon = registry.start();
    let before = Image::push(address, "v1");
    let begin = end();
    let lost = Image::push(address, "v2");
    let until = end();
    let after = Image::push(address, "v3");
    daemon.kill();
    damage(&registry.root(), begin, until);

    // The start says what happened and what to do, and everything around the damage is served.
    let daemon = registry.start();
    daemon.wait_log("The journal is damaged: another was made of its whole records");
    let (_, ready) = http_get(registry.admin(), "/readyz").unwrap();
    assert!(
        ready.contains("journal-damaged: ") && ready.contains("registry-svc recover"),
        "{ready}"
    );
    assert!(before.is_served(address) && after.is_served(address));
    assert!(!lost.is_served(address));

    // The list changes nothing.
    let digest = digest_of(lost.manifest.as_bytes());
    let recover = |more: &[&str]| {
        let mut command = registry.command("recover");
        command.args(more);
        let (status, out, err) = run(command);
        (status.code(), out, err)
    };
    for _ in 0..2 {
        let was = files(&journal);
        let (code, out, err) = recover(&["--json"]);
        assert_eq!(code, Some(0), "{err}");
        let listed: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(listed["journal_damaged"], true, "{out}");
        let [one] = listed["manifests"].as_array().unwrap().as_slice() else {
            panic!("{out}");
        };
        assert_eq!(one["digest"], digest.as_str());
        assert_eq!(one["missing"], json!([]));
        assert_eq!(one["proposals"][0], "ocp4/release:v2");
        let (code, out, _) = recover(&[]);
        assert_eq!(code, Some(0));
        assert!(
            out.contains(&format!("{digest}  ")) && out.contains("perhaps ocp4/release:v2"),
            "{out}"
        );
        assert!(out.contains("1 manifest without a name"), "{out}");
        assert_eq!(files(&journal), was);
    }
    let (code, _, err) = recover(&[&digest_of(b"never pushed"), "ocp4/release:v9"]);
    assert!(code.is_some_and(|code| code != 0), "{err}");

    // Its names come back, and a second time there is nothing to do.
    let (code, out, err) = recover(&["--all"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains(&format!("ocp4/release:v2 is {digest}")),
        "{out}"
    );
    assert!(lost.is_served(address));
    let was = files(&journal);
    assert_eq!(recover(&["--all"]), (Some(0), String::new(), String::new()));
    assert_eq!(files(&journal), was);

    // The sweep works again once the operator is done.
    for _ in 0..2 {
        let (code, _, err) = recover(&["--done"]);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(files(&registry.root().join("journal-damaged")), []);
        assert_eq!(files(&journal), was);
    }
    let (code, out, _) = recover(&[]);
    assert_eq!(code, Some(0));
    assert!(
        out.contains("0 manifests without a name; the journal is whole"),
        "{out}"
    );
    daemon.stop();

    // Without the daemon it is the same, and the next start has nothing to say.
    let (code, out, err) = recover(&["--json"]);
    assert_eq!(code, Some(0), "{err}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(listed["journal_damaged"], false);
    assert_eq!(listed["manifests"], json!([]));
    let daemon = registry.start();
    let (status, ready) = http_get(registry.admin(), "/readyz").unwrap();
    assert!(
        status == 200 && !ready.contains("journal-damaged"),
        "{ready}"
    );
    assert!(
        [before, lost, after]
            .iter()
            .all(|image| image.is_served(address))
    );
    daemon.stop();
}
