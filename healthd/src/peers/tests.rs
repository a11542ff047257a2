//! Nodes that exchange findings over mTLS on loopback. Nothing is probed: findings are put into their monitors.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use config::Whole;
use config::nodes::NodeFiles;
use config::renewal::Renewal as Renewing;
use daemon::drain::Drain;
use exchange::members::Settings;
use liveness::monitor::{Limits, Restored, Statement, SubscriberId};
use liveness::schedules::Schedules;
use liveness::table::{Entry, Finding};
use proto::health::{Basis, Liveness, Target};
use proto::wire;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::*;
use crate::config::PeerAddress;
use crate::metrics::Counters;
use crate::page::Page;
use crate::page::services::{Asker, Listeners};
use crate::trail::Outcome;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const NAMES: [&str; 3] = ["node-0", "node-1", "node-2"];

/// The certificates and addresses of a site.
struct Site {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
    listeners: Vec<Option<TcpListener>>,
    addresses: Vec<SocketAddr>,
    hold: Duration,
    /// Whether the nodes give each other certificates for clients.
    renews: bool,
}

struct Node {
    driver: Driver,
    readiness: Readiness,
    subscriber: SubscriberId,
    certificate: NodeCertificate,
    drain: Option<Drain>,
}

fn target() -> Target {
    Target::tcp(([192, 0, 2, 7], 6443).into())
}

fn files(directory: &Path, name: &str) -> NodeFiles {
    NodeFiles {
        ca: directory.join("ca.pem"),
        certificate: directory.join(format!("{name}.pem")),
        key: directory.join(format!("{name}.key")),
    }
}

/// Writes an authority, and a certificate for each of the names; gives what can sign more.
fn certificates(directory: &Path, names: &[&str]) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap();
    std::fs::write(directory.join("ca.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for name in names {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
        params.serial_number = Some(serial(name));
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let files = files(directory, name);
        std::fs::write(files.certificate, certificate.pem()).unwrap();
        std::fs::write(files.key, key.serialize_pem()).unwrap();
    }
    issuer
}

