//! Pieces of the zone that people write into a site file, read by what the DNS server reads them
//! with too.

use dns_wire::rdata::{self, seconds};
use dns_wire::{Name, Type};

use site::Record;

/// Whether a record can stand in the zone of a domain; the words say why not.
pub(super) fn check_record(domain: &str, record: &Record) -> Result<(), String> {
    let Record {
        name, rtype, value, ..
    } = record;
    let apex = Name::parse(&format!("{domain}.")).map_err(|error| error.to_string())?;
    if name != "@" {
        Name::parse_relative(name, &apex)
            .map_err(|error| format!("`{name}`: {error}; shorten it"))?;
    }
    let code: Type = rtype.parse().map_err(|_| {
        format!("`{rtype}` is no type of records, as in \"CNAME\", \"MX\" or \"TXT\"")
    })?;
    if code == Type::SOA {
        return Err("the zone has its SOA from [dns]; set `serial`, `refresh`, `retry`, `expire` and `minimum` there".to_owned());
    }
    if value.chars().any(char::is_control) {
        return Err("a value is one line without control characters; take them out".to_owned());
    }
    if has_layout(value) {
        return Err("a value has neither comments nor parentheses outside of quotes; quote the text, or take them out".to_owned());
    }
    rdata::from_text(code, value, &apex)
        .map(drop)
        .map_err(|error| {
            format!("`{value}` is no {rtype} record: {error}; write it as in a master file")
        })
}

/// Whether a span of time is one that master files have, as in `3H` or `1W2D`.
pub(super) fn check_time(span: &str) -> Result<(), String> {
    match seconds(span.as_bytes()) {
        Some(_) => Ok(()),
        None => Err(format!(
            "`{span}` is no span of time, as in 180, 3H or 1W2D"
        )),
    }
}

/// Whether there is anything outside of quotes that lays out a master file (RFC 1035 §5.1) and is
/// no part of a value.
fn has_layout(value: &str) -> bool {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for letter in value.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' | '(' | ')' if !is_quoted => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_what_the_server_takes() {
        for (name, rtype, value, said) in [
            ("helper", "TXT", "\"two words\" more", None),
            ("_etcd._tcp", "SRV", "0 10 2380 etcd-0", None),
            ("www", "CNAME", "helper", None),
            ("live", "LUA", "A \"ifportup(80, {'192.0.2.1'})\"", None),
            ("mail", "mx", "10 mail.example.com.", None),
            ("a", "A", "192.0.2.300", Some("192.0.2.300")),
            ("a", "A", "192.0.2.3 ; why", Some("comments")),
            ("a", "NOSUCH", "1", Some("NOSUCH")),
            ("a", "A B", "1", Some("no type")),
            ("a", "", "1", Some("no type")),
            ("@", "SOA", "a b 1 1 1 1 1", Some("[dns]")),
            ("a", "TXT", "\"open", Some("quote")),
            ("a", "TXT", "(x", Some("parentheses")),
            ("a", "TXT", "\"(x;\" \\;", None),
            ("a", "TXT", "x\nb A 192.0.2.1", Some("one line")),
            ("@", "NS", "other", None),
        ] {
            let record = Record {
                name: name.to_owned(),
                ttl: Some(60),
                rtype: rtype.to_owned(),
                value: value.to_owned(),
            };
            let result = check_record("example.org", &record);
            match said {
                None => assert_eq!(result, Ok(()), "{name} {rtype} {value}"),
                Some(said) => {
                    let error = result.expect_err(value);
                    assert!(error.contains(said), "{rtype} {value}: {error}");
                }
            }
        }
    }

    #[test]
    fn times_are_those_of_master_files() {
        for right in ["180", "3H", "1w2d"] {
            assert_eq!(check_time(right), Ok(()), "{right}");
        }
        for wrong in ["", "3 H", "3X", "(1", "-1", "99999999999"] {
            assert!(check_time(wrong).is_err(), "{wrong}");
        }
    }
}
