//! Any bytes as a signed message, on both sides: nobody without the secret gets a signature accepted.

use dns_strict::Message;
use dns_wire::query::reply_to_rejected;
use dns_wire::tsig::Algorithm;
use dns_wire::{Key, Keys, Name, Query, Records, Tsig};

/// The time of all signatures.
const NOW: u64 = 1_800_000_000;
/// Octets of a header.
const HEADER: usize = 12;

fn key(algorithm: Algorithm, secret: &str) -> Key {
    let name = Name::parse("transfer.key.").expect("a name");
    Key::new(&name, algorithm, secret).expect("a key")
}

pub(super) fn body(data: &[u8]) {
    let algorithms = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Sha512,
    ];
    let choice = usize::from(data.first().copied().unwrap_or(0)) % algorithms.len();
    let ours = key(algorithms[choice], "b3VycyBhbG9uZQ==");
    let theirs = key(algorithms[choice], "b2Ygc29tZWJvZHkgZWxzZQ==");
    take(data, &ours);
    // The same as a query of somebody who knows the name of the key, but not the secret.
    let mut forged = data.to_vec();
    if theirs.sign(&mut forged, NOW).is_some() {
        take(&forged, &ours);
    }
    // A query that is right passes, whatever it says.
    let mut right = data.to_vec();
    let Some(mut responses) = ours.sign(&mut right, NOW) else {
        return;
    };
    if let Ok(query) = Query::parse(&right)
        && Query::parse(data).is_ok_and(|plain| plain.tsig.is_none())
        && is_whole(data)
        && let Some(tsig) = query.tsig
    {
        let checked = Keys::new([ours.clone()]).check(&right, &tsig, NOW);
        let mut session = checked.expect("own signature");
        let mut reply = right[..HEADER + query.question.len()].to_vec();
        reply[2] |= 0x80;
        reply[6..HEADER].fill(0);
        let length = reply.len();
        reply.resize(length + session.length(), 0);
        assert_eq!(session.sign(&mut reply, length, NOW), Some(reply.len()));
        Message::read(&reply).expect("a signed reply is a message");
        responses.check(&reply, NOW).expect("own reply");
    }
    // Whatever comes next is not of the one who has the secret.
    let forged = responses.check(data, NOW);
    assert!(
        forged.is_err() || Tsig::find(data).is_none(),
        "a forged response"
    );
}

/// Whether nothing follows the last record: the signature is then the next one.
fn is_whole(message: &[u8]) -> bool {
    Records::new(message).is_ok_and(|mut records| {
        records.by_ref().all(|record| record.is_ok()) && records.offset() == message.len()
    })
}

/// Takes a message that is not signed with the secret, as a server does.
fn take(message: &[u8], ours: &Key) {
    let Ok(query) = Query::parse(message) else {
        return;
    };
    let Some(tsig) = query.tsig else {
        return;
    };
    let checked = Keys::new([ours.clone()]).check(message, &tsig, NOW);
    let rejection = checked.expect_err("nobody else has the secret");
    let mut reply = vec![0; 1232];
    if let Some(length) = reply_to_rejected(&query, rejection, NOW, &mut reply) {
        let reply = Message::read(&reply[..length]).expect("a refusal is a message");
        assert!(
            reply.response && reply.answers.is_empty(),
            "a refusal has no data"
        );
        assert!(
            length <= message.len(),
            "a refusal is not longer than what was sent"
        );
    }
}
