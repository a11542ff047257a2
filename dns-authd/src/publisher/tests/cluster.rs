//! Names of a cluster among the zones.

use dns_answer::testing::ask;
use dns_cluster::Rendered;
use dns_kubernetes::{Cluster, Options};
use dns_wire::Type;
use proto::cluster::{Freshness, Kind, Meta, Namespace, Object, Service, Snapshot as Objects};

use super::*;

fn options(ttl: i64) -> Arc<Options> {
    let file = ::config::dns_authd::Kubernetes {
        ttl: ::config::Whole::clamped(ttl),
        reverse: vec!["10.0.0.0/8".parse().unwrap()],
        ..::config::dns_authd::Kubernetes::default()
    };
    Arc::new(Options::of(&file).unwrap())
}

/// A cluster with one Service, which has this address.
fn objects(address: &str) -> Arc<Objects> {
    let meta = |namespace: &str, name: &str| Meta {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Meta::default()
    };
    let mut objects = Objects::default();
    for kind in Kind::ALL {
        objects.set_freshness(kind, Freshness::Current);
    }
    objects.put(Object::Namespace(Namespace {
        meta: meta("", "default"),
    }));
    objects.put(Object::Service(Box::new(Service {
        meta: meta("default", "shop"),
        cluster_ips: vec![address.parse().unwrap()],
        ..Service::default()
    })));
    Arc::new(objects)
}

/// Sends a rendering, and waits until it is published.
fn take(desk: &Desk, cluster: &mut Cluster, options: &Arc<Options>, address: &str) {
    let changes = cluster.take(&objects(address), 9).unwrap();
    let rendered = Rendered {
        options: Arc::clone(options),
        changes,
        targets: Arc::default(),
        took: Duration::ZERO,
    };
    desk.publisher.send(Command::Cluster(rendered)).unwrap();
    desk.sync();
}

/// The code, and the TTL and data of the answers.
fn answer(desk: &Desk, name: &str, rtype: Type) -> (u16, Vec<(u32, Vec<u8>)>) {
    let query = query(&name.parse().unwrap(), rtype);
    let response = decode(&ask(&desk.cell.current(), &query, Transport::Udp));
    let answers = response.answer.into_iter();
    let answers = answers.map(|(_, _, ttl, data)| (ttl, data));
    (response.rcode, answers.collect())
}

const SHOP: &str = "shop.default.svc.cluster.local.";

#[test]
fn names_of_a_cluster_are_served_once_they_are_rendered_and_stay_over_a_reload() {
    let five = options(5);
    let set = |plan: &mut Plan| plan.kubernetes = Some(Arc::clone(&five));
    let desk = Desk::open_with(&[("example.", GOOD)], set);
    assert_eq!(answer(&desk, SHOP, Type::A).0, 2);
    let mut cluster = Cluster::new(Arc::clone(&five), Seed(1));
    take(&desk, &mut cluster, &five, "10.0.0.1");
    assert_eq!(
        answer(&desk, SHOP, Type::A),
        (0, vec![(5, vec![10, 0, 0, 1])])
    );
    assert_eq!(answer(&desk, "a.example.", Type::A).0, 0);
    assert_eq!(
        answer(&desk, "1.0.0.10.in-addr.arpa.", Type::PTR).1.len(),
        1
    );
    take(&desk, &mut cluster, &five, "10.0.0.2");
    assert_eq!(answer(&desk, "1.0.0.10.in-addr.arpa.", Type::PTR).0, 3);
    let reports = desk.reports.current();
    let report = reports
        .zones
        .iter()
        .find(|zone| zone.name.apex == five.domain);
    let report = report.unwrap();
    assert_eq!((report.n_loads, report.serial), (2, cluster.serial()));

    // With other options the names stay as they were until they are rendered again.
    let thirty = options(30);
    let mut plan = plan(&desk.folder, &["example."]);
    plan.kubernetes = Some(Arc::clone(&thirty));
    let (done, summary) = oneshot::channel();
    let configure = Command::Configure(Box::new(plan), done);
    desk.publisher.send(configure).unwrap();
    summary.blocking_recv().unwrap();
    let before = (0, vec![(5, vec![10, 0, 0, 2])]);
    assert_eq!(answer(&desk, SHOP, Type::A), before);
    let mut other = Cluster::new(Arc::clone(&thirty), Seed(1));
    take(&desk, &mut other, &thirty, "10.0.0.2");
    let after = (0, vec![(30, vec![10, 0, 0, 2])]);
    assert_eq!(answer(&desk, SHOP, Type::A), after);

    // A rendering with the options from before comes too late.
    let late = Rendered {
        options: five,
        changes: cluster.take(&objects("10.0.0.3"), 9).unwrap(),
        targets: Arc::default(),
        took: Duration::ZERO,
    };
    desk.publisher.send(Command::Cluster(late)).unwrap();
    desk.configure(&["example."]);
    assert_eq!(answer(&desk, SHOP, Type::A).0, 5, "the table is gone");
}
