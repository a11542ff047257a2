//! An imported haproxy.cfg does as HAProxy does with it, or `import` says that it does not.
//!
//! A [`Case`] is a file, the servers that it names, and connections to make. HAProxy serves the file on one address and
//! lb-proxy, from what `import` prints, on another, at the same time and with the same servers. Each [`Vector`] is run on
//! both: source, port, what the client sends, the states of servers, and how long it takes. If the outcomes differ the
//! case names a remark of the import, and the import must have printed it.
//!
//! One difference is no remark but the same for every file, and is in docs/haproxy.md: a client that gets no server is reset,
//! where HAProxy may close ([`alike`]).
//!
//! To add a shape: write a case in the module of its subject. To see every outcome, run with `--nocapture`.

mod access;
mod balance;
mod checks;
mod limits;
mod openshift;
mod rig;
mod routes;
mod servers;
mod timeouts;
mod vector;

use std::collections::BTreeMap;
use std::time::Duration;

use rig::Rig;
use servers::Kind;
use vector::{Step, Vector};

/// A file, and the connections to both proxies that serve it.
struct Case {
    /// A name for the test's output.
    name: &'static str,
    /// haproxy.cfg. `{front}` is the proxy's address, and `{s0}` the address and port of the server of that name.
    file: String,
    /// The servers by name.
    servers: Vec<(&'static str, Kind)>,
    /// The connections, in their order.
    vectors: Vec<Vector>,
    /// A part of what `import` says when it refuses the file; it is run with `--accept-open` then.
    refusal: Option<&'static str>,
    /// Vectors whose outcomes differ, each with a part of the remark that says so.
    differs: Vec<(&'static str, &'static str)>,
}

impl Case {
    /// A case without connections.
    fn new(name: &'static str, file: &str) -> Self {
        Self {
            name,
            file: file.to_owned(),
            servers: vec![("s0", Kind::Greets), ("s1", Kind::Greets)],
            vectors: Vec::new(),
            refusal: None,
            differs: Vec::new(),
        }
    }

    /// These servers, instead of `s0` and `s1` that greet.
    fn servers(mut self, servers: &[(&'static str, Kind)]) -> Self {
        self.servers = servers.to_vec();
        self
    }

    /// Connections.
    fn vectors(mut self, vectors: impl IntoIterator<Item = Vector>) -> Self {
        self.vectors.extend(vectors);
        self
    }

    /// The import refuses the file with these words.
    fn refused(mut self, words: &'static str) -> Self {
        self.refusal = Some(words);
        self
    }

    /// The outcome of this vector differs, and the import says so with these words.
    fn differs(mut self, vector: &'static str, words: &'static str) -> Self {
        self.differs.push((vector, words));
        self
    }
}

/// Runs cases one after the other, and says all that is wrong with any of them.
#[track_caller]
fn run(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for case in cases {
        wrong.extend(outcomes(&case));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How often a vector is run before its outcomes count as different: checks and counts of sessions settle in the meantime, and
/// a busy machine makes a client late.
const ATTEMPTS: u32 = 6;

const PAUSE: Duration = Duration::from_millis(500);

/// The problems of a case.
fn outcomes(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rig = Rig::start(case, &mut wrong);
    let said: BTreeMap<&str, &str> = case.differs.iter().copied().collect();
    let mut n_differences = 0;
    for vector in &case.vectors {
        rig.prepare(vector);
        let words = said.get(vector.name);
        let mut seen = rig.run(vector);
        for _ in 1..ATTEMPTS {
            if alike(&seen.0, &seen.1) != words.is_some() {
                break;
            }
            std::thread::sleep(PAUSE);
            seen = rig.run(vector);
        }
        let (haproxy, ours) = seen;
        println!(
            "{}: {}: HAProxy: {haproxy}; lb-proxy: {ours}",
            case.name, vector.name
        );
        let is_said = words.is_some_and(|words| rig.said(words));
        let problem = match (alike(&haproxy, &ours), words) {
            (true, None) => continue,
            (false, Some(_)) if is_said => {
                n_differences += 1;
                continue;
            }
            (false, Some(words)) => format!("the import does not say {words:?}"),
            (false, None) => "no remark is named for this difference".to_owned(),
            (true, Some(_)) => "they are alike, but a difference is named".to_owned(),
        };
        wrong.push(format!(
            "{}: {}: {problem}\n  HAProxy:  {haproxy}\n  lb-proxy: {ours}\n  remarks:\n{}",
            case.name,
            vector.name,
            rig.remarks()
        ));
    }
    let known = |name: &str| case.vectors.iter().any(|vector| vector.name == name);
    let names: Vec<&str> = said.keys().copied().filter(|name| !known(name)).collect();
    if !names.is_empty() {
        wrong.push(format!("{}: no such vectors: {names:?}", case.name));
    }
    println!(
        "{}: {} vectors, {n_differences} differences that the import says, {} others",
        case.name,
        case.vectors.len(),
        wrong.len()
    );
    wrong
}

/// Whether two outcomes are the same. A client that gets no server is reset by lb-proxy, and by HAProxy closed or reset,
/// depending on what it has sent; a connection that has had a server is another matter.
fn alike(haproxy: &str, ours: &str) -> bool {
    let without_a_server = |outcome: &str| outcome.replace("reset", "closed");
    let had_a_server = haproxy.contains("then") || ours.contains("then");
    haproxy == ours || (!had_a_server && without_a_server(haproxy) == without_a_server(ours))
}

/// The beginning of most files.
const TCP: &str =
    "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n";

/// Checks that find a change soon.
const QUICK: &str =
    " default-server check inter 200ms fastinter 200ms downinter 200ms rise 1 fall 1\n";

/// `lines` behind [`TCP`], as a frontend on port 7000.
fn tcp(lines: &str) -> String {
    format!("{TCP}{lines}")
}

#[test]
fn the_judge_tells_outcomes_apart() {
    assert!(alike("s0", "s0"));
    assert!(alike("closed at once", "reset at once"));
    for (one, other) in [
        ("s0", "s1"),
        ("s0", "closed"),
        ("refused", "closed"),
        ("silent", "closed"),
        ("closed at once", "closed in time"),
        ("s0, then closed in time", "s0, then reset in time"),
    ] {
        assert!(!alike(one, other), "{one} {other}");
    }
}
