//! Servers that have DNS names: their addresses are followed while connections run.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric, run};
use tests::lb::{FRONT, Place, program};
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::stream::{
    PATIENCE, Server, connect, is_listened_on, line, receive, send, try_connect, try_line,
};
use tests::wait;

/// Longer than any time that a change may take: lookups each second, and a busy machine.
const FOLLOWED: Duration = Duration::from_secs(60);

/// dns-authd with a zone `web.test`, and servers that say their names.
struct Dns {
    site: Site,
    authd: Option<Daemon>,
    servers: Vec<Server>,
}

impl Dns {
    /// With records in which `{0}` is the address of the first server.
    fn start(records: &str) -> Self {
        let servers = (0..3).map(|n| Server::named(at(loopback(), FRONT), &format!("s{n}")));
        let mut dns = Self {
            site: Site::new(),
            authd: None,
            servers: servers.collect(),
        };
        dns.write(records);
        dns.start_authd();
        dns
    }

    fn start_authd(&mut self) {
        let mut command = Command::new(binary("dns-authd"));
        let file = self.site.files.join("dns-authd.toml");
        command.arg("serve").arg("--config").arg(file);
        self.authd = Some(Daemon::start("dns-authd", command));
    }

    fn write(&self, records: &str) {
        let mut zone = format!(
            "$TTL 1\n@ SOA ns1 hostmaster 1 1 1 1 1\n NS ns1\nns1 A 192.0.2.53\n{records}\n"
        );
        for (number, server) in self.servers.iter().enumerate() {
            zone = zone.replace(&format!("{{{number}}}"), &server.address().ip().to_string());
        }
        self.site.configure_authd(&[("web.test", &zone)], "");
    }

    /// Other records.
    fn change(&self, records: &str) {
        self.write(records);
        self.authd.as_ref().expect("it runs").hang_up();
    }

    fn address(&self) -> SocketAddr {
        self.site.authority()
    }

    /// A section that asks it every second.
    fn resolvers(&self) -> String {
        format!(
            "resolvers dns\n nameserver a {}\n timeout resolve 1s\n timeout retry 500ms\n hold valid 1s\n \
             hold nx 2s\n hold obsolete 0s\n hold other 30s\n hold refused 30s\n hold timeout 30s\n",
            self.address()
        )
    }

    /// HAProxy and lb-proxy on one file, in which `{front}` is where each listens.
    fn both(&self, file: &str) -> [(Place, Daemon); 2] {
        let text = format!(
            "{}defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n option redispatch\n{file}",
            self.resolvers()
        );
        let peer = Place::new();
        let config = peer.files.write(
            "haproxy.cfg",
            &text.replace("{front}", &peer.front().to_string()),
        );
        let mut command = Command::new(program("haproxy"));
        command.arg("-db").arg("-f").arg(config);
        let haproxy = Daemon::spawn("haproxy", command);
        wait::for_it("HAProxy serves", PATIENCE, || is_listened_on(peer.front()));
        let place = Place::new();
        let config = place.files.write(
            "haproxy.cfg",
            &text.replace("{front}", &place.front().to_string()),
        );
        let mut import = Command::new(binary("lb-proxy"));
        import.args(["import", "haproxy.cfg"]).arg(config);
        let (status, toml, remarks) = run(import);
        assert!(status.success(), "{remarks}");
        let (_, toml) = toml.split_once("version = \"v1\"\n").expect("a file");
        let ours = place.start(toml);
        [(peer, haproxy), (place, ours)]
    }
}

/// The server that a new connection gets, if it gets one.
fn server(front: SocketAddr) -> Option<(String, TcpStream)> {
    let stream = try_connect(front).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some((try_line(&stream).ok()?, stream))
}

/// A connection to this server, when new ones lead there.
fn wait_server(front: SocketAddr, name: &str) -> TcpStream {
    wait::until(&format!("{front} leads to {name}"), FOLLOWED, || {
        let (found, stream) = server(front)?;
        (found == name).then_some(stream)
    })
}

/// Data goes through it both ways.
fn is_alive(stream: &TcpStream, seed: u64) {
    send(stream, seed, 100_000, 9_000).expect("it takes data");
    receive(stream, seed, 100_000).expect("it gives it back");
}

