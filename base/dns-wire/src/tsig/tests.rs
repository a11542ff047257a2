//! Signed queries and their responses, from both sides.

use super::*;
use crate::query::{reply_to_rejected, reply_to_signed};
use crate::{Name, Query};

const RECORD: &[u8] = b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x16\x01h\0\0\0\x12\x34\x56\x78\x01\x2c\
    \0\x02mm\xab\xcd\0\0\0\x01o";
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x06\0\x01";
const NOW: u64 = 1_800_000_000;
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Md5,
    Algorithm::Sha1,
    Algorithm::Sha224,
    Algorithm::Sha256,
    Algorithm::Sha384,
    Algorithm::Sha512,
];

fn key(algorithm: Algorithm) -> Key {
    let name: Name = "Transfer.Key.".parse().unwrap();
    Key::new(&name, algorithm, "c2VjcmV0IG9jdGV0cyBvZiBhIGtleQ==").unwrap()
}

fn signed(key: &Key, now: u64) -> (Vec<u8>, Responses) {
    let mut message = QUERY.to_vec();
    let responses = key.sign(&mut message, now).unwrap();
    (message, responses)
}

/// The signature of a query.
fn tsig(message: &[u8]) -> Tsig<'_> {
    Query::parse(message).unwrap().tsig.unwrap()
}

/// Checks a message as a server with this key does.
fn check(key: &Key, message: &[u8], now: u64) -> Result<Session, Rejection> {
    Keys::new([key.clone()]).check(message, &tsig(message), now)
}

fn response(message: &[u8]) -> Vec<u8> {
    let mut response = message.get(..QUERY.len()).unwrap().to_vec();
    response[2] |= 0x84;
    header::set_word(&mut response, 10, 0);
    response
}

#[test]
fn a_record_is_read_and_one_that_is_cut_or_too_long_is_none() {
    let tsig = Tsig::parse(RECORD, 7).unwrap();
    assert_eq!((tsig.key(), tsig.mac), (&b"\x03key\0"[..], &b"mm"[..]));
    assert_eq!((tsig.original_id, tsig.other), (0xabcd, &b"o"[..]));
    for cut in 0..RECORD.len() {
        assert_eq!(Tsig::parse(&RECORD[..cut], 0), None, "{cut}");
    }
    assert_eq!(Tsig::parse(&[RECORD, b"x"].concat(), 0), None);
    let compressed = [b"\xc0\x0c", &RECORD[5..]].concat();
    assert_eq!(Tsig::parse(&compressed, 0), None);
}

#[test]
fn every_algorithm_signs_queries_and_whole_transfers() {
    for algorithm in ALGORITHMS {
        let key = key(algorithm);
        let (message, mut responses) = signed(&key, NOW);
        let mut session = check(&key, &message, NOW + 300).unwrap();
        assert_eq!(session.key().name().to_string(), "transfer.key.");
        for number in 0..3 {
            let mut out = response(&message);
            let length = out.len();
            out.resize(512, 0xee);
            let end = session.sign(&mut out, length, NOW).unwrap();
            assert_eq!(end, length + session.length());
            responses
                .check(&out[..end], NOW)
                .unwrap_or_else(|error| panic!("{algorithm:?} {number}: {error}"));
            assert!(responses.is_complete());
        }
    }
}

#[test]
fn a_name_in_capitals_is_the_same_key() {
    let key = key(Algorithm::Sha256);
    let (mut message, _) = signed(&key, NOW);
    for octet in &mut message[QUERY.len()..QUERY.len() + 10] {
        octet.make_ascii_uppercase();
    }
    assert!(check(&key, &message, NOW).is_ok());
}

#[test]
fn each_error_is_told_apart_and_answered_as_the_standard_says() {
    let ours = key(Algorithm::Sha256);
    let (good, _) = signed(&ours, NOW);
    let mut bent = good.clone();
    bent[13] = b'b';
    let other_name: Name = "other.".parse().unwrap();
    let stranger = Key::new(&other_name, Algorithm::Sha256, "AAAA").unwrap();
    let (unknown, _) = signed(&stranger, NOW);
    let (wrong_algorithm, _) = signed(&key(Algorithm::Sha512), NOW);
    // MACs of 16, 31 and 15 octets of 32.
    let cut = |n: usize| {
        let mut message = good.clone();
        let mac_at = message.len() - 6 - 32;
        message.drain(mac_at + n..mac_at + 32);
        header::set_word(&mut message, mac_at - 2, u16::try_from(n).unwrap());
        let rdlength = QUERY.len() + 14 + 8;
        let length = header::word(&message, rdlength).unwrap();
        header::set_word(
            &mut message,
            rdlength,
            length - u16::try_from(32 - n).unwrap(),
        );
        message
    };
    // Message, time, error, response code in the header, whether the response is signed.
    let table = [
        (&bent, NOW, TsigError::BadSig, 9, false),
        (&unknown, NOW, TsigError::BadKey, 9, false),
        (&wrong_algorithm, NOW, TsigError::BadKey, 9, false),
        (&good, NOW + 301, TsigError::BadTime, 9, true),
        (&good, NOW - 301, TsigError::BadTime, 9, true),
        (&cut(16), NOW, TsigError::BadTrunc, 9, true),
        (&cut(31), NOW, TsigError::BadTrunc, 9, true),
        (&cut(15), NOW, TsigError::Malformed, 1, false),
    ];
    for (message, now, error, rcode, is_signed) in table {
        let rejection = check(&ours, message, now).unwrap_err();
        assert_eq!(rejection.error, error);
        let query = Query::parse(message).unwrap();
        let mut out = [0xff; 512];
        let length = reply_to_rejected(&query, rejection, now, &mut out).unwrap();
        let reply = &out[..length];
        assert_eq!(reply[3] & 0x0f, rcode, "{error}");
        let tsig = Tsig::find(reply);
        assert_eq!(tsig.is_some(), error != TsigError::Malformed, "{error}");
        let Some(tsig) = tsig else {
            continue;
        };
        assert_eq!(tsig.error(), error.code());
        assert_eq!(!tsig.mac.is_empty(), is_signed, "{error}");
        if error == TsigError::BadTime {
            assert_eq!(tsig.other, &now.to_be_bytes()[2..], "the time here");
            let (_, mut responses) = signed(&ours, NOW);
            assert_eq!(responses.check(reply, NOW), Err(TsigError::BadTime));
        }
    }
}

