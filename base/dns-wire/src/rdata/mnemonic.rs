//! Numbers that have names: DNSSEC algorithms and certificate types.

/// DNSSEC algorithm numbers (IANA "DNS Security Algorithm Numbers").
const ALGORITHMS: [(u8, &str); 19] = [
    (0, "DELETE"),
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DSA"),
    (5, "RSASHA1"),
    (6, "DSA-NSEC3-SHA1"),
    (6, "NSEC3DSA"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (7, "NSEC3RSASHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECC-GOST"),
    (13, "ECDSAP256SHA256"),
    (14, "ECDSAP384SHA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

/// The number of an algorithm's mnemonic.
pub(super) fn algorithm(text: &str) -> Option<u8> {
    ALGORITHMS
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(text))
        .map(|(code, _)| *code)
}

/// Certificate types (RFC 4398 §2.1).
const CERT_TYPES: [(u16, &str); 10] = [
    (1, "PKIX"),
    (2, "SPKI"),
    (3, "PGP"),
    (4, "IPKIX"),
    (5, "ISPKI"),
    (6, "IPGP"),
    (7, "ACPKIX"),
    (8, "IACPKIX"),
    (253, "URI"),
    (254, "OID"),
];

/// The number of a certificate type's mnemonic.
pub(super) fn cert_type(text: &str) -> Option<u16> {
    CERT_TYPES
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(text))
        .map(|(code, _)| *code)
}
