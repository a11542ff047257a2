//! Access lists: `{ key NAME; ADDRESS[/LENGTH]; ACL; !ELEMENT; { ... }; }`, of which the first element that fits decides.
//!
//! The lists here are sets: networks of which the most specific one decides, and keys that count from every address. A list
//! that means something else cannot be carried over; it then has no client at all, with a warning.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use config_text::Position;
use dns_views::Clients;
use dns_wire::Name;

use crate::tree::{Fault, Item, Statement};
use crate::{Keyword, position, unexpected};

/// The list of all clients.
const ANY: &str = "any";
/// How deep lists may name each other.
const MAX_DEPTH: usize = 16;
/// The most elements of one list, with those of the lists that it names.
const MAX_ELEMENTS: usize = 65_536;

/// An element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    is_excluded: bool,
    matcher: Matcher,
    position: Position,
}

/// The clients that an element fits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    /// A network: an address and the length of its prefix.
    Network(IpAddr, u8),
    /// The holders of a key.
    Key(Name),
    /// Those of a named list.
    Named(String),
    /// Those of a list.
    List(Vec<Element>),
    /// Something that only BIND knows.
    Foreign(String),
}

/// The lists of a zone, of a view or of the options.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) query: Option<Vec<Element>>,
    pub(super) transfer: Option<TransferList>,
}

/// The list of `allow-transfer`.
#[derive(Clone, Debug)]
pub(super) struct TransferList {
    pub(super) elements: Vec<Element>,
    /// Whether its clients have to transfer over TLS.
    pub(super) needs_tls: bool,
}

/// The named lists.
#[derive(Debug, Default)]
pub(super) struct Acls(HashMap<String, Vec<Element>>);

/// Remarks about lists that mean less here.
type Warnings = Vec<(Position, String)>;

impl Element {
    /// Every client.
    pub(super) fn any(position: Position) -> Self {
        Self {
            is_excluded: false,
            matcher: Matcher::Named(ANY.to_owned()),
            position,
        }
    }
}

//--- Reading

