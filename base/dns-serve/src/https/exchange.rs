//! Queries in HTTP requests, and the freshness of HTTP responses (RFC 8484).
//!
//! A core: it sees heads and octets, and reads no body.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use dns_wire::records::{RecordRef, Records, Section};
use dns_wire::{Rcode, Type, header};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, StatusCode, Uri};

/// The media type of messages (RFC 8484 §6).
pub(super) const MESSAGE: &str = "application/dns-message";

/// The parameter of the target that has the message (RFC 8484 §4.1.1).
const PARAMETER: &str = "dns=";

/// Padding is not to be there (RFC 8484 §6), and some clients send it.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The part of a request that has its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In its target; this is it.
    Target(Vec<u8>),
    /// In its body.
    Body,
}

/// Why a request is not answered with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// A line for the author of the client.
    pub(super) reason: &'static str,
}

impl Refusal {
    pub(super) const NO_QUERY: Self =
        Self::new(StatusCode::BAD_REQUEST, "the request holds no DNS query");
    pub(super) const BROKEN: Self =
        Self::new(StatusCode::BAD_REQUEST, "the body of the request is broken");
    pub(super) const SLOW: Self = Self::new(
        StatusCode::REQUEST_TIMEOUT,
        "the body of the request did not come in time",
    );
    pub(super) const LONG: Self = Self::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "no query is as long as this message",
    );
    const ELSEWHERE: Self = Self::new(StatusCode::NOT_FOUND, "DNS is at another path");
    const METHOD: Self = Self::new(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST");
    const MEDIA: Self = Self::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "a query is of type application/dns-message",
    );
    const PARAMETER: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "the target has no parameter `dns` with a message in base64url",
    );
    const LONG_TARGET: Self = Self::new(StatusCode::URI_TOO_LONG, Self::LONG.reason);

    const fn new(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason }
    }
}

/// Returns the part of a request for `path` that has its message, of `most` octets at most.
pub(super) fn place(
    (method, target, headers): (&Method, &Uri, &HeaderMap),
    path: &str,
    most: usize,
) -> Result<Place, Refusal> {
    if target.path() != path {
        return Err(Refusal::ELSEWHERE);
    }
    match *method {
        Method::GET => {
            let mut parameters = target.query().unwrap_or_default().split('&');
            let written = parameters.find_map(|it| it.strip_prefix(PARAMETER));
            let written = written.ok_or(Refusal::PARAMETER)?;
            let message = BASE64URL.decode(written);
            let message = message.map_err(|_| Refusal::PARAMETER)?;
            match message.len() > most {
                true => Err(Refusal::LONG_TARGET),
                false => Ok(Place::Target(message)),
            }
        }
        Method::POST => {
            let media = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
            let media = media.and_then(|it| it.split(';').next()).map(str::trim);
            match media.is_some_and(|media| media.eq_ignore_ascii_case(MESSAGE)) {
                true => Ok(Place::Body),
                false => Err(Refusal::MEDIA),
            }
        }
        _ => Err(Refusal::METHOD),
    }
}

