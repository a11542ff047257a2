//! Which file may do what, and which crate may know which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use tests::binaries::checkout;
use tests::daemon::run;

use super::files::{is_for_tests, rust_files, shown};

/// Files that decide and never do I/O. A new core is added here.
const CORES: &[&str] = &[
    "base/config-text/src",
    "deploy/src/init/draft.rs",
    "deploy/src/install/plan.rs",
    "deploy/src/install/which.rs",
    "deploy/src/render",
    "deploy/src/render.rs",
    "deploy/src/service.rs",
    "deploy/src/site.rs",
    "deploy/src/target",
    "deploy/src/target.rs",
    "deploy/src/up/conductor.rs",
    "deploy/src/up/event.rs",
    "deploy/src/up/keys.rs",
    "deploy/src/up/sample.rs",
    "deploy/src/up/screen.rs",
    "deploy/src/up/view.rs",
    "dns-authd/src/answer",
    "dns-authd/src/answer.rs",
    "dns-authd/src/live.rs",
    "dns-authd/src/lua",
    "dns-authd/src/lua.rs",
    "dns-authd/src/name_table.rs",
    "dns-authd/src/named_conf",
    "dns-authd/src/named_conf.rs",
    "dns-authd/src/pdns_conf",
    "dns-authd/src/pdns_conf.rs",
    "dns-authd/src/random.rs",
    "dns-authd/src/render.rs",
    "dns-authd/src/table.rs",
    "dns-authd/src/tally.rs",
    "dns-authd/src/transfer.rs",
    "dns-authd/src/zone",
    "dns-authd/src/zone.rs",
    "dns-recursor/src/answer.rs",
    "dns-recursor/src/cache",
    "dns-recursor/src/cache.rs",
    "dns-recursor/src/exchange.rs",
    "dns-recursor/src/forward.rs",
    "dns-recursor/src/front",
    "dns-recursor/src/front.rs",
    "dns-recursor/src/itself.rs",
    "dns-recursor/src/key.rs",
    "dns-recursor/src/local.rs",
    "dns-recursor/src/message",
    "dns-recursor/src/message.rs",
    "dns-recursor/src/moment.rs",
    "dns-recursor/src/policy.rs",
    "dns-recursor/src/recursor_conf",
    "dns-recursor/src/recursor_conf.rs",
    "dns-recursor/src/resolve",
    "dns-recursor/src/resolve.rs",
    "dns-recursor/src/upstream_state.rs",
    "base/dns-wire/src",
    "healthd/src/admin_rules.rs",
    "healthd/src/board.rs",
    "healthd/src/clocks.rs",
    "healthd/src/hub.rs",
    "healthd/src/moment.rs",
    "healthd/src/page.rs",
    "healthd/src/schedule.rs",
    "healthd/src/tally.rs",
    "healthd/src/verdict.rs",
    "lb-proxy/src/access_log/line.rs",
    "lb-proxy/src/access_log/termination.rs",
    "lb-proxy/src/client_hello",
    "lb-proxy/src/client_hello.rs",
    "lb-proxy/src/datagram/flow.rs",
    "lb-proxy/src/datagram/flow/adopt.rs",
    "lb-proxy/src/handover/message.rs",
    "lb-proxy/src/handover/message/datagrams.rs",
    "lb-proxy/src/haproxy_cfg",
    "lb-proxy/src/haproxy_cfg.rs",
    "lb-proxy/src/imported.rs",
    "lb-proxy/src/keepalived_conf",
    "lb-proxy/src/keepalived_conf.rs",
    "lb-proxy/src/kernel/changes.rs",
    "lb-proxy/src/kernel/conntrack/wire.rs",
    "lb-proxy/src/kernel/ruleset",
    "lb-proxy/src/kernel/ruleset.rs",
    "lb-proxy/src/limits.rs",
    "lb-proxy/src/pool",
    "lb-proxy/src/pool.rs",
    "lb-proxy/src/proxy_protocol",
    "lb-proxy/src/proxy_protocol.rs",
    "lb-proxy/src/queue.rs",
    "lb-proxy/src/relay/slab.rs",
    "lb-proxy/src/relay/timers.rs",
    "lb-proxy/src/service_addresses.rs",
    "lb-proxy/src/standing.rs",
    "lb-proxy/src/vrrp/checksum.rs",
    "lb-proxy/src/vrrp/group.rs",
    "lb-proxy/src/vrrp/machine",
    "lb-proxy/src/vrrp/machine.rs",
    "lb-proxy/src/vrrp/openshift.rs",
    "lb-proxy/src/vrrp/packet.rs",
    "lb-proxy/src/vrrp/priority.rs",
    "lb-proxy/src/vrrp/retry.rs",
    "lb-proxy/src/vrrp/settings.rs",
    "peers/pdns-settings/src",
    "proto/src/health",
    "proto/src/health.rs",
    "registry-svc/src/auth/acl.rs",
    "registry-svc/src/auth/certificate.rs",
    "registry-svc/src/auth/challenge.rs",
    "registry-svc/src/auth/form.rs",
    "registry-svc/src/auth/glob.rs",
    "registry-svc/src/auth/scope.rs",
    "registry-svc/src/client/challenge.rs",
    "registry-svc/src/client/credentials.rs",
    "registry-svc/src/client/endpoint.rs",
    "registry-svc/src/cluster/acknowledge.rs",
    "registry-svc/src/cluster/backoff.rs",
    "registry-svc/src/cluster/buckets.rs",
    "registry-svc/src/cluster/intake.rs",
    "registry-svc/src/cluster/wire.rs",
    "registry-svc/src/digest.rs",
    "registry-svc/src/error.rs",
    "registry-svc/src/hlc.rs",
    "registry-svc/src/http/query.rs",
    "registry-svc/src/http/router.rs",
    "registry-svc/src/journal/frame.rs",
    "registry-svc/src/lease.rs",
    "registry-svc/src/manifest.rs",
    "registry-svc/src/metrics/tally.rs",
    "registry-svc/src/page.rs",
    "registry-svc/src/range.rs",
    "registry-svc/src/record.rs",
    "registry-svc/src/reference.rs",
    "registry-svc/src/space.rs",
    "registry-svc/src/survey.rs",
    "registry-svc/src/transfer/catalogue.rs",
    "registry-svc/src/transfer/distribution.rs",
    "registry-svc/src/transfer/docker_archive.rs",
    "registry-svc/src/transfer/entries.rs",
    "registry-svc/src/transfer/format.rs",
    "registry-svc/src/transfer/items.rs",
    "registry-svc/src/transfer/layout.rs",
    "registry-svc/src/transfer/name.rs",
    "registry-svc/src/transfer/oc_directory.rs",
    "registry-svc/src/transfer/report.rs",
    "registry-svc/src/transfer/sync_directory.rs",
    "registry-svc/src/transfer/tar.rs",
    "registry-svc/src/upload.rs",
    "registry-svc/src/webhook/envelope.rs",
    "registry-svc/src/webhook/patience.rs",
    "timesync-agent/src/association",
    "timesync-agent/src/association.rs",
    "timesync-agent/src/card",
    "timesync-agent/src/card.rs",
    "timesync-agent/src/chrony_conf",
    "timesync-agent/src/chrony_conf.rs",
    "timesync-agent/src/chronyc/calendar.rs",
    "timesync-agent/src/chronyc/render",
    "timesync-agent/src/chronyc/render.rs",
    "timesync-agent/src/cmdmon/answer.rs",
    "timesync-agent/src/cmdmon/errands.rs",
    "timesync-agent/src/cmdmon/float.rs",
    "timesync-agent/src/cmdmon/reply.rs",
    "timesync-agent/src/cmdmon/report.rs",
    "timesync-agent/src/cmdmon/request.rs",
    "timesync-agent/src/cmdmon/source.rs",
    "timesync-agent/src/cmdmon/wire.rs",
    "timesync-agent/src/engine",
    "timesync-agent/src/engine.rs",
    "timesync-agent/src/history.rs",
    "timesync-agent/src/keys.rs",
    "timesync-agent/src/keys_file.rs",
    "timesync-agent/src/page.rs",
    "timesync-agent/src/pmc",
    "timesync-agent/src/pmc.rs",
    "timesync-agent/src/pool",
    "timesync-agent/src/pool.rs",
    "timesync-agent/src/ptp/guard.rs",
    "timesync-agent/src/ptp/machine",
    "timesync-agent/src/ptp/machine.rs",
    "timesync-agent/src/ptp/path.rs",
    "timesync-agent/src/random.rs",
    "timesync-agent/src/refclock.rs",
    "timesync-agent/src/refclock/filter.rs",
    "timesync-agent/src/refclock/phc.rs",
    "timesync-agent/src/refclock/pps.rs",
    "timesync-agent/src/refclock/shm.rs",
    "timesync-agent/src/refclock/sock.rs",
    "timesync-agent/src/replay.rs",
    "timesync-agent/src/responder",
    "timesync-agent/src/responder.rs",
    "timesync-agent/src/sandbox/calls.rs",
    "timesync-agent/src/sandbox/filter.rs",
    "timesync-agent/src/settings",
    "timesync-agent/src/settings.rs",
    "timesync-agent/src/simulation",
    "timesync-agent/src/simulation.rs",
    "timesync-agent/src/temperature.rs",
    "timesync-agent/src/time.rs",
    "timesync-agent/src/timekeeper",
    "timesync-agent/src/timekeeper.rs",
    "timesync-agent/src/view.rs",
    "timesync-agent/src/wire",
    "timesync-agent/src/wire.rs",
    "timesync-agent/src/words.rs",
];

