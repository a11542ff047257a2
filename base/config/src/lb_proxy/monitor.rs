//! `[[monitor]]`: pages that say whether this proxy serves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Address, Whole};

/// A page that says whether this proxy serves, as HAProxy's `monitor-uri`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Monitor {
    /// The addresses with their ports; no frontend has them.
    #[schemars(extend("x-reload" = "restart"))]
    pub listen: Vec<Address>,
    /// The path that answers, over HTTP without TLS.
    #[schemars(extend("x-example" = "\"/haproxy_ready\"", "x-reload" = "restart"))]
    pub path: String,
    /// Backends that must have servers: with fewer the answer is 503, as with HAProxy's `monitor fail if nbsrv(…) lt …`.
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub needs: Vec<Need>,
}

/// A backend that must have servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Need {
    /// Its name.
    pub backend: String,
    /// The least number of servers that may be chosen.
    #[serde(default = "one")]
    pub servers: Whole<u16, 1, 4_095>,
}

fn one() -> Whole<u16, 1, 4_095> {
    Whole::clamped(1)
}
