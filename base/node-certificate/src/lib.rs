//! Certificates for clients that the nodes of a site give each other; the crate [`certificate_schedule`] decides when, and which.
//!
//! The service that uses it carries the requests to the other nodes, over the connections on which they have proved who they are.
//! A node that is alone keeps what it has, and shows it after its end too: the client decides.
//!
//! A certificate that another node gives is checked before it replaces the one before: the site's authority has signed it, for the
//! same key, names and addresses as the one that was rendered, and it ends later.

#![warn(missing_docs)]

mod series;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use std::{fmt, io};

use certificate_schedule::Schedule;
use config::nodes::NodeName;
use config::renewal::Renewal as Settings;
use daemon::calendar::Timestamp;
use daemon::disk;
use daemon::metrics::Page;
use daemon::tls::{newer, renewed_text};
use durable::Rights;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use retry::Backoff;

use self::series::{One, Series};

/// The wait after the first round in which no other node gave a certificate.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The longest time between two looks at the clock: it may be set.
const LOOK: Duration = Duration::from_secs(3_600);

/// The time in which another node has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// `outpost_certificate_renewals_total`: certificates that nodes gave each other, by outcome.
const RENEWALS: &str = "outpost_certificate_renewals";

/// Why another node gives no certificate; the sentence is sent to the node that asks.
#[derive(Debug, thiserror::Error)]
pub enum Nothing {
    /// This node has no certificates of that one.
    #[error("this node has no certificates for {0}")]
    Unknown(NodeName),
    /// A file that cannot be read.
    #[error("{path} cannot be read", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file with something else.
    #[error("{path} cannot be used: {why}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// All certificates are about to end.
    #[error("the last certificate for {0} is about to end: `outpost pki make` makes new ones")]
    Ended(NodeName),
}

/// Why a certificate is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It cannot be read.
    #[error("it is {0}")]
    Unreadable(&'static str),
    /// It is for another key.
    #[error("it is for another key")]
    OtherKey,
    /// It has other names or addresses than the rendered one.
    #[error(
        "it has other names or addresses than the rendered one: the nodes have the files of different renderings"
    )]
    OtherNames,
    /// Another authority, or none, has signed it; or it has ended, by the clock of this node.
    #[error("it is not trusted: {0}")]
    Untrusted(String),
    /// It ends no later than the present one.
    #[error("it ends no later than the present one")]
    NoLater,
}

/// The renewal of the certificate of one node, and its part in that of the others.
#[derive(Debug)]
pub struct Renewal {
    node: NodeName,
    /// The authority's file.
    ca: PathBuf,
    settings: Settings,
    schedule: Schedule,
    counts: Counts,
}

/// How often each has happened; they only go up.
#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    given: AtomicU64,
    refused: AtomicU64,
}

/// Exports the counts of a renewal.
#[derive(Debug)]
pub struct RenewalCollector(pub Arc<Renewal>);

impl Collector for RenewalCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Certificates for clients that nodes gave each other";
        let counts = self.0.counts();
        Page::new(&mut encoder).labelled_counters(RENEWALS, help, "outcome", &counts)
    }
}

impl Renewal {
    /// The renewal as a configuration has it.
    #[must_use]
    pub fn new(node: NodeName, ca: PathBuf, settings: Settings) -> Self {
        let schedule = Schedule::of_days(settings.days.get());
        Self {
            node,
            ca,
            settings,
            schedule,
            counts: Counts::default(),
        }
    }

    fn counts(&self) -> [(&'static str, &AtomicU64); 3] {
        let Counts {
            taken,
            given,
            refused,
        } = &self.counts;
        [("taken", taken), ("given", given), ("refused", refused)]
    }

    //--- For other nodes

    /// The next certificate of another node (PEM), which has proved to be `node`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn give(&self, node: &NodeName) -> Result<String, Nothing> {
        self.give_at(node, now())
    }

