//! How many connections a service keeps, in all and of one client: a place for each, given back when
//! it ends.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The connections of one service.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_per_client: usize,
    clients: Mutex<HashMap<IpAddr, usize>>,
    open: AtomicU64,
    refused: AtomicU64,
}

/// A place among the connections; given back when dropped.
#[derive(Debug)]
pub struct Place {
    connections: Arc<Connections>,
    client: IpAddr,
}

impl Connections {
    /// Allows at most `most` in all, and `most_per_client` of one client address.
    #[must_use]
    pub fn new(most: usize, most_per_client: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_client,
            clients: Mutex::default(),
            open: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Takes a place for a client, unless a bound is reached.
    #[must_use]
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let client = client.to_canonical();
        let mut clients = self.clients.lock();
        let own = clients.get(&client).copied().unwrap_or(0);
        let has_room = usize::try_from(self.open()).is_ok_and(|open| open < self.most);
        if !has_room || own >= self.most_per_client {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        clients.insert(client, own + 1);
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Place {
            connections: Arc::clone(self),
            client,
        })
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How many were turned away because a bound was reached.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let clients = &self.connections.clients;
        let mut clients = clients.lock();
        if let Some(own) = clients.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                clients.remove(&self.client);
            }
        }
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_in_all_and_for_each_client_and_places_come_back() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let connections = Connections::new(3, 2);
        let one = connections.admit(address("192.0.2.1")).unwrap();
        let mapped = connections.admit(address("::ffff:192.0.2.1")).unwrap();
        assert!(connections.admit(address("192.0.2.1")).is_none());
        let other = connections.admit(address("2001:db8::1")).unwrap();
        assert!(connections.admit(address("192.0.2.2")).is_none());
        assert_eq!((connections.open(), connections.refused()), (3, 2));
        drop((one, mapped));
        assert_eq!(connections.open(), 1);
        let again = connections.admit(address("192.0.2.1"));
        assert!(again.is_some());
        drop((other, again));
        assert!(connections.clients.lock().is_empty());
    }
}
