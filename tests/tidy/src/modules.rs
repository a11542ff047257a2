//! The modules of a program or library, read from its sources: files, inline modules, items, `use` lines and paths.
//!
//! Works on tokens, so paths inside macros count and words in comments and strings do not. Items for tests are left out:
//! `#[cfg(test)]`, `#[cfg(feature = "testing")]`, and modules named `tests` or `testing`. It never expands a macro and never looks
//! outside the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::files::shown;

/// The modules of one crate; the root comes first.
#[derive(Debug, Default)]
pub struct Crate {
    pub modules: Vec<Module>,
    pub files: Vec<File>,
}

/// A file of the product.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    pub n_lines: usize,
    /// Lines of items that are for tests.
    pub tests: Vec<RangeInclusive<usize>>,
    /// Names of types that it declares, with their lines.
    pub types: Vec<(String, usize)>,
}

#[derive(Debug)]
pub struct Module {
    pub name: String,
    pub parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    pub place: Place,
    /// Names of items that it declares itself.
    pub items: BTreeSet<String>,
    /// The items that `use` lines bring in, by name.
    pub imports: BTreeMap<String, Vec<String>>,
    /// `use a::b::*`.
    pub globs: Vec<Vec<String>>,
    /// Every path of two words or more, from `use` lines and from code.
    pub paths: Vec<PathUse>,
}

/// A path as it is written.
#[derive(Debug)]
pub struct PathUse {
    pub words: Vec<String>,
    pub place: Place,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

impl Crate {
    /// Reads a crate from its root file on.
    pub fn read(root: &Path) -> Self {
        let mut this = Self::default();
        let folder = root.parent().expect("a file lies in a folder");
        this.read_file(String::new(), None, root, folder);
        this
    }

    /// `a::b`, or `crate` for the root.
    pub fn path_of(&self, module: usize) -> String {
        let mut names = Vec::new();
        let mut at = module;
        while let Some(parent) = self.modules[at].parent {
            names.push(self.modules[at].name.as_str());
            at = parent;
        }
        names.reverse();
        if names.is_empty() {
            "crate".to_owned()
        } else {
            names.join("::")
        }
    }

    /// Its lines that are not for tests.
    pub fn n_product_lines(&self) -> usize {
        self.files.iter().map(File::n_product_lines).sum()
    }

    fn add(&mut self, name: String, parent: Option<usize>, place: Place) -> usize {
        let this = self.modules.len();
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.clone(), this);
        }
        self.modules.push(Module {
            name,
            parent,
            children: BTreeMap::new(),
            place,
            items: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            paths: Vec::new(),
        });
        this
    }

    /// `folder` is where the files of its own modules lie.
    fn read_file(&mut self, name: String, parent: Option<usize>, path: &Path, folder: &Path) {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let place = Place {
            file: shown(path),
            line: 1,
        };
        let module = self.add(name, parent, place);
        let file = self.files.len();
        self.files.push(File {
            path: path.to_owned(),
            n_lines: text.lines().count(),
            tests: Vec::new(),
            types: Vec::new(),
        });
        Scan {
            krate: self,
            module,
            file,
            folder: folder.to_owned(),
        }
        .tokens(tokens, true);
    }
}

impl File {
    /// Whether a line belongs to an item for tests.
    pub fn is_for_tests(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Its lines that are not for tests.
    pub fn n_product_lines(&self) -> usize {
        (1..=self.n_lines)
            .filter(|line| !self.is_for_tests(*line))
            .count()
    }
}

/// The walk through the tokens of one module.
struct Scan<'a> {
    krate: &'a mut Crate,
    module: usize,
    file: usize,
    folder: PathBuf,
}

