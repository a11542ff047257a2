//! dns-recursor before the dns-authd of several nodes: its own first, the others while that is away.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::daemon::Daemon;
use tests::dns::{Data, Question, TXT, ask, ask_a};
use tests::site::Site;
use tests::wait;

use super::{Forward, addresses, configure};

/// Answers live a second, so that the cache hides nothing for long.
fn zone(node: usize, last: u8) -> String {
    format!(
        "$TTL 1\n@ SOA ns hostmaster 1 2 3 4 1\n NS ns\nns A 192.0.2.53\nwww A 192.0.2.{last}\n\
         who TXT \"{node}\"\n"
    )
}

/// A node: where its dns-authd answers, and the process.
struct Node {
    site: Site,
    authority: Option<Daemon>,
}

impl Node {
    fn start(number: usize) -> Self {
        let site = Site::new();
        site.configure_authd(&[("example", &zone(number, 1))], "");
        let authority = Some(site.start("dns-authd"));
        Self { site, authority }
    }

    fn publish(&self, number: usize, last: u8) {
        self.site.files.write("example.zone", &zone(number, last));
        if let Some(authority) = &self.authority {
            authority.hang_up();
        }
    }
}

/// Asks for a while what a client would: every answer is the right one, fresh and in time.
fn ask_on(server: SocketAddr, expected: &str, time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        // Within what a client waits.
        let answer = ask_a(server, "www.example").unwrap();
        assert_eq!(addresses(&answer), [expected], "{answer:?}");
        // A stale answer would say so (RFC 8914 §4.4).
        assert!(answer.extended_errors().is_empty(), "{answer:?}");
        assert!(answer.answers.iter().all(|record| record.ttl <= 1));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_for(server: SocketAddr, expected: &str) {
    wait::for_it("the new address", Duration::from_secs(10), || {
        let answer = ask_a(server, "www.example").unwrap();
        assert!(answer.extended_errors().is_empty(), "{answer:?}");
        addresses(&answer) == [expected]
    });
}

/// The node whose dns-authd the answers come from.
fn wait_until_answered_by(server: SocketAddr, node: usize) {
    let expected = Data::Text(vec![node.to_string()]);
    wait::for_it("the node answers", Duration::from_secs(20), || {
        std::thread::sleep(Duration::from_millis(100));
        let answer = ask(server, &Question::new("who.example", TXT)).unwrap();
        answer.answers.len() == 1 && answer.answers[0].data == expected
    });
}

#[test]
fn answers_stay_right_and_fresh_while_the_own_dns_authd_is_away() {
    let mut nodes = [0, 1, 2].map(Node::start);
    let authorities = nodes.each_ref().map(|node| node.site.authority());
    let own = Site::new();
    let forward = Forward {
        zone: "example",
        to: &authorities,
        recursive: false,
    };
    // A machine that is slow for a moment makes no answer stale.
    configure(&own, &[forward], "stale.wait = \"4s\"");
    let _recursor = own.start("dns-recursor");
    let server = own.resolver();
    wait_until_answered_by(server, 0);

    // It is there and says nothing, as between two slots whose socket systemd holds.
    nodes[0].authority.as_ref().unwrap().signal(Signal::STOP);
    ask_on(server, "192.0.2.1", Duration::from_secs(3));
    wait_until_answered_by(server, 1);
    nodes[0].authority.as_ref().unwrap().signal(Signal::CONT);
    wait_until_answered_by(server, 0);

    // It is gone, and so is the next; what the third says is news.
    nodes[0].authority.take().unwrap().kill();
    ask_on(server, "192.0.2.1", Duration::from_secs(2));
    nodes[1].authority.take().unwrap().kill();
    ask_on(server, "192.0.2.1", Duration::from_secs(2));
    nodes[2].publish(2, 2);
    wait_for(server, "192.0.2.2");
    ask_on(server, "192.0.2.2", Duration::from_secs(2));

    nodes[0].publish(0, 2);
    nodes[0].authority = Some(nodes[0].site.start("dns-authd"));
    ask_on(server, "192.0.2.2", Duration::from_secs(1));
    wait_until_answered_by(server, 0);
}
