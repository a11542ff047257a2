//! Limits of sessions, and queues.

use std::time::Duration;

use super::servers::Kind;
use super::{Case, Vector, run, tcp};

fn listen(name: &'static str, head: &str, lines: &str) -> Case {
    Case::new(
        name,
        &tcp(&format!("{head}listen l\n bind {{front}}:7000{lines}")),
    )
}

#[test]
fn limits_and_queues_are_alike() {
    const SECOND: Duration = Duration::from_secs(1);
    run(vec![
        listen(
            "a server with room for one",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1\n",
        )
        .vectors([
            Vector::to("the first", 7000),
            Vector::to("the second", 7000).beside(1).within(SECOND),
        ]),
        listen(
            "two servers with room for one each",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1\n server s1 {s1} maxconn 1\n",
        )
        .vectors([Vector::to("three", 7000).pile(3)]),
        listen(
            "a backup server is for servers that are down, not for full ones",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1\n server s1 {s1} backup\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a queue without a time of its own has that of connecting",
            "",
            "\n timeout connect 1s\n server s0 {s0} maxconn 1\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a frontend with room for one",
            "",
            "\n maxconn 1\n server s0 {s0}\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a listener with room for one",
            "",
            " maxconn 1\n server s0 {s0}\n",
        )
        .vectors([Vector::to("the second", 7000).beside(1).within(SECOND)]),
        listen(
            "a default for servers",
            "",
            "\n timeout queue 1s\n default-server maxconn 1\n server s0 {s0}\n server s1 {s1} maxconn 2\n",
        )
        .vectors([Vector::to("four", 7000).pile(4)]),
        listen(
            "no room at all in the queue",
            "",
            "\n timeout queue 1s\n server s0 {s0} maxconn 1 maxqueue 1\n server s1 {s1} maxconn 1 maxqueue 1\n",
        )
        .vectors([Vector::to("three", 7000).pile(3)]),
        listen(
            "limits that move",
            "",
            "\n fullconn 10\n server s0 {s0} minconn 1 maxconn 2\n",
        )
        .servers(&[("s0", Kind::Greets)])
        .vectors([Vector::to("the first", 7000)]),
    ]);
}
