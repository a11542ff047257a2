//! Zone transfers, both ways.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Authentication, ByteSize, HumanDuration, Networks, Positive, Whole};

/// Transfers of some name servers, for the manual.
const PEER: &str = r#"
[[transfers.peer]]
networks = ["192.168.7.21"]
lua = "flatten"
"#;

/// Zone transfers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Transfers {
    /// Networks that may transfer zones (AXFR and IXFR).
    pub allow: Networks,
    /// Keys whose holders may transfer zones too, from any address.
    #[schemars(extend("x-example" = "[\"transfer.ocp4.redhat.ren\"]"))]
    pub allow_keys: Vec<String>,
    /// The transport of transfers, unless `zone.allow-transfer-transport` or a `transfers.peer` says otherwise.
    pub transport: TransferTransport,
    /// How many transfers may be under way at once; dns-authd answers SERVFAIL to further ones, which secondaries repeat
    /// later. Each has a thread and holds the version of the zone with which it began.
    #[schemars(extend("x-reload" = "restart"))]
    pub at_once: Positive<usize>,
    /// The octets that one transfer may send in a second; 0 means no limit.
    #[schemars(extend("x-reload" = "restart"))]
    pub rate: ByteSize,
    /// The form in which name servers get zones with LUA records, unless a `transfers.peer` says otherwise. The default is for other
    /// dns-authd and PowerDNS, which run the programs themselves.
    pub lua: LuaForm,
    /// One table for each group of name servers that transfer zones otherwise than the rest. The first that fits and has a key decides
    /// about it.
    #[schemars(extend("x-example" = PEER))]
    pub peer: Vec<TransferPeer>,
    /// The shortest time between two flattened versions of a zone. Changes of liveness in it come together as one.
    pub flatten_interval: HumanDuration,
    /// The most flattened versions of a zone in a minute. Behind the first half dns-authd spreads them evenly, so that a server that
    /// comes and goes delays the change of another one by some seconds at most.
    pub flatten_rate: Whole<usize, 2, 600>,
}

/// The form of a zone with LUA records for a name server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LuaForm {
    /// The programs, as PowerDNS transfers them. Other software ignores them, or refuses the zone.
    #[default]
    Raw,
    /// The records that the programs give now. Each change of liveness is a new version of its own serial, with NOTIFY and IXFR.
    /// Records of programs that read the query are left out. It needs `history.directory`, which keeps the serials.
    Flatten,
    /// Nothing: the transfer is refused.
    Refuse,
}

/// The transport of transfers (AXFR and IXFR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransferTransport {
    /// TCP or TLS, and UDP for short IXFR.
    #[default]
    Any,
    /// TLS alone (RFC 9103), on the addresses of `tls.dot`: others get REFUSED, over UDP the SOA record.
    Tls,
}

/// How some name servers transfer zones. It allows no transfer: `transfers.allow` and `allow-keys` do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TransferPeer {
    /// The networks of the servers; all without this key.
    #[schemars(extend("x-example" = "[\"192.168.7.21\"]"))]
    pub networks: Option<Networks>,
    /// The keys of which the server has signed with one. Default: it does not matter.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"transfer.ocp4.redhat.ren\"]"))]
    pub keys: Vec<String>,
    /// The zones; all without this key.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"ocp4.redhat.ren\"]"))]
    pub zones: Vec<String>,
    /// The form in which they get zones with LUA records. Default: as a later table says, or `transfers.lua`.
    #[schemars(extend("x-example" = "\"flatten\""))]
    pub lua: Option<LuaForm>,
    /// The transport of their transfers. Default: as a later table says, `zone.allow-transfer-transport`, or `transfers.transport`.
    #[schemars(extend("x-example" = "\"tls\""))]
    pub transport: Option<TransferTransport>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self {
            allow: Networks::default(),
            allow_keys: Vec::new(),
            transport: TransferTransport::Any,
            at_once: Whole::clamped(8),
            rate: ByteSize(32 << 20),
            lua: LuaForm::Raw,
            peer: Vec::new(),
            flatten_interval: HumanDuration(Duration::from_millis(200)),
            flatten_rate: Whole::clamped(60),
        }
    }
}

/// The identity of primaries over TLS (RFC 8310).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrimaryTls {
    /// Whether the primaries have to prove who they are.
    pub authentication: Authentication,
    /// The name in their certificates; dns-authd sends it to them, too (SNI). Default: the address of each.
    #[schemars(extend("x-example" = "\"master-0.ocp4.redhat.ren\""))]
    pub server_name: Option<String>,
    /// The certificates of the authorities that may sign theirs, in PEM. A relative path starts at this file's directory. dns-authd reads
    /// the file again at a reload. Default: those that the system trusts.
    #[schemars(extend("x-example" = "\"/etc/outpost/tls/dns-ca.crt\""))]
    pub ca: Option<PathBuf>,
    /// The SHA-256 of public keys, in base64 (RFC 7858 §4.2), as `kdig +tls` shows them. A primary has to have one of these keys.
    /// Without `ca`, its certificate may be signed by any authority then.
    #[schemars(extend("x-example" = "[\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"]"))]
    pub pins: Vec<String>,
}
