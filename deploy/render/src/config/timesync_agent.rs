//! The configuration of timesync-agent.
//!
//! A node asks the site's servers and the other nodes that give time. While a server is there it is
//! preferred; when none is, the nodes keep one time together, the leader's, and continue to give it
//! (chrony's `local … orphan`). A node that gives no time asks only those that do.

use std::net::SocketAddr;
use std::time::Duration;

use ::config::nodes::ClusterNodes;
use ::config::site::Network;
use ::config::timesync_agent::{
    AccessRule, ClientMatch, Clock, Cluster, CommandSocket, Commands, Health, Leap, Local,
    MakeStep, Serve, Source, TimesyncAgent,
};
use ::config::{Admin, AdminListen, HumanDuration, Ip, at};
use ipnet::IpNet;

use super::{Layout, endpoint, in_utf8, lists, written};
use site::paths;
use site::service::Service;
use site::{Node, Role, Site};

/// Renders the file.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let config = TimesyncAgent {
        drain: HumanDuration(layout.drain),
        health: Health {
            endpoint: endpoint(layout),
        },
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::TimesyncAgent)),
        },
        ..match layout.node() {
            None => demonstration(layout),
            Some(node) => of_node(site, node, layout),
        }
    };
    written(Service::TimesyncAgent, &config)
        .comment(
            &at!["local", "waitunsynced"],
            "Servers are heard first: a clock that was off for the night is not given to anybody.",
        )
        .to_string()
}

/// This machine's own time for everybody on this machine, at a port that needs no privileges. The
/// clock is left alone.
fn demonstration(layout: &Layout) -> TimesyncAgent {
    let loopback = IpNet::new_assert(std::net::Ipv4Addr::LOCALHOST.into(), 8).trunc();
    TimesyncAgent {
        correct_clock: false,
        local: Some(Local {
            stratum: STRATUM,
            ..Local::default()
        }),
        serve: Serve {
            port: layout.time.first().map_or(0, SocketAddr::port),
            bind_addresses: layout.time.iter().map(SocketAddr::ip).collect(),
            access: vec![allowed(loopback)],
            ..Serve::default()
        },
        clock: Clock {
            drift_file: Some(in_utf8(&layout.state.join("timesync-agent.drift"))),
            ..Clock::default()
        },
        // chronyc finds the chronyd of this machine, if it has one.
        commands: Commands {
            port: 0,
            socket: CommandSocket(None),
            ..Commands::default()
        },
        ..TimesyncAgent::default()
    }
}

fn of_node(site: &Site, node: &Node, layout: &Layout) -> TimesyncAgent {
    let gives = gives_time(node);
    let servers = site.time.servers.iter().filter(|_| gives);
    let cluster = cluster(site, node, layout);
    // Wrong nodes of a cluster are no match for what people wrote, however many of it is away.
    let trust = cluster.is_some();
    let servers = servers.map(|server| Source {
        prefer: true,
        trust,
        ..source(server)
    });
    let peers = site
        .nodes
        .iter()
        .filter(|peer| gives_time(peer) && peer.name != node.name);
    let peers = peers.map(|peer| Source {
        trust,
        ..source(&peer.address().to_string())
    });
    let networks = site.networks.iter().chain(&site.clients);
    let networks = networks.filter(|_| gives).map(IpNet::trunc);
    TimesyncAgent {
        node: Some(node.name.clone()),
        correct_clock: site.time.correct_clock,
        server: servers.chain(peers).collect(),
        cluster,
        local: gives.then(|| own_time(site)),
        serve: Serve {
            access: networks.map(allowed).collect(),
            ..Serve::default()
        },
        // As the chrony.conf of most systems has it.
        leap: Leap {
            time_zone: Some("right/UTC".to_owned()),
            ..Leap::default()
        },
        clock: Clock {
            drift_file: Some(in_utf8(&layout.state.join("timesync-agent").join("drift"))),
            makestep: Some(MakeStep {
                threshold: 1.0,
                limit: Some(3),
            }),
            rtcsync: site.time.correct_clock,
            ..Clock::default()
        },
        // chronyc and chrony-wait.service connect where chronyd would be.
        commands: Commands {
            socket: CommandSocket(Some(paths::CHRONY_SOCKET.into())),
            ..Commands::default()
        },
        ..TimesyncAgent::default()
    }
}

/// The masters of the cluster that give the time too, if the site follows them.
fn cluster(site: &Site, node: &Node, layout: &Layout) -> Option<Cluster> {
    let masters = ClusterNodes::Masters;
    site.cluster
        .as_ref()
        .filter(|it| it.follow.contains(&masters))?;
    let own = node.addresses.iter().copied().map(Ip);
    Some(Cluster {
        socket: in_utf8(&layout.clusterd_socket),
        nodes: vec![masters],
        networks: site.networks.iter().copied().map(Network::from).collect(),
        excluded: lists::virtual_ips(site).into_iter().chain(own).collect(),
    })
}

