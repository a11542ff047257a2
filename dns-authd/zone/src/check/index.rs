//! The names of a zone: the records of each, and the result of looking one up.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use dns_wire::name::labels;
use dns_wire::{Name, Type};

use crate::record::Record;

/// A name in wire form, compared without regard to case. Any part of a name that ends with the root is a
/// name too, so ancestors cost no copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suffix<'a>(pub(super) &'a [u8]);

impl PartialEq for Suffix<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Suffix<'_> {}

impl Hash for Suffix<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut lower = [0; 255];
        for (lower, octet) in lower.iter_mut().zip(self.0) {
            *lower = octet.to_ascii_lowercase();
        }
        state.write(lower.get(..self.0.len()).unwrap_or(&lower));
    }
}

impl<'a> Suffix<'a> {
    /// The name without its first label.
    pub(super) fn parent(self) -> Option<Self> {
        let skip = usize::from(*self.0.first().filter(|length| **length > 0)?) + 1;
        self.0.get(skip..).map(Self)
    }
}

/// Every name of a zone and its records.
pub(super) struct Index<'z> {
    apex: Suffix<'z>,
    records: &'z [Record],
    nodes: HashMap<Suffix<'z>, Node>,
    /// The names of the nodes in the order of the files.
    names: Vec<Suffix<'z>>,
    /// Numbers of records, those of one node side by side.
    order: Vec<usize>,
    /// Names above others that own nothing themselves (RFC 4592 §2.2.2).
    between: HashSet<Suffix<'z>>,
    /// Whether any name is delegated or redirected; otherwise lookups are short.
    divided: bool,
}

/// The records of one name, as a part of [`Index::order`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    start: usize,
    length: usize,
}

/// The result of looking up a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The name, or the wildcard that matches it.
    Node(Node),
    /// A name that owns nothing, with names below it.
    Empty,
    /// No such name.
    Missing,
    /// Unknown to this zone: outside, or below a delegation or a DNAME.
    Elsewhere,
}

impl<'z> Index<'z> {
    pub(super) fn new(apex: &'z Name, records: &'z [Record]) -> Self {
        let mut nodes: HashMap<Suffix<'z>, Node> = HashMap::with_capacity(records.len());
        let mut names = Vec::new();
        for record in records {
            let name = Suffix(record.owner.as_wire());
            let node = nodes.entry(name).or_default();
            if node.length == 0 {
                names.push(name);
            }
            node.length += 1;
        }
        let mut start = 0;
        for node in nodes.values_mut() {
            node.start = start;
            start += node.length;
            node.length = 0;
        }
        let mut order = vec![0; records.len()];
        for (number, record) in records.iter().enumerate() {
            if let Some(node) = nodes.get_mut(&Suffix(record.owner.as_wire())) {
                if let Some(slot) = order.get_mut(node.start + node.length) {
                    *slot = number;
                }
                node.length += 1;
            }
        }
        let apex = Suffix(apex.as_wire());
        let divides = |record: &Record| {
            let apart = Suffix(record.owner.as_wire()) != apex;
            record.rtype() == Type::DNAME || (record.rtype() == Type::NS && apart)
        };
        let divided = records.iter().any(divides);
        let mut index = Self {
            apex,
            records,
            nodes,
            names,
            order,
            between: HashSet::new(),
            divided,
        };
        index.fill_gaps();
        index
    }

    fn fill_gaps(&mut self) {
        let mut between = HashSet::new();
        for name in self.nodes.keys() {
            let mut above = name.parent();
            while let Some(name) = above.filter(|name| name.0.len() > self.apex.0.len()) {
                if self.nodes.contains_key(&name) || !between.insert(name) {
                    break;
                }
                above = name.parent();
            }
        }
        self.between = between;
    }

    /// The names that own records, each once, in the order of the files.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Suffix<'z>, Node)> {
        let node = |name: &Suffix<'z>| Some((*name, *self.nodes.get(name)?));
        self.names.iter().filter_map(node)
    }

    /// The records of a node in the order of the files.
    pub(super) fn records(&self, node: Node) -> impl Iterator<Item = &'z Record> {
        let numbers = self
            .order
            .get(node.start..node.start + node.length)
            .unwrap_or_default();
        let records = self.records;
        numbers
            .iter()
            .filter_map(move |number| records.get(*number))
    }

    /// Whether a name owns records of a type.
    pub(super) fn has(&self, name: Suffix<'_>, rtype: Type) -> bool {
        let node = self.nodes.get(&name);
        node.is_some_and(|node| self.records(*node).any(|record| record.rtype() == rtype))
    }

    /// Whether a name is delegated.
    pub(super) fn is_cut(&self, name: Suffix<'_>) -> bool {
        name != self.apex && self.has(name, Type::NS)
    }

    /// The delegation or DNAME that a name of the zone lies below, the highest one.
    pub(super) fn divider<'n>(&self, name: Suffix<'n>) -> Option<(Suffix<'n>, Type)> {
        if !self.divided {
            return None;
        }
        let mut found = None;
        let mut above = name.parent();
        while let Some(name) = above.filter(|name| name.0.len() >= self.apex.0.len()) {
            if self.is_cut(name) {
                found = Some((name, Type::NS));
            } else if self.has(name, Type::DNAME) {
                found = Some((name, Type::DNAME));
            }
            above = name.parent();
        }
        found
    }

    /// The result of looking up a name.
    pub(super) fn find(&self, name: Suffix<'_>) -> Found {
        if !self.holds(name) || self.divider(name).is_some() || self.is_cut(name) {
            return Found::Elsewhere;
        }
        if let Some(node) = self.nodes.get(&name) {
            return Found::Node(*node);
        }
        if self.between.contains(&name) {
            return Found::Empty;
        }
        let mut above = name.parent();
        while let Some(encloser) = above {
            if self.nodes.contains_key(&encloser) || self.between.contains(&encloser) {
                let wildcard = [b"\x01*", encloser.0].concat();
                let node = self.nodes.get(&Suffix(&wildcard));
                return node.map_or(Found::Missing, |node| Found::Node(*node));
            }
            above = encloser.parent();
        }
        Found::Missing
    }

    /// Whether a name is the apex or below it.
    pub(super) fn holds(&self, name: Suffix<'_>) -> bool {
        let mut suffix = name;
        while suffix.0.len() > self.apex.0.len() {
            let Some(parent) = suffix.parent() else {
                return false;
            };
            suffix = parent;
        }
        suffix == self.apex
    }

    pub(super) const fn apex(&self) -> Suffix<'z> {
        self.apex
    }
}

/// A name's text.
pub(super) fn shown(name: Suffix<'_>) -> String {
    Name::from_wire(name.0)
        .map(|(name, _)| name.to_string())
        .unwrap_or_default()
}

/// Whether a name may name a host: letters, digits and inner hyphens (RFC 1123 §2.1). A leading `*` label
/// matches any.
pub(super) fn is_hostname(wire: &[u8]) -> bool {
    let wire = wire.strip_prefix(b"\x01*").unwrap_or(wire);
    labels(wire).all(|label| {
        let legal = label
            .iter()
            .all(|octet| octet.is_ascii_alphanumeric() || *octet == b'-');
        legal && !label.starts_with(b"-") && !label.ends_with(b"-")
    })
}
