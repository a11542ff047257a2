//! Virtual IPs that a reload brings, changes and takes away, while others are held and used.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tests::binaries::binary;
use tests::daemon::Daemon;
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::{Server, try_connect, try_line};
use tests::wait;

const NODE: &str = "192.168.7.13";
const API: &str = "192.168.7.100";
const API6: &str = "fd00:7::100";
const INGRESS: &str = "192.168.7.101";
const PORT: u16 = 6443;

/// How long anything may take: the machine may be building.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two virtual IPs, the first with these addresses, and both with `keys`.
fn configure(files: &Scratch, addresses: &[&str], keys: &str) {
    let list = |addresses: &[&str]| -> String {
        let quoted: Vec<String> = addresses.iter().map(|one| format!("\"{one}\"")).collect();
        quoted.join(", ")
    };
    let mut text = format!(
        "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
         [[frontend]]\nname = \"api\"\nlisten = [\"0.0.0.0:7443\"]\nbackend = \"api\"\n\
         [[backend]]\nname = \"api\"\n\
         [[backend.server]]\nname = \"m0\"\naddress = \"{NODE}:{PORT}\"\n",
    );
    for (name, addresses, router_id) in [("api", addresses, 51), ("ingress", &[INGRESS], 52)] {
        text.push_str(&format!(
            "[[vip]]\nname = \"{name}\"\naddresses = [{}]\ninterface = \"eth0\"\n\
             router-id = {router_id}\n{keys}",
            list(addresses),
        ));
    }
    files.write("lb-proxy.toml", &text);
}

/// A session through the first virtual IP.
fn connect(client: &Machine) -> TcpStream {
    let address: SocketAddr = format!("{API}:7443").parse().unwrap();
    let stream = client.inside(|| try_connect(address).unwrap());
    assert_eq!(try_line(&stream).unwrap(), "api");
    stream
}

fn reload(lb: &mut Daemon) {
    lb.forget_told();
    lb.hang_up();
    lb.wait_told("READY=1");
}

