//! The nodes that LUA records name: `[cluster]` of the configuration, and what programs see of its lists.

use std::sync::Arc;

use cluster_follow::{ListSettings, Lists};
use cluster_members::{Listed, Origin, Written};
use config::dns_authd::Cluster;
use config::nodes::ListMember;
use dns_lua::{ListedNode, LivenessView};
use ipnet::IpNet;
use proto::health::{Liveness, Schedule, Snapshot as Health, Watched};

pub use cluster_follow::{Follower, Lists as NodeLists, Settings, view};

/// The lists of a configuration.
#[must_use]
pub fn settings(cluster: &Cluster) -> Settings {
    let written = |member: &ListMember| Written {
        name: member.name.clone(),
        address: member.address.0,
    };
    let lists = cluster.list.iter().map(|list| ListSettings {
        name: list.name.clone(),
        nodes: list.nodes.clone(),
        written: list.members.iter().map(written).collect(),
    });
    Settings {
        socket: cluster.socket.clone(),
        networks: cluster.networks.iter().copied().map(IpNet::from).collect(),
        excluded: cluster.excluded.iter().map(|it| it.0).collect(),
        state: cluster.state.clone(),
        lists: lists.collect(),
    }
}

/// All that programs see: the liveness of targets, and the nodes of lists.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The liveness of targets.
    pub health: Arc<Health>,
    /// The lists.
    pub nodes: Arc<Lists>,
}

impl LivenessView for Facts {
    fn liveness(&self, watched: &Watched) -> Liveness {
        LivenessView::liveness(&*self.health, watched)
    }

    fn schedule(&self, watched: &Watched) -> Schedule {
        LivenessView::schedule(&*self.health, watched)
    }

    fn stands_in(&self) -> bool {
        LivenessView::stands_in(&*self.health)
    }

    fn nodes(&self, list: &str) -> Option<Vec<ListedNode>> {
        let members = self.nodes.members(list)?.iter();
        let node = |Listed { member, number }: &Listed| ListedNode {
            name: member.name.clone(),
            address: member.address,
            number: *number,
            is_learned: member.origin == Origin::Learned,
            is_cordoned: member.drains,
        };
        Some(members.map(node).collect())
    }
}
