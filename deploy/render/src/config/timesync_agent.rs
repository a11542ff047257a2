//! The configuration of timesync-agent.
//!
//! A node asks the site's servers and the other nodes that give time. While a server is there it is
//! preferred; when none is, the nodes keep one time together, the leader's, and go on giving it
//! (chrony's `local … orphan`). A node that gives no time asks those that do, and nobody else.

use std::net::SocketAddr;
use std::time::Duration;

use config_text::toml::{duration, list, quoted};

use super::{Layout, admin, endpoint, head, path};
use site::places;
use site::service::Service;
use site::{Node, Role, Site};

/// Renders the file.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    match layout.node() {
        None => demonstration(layout),
        Some(node) => of_node(site, node, layout),
    }
}

/// This machine's own time for everybody on this machine, at a port that needs no privileges. The
/// clock is left alone.
fn demonstration(layout: &Layout) -> String {
    let port = layout.time.first().map_or(0, SocketAddr::port);
    [
        head(Service::TimesyncAgent, layout),
        "correct-clock = false\n".to_owned(),
        format!("\n[local]\nstratum = {STRATUM}\n"),
        format!(
            "\n[serve]\nport = {port}\naddresses = {}\naccess = [\"allow 127.0.0.0/8\"]\n",
            list(layout.time.iter().map(SocketAddr::ip))
        ),
        format!(
            "\n[clock]\ndriftfile = {}\n",
            path(&layout.state.join("timesync-agent.drift"))
        ),
        // chronyc finds the chronyd of this machine, if it has one.
        "\n[commands]\nport = 0\nsocket = \"none\"\n".to_owned(),
        format!(
            "\n[health]\nendpoint = {}\n",
            quoted(&endpoint(layout).to_string())
        ),
        admin(Service::TimesyncAgent, layout),
    ]
    .concat()
}

fn of_node(site: &Site, node: &Node, layout: &Layout) -> String {
    let gives = gives_time(node);
    let mut text = head(Service::TimesyncAgent, layout);
    text.push_str(&format!("node = {}\n", quoted(&node.name)));
    if !site.time.correct_clock {
        text.push_str("correct-clock = false\n");
    }
    if gives {
        for server in &site.time.servers {
            text.push_str(&source(server, "prefer = true\n"));
        }
    }
    for peer in site.nodes.iter().filter(|peer| gives_time(peer)) {
        if peer.name != node.name {
            text.push_str(&source(&peer.address().to_string(), ""));
        }
    }
    if gives {
        text.push_str(&own_time(site));
        let networks = site
            .networks
            .iter()
            .chain(&site.clients)
            .map(|network| format!("allow {}", network.trunc()));
        text.push_str(&format!("\n[serve]\naccess = {}\n", list(networks)));
    }
    // As the chrony.conf of most systems has it.
    text.push_str("\n[leap]\ntimezone = \"right/UTC\"\n");
    let state = layout.state.join("timesync-agent");
    text.push_str(&format!(
        "\n[clock]\ndriftfile = {}\nmakestep = {{ threshold = \"1s\", limit = 3 }}\nrtcsync = {}\n",
        path(&state.join("drift")),
        site.time.correct_clock
    ));
    text.push_str(&format!(
        "\n# chronyc and chrony-wait.service connect where chronyd would be.\n[commands]\nport = 323\nsocket = {}\n",
        quoted(places::CHRONY_SOCKET)
    ));
    text.push_str(&format!(
        "\n[health]\nendpoint = {}\n",
        quoted(&endpoint(layout).to_string())
    ));
    text.push_str(&admin(Service::TimesyncAgent, layout));
    text
}

/// A server, asked at once when the service starts: kubelet waits for a clock that is set.
fn source(host: &str, more: &str) -> String {
    format!(
        "\n[[server]]\nhost = {}\niburst = true\n{more}",
        quoted(host)
    )
}

/// The time that is given when there is no other. Nodes of an island give it at once: which of them
/// leads they find out as they go, and one that has just started follows.
fn own_time(site: &Site) -> String {
    let mut text = format!("\n[local]\nstratum = {STRATUM}\norphan = true\n");
    if !site.time.servers.is_empty() {
        text.push_str(&format!(
            "# Servers are heard first: a clock that was off for the night is not given to anybody.\nwaitunsynced = {}\n",
            duration(FIRST_ANSWERS)
        ));
    }
    text
}

/// Whether a node gives the site its time: a master that runs the service.
pub(super) fn gives_time(node: &Node) -> bool {
    node.role == Role::Master && node.services.contains(&Service::TimesyncAgent)
}

/// Of a time that is nobody's, as chrony's manual has it: worse than any server's.
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
drain = "2s"
correct-clock = false

[local]
stratum = 10

[serve]
port = 11123
addresses = ["127.0.0.1"]
access = ["allow 127.0.0.0/8"]

[clock]
driftfile = "/run/user/1000/outpost-up/state/timesync-agent.drift"

[commands]
port = 0
socket = "none"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"

[admin]
listen = "127.0.0.1:9406"
"#
        );
    }

    #[test]
    fn masters_of_an_island_ask_each_other() {
        let text = of(&Site::example(), 1);
        assert_eq!(hosts(&text), ["\"192.168.7.13\"", "\"192.168.7.15\""]);
        assert!(
            text.contains("[local]\nstratum = 10\norphan = true\n"),
            "{text}"
        );
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
        assert!(text.contains("rtcsync = false\n"), "{text}");
    }
}
