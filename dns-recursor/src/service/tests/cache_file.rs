//! The cache on disk: across a restart and across a swap, while no upstream answers.

use super::*;

fn with_file(directory: &tempfile::TempDir, zone: &str, upstream: SocketAddr) -> String {
    format!(
        "[[forward]]\nzone = \"{zone}\"\nupstreams = [\"{upstream}\"]\nrecursive = true\n\n\
         [cache]\nfile = {:?}\n",
        directory.path().join("cache")
    )
}

#[tokio::test]
async fn known_names_are_answered_after_a_restart_without_upstreams() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let text = with_file(&directory, "example", upstream.address);
    let before = Server::start(&text).await;
    assert_eq!(addresses(&before.ask("www.example")), ["192.0.2.1"]);
    assert!(before.recursor.drain(LONG).await);
    let address = upstream.stop();

    let after = Server::start(&text).await;
    assert_eq!(addresses(&after.ask("www.example")), ["192.0.2.1"]);
    let report = after.recursor.status().cache_file.unwrap();
    assert_eq!((report.restored, report.problem), (1, None));
    assert!(after.recursor.drain(LONG).await);

    // Another zone's servers would be believed now: nothing of before counts.
    let other = Server::start(&with_file(&directory, ".", address)).await;
    assert_eq!(rcode(&other.ask("www.example")), Rcode::SERVFAIL);
    assert_eq!(other.recursor.status().cache_file.unwrap().restored, 0);
}

#[tokio::test]
async fn a_successor_takes_over_what_its_predecessor_has_learned() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let text = with_file(&directory, "example", upstream.address);
    let before = Server::start(&text).await;
    let after = Server::start(&text).await;
    assert_eq!(addresses(&before.ask("late.example")), ["192.0.2.1"]);
    upstream.stop();
    assert!(before.recursor.drain(LONG).await);
    let start = now();
    while after.recursor.status().cache_file.unwrap().restored == 0 {
        assert!(start.elapsed() < LONG, "the file is not read");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(addresses(&after.ask("late.example")), ["192.0.2.1"]);
}

#[tokio::test]
async fn a_damaged_file_is_named_and_nothing_of_it_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(answers("192.0.2.1", 60));
    let text = with_file(&directory, "example", upstream.address);
    let before = Server::start(&text).await;
    before.ask("www.example");
    assert!(before.recursor.drain(LONG).await);
    let path = directory.path().join("cache");
    let mut octets = std::fs::read(&path).unwrap();
    *octets.last_mut().unwrap() ^= 1;
    std::fs::write(&path, octets).unwrap();
    let after = Server::start(&text).await;
    let report = after.recursor.status().cache_file.unwrap();
    assert_eq!(report.restored, 0);
    assert_eq!(report.problem.unwrap(), "a checksum does not match");
    assert_eq!(addresses(&after.ask("www.example")), ["192.0.2.1"]);
    // The next write mends it.
    assert!(after.recursor.drain(LONG).await);
    upstream.stop();
    let last = Server::start(&text).await;
    assert_eq!(addresses(&last.ask("www.example")), ["192.0.2.1"]);
}
