//! The options that both DNS servers have.

use std::path::PathBuf;

use cidrs::Cidrs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Networks, Whole};

/// DNS cookies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cookies {
    /// Whether the server answers the COOKIE option.
    pub answer_cookie: bool,
    /// The file with the secret of the server's cookies: 32 hexadecimal digits, such as those of `openssl rand -hex 16`. Servers
    /// with the same secret accept each other's cookies. To change it without a failed cookie, add the new secret as the second
    /// line on every server, then swap the lines, then remove the old one after an hour; reload after each step. A relative path
    /// starts at the directory of the configuration file. Default: a random secret for each process.
    #[schemars(extend("x-example" = "\"/etc/outpost/cookie.secret\""))]
    pub cookie_secret_file: Option<PathBuf>,
    /// Whether the server responds BADCOOKIE, with a new cookie, to a query over UDP that has a COOKIE option without a valid
    /// server cookie. Otherwise it answers such a query like one without the option. It always answers queries without the option.
    pub require_server_cookie: bool,
    /// The largest UDP response to a client without a valid cookie, in octets. A longer answer is cut (TC), and the client asks
    /// again over TCP: a forged source address then gains little.
    pub nocookie_udp_size: Whole<u16, 512, 4096>,
}

impl Default for Cookies {
    fn default() -> Self {
        Self {
            answer_cookie: true,
            cookie_secret_file: None,
            require_server_cookie: false,
            nocookie_udp_size: Whole::clamped(1232),
        }
    }
}

/// The limit of responses over UDP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ResponseRateLimit {
    /// The responses a second that one address may get. The networks around it have more: a /24 32 times, a /20 256 times, a /18
    /// 768 times as many; an IPv6 /64 twice, a /56 three times, a /48 four times, a /32 64 times. The responses of 2.5 seconds may
    /// come at once. Default: no limit.
    #[schemars(extend("x-example" = 100))]
    pub responses_per_second: Option<Whole<u32, 1, 10_000>>,
    /// How many queries beyond the limit have one response: the question with TC, no larger than the query, so that the client
    /// asks again over TCP. 1 responds to each of them, 2 to every second one, 0 to none.
    pub slip: Whole<u32, 0, 10>,
    /// Networks that have no limit. The node itself never has one.
    pub exempt_clients: Networks,
}

impl Default for ResponseRateLimit {
    fn default() -> Self {
        Self {
            responses_per_second: None,
            slip: Whole::clamped(1),
            exempt_clients: Networks(Cidrs::none()),
        }
    }
}

/// The path of DNS over HTTPS unless the configuration has another (RFC 8484).
#[must_use]
pub fn doh_path() -> String {
    "/dns-query".to_owned()
}

/// Whether a text can be the path of a request: it begins with a slash and holds no `?` or `#`.
#[must_use]
pub fn is_doh_path(path: &str) -> bool {
    let strange = |c: char| "?#{".contains(c) || !c.is_ascii_graphic();
    path.starts_with('/') && !path.contains(strange)
}

/// Whether servers over TLS have to prove who they are (RFC 8310).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// A server that does not is not asked.
    #[default]
    Strict,
    /// Queries are encrypted, for any server that answers: that keeps out those who only listen.
    Opportunistic,
}
