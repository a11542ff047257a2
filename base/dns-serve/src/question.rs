//! The question of an operator about an answer: `name=NAME&type=TYPE&client=IP` on the admin listener.

use std::net::IpAddr;

use config_text::web::with_query;
use daemon::admin::{Reply, Request, Routes};
use dns_wire::{Name, Type};
use serde::Serialize;

/// The path of explanations.
const PATH: &str = "/explain";

/// Adds the path of explanations.
pub fn add<E: Serialize>(
    routes: &Routes,
    explain: impl Fn(&Question) -> E + Send + Sync + 'static,
) {
    routes.get(PATH, move |request| {
        let reply = match Question::of(&request) {
            Ok(question) => Reply::json(200, &explain(&question)),
            Err(problem) => Reply::text(400, format!("{problem}\n")),
        };
        async move { reply }
    });
}

/// The path with the question of a command line.
#[must_use]
pub fn path(name: String, rtype: String, client: Option<IpAddr>) -> String {
    let client = client.map(|client| client.to_string());
    let question = [
        ("name", Some(name)),
        ("type", Some(rtype)),
        ("client", client),
    ];
    with_query(PATH, &question)
}

/// A question, with its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: Name,
    /// The type; `A` unless it is said.
    pub rtype: Type,
    /// The client that would ask.
    pub client: Option<IpAddr>,
}

impl Question {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub fn of(request: &Request) -> Result<Self, String> {
        let name = request.parameter("name");
        let name = name.ok_or("which name? say ?name=NAME")?;
        let rtype = request.parameter("type");
        let rtype = rtype.unwrap_or_else(|| "A".to_owned());
        let client = request.parameter("client").map(|text| {
            text.parse()
                .map_err(|_| format!("`{text}` is no IP address"))
        });
        let is_data = |rtype: &Type| !matches!(*rtype, Type::AXFR | Type::IXFR | Type::OPT);
        Ok(Self {
            name: Name::parse(&name).map_err(|error| format!("`{name}` is no name: {error}"))?,
            rtype: rtype
                .parse()
                .ok()
                .filter(is_data)
                .ok_or_else(|| format!("`{rtype}` is no type of records"))?,
            client: client.transpose()?,
        })
    }

    /// The query of a client that asks for recursion, and for nothing of EDNS.
    #[must_use]
    pub fn query(&self) -> Vec<u8> {
        let question = dns_wire::Question {
            id: 0,
            name: &self.name,
            rtype: self.rtype,
        };
        question.query()
    }
}

#[cfg(test)]
mod tests {
    use dns_wire::{Class, Flags, Query};

    use super::*;

    #[test]
    fn a_question_is_read_from_its_parameters() {
        for (query, expected) in [
            ("name=a.example", Ok(("a.example.", Type::A))),
            ("name=a.example&type=aaaa", Ok(("a.example.", Type::AAAA))),
            ("type=A", Err("which name? say ?name=NAME")),
            ("name=a..b", Err("`a..b` is no name")),
            ("name=a&type=nonsense", Err("`nonsense` is no type")),
            ("name=a&type=AXFR", Err("`AXFR` is no type")),
            ("name=a&client=x", Err("`x` is no IP address")),
        ] {
            let request = Request {
                query: query.to_owned(),
                ..Request::default()
            };
            match (Question::of(&request), expected) {
                (Ok(found), Ok((name, rtype))) => {
                    let expected = Question {
                        name: name.parse().unwrap(),
                        rtype,
                        client: None,
                    };
                    assert_eq!(found, expected, "{query}");
                }
                (Err(problem), Err(begin)) => assert!(problem.starts_with(begin), "{problem}"),
                (found, _) => panic!("{query}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_question_becomes_a_query() {
        let question = Question {
            name: "a.example.".parse().unwrap(),
            rtype: Type::AAAA,
            client: None,
        };
        let message = question.query();
        let query = Query::parse(&message).unwrap();
        assert_eq!((query.qtype, query.qclass), (Type::AAAA, Class::IN));
        assert_eq!(query.qname, question.name.as_wire());
        assert!(query.flags.has(Flags::RD) && query.edns.is_none());
    }
}
