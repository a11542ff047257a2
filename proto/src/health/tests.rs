use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn targets() -> Vec<Target> {
    let http = HttpProbe {
        method: "HEAD".to_owned(),
        host: "api.ocp4.redhat.ren".to_owned(),
        path: "/readyz?verbose".to_owned(),
        status: 204,
        body: Some("ok".to_owned()),
        user_agent: "x".to_owned(),
        headers: vec![("A".to_owned(), "b".to_owned())],
        byte_limit: Some(9),
        verify: Verify::Ca("/ca.pem".to_owned()),
    };
    let dns = DnsProbe {
        name: "ocp4.redhat.ren.".to_owned(),
        rtype: 1,
        rcode: Some(0),
    };
    let kinds = [
        TargetKind::Tcp,
        TargetKind::Http(HttpProbe::default()),
        TargetKind::Https(http.clone()),
        TargetKind::Https(HttpProbe {
            verify: Verify::Off,
            ..http
        }),
        TargetKind::Grpc {
            service: "etcd".to_owned(),
        },
        TargetKind::Dns(dns),
        TargetKind::Dns(DnsProbe::default()),
        TargetKind::Ntp,
    ];
    kinds
        .into_iter()
        .zip(1..)
        .map(|(kind, port)| Target {
            kind,
            address: SocketAddr::new("fd00::7".parse().unwrap(), port),
            source: Some("192.168.7.13".parse().unwrap()),
        })
        .collect()
}

#[test]
fn every_kind_of_target_reads_back() {
    for target in targets() {
        let wire = wire::Target::from(&target);
        assert_eq!(wire.schedule, None, "the schedule is the site's");
        assert_eq!(Target::try_from(wire), Ok(target.clone()));
        let watched = Watched {
            target,
            deviation: Deviation {
                interval: Some(Duration::from_millis(300)),
                fall: Some(2),
                ..Deviation::NONE
            },
        };
        let wire = wire::Target::from(&watched);
        assert_eq!(Watched::try_from(wire), Ok(watched));
    }
}

/// A version that had the schedule in the identity states all of it.
#[test]
fn a_schedule_of_an_earlier_version_is_a_deviation() {
    let target = targets().remove(0);
    let schedule = wire::Schedule {
        interval_ms: 5000,
        fast_interval_ms: 1000,
        timeout_ms: 2000,
        rise: 1,
        fall: 1,
    };
    let stated = wire::Target {
        schedule: Some(schedule),
        ..wire::Target::from(&target)
    };
    let watched = Watched::try_from(stated.clone()).unwrap();
    assert_eq!(watched.target, target, "the target is the same one");
    assert_eq!(watched.deviation.fall, Some(1));
    // Its healthd echoes the schedule that it probes by, and has none beside the target.
    let status = wire::TargetStatus {
        target: Some(stated),
        ..Default::default()
    };
    let in_force = TargetStatus::from(&status).schedule;
    assert_eq!(wire::Schedule::from(in_force), schedule);
}

#[test]
fn a_target_that_cannot_be_probed_is_refused() {
    let good = wire::Target::from(&targets().remove(0));
    let http = |probe| wire::Target {
        kind: Some(wire::target::Kind::Http(probe)),
        ..good.clone()
    };
    let table = [
        (
            wire::Target {
                address: "api.example".to_owned(),
                ..good.clone()
            },
            HealthError::Address("api.example".to_owned()),
        ),
        (
            wire::Target {
                port: 0,
                ..good.clone()
            },
            HealthError::Port(0),
        ),
        (
            wire::Target {
                port: 65_536,
                ..good.clone()
            },
            HealthError::Port(65_536),
        ),
        (
            wire::Target {
                kind: None,
                ..good.clone()
            },
            HealthError::Kind,
        ),
        (
            http(wire::HttpProbe {
                status: 99,
                ..Default::default()
            }),
            HealthError::Status(99),
        ),
        (
            wire::Target {
                source: "x".to_owned(),
                ..good.clone()
            },
            HealthError::Address("x".to_owned()),
        ),
    ];
    for (target, error) in table {
        assert_eq!(Target::try_from(target), Err(error));
    }
}

