//! The arrows between the modules of a crate, and the cycles among them.
//!
//! A module is its file with its folder. The modules of one folder are held against each other, at every level: what a module
//! deep inside `a` uses of a module deep inside `b` is an arrow `a → b` where the two ways part. A module and its own parent are one
//! unit, so what a child uses of its parent's file is no arrow. A name that a parent passes on (`pub use child::Name`) belongs to the
//! module that declares it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::modules::{Crate, Place};

/// The arrows of a crate, by the parent at which their ends part.
#[derive(Debug)]
pub struct Graph<'a> {
    krate: &'a Crate,
    levels: BTreeMap<usize, Level>,
}

/// The arrows among the children of one module.
#[derive(Debug, Default)]
pub struct Level {
    arrows: BTreeMap<(usize, usize), Vec<Use>>,
}

/// The origin of an arrow.
#[derive(Clone, Debug)]
pub struct Use {
    pub place: Place,
    pub path: String,
}

impl<'a> Graph<'a> {
    pub fn of(krate: &'a Crate) -> Self {
        let mut levels: BTreeMap<usize, Level> = BTreeMap::new();
        for (from, module) in krate.modules.iter().enumerate() {
            for path in &module.paths {
                let Some(found) = Resolver::new(krate).path(from, &path.words) else {
                    continue;
                };
                let Some((parent, a, b)) = parting(krate, from, found.module) else {
                    continue;
                };
                let uses = levels.entry(parent).or_default();
                uses.arrows.entry((a, b)).or_default().push(Use {
                    place: path.place.clone(),
                    path: path.words.join("::"),
                });
            }
        }
        Self { krate, levels }
    }

    /// Every cycle, as a text that names its modules and the lines that make it.
    pub fn cycles(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (parent, level) in &self.levels {
            for knot in level.knots() {
                found.push(self.shown_knot(*parent, level, &knot));
            }
        }
        found
    }

    /// The names of the modules of each cycle.
    pub fn knots(&self) -> Vec<Vec<String>> {
        let levels = self.levels.values();
        let knots = levels.flat_map(Level::knots);
        let named = |knot: BTreeSet<usize>| knot.iter().map(|m| self.krate.path_of(*m)).collect();
        knots.map(named).collect()
    }

    /// The whole graph as text, a level at a time.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let parents = (0..self.krate.modules.len())
            .filter(|module| !self.krate.modules[*module].children.is_empty());
        for parent in parents {
            let _ = writeln!(text, "{}", self.krate.path_of(parent));
            for (name, child) in &self.krate.modules[parent].children {
                let targets = self.targets(parent, *child);
                if targets.is_empty() {
                    let _ = writeln!(text, "  {name}");
                } else {
                    let _ = writeln!(text, "  {name} → {}", targets.join(", "));
                }
            }
        }
        text
    }

    fn targets(&self, parent: usize, child: usize) -> Vec<&str> {
        let Some(level) = self.levels.get(&parent) else {
            return Vec::new();
        };
        let arrows = level.arrows.keys();
        arrows
            .filter(|(from, _)| *from == child)
            .map(|(_, to)| self.krate.modules[*to].name.as_str())
            .collect()
    }

    fn shown_knot(&self, parent: usize, level: &Level, knot: &BTreeSet<usize>) -> String {
        let name = |module: &usize| self.krate.modules[*module].name.as_str();
        let names: Vec<&str> = knot.iter().map(name).collect();
        let within = self.krate.path_of(parent);
        let mut text = format!("in {within}: {} use each other", names.join(", "));
        for ((from, to), uses) in &level.arrows {
            if knot.contains(from) && knot.contains(to) {
                let first = &uses[0];
                let more = match uses.len() {
                    1 => String::new(),
                    n => format!(" and {} more", n - 1),
                };
                let _ = write!(
                    text,
                    "\n    {} → {}  {}:{} `{}`{more}",
                    name(from),
                    name(to),
                    first.place.file,
                    first.place.line,
                    first.path
                );
            }
        }
        text
    }
}