/// For how many seconds caches of HTTP may keep a response: as long as its answers, or that there are none,
/// would be kept by a resolver (RFC 8484 §5.1, RFC 2308 §5).
pub(super) fn freshness(response: &[u8]) -> u32 {
    let flags = header::Flags::read(response).unwrap_or_default();
    if !matches!(flags.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) {
        return 0;
    }
    let records = Records::new(response).ok().into_iter().flatten();
    let records: Vec<RecordRef> = records.map_while(Result::ok).collect();
    let answers = records.iter().filter(|it| it.section == Section::Answer);
    if let Some(least) = answers.map(|record| record.ttl).min() {
        return least;
    }
    let soa = records
        .iter()
        .find(|it| it.section == Section::Authority && it.rtype == Type::SOA);
    soa.map_or(0, |soa| {
        let rdata = response.get(soa.rdata.clone()).unwrap_or_default();
        let minimum = rdata.last_chunk().map_or(0, |it| u32::from_be_bytes(*it));
        soa.ttl.min(minimum)
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const PATH: &str = "/dns-query";

    /// The query of RFC 8484 §4.1.1, and as it stands in a target.
    const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
    const WRITTEN: &str = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";

    fn asked(method: &Method, target: &str, media: Option<&'static str>) -> Result<Place, Refusal> {
        let target = Uri::try_from(target).map_err(|_| Refusal::PARAMETER)?;
        let mut headers = HeaderMap::new();
        if let Some(media) = media {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        }
        place((method, &target, &headers), PATH, 64)
    }

    #[test]
    fn a_query_is_found_where_the_standard_puts_it() {
        let found = Ok(Place::Target(QUERY.to_vec()));
        for target in [
            format!("/dns-query?dns={WRITTEN}"),
            format!("/dns-query?ct&dns={WRITTEN}&other=1"),
            format!("https://dns.example.com/dns-query?dns={WRITTEN}"),
        ] {
            assert_eq!(asked(&Method::GET, &target, None), found, "{target}");
        }
        let padded = asked(&Method::GET, "/dns-query?dns=AAE=", None);
        assert_eq!(padded, Ok(Place::Target(vec![0, 1])));
        for media in [
            "application/dns-message",
            "Application/DNS-Message; charset=utf-8",
        ] {
            let found = asked(&Method::POST, PATH, Some(media));
            assert_eq!(found, Ok(Place::Body), "{media}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused_with_the_status_that_says_why() {
        let long = format!("/dns-query?dns={}", "A".repeat(88));
        for (method, target, media, status) in [
            (Method::GET, "/", None, 404),
            (Method::GET, "/dns-query/", None, 404),
            (Method::POST, "/dns-queryx", Some(MESSAGE), 404),
            (Method::GET, PATH, None, 400),
            (Method::GET, "/dns-query?DNS=AAAA", None, 400),
            (Method::GET, "/dns-query?dns=AA+A", None, 400),
            (Method::GET, "/dns-query?dns=AAAAA", None, 400),
            (Method::GET, &long, None, 414),
            (Method::POST, PATH, None, 415),
            (Method::POST, PATH, Some("application/dns-json"), 415),
            (Method::PUT, PATH, Some(MESSAGE), 405),
            (Method::HEAD, PATH, None, 405),
        ] {
            let refused = asked(&method, target, media).unwrap_err();
            assert_eq!(refused.status, status, "{method} {target} {media:?}");
        }
    }

    /// A response to [`QUERY`] with records, of no name to speak of.
    fn response(rcode: u8, sections: [&[(Type, u32, &[u8])]; 3]) -> Vec<u8> {
        let mut message = QUERY.to_vec();
        message[2] = 0x84;
        message[3] = rcode;
        for (records, count) in sections.iter().zip([7, 9, 11]) {
            message[count] = u8::try_from(records.len()).unwrap();
            for (rtype, ttl, rdata) in *records {
                message.push(0);
                message.extend(rtype.0.to_be_bytes());
                message.extend([0, 1]);
                message.extend(ttl.to_be_bytes());
                message.extend(u16::try_from(rdata.len()).unwrap().to_be_bytes());
                message.extend_from_slice(rdata);
            }
        }
        message
    }

    #[test]
    fn a_response_is_as_fresh_as_what_it_says() {
        let soa = [&[0; 2][..], &[0; 16], &30_u32.to_be_bytes()].concat();
        let a: &[u8] = &[192, 0, 2, 1];
        let (a, short) = ((Type::A, 300, a), (Type::A, 20, a));
        let (late, early) = ((Type::SOA, 60, &soa[..]), (Type::SOA, 10, &soa[..]));
        for (rcode, sections, seconds) in [
            (0, [&[a, short][..], &[], &[]], 20),
            (0, [&[a], &[early], &[]], 300),
            (0, [&[a], &[], &[short]], 300),
            (0, [&[], &[late], &[]], 30),
            (3, [&[], &[early], &[]], 10),
            // A referral says nothing about the name itself, and an error nothing at all.
            (0, [&[], &[(Type::NS, 300, &[0][..])], &[short]], 0),
            (2, [&[a], &[], &[]], 0),
            (5, [&[], &[], &[]], 0),
        ] {
            let response = response(rcode, sections);
            assert_eq!(freshness(&response), seconds, "{rcode} {sections:?}");
        }
        assert_eq!(freshness(b"\0\0"), 0);
    }
}
