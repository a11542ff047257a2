//! The options that both DNS servers have.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Whole;

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