#[test]
fn a_server_without_keys_knows_none() {
    let (message, mut responses) = signed(&key(Algorithm::Sha1), NOW);
    let query = Query::parse(&message).unwrap();
    let mut out = [0xff; 512];
    let length = reply_to_signed(&query, &mut out).unwrap();
    assert!(length < message.len());
    assert_eq!(reply_to_signed(&query, &mut vec![0; length - 1]), None);
    assert_eq!(responses.check(&out[..length], NOW), Err(TsigError::BadKey));
    let plain = Query::parse(QUERY).unwrap();
    assert_eq!(reply_to_signed(&plain, &mut out), None);
}

#[test]
fn a_transfer_may_leave_out_some_signatures_but_not_the_last() {
    let key = key(Algorithm::Sha1);
    let (message, mut responses) = signed(&key, NOW);
    let mut session = check(&key, &message, NOW).unwrap();
    let plain = response(&message);
    assert_eq!(
        signed(&key, NOW).1.check(&plain, NOW),
        Err(TsigError::Malformed),
        "the first message has a signature"
    );
    let mut out = vec![0; 512];
    out[..plain.len()].copy_from_slice(&plain);
    let end = session.sign(&mut out, plain.len(), NOW).unwrap();
    responses.check(&out[..end], NOW).unwrap();
    responses.check(&plain, NOW).unwrap();
    assert!(!responses.is_complete());
    // A signature that does not cover what lies between is wrong.
    out[..plain.len()].copy_from_slice(&plain);
    let end = session.sign(&mut out, plain.len(), NOW).unwrap();
    assert_eq!(responses.check(&out[..end], NOW), Err(TsigError::BadSig));
    let (message, mut responses) = signed(&key, NOW);
    let mut session = check(&key, &message, NOW).unwrap();
    out[..plain.len()].copy_from_slice(&plain);
    let end = session.sign(&mut out, plain.len(), NOW).unwrap();
    responses.check(&out[..end], NOW).unwrap();
    for _ in 0..99 {
        responses.check(&plain, NOW).unwrap();
    }
    assert_eq!(responses.check(&plain, NOW), Err(TsigError::Malformed));
}

#[test]
fn no_octet_of_a_signed_message_can_change() {
    let key = key(Algorithm::Sha256);
    let (message, _) = signed(&key, NOW);
    for place in 0..message.len() {
        for bit in 0..8 {
            let mut bent = message.clone();
            bent[place] ^= 1 << bit;
            let Ok(query) = Query::parse(&bent) else {
                continue;
            };
            let Some(tsig) = query.tsig else {
                continue;
            };
            let keys = Keys::new([key.clone()]);
            // The identifier of the message itself is not signed: the original one is. Letter case is not either.
            let is_free = place < 2 || bent.eq_ignore_ascii_case(&message);
            let checked = keys.check(&bent, &tsig, NOW);
            assert!(checked.is_err() || is_free, "octet {place} bit {bit}");
            if let Err(rejection) = checked {
                reply_to_rejected(&query, rejection, NOW, &mut [0; 512]);
            }
        }
    }
}

#[test]
fn secrets_are_base_64_and_stay_out_of_logs() {
    let name: Name = "k.".parse().unwrap();
    for (text, error) in [
        ("", KeyError::Empty),
        ("%", KeyError::Base64),
        ("AAA", KeyError::Base64),
    ] {
        assert_eq!(
            Key::new(&name, Algorithm::Sha1, text).unwrap_err(),
            error,
            "{text}"
        );
    }
    let key = Key::new(&name, Algorithm::Sha1, " QUFB\n").unwrap();
    assert_eq!(format!("{key:?}"), "Key(k. Sha1)");
}
