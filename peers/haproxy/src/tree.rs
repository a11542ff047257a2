//! Sections of directives.

use config_text::{MAX_PROBLEMS, Problem};

use super::lexer::{Line, Word};

/// A file as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its sections, in its order.
    pub sections: Vec<Section>,
    /// Lines of conditional blocks (`.if` and what it encloses), and messages (`.notice`): whether they
    /// apply depends on a HAProxy that is not there.
    pub conditional: Vec<Line>,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its subject.
    pub kind: Kind,
    /// The line it begins with.
    pub head: Line,
    /// Its directives.
    pub lines: Vec<Line>,
}

impl Section {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&Word> {
        self.head.words.get(1)
    }

    /// The `defaults` section it names, with `from`.
    #[must_use]
    pub fn from(&self) -> Option<&Word> {
        let at = self
            .head
            .from(1)
            .iter()
            .position(|word| word.text == "from")?;
        self.head.words.get(at + 2)
    }
}

/// The subject of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The process.
    Global,
    /// The defaults of proxies.
    Defaults,
    /// The addresses that clients connect to.
    Frontend,
    /// The servers.
    Backend,
    /// Both in one.
    Listen,
    /// DNS servers.
    Resolvers,
    /// Something that has no counterpart.
    Other,
}

impl Kind {
    /// The section that a line with this first word begins.
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "global" => Self::Global,
            "defaults" => Self::Defaults,
            "frontend" => Self::Frontend,
            "backend" => Self::Backend,
            "listen" => Self::Listen,
            "resolvers" => Self::Resolvers,
            "acme" | "cache" | "crt-store" | "fcgi-app" | "http-errors" | "log-forward"
            | "log-profile" | "mailers" | "peers" | "program" | "ring" | "traces" | "userlist" => {
                Self::Other
            }
            _ => return None,
        })
    }
}

/// Lines as sections.
pub(super) fn parse(lines: Vec<Line>) -> Result<Tree, Vec<Problem>> {
    let mut tree = Tree::default();
    let mut problems = Vec::new();
    // The `.if`s that are open.
    let mut open: Vec<Line> = Vec::new();
    for line in lines {
        let Some(first) = line.words.first() else {
            continue;
        };
        match first.text.as_str() {
            ".if" => {
                open.push(line.clone());
                tree.conditional.push(line);
            }
            ".endif" | ".elif" | ".else" if open.is_empty() => {
                let message = format!("`{}` without an `.if`", first.text);
                problems.push(Problem::at(first.position.clone(), message));
            }
            ".endif" => {
                open.pop();
            }
            _ if !open.is_empty() || first.text.starts_with('.') => tree.conditional.push(line),
            word => match Kind::of(word) {
                Some(kind) => {
                    problems.extend(head_problem(kind, &line));
                    tree.sections.push(Section {
                        kind,
                        head: line,
                        lines: Vec::new(),
                    });
                }
                None => match tree.sections.last_mut() {
                    Some(section) => section.lines.push(line),
                    None => {
                        let message = format!("`{word}` is outside of any section");
                        problems.push(Problem::at(first.position.clone(), message));
                    }
                },
            },
        }
    }
    if let Some(position) = open.last().and_then(Line::position) {
        problems.push(Problem::at(position.clone(), "this `.if` has no `.endif`"));
    }
    problems.truncate(MAX_PROBLEMS);
    if problems.is_empty() {
        Ok(tree)
    } else {
        Err(problems)
    }
}

/// A proxy without a name cannot be referred to.
fn head_problem(kind: Kind, head: &Line) -> Option<Problem> {
    let needs_name = matches!(kind, Kind::Frontend | Kind::Backend | Kind::Listen);
    let first = head.words.first()?;
    let is_missing = needs_name && head.words.get(1).is_none();
    is_missing.then(|| {
        let message = format!("`{}` wants a name", first.text);
        Problem::at(first.position.clone(), message)
    })
}
