//! Groups of servers, of which the first that has one to take is chosen from.

use std::sync::Arc;

use super::{Maglev, Pool, Server, turns};

/// A group of servers to choose from.
#[derive(Debug)]
pub(super) struct Tier {
    /// These are backup servers.
    pub(super) backup: bool,
    /// Their indexes.
    pub(super) members: Box<[u16]>,
    /// Whether each server of the pool is one.
    contains: Box<[bool]>,
    /// Their turns.
    pub(super) round: Box<[u16]>,
    /// Their places.
    pub(super) table: Option<Arc<Maglev>>,
}

impl Tier {
    pub(super) fn new(
        backup: bool,
        members: &[(u16, u16)],
        table: Option<Arc<Maglev>>,
        n_servers: usize,
    ) -> Self {
        let mut contains = vec![false; n_servers];
        for (index, _) in members {
            if let Some(contained) = contains.get_mut(usize::from(*index)) {
                *contained = true;
            }
        }
        Self {
            backup,
            members: members.iter().map(|(index, _)| *index).collect(),
            contains: contains.into_boxed_slice(),
            round: turns::round(members),
            table,
        }
    }

    #[inline]
    pub(super) fn contains(&self, index: u16) -> bool {
        self.contains.get(usize::from(index)).copied() == Some(true)
    }
}

impl Pool {
    pub(super) fn members<'a>(
        &'a self,
        tier: &'a Tier,
    ) -> impl Iterator<Item = (u16, &'a Arc<Server>)> {
        tier.members
            .iter()
            .filter_map(|index| Some((*index, self.server(*index)?)))
    }

    #[inline]
    pub(super) fn server(&self, index: u16) -> Option<&Arc<Server>> {
        self.servers.get(usize::from(index))
    }
}
