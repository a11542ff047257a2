//! The sweep among pushes, and the sweep that an operator starts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::daemon::http_get;
use tests::registry::{PORT, Registry, digest_of, exchange, succeed};
use tests::scratch::at;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// How long pushers push while sweeps run; `OUTPOST_SWEEP_SECONDS` has it longer.
const SECONDS: u64 = 10;

/// A registry that sweeps all the time and waits for hardly anything.
fn eager() -> Registry {
    Registry::with(
        "plain = true\n\n[access]\nanonymous = \"all\"\n\n\
         [sweep]\ninterval = \"1s\"\ngrace = \"200ms\"\ntrash = \"200ms\"\n",
    )
}

fn manifest(layers: &[String]) -> Vec<u8> {
    let describe = |digest: &String| json!({ "mediaType": "application/octet-stream", "digest": digest, "size": 9 });
    let layers: Vec<Value> = layers.iter().map(describe).collect();
    json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": layers[0], "layers": layers })
        .to_string()
        .into_bytes()
}

fn push_blob(address: SocketAddr, repository: &str, content: &[u8]) {
    let path = format!(
        "/v2/{repository}/blobs/uploads/?digest={}",
        digest_of(content)
    );
    let (status, head, body) = exchange(address, "POST", &path, "", content).unwrap();
    assert_eq!(status, 201, "{head}\n{}", String::from_utf8_lossy(&body));
}

/// Pushes as clients do, and gives the manifests that were acknowledged and not deleted.
fn pusher(address: SocketAddr, number: usize, stop: &AtomicBool) -> Vec<(String, Vec<String>)> {
    let repository = format!("team-{number}/app");
    let mut acknowledged: Vec<(String, Vec<String>)> = Vec::new();
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        // Contents that pushers share, and that one leaves and another asks for.
        let contents = [round % 4, (round + number) % 5, 7].map(|n| format!("content {n}"));
        let layers: Vec<String> = contents.iter().map(|it| digest_of(it.as_bytes())).collect();
        for (content, digest) in contents.iter().zip(&layers) {
            let path = format!("/v2/{repository}/blobs/{digest}");
            if exchange(address, "HEAD", &path, "", b"").unwrap().0 != 200 {
                push_blob(address, &repository, content.as_bytes());
            }
        }
        let bytes = manifest(&layers);
        let path = format!("/v2/{repository}/manifests/latest");
        let header = format!("Content-Type: {MANIFEST}\r\n");
        let (status, _, body) = exchange(address, "PUT", &path, &header, &bytes).unwrap();
        let body = String::from_utf8_lossy(&body);
        match status {
            201 => acknowledged.push((digest_of(&bytes), layers)),
            // A client that takes longer than the grace period begins again.
            404 | 400 if body.contains("MANIFEST_BLOB_UNKNOWN") => {}
            _ => panic!("{status}: {body}"),
        }
        // Most are deleted again, so that there is something to sweep.
        if round % 6 != 0 {
            for (digest, _) in std::mem::take(&mut acknowledged) {
                let path = format!("/v2/{repository}/manifests/{digest}");
                let status = exchange(address, "DELETE", &path, "", b"").unwrap().0;
                assert!(matches!(status, 202 | 404), "{status}");
            }
        }
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    acknowledged
}

#[test]
fn eight_pushers_lose_nothing_while_sweeps_run() {
    let registry = eager();
    let serving = registry.start();
    let address = at(registry.ip, PORT);
    let seconds = std::env::var("OUTPOST_SWEEP_SECONDS");
    let seconds = seconds
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(SECONDS);
    let stop = Arc::new(AtomicBool::new(false));
    let pushers: Vec<_> = (0..8)
        .map(|number| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || (number, pusher(address, number, &stop)))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let left: Vec<_> = pushers
        .into_iter()
        .map(|pusher| pusher.join().unwrap())
        .collect();

    // Once more, when everything that may go has aged.
    std::thread::sleep(Duration::from_millis(400));
    let text = succeed_with(&registry, "gc");
    assert!(text.contains("blobs"), "{text}");
    let (_, metrics) = http_get(registry.admin(), "/metrics").unwrap();
    let trashed = tests::daemon::metric(&metrics, "registry_svc_sweep_trashed_blobs_total");
    assert!(
        trashed.is_some_and(|n| n > 0.0),
        "the sweeps had nothing to do"
    );
    let mut n_checked = 0;
    for (number, acknowledged) in left {
        for (digest, layers) in acknowledged {
            let repository = format!("team-{number}/app");
            let path = format!("/v2/{repository}/manifests/{digest}");
            let (status, _, body) = exchange(address, "GET", &path, "", b"").unwrap();
            assert_eq!((status, digest_of(&body)), (200, digest));
            for layer in layers {
                let path = format!("/v2/{repository}/blobs/{layer}");
                let (status, _, body) = exchange(address, "GET", &path, "", b"").unwrap();
                assert_eq!((status, digest_of(&body)), (200, layer));
                n_checked += 1;
            }
        }
    }
    println!("{n_checked} blobs of what was left");
    assert!(succeed_with(&registry, "verify").contains("0 damaged, 0 unreadable, 0 missing"));
    serving.stop();
}

