//! The rules of the house that a machine can hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::binaries::{binary, checkout};
use tests::daemon::run;
use tests::scratch::Scratch;

/// Files that decide and never do I/O. A new core is added here.
const CORES: &[&str] = &[
    "config-text/src",
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
    "dns-wire/src",
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
    "pdns-settings/src",
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
    "timesync-agent/src/pmc.rs",
    "timesync-agent/src/pool",
    "timesync-agent/src/pool.rs",
    "timesync-agent/src/ptp/guard.rs",
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
    "daemon_base",
    "prometheus_client",
    "serde::",
];

/// Which of the project's crates each may name.
const EDGES: &[(&str, &[&str])] = &[
    ("config-text", &[]),
    ("daemon-base", &["config-text"]),
    (
        "deploy",
        &["config-text", "daemon-base", "dns-wire", "proto"],
    ),
    (
        "dns-authd",
        &[
            "config-text",
            "daemon-base",
            "dns-wire",
            "pdns-settings",
            "proto",
        ],
    ),
    (
        "dns-recursor",
        &[
            "config-text",
            "daemon-base",
            "dns-wire",
            "pdns-settings",
            "proto",
        ],
    ),
    ("dns-wire", &[]),
    (
        "healthd",
        &["config-text", "daemon-base", "dns-wire", "proto"],
    ),
    ("lb-proxy", &["config-text", "daemon-base", "proto"]),
    ("pdns-settings", &["config-text"]),
    ("proto", &[]),
    ("registry-svc", &["config-text", "daemon-base", "proto"]),
    (
        "tests",
        &[
            "config-text",
            "daemon-base",
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
    ("timesync-agent", &["config-text", "daemon-base", "proto"]),
];

/// Daemons, which have a template of their configuration each.
const DAEMONS: &[&str] = &[
    "healthd",
    "dns-authd",
    "dns-recursor",
    "lb-proxy",
    "registry-svc",
    "timesync-agent",
];

#[test]
fn cores_do_no_input_or_output() {
    let mut found = Vec::new();
    for core in CORES {
        let path = checkout().join(core);
        let files = if path.is_dir() {
            rust_files(&path)
        } else {
            vec![path]
        };
        assert!(!files.is_empty(), "{core} is not there");
        for file in files.into_iter().filter(|file| !is_for_tests(file)) {
            for (number, line) in code_lines(&file) {
                for word in FORBIDDEN_IN_CORES {
                    if line.contains(word) {
                        found.push(format!("{}:{number}: {word}", shown(&file)));
                    }
                }
            }
        }
    }
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

#[test]
fn files_have_names_and_sizes_that_help() {
    let mut found = Vec::new();
    for file in all_rust_files() {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap();
        if matches!(
            name,
            "mod.rs" | "utils.rs" | "util.rs" | "helpers.rs" | "common.rs" | "types.rs"
        ) && shown(&file) != "daemon-base/src/config/common.rs"
        {
            found.push(format!("{}: the name says nothing", shown(&file)));
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let n_lines = text.lines().count();
        if n_lines > 800 && !text.lines().any(|line| line.starts_with("//! Size:")) {
            found.push(format!(
                "{}: {n_lines} lines, and no `//! Size:` that says why",
                shown(&file)
            ));
        }
        // `tests.rs` belongs to the file beside it, which has one.
        if !text.starts_with("//!") && name != "tests.rs" {
            found.push(format!(
                "{}: no doc of the module on its first line",
                shown(&file)
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn nothing_is_left_to_do_later() {
    // Put together from parts, so that this file does not find itself.
    let words =
        [["FIX", "ME"], ["TO", "DO"], ["XX", "X:"], ["HA", "CK:"]].map(|parts| parts.concat());
    let mut found = Vec::new();
    for file in tracked_files() {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            for word in &words {
                if has_word(line, word) {
                    found.push(format!("{}:{number}: {line}", shown(&file)));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn lint_exceptions_say_why() {
    let mut found = Vec::new();
    for file in all_rust_files() {
        let text = std::fs::read_to_string(&file).unwrap();
        for (at, _) in text.match_indices(&["[allow", "("].concat()) {
            let number = text[..at].lines().count() + 1;
            found.push(format!(
                "{}:{number}: `expect` with a reason, not `allow`",
                shown(&file)
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_template_passes_the_check_of_its_daemon() {
    // The registry's reads the certificate that its template names.
    let files = Scratch::new("templates");
    certificate(&files, "registry");
    for daemon in DAEMONS {
        let mut template = checkout().join(format!("deploy/config/{daemon}.toml"));
        if *daemon == "registry-svc" {
            let text = std::fs::read_to_string(&template).unwrap();
            let named = "\"/etc/outpost/registry.";
            let here = format!("\"{}/registry.", files.path().display());
            template = files.write("registry-svc.toml", &text.replace(named, &here));
        }
        let mut command = Command::new(binary(daemon));
        command.arg("check").arg("--config").arg(&template);
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{}\n{stdout}{stderr}", shown(&template));
    }
}

/// A certificate `NAME.pem` and its key, signed by itself.
fn certificate(files: &Scratch, name: &str) {
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    let mut command = Command::new("openssl");
    command
        .current_dir(files.path())
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=registry"])
        .args(["-keyout", &key, "-out", &certificate]);
    let (status, _, complaint) = run(command);
    assert!(status.success(), "{complaint}");
}

#[test]
fn every_metric_is_documented() {
    let documented = std::fs::read_to_string(checkout().join("docs/metrics.md")).unwrap();
    let mut missing = Vec::new();
    for file in all_rust_files() {
        let is_metrics = file.file_name().is_some_and(|name| name == "metrics.rs");
        if !is_metrics {
            continue;
        }
        for name in constants(&file) {
            if !documented.contains(&format!("`{name}")) {
                missing.push(format!("{}: {name}", shown(&file)));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in docs/metrics.md:\n{}",
        missing.join("\n")
    );
}

//--- Files

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

/// Whether a file is compiled for tests only.
fn is_for_tests(file: &Path) -> bool {
    file.components().any(|part| {
        let name = part.as_os_str().to_str().unwrap_or_default();
        matches!(
            name.trim_end_matches(".rs"),
            "tests" | "testing" | "simulation" | "reference"
        )
    })
}

/// String constants of a file: `const NAME: &str = "value";`.
fn constants(file: &Path) -> Vec<String> {
    let is_constant = |line: &str| line.contains("const ") && line.contains("&str");
    let text = std::fs::read_to_string(file).unwrap();
    // A long value stands on the line after its name.
    let joined = text.replace("=\n", "=");
    joined
        .lines()
        .filter(|line| is_constant(line))
        .filter_map(|line| line.split('"').nth(1))
        .filter(|value| value.contains('_') && !value.contains(' '))
        .map(str::to_owned)
        .collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let apart = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        apart(before) && (apart(after) || word.ends_with(':'))
    })
}

fn all_rust_files() -> Vec<PathBuf> {
    tracked_files()
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "rs"))
        .collect()
}

/// Every file of the checkout that is not built or fetched.
fn tracked_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(checkout(), &mut files);
    files
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(directory, &mut files);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let name = entry.file_name();
        if matches!(
            name.to_str(),
            Some("target" | ".git" | "corpus" | "artifacts" | "LICENSE-APACHE")
        ) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

fn shown(file: &Path) -> String {
    let root = checkout();
    file.strip_prefix(root)
        .unwrap_or(file)
        .display()
        .to_string()
}
