//! The times that a haproxy.cfg gives.

use std::time::Duration;

use super::servers::Kind;
use super::{Case, Vector, run};

const SECOND: Duration = Duration::from_secs(1);

fn timed(name: &'static str, times: &[(&str, &str)], kind: Kind) -> Case {
    let times: String = times
        .iter()
        .map(|(name, time)| format!(" timeout {name} {time}\n"))
        .collect();
    let file = format!(
        "defaults\n mode tcp\n retries 0\n{times}listen l\n bind {{front}}:7000\n server s0 {{s0}}\n"
    );
    Case::new(name, &file).servers(&[("s0", kind)])
}

#[test]
fn sessions_end_after_the_same_times() {
    let rests = || Vector::to("nothing moves", 7000).rest(SECOND);
    let half = || Vector::to("the client has closed", 7000).rest_half_closed(SECOND);
    let [connect, long] = [("connect", "2s"), ("server", "1h")];
    run(vec![
        timed(
            "the client's",
            &[connect, ("client", "1s"), long],
            Kind::Greets,
        )
        .vectors([rests()]),
        timed(
            "the server's",
            &[connect, ("client", "1h"), ("server", "1s")],
            Kind::Greets,
        )
        .vectors([rests()]),
        timed(
            "both",
            &[connect, ("client", "1s"), ("server", "1s")],
            Kind::Greets,
        )
        .vectors([rests()]),
        timed(
            "a tunnel's before both",
            &[
                connect,
                ("client", "1s"),
                ("server", "1s"),
                ("tunnel", "1h"),
            ],
            Kind::Greets,
        )
        .vectors([rests()]),
        timed(
            "a tunnel's that is shorter",
            &[connect, ("client", "1h"), long, ("tunnel", "1s")],
            Kind::Greets,
        )
        .vectors([rests()]),
        timed("none at all", &[connect], Kind::Greets).vectors([rests()]),
        timed(
            "half closed",
            &[connect, ("client", "1h"), long],
            Kind::Keeps,
        )
        .vectors([half()]),
        timed(
            "half closed, with the client's time for that",
            &[connect, ("client", "1h"), long, ("client-fin", "1s")],
            Kind::Keeps,
        )
        .vectors([half()]),
        timed(
            "half closed, with the server's time for that",
            &[connect, ("client", "1h"), long, ("server-fin", "1s")],
            Kind::Keeps,
        )
        .vectors([half()]),
        timed(
            "half closed, with short times",
            &[connect, ("client", "1s"), ("server", "1s")],
            Kind::Keeps,
        )
        .vectors([half()]),
        timed(
            "a server that does not answer",
            &[("connect", "1s"), ("client", "1h"), long],
            Kind::Silent,
        )
        .vectors([Vector::to("a client", 7000).within(SECOND)]),
        timed(
            "a server that refuses",
            &[("connect", "1s"), ("client", "1h"), long],
            Kind::Dead,
        )
        .vectors([Vector::to("a client", 7000).within(SECOND)]),
        timed(
            "a server that ends first",
            &[connect, ("client", "1h"), long],
            Kind::Closes,
        )
        .vectors([rests()]),
    ]);
}
