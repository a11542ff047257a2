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
