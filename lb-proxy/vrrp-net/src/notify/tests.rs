use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// A directory, a script in it, and what the script is to write.
fn script(text: &str) -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("notify");
    let log = directory.path().join("log");
    let text = text.replace("LOG", log.to_str().unwrap());
    std::fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    (directory, script, log)
}

fn notifier(script: PathBuf, limit: Duration) -> Notifier {
    Notifier::start(Notify { script, limit })
}

#[tokio::test]
async fn states_are_told_in_order_with_the_arguments_of_keepalived() {
    let (_directory, script, log) = script("echo \"$@\" >>LOG");
    let notifier = notifier(script, DEFAULT_LIMIT);
    let name = Arc::from("api");
    for state in [
        State::Backup,
        State::Active,
        State::Fault,
        State::Initialize,
    ] {
        notifier.tell(&name, state, 100);
    }
    let failures = Arc::clone(&notifier.failures);
    notifier.finish().await;
    let told = std::fs::read_to_string(&log).unwrap();
    let wanted = ["BACKUP", "MASTER", "FAULT", "STOP"];
    let wanted = wanted.map(|state| format!("INSTANCE api {state} 100\n"));
    assert_eq!(told, wanted.concat());
    assert_eq!(failures.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_script_that_hangs_is_killed_and_the_next_runs() {
    let (_directory, script, log) =
        script("[ \"$3\" = BACKUP ] && exec sleep 60; echo \"$3\" >>LOG");
    let notifier = notifier(script, Duration::from_millis(200));
    let name = Arc::from("api");
    notifier.tell(&name, State::Backup, 100);
    notifier.tell(&name, State::Active, 100);
    let failures = Arc::clone(&notifier.failures);
    notifier.finish().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "MASTER\n");
    assert_eq!(failures.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_script_that_is_not_there_or_fails_is_counted() {
    let (_directory, script, _) = script("exit 3");
    for script in [script, PathBuf::from("/nonexistent")] {
        let notifier = notifier(script, DEFAULT_LIMIT);
        notifier.tell(&Arc::from("api"), State::Active, 1);
        let failures = Arc::clone(&notifier.failures);
        notifier.finish().await;
        assert_eq!(failures.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_full_queue_drops_and_says_so() {
    let (_directory, script, _) = script("sleep 60");
    let notifier = notifier(script, DEFAULT_LIMIT);
    for _ in 0..QUEUE + 5 {
        notifier.tell(&Arc::from("api"), State::Active, 1);
    }
    assert!(notifier.n_failures() >= 4);
    notifier.task.abort();
}
