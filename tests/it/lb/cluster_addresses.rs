//! Services of type `LoadBalancer` on three nodes: clusterd gives the address, lb-proxy holds and serves it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::binaries::binary;
use tests::daemon::Daemon;
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::{Server, try_connect, try_line};
use tests::wait;

use crate::double::Double;

/// How long anything may take: the machine may be building.
const PATIENCE: Duration = Duration::from_secs(60);

/// The port of the pods, which run on the nodes' own addresses here.
const POD: u16 = 8080;

/// A node with a pod, clusterd and lb-proxy.
struct Node {
    machine: Machine,
    files: Scratch,
    name: String,
    address: IpAddr,
    clusterd: Option<Daemon>,
    proxy: Option<Daemon>,
    _pod: Server,
}

impl Node {
    fn new(network: &mut Network, double: &Double, number: u8) -> Self {
        let address = IpAddr::from([192, 168, 7, 12 + number]);
        let name = format!("n{number}");
        let machine = network.machine(&name, &format!("{address}/24"));
        let at = SocketAddr::new(address, POD);
        let pod = machine.inside(|| Server::named(at, &name));
        let api = machine.inside(|| TcpListener::bind("127.0.0.1:0").unwrap());
        let port = api.local_addr().unwrap().port();
        relay(
            api,
            double.url().trim_start_matches("http://").parse().unwrap(),
        );
        let files = Scratch::new(&format!("cluster-addresses-{name}"));
        let directory = files.path().display();
        files.write(
            "clusterd.toml",
            &format!(
                "version = \"v1\"\nsocket = \"{directory}/clusterd.sock\"\nstate = \"{directory}/clusterd\"\n\
                 admin.listen = \"none\"\naddresses = {{ identity = \"{name}\", mode = \"proxy\" }}\n\
                 [api]\naddresses = [\"http://127.0.0.1:{port}\"]\nwatch = \"10s\"\n\
                 [[pool]]\nname = \"lan\"\naddresses = [\"192.168.7.200-192.168.7.201\"]\n"
            ),
        );
        let peers: Vec<String> = (1..=3)
            .filter(|other| *other != number)
            .map(|other| format!("\"192.168.7.{}\"", 12 + other))
            .collect();
        files.write(
            "lb-proxy.toml",
            &format!(
                "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
                 state = \"{directory}/lb-proxy\"\n\
                 [cluster]\nsocket = \"{directory}/clusterd.sock\"\nnode = \"{name}\"\n\
                 [[pool]]\nname = \"lan\"\naddresses = [\"192.168.7.200-192.168.7.201\"]\ninterface = \"eth0\"\n\
                 priority = {}\ninterval = \"200ms\"\npeers = [{}]\ncluster = \"endpoints\"\n",
                150 - 10 * number,
                peers.join(", ")
            ),
        );
        let mut node = Self {
            machine,
            files,
            name,
            address,
            clusterd: None,
            proxy: None,
            _pod: pod,
        };
        node.start();
        node
    }

    fn start(&mut self) {
        self.clusterd = Some(self.daemon("clusterd"));
        self.proxy = Some(self.daemon("lb-proxy"));
    }

    fn daemon(&self, name: &str) -> Daemon {
        let mut command: Command = self.machine.command(binary(name));
        command.arg("serve").arg("--config");
        command.arg(self.files.join(&format!("{name}.toml")));
        command
            .arg("--admin-socket")
            .arg(self.files.join(&format!("{name}.admin")));
        Daemon::start(name, command)
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.machine.has_address(address)
    }

    /// Everything on it ends at once, and its link with it.
    fn die(&mut self) {
        self.machine.unplug();
        self.clusterd.take().unwrap().kill();
        self.proxy.take().unwrap().kill();
    }
}

/// Passes connections on to the API server, which is in the test's own namespace.
fn relay(listener: TcpListener, api: SocketAddr) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(api) else {
                continue;
            };
            for (mut from, mut to) in [
                (stream.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, stream),
            ] {
                std::thread::spawn(move || {
                    drop(io::copy(&mut from, &mut to));
                    drop(to.shutdown(std::net::Shutdown::Both));
                });
            }
        }
    });
}

struct Site {
    double: Double,
    nodes: Vec<Node>,
    client: Machine,
    _network: Network,
}

impl Site {
    fn new() -> Self {
        let double = Double::start();
        double.put("namespaces", json!({"metadata": {"name": "shop"}}));
        let mut network = Network::new();
        let nodes: Vec<Node> = (1..=3)
            .map(|number| Node::new(&mut network, &double, number))
            .collect();
        for node in &nodes {
            double.put(
                "nodes",
                json!({
                    "metadata": {"name": node.name},
                    "status": {"addresses": [{"type": "InternalIP", "address": node.address}]},
                }),
            );
        }
        let client = network.machine("client", "192.168.7.20/24");
        Self {
            double,
            nodes,
            client,
            _network: network,
        }
    }

