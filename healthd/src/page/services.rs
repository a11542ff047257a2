//! The answers of the other services of this node, for the page.
//!
//! Nothing asks in the background: a browser that wants an answer older than [`FRESH`] has healthd ask, and those that come
//! meanwhile wait for the same answer. Each service has a deadline of its own, and one that does not answer is shown so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::config::healthd::{ADMIN_PORT, Healthd, PageServices};
use ::config::{
    AdminListen, clusterd as clusterd_file, dns_authd as dns_authd_file,
    dns_recursor as dns_recursor_file, lb_proxy as lb_proxy_file,
    registry_svc as registry_svc_file, timesync_agent as timesync_agent_file,
};
use api::{Status, clusterd, dns_authd, dns_recursor, lb_proxy, registry_svc, timesync_agent};
use daemon::{admin, clock, exit};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// For how long an answer is good.
const FRESH: Duration = Duration::from_millis(900);

/// How long a service has for its answer. It answers without its own part after two seconds if it is busy.
const DEADLINE: Duration = Duration::from_millis(2500);

/// The longest answer.
const LONGEST: usize = 8 << 20;

/// The admin listeners of the other services; none for one that is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listeners {
    pub(crate) dns_authd: Option<SocketAddr>,
    pub(crate) dns_recursor: Option<SocketAddr>,
    pub(crate) lb_proxy: Option<SocketAddr>,
    pub(crate) registry_svc: Option<SocketAddr>,
    pub(crate) timesync_agent: Option<SocketAddr>,
    pub(crate) clusterd: Option<SocketAddr>,
}

impl Listeners {
    /// As the file has them, beside the admin listener of healthd itself.
    pub(crate) fn of(file: &Healthd, own: Option<SocketAddr>) -> Self {
        let PageServices {
            dns_authd,
            dns_recursor,
            lb_proxy,
            registry_svc,
            timesync_agent,
            clusterd,
        } = file.page.services;
        let place = |written: Option<AdminListen>, default: u16| match written {
            Some(listen) => listen.address(),
            None => own.and_then(|own| {
                let port = own.port().checked_add(default.checked_sub(ADMIN_PORT)?)?;
                Some(SocketAddr::new(own.ip(), port))
            }),
        };
        Self {
            dns_authd: place(dns_authd, dns_authd_file::ADMIN_PORT),
            dns_recursor: place(dns_recursor, dns_recursor_file::ADMIN_PORT),
            lb_proxy: place(lb_proxy, lb_proxy_file::ADMIN_PORT),
            registry_svc: place(registry_svc, registry_svc_file::ADMIN_PORT),
            timesync_agent: place(timesync_agent, timesync_agent_file::ADMIN_PORT),
            clusterd: place(clusterd, clusterd_file::ADMIN_PORT),
        }
    }
}

/// The answer of a service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked<D> {
    /// It answered.
    Answered(Box<Status<D>>),
    /// It could not be asked, for this reason.
    Failed(String),
}

impl<D> Asked<D> {
    /// The part of the service itself.
    pub(crate) fn detail(&self) -> Option<&D> {
        match self {
            Self::Answered(status) => status.detail.as_ref(),
            Self::Failed(_) => None,
        }
    }
}

/// The answers of all; none of a service that is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Services {
    pub(crate) dns_authd: Option<Asked<dns_authd::Detail>>,
    pub(crate) dns_recursor: Option<Asked<dns_recursor::Detail>>,
    pub(crate) lb_proxy: Option<Asked<lb_proxy::Detail>>,
    pub(crate) registry_svc: Option<Asked<registry_svc::Detail>>,
    pub(crate) timesync_agent: Option<Asked<timesync_agent::Detail>>,
    pub(crate) clusterd: Option<Asked<clusterd::Detail>>,
}

/// The answers, and what follows from those before.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    at: Instant,
    pub(crate) services: Services,
    /// New sessions a second by frontend.
    pub(crate) rates: BTreeMap<String, f64>,
}

#[cfg(test)]
impl Answers {
    /// These answers, now.
    pub(crate) fn of(services: Services) -> Self {
        Self {
            at: clock::now(),
            services,
            rates: BTreeMap::new(),
        }
    }
}

/// Asks the services.
#[derive(Debug)]
pub(crate) struct Asker {
    listeners: Listeners,
    turn: tokio::sync::Mutex<()>,
    last: Mutex<Option<Arc<Answers>>>,
}

impl Asker {
    pub(crate) fn new(listeners: Listeners) -> Self {
        Self {
            listeners,
            turn: tokio::sync::Mutex::default(),
            last: Mutex::new(None),
        }
    }

    /// The last answers, however old; none before the first ones.
    pub(crate) fn last(&self) -> Option<Arc<Answers>> {
        self.last.lock().clone()
    }

    /// Answers that are fresh.
    pub(crate) async fn fresh(&self) -> Arc<Answers> {
        let _turn = self.turn.lock().await;
        let before = self.last();
        if let Some(last) = before.as_ref().filter(|last| last.at.elapsed() < FRESH) {
            return Arc::clone(last);
        }
        let services = self.listeners.ask().await;
        let look = Arc::new(Answers {
            at: clock::now(),
            rates: before.map_or_else(BTreeMap::new, |before| rates(&before, &services)),
            services,
        });
        *self.last.lock() = Some(Arc::clone(&look));
        look
    }
}

