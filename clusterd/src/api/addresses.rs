//! Gives Services of type `LoadBalancer` their addresses, at the API.
//!
//! ```text
//! snapshot ─┐
//! pools ────┼─► cluster_addresses::decide ─► PATCH services/status, Events
//! Lease ────┘
//! ```
//!
//! One of several clusterds writes: the one that `cluster_election` lets. The watch may lag behind what was written, so what was
//! written counts until the watch shows it; and one that begins to lead lists all Services first, since its predecessor may have
//! written until a moment ago. Each write names the version of the Service as it was read just before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::cluster::{Freshness, Ingress, Kind, Object, Service, rules};
use bytes::Bytes;
use cluster_addresses::{Decision, ServiceKey, addresses, decide, ingress};
use cluster_client::access::Access;
use cluster_client::request::{self, ApiError, Call};
use cluster_election::{Election, Seen, Step};
use cluster_objects::answer;
use daemon::calendar::Timestamp;
use daemon::clock;
use daemon::latest::Reader;
use hyper::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::Shared;
use crate::addresses::{AddressSettings, AddressState};

/// The longest answer about one object.
const MAX_OBJECT: usize = 4 << 20;
/// The longest page of Services.
const MAX_PAGE: usize = 64 << 20;
/// Services of one page.
const PAGE: usize = 500;
/// The most Services that are listed: more than clusterd keeps.
const MAX_ITEMS: usize = 200_000;
/// How long what was written counts, if the watch does not show it: longer than a silent watch lasts.
const SHOWN_WITHIN: Duration = Duration::from_secs(120);
/// Services that are written between two looks at the Lease.
const MOST_AT_ONCE: usize = 64;
/// After a write that was refused or lost.
const AGAIN: Duration = Duration::from_secs(2);
/// Services of which it is remembered that they were told why they wait.
const MOST_TOLD: usize = 20_000;

/// The task that gives addresses.
pub(super) struct AddressWriter {
    shared: Arc<Shared>,
    settings: Arc<Mutex<AddressSettings>>,
    changed: Arc<Notify>,
    state: Arc<Mutex<AddressState>>,
    snapshots: Reader<::cluster::Snapshot>,
    election: Election,
    election_settings: cluster_election::Settings,
    leave: Arc<Notify>,
    /// The statuses that were written, each with the identity of its Service and the time.
    written: BTreeMap<ServiceKey, (String, Vec<Ingress>, Instant)>,
    /// Why a Service waits, as an Event has said.
    told: BTreeMap<ServiceKey, (String, String)>,
    has_listed: bool,
    /// The generation of the snapshot that everything is written of.
    done: Option<u64>,
    /// The generation that the state is of.
    reported: Option<u64>,
    problem: Option<String>,
}

