//! The right to change what services do: by the user and the groups of a process, never by its network address.

use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::binaries::{SERVICES, binary};
use tests::daemon::{Daemon, http_get, run};
use tests::scratch::Scratch;
use tests::time::Agent;

use crate::command_line::minimal;

/// The user of the services, as images and units have it.
const OWNER: User = User {
    id: 65_532,
    groups: "65532",
};

/// The group of a socket's directory: the operators.
const OPERATORS: u32 = 64_990;

/// A user of the node with the operators' group among others.
const OPERATOR: User = User {
    id: 64_001,
    groups: "64001,64990",
};

/// A user with the groups of root and of the services, and not the operators'.
const NEIGHBOUR: User = User {
    id: 64_002,
    groups: "0,65532,64002",
};

/// The user of processes without any right.
const NOBODY: User = User {
    id: 65_534,
    groups: "65534",
};

const ROOT: User = User { id: 0, groups: "0" };

#[derive(Clone, Copy, Debug)]
struct User {
    id: u32,
    groups: &'static str,
}

impl User {
    /// The command, run as this user without any privilege of root.
    fn command(self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.id))
            .arg(format!("--regid={}", self.id))
            .arg(format!("--groups={}", self.groups));
        if self.id != 0 {
            command.arg("--bounding-set=-all");
        }
        command.arg("--no-new-privs").arg(program);
        command
    }

    /// Sends a POST; its status (0 when there was no connection), and what came back.
    fn post(self, to: &At<'_>, path: &str) -> (u32, String) {
        let mut command = self.command(Path::new("curl"));
        command.args(["-s", "-m", "20", "-X", "POST", "-w", "\n%{http_code}"]);
        match to {
            At::Address(address) => command.arg(format!("http://{address}{path}")),
            At::Socket(socket) => command
                .arg("--unix-socket")
                .arg(socket)
                .arg(format!("http://localhost{path}")),
        };
        let (_, stdout, stderr) = run(command);
        let (body, status) = stdout.rsplit_once('\n').unwrap_or(("", &stdout));
        let status = status
            .parse()
            .unwrap_or_else(|_| panic!("{stdout}{stderr}"));
        (status, body.to_owned())
    }
}

enum At<'a> {
    Address(SocketAddr),
    Socket(&'a Path),
}

/// A service under its own user, with an admin socket as a node has it.
struct Guarded {
    name: &'static str,
    daemon: Daemon,
    admin: SocketAddr,
    directory: PathBuf,
    socket: PathBuf,
    _files: (Scratch, Option<Agent>),
}

impl Guarded {
    fn start(name: &'static str) -> Self {
        let files = Scratch::new("control");
        let directory = files.join(&format!("admin/{name}"));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("a.sock");
        let (serve, admin, agent) = if name == "timesync-agent" {
            let agent = Agent::on_loopback("local stratum 8\n");
            let (serve, admin) = (agent.serve(), agent.admin());
            give(agent.files.path());
            (serve, admin, Some(agent))
        } else {
            let (config, admin) = minimal(name, &files);
            let mut serve = Command::new(binary(name));
            serve.args(["serve", "--config", &config]);
            (serve, admin, None)
        };
        give(files.path());
        // As tmpfiles.d makes it on a node.
        chown(&directory, Some(OWNER.id), Some(OPERATORS)).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o2750)).unwrap();
        let mut command = OWNER.command(Path::new(serve.get_program()));
        command.args(serve.get_args());
        command.args(["--slot", "a", "--admin-socket"]).arg(&socket);
        // The notify socket of a test is for root alone: the log says when it is ready.
        let daemon = Daemon::spawn(name, command);
        daemon.wait_log(" Ready ");
        Self {
            name,
            daemon,
            admin,
            directory,
            socket,
            _files: (files, agent),
        }
    }

    fn socket(&self) -> At<'_> {
        At::Socket(&self.socket)
    }

    /// Every path that takes a POST, as the service itself lists them.
    fn routes(&self) -> Vec<String> {
        let (_, known) = http_get(self.admin, "/no-such-path").unwrap();
        let posts = known.lines().filter_map(|line| line.strip_prefix("POST "));
        posts.map(str::to_owned).collect()
    }

    fn refused(&self) -> f64 {
        let (_, metrics) = http_get(self.admin, "/metrics").unwrap();
        tests::daemon::metric(&metrics, "outpost_admin_refused_total").unwrap_or_default()
    }

    fn assert_serves(&mut self) {
        let (status, text) = http_get(self.admin, "/status").unwrap();
        assert_eq!(status, 200, "{}: {text}", self.name);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status["state"], "serving", "{}", self.name);
        let socket = self.socket.display().to_string();
        assert_eq!(status["admin_socket"], socket, "{}", self.name);
        assert!(self.daemon.is_running(), "{}", self.name);
    }
}

