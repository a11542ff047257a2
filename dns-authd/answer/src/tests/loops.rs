//! Names that lead back to themselves.

use dns_wire::{Name, Type};

use crate::Transport;
use crate::testing::{ask, decode, query, records, snapshot};

#[test]
fn a_loop_of_dnames_ends_as_in_knot_and_nsd() {
    let text = "example. 60 SOA a. b. 1 2 3 4 60\nexample. 60 NS a.example.\na.example. 60 A 192.0.2.1\n\
                loop.example. 60 DNAME x.loop.example.\n\
                one.example. 60 DNAME two.example.\ntwo.example. 60 DNAME one.example.\n\
                c.example. 60 CNAME y.loop.example.\n\
                far.example. 60 DNAME wild.example.\n*.wild.example. 60 CNAME z.far.example.\n";
    let snapshot = snapshot("example.", &records(text));
    for (name, expected) in [
        (
            "a.loop.example.",
            "a.loop.example. CNAME a.x.loop.example., loop.example. DNAME x.loop.example.",
        ),
        (
            "b.one.example.",
            "b.one.example. CNAME b.two.example., b.two.example. CNAME b.one.example., \
             one.example. DNAME two.example., two.example. DNAME one.example.",
        ),
        (
            "c.example.",
            "c.example. CNAME y.loop.example., loop.example. DNAME x.loop.example., \
             y.loop.example. CNAME y.x.loop.example.",
        ),
        (
            "e.far.example.",
            "e.far.example. CNAME e.wild.example., e.wild.example. CNAME z.far.example., \
             far.example. DNAME wild.example., z.far.example. CNAME z.wild.example., \
             z.wild.example. CNAME z.far.example.",
        ),
    ] {
        let response = decode(&ask(
            &snapshot,
            &query(&name.parse().unwrap(), Type::A),
            Transport::Tcp,
        ));
        let line = |(owner, rtype, _, data): &(Name, Type, u32, Vec<u8>)| {
            format!("{owner} {rtype} {}", dns_wire::rdata::display(*rtype, data))
        };
        let mut lines: Vec<String> = response.answer.iter().map(line).collect();
        lines.sort();
        assert_eq!(lines.join(", "), expected, "{name}");
        assert_eq!((response.rcode, response.authoritative), (0, true));
        assert!(response.authority.is_empty());
    }
}

#[test]
fn a_chain_and_a_loop_that_grows_end_behind_eighteen_aliases() {
    let mut text = "example. 60 SOA a. b. 1 2 3 4 60\nexample. 60 NS a.example.\n\
                    one.example. 60 DNAME x.two.example.\ntwo.example. 60 DNAME y.one.example.\n"
        .to_owned();
    // The last of them has an address.
    for n in 0..20 {
        text.push_str(&format!("c{n}.example. 60 CNAME c{}.example.\n", n + 1));
    }
    text.push_str("c20.example. 60 A 192.0.2.1\n");
    let snapshot = snapshot("example.", &records(&text));
    for (name, n_aliases, n_others) in [
        // The two DNAMEs.
        ("a.one.example.", 18, 2),
        ("c0.example.", 18, 0),
        ("c2.example.", 18, 0),
        // The address.
        ("c3.example.", 17, 1),
    ] {
        let name: Name = name.parse().unwrap();
        let response = decode(&ask(&snapshot, &query(&name, Type::A), Transport::Tcp));
        let is_alias = |record: &&(Name, Type, u32, Vec<u8>)| record.1 == Type::CNAME;
        let aliases = response.answer.iter().filter(is_alias).count();
        let others = response.answer.len() - aliases;
        assert_eq!((aliases, others), (n_aliases, n_others), "{name}");
        assert_eq!((response.rcode, response.authoritative), (0, true));
        assert!(response.authority.is_empty());
    }
}