impl Scan<'_> {
    /// `is_module` says that these are the items of the module, not what stands inside one of them.
    fn tokens(&mut self, tokens: TokenStream, is_module: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        // The first line of the attributes that stand before an item, and whether they leave it to tests.
        let mut attributes: Option<(usize, bool)> = None;
        while at < tokens.len() {
            if let Some(group) = outer_attribute(&tokens, at) {
                let (line, for_tests) = attributes.unwrap_or((line_of(tokens[at].span()), false));
                attributes = Some((line, for_tests || is_left_out(&group)));
                self.tokens(group.stream(), false);
                at += 2;
                continue;
            }
            let next = match attributes.take() {
                Some((line, true)) => {
                    let end = end_of_item(&tokens, at);
                    self.leave_out(line, &tokens[end.saturating_sub(1)]);
                    end
                }
                _ => self.one(&tokens, at, is_module),
            };
            at = next.max(at + 1);
        }
    }

    /// Reads what begins at `at`, and returns where the next begins.
    fn one(&mut self, tokens: &[TokenTree], at: usize, is_module: bool) -> usize {
        let word = match &tokens[at] {
            TokenTree::Ident(ident) => ident.to_string(),
            TokenTree::Group(group) => {
                self.tokens(group.stream(), false);
                return at + 1;
            }
            _ => return at + 1,
        };
        let follows_path =
            at > 0 && is_punct(&tokens[at - 1], ':') && at > 1 && is_punct(&tokens[at - 2], ':');
        let follows_dot = at > 0 && is_punct(&tokens[at - 1], '.');
        if follows_path || follows_dot {
            return at + 1;
        }
        let name = ident_at(tokens, at + 1);
        match (word.as_str(), name) {
            ("mod", Some(name)) => return self.module(tokens, at, &name),
            ("use", _) => return self.use_line(tokens, at),
            ("struct" | "enum" | "union" | "trait" | "type", Some(name)) => {
                let line = line_of(name.span());
                self.krate.files[self.file]
                    .types
                    .push((name.to_string(), line));
                self.item(&name, is_module);
                return at + 2;
            }
            ("fn" | "const" | "static", Some(name)) if name != "fn" => {
                self.item(&name, is_module);
                return at + 2;
            }
            ("macro_rules", _) => {
                if let Some(name) = ident_at(tokens, at + 2) {
                    self.item(&name, is_module);
                    return at + 3;
                }
            }
            _ => {}
        }
        self.path(tokens, at)
    }

    fn item(&mut self, name: &Ident, is_module: bool) {
        if is_module {
            let items = &mut self.krate.modules[self.module].items;
            items.insert(name.to_string());
        }
    }

    fn module(&mut self, tokens: &[TokenTree], at: usize, name: &Ident) -> usize {
        let text = name.to_string();
        let for_tests = matches!(text.as_str(), "tests" | "testing");
        match tokens.get(at + 2) {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
                if for_tests {
                    self.leave_out(line_of(name.span()), &tokens[at + 2]);
                    return at + 3;
                }
                let place = self.place(name.span());
                let module = self.krate.add(text.clone(), Some(self.module), place);
                Scan {
                    krate: self.krate,
                    module,
                    file: self.file,
                    folder: self.folder.join(&text),
                }
                .tokens(body.stream(), true);
            }
            _ if for_tests => {}
            _ => {
                let flat = self.folder.join(format!("{text}.rs"));
                let nested = self.folder.join(&text).join("mod.rs");
                let path = if flat.is_file() { flat } else { nested };
                let folder = self.folder.join(&text);
                self.krate
                    .read_file(text, Some(self.module), &path, &folder);
            }
        }
        at + 3
    }

    fn use_line(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let end = (at..tokens.len())
            .find(|at| is_punct(&tokens[*at], ';'))
            .unwrap_or(tokens.len());
        // `impl Trait + use<'a>` is no import.
        if tokens.get(at + 1).is_some_and(|token| is_punct(token, '<')) {
            return at + 1;
        }
        self.use_tree(&tokens[at + 1..end], &[]);
        end + 1
    }

    fn use_tree(&mut self, tokens: &[TokenTree], prefix: &[String]) {
        for branch in tokens.split(|token| is_punct(token, ',')) {
            let mut words = prefix.to_vec();
            let mut name = None;
            let mut place = None;
            let mut at = 0;
            while at < branch.len() {
                match &branch[at] {
                    TokenTree::Ident(ident) if *ident == "as" => {
                        name = ident_at(branch, at + 1).map(|ident| ident.to_string());
                        at += 1;
                    }
                    TokenTree::Ident(ident) => {
                        place = Some(ident.span());
                        if *ident != "self" || words.is_empty() {
                            words.push(ident.to_string());
                        }
                    }
                    TokenTree::Group(group) => {
                        let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.use_tree(&inner, &words);
                        place = None;
                        words.clear();
                    }
                    token if is_punct(token, '*') => {
                        self.krate.modules[self.module].globs.push(words.clone());
                        place = Some(token.span());
                        name = Some("_".to_owned());
                        words.push("*".to_owned());
                    }
                    _ => {}
                }
                at += 1;
            }
            let Some(span) = place else { continue };
            let place = self.place(span);
            let module = &mut self.krate.modules[self.module];
            let name = name.or_else(|| words.last().cloned()).unwrap_or_default();
            if name != "_" {
                module.imports.insert(name, words.clone());
            }
            module.paths.push(PathUse { words, place });
        }
    }

    fn path(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let mut words = Vec::new();
        let mut end = at;
        while let Some(ident) = ident_at(tokens, end) {
            words.push(ident.to_string());
            end += 1;
            let continues = tokens.get(end).is_some_and(|t| is_punct(t, ':'))
                && tokens.get(end + 1).is_some_and(|t| is_punct(t, ':'))
                && ident_at(tokens, end + 2).is_some();
            if !continues {
                break;
            }
            end += 2;
        }
        if words.len() > 1 {
            let place = self.place(tokens[at].span());
            let module = &mut self.krate.modules[self.module];
            module.paths.push(PathUse { words, place });
        }
        end
    }

    fn leave_out(&mut self, first: usize, last: &TokenTree) {
        let last = last.span().end().line;
        self.krate.files[self.file].tests.push(first..=last);
    }

    fn place(&self, span: Span) -> Place {
        Place {
            file: shown(&self.krate.files[self.file].path),
            line: line_of(span),
        }
    }
}

