//! States of servers: what checks find, and what follows.

use std::time::Duration;

use super::servers::Kind;
use super::vector::Step;
use super::{Case, QUICK, Vector, run, tcp};

const SECOND: Duration = Duration::from_secs(1);

fn checked(name: &'static str, lines: &str) -> Case {
    let text = format!("listen l\n bind {{front}}:7000\n{QUICK}{lines}");
    Case::new(name, &tcp(&text))
}

const TWO: &str = " server s0 {s0}\n server s1 {s1}\n";

fn four(name: &'static str) -> Vector {
    Vector::to(name, 7000).says(b"hi\n").spread(4)
}

#[test]
fn servers_that_are_down_get_nothing() {
    run(vec![
        checked("connections", TWO).vectors([
            four("both"),
            four("one").after(Step::Down("s0")),
            four("none").after(Step::Down("s1")),
            four("the other").after(Step::Up("s1")),
            four("both again").after(Step::Up("s0")),
        ]),
        checked(
            "a backup server",
            " server s0 {s0}\n server s1 {s1} backup\n",
        )
        .vectors([
            four("both"),
            four("the backup").after(Step::Down("s0")),
            four("both again").after(Step::Up("s0")),
        ]),
        checked(
            "a server without a check",
            " option redispatch\n server s0 {s0}\n server s1 {s1} no-check\n",
        )
        .vectors([four("both"), four("one").after(Step::Down("s0"))]),
        checked(
            "another port",
            " server s0 {s0} port 7401\n server s1 {s1}\n",
        )
        .vectors([four("one")]),
    ]);
}

#[test]
fn answers_to_checks_count_alike() {
    let answering = |case: Case| case.servers(&[("s0", Kind::Answers), ("s1", Kind::Answers)]);
    let status = |name, status| four(name).after(Step::Status("s0", status));
    run(vec![
        answering(checked("httpchk", &format!(" option httpchk\n{TWO}")))
            .vectors([
                status("200", 200),
                status("500", 500),
                status("200 again", 200),
                status("404", 404),
                status("302", 302),
                status("204", 204),
            ])
            .differs("302", "a server is up when it answers 200")
            .differs("204", "a server is up when it answers 200"),
        answering(checked(
            "a path, and a status",
            &format!(" option httpchk GET /readyz\n http-check expect status 204\n{TWO}"),
        ))
        .vectors([
            four("200 is wrong"),
            status("204", 204),
            status("200 again", 200),
        ]),
        answering(checked(
            "a text in the body",
            &format!(" option httpchk GET /\n http-check expect string s1\n{TWO}"),
        ))
        .vectors([four("one of them says it")]),
        answering(checked(
            "the old way to have a host",
            &format!(" option httpchk GET /readyz HTTP/1.1\\r\\nHost:\\ api.example\n{TWO}"),
        ))
        .vectors([four("both"), status("500", 500)]),
    ]);
}

#[test]
fn sessions_of_servers_that_change_their_state_end_alike() {
    run(vec![
        checked("they stay", " server s0 {s0}\n").vectors([Vector::to("a session", 7000)
            .outlive(SECOND)
            .after(Step::Closed("s0"))]),
        checked(
            "they end",
            " server s0 {s0} on-marked-down shutdown-sessions\n",
        )
        .vectors([Vector::to("a session", 7000)
            .outlive(SECOND)
            .after(Step::Closed("s0"))])
        .differs("a session", "its sessions are reset"),
        checked(
            "those of a backup server stay",
            " server s0 {s0}\n server s1 {s1} backup\n",
        )
        .vectors([Vector::to("a session", 7000)
            .outlive(SECOND)
            .after(Step::Up("s0"))]),
        checked(
            "those of a backup server end",
            " server s0 {s0} on-marked-up shutdown-backup-sessions\n server s1 {s1} backup\n",
        )
        .vectors([Vector::to("a session", 7000)
            .outlive(SECOND)
            .after(Step::Up("s0"))])
        .differs("a session", "its sessions are reset"),
    ]);
}

