//! Renders every answer of a zone when it is built.

use dns_wire::hash::Suffixes;
use dns_wire::{Name, Type};

use super::resolve::Asked;
use super::{Answer, Kind, NO_TYPE, Node, NodeAnswers, SetData, TypedAnswer, Zone};
use crate::name_table::Index;
use crate::resolution::{Pick, Unresolved};
use crate::store::{StoreBuilder, append, shrunk};

/// The most names of a signed zone whose answers without data are rendered, each with a proof of its own.
const MAX_SIGNED_NODATA: usize = 100_000;

/// Fills in the zone's answers.
pub(super) fn render(zone: &mut Zone) {
    let mut renderer = Renderer::behind(zone);
    renderer.render_negative(zone);
    let mut nodes = zone.nodes.clone();
    for (place, node) in nodes.iter_mut().enumerate() {
        if let Some(index) = Index::new(place)
            && !node.occluded
        {
            node.answers = renderer.render_node(zone, index, node);
        }
    }
    zone.nodes = nodes;
    if zone.is_signed() {
        renderer.signed = true;
        zone.signed = renderer.render_signed(zone);
    }
    zone.answers = shrunk(renderer.answers);
    zone.store = renderer.store.finish();
    zone.onward = shrunk(renderer.onward);
}

/// Makes the answers of some nodes of a zone without signatures again, behind those that it has.
pub(super) fn render_again(zone: &mut Zone, indices: impl IntoIterator<Item = Index>) {
    let mut renderer = Renderer::behind(zone);
    for index in indices {
        let Some(node) = zone.node(index).copied() else {
            continue;
        };
        let answers = renderer.render_node(zone, index, &node);
        if let Some(node) = zone.nodes.get_mut(index.get()) {
            node.answers = answers;
        }
    }
    append(&mut zone.answers, &mut renderer.answers);
    zone.store.append(renderer.store.finish());
    append(&mut zone.onward, &mut renderer.onward);
}

struct Renderer {
    /// How many answers are before those here.
    answers_before: usize,
    store: StoreBuilder,
    answers: Vec<TypedAnswer>,
    suffixes: Suffixes,
    /// The answers whose alias may lead into another zone, in their order, with its target.
    onward: Vec<(u32, Name)>,
    /// Whether the answers have signatures and proofs.
    signed: bool,
}

impl Renderer {
    /// Its answers come behind those of the zone.
    fn behind(zone: &Zone) -> Self {
        Self {
            answers_before: zone.answers.len(),
            store: StoreBuilder::behind(&zone.store),
            answers: Vec::new(),
            suffixes: Suffixes::default(),
            onward: Vec::new(),
            signed: false,
        }
    }

    /// The two answers that every name shares.
    fn render_negative(&mut self, zone: &mut Zone) {
        let mut resolution = zone.resolve_negative();
        let nodata = self.store.render(&zone.apex, &resolution);
        resolution.rcode = dns_wire::Rcode::NXDOMAIN;
        let nxdomain = self.store.render(&zone.apex, &resolution);
        drop(resolution);
        zone.nodata = nodata.map_or(Answer::Resolve, Answer::Rendered);
        zone.nxdomain = nxdomain.map_or(Answer::Resolve, Answer::Rendered);
    }

    /// The answers of all nodes with signatures and proofs.
    fn render_signed(&mut self, zone: &Zone) -> Box<[NodeAnswers]> {
        let nodes = zone.nodes.iter().enumerate();
        let answers = nodes.map(|(place, node)| match Index::new(place) {
            // The proofs of a wildcard's answers depend on the name.
            Some(index) if !node.occluded && !zone.spelling(index).is_wildcard() => {
                self.render_node(zone, index, node)
            }
            _ => NodeAnswers::default(),
        });
        answers.collect()
    }

    fn render_node(&mut self, zone: &Zone, index: Index, node: &Node) -> NodeAnswers {
        let name = zone.spelling(index);
        let reference = match name.is_wildcard() {
            true => name.parent().unwrap_or_else(Name::root),
            false => name.clone(),
        };
        let start = self.answers.len();
        let sets = zone.sets_of(node);
        let alias = sets.iter().find(|set| set.rtype == Type::CNAME);
        match node.kind {
            Kind::Cut => self.add(zone, &name, &reference, Type::DS),
            Kind::Plain | Kind::Dname => {
                for set in sets {
                    match set.data {
                        SetData::Live(number) => self.answers.push(TypedAnswer {
                            rtype: set.rtype,
                            answer: Answer::Live(number),
                        }),
                        SetData::Fixed { .. } => self.add(zone, &name, &reference, set.rtype),
                    }
                }
                if alias.is_some() {
                    self.suffixes.read(zone.seed, name.as_wire());
                    let asked = (spelled(&name), &self.suffixes);
                    for rtype in zone.types_behind(asked, NO_TYPE) {
                        let known = self.answers.get(start..).unwrap_or_default();
                        if known.iter().all(|answer| answer.rtype != rtype) {
                            self.add(zone, &name, &reference, rtype);
                        }
                    }
                }
            }
        }
        let other = match (node.kind, alias) {
            (Kind::Plain | Kind::Dname, None) if !self.signed => zone.nodata,
            (Kind::Plain | Kind::Dname, None) if zone.nodes.len() > MAX_SIGNED_NODATA => {
                Answer::Resolve
            }
            _ => self.answer(zone, &name, &reference, NO_TYPE),
        };
        // A name has few types, and most files begin with those of most queries. This order does not depend
        // on the file's.
        if let Some(own) = self.answers.get_mut(start..) {
            own.sort_by_key(|answer| answer.rtype);
        }
        NodeAnswers {
            start: u32::try_from(self.answers_before + start).unwrap_or(u32::MAX),
            n: u16::try_from(self.answers.len() - start).unwrap_or(u16::MAX),
            other,
        }
    }

    fn add(&mut self, zone: &Zone, name: &Name, reference: &Name, rtype: Type) {
        let answer = self.answer(zone, name, reference, rtype);
        self.answers.push(TypedAnswer { rtype, answer });
    }

    fn answer(&mut self, zone: &Zone, name: &Name, reference: &Name, rtype: Type) -> Answer {
        self.suffixes.read(zone.seed, name.as_wire());
        let asked = Asked::new(spelled(name), &self.suffixes, rtype).signed(self.signed);
        let resolved = zone.resolve(asked, &mut |_| Pick::PerQuery, &|_| false);
        let rendered = match resolved {
            // The negative answer is the zone's own unless an alias comes before it.
            Ok(resolution) if !self.signed && resolution.is_plain_nodata() => return zone.nodata,
            // If the alias of a wildcard leads back to it, some names are in a loop and others are not yet.
            Ok(resolution) if name.is_wildcard() && resolution.returns() => None,
            Ok(resolution) => {
                let rendered = self.store.render(reference, &resolution).ok();
                rendered.map(|number| match resolution.onward {
                    Some(target) => {
                        self.onward.push((number, target));
                        Answer::Onward(number)
                    }
                    None => Answer::Rendered(number),
                })
            }
            Err(Unresolved::Failed | Unresolved::PerQuery) => None,
        };
        rendered.unwrap_or(Answer::Resolve)
    }
}

/// The question's name for resolving: none for a wildcard, since its answers are for other names than its
/// own.
fn spelled(name: &Name) -> &[u8] {
    match name.is_wildcard() {
        true => &[],
        false => name.as_wire(),
    }
}
