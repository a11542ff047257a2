//! The files that OpenShift's documentation and its installations have, with addresses of this machine.

use super::servers::Kind;
use super::vector::Step;
use super::{Case, QUICK, Vector, run, tcp};

/// Names of servers, in the order of the file.
const NAMES: [&str; 16] = [
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14",
    "s15",
];

/// A file of an installation: its servers are those of the test by the order of their lines, checks are quick, and what is
/// of the host alone is left out.
fn installed(name: &'static str, text: &str, kind: Kind) -> Case {
    let mut file = String::new();
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let host_alone = ["chroot", "pidfile", "user", "group", "daemon"];
        let is_of_host = words
            .first()
            .is_some_and(|word| host_alone.contains(&word.as_str()))
            || line.trim_start().starts_with("stats socket");
        if is_of_host {
            continue;
        }
        match words.first().map(String::as_str) {
            Some("server") => {
                let own = NAMES[servers.len()];
                servers.push((own, kind));
                words[2] = format!("{{{own}}}");
                if let Some(at) = words.iter().position(|word| word == "inter") {
                    words.drain(at..at + 2);
                }
                if words.iter().any(|word| word == "check") {
                    words.extend(["inter".to_owned(), "300ms".to_owned()]);
                }
            }
            Some("bind") => {
                let (_, port) = words[1].rsplit_once(':').expect("a port");
                words[1] = format!("{{front}}:{port}");
                words.retain(|word| word != "v4v6");
            }
            Some("log") => words = vec!["log".to_owned(), "global".to_owned()],
            _ => {}
        }
        let is_head = !line.starts_with([' ', '\t']);
        file.push_str(match is_head {
            true => "",
            false => " ",
        });
        file.push_str(&words.join(" "));
        file.push('\n');
    }
    let file = file.replace("global\n log global\n", "global\n log 127.0.0.1 local2\n");
    Case::new(name, &file).servers(&servers)
}

fn spread(name: &'static str, port: u16) -> Vector {
    Vector::to(name, port).says(b"hi\n").spread(6)
}

fn stick(name: &'static str, port: u16) -> Vector {
    Vector::to(name, port)
        .says(b"hi\n")
        .from([127, 90, 0, 7])
        .stick(4)
}

#[test]
fn a_helper_node_serves_alike() {
    let text = include_str!("../../../../peers/haproxy/src/fixtures/helper-node.cfg");
    let case = installed("helper-node.cfg", text, Kind::Answers).vectors([
        stick("api", 6443),
        stick("machine config", 22_623),
        stick("ingress http", 80),
        stick("ingress https", 443),
        stick("one api server", 6443)
            .after(Step::Down("s0"))
            .after(Step::Down("s1"))
            .after(Step::Down("s2")),
        Vector::to("no api server", 6443)
            .says(b"hi\n")
            .after(Step::Down("s3")),
        Vector::to("an api server is back", 6443)
            .says(b"hi\n")
            .after(Step::Up("s2")),
        Vector::to("no router", 443)
            .says(b"hi\n")
            .after(Step::Down("s10"))
            .after(Step::Down("s11")),
    ]);
    run(vec![case]);
}

#[test]
fn the_sample_of_the_documentation_serves_alike() {
    let text = include_str!("../../../../peers/haproxy/src/fixtures/upi-sample.cfg");
    let case = installed("upi-sample.cfg", text, Kind::Api).vectors([
        spread("api", 6443),
        spread("machine config", 22_623),
        stick("ingress https", 443),
        stick("ingress http", 80),
        spread("an api server fails its check", 6443).after(Step::Status("s1", 500)),
        spread("another is gone", 6443).after(Step::Down("s2")),
        spread("only the bootstrap node is left", 6443).after(Step::Down("s3")),
        spread("one is back", 6443).after(Step::Status("s1", 200)),
        spread("machine config of the bootstrap node", 22_623)
            .after(Step::Down("s5"))
            .after(Step::Down("s6"))
            .after(Step::Down("s7")),
        Vector::to("no machine config", 22_623)
            .says(b"hi\n")
            .after(Step::Down("s4")),
    ]);
    run(vec![case]);
}