/// Gives a directory and all in it to the services' user.
fn give(path: &Path) {
    chown(path, Some(OWNER.id), Some(OWNER.id)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

/// The request of an operator for a route, and the status of its answer.
fn request(route: &str) -> Option<(&'static str, u32)> {
    Some(match route {
        "/backends/max-connections" | "/backends/state" | "/backends/weight" => return None,
        "/cache/flush" => ("/cache/flush", 200),
        "/marks" => ("/marks?address=192.0.2.1&state=drain", 200),
        "/nodes" => ("/nodes?forget=none", 404),
        "/query-log" => ("/query-log?turn=on&for=1m", 200),
        "/recover" => (
            "/recover?repository=none&digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
            404,
        ),
        "/sessions/kill" => ("/sessions/kill?id=1", 200),
        "/upkeep" => ("/upkeep?task=dry-run", 202),
        "/zones/accept" => ("/zones/accept?name=none.example", 404),
        "/zones/reload" => ("/zones/reload", 200),
        "/zones/rollback" => ("/zones/rollback?name=none.example&serial=1", 404),
        "/zones/retransfer" => ("/zones/retransfer?name=none.example", 404),
        "/zones/sync" => ("/zones/sync?name=none.example", 404),
        other => panic!("{other} is a new change: who may ask for it?"),
    })
}

#[test]
#[ignore = "takes the places of other users, which needs root; tests/run runs it"]
fn runtime_commands_of_haproxy_are_for_operators_and_root_and_for_no_other_user() {
    let files = Scratch::new("control");
    let (config, _) = minimal("lb-proxy", &files);
    let directory = files.join("run");
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("haproxy.sock");
    let text = std::fs::read_to_string(&config).unwrap();
    let more = format!(
        "[[stats-socket]]\npath = \"{}\"\nlevel = \"admin\"\n",
        socket.display()
    );
    std::fs::write(&config, format!("{text}\n{more}")).unwrap();
    give(files.path());
    chown(&directory, Some(OWNER.id), Some(OPERATORS)).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o2750)).unwrap();
    let mut command = OWNER.command(&binary("lb-proxy"));
    command.args(["serve", "--config", &config]);
    let daemon = Daemon::spawn("lb-proxy", command);
    daemon.wait_log("Answering HAProxy's runtime commands");
    let ask = |user: User| {
        let line = "printf 'show cli level;set weight none/none 1\\n' | \
                    curl -sS -N -m 20 --unix-socket \"$1\" telnet://localhost";
        let mut command = user.command(Path::new("sh"));
        command.args(["-c", line, "sh"]).arg(&socket);
        let (_, stdout, stderr) = run(command);
        (stdout, stderr)
    };
    for user in [OPERATOR, OWNER, ROOT] {
        let (told, error) = ask(user);
        assert_eq!(told, "admin\n\nNo such backend.\n\n", "{user:?}: {error}");
    }
    for user in [NOBODY, NEIGHBOUR] {
        let (told, error) = ask(user);
        assert!(
            told.is_empty() && error.contains("connect"),
            "{user:?}: {told}{error}"
        );
    }
    // Where the mode is loosened, the identity of the process decides.
    for (path, mode) in [(&directory, 0o2777), (&socket, 0o666)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    // A refusal is read by clients that still write when it comes.
    for user in [NOBODY, NEIGHBOUR].repeat(10) {
        let (told, error) = ask(user);
        assert_eq!(told, "Permission denied\n\n", "{user:?}: {error}");
    }
    daemon.stop();
}

const HAND_OVER: &str = daemon::succession::PATH;

#[test]
#[ignore = "takes the places of other users, which needs root; tests/run runs it"]
fn changes_are_for_operators_and_root_and_for_no_other_user() {
    let mut n_routes = 0;
    for name in SERVICES {
        let mut service = Guarded::start(name);
        let routes = service.routes();
        n_routes += routes.len();
        let mut expected = service.refused();
        for route in &routes {
            // Over TCP no user may change anything. The answer says where changes are taken.
            for user in [NOBODY, NEIGHBOUR, OPERATOR, OWNER, ROOT] {
                let (status, text) = user.post(&At::Address(service.admin), route);
                assert_eq!(status, 403, "{name} {route} {user:?}: {text}");
                let socket = service.socket.display().to_string();
                assert!(text.contains(&socket), "{name} {route}: {text}");
                expected += 1.0;
            }
            // The socket's mode keeps others out.
            for user in [NOBODY, NEIGHBOUR] {
                let (status, text) = user.post(&service.socket(), route);
                assert_eq!(status, 0, "{name} {route} {user:?}: {text}");
            }
        }
        // Where the mode is loosened, the identity of the process does.
        let loosened = [(&service.directory, 0o2777), (&service.socket, 0o666)];
        for (path, mode) in loosened {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        for route in &routes {
            for user in [NOBODY, NEIGHBOUR] {
                let (status, text) = user.post(&service.socket(), route);
                assert_eq!(status, 403, "{name} {route} {user:?}: {text}");
                expected += 1.0;
            }
        }
        assert!((service.refused() - expected).abs() < 0.5, "{name}");
        service.assert_serves();
        // Operators may do everything but end the process for a successor.
        for route in &routes {
            if route == HAND_OVER {
                let (status, text) = OPERATOR.post(&service.socket(), route);
                assert_eq!(status, 403, "{name}: {text}");
                continue;
            }
            let Some((path, expected)) = request(route) else {
                continue;
            };
            for user in [OPERATOR, OWNER, ROOT] {
                let (status, text) = user.post(&service.socket(), path);
                let is_busy = status == 409 && route == "/upkeep";
                assert!(
                    status == expected || is_busy,
                    "{name} {path} {user:?}: {status} {text}"
                );
            }
        }
        service.assert_serves();
        service.daemon.stop();
    }
    assert!(n_routes >= 12, "{n_routes}");
}

#[test]
#[ignore = "takes the places of other users, which needs root; tests/run runs it"]
fn the_verbs_of_an_operator_find_the_socket_and_those_of_others_are_refused() {
    let service = Guarded::start("dns-recursor");
    let admin = service.admin.to_string();
    let flush = |user: User, how: &[&str]| {
        let mut command = user.command(&binary("dns-recursor"));
        command.args(["cache", "flush"]).args(how);
        let (status, stdout, stderr) = run(command);
        (status.code(), stdout + &stderr)
    };
    let socket = service.socket.display().to_string();
    for how in [["--admin", &admin], ["--socket", &socket]] {
        for user in [OPERATOR, ROOT] {
            let (code, text) = flush(user, &how);
            assert_eq!(code, Some(0), "{user:?} {how:?}: {text}");
        }
        let (code, text) = flush(NOBODY, &how);
        assert_eq!(code, Some(77), "{how:?}: {text}");
        assert!(text.contains("may not connect"), "{text}");
        assert!(text.contains(&socket), "{text}");
    }
    service.daemon.stop();
}

#[test]
#[ignore = "takes the places of other users, which needs root; tests/run runs it"]
fn a_handover_without_a_successor_is_refused() {
    for name in ["healthd", "registry-svc", "timesync-agent"] {
        let mut service = Guarded::start(name);
        for user in [OWNER, ROOT] {
            let path = format!("{HAND_OVER}?waits=yes");
            let (status, text) = user.post(&service.socket(), &path);
            assert_eq!(status, 409, "{name} {user:?}: {text}");
            assert!(text.starts_with("no successor waits"), "{text}");
        }
        service.assert_serves();
        service.daemon.stop();
    }
}

#[test]
fn without_a_socket_a_service_takes_no_changes_and_says_how_it_does() {
    let files = Scratch::new("control");
    let (config, admin) = minimal("dns-authd", &files);
    let mut serve = Command::new(binary("dns-authd"));
    serve.args(["serve", "--config", &config]);
    let daemon = Daemon::start("dns-authd", serve);
    let mut reload = Command::new(binary("dns-authd"));
    reload.args(["zone", "reload", "--admin", &admin.to_string()]);
    let (status, _, stderr) = run(reload);
    assert_eq!(status.code(), Some(65), "{stderr}");
    assert!(stderr.contains("--admin-socket"), "{stderr}");
    daemon.stop();
}
