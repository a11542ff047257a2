//! How registers and what is derived from them lie in an index.
//!
//! | key | value | |
//! | --- | --- | --- |
//! | `b` repository NUL digest | register | a blob in a repository |
//! | `m` repository NUL digest | register | a manifest in a repository |
//! | `t` repository NUL tag | register | a tag |
//! | `n` name | register | a node |
//! | `d` digest kind repository | | the repositories that have a digest, as a blob or as a manifest |
//! | `s` repository NUL subject digest | | the manifests of a repository that refer to a digest |
//! | `r` repository | two counts | the blobs and manifests a repository has |
//!
//! No name contains NUL, which sorts below everything they contain, so entries come in the order of
//! the names. A register is its rank, its sequence and what was stated.

use bytes::{Buf as _, BufMut as _};
use oci::digest::{Algorithm, Digest};
use oci::reference::{RepositoryName, Tag};

use super::IndexError;
use crate::hlc::Hlc;
use crate::record::{Fact, Key, Link, Membership, NodeId, Rank, Stamped};

/// The prefix of the registers of blobs.
pub const BLOB: u8 = b'b';
/// The prefix of the registers of manifests.
pub const MANIFEST: u8 = b'm';
/// The prefix of the registers of tags.
pub const TAG: u8 = b't';
/// The prefix of the registers of nodes.
pub const NODE: u8 = b'n';
/// The prefix of the digests that repositories have.
pub const DIGEST: u8 = b'd';
/// The prefix of the subjects that manifests refer to.
pub const SUBJECT: u8 = b's';
/// The prefix of the repositories.
pub const REPOSITORY: u8 = b'r';

//--- Keys

/// The key of a register.
#[must_use]
pub fn register(key: &Key) -> Vec<u8> {
    match key {
        Key::Blob { repository, digest } => of_digest(BLOB, repository, digest),
        Key::Manifest { repository, digest } => of_digest(MANIFEST, repository, digest),
        Key::Tag { repository, tag } => of_tag(repository, tag.as_str()),
        Key::Node { name } => [&[NODE], name.as_str().as_bytes()].concat(),
    }
}

/// The key of a digest's register in a repository.
#[must_use]
pub fn of_digest(kind: u8, repository: &RepositoryName, digest: &Digest) -> Vec<u8> {
    let mut key = in_repository(kind, repository);
    put_digest(&mut key, digest);
    key
}

/// The key of a tag's register; takes any text, to find the keys after it.
#[must_use]
pub fn of_tag(repository: &RepositoryName, tag: &str) -> Vec<u8> {
    let mut key = in_repository(TAG, repository);
    key.put_slice(tag.as_bytes());
    key
}

/// The prefix of the keys of one kind in one repository.
#[must_use]
pub fn in_repository(kind: u8, repository: &RepositoryName) -> Vec<u8> {
    let mut key = Vec::with_capacity(repository.as_str().len() + 80);
    key.put_u8(kind);
    key.put_slice(repository.as_str().as_bytes());
    key.put_u8(0);
    key
}

/// The prefix of the keys of the repositories that have a digest as one of `kind`.
#[must_use]
pub fn holders(digest: &Digest, kind: u8) -> Vec<u8> {
    let mut key = vec![DIGEST];
    put_digest(&mut key, digest);
    key.put_u8(kind);
    key
}

/// The prefix of the keys of a repository's manifests that refer to a subject.
#[must_use]
pub fn referrers(repository: &RepositoryName, subject: &Digest) -> Vec<u8> {
    let mut key = in_repository(SUBJECT, repository);
    put_digest(&mut key, subject);
    key
}

/// The key of a manifest of a repository that refers to a subject.
#[must_use]
pub fn referrer(repository: &RepositoryName, subject: &Digest, digest: &Digest) -> Vec<u8> {
    let mut key = referrers(repository, subject);
    put_digest(&mut key, digest);
    key
}