/// What a core never says: sockets, clocks, threads, chance, logs, the runtime, the shell's crates.
const FORBIDDEN_IN_CORES: &[&str] = &[
    "tokio",
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "UnixStream",
    "UnixListener",
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "rand::",
    "tracing::",
    "daemon",
    "prometheus_client",
    "serde::",
];

/// What some cores say all the same: types alone, with nothing behind them that does anything.
const EXCUSED: &[(&str, &str)] = &[
    // Sizes as configurations write them.
    ("deploy/src/site.rs", "daemon"),
    // A document that is made from its structures.
    ("deploy/src/target/ignition.rs", "serde::"),
    // Moments of messages; nobody here asks what time it is.
    ("proto/src/health.rs", "SystemTime"),
    ("proto/src/health/convert.rs", "SystemTime"),
    // A file that is made from its structures.
    ("timesync-agent/src/timekeeper/estate.rs", "serde::"),
];

/// Which of the project's crates each may name.
const EDGES: &[(&str, &[&str])] = &[
    ("config-text", &[]),
    ("daemon", &["config-text"]),
    ("deploy", &["config-text", "daemon", "dns-wire", "proto"]),
    (
        "dns-authd",
        &[
            "config-text",
            "daemon",
            "dns-wire",
            "pdns-settings",
            "proto",
        ],
    ),
    (
        "dns-recursor",
        &[
            "config-text",
            "daemon",
            "dns-wire",
            "pdns-settings",
            "proto",
        ],
    ),
    ("dns-wire", &[]),
    ("healthd", &["config-text", "daemon", "dns-wire", "proto"]),
    ("lb-proxy", &["config-text", "daemon", "proto"]),
    ("pdns-settings", &["config-text"]),
    ("proto", &[]),
    ("registry-svc", &["config-text", "daemon", "proto"]),
    (
        "tests",
        &[
            "config-text",
            "daemon",
            "deploy",
            "dns-authd",
            "dns-recursor",
            "dns-wire",
            "healthd",
            "lb-proxy",
            "proto",
            "registry-svc",
            "timesync-agent",
        ],
    ),
    ("timesync-agent", &["config-text", "daemon", "proto"]),
];