/// The serial number of a node's certificate.
fn serial(name: &str) -> SerialNumber {
    SerialNumber::from_slice(name.as_bytes())
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let issuer = certificates(
            directory.path(),
            &[NAMES[0], NAMES[1], NAMES[2], "stranger"],
        );
        let listeners = NAMES.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|one| one.local_addr().unwrap());
        for listener in &listeners {
            listener.set_nonblocking(true).unwrap();
        }
        Self {
            directory,
            issuer,
            listeners: listeners.into_iter().map(Some).collect(),
            addresses: addresses.to_vec(),
            hold: Duration::from_secs(60),
            renews: false,
        }
    }

    fn config(&self, number: usize, name: &str) -> ExchangeConfig {
        let others = (0..NAMES.len()).filter(|other| *other != number);
        let peers: Vec<PeerAddress> = others
            .map(|other| PeerAddress {
                name: NAMES[other].parse().unwrap(),
                address: self.addresses[other].to_string().parse().unwrap(),
            })
            .collect();
        ExchangeConfig {
            node: name.parse().unwrap(),
            settings: Settings {
                node: name.to_owned(),
                peers: peers.iter().map(|peer| peer.name.to_string()).collect(),
                silence: Duration::from_secs(2),
                hold: self.hold,
                max_findings: 100,
            },
            peers,
            listen: Vec::new(),
            files: files(self.directory.path(), name),
            renewal: self.renews.then(|| self.renewal(name)),
        }
    }

    fn renewal(&self, name: &str) -> Renewing {
        let path = |name: String| self.directory.path().join(name);
        Renewing {
            days: Whole::clamped(30),
            certificate: path(format!("{name}-served.pem")),
            later: path(format!("{name}-later")),
            renewed: path(format!("{name}-renewed.pem")),
        }
    }

    /// Gives each node a certificate for its clients that has ended, and each other node its next one.
    fn end_certificates(&mut self) {
        self.renews = true;
        for name in NAMES {
            let key = std::fs::read_to_string(files(self.directory.path(), name).key).unwrap();
            let key = KeyPair::from_pem(&key).unwrap();
            let sign = |year| {
                let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
                params.not_before = date_time_ymd(2020, 1, 1);
                params.not_after = date_time_ymd(year, 1, 1);
                params.signed_by(&key, &self.issuer).unwrap().pem()
            };
            std::fs::write(self.renewal(name).certificate, sign(2021)).unwrap();
            for other in NAMES.into_iter().filter(|other| *other != name) {
                let later = self.renewal(other).later;
                std::fs::create_dir_all(&later).unwrap();
                std::fs::write(later.join(format!("{name}.crt")), sign(4000)).unwrap();
            }
        }
    }

    fn is_renewed(&self, name: &str) -> bool {
        self.renewal(name).renewed.exists()
    }

    /// Adds a list to the authority's file that has the certificates of these nodes.
    fn revoke(&self, names: &[&str]) {
        let revoked = names.iter().map(|name| RevokedCertParams {
            serial_number: serial(name),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            // A site without a network has no newer one.
            next_update: date_time_ymd(2026, 1, 2),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap().pem().unwrap();
        let path = self.directory.path().join("ca.pem");
        let authority = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, authority + &list).unwrap();
    }

    fn start(&mut self, number: usize) -> Node {
        self.start_as(number, NAMES[number])
    }

    fn start_as(&mut self, number: usize, name: &str) -> Node {
        let limits = Limits {
            in_flight: 1,
            targets: 100,
            grace: Duration::from_secs(60),
        };
        let driver = Driver::new(
            limits,
            Schedules::default(),
            Restored::default(),
            Counters::default(),
        );
        let subscriber = driver.step(|monitor, now| {
            let id = monitor.open(now);
            let statement = Statement {
                subscriber: "test".to_owned(),
                number: 1,
                targets: vec![(1, target().into())],
                all: false,
            };
            monitor.state(id, statement, now);
            id
        });
        let (drain, guard) = Drain::new();
        let readiness = Readiness::new();
        let listeners = self.listeners[number].take().into_iter().collect();
        let exchange = Exchange::new(self.config(number, name), listeners);
        // One service, which is away.
        let services = Listeners {
            lb_proxy: Some(SocketAddr::from(([127, 0, 0, 1], 1))),
            ..Listeners::default()
        };
        let view = NodeView::new(
            driver.clone(),
            Arc::new(Asker::new(services)),
            readiness.clone(),
        );
        let mut context = Context::detached("healthd");
        context.readiness = readiness.clone();
        let certificate = exchange.start(&driver, view, &context, &guard);
        Node {
            driver,
            readiness,
            subscriber,
            certificate,
            drain: Some(drain),
        }
    }
}

impl Node {
    /// Its probes find the target so from now on.
    fn find(&self, good: bool) {
        for _ in 0..2 {
            self.driver.step(|monitor, now| {
                let id = monitor.table().find(&target()).unwrap();
                let finding = Finding {
                    good,
                    reason: "probed".to_owned(),
                    latency: Duration::ZERO,
                };
                monitor.finish(id, finding, now);
            });
        }
    }

    fn entry<R>(&self, look: impl Fn(&Entry) -> R) -> R {
        self.driver.look(|monitor| {
            let id = monitor.table().find(&target()).unwrap();
            look(monitor.table().get(id).unwrap())
        })
    }

    /// What its subscribers see.
    fn sees(&self) -> (Liveness, Basis) {
        self.entry(|entry| {
            let site = entry.site.as_ref();
            let basis = site.map_or(Basis::Own, |site| site.basis);
            (entry.liveness(), basis)
        })
    }

    fn contact(&self) -> Option<Contact> {
        // Time passes for the monitor as its driver would have it pass.
        self.driver.step(|monitor, now| {
            monitor.poll(now);
            monitor.contact().map(|(contact, _)| contact)
        })
    }

    fn errors(&self) -> Vec<String> {
        self.driver.peer_errors().into_values().collect()
    }

