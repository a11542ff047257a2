//! The records of queries: the query log, and dnstap.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ByteSize, Whole};

/// The query log. A line has the client, the question, the flags of the query, the transport, the response code, the source of the
/// answer, how long the client waited and the size of the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueryLog {
    /// Whether queries are logged. Lines have the level `info`.
    pub enabled: bool,
    /// The classes of responses that are logged, as with `log` of CoreDNS.
    pub classes: Vec<QueryClass>,
    /// The most lines in a second. dns-recursor counts what it leaves out, and logs the number.
    pub rate: Whole<u32, 1, 100_000>,
}

impl Default for QueryLog {
    fn default() -> Self {
        Self {
            enabled: false,
            classes: vec![QueryClass::All],
            rate: Whole::clamped(1000),
        }
    }
}

/// A class of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueryClass {
    /// Every query, also those without a response.
    All,
    /// Answers with records.
    Success,
    /// Negative answers: NXDOMAIN and NODATA.
    Denial,
    /// SERVFAIL, REFUSED and other errors.
    Error,
}

/// dnstap (dnstap.info): messages in protobuf, in Frame Streams, as `fstrm_capture` and other programs read them. Either `socket`
/// or `file` is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dnstap {
    /// The Unix socket on which a program listens. dns-recursor tries every second while none does.
    #[schemars(extend("x-example" = "\"/run/dnstap/dnstap.sock\""))]
    pub socket: Option<PathBuf>,
    /// The file that gets the messages. dns-recursor begins it again when it starts, and moves the old one to `FILE.1`.
    #[schemars(extend("x-example" = "\"/var/log/dns-recursor.dnstap\""))]
    pub file: Option<PathBuf>,
    /// The size at which the file is moved to `FILE.1`.
    pub file_size: ByteSize,
    /// The messages that are written.
    pub messages: Vec<DnstapMessage>,
    /// The name of this server in each message.
    #[schemars(extend("x-example" = "\"master-0\""))]
    pub identity: Option<String>,
}

impl Default for Dnstap {
    fn default() -> Self {
        Self {
            socket: None,
            file: None,
            file_size: ByteSize(1 << 30),
            messages: DnstapMessage::ALL.to_vec(),
            identity: None,
        }
    }
}

/// A kind of dnstap messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DnstapMessage {
    /// Queries of clients.
    ClientQuery,
    /// Responses to them.
    ClientResponse,
    /// Queries to the upstreams of a `[[forward]]`.
    ForwarderQuery,
    /// Their responses.
    ForwarderResponse,
    /// Queries to servers that referrals name, and to the root's.
    ResolverQuery,
    /// Their responses.
    ResolverResponse,
}

impl DnstapMessage {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ClientQuery,
        Self::ClientResponse,
        Self::ForwarderQuery,
        Self::ForwarderResponse,
        Self::ResolverQuery,
        Self::ResolverResponse,
    ];
}