#[test]
fn zero_stands_for_the_sites_value() {
    assert_eq!(Deviation::from(wire::Schedule::default()), Deviation::NONE);
    let empty = wire::Target {
        schedule: Some(wire::Schedule::default()),
        ..wire::Target::from(&targets().remove(0))
    };
    assert!(Watched::try_from(empty).unwrap().deviation.is_none());
    let hasty = wire::Schedule {
        interval_ms: 1,
        fast_interval_ms: 90_000,
        ..Default::default()
    };
    let schedule = Schedule::default().with(&hasty.into());
    assert_eq!(schedule.interval, Schedule::MIN_INTERVAL);
    assert_eq!(schedule.fast_interval, Schedule::MIN_INTERVAL);
}

fn status(liveness: Liveness) -> TargetStatus {
    TargetStatus {
        liveness,
        since: Some(UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)),
        latency: Duration::from_micros(321),
        reason: "connected".to_owned(),
        ..TargetStatus::default()
    }
}

#[test]
fn a_delta_changes_what_it_names_and_a_full_snapshot_replaces_all() {
    let all = targets();
    let response = |generation, full, statuses: &[(&Target, &TargetStatus)]| wire::WatchResponse {
        generation,
        full,
        targets: statuses
            .iter()
            .map(|pair| wire::TargetStatus::from(*pair))
            .collect(),
        ..Default::default()
    };
    let (up, down) = (status(Liveness::Up), status(Liveness::Down));
    let first = apply(
        Snapshot::default(),
        &response(4, true, &[(&all[0], &up), (&all[1], &up)]),
        &[],
    );
    let second = apply(first, &response(5, false, &[(&all[1], &down)]), &[]);
    assert_eq!((second.generation, second.targets.len()), (5, 2));
    assert_eq!(second.status(&all[0]), Some(&up));
    assert_eq!(second.liveness(&all[1]), Liveness::Down);
    let third = apply(second, &response(6, true, &[(&all[2], &up)]), &[]);
    assert_eq!(third.targets.len(), 1);
    assert_eq!(third.liveness(&all[0]), Liveness::Unknown);
}

#[test]
fn an_operator_outvotes_the_probes() {
    let drained = TargetStatus {
        admin: AdminState::Drain,
        ..status(Liveness::Up)
    };
    assert!(!drained.is_usable());
    assert!(status(Liveness::Up).is_usable() && !status(Liveness::Unknown).is_usable());
}

#[test]
fn a_message_of_a_later_version_is_read() {
    let target = targets().remove(0);
    let response = wire::WatchResponse {
        generation: 9,
        full: true,
        targets: vec![wire::TargetStatus::from((&target, &status(Liveness::Up)))],
        ..Default::default()
    };
    let mut octets = response.encode_to_vec();
    // Field 900, a string, and field 901, a number, which this version does not know.
    octets.extend([0xa2, 0x38, 3, b'n', b'e', b'w', 0xa8, 0x38, 7]);
    let snapshot = decode_watch_response(&octets).unwrap();
    assert_eq!(snapshot.liveness(&target), Liveness::Up);

    let mut unknown = response;
    unknown.targets[0].liveness = 77;
    unknown.targets[0].admin_state = 77;
    let snapshot = decode_watch_response(&unknown.encode_to_vec()).unwrap();
    assert_eq!(
        snapshot.status(&target).unwrap().liveness,
        Liveness::Unknown
    );
    assert_eq!(snapshot.status(&target).unwrap().admin, AdminState::Ready);
}

#[test]
fn a_message_of_an_earlier_version_is_read() {
    // Only the fields that any version has: target, liveness.
    let target = wire::Target {
        address: "192.168.7.13".to_owned(),
        port: 6443,
        kind: Some(wire::target::Kind::Tcp(wire::TcpProbe {})),
        ..Default::default()
    };
    let status = wire::TargetStatus {
        target: Some(target),
        liveness: 1,
        ..Default::default()
    };
    let response = wire::WatchResponse {
        generation: 1,
        full: true,
        targets: vec![status],
        ..Default::default()
    };
    let snapshot = decode_watch_response(&response.encode_to_vec()).unwrap();
    let target = Target::tcp("192.168.7.13:6443".parse().unwrap());
    assert_eq!(snapshot.liveness(&target), Liveness::Up);
    assert_eq!(snapshot.status(&target).unwrap().since, None);
}