    fn give_at(&self, node: &NodeName, now: u64) -> Result<String, Nothing> {
        let path = self.settings.later.join(format!("{}.crt", node.as_str()));
        let octets = match disk::read(&path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Nothing::Unknown(node.clone()));
            }
            Err(source) => return Err(Nothing::Read { path, source }),
        };
        let series = Series::read(&octets).map_err(|why| Nothing::Unusable { path, why })?;
        let chosen = self.schedule.choose(series.ends(), now);
        let chosen = chosen.and_then(|number| series.get(number));
        let chosen = chosen.ok_or_else(|| Nothing::Ended(node.clone()))?;
        self.counts.given.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%node, ends = %date(chosen.end), "Another node is given its next certificate");
        Ok(chosen.to_pem())
    }

    //--- For this node

    /// Asks other nodes whenever the certificate of this one is about to end, for ever; dropped, it ends.
    ///
    /// `others` has those that are known now, with their names, and `ask` asks one of them.
    pub async fn follow<N, F>(&self, others: impl Fn() -> Vec<(String, N)>, ask: impl Fn(N) -> F)
    where
        F: Future<Output = Result<String, String>>,
    {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut said = String::new();
        loop {
            let wait = match self.present() {
                Ok((_, present)) if !self.schedule.is_due(present.end, now()) => {
                    backoff.reset();
                    let until = self.schedule.until_due(present.end, now());
                    Duration::from_secs(until).min(LOOK)
                }
                Ok((rendered, present)) => {
                    let mut reasons = Vec::new();
                    let mut is_renewed = false;
                    for (name, other) in others() {
                        let given = tokio::time::timeout(PATIENCE, ask(other)).await;
                        let given = given.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                        match given.and_then(|pem| self.take(&rendered, &present, &pem)) {
                            Ok(()) => {
                                is_renewed = true;
                                break;
                            }
                            Err(reason) => reasons.push(format!("{name}: {reason}")),
                        }
                    }
                    if is_renewed {
                        said.clear();
                        continue;
                    }
                    self.say(&present, &reasons.join("; "), &mut said);
                    backoff.next_wait()
                }
                Err(reason) => {
                    if reason != said {
                        tracing::error!(
                            reason,
                            "The certificate for clients cannot be read, and is not renewed"
                        );
                        said = reason;
                    }
                    backoff.next_wait()
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// The content of the rendered certificate's file, and the certificate that is shown now.
    fn present(&self) -> Result<(Vec<u8>, One), String> {
        let path = &self.settings.certificate;
        let rendered = disk::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let read = |octets: &[u8], path: &Path| {
            One::read(octets).map_err(|why| format!("{} is {why}", path.display()))
        };
        let first = read(&rendered, path)?;
        let renewed = newer(&rendered, &self.settings.renewed);
        // One that cannot be read is shown to no client either.
        let renewed = renewed.and_then(|octets| read(&octets, &self.settings.renewed).ok());
        Ok((rendered, renewed.unwrap_or(first)))
    }

    /// Puts a certificate in the place of the present one.
    fn take(&self, rendered: &[u8], present: &One, pem: &str) -> Result<(), String> {
        let given = self.check(rendered, present, pem).map_err(|refused| {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            refused.to_string()
        })?;
        let text = renewed_text(rendered, &given.to_pem());
        let path = &self.settings.renewed;
        durable::write(path, Rights::PUBLIC, text.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        tracing::info!(path = %path.display(), ends = %date(given.end), "The certificate for clients is renewed");
        Ok(())
    }

    fn check(&self, rendered: &[u8], present: &One, pem: &str) -> Result<One, Refused> {
        let first = One::read(rendered).map_err(Refused::Unreadable)?;
        let given = One::read(pem.as_bytes()).map_err(Refused::Unreadable)?;
        if given.key != first.key {
            return Err(Refused::OtherKey);
        }
        if given.names != first.names {
            return Err(Refused::OtherNames);
        }
        if given.end <= present.end {
            return Err(Refused::NoLater);
        }
        series::is_trusted(&given, &self.ca, &self.node).map_err(Refused::Untrusted)?;
        Ok(given)
    }

    /// Logs once why no other node gives a certificate.
    fn say(&self, present: &One, reasons: &str, said: &mut String) {
        let reasons = match reasons {
            "" => "no other node is known",
            reasons => reasons,
        };
        if reasons != said {
            tracing::warn!(
                path = %self.settings.certificate.display(),
                ends = %date(present.end),
                reasons,
                "No other node gives the next certificate for clients; the present one stays"
            );
            reasons.clone_into(said);
        }
    }
}

/// The seconds since 1970.
fn now() -> u64 {
    Timestamp::now().since_epoch().as_secs()
}

/// A time, as logs have it.
fn date(seconds: u64) -> Timestamp {
    Timestamp(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