fn allowed(network: IpNet) -> AccessRule {
    AccessRule {
        allow: true,
        all: false,
        clients: ClientMatch::Network(network),
    }
}

/// A server, asked at once when the service starts: kubelet waits for a clock that is set.
fn source(host: &str) -> Source {
    Source {
        iburst: true,
        ..Source::new(host)
    }
}

/// The time that a node gives when it has no other. Nodes of an island give it at once: they find out as they go which of them
/// leads, and one that has just started follows.
fn own_time(site: &Site) -> Local {
    let wait = match site.time.servers.is_empty() {
        true => 0.0,
        false => FIRST_ANSWERS.as_secs_f64(),
    };
    Local {
        stratum: STRATUM,
        orphan: true,
        wait_unsynchronised: wait,
        ..Local::default()
    }
}

/// Whether a node gives the site its time: a master that runs the service.
pub(super) fn gives_time(node: &Node) -> bool {
    node.role == Role::Master && node.services.contains(&Service::TimesyncAgent)
}

/// The stratum of a time without a server, as chrony's manual has it: worse than any server's.
const STRATUM: u8 = 10;
/// Longer than the first four requests take, shorter than chrony-wait.service waits.
const FIRST_ANSWERS: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    fn of(site: &Site, node: usize) -> String {
        render(site, &Layout::of_node(site, &site.nodes[node]))
    }

    fn hosts(text: &str) -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix("host = "))
            .collect()
    }

    #[test]
    fn the_demonstration_has_a_time_of_its_own_and_sets_no_clock() {
        let (site, layout) = demo();
        assert_eq!(
            render(&site, &layout),
            r#"# timesync-agent, rendered by `outpost`.
version = "v1"
correct-clock = false
drain = "2s"

[clock]
driftfile = "/run/user/1000/outpost-up/state/timesync-agent.drift"

[local]

[serve]
port = 11123
addresses = ["127.0.0.1"]
access = ["allow 127.0.0.0/8"]

[commands]
port = 0
socket = "none"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"
"#
        );
    }

    #[test]
    fn masters_of_an_island_ask_each_other() {
        let text = of(&Site::example(), 1);
        assert_eq!(hosts(&text), ["\"192.168.7.13\"", "\"192.168.7.15\""]);
        assert!(text.contains("[local]\norphan = true\n"), "{text}");
        assert!(
            !text.contains("prefer") && !text.contains("waitunsynced"),
            "{text}"
        );
    }

    #[test]
    fn servers_are_preferred_to_the_other_masters() {
        let mut site = Site::example();
        site.time.servers = vec!["ntp1.core.example".to_owned()];
        let text = of(&site, 0);
        assert_eq!(
            hosts(&text),
            [
                "\"ntp1.core.example\"",
                "\"192.168.7.14\"",
                "\"192.168.7.15\""
            ]
        );
        assert_eq!(text.matches("prefer = true").count(), 1, "{text}");
        assert!(text.contains("waitunsynced = \"10s\"\n"), "{text}");
    }

    #[test]
    fn workers_ask_the_masters_and_give_no_time() {
        let mut site = Site::example();
        site.time.servers = vec!["ntp1.core.example".to_owned()];
        let text = of(&site, 3);
        assert_eq!(
            hosts(&text),
            ["\"192.168.7.13\"", "\"192.168.7.14\"", "\"192.168.7.15\""]
        );
        assert!(
            !text.contains("[serve]") && !text.contains("[local]"),
            "{text}"
        );
        assert!(text.contains("endpoint = \"none\""), "{text}");
    }

    #[test]
    fn masters_of_the_cluster_are_asked_and_those_of_the_site_are_trusted() {
        let mut site = Site::example();
        let mut cluster = site::Cluster::new(site::ClusterSource::Kubeconfig(None));
        cluster.follow = vec![ClusterNodes::Masters];
        site.cluster = Some(cluster);
        let text = of(&site, 1);
        assert_eq!(text.matches("trust = true").count(), 2, "{text}");
        let table =
            "[cluster]\nnodes = [\"masters\"]\nnetworks = [\"192.168.7.0/24\"]\nexcluded = [";
        assert!(
            text.contains(table) && text.contains("\"192.168.7.14\"]"),
            "{text}"
        );
        site.cluster.as_mut().unwrap().follow = vec![ClusterNodes::Ingress];
        assert!(!of(&site, 1).contains("[cluster]"));
    }

    #[test]
    fn a_master_alone_gives_its_own_time() {
        let mut site = Site::example();
        site.nodes.truncate(1);
        let text = of(&site, 0);
        assert!(hosts(&text).is_empty());
        assert!(text.contains("[local]"), "{text}");
    }

    #[test]
    fn a_container_leaves_the_clock_alone_when_the_site_says_so() {
        let mut site = Site::example();
        site.time.correct_clock = false;
        let text = of(&site, 0);
        assert!(text.contains("correct-clock = false\n"), "{text}");
        assert!(!text.contains("rtcsync"), "{text}");
    }
}
