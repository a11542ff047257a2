//! Response-rate limiting of datagrams: a client beyond the limit gets a response that makes it ask again over TCP, as a forged address
//! cannot, or no response.
//!
//! A query with a valid cookie (RFC 7873) is never limited: its client owns its address. Only a client beyond the limit costs the
//! check.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use config::Networks;
use daemon::udp::Outcome;
use dns_cookie::{CookieState, Cookies};
use dns_rrl::Buckets;
use dns_wire::Flags;
use dns_wire::Query;
use dns_wire::edns::option;
use dns_wire::query::reply_without_data;

use crate::cookies;

/// The buckets of a service: half a MiB, once there is a limit.
const BUCKETS: usize = 1 << 16;

/// The buckets and the counts, which outlive a configuration.
#[derive(Clone, Debug)]
pub struct RateLimits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    buckets: OnceLock<Buckets>,
    start: Instant,
    truncated: AtomicU64,
    dropped: AtomicU64,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self(Arc::new(Shared {
            buckets: OnceLock::new(),
            start: daemon::clock::now(),
            truncated: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }))
    }
}

impl RateLimits {
    /// The limit of a configuration, if it has one.
    #[must_use]
    pub fn of(&self, options: &config::ResponseRateLimit) -> Option<RateLimit> {
        Some(RateLimit {
            shared: Arc::clone(&self.0),
            rate: options.responses_per_second?.get(),
            slip: options.slip.get(),
            exempt: options.exempt_clients.clone(),
        })
    }

    /// How many queries were answered with TC alone, and how many not at all, with the names of these actions.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("truncated", read(&self.0.truncated)),
            ("dropped", read(&self.0.dropped)),
        ]
    }
}

/// The limit of one configuration.
#[derive(Clone, Debug)]
pub struct RateLimit {
    shared: Arc<Shared>,
    rate: u32,
    slip: u32,
    exempt: Networks,
}

impl RateLimit {
    /// Counts a query over UDP. `None` within the limit; beyond it the fate of the query: a response with the question and TC, or
    /// none. Queries of this node itself are not counted.
    pub fn check(
        &self,
        client: IpAddr,
        message: &[u8],
        cookies: Option<&Cookies>,
        out: &mut [u8],
    ) -> Option<Outcome> {
        let shared = &*self.shared;
        let buckets = shared.buckets.get_or_init(|| Buckets::new(BUCKETS));
        let elapsed = daemon::clock::now().duration_since(shared.start);
        // Wraps after 49 days, which the buckets know.
        let now = u32::try_from(elapsed.as_millis() & u128::from(u32::MAX)).unwrap_or_default();
        if client.to_canonical().is_loopback()
            || self.exempt.0.contains(client)
            || buckets.take(client, now, self.rate)
        {
            return None;
        }
        let query = Query::parse(message).ok();
        if let Some(query) = &query
            && let Some(cookies) = cookies
            && proves_address(query, client, cookies)
        {
            return None;
        }
        let number =
            shared.truncated.load(Ordering::Relaxed) + shared.dropped.load(Ordering::Relaxed);
        let is_told = self.slip != 0 && number.is_multiple_of(u64::from(self.slip));
        let length = query.filter(|_| is_told).and_then(|query| {
            let flags = query.flags.of_response().with(Flags::TC);
            reply_without_data(&query, flags, out)
        });
        Some(match length {
            Some(length) => {
                shared.truncated.fetch_add(1, Ordering::Relaxed);
                Outcome::Reply(length)
            }
            None => {
                shared.dropped.fetch_add(1, Ordering::Relaxed);
                Outcome::Silent
            }
        })
    }
}

fn proves_address(query: &Query<'_>, client: IpAddr, cookies: &Cookies) -> bool {
    let edns = query.edns.filter(|edns| edns.version == 0);
    let data = edns.and_then(|edns| edns.option(option::COOKIE));
    data.is_some_and(|data| {
        let checked = cookies.secrets.check(data, client, cookies::clock());
        checked.cookie_state == CookieState::Proven
    })
}

#[cfg(test)]
mod tests {
    use dns_cookie::Secrets;

    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x03Api\x07example\0\0\x01\0\x01";
    const CLIENT: &str = "192.0.2.1";

