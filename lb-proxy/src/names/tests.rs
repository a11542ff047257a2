use std::collections::BTreeSet;
use std::time::Duration;

use daemon::config::Document;
use server_names::message::{Kind, Outcome, Place, Question, Record};

use super::*;

const NAMED: &str = r#"
[[backend]]
name = "web"
slow-start = "10s"
[[backend.server]]
name = "first"
address = "192.0.2.1:80"
[[backend.server]]
name = "www"
address = "www.example:8080"
servers = 4
weight = 60
[[backend.server]]
name = "one"
address = "one.example:81"
backup = true
[[backend.server]]
name = "srv"
address = "_http._tcp.web.example"
servers = 4
[[backend.server]]
name = "last"
address = "192.0.2.2:80"
"#;

fn config(text: &str) -> Config {
    let document = Document::inline("x.toml", format!("version = \"v1\"\n{text}"));
    Config::from_document(&document).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problem(text: &str) -> String {
    let document = Document::inline("x.toml", format!("version = \"v1\"\n{text}"));
    Config::from_document(&document).unwrap_err().to_string()
}

/// The records of a zone.
fn answer(question: &Question) -> Outcome {
    let place = |priority, weight, target: &str| {
        Record::Place(Place {
            priority,
            weight,
            port: 8000 + priority,
            target: target.parse().unwrap(),
        })
    };
    let address = |last| Record::Address([192, 0, 2, last].into());
    let records: Vec<Record> = match (question.name.to_string().as_str(), question.kind) {
        ("www.example.", Kind::V4) => vec![address(20), address(10)],
        ("one.example.", Kind::V4) => vec![address(30)],
        ("a.example.", Kind::V4) => vec![address(40)],
        ("b.example.", Kind::V4) => vec![address(50)],
        ("_http._tcp.web.example.", _) => vec![
            place(1, 20, "a.example"),
            place(1, 10, "b.example"),
            place(2, 1, "a.example"),
        ],
        _ => vec![],
    };
    let records: BTreeSet<Record> = records.into_iter().collect();
    match records.is_empty() {
        true => Outcome::Denied {
            exists: true,
            ttl: None,
        },
        false => Outcome::Found {
            records,
            ttl: Duration::from_secs(5),
        },
    }
}

/// The configuration with the servers that its names stand for.
fn resolved(mut config: Config) -> (Config, Names) {
    let mut names = names(&config);
    for _ in 0..5 {
        for question in names.due(clock::now()) {
            names.take(&question, answer(&question), clock::now());
        }
    }
    let specs = config.file.backend.clone();
    for (backend, spec) in config.backends.iter_mut().zip(&specs) {
        join(backend, spec, &names);
    }
    (config, names)
}

#[test]
fn names_are_servers_at_their_places() {
    let before = config(NAMED);
    assert_eq!(before.backends[0].servers.len(), 2);
    let (config, names) = resolved(before);
    let servers: Vec<String> = config.backends[0]
        .servers
        .iter()
        .map(|server| {
            let backup = if server.backup { " backup" } else { "" };
            format!(
                "{} {} {}{backup}",
                server.name, server.address, server.weight
            )
        })
        .collect();
    assert_eq!(
        servers,
        [
            "first 192.0.2.1:80 100",
            "www-192.0.2.10 192.0.2.10:8080 60",
            "www-192.0.2.20 192.0.2.20:8080 60",
            "one 192.0.2.30:81 100 backup",
            "srv-192.0.2.40:8001 192.0.2.40:8001 100",
            "srv-192.0.2.50:8001 192.0.2.50:8001 50",
            "srv-192.0.2.40:8002 192.0.2.40:8002 100 backup",
            "last 192.0.2.2:80 100",
        ]
    );
    // They are probed and kept as the others are.
    assert_eq!(config.targets().len(), 8);
    for server in &config.backends[0].servers {
        assert_eq!(
            server.slow_start,
            Duration::from_secs(10),
            "{}",
            server.name
        );
    }
    let resolving = name_lookup::status(&names, &config.file.resolvers).unwrap();
    let said: Vec<String> = resolving.names.iter().map(ToString::to_string).collect();
    assert!(
        said.iter().any(|it| it.starts_with(
            "web/srv is _http._tcp.web.example: found, 3 servers of 4 at most, answered"
        )),
        "{said:?}"
    );
    assert_eq!(resolving.nameservers, ["127.0.0.1:53"]);
}

#[test]
fn a_name_of_the_file_is_not_taken_twice() {
    let text = NAMED.replace("name = \"first\"", "name = \"www-192.0.2.10\"");
    let (config, _) = resolved(config(&text));
    let servers = config.backends[0].servers.iter();
    let alike = servers.filter(|server| &*server.name == "www-192.0.2.10");
    assert_eq!(alike.count(), 1);
}

#[test]
fn a_configuration_without_names_asks_for_nothing() {
    let config = config(
        &NAMED
            .replace("www.example", "192.0.2.3")
            .replace("servers = 4\n", "")
            .replace("one.example", "192.0.2.4")
            .replace("_http._tcp.web.example", "192.0.2.5:1"),
    );
    let names = names(&config);
    assert!(names.is_empty() && names.deadline().is_none());
    assert_eq!(name_lookup::status(&names, &config.file.resolvers), None);
}

#[test]
fn names_that_cannot_be_followed_are_refused() {
    let long = format!("{}abcdefghijk:80", "abcdefgh.".repeat(27));
    for (from, to, said) in [
        (
            "\"192.0.2.1:80\"",
            "\"192.0.2.1:80\"\nservers = 2",
            "an IP address is one server",
        ),
        (
            "www.example:8080",
            "www.example",
            "a port is missing in `www.example`",
        ),
        (
            "www.example:8080",
            "www..example:1",
            "is no address of a server",
        ),
        (
            "www.example:8080",
            "www.example:0",
            "is no address of a server",
        ),
        ("www.example:8080", &long, "is too long for a DNS name"),
        ("\nservers = 4", "\nservers = 129", "129"),
    ] {
        let problem = problem(&NAMED.replacen(from, to, 1));
        assert!(problem.contains(said), "{to}: {problem}");
    }
    let none = format!("[resolvers]\nnameservers = []\n{NAMED}");
    assert!(problem(&none).contains("there is no resolver to ask"));
    let nine = format!("[resolvers]\nnameservers = {:?}\n", ["192.0.2.1"; 9]);
    assert!(problem(&nine).contains("lb-proxy asks at most 8 resolvers"));
}
