use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| u8::try_from(digit).unwrap())
        .collect();
    digits
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[high, low]| high << 4 | low)
        .collect()
}

/// The octets from 0 to 47, in the place of a header.
fn message() -> Vec<u8> {
    (0..48).collect()
}

/// As OpenSSL and Python's hashlib compute them, of the key "correct horse", or the octets from 0 on, and [`message`].
const KNOWN: [(Algorithm, &str); 11] = [
    (Algorithm::Md5, "121be07713a69c2860e3cd9eb5aff5f8"),
    (Algorithm::Sha1, "53c56ef29bfc8e0464f114e5fbf2f3df5f3ada85"),
    (
        Algorithm::Sha256,
        "1a6364f8334fabb529378cd707bedfbe5fb0514d227ef76cb8020a42e62a42f1",
    ),
    (
        Algorithm::Sha384,
        "39718943da7e0a8d2d68a5a94d18c0495c3002268c19647c3c2334c4411cae34162d253317ffcd952bf3095cef7262be",
    ),
    (
        Algorithm::Sha512,
        "c9492409409dede1771c9a0791cdc267f7bbe3a82fe4e7239fda1fae4a20f42a\
         20297b9fa455679f6be8abb393a894b8e61db532768c60da9902ce710c029361",
    ),
    (
        Algorithm::Sha3_224,
        "9e687bcba4b8ac66dc6d051b83b3970d55e7582d15dcaf416e5f99ab",
    ),
    (
        Algorithm::Sha3_256,
        "194b3401b1c0e5d340bc77b101b1e4e6a356d4d0cea7bfa3779410cc1c47ee3b",
    ),
    (
        Algorithm::Sha3_384,
        "1b11edeeb3a94c0aa350c4bc884f481d3bfc73a371744caeb44ff43ec9e2853e5ad2a36a08b17e094f0a0f23dc5239d4",
    ),
    (
        Algorithm::Sha3_512,
        "5071ec5c2040ae0604c7a3335b810ad7540e11cc1c96a33c09255195859dada3\
         ec8ec5748341619b073247f34f95b093f9e09099b63f1ae7a455105c55a84500",
    ),
    (Algorithm::Aes128, "5247121DB0E50733FB83BAB08FBBA8EA"),
    (Algorithm::Aes256, "068F7B24CA92101ADCA96C9C3578EEA3"),
];

fn known_key(algorithm: Algorithm) -> Key {
    let counted: Vec<u8> = (0..32).collect();
    let secret = match algorithm.key_length() {
        Some(length) => &counted[..length],
        None => b"correct horse",
    };
    Key::new(algorithm, secret).unwrap()
}

fn ring() -> KeyRing {
    let mut ring = KeyRing::new();
    for (id, (algorithm, _)) in (1..).zip(KNOWN) {
        assert!(ring.insert(id, known_key(algorithm)).unwrap().is_none());
    }
    ring
}

#[test]
fn every_algorithm_gives_known_answers() {
    let ring = ring();
    assert_eq!(KNOWN.map(|(algorithm, _)| algorithm), Algorithm::ALL);
    for (id, (algorithm, wanted)) in (1..).zip(KNOWN) {
        let wanted = hex(wanted);
        assert_eq!(wanted.len(), algorithm.digest_length());
        for version in 1..=4 {
            let mut digest = [0xaa; LONGEST_DIGEST];
            let length = ring.sign(id, version, &message(), &mut digest).unwrap();
            let longest = if version == 4 { 20 } else { 64 };
            assert_eq!(length, wanted.len().min(longest), "{algorithm:?} {version}");
            assert_eq!(
                digest[..length],
                wanted[..length],
                "{algorithm:?} {version}"
            );
            assert!(digest[length..].iter().all(|octet| *octet == 0xaa));
        }
    }
}

