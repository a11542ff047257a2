//! Names in text and on the wire, good and bad.

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn text_reads_back_as_written() {
    for text in [
        ".",
        "a.",
        "Api.Ocp4.Redhat.Ren.",
        "*.apps.",
        "a\\.b.c.",
        "\\000\\255.x.",
        "x\\@y.",
        "\\032.",
    ] {
        assert_eq!(name(text).to_string(), text);
    }
    assert_eq!(name("a.b").to_string(), "a.b.");
    assert_eq!(name("\\065\\b.").to_string(), "Ab.");
}

#[test]
fn text_that_is_no_name_is_refused() {
    let long_label = "x".repeat(64);
    let long_name = format!("{}.", "abcdefg.".repeat(32));
    let table = [
        ("", NameError::EmptyLabel),
        ("..", NameError::EmptyLabel),
        (".a", NameError::EmptyLabel),
        ("a..b", NameError::EmptyLabel),
        ("a\\", NameError::Escape),
        ("a\\25", NameError::Escape),
        ("a\\256", NameError::Escape),
        (&long_label, NameError::LongLabel),
        (&long_name, NameError::LongName),
    ];
    for (text, error) in table {
        assert_eq!(Name::parse(text), Err(error), "{text}");
    }
}

#[test]
fn the_longest_name_has_255_octets() {
    let longest = format!("{}{}.", "abcdefg.".repeat(31), "abcde");
    assert_eq!(name(&longest).as_wire().len(), MAX_NAME);
    assert_eq!(name(&longest).prepend(b"x"), Err(NameError::LongName));
    let wire = name(&longest).as_wire().to_vec();
    assert_eq!(Name::from_wire(&wire).unwrap().1, MAX_NAME);
    assert_eq!(
        Name::from_wire(&[b"\x01x", &wire[..]].concat()),
        Err(NameError::LongName)
    );
}

#[test]
fn relative_text_is_below_its_origin() {
    let origin = name("ocp4.redhat.ren");
    let join = |text| Name::parse_relative(text, &origin).unwrap().to_string();
    assert_eq!(join("api"), "api.ocp4.redhat.ren.");
    assert_eq!(join("api."), "api.");
    assert_eq!(join("."), ".");
    assert_eq!(join("x\\."), "x\\..ocp4.redhat.ren.");
}

#[test]
fn case_does_not_count_but_is_kept() {
    use std::collections::HashSet;
    let (upper, lower) = (name("API.Example."), name("api.example."));
    assert_eq!(upper, lower);
    assert_eq!(upper.cmp(&lower), Ordering::Equal);
    assert!(HashSet::from([upper.clone()]).contains(&lower));
    assert_eq!(upper.to_string(), "API.Example.");
    assert_eq!(upper.to_lowercase().to_string(), "api.example.");
}

#[test]
fn order_is_the_canonical_one_of_rfc_4034() {
    let sorted = [
        "example.",
        "a.example.",
        "yljkjljk.a.example.",
        "Z.a.example.",
        "zABC.a.EXAMPLE.",
        "z.example.",
        "\\001.z.example.",
        "*.z.example.",
        "\\200.z.example.",
    ];
    let names: Vec<Name> = sorted.iter().map(|text| name(text)).collect();
    assert!(names.is_sorted());
}

#[test]
fn families_of_names() {
    let deep = name("c.apps.example.");
    assert_eq!(deep.parent(), Some(name("apps.example.")));
    assert_eq!(Name::root().parent(), None);
    assert_eq!(deep.suffix(1), name("example."));
    assert_eq!(deep.suffix(9), deep);
    assert_eq!(deep.suffix(0), Name::root());
    assert!(deep.is_within(&name("APPS.example.")) && deep.is_within(&deep));
    assert!(deep.is_within(&Name::root()));
    assert!(!name("xapps.example.").is_within(&name("apps.example.")));
    assert!(!name("example.").is_within(&deep));
    assert!(name("*.a.").is_wildcard() && !name("**.a.").is_wildcard());
    assert_eq!(name("a.b.").append(&name("c.")).unwrap(), name("a.b.c."));
}

#[test]
fn pointers_are_followed_backwards_only() {
    let message = b"\x00\x03com\x00\x01a\xc0\x01\xc0\x06\xc0\x0c\xc0\x0f\x01x\xc0\x99";
    assert_eq!(Name::read(message, 6), Ok((name("a.com."), 10)));
    assert_eq!(Name::read(message, 10), Ok((name("a.com."), 12)));
    assert_eq!(Name::read(message, 12), Err(NameError::Pointer));
    assert_eq!(Name::read(message, 14), Err(NameError::Pointer));
    assert_eq!(Name::read(message, 16), Err(NameError::Pointer));
    assert_eq!(Name::read(message, 999), Err(NameError::Short));
    assert_eq!(skip(message, 6), Ok(10));
    assert_eq!(Name::read(b"\x40a\x00", 0), Err(NameError::Pointer));
}

#[test]
fn a_long_chain_of_pointers_ends() {
    let mut message = vec![1, b'x', 0];
    let mut target = 0_u16;
    for _ in 0..MAX_JUMPS + 1 {
        let here = u16::try_from(message.len()).unwrap();
        message.extend((0xc000 | target).to_be_bytes());
        target = here;
    }
    assert_eq!(
        Name::read(&message, usize::from(target)),
        Err(NameError::Pointer)
    );
    assert!(Name::read(&message, usize::from(target) - 2).is_ok());
}

#[test]
fn any_bytes_are_read_without_panic() {
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..24)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                [0, 1, 2, 3, 0xc0, 0x3f, b'a', seed.to_be_bytes()[3]][(seed >> 33) as usize % 8]
            })
            .collect();
        for offset in 0..26 {
            if let Ok((name, behind)) = Name::read(&bytes, offset) {
                assert!(name.as_wire().len() <= MAX_NAME && behind <= bytes.len());
                assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
