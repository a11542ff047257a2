//! Journal records: the facts of a registry that can change, and their codec.
//!
//! A record is a statement of one node at one moment, all or nothing. Each fact in it is a register
//! on its [`Key`] in which the last writer wins ([`Rank`]), so records may come twice and in any
//! order. The form on disk and between nodes is that of `outpost/registry/v1/record.proto`; a
//! received record is parsed into these types or refused as a whole.
//!
//! Never stores or sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};
use prost::Message;
use registry_proto as wire;
use thiserror::Error;

use crate::hlc::Hlc;
use crate::name::NodeName;

//--- Origin and time

/// A node in one life of its disk: a wiped disk begins another incarnation, so that a sequence
/// number is never given out twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The node's name in the site.
    pub name: NodeName,
    /// Made by chance with the store.
    pub incarnation: u64,
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{:016x}", self.name, self.incarnation)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The position of a record among those of its origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The node that stated it.
    pub origin: NodeId,
    /// Its number among the origin's, from 1.
    pub sequence: u64,
}

/// How many records of each origin have been taken, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector(BTreeMap<NodeId, u64>);

impl Vector {
    /// The last sequence of an origin; 0 when none was taken.
    #[must_use]
    pub fn of(&self, origin: &NodeId) -> u64 {
        self.0.get(origin).copied().unwrap_or(0)
    }

    /// Whether the record at a position has been taken.
    #[must_use]
    pub fn covers(&self, position: &Position) -> bool {
        position.sequence <= self.of(&position.origin)
    }

    /// Moves an origin forward, never back; true when it moved.
    pub fn advance(&mut self, origin: &NodeId, sequence: u64) -> bool {
        let moves = sequence > self.of(origin);
        if moves {
            self.0.insert(origin.clone(), sequence);
        }
        moves
    }

    /// The origins and their last sequences.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, u64)> {
        self.0.iter().map(|(origin, sequence)| (origin, *sequence))
    }
}

impl FromIterator<(NodeId, u64)> for Vector {
    fn from_iter<I: IntoIterator<Item = (NodeId, u64)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// The rank of a statement: the greater of two about one key holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// When it was stated.
    pub stamp: Hlc,
    /// The origin decides between equal stamps.
    pub origin: NodeId,
}

//--- Facts

/// One statement about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A repository has a blob, or has it no longer.
    Blob {
        /// The repository.
        repository: RepositoryName,
        /// The blob.
        digest: Digest,
        /// How many octets it has; none when the link is gone.
        size: Option<u64>,
    },
    /// A repository has a manifest, or has it no longer.
    Manifest {
        /// The repository.
        repository: RepositoryName,
        /// The manifest.
        digest: Digest,
        /// Its link; none when it was deleted.
        link: Option<Link>,
    },
    /// A tag points to a manifest, or was deleted.
    Tag {
        /// The repository.
        repository: RepositoryName,
        /// The tag.
        tag: Tag,
        /// The manifest; none when the tag was deleted.
        target: Option<Digest>,
    },
    /// A node is one of the site's, or was forgotten.
    Node {
        /// The node.
        name: NodeName,
        /// Its membership.
        membership: Membership,
    },
}

/// The time at which a node had last caught up with a majority, when it has taken records of one that had,
/// and has not caught up itself; 0 before that.
pub const FILLING: u64 = 1;

/// The membership of a node among those of the site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Whether it is one of them; else it was forgotten.
    pub is_member: bool,
    /// The address for the others, as `host:port`; none when their configurations have it.
    pub address: Option<Arc<str>>,
    /// When it was forgotten last, in milliseconds since 1970, and more than each time before; 0 when it
    /// never was.
    pub forgotten: u64,
}

/// The facts about a manifest that need no look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As pushed, without parameters.
    pub media_type: Arc<str>,
    /// In octets.
    pub size: u64,
    /// The manifest it refers to, which need not be there.
    pub subject: Option<Digest>,
}

