//! A bundle on a node that runs: installed, brought up to another one, and off again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::binaries::{SERVICES, binary};
use tests::daemon::run;
use tests::dns::{A, Question, ask};
use tests::load::{Load, Mix};
use tests::netns::{Machine, Network};
use tests::node::lan::{DOMAIN, live_unit, site_file, wait_serving};
use tests::node::{Images, Node, Root, images_or_skip, or_skip};
use tests::scratch::Scratch;

/// One master of the example site that nothing was done to, with a bundle and a client.
pub(super) struct Bare {
    pub(super) node: Node,
    client: Machine,
    files: Scratch,
    _network: Network,
}

impl Bare {
    /// Boots a node of plain Debian, and gives it a bundle of the site.
    pub(super) fn boot(root: &'static Root, images: &Images) -> Self {
        let files = Scratch::new("bundles");
        let site = files.write("site.toml", &site_file(""));
        outpost(&["pki", "make"], &[&site]);
        outpost(&["key", "generate", "--output"], &[&files.join("maker")]);
        let mut network = Network::new();
        let client = network.machine("client", "192.168.7.20/24");
        let machine = network.machine("m0", "192.168.7.13/24");
        let node = Node::new(root, machine, "master-0");
        let mut bare = Self {
            node,
            client,
            files,
            _network: network,
        };
        bare.bring(FIRST, &images.archive("healthd"));
        let maker = bare.files.join("maker.pub");
        bare.node.put(&maker, "/root/maker.pub");
        // As it comes out of the bundle: the installed one has a place of its own.
        bare.node.put(&images.outpost(), "/root/outpost");
        bare.node.start();
        let state = bare.node.wait_booted();
        assert_eq!(state, "running", "{}", bare.node.failures());
        // Every disk of the rig has it, and this one is to be as Debian makes it.
        bare.node.run(&["rmdir", "/var/lib/outpost/images"]);
        bare
    }

    /// Makes a bundle of the site as its file is, with the images that lie beside this archive, and gives
    /// it to the node.
    fn bring(&self, path: &str, archive: &Path) {
        let output = self.files.join("bundle");
        let rest: [&Path; 7] = [
            &self.files.join("site.toml"),
            Path::new("--images"),
            archive.parent().expect("archives lie in a directory"),
            Path::new("--key"),
            &self.files.join("maker.key"),
            Path::new("--output"),
            &output,
        ];
        outpost(&["bundle", "--site"], &rest);
        self.node.put(&output, path);
        // The next one must not be written into what the node has.
        std::fs::remove_file(&output).expect("it was made");
    }

    /// Installs a bundle, and says what the command said.
    pub(super) fn install(&self, bundle: &str) -> String {
        let command = ["/root/outpost", "install", bundle];
        self.node
            .run(&[&command[..], &["--public-key", "/root/maker.pub"]].concat())
    }

    /// Every file name of the node, but for what any running machine writes.
    fn names(&self) -> BTreeSet<String> {
        let names = self.node.run(&[
            "sh",
            "-c",
            "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \
               -o -path /root -o -path /var/log -o -path /var/tmp \\) -prune -o -print | sort; \
             find /var/lib/outpost | sort; find /run -maxdepth 1 -name '*outpost*'; nft list tables",
        ]);
        names.lines().map(str::to_owned).collect()
    }

    /// Every service has one slot that serves: its unit.
    fn live(&self) -> Vec<String> {
        let live = SERVICES.map(|service| {
            let unit = live_unit(&self.node, service);
            unit.unwrap_or_else(|| panic!("{service} does not serve: {}", self.node.failures()))
        });
        live.to_vec()
    }

