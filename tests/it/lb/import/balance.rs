//! The choice of a server.

use super::servers::Kind;
use super::{Case, Vector, run, tcp};

/// A `listen` section with these lines.
fn listen(name: &'static str, lines: &str) -> Case {
    Case::new(
        name,
        &tcp(&format!("listen l\n bind {{front}}:7000\n{lines}")),
    )
    .servers(&[
        ("s0", Kind::Greets),
        ("s1", Kind::Greets),
        ("s2", Kind::Greets),
    ])
}

#[test]
fn connections_are_spread_alike() {
    let around = || Vector::to("around", 7000).spread(12);
    let pile = || Vector::to("a pile", 7000).pile(6);
    let stick = || {
        Vector::to("one source", 7000)
            .from([127, 90, 0, 7])
            .stick(6)
    };
    run(vec![
        listen("no word", " server s0 {s0}\n server s1 {s1}\n server s2 {s2}\n")
            .vectors([around(), pile()]),
        listen(
            "by weight",
            " balance roundrobin\n server s0 {s0} weight 3\n server s1 {s1} weight 1\n server s2 {s2} weight 0\n",
        )
        .vectors([around()]),
        listen(
            "static-rr",
            " balance static-rr\n server s0 {s0} weight 2\n server s1 {s1} weight 1\n server s2 {s2} weight 1\n",
        )
        .vectors([around()]),
        listen(
            "leastconn",
            " balance leastconn\n server s0 {s0}\n server s1 {s1}\n server s2 {s2}\n",
        )
        .vectors([pile()]),
        listen(
            "leastconn by weight",
            " balance leastconn\n server s0 {s0} weight 20\n server s1 {s1} weight 10\n",
        )
        .vectors([pile()]),
        listen(
            "source",
            " balance source\n server s0 {s0}\n server s1 {s1}\n server s2 {s2}\n",
        )
        .vectors([stick()]),
        listen(
            "first",
            " balance first\n server s0 {s0}\n server s1 {s1}\n",
        )
        .vectors([pile()])
        .differs("a pile", "connections are balanced by what is known of them"),
        listen(
            "one backup of two",
            " server s0 {s0} disabled\n server s1 {s1} backup\n server s2 {s2} backup\n",
        )
        .vectors([around()]),
        listen(
            "all backups",
            " option allbackups\n server s0 {s0} disabled\n server s1 {s1} backup\n server s2 {s2} backup\n",
        )
        .vectors([around()]),
        listen(
            "a server of another port than is listened on",
            " server s0 {s0.ip}:+400\n",
        )
        .vectors([around()]),
        listen("nobody", " server s0 {s0} disabled\n").vectors([Vector::to("a client", 7000)]),
        listen(
            "everybody has weight zero",
            " server s0 {s0} weight 0\n server s1 {s1} weight 0\n",
        )
        .vectors([Vector::to("a client", 7000)]),
    ]);
}

#[test]
fn sections_are_joined_alike() {
    run(vec![
        Case::new(
            "ports and ranges",
            "defaults base\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n\
             defaults other from base\n balance source\n\
             frontend f from base\n bind {front}:7000-7002,{front}:7005\n bind {front}:7007\n default_backend b\n\
             frontend g from other\n bind {front}:7010\n use_backend c\n default_backend b\n\
             backend b from base\n server s0 {s0}\n\
             backend c from base\n server s1 {s1}\n",
        )
        .vectors([
            Vector::to("the first", 7000),
            Vector::to("one of a range", 7001),
            Vector::to("the last of a range", 7002),
            Vector::to("none of a range", 7003),
            Vector::to("another address", 7005),
            Vector::to("another line", 7007),
            Vector::to("a backend without a condition", 7010),
        ]),
        Case::new(
            "a listen section with another's backend",
            &tcp(
                "listen l\n bind {front}:7000\n default_backend b\n server s0 {s0}\nbackend b\n server s1 {s1}\n",
            ),
        )
        .vectors([Vector::to("a client", 7000)]),
        Case::new(
            "a disabled section",
            &tcp(
                "listen l\n bind {front}:7000\n server s0 {s0}\nlisten m\n disabled\n bind {front}:7001\n server s1 {s1}\n",
            ),
        )
        .vectors([Vector::to("one", 7000)]),
    ]);
}
