//! The limit of responses over UDP: what a victim of forged addresses gets, and what its own clients still get. Both DNS servers.

use std::net::UdpSocket;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::{A, Message, Question};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::wait;

const ZONE: &str = "@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.0.2.53\n";

/// What an attacker asks with the victim's address.
const FLOOD: usize = 200;

/// Starts both servers on a node, each with a limit of one response a second.
fn serve(node: &Machine, files: &Scratch) -> [Daemon; 2] {
    let zone = files.write("example.com.zone", ZONE);
    let limit = "rate-limit.responses-per-second = 1\n";
    let authd = format!(
        "version = \"v1\"\nlisten = [\"192.168.7.13:5301\"]\nadmin.listen = \"127.0.0.1:9402\"\nhealth.endpoint = \"none\"\n{limit}\
         rate-limit.exempt-clients = [\"192.168.7.13/32\"]\n[[zone]]\nname = \"example.com\"\nfile = \"{}\"\n",
        zone.display()
    );
    let recursor = format!(
        "version = \"v1\"\nlisten = [\"192.168.7.13:5300\"]\nadmin.listen = \"127.0.0.1:9403\"\nhealth.endpoint = \"none\"\n\
         allow-from = [\"192.168.7.0/24\"]\n{limit}[[forward]]\nzone = \"example.com\"\nupstreams = [\"192.168.7.13:5301\"]\n",
    );
    [("dns-authd", authd), ("dns-recursor", recursor)].map(|(service, text)| {
        let config = files.write(&format!("{service}.toml"), &text);
        let mut serve = node.command(binary(service));
        serve.args(["serve", "--config"]).arg(config);
        serve.arg("--admin-socket").arg(files.join(service));
        Daemon::start(service, serve)
    })
}

/// Sends the flood from this machine, as the attacker would in its name; the responses, of which some may be lost.
fn flood(server: &str) -> Vec<Message> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(server).unwrap();
    let limit = Some(Duration::from_millis(500));
    socket.set_read_timeout(limit).unwrap();
    let query = Question::new("ns.example.com", A).to_wire(7);
    let mut responses = Vec::new();
    let mut buffer = [0; 2048];
    for _ in 0..FLOOD {
        socket.send(&query).unwrap();
        if let Ok(length) = wait::uninterrupted(|| socket.recv(&mut buffer)) {
            let response = Message::read(&buffer[..length]).unwrap();
            assert!(
                !response.answers.is_empty() || length <= query.len(),
                "no larger than the query"
            );
            responses.push(response);
        }
    }
    responses
}

fn dig(machine: &Machine, port: &str, how: &[&str]) -> String {
    let mut dig = machine.command("dig");
    dig.args(["@192.168.7.13", "-p", port, "ns.example.com", "A"]);
    let (status, out, complaint) = run({
        dig.args(how);
        dig
    });
    assert!(status.success(), "{out}{complaint}");
    out
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_victim_gets_little_and_its_own_clients_get_everything() {
    let mut network = Network::new();
    let node = network.machine("node", "192.168.7.13/24");
    let victim = network.machine("victim", "192.168.7.50/24");
    let neighbour = network.machine("neighbour", "192.168.7.51/24");
    let files = Scratch::new("rate-limit");
    let _daemons = serve(&node, &files);
    for (service, port, admin) in [("dns_authd", "5301", 9402), ("dns_recursor", "5300", 9403)] {
        // A client that has proven its address, before the flood.
        let learned = dig(&victim, port, &["+tcp", "+cookie"]);
        let line = learned.lines().find(|line| line.contains("; COOKIE: "));
        let cookie = line
            .and_then(|line| line.split_whitespace().nth(2))
            .unwrap();

        let responses = victim.inside(|| flood(&format!("192.168.7.13:{port}")));
        let full = responses
            .iter()
            .filter(|one| !one.answers.is_empty())
            .count();
        let cut = responses.iter().filter(|one| one.truncated).count();
        // One a second and a few at first; how long this takes is the machine's affair.
        assert!(
            full >= 1 && cut >= FLOOD / 2,
            "{service}: {full} full, {cut} cut"
        );

        let proven = format!("+cookie={cookie}");
        let answer = dig(&victim, port, &["+notcp", "+ignore", &proven]);
        assert!(answer.contains("192.0.2.53"), "{service}: {answer}");
        let answer = dig(&victim, port, &["+nocookie"]);
        assert!(
            answer.contains("192.0.2.53"),
            "over TCP\n{service}: {answer}"
        );
        let answer = dig(&neighbour, port, &["+notcp", "+ignore", "+nocookie"]);
        assert!(answer.contains("192.0.2.53"), "{service}: {answer}");

        let (_, metrics) = node
            .inside(|| http_get(([127, 0, 0, 1], admin).into(), "/metrics"))
            .unwrap();
        let name = format!("{service}_rate_limited_queries_total{{action=\"truncated\"}}");
        assert!(metric(&metrics, &name) >= Some(cut as f64), "{metrics}");
    }
}
