//! Every version that has served can be gone back to, whatever was tried since.

use tests::node::lan::{live_unit, wait_serving};
use tests::node::{Node, images_or_skip, or_skip};
use tests::scratch::Scratch;

use super::install::{Bare, FIRST};

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn after_a_failed_swap_every_earlier_version_can_be_gone_back_to() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let further = Scratch::new("further");
    let bare = Bare::boot(root, images);
    let node = &bare.node;
    for (archive, name) in [
        (images.new_build(SERVICE), "second"),
        (images.broken(SERVICE), "broken"),
        (
            images.further_build(SERVICE, further.path(), b"a further build"),
            "third",
        ),
    ] {
        node.put(&archive, &incoming(name));
    }
    bare.install(FIRST);
    wait_serving(node);
    let first = running(node);
    assert_eq!(history(node).versions.len(), 1, "the installed one");

    assert_eq!(swap(node, "second").0, Some(0));
    let second = running(node);
    assert_ne!(first, second);

    // A version that does not start says why, and costs no version that has served.
    let before = live_unit(node, SERVICE);
    for _ in 0..2 {
        let (code, said) = swap(node, "broken");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("    | "), "its own last lines\n{said}");
        assert!(said.contains("panicked"), "its own words\n{said}");
        let more = format!("more: journalctl --no-pager --unit=outpost-{SERVICE}-");
        assert!(said.contains(&more), "{said}");
        assert_eq!(
            (live_unit(node, SERVICE), running(node)),
            (before.clone(), second.clone())
        );
    }
    let found = history(node);
    let outcomes: Vec<&str> = found.swaps.iter().map(|swap| &*swap.outcome).collect();
    assert_eq!(outcomes, ["swapped", "kept", "kept"]);
    assert_eq!(found.versions.len(), 2);
    assert!(found.swaps[1].image.is_some() && found.swaps[1].reason.is_some());

    // The last good one, and then each of them by its image.
    rollback(node, &[]);
    assert_eq!(running(node), first);
    assert_eq!(swap(node, "third").0, Some(0));
    let third = running(node);
    let images: Vec<String> = history(node)
        .versions
        .into_iter()
        .map(|version| version.image)
        .collect();
    // In the order in which they served last.
    for (image, program) in images.iter().zip([&second, &first, &third]) {
        rollback(node, &["--to", &image["sha256:".len()..][..12]]);
        assert_eq!(&running(node), program);
    }
    let to_broken = found.swaps[1].image.clone().unwrap();
    let (status, out, complaint) =
        node.try_run(&["outpost", "rollback", SERVICE, "--to", &to_broken]);
    assert_eq!(status.code(), Some(1), "{out}{complaint}");
    assert!(
        complaint.contains("the node keeps no version"),
        "{complaint}"
    );
    let shown = node.run(&["outpost", "history"]);
    assert!(shown.contains("3 of at most 5 versions kept"), "{shown}");
    assert!(shown.contains("timesync-agent: slot a"), "{shown}");

    // It is what a power cut leaves, too.
    assert_eq!(node.wait_booted(), "running", "{}", node.failures());
    eprintln!("{shown}");
}

/// The service that is swapped.
const SERVICE: &str = "dns-authd";

/// The digest of the program that runs.
fn running(node: &Node) -> String {
    let script = format!("sha256sum </proc/$(pgrep -x {SERVICE})/exe");
    node.run(&["sh", "-c", &script])
}

fn incoming(name: &str) -> String {
    format!("/var/lib/outpost/incoming/{name}.tar")
}

/// Swaps, and gives the exit code and what the command said.
fn swap(node: &Node, name: &str) -> (Option<i32>, String) {
    let (status, out, complaint) = node.try_run(&[
        "outpost",
        "swap",
        SERVICE,
        &incoming(name),
        "--canary",
        "1s",
    ]);
    (status.code(), out + &complaint)
}

fn rollback(node: &Node, more: &[&str]) {
    let command = ["outpost", "rollback", SERVICE, "--canary", "1s"];
    node.run(&[&command[..], more].concat());
}

fn history(node: &Node) -> api::outpost::History {
    let text = node.run(&["outpost", "history", SERVICE, "--json"]);
    let mut all: Vec<api::outpost::History> = serde_json::from_str(&text).unwrap();
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}
