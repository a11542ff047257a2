//! The arguments of health functions as targets for healthd to probe.
//!
//! healthd returns a target exactly as it was sent, so each target is made in a form that survives the way:
//! whole milliseconds, no interval below the contract's least, and nothing empty where empty means absent.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use health::{HttpProbe, Schedule, Target, TargetKind, Verify};

use crate::options::{ProbeOptions, Url};
use crate::settings::LuaSettings;

/// The target of a TCP connection; `None` for port 0, to which nothing can connect.
pub(crate) fn tcp(
    address: SocketAddr,
    probe: &ProbeOptions,
    settings: &LuaSettings,
) -> Option<Target> {
    (address.port() != 0).then(|| Target {
        kind: TargetKind::Tcp,
        address,
        schedule: schedule(probe, settings),
        source: probe.source,
    })
}

/// The target of a request for a URL, sent to this address.
///
/// As in `PowerDNS`, the certificate is not checked: the probe is of the address, not of its name.
pub(crate) fn url(
    url: &Url,
    address: IpAddr,
    probe: &ProbeOptions,
    settings: &LuaSettings,
) -> Target {
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
    Target {
        kind: if url.tls {
            TargetKind::Https(request)
        } else {
            TargetKind::Http(request)
        },
        address: SocketAddr::new(address, url.port),
        schedule: schedule(probe, settings),
        source: probe.source,
    }
}

/// The user agent of probes if the record names none.
const USER_AGENT: &str = "PowerDNS Authoritative Server";

fn schedule(probe: &ProbeOptions, settings: &LuaSettings) -> Schedule {
    let interval =
        whole(probe.interval.unwrap_or(settings.health.interval.0)).max(Schedule::MIN_INTERVAL);
    Schedule {
        interval,
        fast_interval: whole(settings.health.fast_interval.0)
            .clamp(Schedule::MIN_INTERVAL, interval),
        timeout: whole(probe.timeout.unwrap_or(settings.health.timeout.0)),
        rise: settings.health.rise.get(),
        fall: probe
            .fall
            .unwrap_or_else(|| settings.health.fall.get())
            .max(1),
    }
}

/// A time in whole milliseconds, at least one, and at most the contract's maximum.
fn whole(time: Duration) -> Duration {
    let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Duration::from_millis(u64::from(millis.max(1)))
}

#[cfg(test)]
mod tests {
    use config::HumanDuration;
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
        strange.health.fast_interval = HumanDuration(Duration::from_secs(1 << 40));
        strange.health.timeout = HumanDuration(Duration::ZERO);
        for probe in [ProbeOptions::default(), full, empty] {
            for settings in [LuaSettings::default(), strange.clone()] {
                let https = Url::parse("https://a.example:8443/x?y").unwrap();
                let http = Url::parse("http://a.example").unwrap();
                for target in [
                    tcp(address, &probe, &settings).unwrap(),
                    url(&https, address.ip(), &probe, &settings),
                    url(&http, address.ip(), &probe, &settings),
                ] {
                    let wire = wire::Target::from(&target);
                    assert_eq!(Target::try_from(wire).as_ref(), Ok(&target));
                }
            }
        }
    }

    #[test]
    fn port_zero_is_no_target() {
        let address: SocketAddr = "192.0.2.1:0".parse().unwrap();
        let options = ProbeOptions::default();
        assert_eq!(tcp(address, &options, &LuaSettings::default()), None);
    }
}
