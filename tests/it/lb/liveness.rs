//! The servers that work are chosen, and who finds that out may fail.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tests::daemon::http_get;
use tests::lb::{FRONT, Place, haproxy_pair, pair};
use tests::scratch::{at, loopback};
use tests::stream::{
    End, PATIENCE, Server, connect, end_within, line, receive, send, try_connect, try_line,
};
use tests::wait;

/// How long a client may take to hear that there is no server: less than it takes to try to connect.
const AT_ONCE: Duration = Duration::from_secs(3);

const CHECK: &str = "check = { kind = \"tcp\", interval = \"500ms\", fast-interval = \"200ms\", timeout = \"200ms\" }";

struct Site {
    place: Place,
    addresses: Vec<SocketAddr>,
    servers: Vec<Option<Server>>,
}

impl Site {
    fn new(number: usize) -> Self {
        let addresses: Vec<SocketAddr> = (0..number).map(|_| at(loopback(), FRONT)).collect();
        let mut site = Self {
            place: Place::new(),
            servers: addresses.iter().map(|_| None).collect(),
            addresses,
        };
        (0..number).for_each(|n| site.up(n));
        site
    }

    fn up(&mut self, number: usize) {
        let address = self.addresses[number];
        self.servers[number] = Some(Server::named(address, &format!("s{number}")));
    }

    /// Connections are refused; those that there are stay.
    fn refuse(&mut self, number: usize) {
        self.servers[number].as_mut().unwrap().close();
    }

    fn config(&self, back: &str) -> String {
        pair(&self.place, "", back, &self.addresses)
    }

    /// The server of the next connection.
    fn next(&self) -> String {
        line(&connect(self.place.front()))
    }

    /// Waits until `healthd` and with it lb-proxy knows how each server is.
    fn settle(&self) {
        let admin = at(self.place.ip, 9401);
        wait::for_it("healthd probes every server", PATIENCE, || {
            let status = http_get(admin, "/status").map(|(_, text)| text);
            let status = status.unwrap_or_default();
            self.addresses
                .iter()
                .all(|address| status.contains(&address.to_string()))
                && !status.contains("\"unknown\"")
        });
        let each = 0..self.addresses.len();
        wait::for_it("lb-proxy has heard of every server", PATIENCE, || {
            let told = |number| matches!(self.told(number).as_str(), "up" | "down");
            each.clone().all(told)
        });
    }

    /// Waits until lb-proxy has heard this of a server.
    fn wait_told(&self, number: usize, liveness: &str) {
        let what = format!("lb-proxy has heard that s{number} is {liveness}");
        wait::for_it(&what, PATIENCE, || self.told(number) == liveness);
    }

    /// The liveness of a server as lb-proxy has it.
    fn told(&self, number: usize) -> String {
        let status = self.place.done(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let servers = &status["detail"]["backends"][0]["servers"];
        let liveness = &servers[number]["probe"]["liveness"];
        liveness.as_str().unwrap_or_default().to_owned()
    }
}

/// Connections made one after the other until it is stopped; each has to be served.
struct Visits {
    stop: Arc<AtomicBool>,
    /// Held during each visit.
    visit: Arc<Mutex<()>>,
    thread: JoinHandle<Vec<(Instant, Result<String, String>)>>,
}

impl Visits {
    fn start(front: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let visit = Arc::new(Mutex::new(()));
        let visiting = Arc::clone(&visit);
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let under_way = visiting.lock().unwrap();
                let at = Instant::now();
                let found = try_connect(front).and_then(|stream| try_line(&stream));
                seen.push((at, found.map_err(|error| error.to_string())));
                drop(under_way);
                std::thread::sleep(Duration::from_millis(4));
            }
            seen
        });
        Self {
            stop,
            visit,
            thread,
        }
    }

    /// A server refuses from here on. It does between two visits: the kernel resets what it has connected and the
    /// server has not yet accepted, which no proxy can make good.
    fn refuse(&self, site: &mut Site, number: usize) {
        let _between = self.visit.lock().unwrap();
        site.refuse(number);
    }

    /// The servers of all connections, each of them served.
    fn served(self) -> Vec<(Instant, String)> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().unwrap();
        assert!(seen.len() > 20, "{} connections", seen.len());
        seen.into_iter()
            .map(|(at, found)| {
                (
                    at,
                    found.unwrap_or_else(|error| panic!("not served: {error}")),
                )
            })
            .collect()
    }
}

