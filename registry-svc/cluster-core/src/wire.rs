//! Vectors, registers and answers as they travel; the records' own form is the journal's.
//!
//! Parses messages of peers into values that cannot be wrong, or refuses them.

use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_facts::hlc::Hlc;
use registry_facts::record::{Key, NodeId, Rank, Record, RecordError, Stamped, Vector};
use registry_proto as wire;

use super::ahead::Ahead;
use super::buckets::Buckets;

/// The longest vector that is taken: a site has few nodes, and each has few lives.
const LONGEST_VECTOR: usize = 4096;

/// The most ranges of records ahead in a message; records beyond count once they have taken their places.
const MOST_RANGES: usize = 1024;

/// A message of any kind; none when the octets are not one.
#[must_use]
pub fn decode<M: prost::Message + Default>(octets: &[u8]) -> Option<M> {
    M::decode(octets).ok()
}

/// A vector on the wire.
#[must_use]
pub fn vector(vector: &Vector) -> wire::Vector {
    let entries = vector.iter().map(|(origin, sequence)| wire::vector::Entry {
        origin: Some(origin.into()),
        sequence,
    });
    wire::Vector {
        entries: entries.collect(),
    }
}

/// Reads a vector; none is an empty one.
///
/// # Errors
///
/// When it is none.
pub fn read_vector(vector: Option<wire::Vector>) -> Result<Vector, RecordError> {
    let entries = vector.unwrap_or_default().entries;
    if entries.len() > LONGEST_VECTOR {
        return Err(RecordError::Field("vector"));
    }
    entries
        .into_iter()
        .map(|entry| Ok((read_node(entry.origin)?, entry.sequence)))
        .collect()
}

/// Records ahead on the wire.
#[must_use]
pub fn ahead(ahead: &Ahead) -> wire::Ahead {
    let ranges = ahead.ranges.iter().take(MOST_RANGES);
    let ranges = ranges.map(|range| wire::ahead::Range {
        first: *range.start(),
        last: *range.end(),
    });
    wire::Ahead {
        origin: Some((&ahead.origin).into()),
        ranges: ranges.collect(),
    }
}

/// Reads records ahead; none when there are none.
///
/// # Errors
///
/// When they are none.
pub fn read_ahead(ahead: Option<wire::Ahead>) -> Result<Option<Ahead>, RecordError> {
    let Some(ahead) = ahead else {
        return Ok(None);
    };
    if ahead.ranges.len() > MOST_RANGES {
        return Err(RecordError::Field("ahead"));
    }
    let ranges = ahead.ranges.iter();
    Ok(Some(Ahead {
        origin: read_node(ahead.origin)?,
        ranges: ranges.map(|range| range.first..=range.last).collect(),
    }))
}

/// Reads a node, which has to be there.
///
/// # Errors
///
/// When it is none.
pub fn read_node(node: Option<wire::NodeId>) -> Result<NodeId, RecordError> {
    node.ok_or(RecordError::Field("node"))?.try_into()
}

/// A register on the wire.
#[must_use]
pub fn register(register: &Stamped) -> wire::Register {
    wire::Register {
        origin: Some((&register.origin).into()),
        stamp: register.stamp.to_bits(),
        fact: Some((&register.fact).into()),
    }
}

/// Reads a register.
///
/// # Errors
///
/// When it is none.
pub fn read_register(register: wire::Register) -> Result<Stamped, RecordError> {
    Ok(Stamped {
        origin: read_node(register.origin)?,
        sequence: 0,
        stamp: Hlc::from_bits(register.stamp),
        fact: register.fact.ok_or(RecordError::Unknown)?.try_into()?,
    })
}

/// Registers as the records that repair them: statements of one moment stay together.
#[must_use]
pub fn repairs(registers: Vec<Stamped>) -> Vec<Record> {
    let mut records: std::collections::BTreeMap<(Hlc, NodeId), Record> = Default::default();
    for register in registers {
        records
            .entry((register.stamp, register.origin.clone()))
            .or_insert_with(|| Record {
                origin: register.origin,
                sequence: 0,
                stamp: register.stamp,
                facts: Vec::new(),
            })
            .facts
            .push(register.fact);
    }
    records.into_values().collect()
}

/// Reads a digest.
///
/// # Errors
///
/// When it is none.
pub fn read_digest(text: &str) -> Result<Digest, RecordError> {
    text.parse().map_err(|_| RecordError::Field("digest"))
}

/// A search request of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// In which repository.
    pub repository: RepositoryName,
    /// Under what.
    pub what: SearchKey,
}

