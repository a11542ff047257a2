//! HAProxy's runtime commands at a Unix socket: the same script on Debian's HAProxy and on lb-proxy.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, haproxy_pair, pair};
use tests::scratch::{at, loopback};
use tests::stream::{End, PATIENCE, Server, connect, end_within, is_listened_on, line};
use tests::wait;

/// A proxy with two servers, and its socket.
struct Site {
    place: Place,
    _servers: Vec<Server>,
    socket: PathBuf,
    daemon: Daemon,
}

impl Site {
    fn new(is_haproxy: bool) -> Self {
        let servers: Vec<Server> = (0..2)
            .map(|n| Server::named(at(loopback(), FRONT), &format!("s{n}")))
            .collect();
        let place = Place::new();
        let socket = place.files.join("stats.sock");
        let daemon = start(&place, &servers, &socket, is_haproxy);
        wait::for_it("the socket is there", PATIENCE, || {
            UnixStream::connect(&socket).is_ok()
        });
        Self {
            place,
            _servers: servers,
            socket,
            daemon,
        }
    }

    /// One line, as `socat` sends it.
    fn ask(&self, line: &str) -> String {
        ask(&self.socket, line)
    }

    fn next(&self) -> (TcpStream, String) {
        let stream = connect(self.place.front());
        let name = line(&stream);
        (stream, name)
    }

    /// Whether ten connections go to these servers, each to one at least.
    fn chooses(&self, names: &[&str]) -> bool {
        let mut chosen: Vec<String> = (0..10).map(|_| self.next().1).collect();
        chosen.sort();
        chosen.dedup();
        chosen == names
    }
}

fn start(place: &Place, servers: &[Server], socket: &Path, is_haproxy: bool) -> Daemon {
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let path = socket.display();
    if is_haproxy {
        let head = format!(" stats socket {path} mode 660 level admin\n stats timeout 20s\n");
        let pair = haproxy_pair(
            place,
            "",
            " balance roundrobin\n",
            "weight 10 maxconn 50",
            &addresses,
        );
        return place.start_haproxy(&format!("{head}{pair}"));
    }
    let head =
        format!("[[stats-socket]]\npath = \"{path}\"\nlevel = \"admin\"\ntimeout = \"20s\"\n");
    let back = "balance = \"round-robin\"\ncheck = \"none\"\nmax-connections = 50\n";
    let pair = pair(place, "", back, &addresses).replace("name = \"s", "weight = 10\nname = \"s");
    place.start(&format!("{head}{pair}"))
}

fn ask(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Rows of `show stat`, by name of column.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let head = lines.next().unwrap().strip_prefix("# ").unwrap();
    let names: Vec<&str> = head.split(',').collect();
    let row = |line: &str| {
        let values = line.split(',').map(str::to_owned);
        names
            .iter()
            .map(|name| (*name).to_owned())
            .zip(values)
            .collect()
    };
    lines.filter(|line| !line.is_empty()).map(row).collect()
}

/// Commands whose answers are the same, word for word; in their order, as some of them change what others show.
const SAME: [&str; 52] = [
    "show backend",
    "  show   backend ",
    "show cli level",
    "operator;show cli level",
    "user;show sess;operator;show cli level;set weight back/s0 1;disable server back/s0",
    "operator;shutdown sessions server back/s0;set server back/s0 state ready;set maxconn server back/s0 1",
    "get weight back/s0",
    "get weight back/s0;get weight back/s1",
    "get weight back/s\\0",
    "get weight back/zz",
    "get weight zz/s0",
    "get weight back",
    "get weight",
    "set weight back/s0",
    "set weight back/s0 500",
    "set weight back/s0 -1",
    "set weight back/s0 x",
    "set weight back/s0 5x",
    "set weight back/s0 -5%",
    "set weight back/s0 5",
    "get weight back/s0",
    "set weight back/s0 50%",
    "get weight back/s0",
    "set server back/s0 weight 20",
    "get weight back/s0",
    "set server back/s0 weight 10",
    "get weight back/s0",
    "set server back/s0 weight",
    "set server back/s0 state",
    "set server back/s0 state foo",
    "set server zz/s0 state ready",
    "set server",
    "disable server back/zz",
    "disable server",
    "enable server back",
    "set maxconn server back/s0",
    "set maxconn server back/s0 x",
    "set maxconn server back/s0 9x",
    "set maxconn server back/zz 9",
    "set maxconn server back/s0 40",
    "shutdown session",
    "shutdown session zz",
    "shutdown session 0x1",
    "shutdown sessions server back",
    "show servers state zz",
    "show servers conn zz",
    "show sess 0x1",
    "show stat zz 4 1",
    "show stat domain zz",
    "set timeout",
    "set timeout cli",
    "set timeout cli x",
];