    async fn stop(&mut self) {
        if let Some(drain) = self.drain.take() {
            assert!(drain.finish(LIMIT).await, "all tasks end");
        }
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = daemon::clock::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

use Liveness::{Down, Up};

#[tokio::test]
async fn nodes_hear_each_other_and_have_one_verdict() {
    let mut site = Site::new();
    let nodes = [0, 1, 2].map(|number| site.start(number));
    for node in &nodes {
        node.find(true);
    }
    until("all say up", || {
        nodes.iter().all(|node| node.sees() == (Up, Basis::Site))
    })
    .await;
    // One of them does not reach it.
    let generation = nodes[0].driver.look(liveness::monitor::Monitor::generation);
    nodes[2].find(false);
    until("the others hear it", || {
        let hears = |node: &Node| {
            node.entry(|entry| {
                let findings = &entry.site.as_ref().unwrap().findings;
                findings.iter().any(|one| one.liveness == Down)
            })
        };
        hears(&nodes[0]) && hears(&nodes[1])
    })
    .await;
    for node in &nodes {
        assert_eq!(node.sees(), (Up, Basis::Site));
    }
    nodes[1].find(false);
    until("all say down", || {
        nodes.iter().all(|node| node.sees() == (Down, Basis::Site))
    })
    .await;
    let told = nodes[0].driver.look(|monitor| {
        let changes = monitor.changes(nodes[0].subscriber, generation).unwrap();
        changes.entries.len()
    });
    assert_eq!(told, 1, "a subscriber hears one state");
    for mut node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_whose_peers_go_away_continues_and_hears_them_again() {
    let mut site = Site::new();
    let mut nodes = [0, 1, 2].map(|number| site.start(number));
    for node in &nodes {
        node.find(true);
    }
    until("all say up", || {
        nodes.iter().all(|node| node.sees() == (Up, Basis::Site))
    })
    .await;
    nodes[1].stop().await;
    nodes[2].stop().await;
    // Their machine refuses: it is reached.
    until("it is alone", || nodes[0].contact() == Some(Contact::Alone)).await;
    until("it says so", || {
        let details = nodes[0].readiness.details();
        details.iter().any(|detail| detail.contains("are away"))
    })
    .await;
    assert!(nodes[0].readiness.is_ready());
    nodes[0].find(false);
    assert_eq!(nodes[0].sees(), (Down, Basis::Own));
    // Healthds of the same names come back.
    for number in [1, 2] {
        let listener = TcpListener::bind(site.addresses[number]).unwrap();
        listener.set_nonblocking(true).unwrap();
        site.listeners[number] = Some(listener);
        nodes[number] = site.start(number);
        nodes[number].find(true);
    }
    until("their verdict holds", || {
        nodes[0].sees() == (Up, Basis::Site)
    })
    .await;
    until("nothing is to be said", || {
        nodes[0].readiness.details().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_machine_that_takes_connections_is_reached_although_its_healthd_is_away() {
    let mut site = Site::new();
    // The kernel accepts for the others, as for sockets that systemd holds.
    let node = site.start(0);
    node.find(false);
    until("it is alone", || node.contact() == Some(Contact::Alone)).await;
    assert_eq!(node.sees(), (Down, Basis::Own));
}

#[tokio::test]
async fn a_site_without_an_answer_is_one_that_this_node_is_cut_off_from() {
    let mut site = Site::new();
    // An address that no packet is sent to: its interface is not said.
    site.addresses = vec!["[fe80::1]:5445".parse().unwrap(); NAMES.len()];
    let node = site.start(0);
    node.find(false);
    assert_eq!(node.sees(), (Down, Basis::Own));
    until("it is cut off", || node.contact() == Some(Contact::CutOff)).await;
    until("it says so", || {
        let details = node.readiness.details();
        details.iter().any(|detail| detail.contains("cut off"))
    })
    .await;
    assert!(node.readiness.is_ready(), "it serves");
    assert_eq!(node.sees(), (Down, Basis::Own), "the site never spoke");
}

#[tokio::test]
async fn nodes_that_cannot_prove_who_they_are_are_not_heard() {
    let mut site = Site::new();
    let first = site.start(0);
    let second = site.start(1);
    first.find(true);
    second.find(true);
    until("the two agree", || first.sees() == (Up, Basis::Site)).await;
    // One with a certificate of the authority for the name of no peer hears nothing and is not heard.
    let stranger = site.start_as(2, "stranger");
    stranger.find(false);
    until("the stranger is refused", || {
        let errors = stranger.errors();
        errors.len() == 2 && errors.iter().all(|error| !error.is_empty())
    })
    .await;
    until("it is not followed", || {
        let error = &first.errors()[1];
        error.contains("certificate")
    })
    .await;
    assert_eq!(first.sees(), (Up, Basis::Site));
    assert_eq!(stranger.sees().1, Basis::Own);
    let heard = first.driver.look(|monitor| {
        let members = monitor.exchanged().unwrap().members();
        members.peers()[1].heard()
    });
    assert_eq!(heard, None);
}

#[tokio::test]
async fn idle_connections_keep_a_peer_out_for_no_longer_than_a_handshake() {
    let mut site = Site::new();
    let first = site.start(0);
    // All places that the peer has: both come from the same address here.
    let mut idle = Vec::new();
    for _ in 0..4 * CONNECTIONS_A_NODE {
        idle.push(TcpStream::connect(site.addresses[0]).await.unwrap());
    }
    let second = site.start(1);
    first.find(true);
    second.find(true);
    until("the handshakes of idle connections end", || {
        first.sees() == (Up, Basis::Site) && second.sees() == (Up, Basis::Site)
    })
    .await;
    drop(idle);
}

/// More than a node has.
const CONNECTIONS_A_NODE: usize = 4;

#[tokio::test]
async fn a_certificate_that_comes_late_is_taken_up() {
    let mut site = Site::new();
    let key = files(site.directory.path(), NAMES[0]).key;
    let aside = key.with_extension("aside");
    std::fs::rename(&key, &aside).unwrap();
    let first = site.start(0);
    let second = site.start(1);
    assert_eq!(first.contact(), None);
    let details = first.readiness.details();
    assert!(
        details[0].contains("no findings are exchanged"),
        "{details:?}"
    );
    first.find(true);
    second.find(true);
    assert_eq!(first.sees(), (Up, Basis::Own));
    std::fs::rename(&aside, &key).unwrap();
    until("it exchanges findings", || {
        first.sees() == (Up, Basis::Site) && second.sees() == (Up, Basis::Site)
    })
    .await;
    assert_eq!(first.readiness.details(), Vec::<String>::new());
}

#[tokio::test]
async fn a_revoked_node_is_out_at_once_and_the_others_stay_together() {
    let mut site = Site::new();
    let nodes = [0, 1, 2].map(|number| site.start(number));
    for node in &nodes {
        node.find(true);
    }
    let all_hear_all = || {
        nodes.iter().all(|node| {
            node.sees() == (Up, Basis::Site) && node.errors().iter().all(String::is_empty)
        })
    };
    until("all hear each other", all_hear_all).await;
    site.revoke(&[NAMES[2]]);
    // The thief does not take the list.
    let [first, second, third] = &nodes;
    for node in [first, second] {
        node.certificate.reload().unwrap();
    }
    // Connections that were open have ended, those that it makes and those that it is asked for, and no other begins.
    let hears_none = |node: &Node, number: usize| {
        let errors: Vec<_> = node.driver.peer_errors().into_iter().collect();
        errors.iter().filter(|(_, error)| !error.is_empty()).count() == number
    };
    until("the revoked node is out", || {
        hears_none(first, 1) && hears_none(second, 1) && hears_none(third, 2)
    })
    .await;
    until("the others are a majority", || {
        first.contact() == Some(Contact::Connected) && second.contact() == Some(Contact::Connected)
    })
    .await;
}

#[tokio::test]
async fn a_list_that_is_not_the_authoritys_changes_nothing() {
    let mut site = Site::new();
    let (first, second) = (site.start(0), site.start(1));
    first.find(true);
    second.find(true);
    let hear = || first.sees() == (Up, Basis::Site) && second.sees() == (Up, Basis::Site);
    until("both hear each other", hear).await;
    let other = tempfile::tempdir().unwrap();
    site.issuer = certificates(other.path(), &[]);
    site.revoke(&[NAMES[1]]);
    let error = exit::chain(&first.certificate.reload().unwrap_err());
    assert!(error.contains("list of revoked certificates"), "{error}");
    first.find(true);
    until("they still do", hear).await;
}

#[tokio::test]
async fn a_node_is_given_its_next_certificate_for_clients_and_a_revoked_one_is_not() {
    let mut site = Site::new();
    site.end_certificates();
    // It joins with the others, and is out of it when they have the list.
    site.revoke(&[NAMES[2]]);
    let mut nodes = [0, 1, 2].map(|number| site.start(number));
    until("each of the two has one of the other's", || {
        site.is_renewed(NAMES[0]) && site.is_renewed(NAMES[1])
    })
    .await;
    until("the third was refused by both", || {
        nodes[2]
            .errors()
            .iter()
            .filter(|error| !error.is_empty())
            .count()
            == 2
    })
    .await;
    for node in &mut nodes {
        node.stop().await;
    }
    assert!(!site.is_renewed(NAMES[2]));
}

/// Calls for a lease again and again, as lb-proxy does, until its status is as wanted.
async fn call(
    node: &Node,
    want: wire::LeaseWant,
    is_so: impl Fn(&wire::LeaseStatus) -> bool,
) -> wire::LeaseStatus {
    let begun = daemon::clock::now();
    loop {
        assert!(begun.elapsed() < LIMIT, "the lease");
        let request = wire::LeaseRequest {
            known: 0,
            demands: vec![wire::LeaseDemand {
                name: "VRID 51 IPv4".to_owned(),
                want: want.into(),
                priority: 100,
                term_ms: 3_000,
                holds_ms: 0,
            }],
        };
        let response = node.driver.leases().call(request).await;
        let status = response.leases[0].clone();
        if is_so(&status) {
            return status;
        }
        node.contact();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_majority_of_the_nodes_grants_a_lease_to_one_of_them() {
    let mut site = Site::new();
    let nodes = [0, 1, 2].map(|number| site.start(number));
    let own = |status: &wire::LeaseStatus| status.own_ms > 0;
    let status = call(&nodes[0], wire::LeaseWant::Ask, own).await;
    assert!(status.own_ms <= 2_400, "less than the voters' promise");
    // Renewed by the calls of its subscriber alone; another one learns of it, and gets it when it is released.
    let of_first = |status: &wire::LeaseStatus| status.holder == NAMES[0];
    call(&nodes[1], wire::LeaseWant::Ask, of_first).await;
    assert!(own(&call(&nodes[0], wire::LeaseWant::Ask, own).await));
    call(&nodes[0], wire::LeaseWant::Drop, |status| {
        status.own_ms == 0
    })
    .await;
    call(&nodes[1], wire::LeaseWant::Ask, own).await;
    let shown = nodes[1].driver.leases().shown(NAMES[1]);
    assert_eq!(shown[0].holder.as_deref(), Some(NAMES[1]));
    // People see who had it, the newest first.
    let changes = |node: &Node| -> Vec<(String, String)> {
        let events = node.driver.trail(|trail| trail.events()).events;
        let of_lease = events
            .into_iter()
            .filter(|one| one.what == "lease VRID 51 IPv4");
        of_lease.map(|one| (one.state, one.why)).collect()
    };
    let kept = changes(&nodes[1]);
    assert_eq!(
        kept.first().map(|(state, _)| state.as_str()),
        Some(NAMES[1]),
        "{kept:?}"
    );
    assert_eq!(
        kept.last().map(|(state, _)| state.as_str()),
        Some(NAMES[0]),
        "{kept:?}"
    );
    let first = changes(&nodes[0]);
    assert_eq!(
        first.last(),
        Some(&(NAMES[0].to_owned(), String::new())),
        "{first:?}"
    );
}

#[tokio::test]
async fn a_page_has_the_services_and_the_probes_of_the_other_nodes() {
    let mut site = Site::new();
    let nodes = [0, 1].map(|number| site.start(number));
    let id = nodes[1]
        .driver
        .look(|monitor| monitor.table().find(&target()).unwrap());
    for good in [true, false] {
        let outcome = Outcome {
            good,
            seconds: 0.002,
        };
        nodes[1]
            .driver
            .trail(|trail| trail.note_result(id, outcome, |_| true));
    }
    until("node-1 is connected", || {
        nodes[0].driver.leases().channel(PeerId(0)).is_some()
    })
    .await;
    let asker = Arc::new(Asker::new(Listeners::default()));
    let others = NAMES[1..].iter().map(|name| (*name).to_owned()).collect();
    let page = Page::new(nodes[0].driver.clone(), &[], BTreeMap::new(), asker, others);
    let text = String::from_utf8(page.whole().await.body).unwrap();
    for expected in [
        // Its service, with the reason why it does not answer.
        "<h3>node-1</h3><ul><li class=\"row service\"><span class=\"first\">healthd</span>",
        "<span class=\"first\">lb-proxy</span><span class=\"unknown\">not asked</span>",
        "could not ask: ",
        // Its probes.
        "<span class=\"seen\"><span><small>node-1</small><svg",
        "aria-label=\"2 probes, 1 of them bad\"",
        // The third node is away.
        "<h3>node-2</h3><p class=\"unknown\">not asked: it is not connected</p>",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