#[test]
fn the_balancer_of_an_on_premises_installation_serves_alike() {
    let text = include_str!("../../../../peers/haproxy/src/fixtures/on-prem.cfg");
    let case = installed("on-prem.cfg", text, Kind::Api).vectors([
        spread("api", 9445),
        spread("one fails its check", 9445).after(Step::Status("s0", 503)),
        spread("one is gone", 9445).after(Step::Down("s1")),
        Vector::to("all are gone", 9445)
            .says(b"hi\n")
            .after(Step::Down("s2")),
        spread("two are back", 9445)
            .after(Step::Up("s1"))
            .after(Step::Up("s2")),
    ]);
    run(vec![case]);
}

#[test]
fn two_clusters_behind_one_balancer_are_served_alike() {
    const LOOK: &str =
        " tcp-request inspect-delay 1s\n tcp-request content accept if { req_ssl_hello_type 1 }\n";
    let text = format!(
        "{QUICK}frontend api\n bind {{front}}:6443\n tcp-request connection reject if {{ src 127.66.0.0/16 }}\n{LOOK}\
         \x20use_backend api-blue if {{ req.ssl_sni -i api.blue.example api-int.blue.example }}\n\
         \x20use_backend api-green if {{ req.ssl_sni -i api.green.example }} || {{ req.ssl_sni -i -m end .green.example }}\n\
         \x20default_backend api-blue\n\
         backend api-blue\n balance leastconn\n server b0 {{s0}}\n server b1 {{s1}} backup\n\
         backend api-green\n server g0 {{s2}}\n server g1 {{s3}}\n\
         frontend apps\n bind {{front}}:443\n{LOOK}\
         \x20use_backend apps-green if {{ req.ssl_sni -i -m end .apps.green.example }}\n\
         \x20use_backend apps-green if {{ req.ssl_sni -i -m reg ^console-[a-z]+\\.green\\. }}\n\
         \x20use_backend api-green if {{ req.ssl_sni -i -m dom oauth }}\n\
         \x20default_backend apps-blue\n\
         backend apps-blue\n balance source\n server r0 {{s4}}\n\
         backend apps-green\n balance source\n server r1 {{s5}}\n"
    );
    let names = NAMES.iter().take(6);
    let servers: Vec<(&str, Kind)> = names.map(|name| (*name, Kind::Greets)).collect();
    let named = |vector, port, name: &str| Vector::to(vector, port).hello(name);
    let case = Case::new("two clusters", &tcp(&text))
        .servers(&servers)
        .vectors([
            named("blue", 6443, "api.blue.example"),
            named("blue inside", 6443, "api-int.blue.example"),
            named("green", 6443, "api.green.example").spread(6),
            named("anything of green", 6443, "x.y.green.example").spread(6),
            named("another name", 6443, "api.red.example"),
            Vector::to("no name", 6443).nameless_hello(),
            Vector::to("no TLS", 6443).says(b"GET / HTTP/1.0\r\n\r\n"),
            named("kept out", 6443, "api.blue.example").from([127, 66, 0, 1]),
            named("blue apps", 443, "console.apps.blue.example"),
            named("green apps", 443, "shop.apps.green.example"),
            named("by expression", 443, "console-eu.green.example"),
            named("by no expression", 443, "console-1.green.example"),
            named("by label", 443, "a.oauth.green.example").spread(6),
            named("part of a label", 443, "oauth2.red.example"),
            named("blue's spare", 6443, "api.blue.example").after(Step::Down("s0")),
            named("half of green", 6443, "api.green.example")
                .spread(6)
                .after(Step::Down("s2")),
            named("no green", 6443, "api.green.example").after(Step::Down("s3")),
            named("blue is back", 6443, "api.blue.example").after(Step::Up("s0")),
        ]);
    run(vec![case]);
}
