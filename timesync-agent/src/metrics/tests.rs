use daemon::latest::Latest;
use daemon::metrics::{Exposition, Metrics};

use super::*;
use time_model::time::RawTime;
use time_model::view::{
    ClockState, PacketView, PtpRole, PtpState, PtpView, SourceState, SourceView, Tracking,
};

fn scraped(view: View) -> String {
    let metrics = Metrics::new("timesync-agent");
    let scrape = Scrape::new(
        Views::published(Latest::new(view)),
        Tables::new(1 << 16, [1, 2]),
        "master-0".to_owned(),
        false,
    );
    metrics.register_collector(Box::new(scrape));
    metrics.encode(Exposition::Prometheus)
}

#[test]
fn what_is_seen_is_charted() {
    let view = View {
        state: ClockState::Holdover,
        tracking: Tracking {
            stratum: 3,
            leap: Leap::Insert,
            correction: -12e-6,
            frequency: 1.5,
            n_updates: 7,
            ..Tracking::default()
        },
        sources: vec![SourceView {
            name: "ntp.example.org".to_owned(),
            address: "192.0.2.1".parse().ok(),
            state: SourceState::Best,
            reach: 0o17,
            poll: -1,
            last_sample: Some(RawTime(0)),
            adjusted_offset: 0.25,
            packet: Some(PacketView {
                n_sent: 9,
                n_received: 8,
                n_valid: 7,
                n_good: 5,
                ..PacketView::default()
            }),
            ..SourceView::default()
        }],
        ptp: vec![PtpView {
            process: "ptp4l",
            interface: "ens1f0".to_owned(),
            role: PtpRole::Slave,
            state: PtpState::Locked,
            offset: Some(-130e-9),
            class: 6,
            ..PtpView::default()
        }],
        ..View::default()
    };
    let text = scraped(view);
    for line in [
        "timesync_clock_state{state=\"holdover\"} 1.0",
        "timesync_clock_state{state=\"locked\"} 0.0",
        "timesync_synchronised 1.0",
        "timesync_offset_seconds -0.000012",
        "timesync_leap 1.0",
        "timesync_updates_total 7",
        "timesync_corrects_clock 0.0",
        "timesync_sources{state=\"best\"} 1.0",
        "timesync_source_offset_seconds{source=\"ntp.example.org\",address=\"192.0.2.1\"} 0.25",
        "timesync_source_reach{source=\"ntp.example.org\",address=\"192.0.2.1\"} 4.0",
        "timesync_source_poll_seconds{source=\"ntp.example.org\",address=\"192.0.2.1\"} 0.5",
        "timesync_source_packets_received_total{source=\"ntp.example.org\",address=\"192.0.2.1\",result=\"unused\"} 2",
        "openshift_ptp_offset_ns{from=\"ntp\",process=\"timesync-agent\",node=\"master-0\",iface=\"CLOCK_REALTIME\"} 12000.0",
        "openshift_ptp_frequency_adjustment_ns{from=\"ntp\",process=\"timesync-agent\",node=\"master-0\",iface=\"CLOCK_REALTIME\"} -1500.0",
        "openshift_ptp_clock_state{process=\"ptp4l\",node=\"master-0\",iface=\"ens1f0\"} 1.0",
        "openshift_ptp_interface_role{process=\"ptp4l\",node=\"master-0\",iface=\"ens1f0\"} 1.0",
        "openshift_ptp_clock_class{process=\"ptp4l\",node=\"master-0\",config=\"ens1f0\"} 6.0",
        "timesync_server_requests_total 0",
        "timesync_server_dropped_total{reason=\"rate\"} 0",
        "openshift_ptp_clock_state{process=\"timesync-agent\",node=\"master-0\",iface=\"CLOCK_REALTIME\"} 2.0",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "no {line} in\n{text}"
        );
    }
}

#[test]
fn an_agent_without_sources_is_charted() {
    let text = scraped(View::default());
    assert!(text.contains("timesync_synchronised 0.0"));
    assert!(text.contains("timesync_sources{state=\"best\"} 0.0"));
    assert!(!text.contains("timesync_source_reach"));
    assert!(!text.contains("timesync_reference_timestamp_seconds"));
}