/// The key of a repository; takes any text, to find the keys after it.
#[must_use]
pub fn repository(name: &str) -> Vec<u8> {
    let mut key = vec![REPOSITORY];
    key.put_slice(name.as_bytes());
    key
}

/// Parses a register's key.
///
/// # Errors
///
/// Fails on what is no key of a register.
pub fn parse_register(key: &[u8]) -> Result<Key, IndexError> {
    let (&kind, rest) = key.split_first().ok_or(IndexError::Malformed)?;
    if kind == NODE {
        return Ok(Key::Node { name: parse(rest)? });
    }
    let nul = rest.iter().position(|&octet| octet == 0);
    let (name, rest) = nul
        .and_then(|nul| rest.split_at_checked(nul))
        .ok_or(IndexError::Malformed)?;
    let repository: RepositoryName = parse(name)?;
    let rest = rest.get(1..).unwrap_or_default();
    match kind {
        BLOB => Ok(Key::Blob {
            repository,
            digest: parse_digest(rest)?,
        }),
        MANIFEST => Ok(Key::Manifest {
            repository,
            digest: parse_digest(rest)?,
        }),
        TAG => Ok(Key::Tag {
            repository,
            tag: parse(rest)?,
        }),
        _ => Err(IndexError::Malformed),
    }
}

/// A digest as it stands in keys: the last part of one.
///
/// # Errors
///
/// Fails on what is no digest.
pub fn parse_digest(octets: &[u8]) -> Result<Digest, IndexError> {
    let (&algorithm, octets) = octets.split_first().ok_or(IndexError::Malformed)?;
    let algorithm = match algorithm {
        1 => Algorithm::Sha256,
        2 => Algorithm::Sha512,
        _ => return Err(IndexError::Malformed),
    };
    Digest::from_octets(algorithm, octets).ok_or(IndexError::Malformed)
}

/// A name: the last part of a key.
///
/// # Errors
///
/// Fails on what is no such name.
pub fn parse<T: std::str::FromStr>(octets: &[u8]) -> Result<T, IndexError> {
    std::str::from_utf8(octets)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(IndexError::Malformed)
}

fn put_digest(key: &mut Vec<u8>, digest: &Digest) {
    key.put_u8(match digest.algorithm() {
        Algorithm::Sha256 => 1,
        Algorithm::Sha512 => 2,
    });
    key.put_slice(digest.octets());
}

//--- Registers

/// A register as it lies in an index.
#[must_use]
pub fn value(stamped: &Stamped) -> Vec<u8> {
    let name = stamped.origin.name.as_str();
    let mut value = Vec::with_capacity(96 + name.len());
    value.put_u64(stamped.stamp.to_bits());
    value.put_u64(stamped.sequence);
    value.put_u64(stamped.origin.incarnation);
    put_text(&mut value, name);
    match &stamped.fact {
        Fact::Blob { size, .. } => {
            if let Some(size) = size {
                value.put_u64(*size);
            }
        }
        Fact::Manifest { link, .. } => {
            if let Some(link) = link {
                value.put_u64(link.size);
                put_text(&mut value, &link.media_type);
                if let Some(subject) = &link.subject {
                    put_digest(&mut value, subject);
                }
            }
        }
        Fact::Tag { target, .. } => {
            if let Some(target) = target {
                put_digest(&mut value, target);
            }
        }
        Fact::Node { membership, .. } => {
            value.put_u8(membership.is_member.into());
            value.put_u64(membership.forgotten);
            put_text(
                &mut value,
                membership.address.as_deref().unwrap_or_default(),
            );
        }
    }
    value
}

