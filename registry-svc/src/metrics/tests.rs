use std::collections::BTreeMap;
use std::time::Duration;

use daemon::clock;
use daemon::metrics::{Exposition, Metrics};
use hyper::{Method, StatusCode};
use registry_http::counts::Handler;
use registry_store::disk::Action;

use super::*;

#[test]
fn requests_are_shown_under_the_names_of_distribution() {
    let http = Http::default();
    let start = clock::now();
    let end = start + Duration::from_millis(3);
    for _ in 0..2 {
        let underway = http.begin(Handler::Blob, &Method::GET, start);
        underway.end(StatusCode::OK, 0, 3000, end);
    }
    let sources = Sources::default();
    let status = EndpointStatus {
        name: "deployer".to_owned(),
        waiting: 3,
        delivered: 7,
        answers: BTreeMap::from([(200, 7)]),
        ..EndpointStatus::default()
    };
    sources.add(move || notifications(std::slice::from_ref(&status)));
    let actions = Actions::default();
    actions.took(Action::Stat, Duration::from_millis(3));
    let metrics = Metrics::new("registry-svc");
    let disk = ("filesystem", actions);
    metrics.register_collector(Box::new(Scrape {
        http,
        disk,
        sources,
    }));
    let text = metrics.encode(Exposition::Prometheus);
    for line in [
        "# TYPE registry_http_requests_total counter",
        "registry_http_requests_total{code=\"200\",handler=\"blob\",method=\"get\"} 2",
        "registry_http_request_duration_seconds_bucket{le=\"0.005\",handler=\"blob\",method=\"get\"} 2",
        "registry_http_request_duration_seconds_count{handler=\"blob\",method=\"get\"} 2",
        "registry_http_response_size_bytes_sum{handler=\"blob\"} 6000.0",
        "registry_http_response_size_bytes_bucket{le=\"4096.0\",handler=\"blob\"} 2",
        "# TYPE registry_storage_action_seconds histogram",
        "registry_storage_action_seconds_bucket{le=\"0.005\",action=\"Stat\",driver=\"filesystem\"} 1",
        "registry_storage_action_seconds_count{action=\"Delete\",driver=\"filesystem\"} 0",
        "registry_http_in_flight_requests{handler=\"blob\"} 0.0",
        "registry_notifications_events_total{endpoint=\"deployer\",type=\"Successes\"} 7",
        "registry_notifications_pending{endpoint=\"deployer\"} 3.0",
        "registry_notifications_status_total{endpoint=\"deployer\",code=\"200\"} 7",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
}

#[test]
fn families_stand_together_whoever_has_them() {
    let sources = Sources::default();
    for part in ["a", "b"] {
        sources.add(move || {
            let of = || labels(&[("part", part)]);
            vec![
                Sample::counter("second", "Two", of(), 2),
                Sample::count("first", "One", of(), 1),
            ]
        });
    }
    let names: Vec<&str> = sources.read().iter().map(|sample| sample.name).collect();
    assert_eq!(names, ["first", "first", "second", "second"]);
}
