//! All nodes of a site are asked over ssh, by the real client and the real server of Debian.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::binaries::{SERVICES, binary};
use tests::daemon::{Daemon, run};
use tests::node::lan::{ADDRESSES, DOMAIN, Lan, site_file};
use tests::node::{Node, images_or_skip, or_skip};
use tests::scratch::Scratch;
use tests::status::odd_keys;
use tests::wait;

use super::SETTLED;

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn every_node_of_a_site_is_asked_and_one_that_is_silent_is_told() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let mut lan = Lan::provision(root, images, "");
    lan.boot();
    // There are no workers here, and they are not what is looked at.
    let text = site_file("");
    let (nodes, rest) = text.split_once("[[node]]\nname = \"worker-0\"").unwrap();
    let (_, rest) = rest.split_once("\n[dns]\n").unwrap();
    lan.files
        .write("masters.toml", &format!("{nodes}\n[dns]\n{rest}"));
    let ssh = Ssh::new();
    let servers: Vec<Daemon> = lan.nodes.iter().map(|node| ssh.serve(node)).collect();
    let ask = |lan: &Lan, more: &[&str]| ssh.ask(lan, more);

    let nodes = wait::until("every service is ready", SETTLED, || {
        let (code, said, _) = ask(&lan, &["--json"]);
        (code == 0).then(|| serde_json::from_str::<Value>(&said).unwrap())
    });
    assert_eq!(odd_keys(&nodes), Vec::<String>::new(), "{nodes:#}");
    for (number, node) in nodes.as_array().unwrap().iter().enumerate() {
        assert_eq!(node["node"], format!("master-{number}"));
        let services = node["services"].as_array().unwrap();
        let names: Vec<&str> = services
            .iter()
            .map(|service| service["service"].as_str().unwrap())
            .collect();
        assert_eq!(names, SERVICES);
    }

    // Each node explains a name for itself.
    let name = format!("api.{DOMAIN}");
    let (code, said, complaint) = ssh.run(&lan, "explain", &["--json", &name]);
    assert_eq!(code, 0, "{said}{complaint}");
    let explained: Value = serde_json::from_str(&said).unwrap();
    for (number, node) in explained.as_array().unwrap().iter().enumerate() {
        assert_eq!(node["node"], format!("master-{number}"));
        assert_eq!(node["about"], name);
        let answered = ["dns_recursor", "dns_authd", "lb_proxy", "healthd"];
        assert!(
            answered
                .iter()
                .all(|part| node[part].get("answer").is_some()),
            "{node:#}"
        );
    }

    // A service that does not serve: the node answers, and the site is not well.
    let stopped = "outpost-dns-authd.socket outpost-dns-authd-a outpost-dns-authd-b";
    lan.nodes[0].run(&["sh", "-c", &format!("systemctl stop {stopped}")]);
    let (code, said, _) = ask(&lan, &[]);
    assert_eq!(code, 69, "{said}");
    assert!(
        said.contains("dns-authd") && said.contains("does not answer"),
        "{said}"
    );

    // A node without power, and one on which there is no outpost.
    lan.nodes[1].cut_power();
    lan.nodes[2].run(&["mv", "/usr/local/bin/outpost", "/usr/local/bin/elsewhere"]);
    let start = Instant::now();
    let (code, said, complaint) = ask(&lan, &[]);
    assert_eq!(code, 69, "{said}{complaint}");
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    let of = |name: &str| {
        let lines = said.lines().skip_while(|line| *line != name).skip(1);
        lines
            .take_while(|line| line.starts_with(' '))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(of("master-0").contains("healthd         a"), "{said}");
    assert!(of("master-1").contains("it cannot be asked: "), "{said}");
    let (code, explained, _) = ssh.run(&lan, "explain", &[&name]);
    assert_eq!(code, 69, "{explained}");
    assert!(
        explained.contains("master-1\n  ! it cannot be asked: "),
        "{explained}"
    );
    assert!(
        of("master-2").contains("/usr/local/bin/outpost: not found"),
        "{said}"
    );
    drop(servers);
}

/// A client's key, a server's, and the files that let them know each other.
struct Ssh {
    files: Scratch,
}

impl Ssh {
    fn new() -> Self {
        let files = Scratch::new("ssh");
        for name in ["client", "server"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(files.join(name));
            let (status, out, complaint) = run(keygen);
            assert!(status.success(), "{out}{complaint}");
        }
        let read = |name: &str| std::fs::read_to_string(files.join(name)).unwrap();
        files.write("authorized", &read("client.pub"));
        let key = read("server.pub");
        let known: Vec<String> = ADDRESSES.iter().map(|at| format!("{at} {key}")).collect();
        files.write("known", &known.concat());
        // A person's ~/.ssh/config.
        let config = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n",
            files.join("client").display(),
            files.join("known").display()
        );
        let config = files.write("config", &config);
        let wrapper = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
            config.display()
        );
        let wrapper = files.write("ssh", &wrapper);
        set_permissions(wrapper, Permissions::from_mode(0o755)).unwrap();
        Self { files }
    }

    /// A server at a node's address whose commands run inside the node. The node's own Debian has none.
    fn serve(&self, node: &Node) -> Daemon {
        let shell = node.command("sh");
        let words = std::iter::once(shell.get_program()).chain(shell.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let script = format!(
            "#!/bin/sh\nexec {} -c \"$SSH_ORIGINAL_COMMAND\"\n",
            words.join(" ")
        );
        let script = self
            .files
            .write(&format!("inside-{}", node.name()), &script);
        set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let config = format!(
            "ListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nForceCommand {}\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nBanner /etc/os-release\n",
            node.address(),
            self.files.join("server").display(),
            self.files.join("authorized").display(),
            script.display()
        );
        let config = self.files.write(&format!("sshd-{}", node.name()), &config);
        let mut server = node.machine.command("sh");
        // The directory that sshd locks itself into before a client has logged in.
        server
            .args([
                "-c",
                "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f \"$0\"",
            ])
            .arg(config);
        let server = Daemon::spawn("sshd", server);
        server.wait_log("Server listening");
        server
    }

    /// Asks all nodes of the site: the exit status, what was printed and what was complained about.
    fn ask(&self, lan: &Lan, more: &[&str]) -> (i32, String, String) {
        self.run(lan, "status", more)
    }

    /// Runs a verb of `outpost` that asks all nodes of the site.
    fn run(&self, lan: &Lan, verb: &str, more: &[&str]) -> (i32, String, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = lan.client.command("env");
        command.arg(format!("PATH={}:{path}", self.files.path().display()));
        command.arg(binary("outpost"));
        command.args([verb, "--login", "root", "--site"]);
        command.arg(lan.files.join("masters.toml")).args(more);
        let (status, out, complaint) = run(command);
        (status.code().unwrap(), out, complaint)
    }
}

/// How long the whole may take when a node does not answer.
const BOUND: Duration = Duration::from_secs(30);