#[test]
fn one_script_gets_the_same_answers_from_haproxy_and_lb_proxy() {
    let [haproxy, lb_proxy] = [Site::new(true), Site::new(false)];
    for line in SAME {
        assert_eq!(lb_proxy.ask(line), haproxy.ask(line), "{line}");
    }
    for line in ["show nonsense", "set nonsense x", "shutdown sessions"] {
        let [theirs, ours] = [haproxy.ask(line), lb_proxy.ask(line)];
        assert_eq!(ours.lines().next(), theirs.lines().next(), "{line}");
        assert!(ours.lines().count() > 4, "{line}: {ours}");
        // The lines that are about nothing but the connection.
        let last = |text: &str| {
            text.lines()
                .rev()
                .take(4)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(last(&ours), last(&theirs), "{line}");
    }
    lb_proxy.daemon.stop();
}

/// HAProxy and lb-proxy, each after four sessions and with a server in maintenance.
fn used() -> [Site; 2] {
    let sites = [Site::new(true), Site::new(false)];
    for site in &sites {
        let held: Vec<_> = (0..4).map(|_| site.next()).collect();
        assert_eq!(site.ask("set server back/s1 state maint"), "\n");
        drop(held);
        wait::for_it("the sessions have ended", PATIENCE, || {
            let rows = rows(&site.ask("show stat"));
            rows.iter().all(|row| row["scur"] == "0")
        });
    }
    sites
}

#[test]
fn rows_have_haproxys_columns_and_values() {
    let [haproxy, lb_proxy] = used();
    let [theirs, ours] = [haproxy.ask("show stat"), lb_proxy.ask("show stat")];
    let head = |text: &str| text.lines().next().unwrap().to_owned();
    let of_modules = head(&theirs);
    assert!(
        of_modules.starts_with(&head(&ours)),
        "{}\n{of_modules}",
        head(&ours)
    );
    let [theirs, ours] = [rows(&theirs), rows(&ours)];
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        for name in [
            "pxname", "svname", "scur", "stot", "econ", "wretr", "wredis", "status", "weight",
            "act", "bck", "pid", "iid", "sid", "type", "mode", "algo", "lbtot", "qcur", "uweight",
            "connect", "conn_tot", "dcon",
        ] {
            assert_eq!(ours[name], theirs[name], "{name}: {ours:?}");
        }
        let is_server = ours["type"] == "2";
        assert!(!is_server || ours["slim"] == theirs["slim"], "{ours:?}");
        assert_eq!(ours["addr"].is_empty(), !is_server, "{ours:?}");
    }
    lb_proxy.daemon.stop();
}

