//! The arguments of health functions as targets for healthd to probe.
//!
//! The schedule is healthd's. A deviation carries other values of a record's options or of the settings.
//!
//! healthd returns a target exactly as it was sent, so each target is made in a form that survives the way:
//! whole milliseconds, at least one, and nothing empty where empty means absent.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use config::dns_authd::PortProbeKind;
use config::{HumanDuration, Whole};
use health::{Deviation, HttpProbe, Target, TargetKind, Verify, Watched};

use crate::options::{ProbeOptions, Url};
use crate::settings::LuaSettings;

/// The target of a port: a TCP connection, or the request that the settings have for it. `None` for port 0, to which nothing can
/// connect.
pub(crate) fn port(
    address: SocketAddr,
    probe: &ProbeOptions,
    settings: &LuaSettings,
) -> Option<Watched> {
    (address.port() != 0).then(|| Watched {
        target: Target {
            kind: kind_of_port(address.port(), settings),
            address,
            source: probe.source,
        },
        deviation: deviation(probe, settings),
    })
}

/// As lb-proxy asks in the role `api`: otherwise there would be two targets, and a name could contradict the balancer.
fn kind_of_port(port: u16, settings: &LuaSettings) -> TargetKind {
    let mut probes = settings.health.port.iter();
    let Some(probe) = probes.find(|probe| probe.port.get() == port) else {
        return TargetKind::Tcp;
    };
    let request = HttpProbe {
        path: probe.path.clone(),
        ..HttpProbe::default()
    };
    match probe.kind {
        PortProbeKind::Http => TargetKind::Http(request),
        PortProbeKind::Https => TargetKind::Https(HttpProbe {
            verify: Verify::Off,
            ..request
        }),
    }
}

/// The target of a request for a URL, sent to this address.
///
/// As in `PowerDNS`, the certificate is not checked: the probe is of the address, not of its name.
pub(crate) fn url(
    url: &Url,
    address: IpAddr,
    probe: &ProbeOptions,
    settings: &LuaSettings,
) -> Watched {
    let user_agent = probe.user_agent.as_deref().unwrap_or(USER_AGENT);
    let request = HttpProbe {
        host: url.authority.clone(),
        path: url.path.clone(),
        status: probe.status.unwrap_or(200),
        body: probe.string_match.clone().filter(|text| !text.is_empty()),
        user_agent: user_agent.to_owned(),
        headers: probe.headers.clone(),
        byte_limit: probe.byte_limit,
        verify: if url.tls { Verify::Off } else { Verify::System },
        ..HttpProbe::default()
    };
    Watched {
        target: Target {
            kind: if url.tls {
                TargetKind::Https(request)
            } else {
                TargetKind::Http(request)
            },
            address: SocketAddr::new(address, url.port),
            source: probe.source,
        },
        deviation: deviation(probe, settings),
    }
}

/// The user agent of probes if the record names none.
const USER_AGENT: &str = "PowerDNS Authoritative Server";

/// The values that the options of a record, or else the settings, give of the schedule.
fn deviation(probe: &ProbeOptions, settings: &LuaSettings) -> Deviation {
    let health = &settings.health;
    let time = |time: Option<HumanDuration>| time.map(|time| time.0);
    Deviation {
        interval: probe.interval.or_else(|| time(health.interval)).map(whole),
        fast_interval: time(health.fast_interval).map(whole),
        timeout: probe.timeout.or_else(|| time(health.timeout)).map(whole),
        rise: health.rise.map(Whole::get),
        fall: probe.fall.or_else(|| health.fall.map(Whole::get)),
    }
}

/// A time in whole milliseconds, at least one, and at most the contract's maximum.
fn whole(time: Duration) -> Duration {
    let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Duration::from_millis(u64::from(millis.max(1)))
}

#[cfg(test)]
mod tests {
    use config::dns_authd::PortProbe;
    use proto::wire;

    use super::*;

    #[test]
    fn targets_come_back_from_healthd_as_they_went() {
        let address: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
        let odd = Duration::from_nanos(1_234_567);
        let full = ProbeOptions {
            source: Some(IpAddr::from([192, 0, 2, 1])),
            timeout: Some(odd),
            interval: Some(odd),
            fall: Some(3),
            string_match: Some("pong".to_owned()),
            user_agent: Some("me".to_owned()),
            byte_limit: Some(9),
            status: Some(404),
            headers: vec![("A".to_owned(), "b".to_owned())],
        };
        let empty = ProbeOptions {
            string_match: Some(String::new()),
            user_agent: Some(String::new()),
            interval: Some(Duration::from_secs(1 << 40)),
            ..ProbeOptions::default()
        };
        let mut strange = LuaSettings::default();
        strange.health.fast_interval = Some(HumanDuration(Duration::from_secs(1 << 40)));
        strange.health.timeout = Some(HumanDuration(Duration::ZERO));
        for probe in [ProbeOptions::default(), full, empty] {
            for settings in [LuaSettings::default(), strange.clone()] {
                let https = Url::parse("https://a.example:8443/x?y").unwrap();
                let http = Url::parse("http://a.example").unwrap();
                for target in [
                    port(address, &probe, &settings).unwrap(),
                    url(&https, address.ip(), &probe, &settings),
                    url(&http, address.ip(), &probe, &settings),
                ] {
                    let wire = wire::Target::from(&target);
                    assert_eq!(Watched::try_from(wire).as_ref(), Ok(&target));
                }
            }
        }
    }

    #[test]
    fn a_port_is_probed_as_the_settings_have_it() {
        let mut settings = LuaSettings::default();
        settings.health.port = vec![PortProbe {
            port: Whole::clamped(6443),
            kind: PortProbeKind::Https,
            path: "/readyz".to_owned(),
        }];
        let target = |address: &str| {
            let address = address.parse().unwrap();
            let target = port(address, &ProbeOptions::default(), &settings);
            target.unwrap().target
        };
        let api = target("192.0.2.1:6443");
        let request = HttpProbe {
            path: "/readyz".to_owned(),
            verify: Verify::Off,
            ..HttpProbe::default()
        };
        assert_eq!(api.kind, TargetKind::Https(request));
        assert_eq!(target("192.0.2.1:443").kind, TargetKind::Tcp);
    }

    #[test]
    fn a_record_deviates_by_what_it_says_and_by_default_not_at_all() {
        let address: SocketAddr = "192.0.2.1:6443".parse().unwrap();
        let deviation = |probe: &ProbeOptions, settings: &LuaSettings| {
            port(address, probe, settings).unwrap().deviation
        };
        let defaults = LuaSettings::default();
        assert!(deviation(&ProbeOptions::default(), &defaults).is_none());
        let probe = ProbeOptions {
            interval: Some(Duration::from_secs(7)),
            fall: Some(3),
            ..ProbeOptions::default()
        };
        let shown = |settings| deviation(&probe, settings).to_string();
        assert_eq!(shown(&defaults), "interval 7000ms, fall 3");
        let mut settings = defaults.clone();
        settings.health.fall = Some(Whole::clamped(9));
        settings.health.rise = Some(Whole::clamped(2));
        assert_eq!(shown(&settings), "interval 7000ms, rise 2, fall 3");
    }

    #[test]
    fn port_zero_is_no_target() {
        let address: SocketAddr = "192.0.2.1:0".parse().unwrap();
        let options = ProbeOptions::default();
        assert_eq!(port(address, &options, &LuaSettings::default()), None);
    }
}
