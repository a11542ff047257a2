//! Blocks within blocks.

use config_text::{Position, Problem};

use super::lexer::{Lexed, Token};

/// A file as it is written, with what it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its words.
    pub nodes: Vec<Node>,
    /// Lines that count on some machines only, when this machine's id is unknown.
    pub conditional: Vec<(Position, String)>,
}

/// A keyword with its values, and its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The keyword and its values: at least one.
    pub words: Vec<String>,
    /// The place of its beginning.
    pub position: Position,
    /// The lines between its braces.
    pub block: Option<Vec<Self>>,
}

impl Node {
    /// Its first word.
    #[must_use]
    pub fn keyword(&self) -> &str {
        self.word(0)
    }

    /// The word at `index`, or nothing.
    #[must_use]
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// The lines between its braces; nothing without.
    #[must_use]
    pub fn children(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Its words with a space between each two.
    #[must_use]
    pub fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// Blocks within blocks within blocks.
const DEEPEST: usize = 32;

/// Tokens as a tree.
pub(super) fn parse(lexed: Lexed) -> Result<Tree, Vec<Problem>> {
    let mut parser = Parser {
        open: vec![(Vec::new(), None)],
        words: Vec::new(),
        first: None,
    };
    for token in lexed.tokens {
        parser.token(token).map_err(|problem| vec![problem])?;
    }
    parser.end_node();
    let (nodes, head) = parser.open.pop().unwrap_or_default();
    if let Some(head) = head {
        let message = format!("the block of `{}` does not end", head.text());
        return Err(vec![Problem::at(head.position, message)]);
    }
    Ok(Tree {
        nodes,
        conditional: lexed.conditional,
    })
}

struct Parser {
    /// Blocks that are open, the innermost last, each with what it belongs to.
    open: Vec<(Vec<Node>, Option<Node>)>,
    words: Vec<String>,
    /// The place of the words.
    first: Option<Position>,
}

impl Parser {
    fn token(&mut self, token: Token) -> Result<(), Problem> {
        match token {
            Token::Word(text, position) => {
                self.words.push(text);
                self.first.get_or_insert(position);
            }
            Token::End => self.end_node(),
            Token::Open(position) => {
                // A brace alone belongs to the line before.
                self.end_node();
                let before = self.open.last_mut().and_then(|(nodes, _)| nodes.pop());
                let Some(head) = before.filter(|head| head.block.is_none()) else {
                    return Err(Problem::at(position, "this brace belongs to nothing"));
                };
                if self.open.len() > DEEPEST {
                    return Err(Problem::at(position, "blocks are too deep in each other"));
                }
                self.open.push((Vec::new(), Some(head)));
            }
            Token::Close(position) => {
                self.end_node();
                match self.open.pop() {
                    Some((nodes, Some(mut head))) => {
                        head.block = Some(nodes);
                        if let Some((outer, _)) = self.open.last_mut() {
                            outer.push(head);
                        }
                    }
                    _ => return Err(Problem::at(position, "this brace closes nothing")),
                }
            }
        }
        Ok(())
    }

    fn end_node(&mut self) {
        let words = std::mem::take(&mut self.words);
        let (Some(position), Some((nodes, _))) = (self.first.take(), self.open.last_mut()) else {
            return;
        };
        nodes.push(Node {
            words,
            position,
            block: None,
        });
    }
}