#[test]
fn examples_of_rfc_4493() {
    let mut ring = KeyRing::new();
    let key = Key::new(Algorithm::Aes128, &hex("2b7e151628aed2a6abf7158809cf4f3c")).unwrap();
    ring.insert(1, key).unwrap();
    let whole = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                 30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
    let whole = hex(whole);
    for (length, wanted) in [
        (0, "bb1d6929e95937287fa37d129b756746"),
        (16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (40, "dfa66747de9ae63030ca32611497c827"),
        (64, "51f0bebf7e3b9d92fc49741779363cfe"),
    ] {
        let mut digest = [0; 16];
        assert_eq!(ring.sign(1, 4, &whole[..length], &mut digest), Some(16));
        assert_eq!(digest.to_vec(), hex(wanted));
    }
}

#[test]
fn only_what_was_signed_so_is_verified() {
    let ring = ring();
    let covered = message();
    for (id, (algorithm, _)) in (1..).zip(KNOWN) {
        for version in [3, 4] {
            let mut digest = [0; LONGEST_DIGEST];
            let length = ring.sign(id, version, &covered, &mut digest).unwrap();
            let digest = digest[..length].to_vec();
            let verify = |key: u32, digest: &[u8], covered: &[u8], version: u8| {
                ring.verify(&Mac {
                    key,
                    digest,
                    covered,
                    version,
                })
            };
            assert!(verify(id, &digest, &covered, version));
            for bit in 0..length * 8 {
                let mut wrong = digest.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    !verify(id, &wrong, &covered, version),
                    "{algorithm:?} {bit}"
                );
            }
            for bit in 0..covered.len() * 8 {
                let mut wrong = covered.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!verify(id, &digest, &wrong, version), "{algorithm:?} {bit}");
            }
            for cut in 0..length {
                assert!(!verify(id, &digest[..cut], &covered, version), "{cut}");
            }
            assert!(!verify(
                id,
                &[&digest[..], &[0]].concat(),
                &covered,
                version
            ));
            for other in (0..=12).chain([u32::MAX]).filter(|other| *other != id) {
                assert!(!verify(other, &digest, &covered, version), "{other}");
            }
        }
    }
}

#[test]
fn a_long_digest_is_cut_in_version_4_and_only_there() {
    let ring = ring();
    let covered = message();
    // SHA-512, the fifth.
    let whole = hex(KNOWN[4].1);
    for (length, version, is_good) in [(64, 3, true), (20, 3, false), (64, 4, false), (20, 4, true)]
    {
        let mac = Mac {
            key: 5,
            digest: &whole[..length],
            covered: &covered,
            version,
        };
        assert_eq!(ring.verify(&mac), is_good, "{length} {version}");
    }
}

#[test]
fn a_source_is_bound_to_its_key() {
    let ring = ring();
    let covered = message();
    let mut digest = [0; 16];
    assert_eq!(ring.sign(1, 4, &covered, &mut digest), Some(16));
    let mac = Mac {
        key: 1,
        digest: &digest,
        covered: &covered,
        version: 4,
    };
    assert!(ring.verify(&mac));
    assert!(ring.verify_with(1, &mac));
    assert!(
        !ring.verify_with(2, &mac),
        "a good key, and not this source's"
    );
}

#[test]
fn no_key_is_made_of_what_is_none() {
    for algorithm in Algorithm::ALL {
        assert_eq!(Key::new(algorithm, &[]).err(), Some(KeyError::Empty));
        for length in 1..=64 {
            let made = Key::new(algorithm, &vec![1; length]);
            match algorithm.key_length() {
                Some(wanted) if wanted != length => {
                    let error = KeyError::Length {
                        wanted,
                        found: length,
                    };
                    assert_eq!(made.err(), Some(error));
                }
                _ => assert!(made.is_ok()),
            }
        }
        assert_eq!(
            Algorithm::from_name(&algorithm.name().to_lowercase()),
            Some(algorithm)
        );
        let key = known_key(algorithm);
        let version = if algorithm.digest_length() > 20 { 3 } else { 4 };
        assert_eq!(key.suggested_version(), version);
        assert!(
            !format!("{key:?}").contains("orrect"),
            "secrets are not shown"
        );
    }
    assert_eq!(Algorithm::from_name("SHA3"), None);
    let mut ring = KeyRing::new();
    let key = known_key(Algorithm::Md5);
    assert_eq!(ring.insert(0, key.clone()).err(), Some(KeyError::Zero));
    assert!(ring.is_empty());
    assert!(ring.insert(1, key.clone()).unwrap().is_none());
    assert!(ring.insert(1, key).unwrap().is_some());
    assert_eq!((ring.len(), ring.iter().count()), (1, 1));
    let mut short = [0; 15];
    assert_eq!(ring.sign(1, 4, b"", &mut short), None, "no room");
    assert_eq!(ring.sign(2, 4, b"", &mut [0; 64]), None, "no key");
}
