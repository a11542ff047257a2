//! Arguments of the verbs of chronyc.

use std::net::IpAddr;
use std::str::FromStr;

use clap::Args;

use super::client::DEFAULT_HOSTS;
use chronyc::request::{Command, Sources};

/// The daemon to query
#[derive(Clone, Debug, Args)]
pub struct LinkArgs {
    /// Addresses, names and sockets that are tried in this order
    #[arg(long, short = 'H', value_name = "HOST[,HOST...]", default_value = DEFAULT_HOSTS)]
    pub host: String,

    /// Port, over UDP
    #[arg(long, short, default_value_t = chronyc::PORT)]
    pub port: u16,

    /// Time to wait for a reply, in milliseconds; twice as long at each further attempt
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub timeout: u64,

    /// How often a request is sent again
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub retries: u32,
}

/// The format of a report
#[derive(Clone, Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct ReportArgs {
    /// The daemon to query.
    #[command(flatten)]
    pub link: LinkArgs,

    /// Values with commas between them
    #[arg(long, short, conflicts_with = "json")]
    pub csv: bool,

    /// JSON
    #[arg(long)]
    pub json: bool,

    /// Addresses of sources, not their names
    #[arg(long, short)]
    pub numeric: bool,

    /// Names of sources as they are configured, with --csv too
    #[arg(long, short = 'N', conflicts_with = "numeric")]
    pub names: bool,

    /// Sources without address too
    #[arg(long, short)]
    pub all: bool,

    /// Say what the columns are
    #[arg(long, short)]
    pub verbose: bool,
}

/// Arguments of `waitsync`.
#[derive(Clone, Debug, Args)]
pub struct WaitSyncArgs {
    /// The daemon to query.
    #[command(flatten)]
    pub link: LinkArgs,

    /// Values with commas between them
    #[arg(long, short, conflicts_with = "json")]
    pub csv: bool,

    /// JSON, an object on a line for each look
    #[arg(long)]
    pub json: bool,

    /// How often to look; 0 is as often as it takes
    #[arg(value_name = "MAX-TRIES", default_value_t = 0)]
    pub max_tries: u64,

    /// The largest remaining correction, in seconds; 0 is any
    #[arg(value_name = "MAX-CORRECTION", default_value_t = 0.0)]
    pub max_correction: f64,

    /// Bound on the error of the frequency, in parts per million; 0 is any
    #[arg(value_name = "MAX-SKEW", default_value_t = 0.0)]
    pub max_skew: f64,

    /// Seconds between two looks
    #[arg(value_name = "INTERVAL", default_value_t = 10.0)]
    pub interval: f64,
}

/// Arguments of `makestep`.
#[derive(Clone, Debug, Args)]
pub struct MakeStepArgs {
    /// The daemon to query.
    #[command(flatten)]
    pub link: LinkArgs,

    /// From here on, step when more than this is to be corrected, in seconds
    #[arg(value_name = "THRESHOLD", requires = "limit")]
    pub threshold: Option<f64>,

    /// Number of updates that may step; negative is always
    #[arg(value_name = "LIMIT", allow_hyphen_values = true)]
    pub limit: Option<i32>,
}

impl MakeStepArgs {
    pub(super) fn command(&self) -> Command {
        match (self.threshold, self.limit) {
            (Some(threshold), Some(limit)) => Command::SetMakeStep { limit, threshold },
            _ => Command::MakeStep,
        }
    }
}

/// Arguments of `burst`.
#[derive(Clone, Debug, Args)]
pub struct BurstArgs {
    /// The daemon to query.
    #[command(flatten)]
    pub link: LinkArgs,

    /// Good samples that are enough, and requests at most
    #[arg(value_name = "GOOD/MAX")]
    pub count: BurstCount,

    /// This source alone
    #[arg(value_name = "ADDRESS")]
    pub address: Option<IpAddr>,
}

impl BurstArgs {
    pub(super) fn sources(&self) -> Sources {
        super::sources(self.address)
    }
}

/// Good samples that are enough, and requests at most: `4/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstCount {
    /// Good samples that are enough.
    pub good: i32,
    /// Requests at most.
    pub total: i32,
}

impl FromStr for BurstCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(good, total)| {
            Some(Self {
                good: good.parse().ok()?,
                total: total.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| "two numbers, as in 4/8".to_owned())
    }
}

/// Arguments of `online` and `offline`.
#[derive(Clone, Debug, Args)]
pub struct AddressArgs {
    /// The daemon to query.
    #[command(flatten)]
    pub link: LinkArgs,

    /// This source alone
    #[arg(value_name = "ADDRESS")]
    pub address: Option<IpAddr>,
}

impl AddressArgs {
    pub(super) fn sources(&self) -> Sources {
        super::sources(self.address)
    }
}
