use std::os::fd::OwnedFd;
use std::path::Path;

use daemon::listen::Inherited;
use proto::endpoint::Endpoint;
use proto::health::Liveness;
use proto::watch::Watcher;

use super::*;
use ::config::{HumanDuration, Whole};

use crate::config::Overrides;

/// The directory of a healthd.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn config(&self) -> Config {
        let overrides = Overrides {
            socket: Some(self.0.path().join("s")),
            state_dir: Some(self.0.path().join("state")),
            admin: None,
        };
        Config::load(None, &overrides).unwrap()
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

fn closed(port: u16) -> Target {
    Target::tcp(([127, 9, 9, 9], port).into())
}

async fn wait_down(socket: &Path, target: &Target) {
    let endpoint = Endpoint::Unix(socket.to_owned());
    let watcher = Watcher::start(endpoint, "test", vec![target.clone()]);
    let mut snapshots = watcher.subscribe();
    let down = snapshots.wait_for(|snapshot| snapshot.liveness(target) == Liveness::Down);
    let down = tokio::time::timeout(Duration::from_secs(30), down).await;
    down.unwrap();
}

#[test]
fn a_reload_takes_up_targets_and_limits() {
    let directory = Directory::new();
    block_on(async {
        let mut context = Context::detached("healthd");
        let mut config = directory.config();
        config.targets = vec![closed(1)];
        let service = Healthd::start(config.clone(), &mut context).await.unwrap();
        wait_down(&directory.0.path().join("s"), &closed(1)).await;
        config.targets = vec![closed(2), closed(3)];
        config.file.probes.in_flight = Whole::clamped(7);
        config.file.probes.grace = HumanDuration(Duration::ZERO);
        let summary = service.reload(config.clone()).await.unwrap();
        assert!(summary.starts_with("2 targets configured"), "{summary}");
        wait_down(&directory.0.path().join("s"), &closed(2)).await;
        let status = service.status();
        assert_eq!(status.probes.limit, 7);
        let shown: Vec<&str> = status
            .targets
            .iter()
            .map(|target| target.address.as_str())
            .collect();
        assert_eq!(shown, ["127.9.9.9:2", "127.9.9.9:3"]);
        config.file.probes.targets = Whole::clamped(1);
        config.file.probes.in_flight = Whole::clamped(9);
        let refused = service.reload(config).await.unwrap_err();
        assert!(refused.to_string().contains("no more than 1"), "{refused}");
        assert_eq!(service.status().probes.limit, 7, "nothing has changed");
        assert!(service.drain(Duration::from_secs(5)).await);
        assert!(!directory.0.path().join("s").exists());
    });
}

#[test]
fn inherited_sockets_win_over_configured_ones() {
    let directory = Directory::new();
    block_on(async {
        let path = directory.0.path().join("handed-over");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut context = Context::detached("healthd");
        let descriptors = vec![("healthd".to_owned(), OwnedFd::from(listener))];
        context.inherited = Inherited::from_descriptors(descriptors).unwrap();
        let service = Healthd::start(directory.config(), &mut context)
            .await
            .unwrap();
        assert_eq!(service.listeners(), ["1 inherited"]);
        assert!(!directory.0.path().join("s").exists());
        wait_down(&path, &closed(1)).await;
        let metrics = context
            .metrics
            .encode(daemon::metrics::Exposition::OpenMetrics);
        for line in [
            "healthd_targets{liveness=\"down\"} 1",
            "healthd_probes_total{kind=\"tcp\",result=\"bad\"} 1",
            "kind=\"tcp\",address=\"127.9.9.9:1\"} 0",
            "healthd_target_probe_duration_seconds_count{",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        assert!(service.drain(Duration::from_secs(5)).await);
        assert!(path.exists(), "systemd's socket is not ours to remove");
    });
}

#[test]
fn a_drain_that_is_cut_short_leaves_the_directory_locked_until_the_process_ends() {
    let directory = Directory::new();
    block_on(async {
        let mut context = Context::detached("healthd");
        let config = directory.config();
        let service = Healthd::start(config.clone(), &mut context).await.unwrap();
        let mut drain = Box::pin(service.drain(Duration::from_secs(60)));
        std::future::poll_fn(|cx| {
            assert!(
                drain.as_mut().poll(cx).is_pending(),
                "listeners have to end"
            );
            std::task::Poll::Ready(())
        })
        .await;
        drop(drain);
        let taken = Lock::take(&config.file.state);
        assert!(matches!(taken, Err(LockError::Held { .. })), "{taken:?}");
    });
}
