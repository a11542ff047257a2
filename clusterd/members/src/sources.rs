//! The sources of time among the nodes of a list: how many may be added to those that people wrote.
//!
//! ```text
//! n written sources ─► at most n − 1 learned ones ─► the written ones are the majority, whatever the cluster says
//! ```
//!
//! A cluster that lies could name nodes with another time. By the number of sources alone they never win against the written
//! ones that agree with each other.

use std::net::IpAddr;

use crate::{Listed, Origin};

/// A node that has joined, and whether it gives the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The name of the node.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Whether it is a source; otherwise there are as many as may be.
    pub is_used: bool,
}

/// The sources that the nodes of a list add to `n_written` written ones, by their numbers. Neither this node's `own` addresses nor
/// a second address of a node count.
#[must_use]
pub fn added(members: &[Listed], n_written: usize, own: &[IpAddr]) -> Vec<Added> {
    let most = n_written.saturating_sub(1);
    let mut added: Vec<Added> = Vec::new();
    for Listed { member, .. } in members {
        let is_known = added.iter().any(|one| one.name == member.name);
        if member.origin != Origin::Learned || is_known || own.contains(&member.address) {
            continue;
        }
        added.push(Added {
            name: member.name.clone(),
            address: member.address,
            is_used: added.len() < most,
        });
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;

    fn listed(last: u8, number: u32, origin: Origin) -> Listed {
        Listed {
            member: Member {
                name: format!("n{last}"),
                address: IpAddr::from([192, 168, 7, last]),
                origin,
                drains: false,
            },
            number,
        }
    }

    #[test]
    fn learned_sources_are_never_as_many_as_written_ones() {
        let mut members = vec![listed(13, 0, Origin::Both), listed(14, 1, Origin::Written)];
        members.extend((16..40).map(|last| listed(last, u32::from(last), Origin::Learned)));
        for n_written in 0..40 {
            let added = added(&members, n_written, &[]);
            assert_eq!(added.len(), 24, "all are shown");
            let used = added.iter().filter(|one| one.is_used).count();
            assert_eq!(used, n_written.saturating_sub(1).min(24));
            assert!(used == 0 || used < n_written, "{n_written}");
        }
    }

    #[test]
    fn a_node_asks_neither_itself_nor_another_one_twice() {
        let mut second = listed(17, 3, Origin::Learned);
        second.member.name = "n16".to_owned();
        let members = [
            listed(16, 3, Origin::Learned),
            second,
            listed(18, 4, Origin::Learned),
        ];
        let own = IpAddr::from([192, 168, 7, 18]);
        let added = added(&members, 9, &[own]);
        let names: Vec<&str> = added.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["n16"]);
    }
}
