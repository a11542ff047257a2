//! A registry on a read-only file system, really: in a private mount namespace, a mount that takes no change, as after
//! `errors=remount-ro`, and an image in SquashFS, which knows no reads past the page cache.

use std::process::Command;

use serde_json::Value;
use tests::daemon::{Daemon, http_get};
use tests::registry::{PORT, Registry, digest_of, exchange};
use tests::scratch::at;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Mounts the directory `$0` over itself.
const REMOUNTED: &str = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";

/// Mounts an image of the directory `$0` over it.
const IMAGE: &str = "mksquashfs \"$0\" \"$0.image\" -noappend -quiet -no-progress >/dev/null && \
                     mount -t squashfs -o loop,ro \"$0.image\" \"$0\"";

/// Starts a registry where its data can only be read.
fn start_read_only(registry: &Registry, mount: &str) -> Daemon {
    let serve = registry.command("serve");
    let root = registry.root().display().to_string();
    let script = format!("{mount} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script, &root])
        .arg(serve.get_program())
        .args(serve.get_args());
    Daemon::start("registry-svc", command)
}

#[test]
#[ignore = "needs root for a mount namespace"]
fn a_read_only_disk_is_pulled_from_and_takes_no_push() {
    // The machine may have a full disk: its bounds are no concern of this test.
    let space = "[space]\nfree = \"1MiB\"\nstop = 99\n";
    let registry = Registry::with(&format!(
        "plain = true\n\n[access]\nanonymous = \"all\"\n\n{space}"
    ));
    let address = at(registry.ip, PORT);
    let layer = vec![7; 600_000];
    let digest = digest_of(&layer);
    let path = format!("/v2/a/blobs/uploads/?digest={digest}");
    let described = format!(
        r#"{{"mediaType":"application/octet-stream","digest":"{digest}","size":{}}}"#,
        layer.len()
    );
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{described},"layers":[]}}"#
    );
    let kind = format!("Content-Type: {MANIFEST}\r\n");
    let writable = registry.start();
    assert_eq!(exchange(address, "POST", &path, "", &layer).unwrap().0, 201);
    let put = exchange(
        address,
        "PUT",
        "/v2/a/manifests/v1",
        &kind,
        manifest.as_bytes(),
    );
    assert_eq!(put.unwrap().0, 201);
    // The journal has no orderly end.
    writable.kill();

    let mut mounts = vec![REMOUNTED, REMOUNTED];
    match std::fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("squashfs"))
    {
        true => mounts.push(IMAGE),
        false => eprintln!("without an image: this kernel has no SquashFS"),
    }
    for mount in mounts {
        let daemon = start_read_only(&registry, mount);
        let pulled = exchange(address, "GET", "/v2/a/manifests/v1", "", b"").unwrap();
        assert_eq!((pulled.0, pulled.2), (200, manifest.clone().into_bytes()));
        for _ in 0..2 {
            let path = format!("/v2/a/blobs/{digest}");
            let pulled = exchange(address, "GET", &path, "", b"").unwrap();
            assert!(pulled.0 == 200 && pulled.2 == layer, "{}", pulled.1);
        }
        let (status, head, body) = exchange(address, "POST", &path, "", &layer).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, 405, "{head}");
        assert_eq!(body["errors"][0]["code"], "UNSUPPORTED");
        assert_eq!(body["errors"][0]["message"], "the registry is read-only");
        let (status, ready) = http_get(registry.admin(), "/readyz").unwrap();
        assert_eq!(status, 200, "{ready}");
        assert!(
            ready.contains("read-only: the disk is read-only"),
            "{ready}"
        );
        let (_, status) = http_get(registry.admin(), "/status").unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["detail"]["read_only"], true, "{status}");
        assert_eq!(status["detail"]["read_only_disk"], true, "{status}");
        daemon.kill();
    }

    // It is as it was for a process that may write.
    let _writable = registry.start();
    let path = format!("/v2/a/blobs/uploads/?digest={}", digest_of(b"more"));
    assert_eq!(
        exchange(address, "POST", &path, "", b"more").unwrap().0,
        201
    );
}
