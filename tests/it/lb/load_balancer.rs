//! Services of type LoadBalancer: an address from a pool, announced by one node and forwarded to servers.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::{Server, try_line};
use tests::wait;

const ADDRESSES: [&str; 2] = ["192.168.7.13", "192.168.7.14"];
const ADMIN: &str = "127.0.0.1:9404";
const PORT: u16 = 8443;

/// How long anything may take: the machine may be building.
const PATIENCE: Duration = Duration::from_secs(20);

/// The configuration of the services from the start.
const SERVICES: &str = "
[[service]]
name = \"demo/web\"
port = [{ port = 443, backend = \"web\" }]
[[service]]
name = \"demo/announced\"
";

/// One more.
const LATER: &str = "
[[service]]
name = \"demo/later\"
port = [{ port = 80, backend = \"web\" }]
";

/// A node: its files and its proxy.
struct Node<'n> {
    machine: &'n Machine,
    number: usize,
    files: Scratch,
    lb: Option<Daemon>,
}

impl<'n> Node<'n> {
    fn new(machine: &'n Machine, number: usize) -> Self {
        let files = Scratch::new("load-balancer");
        let mut node = Self {
            machine,
            number,
            files,
            lb: None,
        };
        node.configure(SERVICES);
        node.start();
        node
    }

    fn configure(&self, services: &str) {
        let mut text = format!(
            "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"{ADMIN}\"\n\
             swap.socket = \"none\"\n\
             [[pool]]\nname = \"lan\"\naddresses = [\"192.168.7.200-192.168.7.220\"]\n\
             interface = \"eth0\"\npriority = {}\n{services}\n\
             [[backend]]\nname = \"web\"\n",
            100 - 10 * self.number,
        );
        for (n, address) in ADDRESSES.iter().enumerate() {
            text.push_str(&format!(
                "[[backend.server]]\nname = \"m{n}\"\naddress = \"{address}:{PORT}\"\n"
            ));
        }
        self.files.write("lb-proxy.toml", &text);
    }

    fn start(&mut self) {
        let mut command = self.command(&["serve", "--config"]);
        command.arg(self.files.join("lb-proxy.toml"));
        self.lb = Some(Daemon::start(&format!("lb-proxy {}", self.number), command));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(binary("lb-proxy"));
        command.args(arguments);
        command
    }

    /// The address of a service, as this node works it out.
    fn address_of(&self, service: &str) -> IpAddr {
        let (status, stdout, stderr) = run(self.command(&["status", "--json", "--admin", ADMIN]));
        assert!(status.success(), "{stdout}{stderr}");
        let value: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let services = value["detail"]["services"].as_array().unwrap();
        let known = services.iter().find(|known| known["name"] == service);
        let address = known.and_then(|known| known["addresses"][0].as_str()?.parse().ok());
        address.unwrap_or_else(|| panic!("no address of {service}: {value}"))
    }
}

fn visit(client: &Machine, address: IpAddr, port: u16) -> std::io::Result<String> {
    client.inside(|| {
        let to = SocketAddr::new(address, port);
        let stream = TcpStream::connect_timeout(&to, Duration::from_millis(500))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        try_line(&stream)
    })
}

/// Waits until this node alone has an address.
fn wait_held(nodes: &[Node<'_>], address: IpAddr, number: usize) {
    let what = format!("node {number} alone has {address}");
    wait::for_it(&what, PATIENCE, || {
        let mut holders = nodes
            .iter()
            .filter(|node| node.machine.has_address(address));
        holders.next().map(|node| node.number) == Some(number) && holders.next().is_none()
    });
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn services_get_an_address_that_is_announced_forwarded_and_stays() {
    let mut network = Network::new();
    let machines: Vec<Machine> = (0..2)
        .map(|n| network.machine(&format!("m{n}"), &format!("{}/24", ADDRESSES[n])))
        .collect();
    let client = network.machine("client", "192.168.7.20/24");
    let _servers: Vec<Server> = (0..2)
        .map(|n| {
            let at: SocketAddr = format!("{}:{PORT}", ADDRESSES[n]).parse().unwrap();
            machines[n].inside(|| Server::named(at, "web"))
        })
        .collect();
    let mut nodes: Vec<Node<'_>> = (0..2).map(|n| Node::new(&machines[n], n)).collect();

    // Without another to ask, both nodes decide the same.
    let names = ["demo/web", "demo/announced"];
    let addresses = names.map(|name| nodes[0].address_of(name));
    assert_eq!(addresses, names.map(|name| nodes[1].address_of(name)));
    let [web, announced] = addresses;
    assert_ne!(web, announced);
    for address in addresses {
        wait_held(&nodes, address, 0);
    }
    let is_served = || {
        wait::for_it("the address is served", PATIENCE, || {
            visit(&client, web, 443).is_ok_and(|name| name == "web")
        });
    };
    is_served();
    assert!(visit(&client, announced, 443).is_err());

    // An added service moves no other.
    for node in &mut nodes {
        node.configure(&format!("{SERVICES}{LATER}"));
        let lb = node.lb.as_mut().unwrap();
        lb.forget_told();
        lb.hang_up();
        lb.wait_told("READY=1");
    }
    let later = nodes[0].address_of("demo/later");
    assert_eq!(later, nodes[1].address_of("demo/later"));
    wait_held(&nodes, later, 0);
    wait::for_it("the new service serves", PATIENCE, || {
        visit(&client, later, 80).is_ok_and(|name| name == "web")
    });
    assert_eq!(names.map(|name| nodes[0].address_of(name)), addresses);
    assert!(machines[0].has_address(web));

    // The node that has them goes, and the other serves; it comes back with the same ones.
    nodes[0].lb.take().unwrap().stop();
    wait_held(&nodes, web, 1);
    is_served();
    nodes[0].start();
    assert_eq!(names.map(|name| nodes[0].address_of(name)), addresses);
    assert_eq!(nodes[0].address_of("demo/later"), later);
}