#[test]
fn cores_do_no_input_or_output() {
    let mut found = Vec::new();
    let mut n_read = 0;
    let mut excuses: BTreeSet<(&str, &str)> = EXCUSED.iter().copied().collect();
    for core in CORES {
        let path = checkout().join(core);
        let files = if path.is_dir() {
            rust_files(&path)
        } else {
            vec![path]
        };
        assert!(!files.is_empty(), "{core} is not there");
        for file in files.into_iter().filter(|file| !is_for_tests(file)) {
            let name = shown(&file);
            n_read += 1;
            for (number, line) in code_lines(&file) {
                let said = FORBIDDEN_IN_CORES.iter().filter(|word| says(&line, word));
                for word in said {
                    let here = (name.as_str(), *word);
                    excuses.retain(|excuse| *excuse != here);
                    if !EXCUSED.contains(&here) {
                        found.push(format!("{name}:{number}: {word}"));
                    }
                }
            }
        }
    }
    assert!(n_read >= CORES.len() / 2, "only {n_read} files were read");
    assert!(excuses.is_empty(), "nobody needs {excuses:?}");
    assert!(
        found.is_empty(),
        "cores that are not pure:\n{}",
        found.join("\n")
    );
}

#[test]
fn crates_depend_in_one_direction() {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]);
    command.current_dir(checkout());
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{stderr}");
    let metadata: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no place in EDGES"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let on = dependency["name"].as_str().unwrap();
            assert!(
                !names.contains(on) || allowed.contains(&on),
                "{name} must not know {on}"
            );
        }
    }
    let placed: BTreeSet<&str> = allowed.keys().copied().collect();
    assert_eq!(
        placed, names,
        "EDGES and the workspace name the same crates"
    );
}

//--- Lines

/// Whether a line says a word, be it as the beginning of a longer one.
fn says(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
    })
}

/// The part of a file that ends up in the product, with line numbers, comments left out.
fn code_lines(file: &Path) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut code = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // A declaration or an import is one line; a module with a body ends the product's part.
            let next = lines.next().map_or("", |(_, line)| line);
            if next.ends_with('{') {
                break;
            }
            continue;
        }
        if !line.trim_start().starts_with("//") {
            code.push((number, line.to_owned()));
        }
    }
    code
}