    fn limit(rate: i64, slip: i64) -> (RateLimits, RateLimit) {
        let limits = RateLimits::default();
        let options = config::ResponseRateLimit {
            responses_per_second: Some(config::Whole::clamped(rate)),
            slip: config::Whole::clamped(slip),
            exempt_clients: Networks("198.51.100.0/24".parse().unwrap()),
        };
        let limit = limits.of(&options).unwrap();
        (limits, limit)
    }

    fn check(
        limit: &RateLimit,
        client: &str,
        message: &[u8],
        cookies: Option<&Cookies>,
    ) -> Option<Outcome> {
        limit.check(client.parse().unwrap(), message, cookies, &mut [0; 512])
    }

    /// Uses up what an address may have at once.
    fn use_up(limit: &RateLimit) {
        for _ in 0..100 {
            check(limit, CLIENT, QUERY, None);
        }
    }

    #[test]
    fn nothing_is_limited_without_a_rate() {
        let limits = RateLimits::default();
        assert!(limits.of(&config::ResponseRateLimit::default()).is_none());
    }

    #[test]
    fn a_client_beyond_the_limit_is_sent_to_tcp() {
        let (limits, limit) = limit(1, 1);
        use_up(&limit);
        let mut out = [0; 512];
        let limited = limit.check(CLIENT.parse().unwrap(), QUERY, None, &mut out);
        let Some(Outcome::Reply(length)) = limited else {
            panic!("{limited:?}");
        };
        assert_eq!(length, QUERY.len(), "no larger than the query");
        let flags = Flags::read(&out).unwrap();
        assert!(flags.has(Flags::QR) && flags.has(Flags::TC) && flags.has(Flags::RD));
        assert_eq!(out[..2], QUERY[..2]);
        assert_eq!(out[12..length], QUERY[12..]);
        assert_eq!(
            check(&limit, "203.0.113.1", QUERY, None),
            None,
            "another client"
        );
        assert_eq!(
            check(&limit, CLIENT, b"\x12\x34", None),
            Some(Outcome::Silent)
        );
        assert!(
            limits.counts()[0].1 > 90 && limits.counts()[1].1 == 1,
            "{:?}",
            limits.counts()
        );
    }

    #[test]
    fn slip_says_how_many_are_told() {
        for (slip, told) in [(0, 0), (1, 100), (2, 50), (10, 10)] {
            let (limits, limit) = limit(1, slip);
            while check(&limit, CLIENT, QUERY, None).is_none() {}
            let before = limits.counts()[0].1;
            let is_first_told = u64::from(slip != 0);
            assert_eq!(before, is_first_told, "{slip}");
            for _ in 0..99 {
                check(&limit, CLIENT, QUERY, None);
            }
            // A second may have given one more response than were asked for here.
            let found = limits.counts()[0].1;
            assert!(found.abs_diff(told) <= 2, "{found} of {told} with {slip}");
        }
    }

    #[test]
    fn the_node_itself_listed_networks_and_proven_clients_are_not_limited() {
        let (_, limit) = limit(1, 1);
        let all_pass =
            |client: &str| (0..100).all(|_| check(&limit, client, QUERY, None).is_none());
        assert!(all_pass("127.0.0.1") && all_pass("::1") && all_pass("::ffff:127.0.0.1"));
        assert!(all_pass("198.51.100.7"));
        assert!(!all_pass(CLIENT));

        let cookies = Cookies {
            secrets: Secrets::alone([5; 16]),
            is_required: false,
        };
        let with = |data: &[u8]| {
            let length = u8::try_from(data.len()).unwrap();
            let opt = [
                &[
                    0,
                    0,
                    41,
                    4,
                    208,
                    0,
                    0,
                    0,
                    0,
                    0,
                    length + 4,
                    0,
                    10,
                    0,
                    length,
                ],
                data,
            ]
            .concat();
            let mut message = [QUERY, &opt].concat();
            message[11] = 1;
            message
        };
        let new = cookies
            .secrets
            .check(&[1; 8], CLIENT.parse().unwrap(), cookies::clock());
        let cookie = new.cookie.unwrap();
        assert_eq!(check(&limit, CLIENT, &with(&cookie), Some(&cookies)), None);
        for forged in [&[1; 8][..], &[1; 24]] {
            let found = check(&limit, CLIENT, &with(forged), Some(&cookies));
            assert!(matches!(found, Some(Outcome::Reply(_))), "{found:?}");
        }
        assert!(
            check(&limit, "192.0.2.1", &with(&cookie), None).is_some(),
            "cookies are off"
        );
    }
}
