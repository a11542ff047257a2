//! Names of metrics, and what they are read from.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::access_log::Log;
use crate::health::Link;
use crate::keeper::Keeper;
use crate::relay::Engine;
use crate::service::{Datagrams, KernelPath, Shown};

/// Shows the proxy to a scraper.
#[derive(Debug)]
pub struct Scrape {
    /// The data path.
    pub engine: Arc<Engine>,
    /// What it goes by.
    pub keeper: Arc<Keeper>,
    /// The stream from healthd.
    pub link: Link,
    /// The access log.
    pub log: Log,
    /// Frontends for datagrams.
    pub(crate) datagrams: Datagrams,
    /// The kernel's rules.
    pub(crate) kernel: KernelPath,
    /// Virtual routers.
    pub(crate) routers: Shown,
}

impl Collector for Scrape {
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}