//--- Tokens

/// The brackets of `#[…]`, not of `#![…]`.
fn outer_attribute(tokens: &[TokenTree], at: usize) -> Option<Group> {
    if !is_punct(&tokens[at], '#') {
        return None;
    }
    match tokens.get(at + 1) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some(group.clone())
        }
        _ => None,
    }
}

/// Whether an attribute is a `cfg` that only tests meet.
fn is_left_out(attribute: &Group) -> bool {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(cfg), TokenTree::Group(condition)] if *cfg == "cfg" => {
            let condition: Vec<TokenTree> = condition.stream().into_iter().collect();
            !holds_in_product(&condition)
        }
        _ => false,
    }
}

/// Whether a condition of `cfg` can be met without `test` and without the feature `testing`.
fn holds_in_product(condition: &[TokenTree]) -> bool {
    match condition {
        [TokenTree::Ident(word)] => *word != "test",
        [TokenTree::Ident(word), TokenTree::Group(group)] => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut parts = inner
                .split(|token| is_punct(token, ','))
                .filter(|part| !part.is_empty());
            match word.to_string().as_str() {
                "all" => parts.all(holds_in_product),
                "any" => parts.any(holds_in_product),
                "not" => {
                    let is_of_tests = |part: &[TokenTree]| match part {
                        [TokenTree::Ident(word)] => *word == "test",
                        _ => false,
                    };
                    parts.all(|part| is_of_tests(part) || holds_in_product(part))
                }
                _ => true,
            }
        }
        [TokenTree::Ident(key), _, TokenTree::Literal(value)] => {
            !(*key == "feature" && value.to_string() == "\"testing\"")
        }
        _ => true,
    }
}

/// The end of the item, field or arm that begins at `at`.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let mut start = at;
    while ident_at(tokens, start).is_some_and(|word| word == "pub")
        || matches!(tokens.get(start), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis && start > at)
    {
        start += 1;
    }
    let first = ident_at(tokens, start).map(|word| word.to_string());
    let second = ident_at(tokens, start + 1).map(|word| word.to_string());
    let ends_with_semicolon = match first.as_deref() {
        Some("use" | "static" | "type" | "let") => true,
        Some("const") => !matches!(
            second.as_deref(),
            Some("fn" | "unsafe" | "async" | "extern")
        ),
        Some("extern") => second.as_deref() == Some("crate"),
        _ => false,
    };
    let is_item = matches!(
        first.as_deref(),
        Some(
            "fn" | "mod"
                | "impl"
                | "struct"
                | "enum"
                | "trait"
                | "union"
                | "unsafe"
                | "async"
                | "const"
                | "extern"
                | "macro_rules"
        )
    );
    for (index, token) in tokens.iter().enumerate().skip(start) {
        let is_body =
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let ends = is_punct(token, ';')
            || (!ends_with_semicolon && is_body)
            || (!ends_with_semicolon && !is_item && is_punct(token, ','));
        if ends {
            return index + 1;
        }
    }
    tokens.len()
}

fn ident_at(tokens: &[TokenTree], at: usize) -> Option<Ident> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.clone()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn line_of(span: Span) -> usize {
    span.start().line
}