    fn put_service(&self, name: &str, spec: &Value) {
        let mut service = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "type": "LoadBalancer", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
                "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": POD, "nodePort": 30080}],
            },
        });
        for (key, value) in spec.as_object().unwrap() {
            service["spec"][key] = value.clone();
        }
        self.double.put("services", service);
    }

    /// The pods of these nodes are the endpoints.
    fn put_endpoints(&self, name: &str, numbers: &[usize]) {
        let endpoints = numbers.iter().map(|number| {
            let node = &self.nodes[*number];
            json!({
                "addresses": [node.address], "nodeName": node.name,
                "conditions": {"ready": true},
            })
        });
        self.double.put(
            "endpointslices",
            json!({
                "metadata": {
                    "name": format!("{name}-x"), "namespace": "shop",
                    "labels": {"kubernetes.io/service-name": name},
                },
                "addressType": "IPv4",
                "endpoints": endpoints.collect::<Vec<_>>(),
                "ports": [{"name": "http", "protocol": "TCP", "port": POD}],
            }),
        );
    }

    fn status(&self, name: &str) -> Option<IpAddr> {
        let service = self.double.get("services", &format!("shop/{name}"))?;
        let ip = service.pointer("/status/loadBalancer/ingress/0/ip")?;
        ip.as_str()?.parse().ok()
    }

    fn holder(&self, address: IpAddr) -> Option<&Node> {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.proxy.is_some() && node.holds(address))
    }

    /// The pod that a client gets.
    fn visit(&self, address: IpAddr) -> Option<String> {
        let place = SocketAddr::new(address, 80);
        self.client.inside(|| {
            let stream = try_connect(place).ok()?;
            try_line(&stream).ok()
        })
    }

    /// Waits for something, and prints how long it took.
    fn timed<T>(&self, what: &str, begun: Instant, question: impl FnMut() -> Option<T>) -> T {
        let found = wait::until(what, PATIENCE, question);
        println!("measured: {what:52} {:6} ms", begun.elapsed().as_millis());
        found
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_service_gets_an_address_that_moves_with_its_node_and_goes_with_it() {
    let mut site = Site::new();
    site.put_endpoints("web", &[0, 1, 2]);
    let begun = Instant::now();
    site.put_service("web", &json!({}));
    let address = site.timed("made: the status has an address", begun, || {
        site.status("web")
    });
    site.timed("made: a node holds the address", begun, || {
        site.holder(address).map(|_| ())
    });
    site.timed("made: a client is served", begun, || site.visit(address));
    // The first node has the highest priority; another may have been faster.
    let holder = "n1".to_owned();
    wait::for_it("the first node alone holds the address", PATIENCE, || {
        let mut nodes = site.nodes.iter();
        nodes.all(|node| node.holds(address) == (node.name == holder))
    });

    let begun = Instant::now();
    let place = site.nodes.iter().position(|node| node.name == holder);
    site.nodes[place.unwrap()].die();
    // The pod of the dead node is gone with it.
    site.put_endpoints("web", &[1, 2]);
    let next = site.timed("node killed: another node holds the address", begun, || {
        site.holder(address).map(|node| node.name.clone())
    });
    let pod = site.timed("node killed: a client is served", begun, || {
        site.visit(address)
    });
    assert_ne!(next, holder);
    assert_ne!(pod, holder);
    assert_eq!(site.status("web"), Some(address), "the address stays");
    // Another clusterd writes, if the dead one did: Services get addresses again.
    site.put_endpoints("mail", &[1, 2]);
    site.put_service("mail", &json!({}));
    let other = site.timed(
        "node killed: another Service gets an address",
        begun,
        || site.status("mail"),
    );
    assert_ne!(other, address);

    let begun = Instant::now();
    site.double.delete("services", "shop/web");
    site.timed("deleted: no node holds the address", begun, || {
        site.holder(address).is_none().then_some(())
    });
    site.timed("deleted: the other Service is served on", begun, || {
        site.visit(other)
    });
    assert_eq!(site.visit(address), None);
    // The address that was given back is there for the next.
    site.put_endpoints("late", &[1, 2]);
    let begun = Instant::now();
    site.put_service("late", &json!({}));
    let late = site.timed("made: the next Service has the address", begun, || {
        site.status("late")
    });
    assert_eq!(late, address);
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn local_traffic_stays_on_the_node_of_an_endpoint_and_the_address_goes_there() {
    let site = Site::new();
    // The second node alone has an endpoint, and the first one the priority.
    site.put_endpoints("web", &[1]);
    site.put_service(
        "web",
        &json!({"externalTrafficPolicy": "Local", "loadBalancerSourceRanges": ["192.168.7.20/32"]}),
    );
    let address = wait::until("an address", PATIENCE, || site.status("web"));
    let is_held_by = |name: &str| {
        wait::for_it(&format!("{name} holds the address"), PATIENCE, || {
            site.holder(address).is_some_and(|node| node.name == name)
        });
    };
    is_held_by("n2");
    assert_eq!(site.visit(address).as_deref(), Some("n2"));
    // A client outside the ranges is refused.
    let place = SocketAddr::new(address, 80);
    let refused = site.nodes[2].machine.inside(|| {
        let stream = try_connect(place);
        stream.and_then(|stream| try_line(&stream)).is_err()
    });
    assert!(refused);
    // The endpoint moves: the address follows it.
    let begun = Instant::now();
    site.put_endpoints("web", &[2]);
    site.timed("endpoint moved: its node holds the address", begun, || {
        let holder = site.holder(address)?;
        (holder.name == "n3").then_some(())
    });
    site.timed("endpoint moved: a client is served", begun, || {
        (site.visit(address).as_deref() == Some("n3")).then_some(())
    });
}

/// How long the API is away: some seconds, or what `OUTPOST_API_AWAY` says (`OUTPOST_API_AWAY=600` are ten minutes).
fn absence() -> Duration {
    let seconds = std::env::var("OUTPOST_API_AWAY").ok();
    let seconds = seconds.map(|text| text.parse().expect("OUTPOST_API_AWAY has seconds"));
    Duration::from_secs(seconds.unwrap_or(5))
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn nothing_changes_for_clients_while_the_api_is_away_and_after_a_power_cut() {
    let mut site = Site::new();
    site.put_endpoints("web", &[0, 1, 2]);
    site.put_service("web", &json!({}));
    let address = wait::until("an address", PATIENCE, || site.status("web"));
    wait::for_it("the first node alone holds the address", PATIENCE, || {
        let mut nodes = site.nodes.iter();
        nodes.all(|node| node.holds(address) == (node.name == "n1"))
    });
    wait::until("a client is served", PATIENCE, || site.visit(address));
    site.double.set(|behaviour| behaviour.is_down = true);
    site.is_served_for(address, absence(), "API away");
    // Everything ends at once on every node, and nothing is left but the disks; the API is still away.
    for node in &mut site.nodes {
        node.lose_power(address);
    }
    let begun = Instant::now();
    site.nodes.iter_mut().for_each(Node::start);
    site.timed("power cut: a node holds the address", begun, || {
        site.holder(address).map(|_| ())
    });
    site.timed("power cut: a client is served", begun, || {
        site.visit(address)
    });
    wait::for_it("the first node alone holds the address", PATIENCE, || {
        let mut nodes = site.nodes.iter();
        nodes.all(|node| node.holds(address) == (node.name == "n1"))
    });
    site.is_served_for(address, Duration::from_secs(5), "after the power cut");
    // The API comes back: its changes count again.
    site.double.set(|behaviour| behaviour.is_down = false);
    let begun = Instant::now();
    site.put_endpoints("web", &[1]);
    site.timed("API back: a change is followed", begun, || {
        (site.visit(address).as_deref() == Some("n2")).then_some(())
    });
    assert_eq!(site.status("web"), Some(address), "the address stays");
}

impl Site {
    /// A client is served again and again, and the first node holds the address. A machine that pauses is passed over for as long as
    /// it takes: the node steps back then, and is to come back.
    fn is_served_for(&self, address: IpAddr, time: Duration, when: &str) {
        let begun = Instant::now();
        let (mut n_visits, mut longest) = (0, Duration::ZERO);
        while begun.elapsed() < time {
            let asked = Instant::now();
            wait::for_it(when, PATIENCE, || {
                let holder = self.holder(address).map(|node| node.name.as_str());
                holder == Some("n1") && self.visit(address).is_some()
            });
            longest = longest.max(asked.elapsed());
            n_visits += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("measured: {when}: {n_visits} visits in {time:?}, the longest took {longest:?}");
    }
}

impl Node {
    /// Its processes end at once, and the kernel forgets the address.
    fn lose_power(&mut self, address: IpAddr) {
        self.clusterd.take().unwrap().kill();
        self.proxy.take().unwrap().kill();
        let mut command = self.machine.command("ip");
        command.args([
            "address",
            "flush",
            "dev",
            "eth0",
            "to",
            &address.to_string(),
        ]);
        let (_, _, problems) = tests::daemon::run(command);
        assert_eq!(problems, "", "{}", self.name);
    }
}