/// The output of a verb.
fn succeed_with(registry: &Registry, verb: &str) -> String {
    // One that the schedule has started is waited for.
    let start = Instant::now();
    loop {
        let (status, out, error) = tests::daemon::run(registry.command(verb));
        if status.success() {
            return out;
        }
        let is_busy = error.contains("is running") && start.elapsed() < Duration::from_secs(20);
        assert!(is_busy, "{verb}: {status}\n{out}{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// An unreferenced blob goes to the trash at once.
const SHORT: &str =
    "plain = true\n\n[access]\nanonymous = \"all\"\n\n[sweep]\ngrace = \"0s\"\ntrash = \"1h\"\n";

/// The same on a node of two, of whose cluster nothing is there but this.
const OF_SEVERAL: &str = "plain = true\n\n[sweep]\ngrace = \"0s\"\ntrash = \"1h\"\n\n\
    [cluster]\nnode = \"master-0\"\nca = \"ca.pem\"\ncertificate = \"node.pem\"\nkey = \"node.key\"\n\
    peers = [{ name = \"master-1\", address = \"127.0.0.1:5444\" }]\n";

#[test]
fn a_dry_run_changes_nothing_and_damage_is_found_with_and_without_the_daemon() {
    let registry = Registry::with(SHORT);
    let address = at(registry.ip, PORT);
    let serving = registry.start();
    push_blob(address, "a/b", b"nobody needs it");
    push_blob(address, "a/b", b"needed");
    let needed = digest_of(b"needed");
    let bytes = manifest(std::slice::from_ref(&needed));
    let header = format!("Content-Type: {MANIFEST}\r\n");
    let put = exchange(address, "PUT", "/v2/a/b/manifests/1", &header, &bytes).unwrap();
    assert_eq!(put.0, 201);
    std::thread::sleep(Duration::from_millis(20));

    let mut dry = registry.command("gc");
    dry.args(["--dry-run", "--json"]);
    let report: Value = serde_json::from_str(&succeed(dry)).unwrap();
    assert_eq!(
        (&report["dry_run"], &report["trashed"]["blobs"]),
        (&json!(true), &json!(1))
    );
    let path = format!("/v2/a/b/blobs/{}", digest_of(b"nobody needs it"));
    assert_eq!(exchange(address, "HEAD", &path, "", b"").unwrap().0, 200);
    serving.stop();

    // Without a daemon the verb opens the store itself.
    let mut gc = registry.command("gc");
    gc.arg("--json");
    let report: Value = serde_json::from_str(&succeed(gc)).unwrap();
    assert_eq!(report["trashed"]["blobs"], json!(1));
    assert!(succeed_with(&registry, "verify").contains("0 damaged"));

    // Except on a node of several: the others may need what it would take away.
    registry.configure(OF_SEVERAL);
    for arguments in [&["--json"][..], &["--dry-run"]] {
        let mut gc = registry.command("gc");
        gc.args(arguments);
        let (status, out, error) = tests::daemon::run(gc);
        assert_eq!(status.code(), Some(69), "{out}{error}");
        assert!(error.contains("one of several nodes"), "{error}");
    }
    assert!(succeed_with(&registry, "verify").contains("0 damaged"));
    registry.configure(SHORT);

    let hex = &needed["sha256:".len()..];
    let file = registry
        .root()
        .join("blobs/sha256")
        .join(&hex[..2])
        .join(hex);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, b"neaded").unwrap();
    let _serving = registry.start();
    let (status, out, _) = tests::daemon::run(registry.command("verify"));
    assert_eq!(status.code(), Some(65), "{out}");
    assert!(out.contains(&format!("{needed}: damaged")), "{out}");
    assert!(!file.exists());
    let path = format!("/v2/a/b/blobs/{needed}");
    assert_eq!(exchange(address, "GET", &path, "", b"").unwrap().0, 404);
}
