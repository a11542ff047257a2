//! Conditions: ACLs, and what `if` and `unless` make of them (configuration.txt §7).

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use tls_routes::{Pattern, anywhere, is_name};

use super::lexer::{Line, Word};
use super::source_counts::{TooMany, too_many};

/// The condition of an ACL on a connection, as far as it is supported here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The name in the ClientHello is one of these.
    Names(Vec<NameTest>, Letters),
    /// The client offers one of these application protocols.
    Protocols(Vec<String>, Letters, ProtocolTest),
    /// The client's address is in one of these.
    Sources(Vec<IpNet>),
    /// It begins with a ClientHello.
    Hello,
    /// A backend has fewer servers than this that may be chosen.
    FewServers(String, u16),
    /// A source has too many connections.
    TooMany(TooMany),
    /// Always, or never.
    Always(bool),
}

/// A test of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameTest {
    /// It is this host name, or below it, or any.
    Name(String),
    /// This regular expression matches it.
    Pattern(String),
}

/// HAProxy's test of each protocol that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolTest {
    /// It is this one.
    Whole,
    /// It has this text in it.
    Part,
}

/// Whether capital letters are others than small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Letters {
    /// They are not.
    AnyCase,
    /// They are.
    AsWritten,
}

/// A test, or its opposite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) is_negated: bool,
    pub(super) test: Test,
}

/// Any of these; each is all of its terms.
pub(super) type Clauses = Vec<Vec<Term>>;

/// The ACLs of a proxy. Those of one name are one: any of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Acls(HashMap<String, Result<Test, String>>);

impl Acls {
    /// An `acl` line.
    pub(super) fn add(&mut self, line: &Line) {
        let Some(name) = line.word(1) else { return };
        let test = test(line.from(2));
        let known = self.0.remove(name);
        let both = match known {
            None => test,
            Some(known) => known.and_then(|known| either(known, test?)),
        };
        self.0.insert(name.to_owned(), both);
    }

    fn find(&self, name: &str) -> Result<Test, String> {
        let known = self.0.get(name).cloned();
        known.unwrap_or_else(|| match name {
            "TRUE" => Ok(Test::Always(true)),
            "FALSE" => Ok(Test::Always(false)),
            "LOCALHOST" => {
                let nets = ["127.0.0.0/8", "::1/128"]
                    .iter()
                    .filter_map(|net| net.parse().ok());
                Ok(Test::Sources(nets.collect()))
            }
            "REQ_CONTENT" => Err("the clients' data is not inspected".to_owned()),
            _ => Err(format!("there is no acl `{name}`")),
        })
    }

    /// The condition that `words` are: `if …`, `unless …`, or nothing.
    pub(super) fn condition(&self, words: &[Word]) -> Result<Clauses, String> {
        let Some((first, rest)) = words.split_first() else {
            return Ok(vec![Vec::new()]);
        };
        let clauses = self.clauses(rest)?;
        match first.text.as_str() {
            "if" => Ok(clauses),
            "unless" => opposite(clauses),
            word => Err(format!("`{word}` is neither `if` nor `unless`")),
        }
    }

    fn clauses(&self, words: &[Word]) -> Result<Clauses, String> {
        let mut clauses = vec![Vec::new()];
        let mut is_negated = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut text = word.text.as_str();
            if matches!(text, "or" | "||" | "OR") {
                clauses.push(Vec::new());
                continue;
            }
            while let Some(rest) = text.strip_prefix('!') {
                is_negated = !is_negated;
                text = rest;
            }
            let test = match text {
                "" => continue,
                "{" => {
                    let inside: Vec<Word> = words
                        .by_ref()
                        .take_while(|word| word.text != "}")
                        .cloned()
                        .collect();
                    test(&inside)?
                }
                name => self.find(name)?,
            };
            if let Some(clause) = clauses.last_mut() {
                clause.push(Term { is_negated, test });
            }
            is_negated = false;
        }
        if clauses.iter().any(Vec::is_empty) {
            return Err("its condition is incomplete".to_owned());
        }
        Ok(clauses)
    }
}

/// Neither of what `clauses` say (De Morgan), as far as it can be written so.
fn opposite(clauses: Clauses) -> Result<Clauses, String> {
    let turned = |term: Term| Term {
        is_negated: !term.is_negated,
        ..term
    };
    if let [clause] = clauses.as_slice() {
        return Ok(clause
            .iter()
            .cloned()
            .map(|term| vec![turned(term)])
            .collect());
    }
    if clauses.iter().all(|clause| clause.len() == 1) {
        return Ok(vec![clauses.into_iter().flatten().map(turned).collect()]);
    }
    Err("its condition is too intricate".to_owned())
}

fn either(one: Test, other: Test) -> Result<Test, String> {
    match (one, other) {
        (Test::Names(mut names, one), Test::Names(more, other)) => {
            names.extend(more);
            Ok(Test::Names(names, one.max(other)))
        }
        (Test::Protocols(mut protocols, one, how), Test::Protocols(more, other, too))
            if how == too =>
        {
            protocols.extend(more);
            Ok(Test::Protocols(protocols, one.max(other), how))
        }
        (Test::Sources(mut nets), Test::Sources(more)) => {
            nets.extend(more);
            Ok(Test::Sources(nets))
        }
        (one, other) if one == other => Ok(one),
        _ => Err("its acl mixes different things".to_owned()),
    }
}