/// Parses a register's key and value.
///
/// # Errors
///
/// Fails on what is no register.
pub fn parse_value(key: Key, value: &[u8]) -> Result<Stamped, IndexError> {
    let (rank, sequence, body) = parse_head(value)?;
    let fact = match key {
        Key::Blob { repository, digest } => Fact::Blob {
            repository,
            digest,
            size: parse_size(body)?,
        },
        Key::Manifest { repository, digest } => Fact::Manifest {
            repository,
            digest,
            link: parse_link(body)?,
        },
        Key::Tag { repository, tag } => Fact::Tag {
            repository,
            tag,
            target: parse_target(body)?,
        },
        Key::Node { name } => Fact::Node {
            name,
            membership: parse_membership(body)?,
        },
    };
    Ok(Stamped {
        origin: rank.origin,
        sequence,
        stamp: rank.stamp,
        fact,
    })
}

/// The rank of a register, its sequence, and its fact.
///
/// # Errors
///
/// Fails on what is no register.
pub fn parse_head(mut value: &[u8]) -> Result<(Rank, u64, &[u8]), IndexError> {
    let stamp = take_u64(&mut value)?;
    let sequence = take_u64(&mut value)?;
    let incarnation = take_u64(&mut value)?;
    let name = take_text(&mut value)?.parse();
    let rank = Rank {
        stamp: Hlc::from_bits(stamp),
        origin: NodeId {
            name: name.map_err(|_| IndexError::Malformed)?,
            incarnation,
        },
    };
    Ok((rank, sequence, value))
}

/// Parses the statement about a blob.
///
/// # Errors
///
/// Fails on what is no such statement.
pub fn parse_size(mut body: &[u8]) -> Result<Option<u64>, IndexError> {
    let size = (!body.is_empty())
        .then(|| take_u64(&mut body))
        .transpose()?;
    if body.is_empty() {
        Ok(size)
    } else {
        Err(IndexError::Malformed)
    }
}

/// Parses the statement about a manifest.
///
/// # Errors
///
/// Fails on what is no such statement.
pub fn parse_link(mut body: &[u8]) -> Result<Option<Link>, IndexError> {
    if body.is_empty() {
        return Ok(None);
    }
    let size = take_u64(&mut body)?;
    let media_type = take_text(&mut body)?.into();
    let subject = (!body.is_empty()).then(|| parse_digest(body)).transpose()?;
    Ok(Some(Link {
        media_type,
        size,
        subject,
    }))
}

/// Parses the statement about a tag.
///
/// # Errors
///
/// Fails on what is no such statement.
pub fn parse_target(body: &[u8]) -> Result<Option<Digest>, IndexError> {
    (!body.is_empty()).then(|| parse_digest(body)).transpose()
}

/// Parses the statement about a node.
fn parse_membership(mut body: &[u8]) -> Result<Membership, IndexError> {
    let is_member = body.try_get_u8().map_err(|_| IndexError::Malformed)? != 0;
    let forgotten = take_u64(&mut body)?;
    let address = take_text(&mut body)?;
    Ok(Membership {
        is_member,
        address: (!address.is_empty()).then(|| address.into()),
        forgotten,
    })
}

/// A tag from the key of its register.
///
/// # Errors
///
/// Fails on what is no such key.
pub fn parse_tag(key: &[u8], prefix: &[u8]) -> Result<Tag, IndexError> {
    parse(key.strip_prefix(prefix).ok_or(IndexError::Malformed)?)
}

/// Names and media types are at most 255 octets long.
fn put_text(value: &mut Vec<u8>, text: &str) {
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    value.put_u8(length);
    value.put_slice(
        text.as_bytes()
            .get(..usize::from(length))
            .unwrap_or_default(),
    );
}

fn take_text<'a>(value: &mut &'a [u8]) -> Result<&'a str, IndexError> {
    let (&length, rest) = value.split_first().ok_or(IndexError::Malformed)?;
    let (text, rest) = rest
        .split_at_checked(usize::from(length))
        .ok_or(IndexError::Malformed)?;
    *value = rest;
    std::str::from_utf8(text).map_err(|_| IndexError::Malformed)
}

fn take_u64(value: &mut &[u8]) -> Result<u64, IndexError> {
    value.try_get_u64().map_err(|_| IndexError::Malformed)
}
