//! Below a zone that is forwarded to its own servers, dns-recursor goes where their delegations lead, as
//! `pdns_recursor` does with the same file.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::Daemon;
use tests::dns::{NXDOMAIN, SERVFAIL, ask_a};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::wait;

const PARENT: &str = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.168.7.13\n\
     www A 192.0.2.1\nsub NS ns.sub\nns.sub A 192.168.7.14\nlost NS ns.lost\n";
const CHILD: &str = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.168.7.14\n\
     www A 192.0.2.2\nup CNAME www.example.\nfar NS ns.far\nns.far A 192.168.7.15\n";
const GRANDCHILD: &str =
    "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.168.7.15\nwww A 192.0.2.3\n";

/// Serves one zone on every address of a machine.
fn serve(machine: &Machine, port: u16, zone: (&str, &str), files: &Scratch) -> Daemon {
    let (name, text) = zone;
    files.write(&format!("{name}.zone"), text);
    let config = files.write(
        &format!("{name}.toml"),
        &format!(
            "version = \"v1\"\nlisten = [\"0.0.0.0:{port}\"]\nadmin.listen = \"none\"\n\
             health.endpoint = \"none\"\n[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\n"
        ),
    );
    let mut command = machine.command(binary("dns-authd"));
    command.args(["serve", "--config"]).arg(config);
    Daemon::start("dns-authd", command)
}

/// The recursor.conf of both, but for the port.
fn configured(files: &Scratch, port: u16) -> String {
    let (name, directory) = (format!("r{port}/recursor.conf"), files.path().display());
    let text = format!(
        "local-address=127.0.0.1\nlocal-port={port}\nforward-zones=example=192.168.7.13:5301\n\
         dont-query=\ndnssec=off\nsecurity-poll-suffix=\nsocket-dir={directory}\ndaemon=no\nquiet=yes\n"
    );
    std::fs::create_dir_all(files.join(&format!("r{port}"))).unwrap();
    files.write(&name, &text).display().to_string()
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn delegations_below_a_forwarded_zone_are_followed() {
    let mut network = Network::new();
    let [parent, child, grandchild, node] = [13, 14, 15, 16]
        .map(|last| network.machine(&format!("m{last}"), &format!("192.168.7.{last}/24")));
    let files = Scratch::new("delegation");
    let _servers = [
        serve(&parent, 5301, ("example", PARENT), &files),
        serve(&child, 53, ("sub.example", CHILD), &files),
        serve(&grandchild, 53, ("far.sub.example", GRANDCHILD), &files),
    ];
    let mut ours = node.command(binary("dns-recursor"));
    ours.args(["serve", "--recursor-conf", &configured(&files, 5300)]);
    ours.args(["--healthd=none", "--admin=127.0.0.1:9403"]);
    configured(&files, 5353);
    let mut peer = node.command("pdns_recursor");
    peer.arg(format!("--config-dir={}", files.join("r5353").display()));
    let resolvers = [
        (5300, Daemon::start("dns-recursor", ours)),
        (5353, Daemon::spawn("pdns_recursor", peer)),
    ];
    for (port, _daemon) in &resolvers {
        let server = SocketAddr::from(([127, 0, 0, 1], *port));
        let ask = |name: &str| node.inside(|| ask_a(server, name));
        wait::for_it("the resolver", Duration::from_secs(20), || {
            ask("www.example").is_ok()
        });
        for (name, address) in [
            ("www.example", "192.0.2.1"),
            ("www.sub.example", "192.0.2.2"),
            ("up.sub.example", "192.0.2.1"),
            ("www.far.sub.example", "192.0.2.3"),
            ("ns.far.sub.example", "192.168.7.15"),
        ] {
            let answer = ask(name).unwrap();
            let expected = BTreeSet::from([address.parse::<IpAddr>().unwrap()]);
            assert_eq!(answer.addresses(), expected, "{name} at {port}: {answer:?}");
        }
        for (name, rcode) in [
            ("nothing.far.sub.example", NXDOMAIN),
            ("www.lost.example", SERVFAIL),
        ] {
            let answer = ask(name).unwrap();
            assert_eq!(answer.rcode, u16::from(rcode), "{name} at {port}");
        }
    }
}
