//! Names and their places, aliases, and the targets that live sets follow.

use dns_answer::live::View;
use dns_answer::testing::{records, snapshot, snapshot_of, zone_at};
use dns_lua::{Liveness, LivenessView};
use proto::health::{Target as HealthTarget, TargetStatus};

use super::*;
use dns_programs::LiveZone;

const TEXT: &str = "example. 60 SOA a. b. 7 2 3 4 5\nexample. 60 NS ns.example.\n\
    ns.example. 60 A 192.0.2.53\n\
    api.example. 180 LUA A ifportup(6443,{'192.0.2.13','192.0.2.14'})\n\
    www.example. 60 CNAME api.example.\n\
    out.example. 60 CNAME elsewhere.test.\n\
    *.apps.example. 60 A 192.0.2.99\n\
    sub.example. 60 NS ns.sub.example.\n\
    ns.sub.example. 60 A 192.0.2.54\n";

/// Every target but one is up.
struct AllButOne;

const DOWN: &str = "192.0.2.14:6443";

impl LivenessView for AllButOne {
    fn liveness(&self, watched: &Watched) -> Liveness {
        match watched.target.address.to_string() == DOWN {
            true => Liveness::Down,
            false => Liveness::Up,
        }
    }
}

fn explained<R>(each: impl FnOnce(&Picture<'_>) -> R) -> R {
    let records = records(TEXT);
    let zone = zone_at(&snapshot("example.", &records), 0);
    let mut live = LiveZone::new(&zone, &Arc::default());
    let view = View(Arc::new(AllButOne));
    live.evaluate(&zone, &view, &|_| true);
    let snapshot = snapshot_of(&[("example.", &records, live.serve(&view))]);
    let report = ZoneReport {
        live: live.report(),
        ..ZoneReport::named("example.".parse().unwrap(), None)
    };
    let reports = Reports {
        zones: dns_answer::shared_list::SharedList::new(&[Arc::new(report)]),
        ..Reports::default()
    };
    let mut liveness = health::Snapshot::default();
    let status = TargetStatus {
        liveness: Liveness::Down,
        reason: "connection refused".to_owned(),
        ..TargetStatus::default()
    };
    let target = HealthTarget::tcp(DOWN.parse().unwrap());
    liveness.insert(target.into(), status);
    each(&Picture {
        snapshot: &snapshot,
        table: &snapshot.table,
        reports: &reports,
        liveness: &liveness,
    })
}

fn question(name: &str, rtype: Type) -> Question {
    Question {
        name: name.parse().unwrap(),
        rtype,
        client: None,
    }
}

/// The places of a name and of those that its aliases lead to, and the response code and the answer.
fn check(name: &str, rtype: Type, places: &[Place], rcode: &str, answer: &[&str]) {
    explained(|picture| {
        let question = question(name, rtype);
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let message = picture.response(&question, client, true).unwrap();
        let steps = picture.steps(&question, &message);
        let found: Vec<Place> = steps.into_iter().map(|step| step.place).collect();
        assert_eq!(found, places, "{name} {rtype}");
        let response = response(&message).unwrap();
        assert_eq!(response.rcode, rcode, "{name} {rtype}");
        assert_eq!(response.answer, answer, "{name} {rtype}");
    });
}

#[test]
fn a_name_is_explained_by_its_place_and_its_response() {
    let api = "api.example. 2 IN A 192.0.2.13";
    check("api.example.", Type::A, &[Place::Exact], "NOERROR", &[api]);
    check("api.example.", Type::MX, &[Place::Exact], "NOERROR", &[]);
    check(
        "www.example.",
        Type::A,
        &[Place::Exact, Place::Exact],
        "NOERROR",
        &["www.example. 60 IN CNAME api.example.", api],
    );
    check(
        "out.example.",
        Type::A,
        &[Place::Exact, Place::Elsewhere],
        "NOERROR",
        &["out.example. 60 IN CNAME elsewhere.test."],
    );
    check(
        "x.apps.example.",
        Type::A,
        &[Place::Wildcard("*.apps.example.".to_owned())],
        "NOERROR",
        &["x.apps.example. 60 IN A 192.0.2.99"],
    );
    let delegation = Place::Delegation("sub.example.".to_owned());
    check("x.sub.example.", Type::A, &[delegation], "NOERROR", &[]);
    let missing = Place::Missing("example.".to_owned());
    check("nothing.example.", Type::A, &[missing], "NXDOMAIN", &[]);
    check("other.test.", Type::A, &[Place::Elsewhere], "REFUSED", &[]);
}

#[test]
fn a_live_set_is_explained_by_its_program_and_its_targets() {
    explained(|picture| {
        let steps = picture.steps(&question("api.example.", Type::A), &[]);
        let [set] = &steps[0].live[..] else {
            panic!("{steps:?}");
        };
        assert_eq!(
            set.programs[0].code,
            "ifportup(6443,{'192.0.2.13','192.0.2.14'})"
        );
        let targets = set.targets.iter();
        let targets: Vec<_> = targets
            .map(|it| (it.target.as_str(), it.liveness, it.reason.as_str()))
            .collect();
        assert_eq!(
            targets,
            [
                ("tcp 192.0.2.13:6443", Liveness::Unknown, ""),
                ("tcp 192.0.2.14:6443", Liveness::Down, "connection refused"),
            ]
        );
        assert_eq!(set.members, ["192.0.2.13"]);
    });
}

#[test]
fn a_client_that_may_not_ask_is_refused() {
    explained(|picture| {
        let client = "198.51.100.7".parse().unwrap();
        let question = question("api.example.", Type::A);
        let message = picture.response(&question, client, false).unwrap();
        assert_eq!(response(&message).unwrap().rcode, "REFUSED");
    });
}