fn detail(place: &Place) -> Value {
    let (_, text) = http_get(place.admin(), "/status").expect("a status");
    let status: Value = serde_json::from_str(&text).expect("JSON");
    status["detail"].clone()
}

#[test]
fn a_name_is_followed_as_haproxy_follows_it() {
    let dns = Dns::start("www A {0}");
    let file = format!(
        "listen l\n bind {{front}}\n server s www.web.test:{FRONT} resolvers dns init-addr none resolve-prefer ipv4\n"
    );
    let both = dns.both(&file);
    let fronts = [&both[0].0, &both[1].0].map(Place::front);
    let first = fronts.map(|front| wait_server(front, "s0"));
    // Another address: connections with the old one stay, and new ones go to the new one.
    dns.change("www A {1}");
    let second = fronts.map(|front| wait_server(front, "s1"));
    for stream in first.iter().chain(&second) {
        is_alive(stream, 1);
    }
    // An address more changes nothing, as the server has one already.
    dns.change("www A {0}\nwww A {1}");
    std::thread::sleep(Duration::from_secs(3));
    for front in fronts {
        for _ in 0..4 {
            assert_eq!(line(&connect(front)), "s1", "{front}");
        }
    }
    // The name goes: once that has lasted, there is no server, and sessions stay.
    dns.change("other A {1}");
    for front in fronts {
        wait::for_it(&format!("{front} leads nowhere"), FOLLOWED, || {
            server(front).is_none()
        });
    }
    for stream in first.iter().chain(&second) {
        is_alive(stream, 2);
    }
    let named = &detail(&both[1].0)["resolving"]["names"][0];
    assert_eq!(named["state"], "no such name", "{named}");
    assert_eq!(named["servers"], 0, "{named}");
    dns.change("www A {2}");
    for front in fronts {
        is_alive(&wait_server(front, "s2"), 3);
    }
}

#[test]
fn servers_stay_while_no_resolver_answers() {
    let mut dns = Dns::start("www A {0}");
    let place = Place::new();
    let config = format!(
        "[resolvers]\nnameservers = [\"{}\"]\ntimeout-resolve = \"200ms\"\ntimeout-retry = \"200ms\"\n\
         hold-valid = \"200ms\"\nhold-nx = \"0s\"\nresolve-retries = 1\n\
         [[frontend]]\nname = \"f\"\nlisten = [\"{}\"]\nbackend = \"b\"\n\
         [[backend]]\nname = \"b\"\ncheck = \"none\"\n\
         [[backend.server]]\nname = \"s\"\naddress = \"www.web.test:{FRONT}\"\n",
        dns.address(),
        place.front()
    );
    let lb = place.start(&config);
    // The start has waited for the answer.
    assert_eq!(line(&connect(place.front())), "s0");
    dns.authd = None;
    wait::for_it("lookups fail", FOLLOWED, || {
        detail(&place)["resolving"]["names"][0]["state"] == "failed"
    });
    let failed = || {
        let text = place.metrics();
        metric(&text, "lb_proxy_name_lookups_total{result=\"failed\"}").unwrap_or_default()
    };
    let before = failed();
    wait::for_it("many fail", FOLLOWED, || failed() > before + 5.0);
    assert_eq!(line(&connect(place.front())), "s0");
    let text = place.done(&["status"]);
    assert!(text.contains("b/s is www.web.test"), "{text}");
    assert!(text.contains("failed"), "{text}");
    let explained = place.done(&["explain", "b"]);
    assert!(explained.contains("www.web.test"), "{explained}");
    let text = place.metrics();
    let of = |name: &str| metric(&text, &format!("{name}{{backend=\"b\",server=\"s\"}}"));
    assert_eq!(of("lb_proxy_name_servers"), Some(1.0), "{text}");
    assert_eq!(of("lb_proxy_name_resolved"), Some(0.0), "{text}");
    // A reload keeps what is known, and a resolver that is back is believed.
    place.configure(&config.replace("\"none\"", "{ kind = \"tcp\" }"));
    lb.hang_up();
    lb.wait_log("Reloaded");
    assert_eq!(line(&connect(place.front())), "s0");
    dns.write("www A {1}");
    dns.start_authd();
    is_alive(&wait_server(place.front(), "s1"), 4);
}

