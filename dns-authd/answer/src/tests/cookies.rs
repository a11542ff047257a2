//! DNS cookies (RFC 7873).

use std::sync::Arc;

use dns_cookie::{Cookies, Secrets};
use dns_wire::edns::option;
use dns_wire::header::Flags;
use dns_wire::{Edns, Rcode, Records, Type};

use crate::tally::COOKIES;
use crate::testing::{self, client, query, records, snapshot};
use crate::*;

/// A zone with a large answer, which answers cookies.
fn server(is_required: bool) -> Snapshot {
    let mut zone =
        "example. 3600 SOA ns.example. h.example. 9 2 3 4 60\nexample. 300 NS ns.example.\n\
        ns.example. 300 A 192.0.2.53\n"
            .to_owned();
    for last in 1..=60 {
        zone.push_str(&format!("large.example. 300 A 192.0.2.{last}\n"));
    }
    let mut snapshot = snapshot("example.", &records(&zone));
    snapshot.settings.cookies = Some(Arc::new(Cookies {
        secrets: Secrets::alone([5; 16]),
        is_required,
    }));
    snapshot
}

fn ask(name: &str, cookie: Option<&[u8]>) -> Vec<u8> {
    let mut message = query(&name.parse().unwrap(), Type::A);
    message[11] = 1;
    message.extend(b"\0\0\x29\x10\0\0\0\0\0");
    let data = cookie.unwrap_or_default();
    let length = cookie.map_or(0, |data| u8::try_from(data.len()).unwrap() + 4);
    message.extend([0, length]);
    if cookie.is_some() {
        message.extend([0, 10, 0, length - 4]);
        message.extend(data);
    }
    message
}

/// The response code and the cookie of a response, which is not longer than this.
fn read(reply: &[u8], most: usize) -> (Rcode, bool, Option<Vec<u8>>) {
    assert!(reply.len() <= most, "{} octets", reply.len());
    let flags = Flags::read(reply).unwrap();
    let all = Records::new(reply).unwrap().map(Result::unwrap);
    let opt = all.last().unwrap();
    assert_eq!(opt.rtype, Type::OPT);
    let edns = Edns::from_record(opt.class.0, opt.ttl, &reply[opt.rdata]);
    let rcode = Rcode(u16::from(edns.rcode_high) << 4 | flags.rcode().0);
    let cookie = edns.option(option::COOKIE).map(<[u8]>::to_vec);
    (rcode, flags.has(Flags::TC), cookie)
}

#[test]
fn a_client_learns_its_cookie_and_gets_large_answers_with_it() {
    let mut server = server(false);
    server.settings.udp_payload = 4096;
    server.settings.nocookie_payload = 512;
    let udp = |message: &[u8]| testing::ask(&server, message, Transport::Udp);
    let own = [7_u8; 8];
    let first = read(&udp(&ask("large.example.", Some(&own))), 512);
    let (Rcode::NOERROR, true, Some(cookie)) = first else {
        panic!("{first:?}");
    };
    assert!(cookie.starts_with(&own));
    let (rcode, is_cut, again) = read(&udp(&ask("large.example.", Some(&cookie))), 4096);
    assert_eq!(
        (rcode, is_cut, again.as_ref()),
        (Rcode::NOERROR, false, Some(&cookie))
    );
    let mut forged = cookie.clone();
    forged[17] ^= 1;
    let (_, is_cut, given) = read(&udp(&ask("large.example.", Some(&forged))), 512);
    assert!(is_cut && given.as_ref() == Some(&cookie));
    assert_eq!(
        read(&udp(&ask("large.example.", None)), 512),
        (Rcode::NOERROR, true, None)
    );
    // The address is proven over TCP.
    let tcp = testing::ask(&server, &ask("large.example.", Some(&own)), Transport::Tcp);
    assert_eq!(
        read(&tcp, MAX_MESSAGE),
        (Rcode::NOERROR, false, Some(cookie))
    );
}

#[test]
fn a_broken_option_is_refused_and_cookies_turned_off_are_not_seen() {
    let mut server = server(false);
    for length in [0, 7, 9, 15, 41] {
        let reply = testing::ask(
            &server,
            &ask("ns.example.", Some(&vec![1; length])),
            Transport::Udp,
        );
        assert_eq!(
            read(&reply, 512),
            (Rcode::FORMERR, false, None),
            "{length} octets"
        );
    }
    server.settings.cookies = None;
    let reply = testing::ask(&server, &ask("ns.example.", Some(&[1; 9])), Transport::Udp);
    assert_eq!(read(&reply, 512), (Rcode::NOERROR, false, None));
}

#[test]
fn a_required_cookie_is_asked_for_over_udp_alone() {
    let server = server(true);
    let udp = |message: &[u8]| testing::ask(&server, message, Transport::Udp);
    let reply = udp(&ask("ns.example.", Some(&[7; 8])));
    let (Rcode::BADCOOKIE, false, Some(cookie)) = read(&reply, 512) else {
        panic!("{reply:?}");
    };
    assert_eq!(
        read(&udp(&ask("ns.example.", Some(&cookie))), 512).0,
        Rcode::NOERROR
    );
    assert_eq!(read(&udp(&ask("ns.example.", None)), 512).0, Rcode::NOERROR);
    let tcp = testing::ask(&server, &ask("ns.example.", Some(&[7; 8])), Transport::Tcp);
    assert_eq!(read(&tcp, 512).0, Rcode::NOERROR);
}

#[test]
fn queries_are_counted_by_what_their_cookies_prove() {
    let server = server(false);
    let client = client(Transport::Udp);
    let cookie = read(
        &testing::ask(&server, &ask("ns.example.", Some(&[7; 8])), Transport::Udp),
        512,
    );
    let cookie = cookie.2.unwrap();
    for (sent, counted) in [
        (None, None),
        (Some(&[7; 8][..]), Some("new")),
        (Some(&[7; 24]), Some("bad")),
        (Some(&cookie), Some("proven")),
        (Some(&[7; 3]), Some("malformed")),
    ] {
        let message = ask("ns.example.", sent);
        let mut out = vec![0; 1500];
        let mut responder = Responder::new(NoPrograms, 1);
        responder.respond(&server, &message, &client, &mut out);
        let counts = responder.tally().take().cookies;
        let expected = COOKIES.map(|(_, name)| u64::from(counted == Some(name)));
        assert_eq!(counts, expected, "{counted:?}");
    }
}
