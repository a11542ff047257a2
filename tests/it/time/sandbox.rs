//! The rights of the process once it serves: by default no more than it needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tests::daemon::Daemon;
use tests::time::{Agent, ask_patiently};

/// The kernel's status of each thread of a process.
fn of_threads(process: u32, name: &str) -> BTreeSet<String> {
    let tasks = Path::new("/proc").join(process.to_string()).join("task");
    let threads = fs::read_dir(tasks).unwrap().map(|task| {
        let text = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().to_owned()
    });
    threads.collect()
}

#[test]
fn it_serves_in_a_sandbox_unless_it_is_told_not_to() {
    let agent = Agent::on_loopback("local stratum 8\nallow 127.0.0.0/8\n");
    for (line, mode) in [("", "2"), ("sandbox = false\n", "0")] {
        let daemon = Daemon::start("timesync-agent", agent.serve_by(agent.admin(), line));
        let reply = ask_patiently(agent.address());
        assert_eq!(reply.mode(), 4, "clients are answered");
        let modes = of_threads(daemon.id(), "Seccomp:");
        assert_eq!(modes, BTreeSet::from([mode.to_owned()]), "{line:?}");
        if mode == "2" {
            let given_up = of_threads(daemon.id(), "NoNewPrivs:");
            assert_eq!(given_up, BTreeSet::from(["1".to_owned()]));
            // A low port may be bound, and the clock, which is left alone, cannot be set.
            for set in of_threads(daemon.id(), "CapEff:") {
                let kept = u64::from_str_radix(&set, 16).unwrap();
                assert_eq!(kept & !(1 << 10), 0, "{set}");
            }
        }
        daemon.stop();
    }
}
