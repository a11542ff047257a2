//! A catalog zone, as a consumer reads it (RFC 9432 §4).

use std::collections::BTreeMap;

use dns_wire::{Name, Type};

/// The version of the schema (RFC 9432 §4.2.1).
const VERSION: &[u8] = b"2";

/// The zones that a catalog lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The member nodes of each zone, in the order of their identifiers. A zone that is listed more than once has several.
    members: BTreeMap<Name, Vec<Node>>,
}

/// A member node: its label, and its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The label that identifies the member, in lower case (`unique-N` of RFC 9432 §4.1).
    pub id: Box<[u8]>,
    /// Its groups (§4.3.2).
    pub groups: Vec<String>,
    /// The catalog that may take the zone over (§4.3.1, `coo`).
    pub coo: Option<Name>,
}

/// A catalog zone that must not be processed (RFC 9432 §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It has no version.
    NoVersion,
    /// Its version is another one than 2, or not a single text.
    Version(String),
    /// A member node has more than one PTR record.
    TwoMembers(String),
    /// A member node has more than one `coo`.
    TwoOwners(String),
    /// It has more members than are allowed.
    TooMany(usize),
}

/// The properties of a node, as far as they are read.
#[derive(Default)]
struct Draft {
    zones: Vec<Name>,
    groups: Vec<String>,
    owners: Vec<Name>,
}

impl Catalog {
    /// Reads the catalog out of the records of a zone: owner, type and data of each. Records of other properties, which others may
    /// understand, are ignored. `most` is the largest number of member nodes.
    ///
    /// # Errors
    /// When the zone is broken: it must not be processed.
    pub fn read<'r>(
        apex: &Name,
        records: impl IntoIterator<Item = (&'r Name, Type, &'r [u8])>,
        most: usize,
    ) -> Result<Self, Broken> {
        let mut versions: Vec<Vec<&[u8]>> = Vec::new();
        let mut drafts: BTreeMap<Box<[u8]>, Draft> = BTreeMap::new();
        for (owner, rtype, rdata) in records {
            if !owner.is_within(apex) {
                continue;
            }
            let depth = owner.n_labels().saturating_sub(apex.n_labels());
            let labels: Vec<Box<[u8]>> = owner
                .labels()
                .take(depth.min(4))
                .map(|label| label.to_ascii_lowercase().into())
                .collect();
            let labels: Vec<&[u8]> = labels.iter().map(|label| &**label).collect();
            match (labels.as_slice(), rtype) {
                ([b"version"], Type::TXT) => versions.push(strings(rdata)),
                ([id, b"zones"], Type::PTR) => {
                    let zones = &mut drafts.entry((*id).into()).or_default().zones;
                    zones.extend(target(rdata));
                }
                ([b"coo", id, b"zones"], Type::PTR) => {
                    let owners = &mut drafts.entry((*id).into()).or_default().owners;
                    owners.extend(target(rdata));
                }
                ([b"group", id, b"zones"], Type::TXT) => {
                    let groups = &mut drafts.entry((*id).into()).or_default().groups;
                    groups.extend(group(rdata));
                }
                _ => {}
            }
            if drafts.len() > most {
                return Err(Broken::TooMany(most));
            }
        }
        check_version(&versions)?;
        let mut members: BTreeMap<Name, Vec<Node>> = BTreeMap::new();
        for (id, mut draft) in drafts {
            if draft.zones.len() > 1 {
                return Err(Broken::TwoMembers(shown(&id)));
            }
            if draft.owners.len() > 1 {
                return Err(Broken::TwoOwners(shown(&id)));
            }
            // Properties without a member mean nothing.
            let Some(zone) = draft.zones.pop() else {
                continue;
            };
            draft.groups.sort();
            draft.groups.dedup();
            members.entry(zone).or_default().push(Node {
                id,
                groups: draft.groups,
                coo: draft.owners.pop(),
            });
        }
        Ok(Self { members })
    }

    /// The zones with their nodes.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&Name, &[Node])> {
        self.members
            .iter()
            .map(|(zone, nodes)| (zone, nodes.as_slice()))
    }

    /// The nodes of a zone; none if the catalog does not list it.
    #[must_use]
    pub fn nodes(&self, zone: &Name) -> &[Node] {
        self.members.get(zone).map_or(&[], Vec::as_slice)
    }
}

fn check_version(versions: &[Vec<&[u8]>]) -> Result<(), Broken> {
    match versions {
        [] => Err(Broken::NoVersion),
        [only] if only.as_slice() == [VERSION] => Ok(()),
        all => {
            let texts = all.iter().flatten().map(|text| shown(text));
            Err(Broken::Version(texts.collect::<Vec<_>>().join(" ")))
        }
    }
}

/// The name that a PTR record leads to.
fn target(rdata: &[u8]) -> Option<Name> {
    let (name, _) = Name::from_wire(rdata).ok()?;
    Some(name.to_lowercase())
}

/// The strings of a TXT record.
fn strings(mut rdata: &[u8]) -> Vec<&[u8]> {
    let mut strings = Vec::new();
    while let Some((length, rest)) = rdata.split_first() {
        let Some((string, rest)) = rest.split_at_checked(usize::from(*length)) else {
            break;
        };
        strings.push(string);
        rdata = rest;
    }
    strings
}

/// The group of a TXT record; it is a single string (RFC 9432 §4.3.2).
fn group(rdata: &[u8]) -> Option<String> {
    match *strings(rdata).as_slice() {
        [group] => String::from_utf8(group.to_vec()).ok(),
        _ => None,
    }
}

/// A label or a string for people: octets that cannot be printed are escaped, and a long one is cut.
fn shown(text: &[u8]) -> String {
    let text: String = text.escape_ascii().map(char::from).collect();
    text.chars().take(80).collect()
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoVersion => f.write_str("it has no `version` record, so it is no catalog zone"),
            Self::Version(version) => write!(
                f,
                "its version is `{version}`, and only version 2 is understood"
            ),
            Self::TwoMembers(id) => write!(f, "member `{id}` has more than one PTR record"),
            Self::TwoOwners(id) => write!(f, "member `{id}` has more than one `coo` record"),
            Self::TooMany(most) => write!(f, "it lists more than {most} zones (max-members)"),
        }
    }
}

impl std::error::Error for Broken {}
