//! Every daemon has the same face.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use tests::binaries::{ALL_SERVICES, binary, checkout};
use tests::daemon::{Daemon, run};
use tests::scratch::{Scratch, at, loopback};
use tests::status::odd_keys;
use tests::wait;

fn command(daemon: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary(daemon));
    command.args(arguments);
    command
}

/// Exit code, standard output, standard error.
fn outcome(daemon: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let (status, stdout, stderr) = run(command(daemon, arguments));
    (status.code(), stdout, stderr)
}

/// An admin listener's response to a POST, head and all.
fn post(admin: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A configuration that needs nothing and takes no port of another test.
pub(crate) fn minimal(daemon: &str, files: &Scratch) -> (String, SocketAddr) {
    let ip = loopback();
    let admin = at(ip, 9400);
    let own = match daemon {
        "healthd" => format!(
            "listen = [\"unix:{}\"]\nstate = \"{}\"\n",
            files.join("healthd.sock").display(),
            files.join("state").display()
        ),
        // An island that leaves the clock alone.
        "timesync-agent" => format!(
            "correct-clock = false\nlocal = {{ stratum = 10 }}\ncommands = {{ port = 0, socket = \"none\" }}\n\
             serve = {{ port = 11123, addresses = [\"{ip}\"], access = [\"allow 127.0.0.0/8\"] }}\n"
        ),
        // Nothing to balance, and no predecessor.
        "lb-proxy" => "health.endpoint = \"none\"\nswap.socket = \"none\"\n".to_owned(),
        "registry-svc" => format!(
            "plain = true\nroot = \"{}\"\n",
            files.join("registry").display()
        ),
        "clusterd" => {
            std::fs::create_dir_all(files.join("manifests")).unwrap();
            format!(
                "socket = \"{}\"\nstate = \"{}\"\nmanifests = \"{}\"\n",
                files.join("clusterd.sock").display(),
                files.join("state").display(),
                files.join("manifests").display()
            )
        }
        // Without a server to forward to, it is not ready.
        "dns-recursor" => format!(
            "forward = [{{ zone = \".\", upstreams = [\"{}\"], recursive = true }}]\n",
            at(ip, 5301)
        ),
        _ => String::new(),
    };
    let listen = match daemon {
        "healthd" | "clusterd" | "timesync-agent" | "lb-proxy" => String::new(),
        _ => format!("listen = [\"{}\"]\n", at(ip, 5300)),
    };
    let text = format!("version = \"v1\"\n{listen}{own}admin.listen = \"{admin}\"\n");
    (
        files
            .write(&format!("{daemon}.toml"), &text)
            .display()
            .to_string(),
        admin,
    )
}

#[test]
fn the_version_says_what_was_built_and_when() {
    for daemon in ALL_SERVICES {
        let (code, stdout, _) = outcome(daemon, &["--version"]);
        assert_eq!(code, Some(0));
        let rest = stdout
            .trim()
            .strip_prefix(&format!("{daemon} "))
            .unwrap_or_else(|| panic!("{stdout}"));
        assert!(rest.starts_with(char::is_numeric), "{stdout}");
        assert!(
            rest.contains("(git ") && rest.contains(", built 2"),
            "{stdout}"
        );
    }
}

#[test]
fn the_help_names_every_verb_and_every_verb_has_help() {
    for daemon in ALL_SERVICES {
        let (code, stdout, _) = outcome(daemon, &["--help"]);
        assert_eq!(code, Some(0));
        for verb in ["serve", "check", "status"] {
            assert!(stdout.contains(&format!("  {verb} ")), "{daemon}: {stdout}");
            let (code, stdout, _) = outcome(daemon, &[verb, "--help"]);
            assert_eq!(code, Some(0), "{daemon} {verb}");
            let documented = stdout.lines().filter(|line| line.contains(" --"));
            assert!(documented.count() >= 1, "{daemon} {verb}: {stdout}");
        }
    }
}

#[test]
fn a_wrong_command_line_is_64() {
    for daemon in ALL_SERVICES {
        for arguments in [
            &[][..],
            &["sevre"],
            &["serve", "--no-such-flag"],
            &["check", "--config"],
            &["status", "--admin", "x"],
        ] {
            let (code, stdout, stderr) = outcome(daemon, arguments);
            assert_eq!(code, Some(64), "{daemon} {arguments:?}: {stderr}");
            assert!(
                stdout.is_empty() && !stderr.is_empty(),
                "{daemon} {arguments:?}"
            );
        }
    }
}

#[test]
fn a_wrong_configuration_is_78_and_every_problem_has_its_place() {
    let files = Scratch::new("config");
    for daemon in ALL_SERVICES {
        // Text, and what has to be said about it.
        let table: [(&str, &str); 6] = [
            ("version = \"v1\"\n\nlog.levle = \"info\"\n", ":3:5: "),
            ("version = \"v1\"\n[admin]\nlisten = 7\n", ":3:10: "),
            ("version = \"v1\"\nlog.level = \"loud\"\n", ":2:13: "),
            ("version = \"v9\"\n", ":1:11: "),
            ("log.level = \"info\"\n", "version"),
            ("version = \"v1\"\n[log\n", ":2:"),
        ];
        for (text, said) in table {
            let path = files.write("bad.toml", text).display().to_string();
            for verb in ["check", "serve"] {
                let (code, stdout, stderr) = outcome(daemon, &[verb, "--config", &path]);
                // `check` reports on standard output, `serve` logs.
                let stderr = stdout + &stderr;
                assert_eq!(code, Some(78), "{daemon} {verb} {text:?}: {stderr}");
                assert!(
                    stderr.contains(said),
                    "{daemon} {verb} {text:?}: no {said:?} in {stderr}"
                );
                assert!(!stderr.contains("panicked"), "{stderr}");
            }
        }
        let path = files
            .write("near.toml", "version = \"v1\"\ndrian = \"1s\"\n")
            .display()
            .to_string();
        let (_, stderr, _) = outcome(daemon, &["check", "--config", &path]);
        assert!(
            stderr.contains("`drain`"),
            "the nearest key is named: {stderr}"
        );
        let (code, stdout, stderr) =
            outcome(daemon, &["check", "--config", "/nowhere/at/all.toml"]);
        let stderr = stdout + &stderr;
        assert!(
            code == Some(78) && stderr.contains("/nowhere/at/all.toml"),
            "{code:?} {stderr}"
        );
    }
}

#[test]
fn the_status_of_a_daemon_that_is_not_there_is_69() {
    for daemon in ALL_SERVICES {
        let nobody = at(loopback(), 9400).to_string();
        let (code, _, stderr) = outcome(daemon, &["status", "--admin", &nobody]);
        assert!(
            code == Some(69) && stderr.contains(&nobody),
            "{daemon}: {code:?} {stderr}"
        );
    }
}

#[test]
fn a_daemon_lives_as_its_service_manager_expects() {
    for name in ALL_SERVICES {
        let files = Scratch::new("life");
        let (config, admin) = minimal(name, &files);
        let (code, stdout, stderr) = outcome(name, &["check", "--config", &config]);
        assert_eq!(code, Some(0), "{name}: {stdout}{stderr}");

        let mut daemon = Daemon::start(name, command(name, &["serve", "--config", &config]));
        if name == "clusterd" {
            // It serves its last snapshot before it has read its source.
            wait::for_it("the source is read", Duration::from_secs(10), || {
                tests::daemon::http_get(admin, "/readyz").is_ok_and(|(status, _)| status == 200)
            });
        }
        for path in ["/livez", "/readyz", "/metrics", "/status"] {
            let (status, body) = tests::daemon::http_get(admin, path).unwrap();
            assert_eq!(status, 200, "{name} {path}: {body}");
        }
        let (status, _) = tests::daemon::http_get(admin, "/nothing").unwrap();
        assert_eq!(status, 404, "{name}");
        let refused = post(admin, "/status");
        assert!(
            refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nallow: GET, HEAD\r\n"),
            "{name}: {refused}"
        );
        let (code, stdout, stderr) = outcome(name, &["status", "--admin", &admin.to_string()]);
        assert!(
            code == Some(0) && !stdout.is_empty(),
            "{name}: {code:?} {stderr}"
        );
        let (_, json, _) = outcome(name, &["status", "--json", "--admin", &admin.to_string()]);
        let json: serde_json::Value =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{name}: {error}: {json}"));
        assert!(json.is_object(), "{name}: {json}");
        let odd = odd_keys(&json);
        assert!(odd.is_empty(), "{name}: {odd:?}");

        daemon.forget_told();
        daemon.hang_up();
        daemon.wait_told("RELOADING=1");
        daemon.wait_told("READY=1");
        daemon.signal(Signal::TERM);
        daemon.wait_told("STOPPING=1");
        let status = daemon.wait();
        assert_eq!(status.code(), Some(0), "{name}: {}", daemon.log());
    }
}

#[test]
fn a_slot_may_be_named_where_a_peers_files_are_read() {
    let files = Scratch::new("peer");
    files.write(
        "zone",
        "@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.0.2.1\n",
    );
    let zone = files.join("zone").display().to_string();
    let list = files.write(
        "bind.conf",
        &format!("zone \"example\" {{ type master; file \"{zone}\"; }};\n"),
    );
    let pdns = files.write(
        "pdns.conf",
        &format!("launch=bind\nbind-config={}\n", list.display()),
    );
    let nowhere = at(loopback(), 5300);
    let recursor = files.write(
        "recursor.conf",
        &format!("forward-zones=example={nowhere}\n"),
    );
    for (name, flag, file) in [
        ("dns-authd", "--pdns-conf", pdns),
        ("dns-recursor", "--recursor-conf", recursor),
    ] {
        let (ip, socket) = (loopback(), files.join(&format!("{name}.sock")));
        let mut serve = command(name, &["serve", flag]);
        serve.arg(file).args(["--slot", "b", "--daemon=no"]);
        serve.arg("--admin-socket").arg(&socket);
        serve
            .arg(format!("--local-address={ip}"))
            .args(["--local-port=5300", "--healthd=none"]);
        serve.arg(format!("--admin={}", at(ip, 9400)));
        let daemon = Daemon::start(name, serve);
        let (_, status) = tests::daemon::http_get(at(ip, 9400), "/status").unwrap();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["slot"], "b", "{name}: {status}");
        assert!(socket.exists(), "{name}: {}", daemon.log());
        daemon.stop();
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for daemon in ALL_SERVICES {
        let mut child = command(daemon, &["--help"]);
        child
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(Stdio::null());
        let mut child = child.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{daemon}: {stderr}");
        // Killed by SIGPIPE or ended by itself, but not aborted.
        assert_ne!(
            std::os::unix::process::ExitStatusExt::signal(&output.status),
            Some(6),
            "{daemon}"
        );
    }
}

#[test]
fn two_of_a_kind_do_not_take_each_other_for_themselves() {
    for name in ALL_SERVICES {
        let files = Scratch::new("twins");
        let (config, _) = minimal(name, &files);
        let first = Daemon::start(name, command(name, &["serve", "--config", &config]));
        let mut second = Daemon::spawn(name, command(name, &["serve", "--config", &config]));
        let status = wait::until("the second gives up", Duration::from_secs(20), || {
            (!second.is_running()).then(|| second.wait())
        });
        assert!(!status.success(), "{name}: {}", second.log());
        // The first continues, its socket file included.
        drop(second);
        let (code, _, stderr) = outcome(name, &["check", "--config", &config]);
        assert_eq!(code, Some(0), "{stderr}");
        if name == "healthd" {
            assert!(
                files.join("healthd.sock").exists(),
                "the socket is still there"
            );
        }
        first.stop();
    }
}

#[test]
fn the_readme_names_commands_that_exist() {
    let readme = std::fs::read_to_string(checkout().join("README.md")).unwrap();
    for line in readme.lines() {
        if line.starts_with(' ') {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(daemon) = words.next().filter(|word| ALL_SERVICES.contains(word)) else {
            continue;
        };
        let Some(verb) = words.next() else { continue };
        let (code, _, stderr) = outcome(daemon, &[verb, "--help"]);
        assert_eq!(code, Some(0), "README.md: {line}: {stderr}");
    }
}
