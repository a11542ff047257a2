//! How many connections each client has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

type Counts = HashMap<IpAddr, usize>;

/// Connections by the address they come from.
#[derive(Debug, Default)]
pub(super) struct Clients {
    counts: Arc<Mutex<Counts>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Place {
    counts: Arc<Mutex<Counts>>,
    client: IpAddr,
}

impl Clients {
    /// A place for a connection from `client`, unless it has `most`.
    pub(super) fn enter(&self, client: IpAddr, most: usize) -> Option<Place> {
        let client = client.to_canonical();
        let mut counts = lock(&self.counts);
        let count = counts.get(&client).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        counts.insert(client, count + 1);
        Some(Place {
            counts: Arc::clone(&self.counts),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        match counts.get(&self.client).copied().unwrap_or(0) {
            0 | 1 => drop(counts.remove(&self.client)),
            count => drop(counts.insert(self.client, count - 1)),
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // One number is changed at a time, so a panic elsewhere leaves the map whole.
    counts.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_so_many_places_and_others_have_theirs() {
        let clients = Clients::default();
        let [first, second]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let places: Vec<_> = (0..2).map(|_| clients.enter(first, 2).unwrap()).collect();
        assert!(clients.enter(first, 2).is_none());
        assert!(
            clients
                .enter("::ffff:192.0.2.1".parse().unwrap(), 2)
                .is_none()
        );
        let other = clients.enter(second, 2);
        assert!(other.is_some());
        drop(places);
        assert!(clients.enter(first, 2).is_some());
        drop(other);
        assert!(lock(&clients.counts).is_empty());
    }
}