impl Listeners {
    async fn ask(&self) -> Services {
        let (dns_authd, dns_recursor, lb_proxy, registry_svc, timesync_agent, clusterd) = tokio::join!(
            ask("dns-authd", self.dns_authd),
            ask("dns-recursor", self.dns_recursor),
            ask("lb-proxy", self.lb_proxy),
            ask("registry-svc", self.registry_svc),
            ask("timesync-agent", self.timesync_agent),
            ask("clusterd", self.clusterd),
        );
        Services {
            dns_authd,
            dns_recursor,
            lb_proxy,
            registry_svc,
            timesync_agent,
            clusterd,
        }
    }
}

async fn ask<D: DeserializeOwned>(service: &str, place: Option<SocketAddr>) -> Option<Asked<D>> {
    let answer = admin::get_within(place?, "/status", DEADLINE, LONGEST).await;
    Some(match answer {
        Ok(answer) if answer.is_success() => read(service, &answer.body),
        Ok(answer) => Asked::Failed(format!("it answers with status {}", answer.status)),
        Err(error) => Asked::Failed(exit::chain(&error)),
    })
}

fn read<D: DeserializeOwned>(service: &str, body: &[u8]) -> Asked<D> {
    match serde_json::from_slice::<Status<D>>(body) {
        Ok(status) if status.service == service => Asked::Answered(Box::new(status)),
        Ok(status) => Asked::Failed(format!("{} answers there", status.service)),
        Err(error) => Asked::Failed(format!("its status cannot be read: {error}")),
    }
}

/// New sessions a second since the answers before. A counter that went back is one of another process.
fn rates(before: &Answers, services: &Services) -> BTreeMap<String, f64> {
    let seconds = before.at.elapsed().as_secs_f64().max(0.001);
    let totals = |services: &Services| -> BTreeMap<String, u64> {
        let detail = services.lb_proxy.as_ref().and_then(Asked::detail);
        let frontends = detail.into_iter().flat_map(|detail| &detail.frontends);
        let total = |one: &lb_proxy::Frontend| {
            let sessions = one.tally.map(|tally| tally.total);
            Some((one.name.clone(), sessions.or(one.flows_opened)?))
        };
        frontends.filter_map(total).collect()
    };
    let old = totals(&before.services);
    let new = totals(services).into_iter();
    let rate = |(name, total): (String, u64)| {
        let more = total.checked_sub(*old.get(&name)?)?;
        // Exact for as many sessions as there can be between two answers.
        let more = f64::from(u32::try_from(more).unwrap_or(u32::MAX));
        Some((name, more / seconds))
    };
    new.filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_beside_healthd_unless_the_file_says_otherwise() {
        let own = Some(SocketAddr::from(([127, 0, 7, 1], 19_401)));
        let mut file = Healthd::default();
        file.page.services.lb_proxy = Some(AdminListen::None);
        file.page.services.clusterd = Some(AdminListen::At(SocketAddr::from(([127, 0, 0, 1], 5))));
        let listeners = Listeners::of(&file, own);
        let beside = |port| Some(SocketAddr::from(([127, 0, 7, 1], port)));
        assert_eq!(listeners.dns_authd, beside(19_402));
        assert_eq!(listeners.timesync_agent, beside(19_406));
        assert_eq!(listeners.lb_proxy, None);
        assert_eq!(listeners.clusterd.map(|at| at.port()), Some(5));
        assert_eq!(
            Listeners::of(&Healthd::default(), None),
            Listeners::default(),
            "without an admin listener there is no place to begin with"
        );
    }

    #[test]
    fn an_answer_of_another_service_or_of_none_is_a_failure() {
        let text = |status: &Status<clusterd::Detail>| serde_json::to_vec(status).unwrap();
        let status = Status::serving("clusterd", clusterd::Detail::default());
        let right: Asked<clusterd::Detail> = read("clusterd", &text(&status));
        assert!(right.detail().is_some());
        let wrong: Asked<clusterd::Detail> = read("lb-proxy", &text(&status));
        assert_eq!(wrong, Asked::Failed("clusterd answers there".to_owned()));
        let none: Asked<clusterd::Detail> = read("clusterd", b"<html>");
        assert!(matches!(none, Asked::Failed(reason) if reason.starts_with("its status")));
    }

    #[tokio::test]
    async fn a_service_that_is_away_is_said_to_be() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = free.local_addr().unwrap();
        drop(free);
        let asker = Asker::new(Listeners {
            dns_authd: Some(place),
            ..Listeners::default()
        });
        assert!(asker.last().is_none());
        let look = asker.fresh().await;
        let Some(Asked::Failed(reason)) = &look.services.dns_authd else {
            panic!("{:?}", look.services.dns_authd);
        };
        assert!(reason.contains("no daemon answers at"), "{reason}");
        assert_eq!(look.services.clusterd, None);
    }
}