/// It is the one that it was.
fn goes_on(mut stream: &TcpStream) {
    stream.write_all(b"?").unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"?");
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn another_family_and_a_group_are_edited_in_and_out_and_no_address_is_lost() {
    let mut network = Network::new();
    let node = network.machine_with("m0", &[&format!("{NODE}/24"), "fd00:7::13/64"]);
    let client = network.machine("client", "192.168.7.20/24");
    let at: SocketAddr = format!("{NODE}:{PORT}").parse().unwrap();
    let _server = node.inside(|| Server::named(at, "api"));
    let files = Scratch::new("vip-edit");
    configure(&files, &[API], "");
    let mut command = node.command(binary("lb-proxy"));
    command.arg("serve").arg("--config");
    command.arg(files.join("lb-proxy.toml"));
    let mut lb = Daemon::start("lb-proxy", command);
    let holds = |address: &str| node.has_address(address.parse().unwrap());
    let wait_for = |address: &str| {
        wait::for_it("the address is held", PATIENCE, || holds(address));
    };
    wait_for(API);
    wait_for(INGRESS);
    let stream = connect(&client);

    let mut edit = |addresses: &[&str], keys: &str| {
        configure(&files, addresses, keys);
        reload(&mut lb);
        assert!(holds(API), "{}", lb.log());
        assert!(holds(INGRESS), "{}", lb.log());
        goes_on(&stream);
        lb.log()
    };
    edit(&[API, API6], "");
    wait_for(API6);
    edit(&[API, API6], "group = \"site\"\n");
    edit(&[API, API6], "");
    edit(&[API], "group = \"site\"\n");
    wait::for_it("the address is gone", PATIENCE, || !holds(API6));
    edit(&[API, API6], "group = \"site\"\n");
    wait_for(API6);
    let log = edit(&[API], "");

    // Only the other family ever let go.
    let lost: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("from=active") && !line.contains("api-ipv6"))
        .collect();
    assert!(lost.is_empty(), "{log}");
    assert!(log.contains("router=api-ipv6 from=active"), "{log}");
    lb.stop();
    assert!(!holds(API) && !holds(INGRESS));
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_first_virtual_ip_that_cannot_be_held_changes_nothing() {
    let mut network = Network::new();
    let node = network.machine("m0", &format!("{NODE}/24"));
    let at = |port: u16| -> SocketAddr { format!("{NODE}:{port}").parse().unwrap() };
    let _servers = node.inside(|| {
        let [old, new] = [(PORT, "old"), (PORT + 1, "new")];
        [old, new].map(|(port, name)| Server::named(at(port), name))
    });
    let files = Scratch::new("vip-first");
    let configure = |port: u16, vip: &str| {
        let text = format!(
            "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
             [[frontend]]\nname = \"api\"\nlisten = [\"0.0.0.0:7443\"]\nbackend = \"api\"\n\
             [[backend]]\nname = \"api\"\n\
             [[backend.server]]\nname = \"m0\"\naddress = \"{}\"\n{vip}",
            at(port),
        );
        files.write("lb-proxy.toml", &text)
    };
    let config = configure(PORT, "");
    let mut command = node.command(binary("lb-proxy"));
    command.arg("serve").arg("--config").arg(config);
    let mut lb = Daemon::start("lb-proxy", command);
    let visit = || try_line(&node.inside(|| try_connect(at(7443)).unwrap())).unwrap();

    // One more descriptor is for the file; rtnetlink takes two.
    let before = limit_descriptors(&lb, 1);
    let vip = format!(
        "[[vip]]\nname = \"v\"\naddresses = [\"{API}\"]\ninterface = \"eth0\"\nrouter-id = 51\n"
    );
    configure(PORT + 1, &vip);
    reload(&mut lb);
    lb.wait_log("cannot open rtnetlink");
    set_limit(&lb, before);
    assert_eq!(visit(), "old", "{}", lb.log());

    reload(&mut lb);
    assert_eq!(visit(), "new", "{}", lb.log());
    wait::for_it("the address is held", PATIENCE, || {
        node.has_address(API.parse().unwrap())
    });
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn who_stays_in_a_group_does_not_wait_for_scripts_of_those_that_go() {
    let mut network = Network::new();
    let one = network.machine("m0", &format!("{NODE}/24"));
    let other = network.machine("m1", "192.168.7.14/24");
    let files = Scratch::new("vip-scripts");
    let others = Scratch::new("vip-scripts-other");
    let script = files.write("notify", "#!/bin/sh\n[ \"$3\" != STOP ] || exec sleep 20\n");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let vip = |number: u8, keys: &str| {
        format!(
            "[[vip]]\nname = \"v{number}\"\naddresses = [\"192.168.7.{number}\"]\ninterface = \"eth0\"\n\
             router-id = {number}\n{keys}"
        )
    };
    let keys = format!(
        "priority = 150\ngroup = \"site\"\nnotify = \"{}\"\n",
        script.display()
    );
    let start = |machine: &Machine, files: &Scratch, vips: &[String]| {
        let mut command = machine.command(binary("lb-proxy"));
        command
            .arg("serve")
            .arg("--config")
            .arg(write_vips(files, vips));
        Daemon::start("lb-proxy", command)
    };
    let mut lb = start(
        &one,
        &files,
        &[101, 102, 103].map(|number| vip(number, &keys)),
    );
    for address in ["192.168.7.101", "192.168.7.102", "192.168.7.103"] {
        wait::for_it("the address is held", PATIENCE, || {
            one.has_address(address.parse().unwrap())
        });
    }
    let backup = start(&other, &others, &[vip(103, "")]);

    write_vips(&files, &[vip(103, &keys)]);
    reload(&mut lb);
    // One after the other they would take longer than the other node waits for a word.
    let left = "Notify script is not done; it is left alone";
    wait::for_it("both scripts are left alone", PATIENCE, || {
        lb.log().matches(left).count() == 2
    });
    assert!(!backup.log().contains("to=active"), "{}", backup.log());
    assert!(one.has_address("192.168.7.103".parse().unwrap()));
}

/// Virtual IPs in front of nothing.
fn write_vips(files: &Scratch, vips: &[String]) -> PathBuf {
    let text = format!(
        "version = \"v1\"\nhealth.endpoint = \"none\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n{}",
        vips.concat(),
    );
    files.write("lb-proxy.toml", &text)
}

/// Leaves it this many descriptors to open; says what its limit was.
fn limit_descriptors(daemon: &Daemon, n_free: usize) -> Rlimit {
    let open = wait::until("it rests", PATIENCE, || {
        let open = is_at_rest(daemon).then(|| descriptors(daemon))?;
        is_at_rest(daemon).then_some(open)
    });
    let limit = Rlimit {
        current: (0..).filter(|number| !open.contains(number)).nth(n_free),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    set_limit(daemon, limit)
}

/// Whether the thread that has said it is ready has put away what it said it with.
fn is_at_rest(daemon: &Daemon) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.id())).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.trim_start().starts_with('S')
}

fn descriptors(daemon: &Daemon) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

fn set_limit(daemon: &Daemon, limit: Rlimit) -> Rlimit {
    let id = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw);
    prlimit(id, Resource::Nofile, limit).unwrap()
}