#[test]
fn a_start_without_resolvers_has_the_servers_of_before() {
    let records = |address: &str| format!("www A {address}\n_web._tcp SRV 1 1 {FRONT} www");
    let mut dns = Dns::start(&records("{0}"));
    let place = Place::new();
    let config = format!(
        "[resolvers]\nnameservers = [\"{}\"]\ntimeout-resolve = \"200ms\"\ntimeout-retry = \"200ms\"\n\
         hold-valid = \"200ms\"\nhold-nx = \"0s\"\nresolve-retries = 1\n\
         [[frontend]]\nname = \"f\"\nlisten = [\"{}\"]\nbackend = \"b\"\n\
         [[backend]]\nname = \"b\"\ncheck = \"none\"\n\
         [[backend.server]]\nname = \"s\"\naddress = \"_web._tcp.web.test\"\n",
        dns.address(),
        place.front()
    );
    let first = place.start(&config);
    assert_eq!(line(&connect(place.front())), "s0");
    let kept = place.files.join("lb-proxy-state").join("names");
    let holds = |address: SocketAddr| {
        // A checksum stands before the text.
        let octets = std::fs::read(&kept).unwrap_or_default();
        let text = String::from_utf8_lossy(&octets);
        text.contains(&format!("www.web.test. A {}", address.ip()))
    };
    wait::for_it("the answers are kept", PATIENCE, || {
        holds(dns.servers[0].address())
    });
    // The address of the last answer is another than that of the start.
    dns.change(&records("{1}"));
    is_alive(&wait_server(place.front(), "s1"), 5);
    wait::for_it("the newer ones are", PATIENCE, || {
        holds(dns.servers[1].address())
    });
    drop(first);
    dns.authd = None;
    let second = place.start(&config);
    second.wait_log("Names of servers begin with their last answers");
    is_alive(&wait_server(place.front(), "s1"), 6);
    // A resolver that is back is believed.
    dns.write(&records("{2}"));
    dns.start_authd();
    is_alive(&wait_server(place.front(), "s2"), 7);
}

#[test]
fn a_service_has_ports_weights_and_backups() {
    let records = |of_first: &str| {
        format!(
            "_http._tcp SRV 0 {of_first} {FRONT} a\n_http._tcp SRV 0 100 {FRONT} b\n_http._tcp SRV 9 0 {FRONT} c\n\
             a A {{0}}\nb A {{1}}\nc A {{2}}"
        )
    };
    let dns = Dns::start(&records("300"));
    let place = Place::new();
    let config = format!(
        "[resolvers]\nnameservers = [\"{}\"]\ntimeout-resolve = \"200ms\"\nhold-valid = \"200ms\"\n\
         [[frontend]]\nname = \"f\"\nlisten = [\"{}\"]\nbackend = \"b\"\n\
         [[backend]]\nname = \"b\"\ncheck = \"none\"\n\
         [[backend.server]]\nname = \"w\"\naddress = \"_http._tcp.web.test\"\nservers = 8\n",
        dns.address(),
        place.front()
    );
    let _lb = place.start(&config);
    let shares = || {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..12 {
            *seen.entry(line(&connect(place.front()))).or_default() += 1;
        }
        let each = seen.iter().map(|(name, number)| format!("{number} {name}"));
        each.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(shares(), "9 s0, 3 s1");
    let detail = detail(&place);
    let servers = detail["backends"][0]["servers"]
        .as_array()
        .expect("servers");
    let names: Vec<&str> = servers
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    let expected = dns.servers.iter().map(|it| format!("w-{}", it.address()));
    let mut expected: Vec<String> = expected.collect();
    expected.get_mut(..2).expect("two").sort();
    assert_eq!(names, expected);
    assert!(servers.iter().all(|it| it["origin"] == "resolved"));
    // The weights are others, and then the places of the best priority are gone.
    dns.change(&records("100"));
    wait::for_it("the shares are others", FOLLOWED, || {
        shares() == "6 s0, 6 s1"
    });
    let held = connect(place.front());
    line(&held);
    dns.change(&format!("_http._tcp SRV 9 0 {FRONT} c\nc A {{2}}"));
    is_alive(&wait_server(place.front(), "s2"), 5);
    is_alive(&held, 6);
}