impl Search {
    /// The register that says whether the repository shows it.
    #[must_use]
    pub fn key(&self) -> Key {
        let repository = self.repository.clone();
        match &self.what {
            SearchKey::Blob(digest) => Key::Blob {
                repository,
                digest: *digest,
            },
            SearchKey::Manifest(Reference::Digest(digest)) => Key::Manifest {
                repository,
                digest: *digest,
            },
            SearchKey::Manifest(Reference::Tag(tag)) => Key::Tag {
                repository,
                tag: tag.clone(),
            },
        }
    }
}

/// A tag or a digest in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchKey {
    /// A blob.
    Blob(Digest),
    /// A manifest.
    Manifest(Reference),
}

/// The result of a search at a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The digest.
    pub digest: Digest,
    /// In octets.
    pub size: u64,
    /// The media type of a manifest.
    pub media_type: String,
    /// The origin and the stamp of the statement.
    pub rank: Rank,
    /// The register by which the repository has it.
    pub link: Stamped,
}

impl From<&Search> for wire::FindRequest {
    fn from(wanted: &Search) -> Self {
        use wire::find_request::What as Wire;
        let what = match &wanted.what {
            SearchKey::Blob(digest) => Wire::Blob(digest.to_string()),
            SearchKey::Manifest(Reference::Tag(tag)) => Wire::Manifest(tag.as_str().to_owned()),
            SearchKey::Manifest(Reference::Digest(digest)) => Wire::Manifest(digest.to_string()),
        };
        Self {
            repository: wanted.repository.as_str().to_owned(),
            what: Some(what),
        }
    }
}

impl TryFrom<wire::FindRequest> for Search {
    type Error = RecordError;

    fn try_from(request: wire::FindRequest) -> Result<Self, RecordError> {
        use wire::find_request::What as Wire;
        let repository = request.repository.parse();
        let what = match request.what.ok_or(RecordError::Unknown)? {
            Wire::Blob(digest) => SearchKey::Blob(read_digest(&digest)?),
            Wire::Manifest(reference) => {
                let reference = reference.parse();
                SearchKey::Manifest(reference.map_err(|_| RecordError::Field("reference"))?)
            }
        };
        Ok(Self {
            repository: repository.map_err(|_| RecordError::Field("repository"))?,
            what,
        })
    }
}

impl From<&Found> for wire::Found {
    fn from(found: &Found) -> Self {
        Self {
            digest: found.digest.to_string(),
            size: found.size,
            media_type: found.media_type.clone(),
            origin: Some((&found.rank.origin).into()),
            stamp: found.rank.stamp.to_bits(),
            link: Some(register(&found.link)),
        }
    }
}

impl TryFrom<wire::Found> for Found {
    type Error = RecordError;

    fn try_from(found: wire::Found) -> Result<Self, RecordError> {
        Ok(Self {
            digest: read_digest(&found.digest)?,
            size: found.size,
            media_type: found.media_type,
            rank: Rank {
                stamp: Hlc::from_bits(found.stamp),
                origin: read_node(found.origin)?,
            },
            link: read_register(found.link.ok_or(RecordError::Field("link"))?)?,
        })
    }
}

/// The sums of a peer's content.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The sums of its registers.
    pub registers: Buckets,
    /// The sums of the content that it holds.
    pub blobs: Buckets,
}

impl TryFrom<wire::SummaryResponse> for Summary {
    type Error = RecordError;

    fn try_from(response: wire::SummaryResponse) -> Result<Self, RecordError> {
        let buckets = |buckets: &[wire::Bucket]| {
            Buckets::from_wire(buckets).ok_or(RecordError::Field("bucket"))
        };
        Ok(Self {
            registers: buckets(&response.registers)?,
            blobs: buckets(&response.blobs)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_ahead_read_back_as_far_as_they_are_told() {
        let origin = NodeId {
            name: "a".parse().unwrap(),
            incarnation: 7,
        };
        let few = Ahead::new(origin.clone(), [3, 4, 9]);
        assert_eq!(read_ahead(Some(ahead(&few))), Ok(Some(few)));
        assert_eq!(read_ahead(None), Ok(None));
        // Every second sequence: no two are one range.
        let many = Ahead::new(origin, (0..=MOST_RANGES as u64).map(|at| 2 * at));
        let told = ahead(&many);
        let read = read_ahead(Some(told.clone())).unwrap().unwrap();
        assert_eq!(read.ranges, many.ranges[..MOST_RANGES]);
        let mut longer = told;
        longer.ranges.push(wire::ahead::Range::default());
        assert!(read_ahead(Some(longer)).is_err());
        assert!(read_ahead(Some(wire::Ahead::default())).is_err());
    }
}
