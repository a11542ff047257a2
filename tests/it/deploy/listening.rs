//! What a site opens by default, as the documents say it.

use std::collections::BTreeSet;
use std::fs;

use tests::binaries::checkout;
use tests::daemon::run;
use tests::installed::{Installed, SITE};

/// Ports that the kernel gives to clients: those of queries on their way.
const CLIENTS: u16 = 32_768;

/// An address, a port, a protocol.
type Listener = (String, u16, String);

/// The table of the documents.
fn documented() -> BTreeSet<Listener> {
    let text = fs::read_to_string(checkout().join("docs/deploy/listeners.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let address = cells.next()?;
        let (port, protocol) = cells.next()?.split_once(' ')?;
        Some((address.to_owned(), port.parse().ok()?, protocol.to_owned()))
    });
    rows.collect()
}

/// The listeners of a node, as the kernel has them.
fn listening(node: &Installed) -> BTreeSet<Listener> {
    let mut all = BTreeSet::new();
    for (option, protocol) in [("-t", "tcp"), ("-u", "udp"), ("-w", "raw")] {
        let mut command = node.machine.command("ss");
        command.args(["-H", "-l", "-n", option]);
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{stderr}");
        for line in stdout.lines() {
            let local = line.split_whitespace().nth(3).unwrap();
            let (address, port) = local.rsplit_once(':').unwrap();
            let address = address.split('%').next().unwrap().trim_matches(['[', ']']);
            let address = match address {
                "0.0.0.0" | "::" | "*" => "every",
                "192.168.7.13" => "its own",
                other => other,
            };
            // Raw sockets have a protocol in the place of a port; some protocols have names.
            let port = match port {
                "vrrp" => 112,
                port => port.parse().unwrap_or_else(|_| panic!("{line}")),
            };
            if port < CLIENTS {
                all.insert((address.to_owned(), port, protocol.to_owned()));
            }
        }
    }
    all
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_node_listens_where_the_documents_say_and_nowhere_else() {
    let node = Installed::start(SITE);
    assert_eq!(listening(&node), documented());
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_registry_that_nobody_opened_takes_nothing_from_the_network() {
    let status = |node: &Installed, method: &str, path: &str| -> String {
        let mut command = node.machine.command("curl");
        command.args([
            "-s",
            "-k",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            method,
        ]);
        command.arg(format!("https://192.168.7.13:5443{path}"));
        let (_, stdout, stderr) = run(command);
        assert!(stdout != "000", "{stderr}");
        stdout
    };
    let manifest = format!("/v2/ocp4/release/manifests/sha256:{}", "0".repeat(64));
    let node = Installed::start(SITE);
    assert_eq!(status(&node, "GET", "/v2/"), "200");
    assert_eq!(status(&node, "GET", &manifest), "404", "pulls are for all");
    assert_eq!(status(&node, "DELETE", &manifest), "403");
    assert_eq!(
        status(&node, "POST", "/v2/ocp4/release/blobs/uploads/"),
        "403"
    );
    drop(node);
    let open = SITE.replace("[registry]\n", "[registry]\nopen = true\n");
    let node = Installed::start(&open);
    // The disk of the tests may be too full for a push: that is said once the client may push at all.
    let begun = status(&node, "POST", "/v2/ocp4/release/blobs/uploads/");
    assert!(["202", "507"].contains(&begun.as_str()), "{begun}");
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_published_page_has_one_more_port_and_asks_for_a_login() {
    let site = SITE.replace(
        "[registry]\n",
        "[page]\nusers = \"registry.users\"\n\n[registry]\n",
    );
    let node = Installed::start(&site);
    let mut expected = documented();
    expected.insert(("every".to_owned(), 5446, "tcp".to_owned()));
    assert_eq!(listening(&node), expected);
    // The certificate is for the page's name, by the authority of the site.
    let authority = node.root.path().join("etc/outpost/pki/ca.crt");
    let mut command = node.machine.command("curl");
    command.args(["-s", "-i", "--max-time", "30", "--cacert"]);
    command.arg(authority);
    command.args(["--resolve", "status.edge.example.org:5446:192.168.7.13"]);
    command.arg("https://status.edge.example.org:5446/");
    let (_, stdout, stderr) = run(command);
    assert!(stdout.starts_with("HTTP/1.1 401 "), "{stdout}{stderr}");
    assert!(stdout.contains("www-authenticate: Basic"), "{stdout}");
}