impl Fact {
    /// The subject of the statement.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Blob {
                repository, digest, ..
            } => Key::Blob {
                repository: repository.clone(),
                digest: *digest,
            },
            Self::Manifest {
                repository, digest, ..
            } => Key::Manifest {
                repository: repository.clone(),
                digest: *digest,
            },
            Self::Tag {
                repository, tag, ..
            } => Key::Tag {
                repository: repository.clone(),
                tag: tag.clone(),
            },
            Self::Node { name, .. } => Key::Node { name: name.clone() },
        }
    }

    /// The repository it is about; none for a node.
    #[must_use]
    pub fn repository(&self) -> Option<&RepositoryName> {
        match self {
            Self::Blob { repository, .. }
            | Self::Manifest { repository, .. }
            | Self::Tag { repository, .. } => Some(repository),
            Self::Node { .. } => None,
        }
    }

    /// The content that it says is present: a blob or a manifest.
    #[must_use]
    pub const fn present_content(&self) -> Option<Digest> {
        match self {
            Self::Blob {
                digest,
                size: Some(_),
                ..
            }
            | Self::Manifest {
                digest,
                link: Some(_),
                ..
            } => Some(*digest),
            Self::Blob { .. } | Self::Manifest { .. } | Self::Tag { .. } | Self::Node { .. } => {
                None
            }
        }
    }

    /// Whether it says that something is gone, and may be forgotten itself later. That a node was
    /// forgotten is never forgotten: the node may come back after any time.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Blob { size, .. } => size.is_none(),
            Self::Manifest { link, .. } => link.is_none(),
            Self::Tag { target, .. } => target.is_none(),
            Self::Node { .. } => false,
        }
    }
}

/// The subject of a fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A blob in a repository.
    Blob {
        /// The repository.
        repository: RepositoryName,
        /// The blob.
        digest: Digest,
    },
    /// A manifest in a repository.
    Manifest {
        /// The repository.
        repository: RepositoryName,
        /// The manifest.
        digest: Digest,
    },
    /// A node.
    Node {
        /// Its name.
        name: NodeName,
    },
    /// A tag of a repository.
    Tag {
        /// The repository.
        repository: RepositoryName,
        /// The tag.
        tag: Tag,
    },
}

/// A fact with what decides whether it holds: the content of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The node that stated it.
    pub origin: NodeId,
    /// Its record's number among the origin's; 0 when it came by a repair.
    pub sequence: u64,
    /// When it was stated.
    pub stamp: Hlc,
    /// The statement.
    pub fact: Fact,
}

impl Stamped {
    /// The rank against another statement about the same key.
    #[must_use]
    pub fn rank(&self) -> Rank {
        Rank {
            stamp: self.stamp,
            origin: self.origin.clone(),
        }
    }
}

//--- Records

/// A statement of one node at one moment, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The node that stated it.
    pub origin: NodeId,
    /// Its number among the origin's, from 1; 0 is a repair, which has no place among them.
    pub sequence: u64,
    /// When it was stated.
    pub stamp: Hlc,
    /// In the order they were stated; none only moves the origin's sequence on.
    pub facts: Vec<Fact>,
}

impl Record {
    /// Its position; none for a repair.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        (self.sequence != 0).then(|| Position {
            origin: self.origin.clone(),
            sequence: self.sequence,
        })
    }

    /// The rank of its facts.
    #[must_use]
    pub fn rank(&self) -> Rank {
        Rank {
            stamp: self.stamp,
            origin: self.origin.clone(),
        }
    }

    /// The form on disk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        wire::Record::from(self).encode_to_vec()
    }

    /// Reads the form on disk.
    ///
    /// # Errors
    ///
    /// Fails on what is no record, and on a record with a fact that this version does not know.
    pub fn decode(octets: &[u8]) -> Result<Self, RecordError> {
        wire::Record::decode(octets)
            .map_err(|_| RecordError::Malformed)?
            .try_into()
    }
}

/// Why octets are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Not of the form.
    #[error("not a journal record")]
    Malformed,
    /// A field is not what it has to be.
    #[error("a journal record without a proper {0}")]
    Field(&'static str),
    /// A newer version wrote it.
    #[error("a journal record with a fact that this version does not know")]
    Unknown,
}

//--- Wire

/// The longest media type: it has to fit a header and a line of the index.
const LONGEST_MEDIA_TYPE: usize = 255;

impl From<&NodeId> for wire::NodeId {
    fn from(node: &NodeId) -> Self {
        Self {
            name: node.name.as_str().to_owned(),
            incarnation: node.incarnation,
        }
    }
}

impl TryFrom<wire::NodeId> for NodeId {
    type Error = RecordError;

    fn try_from(node: wire::NodeId) -> Result<Self, RecordError> {
        Ok(Self {
            name: parsed(&node.name, "node")?,
            incarnation: node.incarnation,
        })
    }
}