#[test]
fn typed_values_have_haproxys_numbers_names_and_tags() {
    let [haproxy, lb_proxy] = used();
    let typed = |site: &Site, line: &str| -> BTreeMap<String, String> {
        let text = site.ask(line);
        let lines = text.lines().filter(|line| !line.is_empty());
        let cut = |line: &str| {
            let (name, rest) = line.split_once(':').unwrap();
            let tags: Vec<&str> = rest.split(':').take(2).collect();
            (name.to_owned(), tags.join(":"))
        };
        lines.map(cut).collect()
    };
    for line in [
        "show stat -1 4 -1 typed",
        "show stat -1 1 -1 typed",
        "show info typed",
    ] {
        let [theirs, ours] = [typed(&haproxy, line), typed(&lb_proxy, line)];
        assert!(!ours.is_empty(), "{line}");
        for (name, tags) in ours {
            assert_eq!(Some(&tags), theirs.get(&name), "{line}: {name}");
        }
    }
    for line in ["show stat json", "show info json"] {
        let _json: serde_json::Value = serde_json::from_str(&lb_proxy.ask(line)).unwrap();
    }
    // Each line of information that is here is there.
    let names = |site: &Site| -> Vec<String> {
        let text = site.ask("show info");
        let names = text.lines().filter_map(|line| line.split_once(": "));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let [theirs, ours] = [names(&haproxy), names(&lb_proxy)];
    assert!(ours.len() > 20, "{ours:?}");
    for name in &ours {
        assert!(theirs.contains(name), "{name}");
    }
    lb_proxy.daemon.stop();
}

#[test]
fn the_state_of_servers_is_in_haproxys_format() {
    let [haproxy, lb_proxy] = used();
    // But for addresses and ports, the seconds since a change, and checks, which HAProxy numbers without having any.
    let states = |site: &Site| -> Vec<String> {
        let text = site.ask("show servers state");
        let line = |line: &str| {
            let words = line.split(' ').enumerate();
            let kept = words.filter(|(place, _)| !matches!(*place, 4 | 9..=13 | 18));
            let kept: Vec<&str> = kept.map(|(_, word)| word).collect();
            kept.join(" ")
        };
        text.lines().map(line).collect()
    };
    assert_eq!(states(&lb_proxy), states(&haproxy));
    let columns = |text: &str| -> Vec<usize> {
        let lines = text.lines();
        lines.map(|line| line.split(' ').count()).collect()
    };
    let line = "show servers conn back";
    assert_eq!(columns(&lb_proxy.ask(line)), columns(&haproxy.ask(line)));
    lb_proxy.daemon.stop();
}

#[test]
fn commands_do_what_they_do_at_haproxy() {
    for is_haproxy in [true, false] {
        let site = Site::new(is_haproxy);
        let both = || {
            wait::for_it("both servers are chosen", PATIENCE, || {
                site.chooses(&["s0", "s1"])
            })
        };
        both();
        for [out, back] in [
            ["disable server back/s1", "enable server back/s1"],
            [
                "set server back/s1 state drain",
                "set server back/s1 state ready",
            ],
            [
                "set server back/s1 state maint",
                "set server back/s1 state ready",
            ],
            ["set weight back/s1 0", "set weight back/s1 100%"],
        ] {
            assert_eq!(site.ask(out), "\n", "{out}");
            wait::for_it(out, PATIENCE, || site.chooses(&["s0"]));
            assert_eq!(site.ask(back), "\n", "{back}");
            both();
        }
        // One session, by its number; then those of a server.
        let (held, name) = site.next();
        let port = held.local_addr().unwrap().port();
        let session = wait::until("the session is listed", PATIENCE, || {
            let listed = site.ask("show sess");
            let wanted = format!(":{port} fe=front be=back srv={name} ");
            let line = listed.lines().find(|line| line.contains(&wanted))?;
            assert!(line.contains(": proto=tcpv4 src="), "{line}");
            line.split_once(':').map(|(number, _)| number.to_owned())
        });
        let whole = site.ask(&format!("show sess {session}"));
        assert!(whole.contains(&format!("server={name} ")), "{whole}");
        assert_eq!(site.ask(&format!("shutdown session {session}")), "\n");
        assert!(!matches!(end_within(&held, PATIENCE), End::Open(_)));
        let (held, name) = site.next();
        assert_eq!(
            site.ask(&format!("shutdown sessions server back/{name}")),
            "\n"
        );
        assert!(!matches!(end_within(&held, PATIENCE), End::Open(_)));
    }
}

#[test]
fn a_prompt_lasts_until_quit() {
    for is_haproxy in [true, false] {
        let site = Site::new(is_haproxy);
        let mut stream = UnixStream::connect(&site.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut say = |line: &str, expected: &str| {
            stream.write_all(line.as_bytes()).unwrap();
            let mut answer = vec![0; expected.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&answer),
                expected,
                "{is_haproxy} {line}"
            );
        };
        // As hatop begins.
        say("prompt\n", "\n> ");
        say("set timeout cli 60\n", "\n> ");
        say("get weight back/s0\n", "10 (initial 10)\n\n> ");
        say(
            "get weight back/s0;show backend\n",
            "10 (initial 10)\n\n> # name\nback\n\n> ",
        );
        stream.write_all(b"quit\n").unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn a_decision_of_the_socket_is_one_of_an_operator_and_outlives_a_swap() {
    let site = Site::new(false);
    assert_eq!(site.ask("set server back/s1 state maint"), "\n");
    let status = site.place.done(&["status"]);
    let told = "by uid 0: set server back/s1 state maint";
    assert!(
        status.contains("an operator said maintenance") && status.contains(told),
        "{status}"
    );
    let mut serve = site.place.serve();
    serve
        .arg("--admin-socket")
        .arg(site.place.files.join("next.admin"));
    let successor = Daemon::start("lb-proxy", serve);
    wait::for_it("the successor answers", PATIENCE, || {
        UnixStream::connect(&site.socket).is_ok()
            && site
                .ask("show info")
                .contains(&format!("\nPid: {}\n", successor.id()))
    });
    assert!(site.ask("show servers state back").contains(" s1 "));
    assert!(site.chooses(&["s0"]));
    let mode = std::fs::metadata(&site.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o660);
    let admin = site.place.admin();
    wait::for_it("the successor has the admin address", PATIENCE, || {
        is_listened_on(admin)
    });
    let metrics = site.place.metrics();
    for line in [
        format!(
            "lb_proxy_stats_socket{{path=\"{}\"}} 1.0",
            site.socket.display()
        ),
        "lb_proxy_stats_commands_total{result=\"answered\"} ".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    successor.stop();
    assert!(!site.socket.exists());
}
