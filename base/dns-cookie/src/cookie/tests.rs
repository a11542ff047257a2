use super::*;

fn octets(digits: &str) -> Vec<u8> {
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    let pair = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(pair).collect()
}

const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const NOW: u32 = 1_559_731_985;

fn client() -> IpAddr {
    "198.51.100.100".parse().unwrap()
}

/// RFC 9018 appendix A: secrets, the client, the time, the option of the query, what it proves, that of the response.
#[test]
fn the_vectors_of_the_standard_hold() {
    let first = "2464c4abcf10c957";
    let learned = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
    let both = "445536bcd2513298075a5d379663c962\ndd3bdf9344b678b185a6f5cb60fca715\n";
    let rows = [
        (SECRET, "198.51.100.100", NOW, first, Standing::New, learned),
        (
            SECRET,
            "198.51.100.100",
            1_559_734_385,
            learned,
            Standing::Proven,
            "2464c4abcf10c957010000005cf7a871d4a564a1442aca77",
        ),
        (
            SECRET,
            "203.0.113.203",
            1_559_734_700,
            "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5",
            Standing::Bad,
            "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e",
        ),
        (
            both,
            "2001:db8:220:1:59de:d0f4:8769:82b8",
            1_559_741_961,
            "22681ab97d52c298010000005cf7c57926556bd0934c72f8",
            Standing::Proven,
            "22681ab97d52c298010000005cf7c609a6bb79d16625507a",
        ),
    ];
    for (secrets, client, now, sent, standing, answered) in rows {
        let secrets: Secrets = secrets.parse().unwrap();
        let checked = secrets.check(&octets(sent), client.parse().unwrap(), now);
        let cookie = checked.cookie.map(|cookie| cookie.to_vec());
        assert_eq!(
            (checked.standing, cookie),
            (standing, Some(octets(answered))),
            "{client}"
        );
    }
}

/// The same appendix: octets that a server must ignore, but hash.
#[test]
fn reserved_octets_may_be_anything_and_are_part_of_the_hash() {
    let secrets: Secrets = SECRET.parse().unwrap();
    let mut cookie = octets("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5");
    let client = "203.0.113.203".parse().unwrap();
    let made = 0x5cf7_8f71;
    assert_eq!(
        secrets.check(&cookie, client, made + 60).standing,
        Standing::Proven
    );
    cookie[9] ^= 1;
    assert_eq!(
        secrets.check(&cookie, client, made + 60).standing,
        Standing::Bad
    );
}

#[test]
fn a_cookie_is_good_for_an_hour_and_replaced_after_half_of_it() {
    let secrets: Secrets = SECRET.parse().unwrap();
    let cookie = secrets.check(&[7; 8], client(), NOW).cookie.unwrap();
    for (age, standing, is_kept) in [
        (-301, Standing::Bad, false),
        (-300, Standing::Proven, true),
        (0, Standing::Proven, true),
        (1799, Standing::Proven, true),
        (1800, Standing::Proven, false),
        (3600, Standing::Proven, false),
        (3601, Standing::Bad, false),
    ] {
        let checked = secrets.check(&cookie, client(), NOW.wrapping_add_signed(age));
        let kept = checked.cookie == Some(cookie);
        assert_eq!((checked.standing, kept), (standing, is_kept), "{age} s");
    }
    // The time wraps.
    let cookie = secrets
        .check(&[7; 8], client(), u32::MAX - 5)
        .cookie
        .unwrap();
    assert_eq!(
        secrets.check(&cookie, client(), 10).standing,
        Standing::Proven
    );
}

#[test]
fn a_cookie_belongs_to_its_client_and_its_address() {
    let secrets: Secrets = SECRET.parse().unwrap();
    let cookie = secrets.check(&[7; 8], client(), NOW).cookie.unwrap();
    let standing =
        |cookie: &[u8], client: &str| secrets.check(cookie, client.parse().unwrap(), NOW).standing;
    assert_eq!(standing(&cookie, "::ffff:198.51.100.100"), Standing::Proven);
    assert_eq!(standing(&cookie, "198.51.100.101"), Standing::Bad);
    assert_eq!(standing(&cookie, "2001:db8::1"), Standing::Bad);
    for place in 0..LENGTH {
        let mut other = cookie;
        other[place] ^= 0x10;
        assert_eq!(
            standing(&other, "198.51.100.100"),
            Standing::Bad,
            "octet {place}"
        );
    }
    let other = Secrets::alone([1; 16]);
    assert_eq!(other.check(&cookie, client(), NOW).standing, Standing::Bad);
}

#[test]
fn lengths_outside_the_standard_are_malformed() {
    let secrets: Secrets = SECRET.parse().unwrap();
    for length in 0..64 {
        let checked = secrets.check(&vec![1; length], client(), NOW);
        let standing = match length {
            8 => Standing::New,
            16..=40 => Standing::Bad,
            _ => Standing::Malformed,
        };
        assert_eq!(checked.standing, standing, "{length} octets");
        assert_eq!(checked.cookie.is_none(), standing == Standing::Malformed);
    }
}

/// A new secret comes to the nodes one after the other: as the second, then as the first, then alone.
#[test]
fn a_change_of_secrets_is_seen_by_no_client() {
    let (old, new) = (SECRET, "445536bcd2513298075a5d379663c962");
    let stages = [
        old.to_owned(),
        format!("{old}\n{new}"),
        format!("{new}\n{old}"),
        new.to_owned(),
    ];
    let stages = stages.map(|text| text.parse::<Secrets>().unwrap());
    for pair in stages.windows(2) {
        let [one, other] = pair else { unreachable!() };
        for (maker, reader) in [(one, other), (other, one)] {
            let cookie = maker.check(&[7; 8], client(), NOW).cookie.unwrap();
            assert_eq!(
                reader.check(&cookie, client(), NOW).standing,
                Standing::Proven
            );
        }
    }
}

#[test]
fn a_file_of_secrets_is_read_and_its_mistakes_say_where() {
    let parse = |text: &str| text.parse::<Secrets>();
    let two = parse(&format!(
        "# the site's\n{SECRET}  # since May\n\n{SECRET}\n"
    ))
    .unwrap();
    assert_eq!(format!("{two:?}"), "2 secrets");
    assert_eq!(parse("\n# none\n"), Err(SecretError::Empty));
    assert_eq!(parse("\nabc"), Err(SecretError::Line(2)));
    assert_eq!(
        parse(&format!("+{}", &SECRET[1..])),
        Err(SecretError::Line(1))
    );
    assert_eq!(
        parse(&format!("{SECRET}\n").repeat(5)),
        Err(SecretError::TooMany)
    );
}
