//! The schedule of each target: the site's, with what configuration says otherwise of some targets.
//!
//! Each value comes from the `[[target]]` of this very target, else from the last override that covers it, else from
//! the site's schedule.

use std::collections::BTreeMap;
use std::net::IpAddr;

use health::{Deviation, Schedule, Target};

/// The schedules of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedules {
    /// The site's.
    pub site: Schedule,
    /// Values for targets of some kinds, addresses or ports; later ones win.
    pub overrides: Vec<Override>,
    /// Values for single targets.
    pub targets: BTreeMap<Target, Deviation>,
}

/// Values for the targets that it covers: those that have everything it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// The name of the kind; any when `None`.
    pub kind: Option<&'static str>,
    /// The address; any when `None`.
    pub address: Option<IpAddr>,
    /// The port; any when `None`.
    pub port: Option<u16>,
    /// The values.
    pub values: Deviation,
}

impl Schedules {
    /// The schedule of a target.
    #[must_use]
    pub fn of(&self, target: &Target) -> Schedule {
        let covering = self.overrides.iter().filter(|one| one.covers(target));
        let own = self.targets.get(target);
        let values = covering.map(|one| &one.values).chain(own);
        self.site
            .with(&values.fold(Deviation::NONE, |before, values| values.or(before)))
    }
}

impl Override {
    fn covers(&self, target: &Target) -> bool {
        let address = target.address.ip().to_canonical();
        self.kind.is_none_or(|kind| kind == target.kind.name())
            && self.address.is_none_or(|ip| ip.to_canonical() == address)
            && self.port.is_none_or(|port| port == target.address.port())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_most_particular_word_counts_value_by_value() {
        let millis = Duration::from_millis;
        let target = |address: &str| Target::tcp(address.parse::<SocketAddr>().unwrap());
        let interval = |count| Deviation {
            interval: Some(millis(count)),
            ..Deviation::NONE
        };
        let fall = |count| Deviation {
            fall: Some(count),
            ..Deviation::NONE
        };
        let schedules = Schedules {
            site: Schedule {
                interval: millis(5000),
                fall: 2,
                ..Schedule::default()
            },
            overrides: vec![
                Override {
                    port: Some(6443),
                    values: interval(1000),
                    ..Override::default()
                },
                Override {
                    address: Some([192, 0, 2, 2].into()),
                    values: interval(3000).or(fall(9)),
                    ..Override::default()
                },
                Override {
                    kind: Some("https"),
                    values: fall(7),
                    ..Override::default()
                },
            ],
            targets: [(target("192.0.2.9:6443"), fall(4))].into(),
        };
        for (address, interval, fall) in [
            ("192.0.2.1:443", 5000, 2),
            ("192.0.2.1:6443", 1000, 2),
            ("192.0.2.2:6443", 3000, 9),
            ("[::ffff:192.0.2.2]:1", 3000, 9),
            ("192.0.2.9:6443", 1000, 4),
        ] {
            let schedule = schedules.of(&target(address));
            assert_eq!(
                (schedule.interval, schedule.fall),
                (millis(interval), fall),
                "{address}"
            );
        }
    }
}
