//! When the certificates of a process end: as a metric, and as a warning in the log and on `/readyz`, in time for an operator
//! who visits a site a few times a year.
//!
//! An ended certificate is still shown: the client decides whether it takes it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config_text::counted;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use rustls::pki_types::CertificateDer;

use crate::calendar::Timestamp;
use crate::metrics::{self, Page, labels};
use crate::readiness::Readiness;

/// A certificate that ends within this time is warned of.
pub(crate) const SOON: Duration = Duration::from_secs(30 * 86_400);

/// The interval of looks: a warning a day.
const LOOK: Duration = Duration::from_secs(86_400);

/// The key of the detail on `/readyz`.
const DETAIL: &str = "certificate";

/// A certificate that is in use, and the file that it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated {
    /// The file.
    pub path: PathBuf,
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// How long before its end an operator has to know.
    pub soon: Duration,
}

impl Dated {
    /// A certificate that an operator renews.
    #[must_use]
    pub const fn new(path: PathBuf, certificate: CertificateDer<'static>) -> Self {
        Self {
            path,
            certificate,
            soon: SOON,
        }
    }
}

/// Something that holds certificates, and may hold others later.
pub trait Source: Send + Sync {
    /// Those that it uses now.
    fn dated(&self) -> Vec<Dated>;
}

/// The certificates that a process uses; clones share them.
#[derive(Clone, Default)]
pub struct Expiries(Arc<RwLock<BTreeMap<&'static str, Arc<dyn Source>>>>);

/// A certificate and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ending {
    path: PathBuf,
    /// In seconds since 1970.
    at: i64,
    soon: Duration,
}

/// The time that a certificate has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It has ended.
    Nothing,
    /// It ends soon, in this many days.
    Days(u64),
    Enough,
}

impl Expiries {
    /// Sets the source called `name`, in place of the one before.
    pub fn set(&self, name: &'static str, source: Arc<dyn Source>) {
        self.0.write().insert(name, source);
    }

    /// [Warns](Self::warn) once a day, first a day from now; dropped, it ends.
    pub(crate) async fn watch(self, readiness: Readiness) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.warn(&readiness);
        }
    }

    /// Warns of certificates that end soon or have ended, in the log and on `/readyz`.
    pub fn warn(&self, readiness: &Readiness) {
        let now = seconds(Timestamp::now().since_epoch());
        let mut reasons = Vec::new();
        for ending in self.endings() {
            let path = ending.path.display();
            match ending.left(now) {
                Left::Enough => {}
                Left::Nothing => {
                    tracing::error!(%path, "Certificate has ended");
                    reasons.push(format!("{path} has ended"));
                }
                Left::Days(days) => {
                    tracing::warn!(%path, days, "Certificate ends soon");
                    reasons.push(format!("{path} ends in {}", counted(days, "day")));
                }
            }
        }
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        readiness.set_reason(DETAIL, reason);
    }

    /// The end of each certificate, once for each file.
    fn endings(&self) -> Vec<Ending> {
        let dated = self.0.read();
        let dated = dated.values().flat_map(|source| source.dated());
        let mut endings: Vec<Ending> = dated.filter_map(Ending::of).collect();
        endings.sort_by(|one, other| one.path.cmp(&other.path));
        endings.dedup_by(|one, other| one.path == other.path);
        endings
    }
}

impl Ending {
    /// Nothing of a certificate that cannot be read: clients find that sooner.
    fn of(dated: Dated) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(&dated.certificate).ok()?;
        Some(Self {
            path: dated.path,
            at: certificate.validity().not_after.timestamp(),
            soon: dated.soon,
        })
    }

    fn left(&self, now: i64) -> Left {
        match u64::try_from(self.at.saturating_sub(now)) {
            Ok(left) if left >= self.soon.as_secs() => Left::Enough,
            Ok(left) if left > 0 => Left::Days(left / 86_400),
            _ => Left::Nothing,
        }
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

impl fmt::Debug for Expiries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Expiries")
            .field(&self.endings())
            .finish()
    }
}

/// Writes the metric.
#[derive(Debug)]
pub(crate) struct ExpiriesCollector(pub(crate) Expiries);

impl Collector for ExpiriesCollector {
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact up to 2^53 seconds, which no date reaches"
    )]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let endings = self.0.endings().into_iter();
        let values = endings.map(|ending| {
            let path = ending.path.display().to_string();
            (labels(&[("path", &path)]), ending.at as f64)
        });
        let help = "End of a certificate in use, in seconds since 1970";
        Page::new(&mut encoder).gauges(metrics::CERTIFICATE_END, help, values.collect())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;
    use crate::metrics::{Exposition, Metrics};

    struct Files(Vec<Dated>);

    impl Source for Files {
        fn dated(&self) -> Vec<Dated> {
            self.0.clone()
        }
    }

    /// A certificate that ends with the beginning of a year.
    fn ends_with(year: i32, path: &str) -> Dated {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(1980, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let made = params.self_signed(&key).unwrap();
        Dated::new(path.into(), made.der().clone())
    }

    #[test]
    fn a_certificate_that_ends_is_counted_in_days() {
        let day = 86_400;
        let ending = Ending {
            path: "node.crt".into(),
            at: 100 * day,
            soon: SOON,
        };
        for (now, expected) in [
            (0, Left::Enough),
            (70 * day, Left::Enough),
            (70 * day + 1, Left::Days(29)),
            (99 * day, Left::Days(1)),
            (100 * day - 1, Left::Days(0)),
            (100 * day, Left::Nothing),
            (i64::MAX, Left::Nothing),
            (i64::MIN, Left::Enough),
        ] {
            assert_eq!(ending.left(now), expected, "{now}");
        }
    }

    #[test]
    fn the_metric_has_each_file_once_and_the_operator_is_told() {
        let expiries = Expiries::default();
        let old = ends_with(1990, "/etc/outpost/old.crt");
        let broken = Dated::new("/etc/outpost/broken.crt".into(), vec![0x30, 0x03].into());
        expiries.set(
            "clients",
            Arc::new(Files(vec![
                ends_with(9998, "/etc/outpost/new.crt"),
                old.clone(),
                broken,
            ])),
        );
        expiries.set("nodes", Arc::new(Files(vec![old])));
        let metrics = Metrics::new("healthd");
        metrics.register_collector(Box::new(ExpiriesCollector(expiries.clone())));
        let page = metrics.encode(Exposition::Prometheus);
        let shown: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("outpost_certificate_end_timestamp_seconds{"))
            .collect();
        let [new, old] = shown[..] else {
            panic!("{page}");
        };
        assert!(
            new.contains("path=\"/etc/outpost/new.crt\"} 253339228800"),
            "{new}"
        );
        assert!(
            old.contains("path=\"/etc/outpost/old.crt\"} 631152000"),
            "{old}"
        );

        let readiness = Readiness::new();
        expiries.warn(&readiness);
        let details = readiness.details();
        assert_eq!(details.len(), 1, "{details:?}");
        assert!(
            details
                .iter()
                .any(|line| line.contains("/etc/outpost/old.crt") && line.contains("has ended")),
            "{details:?}"
        );
        assert!(readiness.is_ready());
        // Other files have taken their place: nothing is said of the former ones any more.
        for name in ["clients", "nodes"] {
            let renewed = ends_with(9998, "/etc/outpost/other.crt");
            expiries.set(name, Arc::new(Files(vec![renewed])));
        }
        expiries.warn(&readiness);
        assert_eq!(readiness.details(), Vec::<String>::new());
    }
}