/// The elements of the block that a statement ends with.
pub(super) fn elements(
    file: &Arc<Path>,
    keyword: &Keyword,
    rest: &[Item<'_>],
) -> Result<Vec<Element>, Fault> {
    match rest.last() {
        Some(Item::Block(statements, _)) => list(file, statements),
        _ => Err(unexpected(keyword, rest, "a list in braces")),
    }
}

/// `[ port NUMBER ] [ transport WORD ] { ... }` of `allow-transfer`. The listeners are of the configuration, and have the ports.
pub(super) fn transfer(
    file: &Arc<Path>,
    keyword: &Keyword,
    rest: &[Item<'_>],
) -> Result<TransferList, Fault> {
    let elements = elements(file, keyword, rest)?;
    let (_, mut words) = rest
        .split_last()
        .unwrap_or((&Item::Word(b"", keyword.place), &[]));
    let mut needs_tls = false;
    loop {
        words = match words {
            [] => break,
            [Item::Word(b"port", _), Item::Word(..), rest @ ..] => rest,
            [
                Item::Word(b"transport", _),
                Item::Word(word, place),
                rest @ ..,
            ] => {
                needs_tls = match &word.to_ascii_lowercase()[..] {
                    b"tls" => true,
                    b"tcp" => false,
                    _ => {
                        let word = String::from_utf8_lossy(word);
                        let message = format!("`{word}` is no transport of transfers");
                        return Err(Fault::new(*place, message));
                    }
                };
                rest
            }
            _ => return Err(unexpected(keyword, rest, "a list in braces")),
        };
    }
    Ok(TransferList {
        elements,
        needs_tls,
    })
}

fn list(file: &Arc<Path>, statements: &[Statement<'_>]) -> Result<Vec<Element>, Fault> {
    let statements = statements
        .iter()
        .filter(|statement| !statement.items.is_empty());
    statements
        .map(|statement| element(file, &statement.items))
        .collect()
}

fn element(file: &Arc<Path>, items: &[Item<'_>]) -> Result<Element, Fault> {
    let Some((first, rest)) = items.split_first() else {
        return Err(Fault::new(
            crate::lexer::Place::default(),
            "an empty element",
        ));
    };
    let place = first.place();
    let (word, rest, is_excluded) = match (first, rest) {
        (Item::Word(b"!", _), [next, rest @ ..]) => (next, rest, true),
        (first, rest) => (first, rest, false),
    };
    let (matcher, is_excluded) = match word {
        Item::Block(statements, _) => (Matcher::List(list(file, statements)?), is_excluded),
        Item::Word(text, place) => {
            let text = String::from_utf8_lossy(text);
            let (text, is_excluded) = match text.strip_prefix('!') {
                Some(text) => (text, true),
                None => (&*text, is_excluded),
            };
            (matcher(text, rest, *place)?, is_excluded)
        }
    };
    Ok(Element {
        is_excluded,
        matcher,
        position: position(file, place),
    })
}

fn matcher(text: &str, rest: &[Item<'_>], place: crate::lexer::Place) -> Result<Matcher, Fault> {
    match (text, rest) {
        ("key", [Item::Word(name, place)]) => {
            let name = Name::parse_bytes(name, &Name::root());
            let name = name.map_err(|error| Fault::new(*place, error.to_string()))?;
            Ok(Matcher::Key(name))
        }
        ("geoip", _) | ("localnets", []) => Ok(Matcher::Foreign(text.to_owned())),
        (_, []) => Ok(network(text).unwrap_or_else(|| Matcher::Named(text.to_owned()))),
        _ => Err(Fault::new(
            place,
            format!("`{text}` is no element of a list; is a `;` missing?"),
        )),
    }
}

/// A network, also one that is written short, as in `10/8` and `192.168/16`.
fn network(text: &str) -> Option<Matcher> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address = match address.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_)
            if length.is_some() && address.bytes().all(|it| it.is_ascii_digit() || it == b'.') =>
        {
            let missing = 3_usize.checked_sub(address.matches('.').count())?;
            format!("{address}{}", ".0".repeat(missing)).parse().ok()?
        }
        Err(_) => return None,
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(most);
    (length <= most).then_some(Matcher::Network(address, length))
}

//--- Meaning

/// A list without lists in it: networks with their lengths, in their order, each let in or not; and keys.
#[derive(Default)]
struct Flat {
    networks: Vec<(IpAddr, u8, bool)>,
    keys: Vec<Name>,
    excluded_keys: Vec<(Name, Position)>,
    has_exclusions: bool,
    /// Why it cannot be carried over.
    odd: Option<(Position, String)>,
}

impl Acls {
    pub(super) fn insert(&mut self, name: String, elements: Vec<Element>) {
        self.0.insert(name, elements);
    }

    /// Whether a list lets every client in.
    pub(super) fn is_open(list: &[Element]) -> bool {
        let is_any = |element: &Element| match &element.matcher {
            Matcher::Named(name) => !element.is_excluded && name == ANY,
            _ => false,
        };
        list.first().is_some_and(is_any)
    }

    /// The clients of a list.
    pub(super) fn clients(&self, list: &[Element], warnings: &mut Warnings) -> Clients {
        let mut flat = self.flat(list, warnings);
        if let Some((_, position)) = flat.excluded_keys.first() {
            flat.odd = Some((position.clone(), "a key that is excluded".to_owned()));
        }
        flat.into_clients(warnings)
    }

    /// The clients of a view. A key that it excludes is one that another view lists: that one gets its holders here anyway.
    pub(super) fn clients_of_view(
        &self,
        list: &[Element],
        others: &[&[Element]],
        warnings: &mut Warnings,
    ) -> Clients {
        let mut flat = self.flat(list, warnings);
        let mut unheard = Vec::new();
        let others = others.iter().map(|other| self.flat(other, &mut unheard));
        let others: Vec<Name> = others.flat_map(|other| other.keys).collect();
        let mut excluded = flat.excluded_keys.iter();
        if let Some((key, position)) = excluded.find(|(key, _)| !others.contains(key)) {
            let what = format!("the key {key}, which no other view has, is excluded");
            flat.odd = Some((position.clone(), what));
        }
        flat.into_clients(warnings)
    }

    fn flat(&self, list: &[Element], warnings: &mut Warnings) -> Flat {
        let mut flat = Flat::default();
        self.add(&mut flat, list, (false, 0), warnings);
        flat
    }

    fn add(
        &self,
        flat: &mut Flat,
        list: &[Element],
        (is_excluded, depth): (bool, usize),
        warnings: &mut Warnings,
    ) {
        for (at, element) in list.iter().enumerate() {
            let position = &element.position;
            if depth >= MAX_DEPTH || flat.networks.len() >= MAX_ELEMENTS {
                flat.odd = Some((
                    position.clone(),
                    "lists that are too large, or name each other".to_owned(),
                ));
                return;
            }
            let is_out = element.is_excluded || is_excluded;
            let inner = match &element.matcher {
                Matcher::Network(address, length) => {
                    flat.push(*address, *length, !is_out);
                    continue;
                }
                Matcher::Key(key) => {
                    flat.push_key(key, is_out, position);
                    continue;
                }
                Matcher::Foreign(word) => {
                    flat.leave_out(word, is_out, position, warnings);
                    continue;
                }
                Matcher::Named(name) => match self.0.get(name) {
                    Some(inner) => inner,
                    None => {
                        flat.push_word(name, is_out, position, warnings);
                        continue;
                    }
                },
                Matcher::List(inner) => inner,
            };
            // A client that an inner list excludes is compared with what follows the list.
            let excludes = inner.iter().any(|element| element.is_excluded);
            let is_last = at + 1 == list.len() && depth == 0;
            if excludes && (is_out || !is_last) {
                let what = "a list within a list, with `!` in it".to_owned();
                flat.odd = Some((position.clone(), what));
            }
            self.add(flat, inner, (is_out, depth + 1), warnings);
        }
    }
}

impl Flat {
    /// Adds a network, unless one before it decides for all of its addresses.
    fn push(&mut self, address: IpAddr, length: u8, is_in: bool) {
        let covers = |(known, shorter, _): &(IpAddr, u8, bool)| {
            *shorter <= length && has_prefix(address, *known, *shorter)
        };
        if !self.networks.iter().any(covers) {
            self.networks.push((address, length, is_in));
            self.has_exclusions |= !is_in;
        }
    }

    /// Adds the clients of a word of BIND.
    fn push_word(
        &mut self,
        name: &str,
        is_out: bool,
        position: &Position,
        warnings: &mut Warnings,
    ) {
        if name == ANY {
            self.push(IpAddr::from([0; 4]), 0, !is_out);
            self.push(IpAddr::from([0; 16]), 0, !is_out);
        } else if name == "localhost" {
            let message = "`localhost` is read as the addresses of loopback".to_owned();
            warnings.push((position.clone(), message));
            self.push(IpAddr::from([127, 0, 0, 0]), 8, !is_out);
            self.push(IpAddr::from(std::net::Ipv6Addr::LOCALHOST), 128, !is_out);
        } else if name != "none" {
            self.leave_out(name, is_out, position, warnings);
        }
    }

    fn push_key(&mut self, key: &Name, is_out: bool, position: &Position) {
        if is_out {
            self.excluded_keys.push((key.clone(), position.clone()));
        } else if !self.keys.contains(key) {
            // Behind an address that is excluded, a key does not count from there.
            if self.has_exclusions && self.odd.is_none() {
                let what = format!("the key {key} behind addresses that are excluded");
                self.odd = Some((position.clone(), what));
            }
            self.keys.push(key.clone());
        }
    }

    /// An element whose clients are not known here lets no client in; one that keeps clients out cannot be left out.
    fn leave_out(&mut self, word: &str, is_out: bool, at: &Position, warnings: &mut Warnings) {
        if is_out {
            self.odd = Some((at.clone(), format!("`!{word}`")));
        } else {
            let message = format!("`{word}` is not carried over: it lets no client in here");
            warnings.push((at.clone(), message));
        }
    }

    fn into_clients(self, warnings: &mut Warnings) -> Clients {
        if let Some((position, what)) = self.odd {
            let message =
                format!("{what}: the list is not carried over, and lets no client in here");
            warnings.push((position, message));
            return Clients::default();
        }
        let entries = self.networks.iter().map(|(address, length, is_in)| {
            let not = if *is_in { "" } else { "!" };
            format!("{not}{address}/{length}")
        });
        Clients {
            // Every entry is a network.
            networks: cidrs::Cidrs::from_items(entries).unwrap_or_default(),
            keys: self.keys,
        }
    }
}

/// Whether an address begins with the first `length` bits of another one.
fn has_prefix(address: IpAddr, other: IpAddr, length: u8) -> bool {
    match (address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differing = (a.to_bits() ^ b.to_bits()).leading_zeros();
            differing >= u32::from(length)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differing = (a.to_bits() ^ b.to_bits()).leading_zeros();
            differing >= u32::from(length)
        }
        _ => false,
    }
}
