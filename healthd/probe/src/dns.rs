//! DNS over UDP (RFC 1035): up when the server answers, with the expected response code if one is.

use std::net::{IpAddr, SocketAddr};

use dns_wire::{Class, Composer, Flags, Name, Rcode, header};
use health::DnsProbe;

use super::{Outcome, connect_udp, unguessable, words};

/// A query is a header, a name and four octets.
const QUERY: usize = header::LENGTH + dns_wire::name::MAX_NAME + 4;

/// Without EDNS no response over UDP is longer.
const RESPONSE: usize = 512;

pub(super) async fn probe(
    address: SocketAddr,
    source: Option<IpAddr>,
    probe: &DnsProbe,
) -> Outcome {
    let name = Name::parse(&probe.name).map_err(|error| format!("{:?}: {error}", probe.name))?;
    let [high, low, ..] = unguessable().to_be_bytes();
    let id = u16::from_be_bytes([high, low]);
    let mut question = name.as_wire().to_vec();
    question.extend(probe.rtype.to_be_bytes());
    question.extend(Class::IN.0.to_be_bytes());
    let mut query = [0; QUERY];
    let length = compose(&mut query, id, &question).ok_or("the query is too long")?;

    let socket = connect_udp(address, source).await?;
    let sent = socket.send(query.get(..length).unwrap_or_default()).await;
    sent.map_err(|error| words(&error))?;
    let mut response = [0; RESPONSE];
    loop {
        let received = socket.recv(&mut response).await;
        let length = received.map_err(|error| words(&error))?;
        let response = response.get(..length).unwrap_or_default();
        if let Some(rcode) = answer_to(response, id, &question) {
            return judge(rcode, probe.rcode);
        }
    }
}

fn compose(buffer: &mut [u8], id: u16, question: &[u8]) -> Option<usize> {
    let mut composer = Composer::new(buffer, QUERY, id, Flags(Flags::RD)).ok()?;
    composer.question(question).ok()?;
    Some(composer.finish())
}

/// The response code, if this is the answer to the query. A server that cannot read the query may
/// leave the question out.
fn answer_to(response: &[u8], id: u16, question: &[u8]) -> Option<Rcode> {
    let flags = Flags::read(response)?;
    if header::id(response) != Some(id) || !flags.has(Flags::QR) {
        return None;
    }
    let [n_questions, ..] = header::counts(response)?;
    let asked = response.get(header::LENGTH..)?.get(..question.len());
    let same = asked.is_some_and(|asked| asked.eq_ignore_ascii_case(question));
    (n_questions == 0 || same).then(|| flags.rcode())
}

fn judge(rcode: Rcode, expected: Option<u16>) -> Outcome {
    match expected.map(Rcode) {
        Some(expected) if expected != rcode => Err(format!("{rcode}, not {expected}")),
        _ => Ok(rcode.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x03api\x00\x00\x01\x00\x01";

    #[test]
    fn only_the_answer_to_the_query_counts() {
        let mut query = [0; QUERY];
        let length = compose(&mut query, 0x1234, QUESTION).unwrap();
        let query = &query[..length];
        assert_eq!(answer_to(query, 0x1234, QUESTION), None, "a query");
        let mut response = query.to_vec();
        response[2] |= 0x80;
        response[3] |= 3;
        assert_eq!(
            answer_to(&response, 0x1234, QUESTION),
            Some(Rcode::NXDOMAIN)
        );
        assert_eq!(answer_to(&response, 0x1235, QUESTION), None, "another id");
        response[13] = b'A';
        assert!(answer_to(&response, 0x1234, QUESTION).is_some());
        response[13] = b'x';
        assert_eq!(answer_to(&response, 0x1234, QUESTION), None, "another name");
        let mut formerr = response[..header::LENGTH].to_vec();
        formerr[5] = 0;
        assert!(answer_to(&formerr, 0x1234, QUESTION).is_some());
        for length in 0..header::LENGTH {
            assert_eq!(answer_to(&response[..length], 0x1234, QUESTION), None);
        }
    }

    #[test]
    fn any_answer_will_do_unless_one_is_expected() {
        assert_eq!(judge(Rcode::REFUSED, None), Ok("REFUSED".to_owned()));
        assert_eq!(judge(Rcode::NOERROR, Some(0)), Ok("NOERROR".to_owned()));
        assert_eq!(
            judge(Rcode::REFUSED, Some(0)),
            Err("REFUSED, not NOERROR".to_owned())
        );
    }
}
