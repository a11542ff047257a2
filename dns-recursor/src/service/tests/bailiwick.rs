//! A server of one zone that lies about another: seen by clients, and by a forwarder behind this one.

use super::*;

/// The server of `evil.test`: an alias into the bank's zone with an address, and the bank's records in every section.
fn evil() -> Script {
    Box::new(|seen| {
        let name = seen.name.as_str();
        let own = match name.split('.').next() {
            Some("alias") => (Section::Answer, name, Type::CNAME, 60, "www.bank.test"),
            Some("home") => (Section::Answer, name, Type::CNAME, 60, "x.localhost"),
            _ => (Section::Answer, name, Type::A, 60, "192.0.2.9"),
        };
        let rows = [
            own,
            (Section::Answer, "www.bank.test", Type::A, 60, "192.0.2.66"),
            (Section::Answer, "x.localhost", Type::A, 60, "192.0.2.66"),
            (Section::Authority, "test", Type::NS, 60, "ns.evil.test"),
            (
                Section::Authority,
                "bank.test",
                Type::NS,
                60,
                "ns.evil.test",
            ),
            (
                Section::Additional,
                "www.bank.test",
                Type::A,
                60,
                "192.0.2.66",
            ),
            (
                Section::Additional,
                "ns.evil.test",
                Type::A,
                60,
                "192.0.2.66",
            ),
        ];
        Some(response(&seen.message, Flags::AA, Rcode::NOERROR, &rows))
    })
}

#[tokio::test]
async fn a_liar_for_one_zone_changes_nothing_for_another_here_or_behind() {
    let (liar, bank) = (
        Upstream::start(evil()),
        Upstream::start(answers("192.0.2.1", 60)),
    );
    let rest = forward("evil.test", false, &[&liar]) + &forward("bank.test", false, &[&bank]);
    let server = Server::start(&rest).await;
    let behind = format!(
        "[[forward]]\nzone = \".\"\nrecursive = true\nupstreams = [\"{}\"]\n",
        server.address
    );
    let behind = Server::start(&behind).await;
    for asked in [&behind, &server] {
        for (name, address, n_records) in [
            ("alias.evil.test", "192.0.2.1", 2),
            ("extra.evil.test", "192.0.2.9", 1),
            ("home.evil.test", "127.0.0.1", 2),
            ("www.bank.test", "192.0.2.1", 1),
        ] {
            let answer = asked.ask(name);
            assert_eq!(addresses(&answer), [address], "{name}");
            // Nothing but the answer, and this server's OPT.
            assert_eq!(counts(&answer), [1, n_records, 0, 1], "{name}");
        }
    }
    let seen: Vec<String> = bank.seen().into_iter().map(|seen| seen.name).collect();
    assert!(seen.iter().all(|name| name == "www.bank.test."), "{seen:?}");
}
