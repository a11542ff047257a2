//! The detail of timesync-agent's status.

use serde::{Deserialize, Serialize};

use crate::cluster_nodes::Nodes;

/// The clock, its reference and its sources.
///
/// Numbers that are infinite or not known yet are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The clock in a few words: `locked to ntp.example.org, stratum 3`.
    pub serves: String,
    /// The state of the clock in a word.
    pub state: String,
    /// Whether the clock is corrected; false for `--no-clock`.
    pub corrects_clock: bool,
    /// The addresses of the NTP listeners.
    pub listeners: Vec<String>,
    /// The name of the reference.
    pub reference: Option<String>,
    /// The reference identifier (RFC 5905 §7.3), in hexadecimal digits.
    pub reference_id: String,
    /// The reference timestamp (RFC 3339).
    pub reference_time: Option<String>,
    /// The stratum.
    pub stratum: u8,
    /// The leap indicator in words.
    pub leap: String,
    /// The correction that is still to be made; positive when the clock is slow.
    pub correction_seconds: Option<f64>,
    /// The offset at the last update.
    pub last_offset_seconds: Option<f64>,
    /// The root mean square of offsets.
    pub rms_offset_seconds: Option<f64>,
    /// The frequency error of the clock; positive when it is fast.
    pub frequency_ppm: Option<f64>,
    /// The difference of the last frequency to the estimate.
    pub residual_frequency_ppm: Option<f64>,
    /// The error bound of the frequency.
    pub skew_ppm: Option<f64>,
    /// The root delay (RFC 5905 §7.3).
    pub root_delay_seconds: Option<f64>,
    /// The root dispersion (RFC 5905 §7.3).
    pub root_dispersion_seconds: Option<f64>,
    /// The root distance (RFC 5905 §11.1).
    pub root_distance_seconds: Option<f64>,
    /// The interval between updates.
    pub update_interval_seconds: Option<f64>,
    /// How often the clock was corrected.
    pub updates: u64,
    /// How often the clock was stepped.
    pub steps: u64,
    /// Names of servers without an address yet.
    pub unresolved_names: u32,
    /// The sources.
    pub sources: Vec<Source>,
    /// The reports to healthd; none without healthd.
    pub healthd: Option<Reports>,
    /// The nodes of the cluster that may be sources; none without a cluster.
    #[serde(default)]
    pub nodes: Option<Nodes>,
    /// Nodes of the cluster that are not asked, as there are not enough sources of the file beside them.
    #[serde(default)]
    pub too_many: Vec<String>,
}

/// A source of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its IP address.
    pub address: Option<String>,
    /// `server`, `peer` or `reference clock`.
    pub mode: String,
    /// The node of the cluster from which it was learned; none for one of the file.
    #[serde(default)]
    pub learned_from: Option<String>,
    /// The state of its selection in words.
    pub state: String,
    /// Whether the agent asks it.
    pub online: bool,
    /// Its stratum.
    pub stratum: u8,
    /// The binary logarithm of the polling interval in seconds.
    pub poll: i8,
    /// The reach register (RFC 5905 §13) in octal digits.
    pub reach: String,
    /// Seconds since the last sample.
    pub last_sample_seconds: Option<f64>,
    /// The offset now; positive when the source is ahead of the clock.
    pub offset_seconds: Option<f64>,
    /// The offset as it was measured.
    pub measured_offset_seconds: Option<f64>,
    /// The root distance of the last sample: its own error and that of the server.
    pub error_seconds: Option<f64>,
    /// How many samples the estimate has.
    pub samples: u32,
    /// The estimated frequency of the source relative to the clock.
    pub frequency_ppm: Option<f64>,
    /// The error bound of that frequency.
    pub skew_ppm: Option<f64>,
    /// The standard deviation of the samples.
    pub deviation_seconds: Option<f64>,
    /// Whether the last exchange was interleaved.
    pub interleaved: bool,
    /// Whether the last packet was authenticated.
    pub authenticated: bool,
}

/// Reports to healthd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    /// Whether healthd is connected.
    pub connected: bool,
    /// How many reports were sent.
    pub reports: u64,
    /// The last error of the connection.
    pub error: String,
}
