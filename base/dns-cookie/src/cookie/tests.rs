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
        (
            SECRET,
            "198.51.100.100",
            NOW,
            first,
            CookieState::New,
            learned,
        ),
        (
            SECRET,
            "198.51.100.100",
            1_559_734_385,
            learned,
            CookieState::Proven,
            "2464c4abcf10c957010000005cf7a871d4a564a1442aca77",
        ),
        (
            SECRET,
            "203.0.113.203",
            1_559_734_700,
            "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5",
            CookieState::Bad,
            "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e",
        ),
        (
            both,
            "2001:db8:220:1:59de:d0f4:8769:82b8",
            1_559_741_961,
            "22681ab97d52c298010000005cf7c57926556bd0934c72f8",
            CookieState::Proven,
            "22681ab97d52c298010000005cf7c609a6bb79d16625507a",
        ),
    ];
    for (secrets, client, now, sent, cookie_state, answered) in rows {
        let secrets: Secrets = secrets.parse().unwrap();
        let checked = secrets.check(&octets(sent), client.parse().unwrap(), now);
        let cookie = checked.cookie.map(|cookie| cookie.to_vec());
        assert_eq!(
            (checked.cookie_state, cookie),
            (cookie_state, Some(octets(answered))),
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
        secrets.check(&cookie, client, made + 60).cookie_state,
        CookieState::Proven
    );
    cookie[9] ^= 1;
    assert_eq!(
        secrets.check(&cookie, client, made + 60).cookie_state,
        CookieState::Bad
    );
}

#[test]
fn a_cookie_is_good_for_an_hour_and_replaced_after_half_of_it() {
    let secrets: Secrets = SECRET.parse().unwrap();
    let cookie = secrets.check(&[7; 8], client(), NOW).cookie.unwrap();
    for (age, cookie_state, is_kept) in [
        (-301, CookieState::Bad, false),
        (-300, CookieState::Proven, true),
        (0, CookieState::Proven, true),
        (1799, CookieState::Proven, true),
        (1800, CookieState::Proven, false),
        (3600, CookieState::Proven, false),
        (3601, CookieState::Bad, false),
    ] {
        let checked = secrets.check(&cookie, client(), NOW.wrapping_add_signed(age));
        let kept = checked.cookie == Some(cookie);
        assert_eq!(
            (checked.cookie_state, kept),
            (cookie_state, is_kept),
            "{age} s"
        );
    }
    // The time wraps.
    let cookie = secrets
        .check(&[7; 8], client(), u32::MAX - 5)
        .cookie
        .unwrap();
    assert_eq!(
        secrets.check(&cookie, client(), 10).cookie_state,
        CookieState::Proven
    );
}

#[test]
fn a_cookie_belongs_to_its_client_and_its_address() {
    let secrets: Secrets = SECRET.parse().unwrap();
    let cookie = secrets.check(&[7; 8], client(), NOW).cookie.unwrap();
    let cookie_state = |cookie: &[u8], client: &str| {
        secrets
            .check(cookie, client.parse().unwrap(), NOW)
            .cookie_state
    };
    assert_eq!(
        cookie_state(&cookie, "::ffff:198.51.100.100"),
        CookieState::Proven
    );
    assert_eq!(cookie_state(&cookie, "198.51.100.101"), CookieState::Bad);
    assert_eq!(cookie_state(&cookie, "2001:db8::1"), CookieState::Bad);
    for place in 0..LENGTH {
        let mut other = cookie;
        other[place] ^= 0x10;
        assert_eq!(
            cookie_state(&other, "198.51.100.100"),
            CookieState::Bad,
            "octet {place}"
        );
    }
    let other = Secrets::alone([1; 16]);
    assert_eq!(
        other.check(&cookie, client(), NOW).cookie_state,
        CookieState::Bad
    );
}

#[test]
fn lengths_outside_the_standard_are_malformed() {
    let secrets: Secrets = SECRET.parse().unwrap();
    for length in 0..64 {
        let checked = secrets.check(&vec![1; length], client(), NOW);
        let cookie_state = match length {
            8 => CookieState::New,
            16..=40 => CookieState::Bad,
            _ => CookieState::Malformed,
        };
        assert_eq!(checked.cookie_state, cookie_state, "{length} octets");
        assert_eq!(
            checked.cookie.is_none(),
            cookie_state == CookieState::Malformed
        );
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
                reader.check(&cookie, client(), NOW).cookie_state,
                CookieState::Proven
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
        parse(&SECRET.replacen(|_| true, "+", 1)),
        Err(SecretError::Line(1))
    );
    assert_eq!(
        parse(&format!("{SECRET}\n").repeat(5)),
        Err(SecretError::TooMany)
    );
}