#[test]
fn conversations_count_alike() {
    let talking = |name, lines: &str| {
        checked(name, &format!("{lines}{TWO}"))
            .servers(&[("s0", Kind::Redis), ("s1", Kind::Redis)])
            .vectors([
                four("both"),
                four("one answers otherwise").after(Step::Status("s0", 500)),
                four("none").after(Step::Status("s1", 500)),
                four("one is back").after(Step::Status("s0", 200)),
            ])
    };
    run(vec![
        talking("redis-check", " option redis-check\n"),
        talking(
            "send and expect",
            " option tcp-check\n tcp-check connect\n tcp-check send PING\\r\\n\n tcp-check expect string +PONG\n\
             \x20tcp-check send-binary 50494E470d0a\n tcp-check expect rstring ^\\+P[NO]+G\n",
        ),
        talking(
            "expect not",
            " option tcp-check\n tcp-check send PING\\r\\n\n tcp-check expect ! rstring ^-LOADING\n",
        ),
        talking("nothing but a connection", " option tcp-check\n"),
        talking(
            "a rule that is lost",
            " option tcp-check\n tcp-check send PING\\r\\n\n tcp-check expect rbinary ^2B\n",
        )
        .differs(
            "one answers otherwise",
            "`rbinary` has no counterpart; a server is up when it accepts a connection",
        )
        .differs(
            "none",
            "`rbinary` has no counterpart; a server is up when it accepts a connection",
        )
        .differs(
            "one is back",
            "`rbinary` has no counterpart; a server is up when it accepts a connection",
        ),
        checked("smtpchk", &format!(" option smtpchk EHLO me\n{TWO}"))
            .servers(&[("s0", Kind::Greets), ("s1", Kind::Greets)])
            .vectors([four("none")]),
        checked(
            "pgsql-check",
            &format!(" option pgsql-check user me\n{TWO}"),
        )
        .servers(&[("s0", Kind::Redis), ("s1", Kind::Redis)])
        .vectors([four("none")]),
    ]);
}

#[test]
fn failures_without_a_check_end_alike() {
    let unchecked = |name, lines: &str| {
        Case::new(
            name,
            &tcp(&format!("listen l\n bind {{front}}:7000\n{lines}")),
        )
        .servers(&[("s0", Kind::Dead), ("s1", Kind::Greets)])
        .vectors([Vector::to("four", 7000).spread(4)])
    };
    run(vec![
        unchecked(
            "another server",
            &format!(" retries 1\n option redispatch\n{TWO}"),
        ),
        unchecked("the same server", &format!(" retries 1\n{TWO}"))
            .differs("four", "as with `option redispatch`"),
        unchecked("nobody", " retries 0\n server s0 {s0}\n"),
    ]);
}

#[test]
fn what_decides_besides_checks_is_said() {
    run(vec![
        checked(
            "an agent",
            " server s0 {s0} agent-check agent-addr {s2.ip} agent-port 7400 agent-inter 200ms\n server s1 {s1}\n",
        )
        .servers(&[
            ("s0", Kind::Greets),
            ("s1", Kind::Greets),
            ("s2", Kind::Says("drain")),
        ])
        .vectors([four("one is drained")])
        .differs("one is drained", "agent"),
        checked(
            "the state of another server",
            " server s0 {s0}\n server s1 {s1} no-check track l/s0\n",
        )
        .vectors([four("both"), four("none").after(Step::Down("s0"))])
        .differs("none", "track"),
        checked(
            "a check at another address",
            " server s0 {s0} addr {s2.ip} port 7400\n server s1 {s1} backup\n",
        )
        .servers(&[
            ("s0", Kind::Greets),
            ("s1", Kind::Greets),
            ("s2", Kind::Greets),
        ])
        .vectors([four("both"), four("the other is down").after(Step::Down("s2"))])
        .differs("the other is down", "servers are probed at their own address"),
    ]);
}