impl From<&Record> for wire::Record {
    fn from(record: &Record) -> Self {
        Self {
            origin: Some((&record.origin).into()),
            sequence: record.sequence,
            stamp: record.stamp.to_bits(),
            facts: record.facts.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<wire::Record> for Record {
    type Error = RecordError;

    fn try_from(record: wire::Record) -> Result<Self, RecordError> {
        let origin = record.origin.ok_or(RecordError::Field("origin"))?;
        let facts: Result<_, _> = record.facts.into_iter().map(TryInto::try_into).collect();
        Ok(Self {
            origin: origin.try_into()?,
            sequence: record.sequence,
            stamp: Hlc::from_bits(record.stamp),
            facts: facts?,
        })
    }
}

impl From<&Fact> for wire::Fact {
    fn from(fact: &Fact) -> Self {
        let kind = match fact {
            Fact::Blob {
                repository,
                digest,
                size,
            } => wire::fact::Kind::Blob(wire::BlobFact {
                repository: repository.to_string(),
                digest: digest.to_string(),
                present: size.is_some(),
                size: size.unwrap_or(0),
            }),
            Fact::Manifest {
                repository,
                digest,
                link,
            } => {
                let (media_type, size, subject) =
                    link.as_ref().map_or_else(Default::default, |link| {
                        let subject = link.subject.as_ref().map(ToString::to_string);
                        (
                            link.media_type.to_string(),
                            link.size,
                            subject.unwrap_or_default(),
                        )
                    });
                wire::fact::Kind::Manifest(wire::ManifestFact {
                    repository: repository.to_string(),
                    digest: digest.to_string(),
                    present: link.is_some(),
                    size,
                    media_type,
                    subject,
                })
            }
            Fact::Tag {
                repository,
                tag,
                target,
            } => wire::fact::Kind::Tag(wire::TagFact {
                repository: repository.to_string(),
                tag: tag.to_string(),
                target: target.as_ref().map(ToString::to_string).unwrap_or_default(),
            }),
            Fact::Node { name, membership } => wire::fact::Kind::Node(wire::NodeFact {
                name: name.as_str().to_owned(),
                present: membership.is_member,
                address: membership.address.as_deref().unwrap_or_default().to_owned(),
                forgotten: membership.forgotten,
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<wire::Fact> for Fact {
    type Error = RecordError;

    fn try_from(fact: wire::Fact) -> Result<Self, RecordError> {
        match fact.kind.ok_or(RecordError::Unknown)? {
            wire::fact::Kind::Blob(blob) => Ok(Self::Blob {
                repository: parsed(&blob.repository, "repository")?,
                digest: parsed(&blob.digest, "digest")?,
                size: blob.present.then_some(blob.size),
            }),
            wire::fact::Kind::Manifest(manifest) => Ok(Self::Manifest {
                repository: parsed(&manifest.repository, "repository")?,
                digest: parsed(&manifest.digest, "digest")?,
                link: manifest.present.then(|| link(&manifest)).transpose()?,
            }),
            wire::fact::Kind::Tag(tag) => Ok(Self::Tag {
                repository: parsed(&tag.repository, "repository")?,
                tag: parsed(&tag.tag, "tag")?,
                target: optional(&tag.target, "target")?,
            }),
            wire::fact::Kind::Node(node) => Ok(Self::Node {
                name: parsed(&node.name, "node")?,
                membership: Membership {
                    is_member: node.present,
                    address: address(&node.address)?,
                    forgotten: node.forgotten,
                },
            }),
        }
    }
}

fn link(manifest: &wire::ManifestFact) -> Result<Link, RecordError> {
    let media_type = manifest.media_type.as_str();
    let fits = (1..=LONGEST_MEDIA_TYPE).contains(&media_type.len())
        && media_type.bytes().all(|octet| octet.is_ascii_graphic());
    if !fits {
        return Err(RecordError::Field("media type"));
    }
    Ok(Link {
        media_type: media_type.into(),
        size: manifest.size,
        subject: optional(&manifest.subject, "subject")?,
    })
}

/// The longest address: it has to fit a line of the index.
const LONGEST_ADDRESS: usize = 255;

fn address(text: &str) -> Result<Option<Arc<str>>, RecordError> {
    let fits = text.len() <= LONGEST_ADDRESS && text.bytes().all(|octet| octet.is_ascii_graphic());
    match fits {
        true => Ok((!text.is_empty()).then(|| text.into())),
        false => Err(RecordError::Field("address")),
    }
}

fn parsed<T: std::str::FromStr>(text: &str, what: &'static str) -> Result<T, RecordError> {
    text.parse().map_err(|_| RecordError::Field(what))
}

fn optional<T: std::str::FromStr>(
    text: &str,
    what: &'static str,
) -> Result<Option<T>, RecordError> {
    (!text.is_empty()).then(|| parsed(text, what)).transpose()
}

#[cfg(test)]
mod tests;