impl Level {
    /// The groups of modules that all reach each other.
    fn knots(&self) -> Vec<BTreeSet<usize>> {
        let nodes: BTreeSet<usize> = self.arrows.keys().flat_map(|(a, b)| [*a, *b]).collect();
        let reach: BTreeMap<usize, BTreeSet<usize>> = nodes
            .iter()
            .map(|node| (*node, self.reached(*node)))
            .collect();
        let mut knots = BTreeSet::new();
        for node in &nodes {
            let knot: BTreeSet<usize> = reach[node]
                .iter()
                .copied()
                .filter(|other| reach[other].contains(node))
                .collect();
            if !knot.is_empty() {
                knots.insert(knot);
            }
        }
        knots.into_iter().collect()
    }

    fn reached(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(node) = next.pop() {
            for (_, to) in self.arrows.keys().filter(|(a, _)| *a == node) {
                if reached.insert(*to) {
                    next.push(*to);
                }
            }
        }
        reached
    }
}

/// The module at which the ways to two others part, and its children on each way. None if one holds the other.
fn parting(krate: &Crate, a: usize, b: usize) -> Option<(usize, usize, usize)> {
    let way = |module: usize| {
        let mut way = vec![module];
        while let Some(parent) = krate.modules[way[way.len() - 1]].parent {
            way.push(parent);
        }
        way.reverse();
        way
    };
    let (a, b) = (way(a), way(b));
    let at = a.iter().zip(&b).position(|(a, b)| a != b)?;
    Some((a[at - 1], a[at], b[at]))
}

//--- Paths

struct Resolver<'a> {
    krate: &'a Crate,
    /// Imports that are being followed: two that name each other must end.
    following: BTreeSet<(usize, Vec<String>)>,
}

#[derive(Clone, Copy)]
struct Found {
    /// The module that declares what the path names, or the module that it names.
    module: usize,
    is_module: bool,
}

impl<'a> Resolver<'a> {
    fn new(krate: &'a Crate) -> Self {
        Self {
            krate,
            following: BTreeSet::new(),
        }
    }

    /// Resolves a path in a module; none if it leads out of the crate.
    fn path(&mut self, from: usize, words: &[String]) -> Option<Found> {
        if !self.following.insert((from, words.to_vec())) {
            return None;
        }
        let mut module = from;
        let mut words = words.iter().map(String::as_str).peekable();
        let mut started = false;
        while let Some(word) = words.peek() {
            match *word {
                "crate" => module = 0,
                "self" => {}
                "super" => module = self.krate.modules[module].parent?,
                _ => break,
            }
            started = true;
            words.next();
        }
        for word in words {
            if word == "*" {
                break;
            }
            let found = match self.name(module, word) {
                Some(found) => found,
                // Made by a macro, or the method of a type.
                None if started => return Some(item(module)),
                None => return None,
            };
            if !found.is_module {
                return Some(found);
            }
            started = true;
            module = found.module;
        }
        started.then_some(Found {
            module,
            is_module: true,
        })
    }

    /// Resolves a word in a module.
    fn name(&mut self, module: usize, word: &str) -> Option<Found> {
        let this = &self.krate.modules[module];
        if let Some(child) = this.children.get(word) {
            return Some(Found {
                module: *child,
                is_module: true,
            });
        }
        if this.items.contains(word) {
            return Some(item(module));
        }
        if let Some(path) = this.imports.get(word) {
            return self.path(module, path);
        }
        for glob in &this.globs {
            if let Some(found) = self.path(module, glob)
                && found.module != module
                && let Some(found) = self.name(found.module, word)
            {
                return Some(found);
            }
        }
        None
    }
}

fn item(module: usize) -> Found {
    Found {
        module,
        is_module: false,
    }
}