/// A criterion with its flags and values (§7.1).
fn test(words: &[Word]) -> Result<Test, String> {
    let (criterion, rest) = words.split_first().ok_or("a criterion is missing")?;
    let mut method = None;
    let mut letters = match criterion.text.contains(",lower") {
        true => Letters::AnyCase,
        false => Letters::AsWritten,
    };
    let mut values = Vec::new();
    let mut words = rest.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        match word {
            "-i" => letters = Letters::AnyCase,
            "-n" | "-u" => {}
            "-m" => method = words.next(),
            "-f" | "-M" => return Err("values in files are not read".to_owned()),
            "--" => values.extend(words.by_ref()),
            value => values.push(value),
        }
    }
    match criterion.text.as_str() {
        "req.ssl_sni" | "req_ssl_sni" | "req.ssl_sni,lower" | "req_ssl_sni,lower" => {
            names(method, &values, letters)
        }
        "req_ssl_sni_end" | "req.ssl_sni_end" => names(Some("end"), &values, letters),
        "req.ssl_alpn" => protocols(method, &values, letters),
        "src" => sources(&values),
        "req.ssl_hello_type" | "req_ssl_hello_type" if values == ["1"] => Ok(Test::Hello),
        name if name.starts_with("nbsrv(") => few_servers(name, &values),
        "always_true" => Ok(Test::Always(true)),
        "always_false" => Ok(Test::Always(false)),
        other => match too_many(other, &values) {
            Some(test) => test.map(Test::TooMany),
            None => Err(format!("`{other}` cannot be asked here")),
        },
    }
}

/// `nbsrv(BACKEND) lt N`, and what is the same.
fn few_servers(name: &str, values: &[&str]) -> Result<Test, String> {
    let inside = name.strip_prefix("nbsrv(");
    let backend = inside.and_then(|rest| rest.strip_suffix(')'));
    let number = |text: &str, more: u16| text.parse::<u16>().ok()?.checked_add(more);
    let least = match values {
        ["lt", most] => number(most, 0),
        ["le", most] => number(most, 1),
        ["eq", "0"] | ["0"] => Some(1),
        _ => None,
    };
    match (backend, least) {
        (Some(backend), Some(least)) => Ok(Test::FewServers(backend.to_owned(), least)),
        _ => Err(format!(
            "`{name}` is compared otherwise than with fewer servers than a number"
        )),
    }
}

/// A test of the name (§7.1.3, §7.1.4): texts are host names where they can be, and regular expressions otherwise.
fn names(method: Option<&str>, values: &[&str], letters: Letters) -> Result<Test, String> {
    let method = method.unwrap_or("str");
    if method == "found" {
        let any = NameTest::Name("*".to_owned());
        return Ok(Test::Names(vec![any], Letters::AnyCase));
    }
    let name = |value: &&str| -> Result<NameTest, String> {
        let value = value.to_ascii_lowercase();
        let below = format!("*{value}");
        let text = anywhere(&value);
        Ok(NameTest::Pattern(match method {
            "str" if is_name(&value) && !value.contains('*') => return Ok(NameTest::Name(value)),
            "end" if value.starts_with('.') && is_name(&below) => {
                return Ok(NameTest::Name(below));
            }
            "str" => format!("^{text}$"),
            "beg" => format!("^{text}"),
            "end" => format!("{text}$"),
            "sub" => text,
            "dir" => enclosed(&value, "/?"),
            "dom" => enclosed(&value, "/?.:"),
            _ => return Err(format!("names are not matched by `{method}`")),
        }))
    };
    let expression = |value: &&str| {
        Pattern::new(value)?;
        Ok(NameTest::Pattern((*value).to_owned()))
    };
    let tests: Result<Vec<NameTest>, String> = match method {
        "reg" => values.iter().map(expression).collect(),
        _ => values.iter().map(name).collect(),
    };
    Ok(Test::Names(tests?, letters))
}

/// A text between two of `delimiters` or the ends of the name; those around the text itself do not count.
fn enclosed(text: &str, delimiters: &str) -> String {
    let text = text.trim_matches(|letter| delimiters.contains(letter));
    let text = anywhere(text);
    format!("(^|[{delimiters}]){text}([{delimiters}]|$)")
}

/// `req.ssl_alpn` is each of the protocols, one after the other.
fn protocols(method: Option<&str>, values: &[&str], letters: Letters) -> Result<Test, String> {
    let test = match method {
        None | Some("str") => ProtocolTest::Whole,
        Some("sub") => ProtocolTest::Part,
        Some(method) => {
            return Err(format!(
                "application protocols are not matched by `{method}`"
            ));
        }
    };
    let protocols = values.iter().map(|value| (*value).to_owned()).collect();
    Ok(Test::Protocols(protocols, letters, test))
}

fn sources(values: &[&str]) -> Result<Test, String> {
    let net = |value: &&str| {
        let address = || value.parse::<IpAddr>().map(IpNet::from);
        let net = value
            .parse()
            .ok()
            .or_else(|| address().ok())
            .or_else(|| masked(value));
        net.ok_or_else(|| format!("`{value}` is neither an address nor a network"))
    };
    values
        .iter()
        .map(net)
        .collect::<Result<_, _>>()
        .map(Test::Sources)
}

/// `192.0.2.0/255.255.255.0`.
fn masked(value: &str) -> Option<IpNet> {
    let (address, mask) = value.split_once('/')?;
    IpNet::with_netmask(address.parse().ok()?, mask.parse().ok()?).ok()
}
