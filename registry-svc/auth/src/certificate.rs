//! The names in a client certificate: common name, organizations and alternative names.
//!
//! The certificate has been verified by TLS before; this only reads names out of its DER (X.690,
//! RFC 5280 §4.1), and takes what it does not understand for absent.

use std::fmt;

/// The names in a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The subject's common name.
    pub common_name: Option<String>,
    /// Its organizations; Kubernetes writes groups there.
    pub organizations: Vec<String>,
    /// Alternative names that are DNS names.
    pub dns: Vec<String>,
    /// Alternative names that are URIs, as SPIFFE has them.
    pub uris: Vec<String>,
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.common_name.as_ref();
        let name = first.or_else(|| self.uris.first().or_else(|| self.dns.first()));
        formatter.write_str(name.map_or("?", |name| name))
    }
}

/// Reads the names out of a certificate.
#[must_use]
pub fn subject(certificate: &[u8]) -> Option<Subject> {
    let mut outer = Der(certificate);
    let mut certificate = outer.enter(SEQUENCE)?;
    let mut tbs = certificate.enter(SEQUENCE)?;
    // version [0], serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo, …
    tbs.skip_if(CONTEXT_0);
    for _ in ["serialNumber", "signature", "issuer", "validity"] {
        tbs.next()?;
    }
    let mut names = Subject::default();
    read_name(tbs.enter(SEQUENCE)?, &mut names);
    tbs.next()?;
    while let Some((tag, content)) = tbs.next() {
        if tag == CONTEXT_3 {
            read_extensions(Der(content), &mut names);
        }
    }
    Some(names)
}

/// A `Name` is a sequence of sets of attributes, each a type with its value.
fn read_name(mut name: Der<'_>, names: &mut Subject) {
    while let Some(mut set) = name.enter(SET) {
        while let Some(mut attribute) = set.enter(SEQUENCE) {
            let Some((OBJECT_IDENTIFIER, kind)) = attribute.next() else {
                continue;
            };
            let text = attribute.next().and_then(|(tag, value)| text(tag, value));
            match (kind, text) {
                (COMMON_NAME, Some(text)) => names.common_name = Some(text),
                (ORGANIZATION, Some(text)) => names.organizations.push(text),
                _ => {}
            }
        }
    }
}

fn read_extensions(mut content: Der<'_>, names: &mut Subject) {
    let Some(mut extensions) = content.enter(SEQUENCE) else {
        return;
    };
    while let Some(mut extension) = extensions.enter(SEQUENCE) {
        if extension.next() != Some((OBJECT_IDENTIFIER, SUBJECT_ALT_NAME)) {
            continue;
        }
        extension.skip_if(BOOLEAN);
        let Some((OCTET_STRING, value)) = extension.next() else {
            continue;
        };
        let Some(mut alternatives) = Der(value).enter(SEQUENCE) else {
            continue;
        };
        while let Some((tag, value)) = alternatives.next() {
            let Some(text) = ascii(value) else { continue };
            match tag {
                DNS_NAME => names.dns.push(text),
                URI => names.uris.push(text),
                _ => {}
            }
        }
    }
}

/// The strings that names are made of today; the older ones are not read.
fn text(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING => String::from_utf8(value.to_vec()).ok(),
        PRINTABLE_STRING | IA5_STRING => ascii(value),
        _ => None,
    }
    .filter(|text| !text.is_empty() && !text.chars().any(char::is_control))
}

fn ascii(value: &[u8]) -> Option<String> {
    let is_plain = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_plain.then(|| value.iter().copied().map(char::from).collect())
}

//--- DER

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;
/// `GeneralName` (RFC 5280 §4.2.1.6).
const DNS_NAME: u8 = 0x82;
const URI: u8 = 0x86;

/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.4.10
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// The unread rest of a constructed value.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value: its tag and content. Ends at what is no DER.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        // A tag number beyond 30 is in no certificate.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match first {
            short @ 0..=0x7f => (usize::from(short), rest),
            0x81 => rest
                .split_first()
                .map(|(n, rest)| (usize::from(*n), rest))?,
            0x82 => {
                let (&[high, low], rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_be_bytes([high, low])), rest)
            }
            // A certificate is smaller than 64 KiB in each part.
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The next value, if it has this tag.
    fn enter(&mut self, wanted: u8) -> Option<Self> {
        let mut ahead = *self;
        let (tag, content) = ahead.next()?;
        (tag == wanted).then(|| {
            *self = ahead;
            Self(content)
        })
    }

    /// Passes the next value over if it has this tag.
    fn skip_if(&mut self, tag: u8) {
        let _skipped = self.enter(tag);
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate() -> Vec<u8> {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "master-1");
        name.push(DnType::OrganizationName, "ops");
        params.subject_alt_names = vec![
            SanType::DnsName("master-1.example.org".try_into().unwrap()),
            SanType::URI("spiffe://example.org/node/1".try_into().unwrap()),
            SanType::IpAddress("192.0.2.1".parse().unwrap()),
        ];
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_read_from_a_certificate() {
        let names = subject(&certificate()).unwrap();
        assert_eq!(names.common_name.as_deref(), Some("master-1"));
        assert_eq!(names.organizations, ["ops"]);
        assert_eq!(names.dns, ["master-1.example.org"]);
        assert_eq!(names.uris, ["spiffe://example.org/node/1"]);
        assert_eq!(names.to_string(), "master-1");
    }

    #[test]
    fn damaged_certificates_do_no_harm() {
        let whole = certificate();
        for end in 0..whole.len() {
            let _names = subject(&whole[..end]);
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let _names = subject(&damaged);
            }
        }
        assert_eq!(subject(b""), None);
    }
}
