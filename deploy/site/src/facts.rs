//! The facts of each service on a node: its user, which others may connect to it, and how much it may use.
//!
//! Units, quadlets, directories, users and keys are all rendered from this one table.
//!
//! The numbers are fixed, because images have no names and files have to belong to the same user on every node. systemd
//! leaves 65520 to 65533 to no one (its UIDS-GIDS.md), and 65532 is the user of the images.

use std::path::PathBuf;

use crate::paths;
use crate::service::Service;

/// A user with the group of the same name and number, or a group alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name on a host.
    pub name: String,
    /// The number.
    pub id: u32,
}

/// The user of a service, and its own group: no other service is in it.
pub fn user(service: Service) -> Identity {
    let id = match service {
        Service::Healthd => 65_520,
        Service::DnsAuthd => 65_521,
        Service::DnsRecursor => 65_522,
        Service::LbProxy => 65_523,
        Service::RegistrySvc => 65_524,
        Service::TimesyncAgent => 65_525,
        Service::Clusterd => 65_526,
    };
    Identity {
        name: format!("outpost-{service}"),
        id,
    }
}

/// The group of the services that connect to the socket of a service; none when no other one does.
pub fn clients(service: Service) -> Option<Identity> {
    let id = match service {
        Service::Healthd => 65_528,
        Service::Clusterd => 65_529,
        Service::DnsAuthd
        | Service::DnsRecursor
        | Service::LbProxy
        | Service::RegistrySvc
        | Service::TimesyncAgent => return None,
    };
    Some(Identity {
        name: format!("outpost-{service}-clients"),
        id,
    })
}

/// The services to whose sockets a service connects.
pub fn servers(service: Service) -> &'static [Service] {
    match service {
        Service::DnsAuthd | Service::DnsRecursor | Service::LbProxy | Service::TimesyncAgent => {
            &[Service::Healthd, Service::Clusterd]
        }
        Service::Healthd | Service::Clusterd | Service::RegistrySvc => &[],
    }
}

/// The directory of a service's own sockets, apart from those for operators; none when it has none.
pub fn run(service: Service) -> Option<PathBuf> {
    match service {
        Service::Healthd | Service::Clusterd | Service::LbProxy => Some(paths::run(service)),
        Service::TimesyncAgent => Some(paths::CHRONY_RUN.into()),
        Service::DnsAuthd | Service::DnsRecursor | Service::RegistrySvc => None,
    }
}

/// The most that a service may use, and its turn when a node is short of memory or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From here on the kernel takes memory back from the service, in MiB.
    pub memory_high: u64,
    /// Beyond this the kernel ends it, in MiB.
    pub memory_max: u64,
    /// Its threads.
    pub tasks: u32,
    /// Its share of the processor under load; 100 is any other unit's.
    pub cpu_weight: u32,
    /// Its turn when the whole node has no memory left; the kubelet has -999, and workloads have 0 and more.
    pub oom_score: i32,
}

/// A thread for each of 256 cores, twice, and the 512 that block on files (tokio's own limit).
const TASKS: u32 = 1024;

/// The limits of a service. Each is several times the most that was measured under load.
pub fn limits(service: Service) -> Limits {
    let (memory_max, cpu_weight, oom_score) = match service {
        // All others rely on its word, and it has little to do.
        Service::Healthd => (256, 400, -950),
        // The objects of a cluster: 50,000 endpoints.
        Service::Clusterd => (512, 100, -800),
        // Zones, twice while they are loaded again.
        Service::DnsAuthd => (512, 300, -900),
        // A cache of 80 MiB with what belongs to it, and queries on their way.
        Service::DnsRecursor => (512, 300, -900),
        // Buffers of 100,000 sessions. While it waits, so does everything behind a virtual IP.
        Service::LbProxy => (1024, 500, -950),
        // Its index, and bodies on their way to the disk. It hashes what is pushed: that can wait.
        Service::RegistrySvc => (1024, 50, -500),
        // It has next to nothing, and a late reply is a wrong time.
        Service::TimesyncAgent => (256, 500, -900),
    };
    Limits {
        memory_high: memory_max / 4 * 3,
        memory_max,
        tasks: TASKS,
        cpu_weight,
        oom_score,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_identities_share_a_number() {
        let users = Service::ALL.map(|service| user(service).id);
        let groups = Service::ALL.into_iter().filter_map(clients);
        let all: Vec<u32> = users
            .into_iter()
            .chain(groups.map(|group| group.id))
            .collect();
        let distinct: BTreeSet<&u32> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
        // The user of the images is not one of them, and neither is nobody.
        let free = 65_520..65_532;
        assert!(all.iter().all(|id| free.contains(id)), "{all:?}");
    }

    #[test]
    fn the_registry_gives_way_first_and_the_platform_last() {
        for service in Service::ALL {
            let limits = limits(service);
            assert!(limits.memory_high < limits.memory_max, "{service}");
            // A swap has two processes, and podman itself is in the unit of a container while it starts it.
            assert!(limits.memory_max >= 256, "{service}");
            assert!((-998..0).contains(&limits.oom_score), "{service}");
            if service != Service::RegistrySvc {
                assert!(limits.oom_score < self::limits(Service::RegistrySvc).oom_score);
            }
        }
    }

    #[test]
    fn a_service_connects_to_those_that_let_clients_in() {
        for service in Service::ALL {
            for server in servers(service) {
                assert!(clients(*server).is_some(), "{service} to {server}");
                assert!(
                    run(*server).is_some(),
                    "{server} has a place for its socket"
                );
            }
        }
    }
}
