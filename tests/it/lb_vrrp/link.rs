//! Two machines with one virtual router, and a client beside them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use tests::gap::Gap;
use tests::keepalived::{Instance, Keepalived};
use tests::netns::{Machine, Network};
use tests::wait;

use super::node::{Node, Settings};

/// How routers talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub version: u8,
    pub is_unicast: bool,
    pub is_ipv6: bool,
}

impl Kind {
    /// All that there are: version 2 has IPv4 only.
    pub const ALL: [Self; 6] = [
        Self::new(2, false, false),
        Self::new(2, true, false),
        Self::new(3, false, false),
        Self::new(3, true, false),
        Self::new(3, false, true),
        Self::new(3, true, true),
    ];

    pub const fn new(version: u8, is_unicast: bool, is_ipv6: bool) -> Self {
        Self {
            version,
            is_unicast,
            is_ipv6,
        }
    }

    pub fn name(self) -> String {
        let cast = if self.is_unicast {
            "unicast"
        } else {
            "multicast"
        };
        let family = if self.is_ipv6 { "IPv6" } else { "IPv4" };
        format!("v{} {cast} {family}", self.version)
    }

    /// As short as each version allows the rest of the test to keep up with.
    pub fn interval(self) -> Duration {
        match self.version {
            2 => Duration::from_secs(1),
            _ => Duration::from_millis(200),
        }
    }

    pub fn skew(self, priority: u8) -> Duration {
        let unit = match self.version {
            2 => Duration::from_secs(1),
            _ => self.interval(),
        };
        unit * (256 - u32::from(priority)) / 256
    }

    /// How long who has this priority waits for a silent active router.
    pub fn down(self, priority: u8) -> Duration {
        3 * self.interval() + self.skew(priority)
    }
}

/// The time that a busy machine may add to any bound.
pub const SLACK: Duration = Duration::from_millis(1500);

/// A wire with our machine, keepalived's and a client.
#[derive(Debug)]
pub struct Link {
    pub kind: Kind,
    pub us: Machine,
    pub them: Machine,
    pub client: Machine,
    /// Keeps the wire.
    _network: Network,
}

impl Link {
    pub fn new(kind: Kind) -> Self {
        let mut network = Network::new();
        let mut machine = |name, host: u8| {
            let addresses = [format!("192.168.7.{host}/24"), format!("fd00:7::{host}/64")];
            network.machine_with(name, &[&addresses[0], &addresses[1]])
        };
        Self {
            kind,
            us: machine("us", 13),
            them: machine("them", 14),
            client: machine("client", 99),
            _network: network,
        }
    }

    pub fn address(&self, host: u8) -> IpAddr {
        let text = if self.kind.is_ipv6 {
            format!("fd00:7::{host}")
        } else {
            format!("192.168.7.{host}")
        };
        text.parse().unwrap()
    }

    /// The address that moves.
    pub fn virtual_address(&self) -> IpAddr {
        self.address(100)
    }

    pub fn settings(&self, priority: u8) -> Settings {
        Settings {
            version: self.kind.version,
            router_id: 51,
            priority,
            interval: self.kind.interval(),
            addresses: vec![self.virtual_address()],
            peers: self.kind.is_unicast.then(|| vec![self.address(14)]),
            password: (self.kind.version == 2).then(|| "ocp4_api_vip".to_owned()),
            rfc_checksum: false,
            preempt: true,
        }
    }

    pub fn instance(&self, priority: u8) -> Instance {
        Instance {
            version: self.kind.version,
            router_id: 51,
            priority,
            interval: self.kind.interval(),
            addresses: vec![self.virtual_address()],
            unicast: self
                .kind
                .is_unicast
                .then(|| (self.address(14), self.address(13))),
            // keepalived cuts it to 8 octets too.
            password: (self.kind.version == 2).then(|| "ocp4_api_vip".to_owned()),
        }
    }

    pub fn start_us(&self, priority: u8) -> Node {
        Node::start(&self.us, &self.settings(priority))
    }

    pub fn start_them(&self, priority: u8) -> Keepalived {
        Keepalived::start(&self.them, &self.instance(priority))
    }

    /// Begins to measure how long the address does not answer.
    pub fn gap(&self) -> Gap {
        Gap::start(&self.client, self.virtual_address())
    }

    /// The holder of the address: we, they.
    pub fn holders(&self) -> (bool, bool) {
        let address = self.virtual_address();
        (self.us.has_address(address), self.them.has_address(address))
    }

    /// Waits until only we have the address.
    #[track_caller]
    pub fn wait_for_us(&self, limit: Duration) -> Duration {
        self.wait_for((true, false), limit)
    }

    /// Waits until only they have the address.
    #[track_caller]
    pub fn wait_for_them(&self, limit: Duration) -> Duration {
        self.wait_for((false, true), limit)
    }

    #[track_caller]
    pub fn wait_for(&self, holders: (bool, bool), limit: Duration) -> Duration {
        let start = Instant::now();
        let what = format!("{}: (we, they) hold: {holders:?}", self.kind.name());
        wait::for_it(&what, limit + SLACK, || self.holders() == holders);
        start.elapsed()
    }

    /// Waits until the client knows the address by the link-layer address of a machine.
    #[track_caller]
    pub fn wait_until_client_knows(&self, machine: &Machine, limit: Duration) {
        let hardware = machine.hardware();
        let what = format!(
            "{}: the client learns where the address is",
            self.kind.name()
        );
        wait::for_it(&what, limit + SLACK, || {
            self.client.neighbour(self.virtual_address()).as_deref() == Some(&hardware)
        });
    }
}
