//! The last object of OpenShift's DNS operator on disk, so that a dns-recursor that starts while clusterd is away forwards as it
//! did.
//!
//! ```text
//! state  =  "outpost-dns-recursor-cluster-state\n"  version (u32)  CRC-32C of the rest (u32)  object
//! object =  nothing: the cluster has none  |  outpost.cluster.v1.Object (protobuf)
//! ```
//!
//! The file counts whole or not at all: one that is damaged is moved aside. It is replaced at once by a new one, so that a power
//! cut leaves the one or the other.

#![warn(missing_docs)]

use std::io;
use std::path::Path;

use cluster::{Dns, Object};
use durable::state::{self, Format, StateError};
use prost::Message as _;
use proto::wire::cluster as wire;

pub use durable::state::Loaded;

/// The form of the file.
const FORMAT: Format = Format {
    service: "dns-recursor-cluster",
    version: 1,
    checksum: crc32c::crc32c,
    // A thousand zones with 15 upstreams each have less.
    max_size: 4 << 20,
};

/// The object of the cluster, or that there is none.
pub type Known = Option<Box<Dns>>;

/// The directory of the file.
pub type Store = state::Store<Known>;

/// The file of a directory, which is made if it is not there.
///
/// # Errors
///
/// When the directory cannot be made.
pub fn open(directory: &Path) -> io::Result<Store> {
    Store::open(directory, &FORMAT, decode)
}

/// The octets of the file.
#[must_use]
pub fn encode(known: &Known) -> Vec<u8> {
    let object = known.as_ref().map(|dns| {
        let object = Object::Dns(dns.clone());
        wire::Object::from(&object).encode_to_vec()
    });
    FORMAT.encode(&object.unwrap_or_default())
}

/// Reads the octets of the file.
///
/// # Errors
///
/// When they are not those that [`encode`] made.
pub fn decode(octets: &[u8]) -> Result<Known, StateError> {
    let content = FORMAT.content(octets)?;
    if content.is_empty() {
        return Ok(None);
    }
    let object = wire::Object::decode(content).map_err(|_| StateError::Damaged)?;
    match Object::try_from(object) {
        Ok(Object::Dns(dns)) => Ok(Some(dns)),
        Ok(_) | Err(_) => Err(StateError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cluster::{DnsForward, DnsServer, DnsUpstream, Meta};
    use durable::testing::damages;

    use super::*;

    fn object() -> Known {
        Some(Box::new(Dns {
            meta: Meta {
                name: "default".to_owned(),
                ..Meta::default()
            },
            servers: vec![DnsServer {
                name: "office".to_owned(),
                zones: vec!["corp.example".to_owned()],
                forward: DnsForward {
                    upstreams: vec![
                        DnsUpstream::Address("192.0.2.1:5353".parse().unwrap()),
                        DnsUpstream::System,
                    ],
                    ..DnsForward::default()
                },
            }],
            positive_ttl: Some(60),
            ..Dns::default()
        }))
    }

    #[test]
    fn the_last_object_is_read_back_and_so_is_that_there_is_none() {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place.path().join("cluster")).unwrap();
        assert!(matches!(store.load(), Loaded::Absent));
        for known in [object(), None, object()] {
            store.save(&encode(&known)).unwrap();
            match store.load() {
                Loaded::Restored(read) => assert_eq!(read, known),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_damaged_file_is_moved_aside_whatever_octet_it_is() {
        let place = tempfile::tempdir().unwrap();
        let store = open(place.path()).unwrap();
        let good = encode(&object());
        for (words, bad) in damages(&good) {
            assert!(decode(&bad).is_err(), "{words}");
        }
        fs::write(store.path(), &good[1..]).unwrap();
        assert!(matches!(store.load(), Loaded::Refused(_)));
        assert!(matches!(store.load(), Loaded::Absent));
    }

    #[test]
    fn an_object_of_another_kind_is_no_state() {
        let namespace = Object::Namespace(cluster::Namespace {
            meta: Meta::default(),
        });
        let octets = FORMAT.encode(&wire::Object::from(&namespace).encode_to_vec());
        assert_eq!(decode(&octets), Err(StateError::Damaged));
    }
}
