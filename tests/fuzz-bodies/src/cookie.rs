//! Any bytes as the data of a COOKIE option: nobody without the secret gets a cookie accepted, and everybody's new one is good.

use std::net::{IpAddr, Ipv4Addr};

use dns_cookie::{CookieState, Secrets};

/// The time of the cookies.
const NOW: u32 = 1_800_000_000;
/// The client.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

pub(super) fn body(data: &[u8]) {
    let secrets = Secrets::alone(*b"a server's own 1");
    let checked = secrets.check(data, CLIENT, NOW);
    match checked.cookie_state {
        CookieState::New => assert_eq!(data.len(), 8),
        CookieState::Bad => assert!((16..=40).contains(&data.len())),
        CookieState::Malformed => {
            assert!(data.len() != 8 && !(16..=40).contains(&data.len()));
            assert_eq!(checked.cookie, None);
        }
        CookieState::None | CookieState::Proven => panic!("a forged cookie"),
    }
    let Some(cookie) = checked.cookie else {
        return;
    };
    assert_eq!(cookie[..8], data[..8]);
    let again = secrets.check(&cookie, CLIENT, NOW);
    assert_eq!(
        (again.cookie_state, again.cookie),
        (CookieState::Proven, Some(cookie))
    );
    let other = secrets.check(&cookie, Ipv4Addr::LOCALHOST.into(), NOW);
    assert_eq!(
        other.cookie_state,
        CookieState::Bad,
        "a cookie of another client"
    );
    let text = String::from_utf8_lossy(data);
    drop(text.parse::<Secrets>());
}
