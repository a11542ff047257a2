//! Changes of the cluster.

use super::*;

#[test]
fn there_is_no_zone_before_every_kind_was_read() {
    let mut snapshot = objects();
    snapshot.set_freshness(Kind::EndpointSlice, Freshness::Unread);
    let mut server = Server::new(&snapshot, &Kubernetes::default());
    assert_eq!(server.ask("svc1.testns.svc.cluster.local.", "A").rcode, 2);
    server
        .snapshot
        .set_freshness(Kind::EndpointSlice, Freshness::Old);
    server.take(NOW);
    assert_eq!(server.ask("svc1.testns.svc.cluster.local.", "A").rcode, 0);
}

#[test]
fn a_changed_slice_renders_one_part_again() {
    let mut server = Server::new(&objects(), &Kubernetes::default());
    let before = server.served.first().unwrap().parts.clone().unwrap();
    server.put(slice("hdls1", 1, &["172.0.0.9"], &["http/tcp/80"]));
    assert_eq!(server.take(NOW), [(0, 1)]);
    let name = "hdls1.testns.svc.cluster.local.";
    server.answers(name, "A", 0, &format!("{name} 5 A 172.0.0.9"));
    let after = server.served.first().unwrap().parts.clone().unwrap();
    let same = before.zones.iter().zip(after.zones.iter());
    let n_other = same.filter(|(one, other)| !Arc::ptr_eq(one, other)).count();
    assert_eq!(n_other, 1);
}

#[test]
fn the_serial_moves_with_the_content_and_with_nothing_else() {
    let mut server = Server::new(&objects(), &Kubernetes::default());
    assert_eq!(server.cluster.serial(), NOW);
    // A label that no option asks for, and an object that is the same.
    let mut same = service("svc1", &["10.0.0.1"], &["http/tcp/80"]);
    same.meta.labels.insert("a".to_owned(), "b".to_owned());
    server.put(Object::Service(Box::new(same)));
    assert_eq!(server.take(NOW + 9), []);
    server.snapshot.set_freshness(Kind::Service, Freshness::Old);
    assert_eq!(server.take(NOW + 9), []);
    assert_eq!(server.cluster.serial(), NOW);
    for (now, serial) in [(NOW + 9, NOW + 9), (NOW, NOW + 10), (NOW + 20, NOW + 20)] {
        let address = format!("172.0.9.{}", serial % 200);
        server.put(slice("svc1", 1, &[&address], &[]));
        server.take(now);
        assert_eq!(server.cluster.serial(), serial);
        // Every part says it, also those that were not rendered again.
        server.answers("nosuch.testns.svc.cluster.local.", "A", 3, "");
        server.answers("svc6.testns.svc.cluster.local.", "A", 0, "");
    }
}

#[test]
fn a_deleted_namespace_takes_its_services_along_and_gives_them_back() {
    let mut server = Server::new(&objects(), &Kubernetes::default());
    let namespace = namespace("testns");
    server.snapshot.remove(&namespace.key());
    server.take(NOW);
    server.answers("testns.svc.cluster.local.", "A", 3, "");
    server.answers("svc1.testns.svc.cluster.local.", "A", 3, "");
    server.put(namespace);
    server.take(NOW);
    let name = "svc1.testns.svc.cluster.local.";
    server.answers(name, "A", 0, &format!("{name} 5 A 10.0.0.1"));
}

/// A few numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// All records of a server's zones, without SOA records: their serials depend on the way.
fn everything(server: &Server) -> Vec<BTreeSet<Line>> {
    let zones = server.served.iter().map(|served| {
        let parts = served.parts.as_ref().unwrap();
        let zones = served.zone.iter().chain(parts.zones.iter());
        let records = zones.flat_map(|zone| zone.records());
        let records = records.filter(|(_, rtype, ..)| *rtype != Type::SOA);
        records.collect()
    });
    zones.collect()
}

#[test]
fn many_small_changes_lead_to_the_zones_of_the_last_snapshot() {
    for seed in 0..24 {
        let mut numbers = Numbers(seed);
        let file = Kubernetes {
            reverse: vec![
                "10.0.0.0/8".parse().unwrap(),
                "10.1.0.0/16".parse().unwrap(),
            ],
            pods: PodNames::Verified,
            ignore_empty_service: seed % 2 == 0,
            labels: if seed % 3 == 0 { "!hidden" } else { "" }.to_owned(),
            ..Kubernetes::default()
        };
        let mut server = Server::new(&objects(), &file);
        for step in 0..60 {
            for _ in 0..=numbers.below(3) {
                let name = format!("s{}", numbers.below(8));
                let address = format!("10.{}.0.{}", numbers.below(3), numbers.below(6));
                let object = match numbers.below(6) {
                    0 => namespace("testns"),
                    1 => {
                        let mut service = service(&name, &[&address], &["http/tcp/80"]);
                        if numbers.below(3) == 0 {
                            service
                                .meta
                                .labels
                                .insert("hidden".to_owned(), String::new());
                        }
                        Object::Service(Box::new(service))
                    }
                    2 => Object::Service(Box::new(service(&name, &[], &["http/tcp/80"]))),
                    3 => external(&name, "ext.example."),
                    _ => {
                        let host = match numbers.below(3) {
                            0 => format!("h{}=", numbers.below(2)),
                            1 => "!".to_owned(),
                            _ => String::new(),
                        };
                        let endpoint = format!("{host}{address}");
                        let number = u32::try_from(numbers.below(2)).unwrap();
                        slice(&name, number, &[&endpoint], &["http/tcp/80"])
                    }
                };
                match numbers.below(4) {
                    0 => drop(server.snapshot.remove(&object.key())),
                    _ => server.put(object),
                }
            }
            server.take(NOW + step);
        }
        let whole = Server::new(&server.snapshot, &file);
        assert_eq!(everything(&server), everything(&whole), "seed {seed}");
    }
}