#[test]
fn octets_that_are_no_message_are_refused_without_panic() {
    let mut seed = 3_u64;
    let target = wire::WatchRequest {
        targets: targets().iter().map(wire::Target::from).collect(),
        subscriber: "x".to_owned(),
        statement: 1,
        all: true,
    };
    let good = target.encode_to_vec();
    for _ in 0..20_000 {
        let mut bent = good.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [place, _, _, value, ..] = seed.to_be_bytes();
            let place = usize::from(place) * good.len() / 256;
            bent[place] = value;
        }
        drop(decode_watch_request(&bent));
        drop(decode_watch_response(&bent));
    }
}

#[test]
fn a_healthd_that_forgot_does_not_make_its_subscribers_forget() {
    use Liveness::{Down, Unknown, Up};
    let target = |port| Target::tcp(([192, 168, 7, 13], port).into());
    let snapshot = |states: &[(u16, Liveness, bool)]| Snapshot {
        generation: 1,
        targets: states
            .iter()
            .map(|&(port, liveness, warm)| {
                let status = TargetStatus {
                    warm,
                    ..status(liveness)
                };
                (target(port), status)
            })
            .collect(),
        ..Snapshot::default()
    };
    let before = snapshot(&[
        (1, Up, false),
        (2, Down, false),
        (3, Down, false),
        (5, Unknown, false),
    ]);
    let after = snapshot(&[
        (1, Unknown, false),
        (2, Up, false),
        (3, Up, true),
        (4, Up, true),
        (5, Down, true),
        (6, Unknown, false),
    ]);
    let after = after.keep_known(&before);
    let expected = [Up, Up, Down, Up, Down, Unknown];
    for (liveness, port) in expected.into_iter().zip(1..) {
        assert_eq!(after.liveness(&target(port)), liveness, "{port}");
    }
}

#[test]
fn a_status_belongs_to_the_target_it_names_by_number() {
    let stated = [
        Target::tcp("192.168.7.13:1".parse().unwrap()),
        Target::tcp("192.168.7.13:2".parse().unwrap()),
    ];
    let watched = stated.clone().map(Watched::from);
    let other = Target::tcp("192.168.7.99:9".parse().unwrap());
    let named = |number, target: Option<&Target>| wire::TargetStatus {
        target: target.map(wire::Target::from),
        liveness: 1,
        stated: number,
        ..Default::default()
    };
    let table = [
        (named(1, None), Some(&stated[0])),
        (named(2, Some(&other)), Some(&stated[1])),
        (named(3, Some(&other)), Some(&other)),
        (named(u32::MAX, None), None),
        (named(0, Some(&stated[1])), Some(&stated[1])),
        (named(0, None), None),
    ];
    for (status, expected) in table {
        let response = wire::WatchResponse {
            full: true,
            targets: vec![status],
            ..Default::default()
        };
        let snapshot = apply(Snapshot::default(), &response, &watched);
        assert_eq!(snapshot.targets.keys().next(), expected);
    }
}

/// A version that exchanges nothing with other nodes says no verdict, and a basis of a later version is the zero value.
#[test]
fn why_a_liveness_is_so_reads_back() {
    let target = targets().remove(0);
    let finding = |node: &str, liveness| NodeFinding {
        node: node.to_owned(),
        liveness,
        reason: "refused".to_owned(),
    };
    for basis in Basis::ALL {
        let status = TargetStatus {
            verdict: Some(Verdict {
                basis,
                findings: vec![finding("a", Liveness::Up), finding("b", Liveness::Down)],
            }),
            ..status(Liveness::Up)
        };
        let mut wire = wire::TargetStatus::from((&target, &status));
        assert_eq!(TargetStatus::from(&wire), status);
        if let Some(verdict) = &mut wire.verdict {
            verdict.basis = 99;
        }
        let read = TargetStatus::from(&wire).verdict;
        assert_eq!(read.map(|verdict| verdict.basis), Some(Basis::Own));
        wire.verdict = None;
        assert_eq!(TargetStatus::from(&wire).verdict, None);
    }
}