#[test]
fn a_server_that_dies_is_left_and_comes_back() {
    let mut site = Site::new(3);
    let _healthd = site.place.start_healthd("");
    let back = format!("{CHECK}\nbalance = \"round-robin\"\non-down = \"reset\"");
    let _lb = site.place.start(&site.config(&back));
    site.settle();

    // One session on each server.
    let mut held: Vec<(TcpStream, String)> = Vec::new();
    while held.len() < 3 {
        let stream = connect(site.place.front());
        let name = line(&stream);
        if held.iter().all(|(_, other)| *other != name) {
            held.push((stream, name));
        }
    }
    let visits = Visits::start(site.place.front());
    std::thread::sleep(Duration::from_millis(300));
    visits.refuse(&mut site, 1);
    let died = Instant::now();

    // Its session ends with RST; the other two go on.
    for (stream, name) in &held {
        if name == "s1" {
            assert_eq!(end_within(stream, PATIENCE), End::Reset(0), "{name}");
        }
    }
    for (stream, name) in &held {
        if name != "s1" {
            send(stream, 1, 3000, 3000).unwrap();
            assert_eq!(receive(stream, 1, 3000), Ok(()), "{name}");
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    // Not one connection was lost, not even before anybody knew.
    for (at, name) in visits.served() {
        assert!(at < died || name != "s1", "{name} served after its end");
    }

    site.up(1);
    wait::for_it("s1 is back", PATIENCE, || site.next() == "s1");
}

#[test]
fn sessions_of_a_dead_server_finish_if_they_are_to() {
    let mut site = Site::new(2);
    let _healthd = site.place.start_healthd("");
    let back = format!("{CHECK}\nbalance = \"round-robin\"\non-down = \"finish\"");
    let _lb = site.place.start(&site.config(&back));
    site.settle();
    let held: Vec<TcpStream> = (0..2).map(|_| connect(site.place.front())).collect();
    for stream in &held {
        line(stream);
    }
    site.refuse(0);
    site.wait_told(0, "down");
    for stream in &held {
        send(stream, 1, 3000, 3000).unwrap();
        assert_eq!(receive(stream, 1, 3000), Ok(()));
    }
}

/// In its grace period a router accepts no more and serves the sessions that it has.
#[test]
fn sessions_of_a_router_that_stops_gracefully_finish() {
    let hold = |site: &Site| {
        let held: Vec<TcpStream> = (0..2).map(|_| connect(site.place.front())).collect();
        let names: BTreeSet<String> = held.iter().map(line).collect();
        assert_eq!(names.len(), 2, "one on each");
        held
    };
    let check = |held: &[TcpStream], name: &str| {
        for stream in held {
            send(stream, 1, 3000, 3000).unwrap();
            assert_eq!(receive(stream, 1, 3000), Ok(()), "{name}");
        }
    };
    let mut site = Site::new(2);
    let text = haproxy_pair(
        &site.place,
        "",
        " balance roundrobin\n option redispatch\n",
        "check inter 200ms fall 2",
        &site.addresses,
    );
    let haproxy = site.place.start_haproxy(&text);
    let held = hold(&site);
    site.refuse(0);
    wait::for_it("HAProxy has found it down", PATIENCE, || {
        haproxy.log().contains("Server back/s0 is DOWN")
    });
    check(&held, "HAProxy");
    drop(haproxy);

    let mut site = Site::new(2);
    let _healthd = site.place.start_healthd("");
    let back = format!("{CHECK}\nbalance = \"round-robin\"");
    let config = pair(&site.place, "role = \"ingress\"", &back, &site.addresses);
    let _lb = site.place.start(&config);
    site.settle();
    let held = hold(&site);
    site.refuse(0);
    site.wait_told(0, "down");
    check(&held, "lb-proxy");
}

#[test]
fn a_refused_connection_is_reported_and_probed_at_once() {
    let mut site = Site::new(2);
    // No probe would detect it for a minute, nor confirm what the first one found.
    let schedule = "[schedule]\ninterval = \"60s\"\nfast-interval = \"60s\"\n";
    let _healthd = site.place.start_healthd(schedule);
    let back = "check = { kind = \"tcp\", fall = 3 }\nbalance = \"round-robin\"";
    let _lb = site.place.start(&site.config(back));
    site.settle();
    site.refuse(0);
    for _ in 0..4 {
        assert_eq!(site.next(), "s1");
    }
    let gone = format!("{}", site.addresses[0]);
    let admin = at(site.place.ip, 9401);
    wait::for_it("healthd says that it is down", PATIENCE, || {
        let (_, text) = http_get(admin, "/status").unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        is_down(&value, &gone)
    });
}

/// Whether something in a tree names `address` and says `down` beside it.
fn is_down(value: &serde_json::Value, address: &str) -> bool {
    match value {
        serde_json::Value::Object(map) => {
            let texts: Vec<&str> = map.values().filter_map(|value| value.as_str()).collect();
            let here = texts.iter().any(|text| text.contains(address))
                && texts.iter().any(|text| text.eq_ignore_ascii_case("down"));
            here || map.values().any(|value| is_down(value, address))
        }
        serde_json::Value::Array(list) => list.iter().any(|value| is_down(value, address)),
        _ => false,
    }
}

#[test]
fn healthd_may_die_and_come_back_under_load() {
    let mut site = Site::new(3);
    let healthd = site.place.start_healthd("");
    let back = format!("{CHECK}\nbalance = \"round-robin\"");
    let _lb = site.place.start(&site.config(&back));
    site.settle();
    site.refuse(2);
    site.wait_told(2, "down");

    let visits = Visits::start(site.place.front());
    let mut stays = connect(site.place.front());
    line(&stays);
    healthd.kill();
    std::thread::sleep(Duration::from_secs(1));
    // A server that dies now is detected by a failed connection.
    visits.refuse(&mut site, 1);
    std::thread::sleep(Duration::from_secs(1));
    let _healthd = site.place.start_healthd("");
    site.wait_told(1, "down");
    stays.write_all(b"x").unwrap();
    let seen = visits.served();
    assert!(
        seen.iter().all(|(_, name)| name != "s2"),
        "a dead server served"
    );
    site.up(1);
    site.up(2);
    let mut missing = vec!["s0", "s1", "s2"];
    wait::for_it("all are back", PATIENCE, || {
        let name = site.next();
        missing.retain(|other| *other != name);
        missing.is_empty()
    });
}

#[test]
fn a_proxy_that_knows_nothing_serves() {
    // No healthd: every server may work.
    let mut site = Site::new(2);
    site.refuse(0);
    let _lb = site.place.start(&site.config(CHECK));
    for _ in 0..10 {
        assert_eq!(site.next(), "s1");
    }
}

#[test]
fn with_nobody_up_clients_are_refused_unless_the_backend_fails_open() {
    let mut site = Site::new(2);
    let _healthd = site.place.start_healthd("");
    let lb = site.place.start(&site.config(CHECK));
    site.settle();
    site.refuse(0);
    site.refuse(1);
    site.wait_told(0, "down");
    site.wait_told(1, "down");
    let start = Instant::now();
    if let Ok(stream) = try_connect(site.place.front()) {
        assert_ne!(end_within(&stream, PATIENCE), End::Open(0));
    }
    let took = start.elapsed();
    assert!(took < AT_ONCE, "{took:?}");
    lb.stop();

    // A server listens again, and has not been probed yet: open means that it is tried.
    let check =
        "check = { kind = \"tcp\", interval = \"5s\", fast-interval = \"5s\" }\nfail-open = true";
    let _lb = site.place.start(&site.config(check));
    site.settle();
    site.up(0);
    site.up(1);
    assert!(site.next().starts_with('s'));
}
