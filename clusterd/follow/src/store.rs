//! The nodes that have joined, on disk, so that a start while clusterd is away has them.
//!
//! ```text
//! state  =  "outpost-cluster-nodes-state\n"  version (u32)  CRC-32C of the rest (u32)  [{list, name, address, number}, …] (JSON)
//! ```

use std::io;
use std::net::IpAddr;
use std::path::Path;

use cluster_members::Joined;
use durable::state::{self, Format, StateError};
use serde::{Deserialize, Serialize};

pub(crate) use durable::state::Loaded;

/// The form of the file.
const FORMAT: Format = Format {
    service: "cluster-nodes",
    version: 1,
    checksum: crc32c::crc32c,
    // A hundred lists with all the nodes that may join have less.
    max_size: 4 << 20,
};

/// The file of a directory.
pub(crate) type Store = state::Store<Vec<Saved>>;

/// A node in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) list: String,
    name: String,
    address: IpAddr,
    number: u32,
}

impl Saved {
    pub(crate) fn of(list: &str, kept: Joined) -> Self {
        Self {
            list: list.to_owned(),
            name: kept.name,
            address: kept.address,
            number: kept.number,
        }
    }

    pub(crate) fn kept(&self) -> Joined {
        Joined {
            name: self.name.clone(),
            address: self.address,
            number: self.number,
        }
    }
}

/// The file of a directory, which is made if it is not there.
pub(crate) fn open(directory: &Path) -> io::Result<Store> {
    Store::open(directory, &FORMAT, decode)
}

pub(crate) fn encode(nodes: &[Saved]) -> Vec<u8> {
    FORMAT.encode(&serde_json::to_vec(nodes).unwrap_or_default())
}

fn decode(octets: &[u8]) -> Result<Vec<Saved>, StateError> {
    let content = FORMAT.content(octets)?;
    serde_json::from_slice(content).map_err(|_| StateError::Damaged)
}

#[cfg(test)]
mod tests {
    use durable::testing::damages;

    use super::*;

    fn saved() -> Vec<Saved> {
        ["192.168.7.16", "2001:db8::16"]
            .map(|address| Saved {
                list: "api".to_owned(),
                name: "master-3".to_owned(),
                address: address.parse().unwrap(),
                number: 3,
            })
            .into()
    }

    #[test]
    fn nodes_are_read_back() {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place.path().join("nodes")).unwrap();
        assert!(matches!(store.load(), Loaded::Absent));
        for nodes in [saved(), Vec::new()] {
            store.save(&encode(&nodes)).unwrap();
            match store.load() {
                Loaded::Restored(read) => assert_eq!(read, nodes),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_damaged_file_is_refused_whatever_octet_it_is() {
        let good = encode(&saved());
        for (words, bad) in damages(&good) {
            assert!(decode(&bad).is_err(), "{words}");
        }
    }
}