    /// The address of the resolver.
    fn resolver(&self) -> SocketAddr {
        SocketAddr::new(self.node.address(), 53)
    }
}

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn a_bundle_is_installed_on_a_node_that_runs_and_leaves_nothing() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let bare = Bare::boot(root, images);
    let before = bare.names();
    bare.install(FIRST);
    wait_serving(&bare.node);
    let found = bare.client.inside(|| ask(bare.resolver(), &helper()));
    assert!(found.unwrap().addresses().contains(&HELPER.into()));
    // Another run finds nothing to do, and the command is in its place.
    let again = bare.node.run(&["outpost", "install", FIRST]);
    assert!(again.contains("nothing to do"), "{again}");
    bare.node.run(&["outpost", "uninstall", "--purge"]);
    let after = bare.names();
    let differing: Vec<&String> = after.symmetric_difference(&before).collect();
    assert_eq!(differing, Vec::<&String>::new());
    let units = [
        "systemctl",
        "list-units",
        "--all",
        "--no-legend",
        "outpost*",
    ];
    assert_eq!(bare.node.run(&units), "");
    assert_eq!(bare.node.wait_booted(), "running");
}

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn a_second_bundle_swaps_every_service_under_its_clients() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let bare = Bare::boot(root, images);
    // It differs in every image.
    bare.bring(ANOTHER, &images.new_build("healthd"));
    bare.install(FIRST);
    wait_serving(&bare.node);
    let first = bare.live();
    let judge = |_: &Question, message: &tests::dns::Message| {
        let is_right = message.addresses().contains(&HELPER.into());
        is_right
            .then_some(())
            .ok_or_else(|| "not the address".to_owned())
    };
    let mix = Mix {
        questions: vec![helper()],
        judge: Box::new(judge),
    };
    let load = bare
        .client
        .inside(|| Load::start_patient(bare.resolver(), QUERIES, mix, PATIENCE));
    let said = bare.install(ANOTHER);
    let second = bare.live();
    for (before, after) in first.iter().zip(&second) {
        assert_ne!(before, after, "{said}");
    }
    // The record of each is what a power cut would start.
    for service in SERVICES {
        let record = format!("/var/lib/outpost/slots/{service}.b");
        bare.node.run(&["test", "-e", &record]);
    }
    bare.node
        .run(&["outpost", "rollback", "dns-recursor", "--canary", "1s"]);
    let report = load.stop();
    assert_eq!(bare.live()[2], first[2], "the recursor is what it was");
    assert!(report.wrong.is_empty(), "{:?}", report.wrong);
    assert_eq!(report.lost.len(), 0, "of {} queries", report.sent);
    eprintln!(
        "bundle to bundle: six services and one way back, {} queries, none lost, the slowest {:?}",
        report.sent, report.slowest
    );
}

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn what_another_bundle_adds_moves_and_takes_off_is_so_at_once() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let bare = Bare::boot(root, images);
    bare.install(FIRST);
    wait_serving(&bare.node);
    let listening = |port: u16| {
        let only = format!("sport = :{port}");
        !bare.node.run(&["ss", "-Htln", &only]).trim().is_empty()
    };
    assert_eq!([5443, 5543, 9843].map(listening), [true, false, false]);

    let mut site = site_file(ANOTHER_FRONTEND);
    for (first, then) in [
        ("#port = 5443", "port = 5543"),
        ("#services = [", "services = ["),
        (
            ", \"registry-svc\", \"timesync-agent\"]",
            ", \"registry-svc\"]",
        ),
    ] {
        assert!(site.contains(first), "the template has {first:?}");
        site = site.replacen(first, then, 1);
    }
    bare.files.write("site.toml", &site);
    bare.bring(ANOTHER, &images.archive("healthd"));
    let said = bare.install(ANOTHER);
    assert_eq!([5443, 5543, 9843].map(listening), [false, true, true]);
    for service in SERVICES {
        let live = live_unit(&bare.node, service);
        assert_eq!(
            live.is_some(),
            service != "timesync-agent",
            "{service}\n{said}"
        );
    }
    let containers = bare.node.run(&[
        "env",
        "CONTAINERS_STORAGE_CONF=/etc/outpost/storage.conf",
        "podman",
        "ps",
        "--format",
        "{{.Names}}",
    ]);
    assert!(!containers.contains("timesync-agent"), "{containers}");
    let again = bare.node.run(&["outpost", "install", ANOTHER]);
    assert!(again.contains("nothing to do"), "{again}");
    assert_eq!(
        bare.node.wait_booted(),
        "running",
        "{}",
        bare.node.failures()
    );
}

/// A port that lb-proxy listens on besides.
const ANOTHER_FRONTEND: &str = "
[[publish]]
name = \"another\"
port = 8443
proxy-port = 9843
";

fn helper() -> Question {
    Question::new(&format!("helper.{DOMAIN}"), A)
}

/// The bundle that a node begins with, and one that is brought while it runs.
pub(super) const FIRST: &str = "/root/first.bundle";
const ANOTHER: &str = "/var/lib/outpost/incoming/another.bundle";

#[track_caller]
fn outpost(verbs: &[&str], paths: &[&Path]) {
    let mut command = Command::new(binary("outpost"));
    command.args(verbs).args(paths);
    let (status, out, complaint) = run(command);
    assert!(status.success(), "{verbs:?}: {status}\n{out}{complaint}");
}

/// The records of the example's zone.
const HELPER: std::net::Ipv4Addr = std::net::Ipv4Addr::new(192, 168, 7, 11);

/// Queries in a second.
const QUERIES: u32 = 200;

/// How long an answer may take, which waits in the sockets while a service is swapped.
const PATIENCE: Duration = Duration::from_secs(20);
