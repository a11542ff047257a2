use std::net::SocketAddr;

use health::Liveness;
use tokio::net::TcpListener;

use super::*;

/// As long as a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

async fn until(link: &Link, is_so: impl Fn(&health::Snapshot) -> bool) {
    let mut snapshots = link.reader().expect("there is a healthd");
    let waited = tokio::time::timeout(PATIENCE, snapshots.wait_for(is_so)).await;
    assert!(waited.is_ok(), "{:?}", link.current());
}

fn away(targets: Vec<Target>) -> Link {
    let nowhere = "unix:/nonexistent/healthd.sock".parse().ok();
    Link::start(nowhere, "test", targets)
}

#[tokio::test]
async fn without_healthd_in_the_configuration_nothing_stands_in() {
    let link = Link::start(None, "test", Vec::<Watched>::new());
    let readiness = Readiness::new();
    let stand_in = StandIn::start("test", &link, Duration::ZERO, readiness);
    assert!(stand_in.running.is_none());
    stand_in.set_after(Duration::ZERO);
    stand_in.report(&Target::tcp(([127, 0, 0, 1], 1).into()), false);
}

#[tokio::test]
async fn a_healthd_that_stays_away_is_replaced_by_probes_and_it_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let target = Target::tcp(listener.local_addr().expect("its address"));
    let link = away(vec![target.clone()]);
    let readiness = Readiness::new();
    let stand_in = StandIn::start("test", &link, Duration::ZERO, readiness.clone());
    let is = |liveness| {
        let target = target.clone();
        move |snapshot: &health::Snapshot| {
            snapshot.stands_in && snapshot.liveness(&target) == liveness
        }
    };
    until(&link, is(Liveness::Up)).await;
    assert_eq!(link.current().generation, 0);
    assert!(readiness.is_ready());
    drop(listener);
    // A failed connection has the target probed at once.
    stand_in.report(&target, false);
    until(&link, is(Liveness::Down)).await;
    // A target that is stated later is probed too.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let another = Target::tcp(listener.local_addr().expect("its address"));
    link.set_targets(vec![another.clone()]);
    until(&link, |snapshot| {
        snapshot.liveness(&another) == Liveness::Up && snapshot.status(&target).is_none()
    })
    .await;
}

#[tokio::test]
async fn authorities_that_only_healthd_can_read_make_no_target_down() {
    let nothing: SocketAddr = ([127, 0, 0, 1], 9).into();
    let target = Target {
        kind: TargetKind::Https(HttpProbe {
            verify: Verify::Ca("/nonexistent/ca.pem".to_owned()),
            ..HttpProbe::default()
        }),
        ..Target::tcp(nothing)
    };
    let link = away(vec![target.clone()]);
    let _stand_in = StandIn::start("test", &link, Duration::ZERO, Readiness::new());
    until(&link, |snapshot| {
        let reason = snapshot.status(&target).map(|status| &*status.reason);
        // The probe went on to the server, which is not there.
        reason.is_some_and(|reason| {
            reason.starts_with("connection refused") && reason.contains("not checked")
        })
    })
    .await;
}
