//! The clients that may query dns-authd at the port that it opens to the other nodes of a site.

use std::fs;
use std::net::SocketAddr;

use tests::binaries::{binary, checkout};
use tests::daemon::Daemon;
use tests::dns::{A, NOERROR, Question, REFUSED, ask, ask_tcp};
use tests::netns::Network;
use tests::scratch::Scratch;

const ZONE: &str = "@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.0.2.53\n";

/// The line of a node's rendered configuration that says who may ask.
fn rendered() -> String {
    let file =
        "tests/data/deploy/seed/rendered/configs/master-0/etc/outpost/dns-authd/dns-authd.toml";
    let text = fs::read_to_string(checkout().join(file)).unwrap();
    let line = text.lines().find(|line| line.starts_with("allow-from = "));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn the_nodes_of_the_site_are_answered_and_others_refused() {
    let mut network = Network::new();
    let node = network.machine_with("node", &["192.168.7.13/24", "198.51.100.13/24"]);
    let other = network.machine("other", "192.168.7.14/24");
    let stranger = network.machine("stranger", "198.51.100.20/24");
    let files = Scratch::new("access");
    files.write("example.com.zone", ZONE);
    let config = files.write(
        "dns-authd.toml",
        &format!(
            "version = \"v1\"\nlisten = [\"0.0.0.0:5301\"]\n{}\nhealth.endpoint = \"none\"\n\
             admin.listen = \"none\"\n[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n",
            rendered()
        ),
    );
    let mut serve = node.command(binary("dns-authd"));
    serve.args(["serve", "--config"]).arg(config);
    let _authority = Daemon::start("dns-authd", serve);

    let question = Question::new("ns.example.com", A);
    for (machine, server, expected) in [
        (&node, "127.0.0.1:5301", NOERROR),
        (&node, "192.168.7.13:5301", NOERROR),
        (&other, "192.168.7.13:5301", NOERROR),
        (&stranger, "198.51.100.13:5301", REFUSED),
    ] {
        let server: SocketAddr = server.parse().unwrap();
        let answer = machine.inside(|| ask(server, &question)).unwrap();
        let n_answers = usize::from(expected == NOERROR);
        assert_eq!(
            (answer.rcode, answer.answers.len()),
            (u16::from(expected), n_answers),
            "{server}"
        );
        let streamed = machine.inside(|| ask_tcp(server, &question));
        assert_eq!(
            streamed.is_ok(),
            expected == NOERROR,
            "{server}: {streamed:?}"
        );
    }
}