impl AddressWriter {
    pub(super) fn new(
        shared: Arc<Shared>,
        settings: Arc<Mutex<AddressSettings>>,
        changed: Arc<Notify>,
        state: Arc<Mutex<AddressState>>,
        snapshots: Reader<::cluster::Snapshot>,
        leave: Arc<Notify>,
    ) -> Self {
        let election_settings = cluster_election::Settings::default();
        let identity = settings.lock().identity.clone();
        Self {
            shared,
            settings,
            changed,
            state,
            snapshots,
            election: Election::new(identity, election_settings),
            election_settings,
            leave,
            written: BTreeMap::new(),
            told: BTreeMap::new(),
            has_listed: false,
            done: None,
            reported: None,
            problem: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut next_look = clock::now();
        let mut next_try = clock::now();
        loop {
            let settings = self.settings.lock().clone();
            self.snapshots.refresh();
            let gives = !settings.given.pools.is_empty();
            if gives && clock::now() >= next_look {
                next_look = clock::now() + self.election_settings.retry;
                self.elect(&settings).await;
            }
            let leads = gives && self.election.leads(clock::now());
            let mut is_done = true;
            if leads && clock::now() >= next_try {
                match self.give(&settings).await {
                    Ok(done) => is_done = done,
                    Err(error) => {
                        self.problem = Some(daemon::exit::chain(&error));
                        next_try = clock::now() + AGAIN;
                    }
                }
            }
            self.report(gives, &settings);
            let wakes = match (gives, leads, is_done) {
                (false, ..) => None,
                (true, true, false) => Some(clock::now()),
                (true, true, true) => Some(next_look.min(next_try.max(clock::now() + AGAIN))),
                (true, false, _) => Some(next_look),
            };
            tokio::select! {
                () = self.leave.notified() => {
                    self.give_up(&settings).await;
                    return;
                }
                () = self.changed.notified() => (self.done, self.reported) = (None, None),
                () = self.snapshots.changed(), if leads => {}
                () = until(wakes) => {}
            }
        }
    }

    /// Says where things stand, in the status and in the readiness.
    fn report(&mut self, gives: bool, settings: &AddressSettings) {
        let leads = gives && self.election.leads(clock::now());
        let snapshot = self.snapshots.shared();
        let mut state = self.state.lock();
        state.leads = leads;
        state.holder = self.election.holder().map(str::to_owned);
        state.problem = self.problem.clone().filter(|_| gives);
        if self.reported != Some(snapshot.generation) {
            self.reported = Some(snapshot.generation);
            let services = snapshot.of_kind(Kind::Service);
            let services = services.filter_map(|object| match &**object {
                Object::Service(service) => Some(&**service),
                _ => None,
            });
            // Every clusterd knows who waits, also one that does not write.
            match gives {
                true => state.take(&decide(&settings.given, services)),
                false => state.take(&BTreeMap::new()),
            }
        }
        drop(state);
        let problem = self.problem.clone().filter(|_| gives);
        self.shared.readiness.set_reason("addresses", problem);
    }

    //--- Election

    async fn elect(&mut self, settings: &AddressSettings) {
        let was_leading = self.election.leads(clock::now());
        let result = self.look(settings).await;
        let leads = self.election.leads(clock::now());
        self.problem = result.err().map(|error| daemon::exit::chain(&error));
        if leads != was_leading {
            let identity = self.election.identity();
            let holder = self.election.holder().unwrap_or_default();
            match leads {
                true => tracing::info!(identity, "This clusterd gives addresses from here on"),
                false => tracing::info!(identity, holder, "Another clusterd gives addresses"),
            }
            (self.has_listed, self.done) = (false, None);
        }
    }

    async fn look(&mut self, settings: &AddressSettings) -> Result<(), ApiError> {
        let namespace = settings.lease_namespace.as_str();
        let (all, one) = (leases_path(namespace), lease_path(namespace));
        let read = match self.call(Call::get(&one)).await {
            Ok(body) => Some(lease(&body)?),
            Err(ApiError::Refused(refusal)) if refusal.code == 404 => None,
            Err(error) => return Err(error),
        };
        let begun = clock::now();
        let call = match self.election.decide(read, begun, &micro_time()) {
            Step::Wait => return Ok(()),
            Step::Make(lease) => {
                let object = cluster_election::object(&lease, namespace, rules::LEASE, None);
                write(Method::POST, all, "application/json", &object)
            }
            Step::Update(lease, version) => {
                let version = Some(version.as_str());
                let object = cluster_election::object(&lease, namespace, rules::LEASE, version);
                write(Method::PUT, one, "application/json", &object)
            }
        };
        match self.call(call).await {
            Ok(body) => {
                let written = lease(&body)?;
                self.election.written(written, begun, clock::now());
                Ok(())
            }
            // Another was faster.
            Err(ApiError::Refused(refusal)) if refusal.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lets another clusterd write at once.
    async fn give_up(&mut self, settings: &AddressSettings) {
        let Some((lease, version)) = self.election.release(&micro_time()) else {
            return;
        };
        let namespace = settings.lease_namespace.as_str();
        let object = cluster_election::object(&lease, namespace, rules::LEASE, Some(&version));
        let path = lease_path(namespace);
        if let Err(error) = self
            .call(write(Method::PUT, path, "application/json", &object))
            .await
        {
            let error = daemon::exit::chain(&error);
            tracing::info!(error, "The Lease ends by itself: it could not be given up");
        }
    }

    //--- Addresses

    /// Writes what differs from what is to be; false when there is more to write.
    async fn give(&mut self, settings: &AddressSettings) -> Result<bool, ApiError> {
        let snapshot = self.snapshots.shared();
        let is_current = snapshot.freshness(Kind::Service) == Freshness::Current;
        let is_done = self.done == Some(snapshot.generation) && self.written.is_empty();
        if !is_current || is_done {
            return Ok(true);
        }
        if !self.has_listed {
            self.list().await?;
            self.has_listed = true;
        }
        let services = self.as_written(&snapshot);
        let decisions = decide(&settings.given, services.values());
        let wanted = decisions.iter().filter_map(|(key, decision)| {
            let service = services.get(key)?;
            let is_there = addresses(service).eq(given(decision));
            (!is_there).then_some((key, service, decision))
        });
        let wanted: Vec<_> = wanted.take(MOST_AT_ONCE + 1).collect();
        let is_all = wanted.len() <= MOST_AT_ONCE;
        let mut is_settled = true;
        for (key, service, decision) in wanted.into_iter().take(MOST_AT_ONCE) {
            if !self.election.leads(clock::now()) {
                return Ok(true);
            }
            is_settled &= self.put(key, service, decision, settings).await?;
        }
        self.tell_waiting(&services, &decisions).await?;
        self.done = (is_all && is_settled).then_some(snapshot.generation);
        Ok(is_all)
    }

    /// The Services of a snapshot, with what was written and the watch has not shown yet.
    fn as_written(&mut self, snapshot: &::cluster::Snapshot) -> BTreeMap<ServiceKey, Service> {
        let now = clock::now();
        let mut services = BTreeMap::new();
        for object in snapshot.of_kind(Kind::Service) {
            if let Object::Service(service) = &**object {
                services.insert(key(service), Service::clone(service));
            }
        }
        self.written.retain(|key, (uid, written, at)| {
            let Some(service) = services.get_mut(key) else {
                return false;
            };
            let is_old = now.saturating_duration_since(*at) > SHOWN_WITHIN;
            let is_shown = addresses(service).eq(written.iter().filter_map(|point| point.ip));
            if service.meta.uid != *uid || is_old || is_shown {
                return false;
            }
            service.ingress.clone_from(written);
            true
        });
        services
    }

    /// Lists every Service, and takes up each status.
    async fn list(&mut self) -> Result<(), ApiError> {
        let mut next: Option<String> = None;
        loop {
            let mut path = format!("/api/v1/services?limit={PAGE}");
            if let Some(token) = &next {
                path.push_str(&format!("&continue={}", request::escaped(token)));
            }
            let access = self.access()?;
            let body = request::call(&access, &Call::get(&path), MAX_PAGE).await?;
            let page =
                tokio::task::spawn_blocking(move || answer::page(Kind::Service, &body, MAX_ITEMS));
            let page = page
                .await
                .map_err(|error| ApiError::Unreadable(error.to_string()))?;
            let page = page.map_err(|error| ApiError::Unreadable(error.to_string()))?;
            for object in page.objects {
                if let Object::Service(service) = object {
                    let uid = service.meta.uid.clone();
                    let written = (uid, service.ingress.clone(), clock::now());
                    self.written.insert(key(&service), written);
                }
            }
            next = page.next;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes the status of one Service, if it is as it was seen; false if that has to be tried again.
    async fn put(
        &mut self,
        key: &ServiceKey,
        seen: &Service,
        decision: &Decision,
        settings: &AddressSettings,
    ) -> Result<bool, ApiError> {
        let (namespace, name) = key;
        // A list of one: reading it by its name would need another verb.
        let path = format!(
            "/api/v1/namespaces/{namespace}/services?fieldSelector=metadata.name%3D{name}&limit=1"
        );
        let body = self.call(Call::get(&path)).await?;
        let Some((service, version)) = only_service(&body) else {
            return Ok(false);
        };
        let is_same = service.meta.uid == seen.meta.uid && addresses(&service).eq(addresses(seen));
        if !is_same {
            // The watch is behind; the state of the API counts.
            let uid = service.meta.uid.clone();
            let written = (uid, service.ingress.clone(), clock::now());
            self.written.insert(key.clone(), written);
            return Ok(false);
        }
        let points = ingress(decision, settings.mode);
        let list: Vec<Value> = points.iter().map(point).collect();
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "status": {"loadBalancer": {"ingress": list}},
        });
        let path = format!("/api/v1/namespaces/{namespace}/services/{name}/status");
        let call = write(Method::PATCH, path, "application/merge-patch+json", &patch);
        match self.call(call).await {
            Ok(_) => {}
            // Another client has changed the Service meanwhile.
            Err(ApiError::Refused(refusal)) if matches!(refusal.code, 404 | 409) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let uid = service.meta.uid.clone();
        self.written
            .insert(key.clone(), (uid, points, clock::now()));
        self.shared.counters.address_written();
        let text = told(decision);
        tracing::info!(namespace, name, "Addresses: {text}");
        let (kind, reason) = match decision {
            Decision::Has { given, .. } if !given.is_empty() => ("Normal", "IPAllocated"),
            _ => ("Normal", "ClearAssignment"),
        };
        self.event(&service, kind, reason, &text).await?;
        Ok(true)
    }

    /// Says why Services wait, once for each reason.
    async fn tell_waiting(
        &mut self,
        services: &BTreeMap<ServiceKey, Service>,
        decisions: &BTreeMap<ServiceKey, Decision>,
    ) -> Result<(), ApiError> {
        self.told.retain(|key, _| {
            matches!(
                decisions.get(key),
                Some(Decision::Has {
                    missing: Some(_),
                    ..
                })
            )
        });
        let mut n = 0;
        for (key, decision) in decisions {
            let (
                Decision::Has {
                    missing: Some(refusal),
                    ..
                },
                Some(service),
            ) = (decision, services.get(key))
            else {
                continue;
            };
            let said = (service.meta.uid.clone(), refusal.to_string());
            if self.told.get(key) == Some(&said) || self.told.len() >= MOST_TOLD {
                continue;
            }
            if n == MOST_AT_ONCE || !self.election.leads(clock::now()) {
                return Ok(());
            }
            n += 1;
            let text = format!("No address: {refusal}");
            self.event(service, "Warning", "AllocationFailed", &text)
                .await?;
            self.told.insert(key.clone(), said);
        }
        Ok(())
    }

    /// Makes an Event. The same one of another clusterd, or of an earlier process, has the same name: it stays one.
    async fn event(
        &self,
        service: &Service,
        kind: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        let meta = &service.meta;
        let now = time();
        let mark = crc32c::crc32c(format!("{}{reason}{message}", meta.uid).as_bytes());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{mark:08x}", meta.name),
                "namespace": meta.namespace,
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Service",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "clusterd", "host": self.election.identity()},
            "reportingComponent": "clusterd",
            "reportingInstance": self.election.identity(),
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let path = format!("/api/v1/namespaces/{}/events", meta.namespace);
        let call = write(Method::POST, path, "application/json", &event);
        match self.call(call).await {
            Ok(_) => Ok(()),
            // It is there already, or its namespace ends.
            Err(ApiError::Refused(refusal)) if matches!(refusal.code, 404 | 409) => Ok(()),
            Err(ApiError::Refused(refusal)) if refusal.code == 403 => {
                tracing::warn!(%refusal, "An Event cannot be made");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    //--- Requests

    fn access(&self) -> Result<Access, ApiError> {
        match self.shared.access.current().as_ref() {
            Ok(access) => Ok(access.clone()),
            Err(problem) => Err(ApiError::Unreadable(problem.clone())),
        }
    }

    async fn call(&self, call: Call) -> Result<Vec<u8>, ApiError> {
        let result = request::call(&self.access()?, &call, MAX_OBJECT).await;
        if let Err(ApiError::Refused(refusal)) = &result
            && refusal.code == 401
        {
            self.shared.refused.notify_one();
        }
        result
    }
}

/// Reads an answer that is to be a Lease.
fn lease(body: &[u8]) -> Result<Seen, ApiError> {
    cluster_election::read(body).map_err(|error| ApiError::Unreadable(error.to_string()))
}

fn leases_path(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

fn lease_path(namespace: &str) -> String {
    format!("{}/{}", leases_path(namespace), rules::LEASE)
}

fn key(service: &Service) -> ServiceKey {
    (service.meta.namespace.clone(), service.meta.name.clone())
}

fn given(decision: &Decision) -> impl Iterator<Item = std::net::IpAddr> {
    let given = match decision {
        Decision::Has { given, .. } => given.as_slice(),
        Decision::Cleared => &[],
    };
    given.iter().map(|given| given.address)
}

/// A decision, for an Event.
fn told(decision: &Decision) -> String {
    match decision {
        Decision::Has { given, .. } if !given.is_empty() => {
            let each = given
                .iter()
                .map(|given| format!("{} from pool {}", given.address, given.pool));
            format!("Assigned {}", each.collect::<Vec<_>>().join(" and "))
        }
        _ => "The address was given back".to_owned(),
    }
}

fn point(point: &Ingress) -> Value {
    json!({
        "ip": point.ip.map(|ip| ip.to_string()),
        "ipMode": point.mode,
    })
}

fn write(method: Method, path: String, kind: &'static str, object: &Value) -> Call {
    Call {
        method,
        path,
        body: Some((kind, Bytes::from(object.to_string()))),
    }
}

/// The only Service of a list, and its version.
fn only_service(body: &[u8]) -> Option<(Service, String)> {
    let mut list: Value = serde_json::from_slice(body).ok()?;
    let item = list.pointer_mut("/items/0")?.take();
    let version = item
        .pointer("/metadata/resourceVersion")?
        .as_str()?
        .to_owned();
    match cluster_objects::read(Kind::Service, item).ok()? {
        Object::Service(service) => Some((*service, version)),
        _ => None,
    }
}

/// The time of day, as `metav1.Time` has it.
fn time() -> String {
    let text = micro_time();
    // Whole seconds.
    text.split_once('.')
        .map_or_else(String::new, |(seconds, _)| format!("{seconds}Z"))
}

/// The time of day, as `metav1.MicroTime` has it: Go reads six digits, and no other number of them.
fn micro_time() -> String {
    let text = Timestamp(clock::wall()).to_string();
    format!("{}000Z", text.trim_end_matches('Z'))
}

/// Waits until a moment; for ever without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
