//! `outpost check`: everything about a site file that would not work, without changing anything.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use config_text::{Position, counted};
use daemon::config::{Problem, Problems};
use daemon::{disk, exit, outln};
use serde::Serialize;

use crate::json::print_json;
use site::service::Service;
use site::{Role, Site};
use site_file::{self, Holds, Kind, Named, Remark};

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// Exit with 78 on warnings too
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The end of `--help`.
pub(crate) const NOTES: &str = "\
Prints a line for each problem, FILE:LINE:COLUMN: TEXT; a warning or a note says so. The text ends
with what to do. It finds, among others:
  * unknown keys, with the nearest known one
  * addresses in use twice, outside the site's networks, or unusable
  * networks that overlap
  * names in use twice (nodes, etcd-N, name servers, [[publish]], records), or invalid
  * records that the zone's own parser refuses
  * ports on which two services listen
  * virtual IPs without an interface, without a node to hold them, or with the same router number
  * services that lack another service on the same node
  * virtual IPs behind which no port is published
  * upstreams that are the site itself, and time servers that are, or whose names no server resolves
  * a domain below local, which belongs to multicast DNS
  * an even number of masters, or no master
  * quotas of zero; mirrors without an upstream, with the site itself as upstream, or with a name
    that no server resolves
  * missing files: registry users (or passwords other than bcrypt's), credentials and authorities
    of mirrors, a kubeconfig that clusterd can use
  * a [cluster] without one source, and clusterd without a [cluster]

--json prints `good`, `findings` (each with `kind`: problem, warning or note; `file`, `line` and
`column` where it has a place; `message`; `remedy`, the part of the message that says what to
do) and `summary`.

Examples:
  outpost check
  outpost check --strict /srv/sites/north/site.toml
  outpost check --json | jq -r '.findings[].message'

Exit status:
  0   no problem (there may be warnings and notes)
  64  the command line is wrong
  78  there are problems";

/// The verdict on a site file.
#[derive(Debug, Serialize)]
struct Verdict {
    /// Whether the file may be used, and has no warning where none is allowed.
    good: bool,
    /// Problems, then remarks, each in the order of the file.
    findings: Vec<Finding>,
    /// The site in one line, unless the file has problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

/// One line about the file.
#[derive(Debug, Serialize)]
struct Finding {
    kind: Weight,
    #[serde(flatten)]
    place: Option<Place>,
    message: String,
    /// The part of the message that says what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Place {
    file: PathBuf,
    line: usize,
    column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Weight {
    Problem,
    Warning,
    Note,
}

impl Finding {
    fn new(kind: Weight, problem: &Problem) -> Self {
        let place = |position: &Position| Place {
            file: position.file.to_path_buf(),
            line: position.line,
            column: position.column,
        };
        Self {
            kind,
            place: problem.position.as_ref().map(place),
            remedy: site_file::remedy(&problem.message).map(str::to_owned),
            message: problem.message.clone(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { file, line, column }) = &self.place {
            write!(formatter, "{}:{line}:{column}: ", file.display())?;
        }
        let kind = match self.kind {
            Weight::Problem => "",
            Weight::Warning => "warning: ",
            Weight::Note => "note: ",
        };
        write!(formatter, "{kind}{}", self.message)
    }
}

/// Runs the verb.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let verdict = look(&args.site, args.strict);
    if args.json {
        print_json(&verdict);
    } else {
        for finding in &verdict.findings {
            outln!("{finding}");
        }
        if let Some(summary) = &verdict.summary {
            outln!("{}: {summary}", args.site.display());
        }
    }
    exit::code(if verdict.good { exit::OK } else { exit::CONFIG })
}

/// Checks a site file and the files that it names.
fn look(path: &Path, strict: bool) -> Verdict {
    let document = match site_file::open(path) {
        Ok(document) => document,
        Err(problems) => {
            return Verdict {
                good: false,
                findings: findings(&problems, &[]),
                summary: None,
            };
        }
    };
    let read = site_file::parse(&document);
    let base = path.parent().unwrap_or_else(|| Path::new(""));
    let mut problems = read.site.as_ref().err().cloned().unwrap_or_default();
    for file in &read.named {
        problems.extend(named(base, file));
    }
    let mut findings = findings(&problems, &read.remarks);
    let site = read.site.ok().filter(|_| problems.0.is_empty());
    if let Some(site) = &site {
        let remarks = site_pki::remarks(base, site).into_iter();
        findings.extend(remarks.map(|remark| of_certificates(&remark)));
    }
    let has_warning = read
        .remarks
        .iter()
        .any(|remark| remark.kind == Kind::Warning);
    Verdict {
        good: site.is_some() && !(strict && has_warning),
        findings,
        summary: site.as_ref().map(summary),
    }
}

/// A remark about the certificates beside the file.
fn of_certificates(remark: &str) -> Finding {
    let (kind, message) = match (
        remark.strip_prefix("warning: "),
        remark.strip_prefix("note: "),
    ) {
        (Some(message), _) => (Weight::Warning, message),
        (None, message) => (Weight::Note, message.unwrap_or(remark)),
    };
    Finding {
        kind,
        place: None,
        remedy: site_file::remedy(message).map(str::to_owned),
        message: message.to_owned(),
    }
}

/// Problems, then remarks, each in the order of the file.
fn findings(problems: &Problems, remarks: &[Remark]) -> Vec<Finding> {
    let place = |position: &Option<Position>| {
        position
            .as_ref()
            .map(|position| (position.line, position.column))
    };
    let mut problems: Vec<&Problem> = problems.0.iter().collect();
    problems.sort_by_key(|problem| place(&problem.position));
    let mut remarks: Vec<&Remark> = remarks.iter().collect();
    remarks.sort_by_key(|remark| place(&remark.problem.position));
    let problems = problems.into_iter();
    let problems = problems.map(|problem| Finding::new(Weight::Problem, problem));
    let remarks = remarks.into_iter().map(|remark| {
        let kind = match remark.kind {
            Kind::Warning => Weight::Warning,
            Kind::Note => Weight::Note,
        };
        Finding::new(kind, &remark.problem)
    });
    problems.chain(remarks).collect()
}

/// The problems of a file that the site file names.
fn named(base: &Path, named: &Named) -> Vec<Problem> {
    let path = base.join(&named.path);
    let octets = match disk::read(&path) {
        Ok(octets) => octets,
        Err(error) => {
            let message = format!(
                "cannot read {}, {}: {error}; make it, or take the key out",
                path.display(),
                named.what
            );
            return vec![Problem::at(named.position.clone(), message)];
        }
    };
    let text = String::from_utf8_lossy(&octets);
    let found = match named.holds {
        Holds::Users => users(&text),
        Holds::Credentials => credentials(&text),
        Holds::Certificates => certificates(&octets),
        Holds::Kubeconfig => return kubeconfig(named, &path, &text),
    };
    let problem = |(line, message): (usize, &str)| match line {
        // A problem of the whole file: report it at the place that names the file.
        0 => Problem::at(
            named.position.clone(),
            format!("{} {message}{}", path.display(), again(message)),
        ),
        line => {
            let file = path.as_path().into();
            let position = Position {
                file,
                line,
                column: 1,
            };
            Problem::at(position, message)
        }
    };
    found.into_iter().map(problem).collect()
}

/// The problem of a kubeconfig: `outpost` puts it onto the nodes without any other file.
fn kubeconfig(named: &Named, path: &Path, text: &str) -> Vec<Problem> {
    let directory = site::paths::etc(Service::Clusterd);
    let read = cluster_objects::kubeconfig::read(text, &directory);
    let problem = match &read {
        Err(problem) => Some(format!("{problem}; write one with a user, a server and its authorities, and without commands")),
        Ok(read) => read.files().next().map(|file| {
            format!(
                "it names {}, which `outpost` does not put onto the nodes; write the content itself into it, as `kubectl config view --flatten` does",
                file.display()
            )
        }),
    };
    let place = |problem| {
        let message = format!("{} cannot be used: {problem}", path.display());
        Problem::at(named.position.clone(), message)
    };
    problem.map(place).into_iter().collect()
}

/// The remedy of a file that is wrong as a whole, where the message has none.
fn again(message: &str) -> &'static str {
    match site_file::remedy(message) {
        Some(_) => "",
        None => "; put the right file there, or take the key out",
    }
}

/// The problems of the registry's users, by line; 0 is the whole file.
fn users(text: &str) -> Vec<(usize, &'static str)> {
    let lines = (1..).zip(text.lines());
    let users: Vec<(usize, &str)> = lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .collect();
    if users.is_empty() {
        return vec![(
            0,
            "names no user: no client could push; add one with `registry-svc password`",
        )];
    }
    let is_bcrypt = |line: &str| {
        line.split_once(':')
            .is_some_and(|(user, hash)| !user.is_empty() && hash.starts_with("$2"))
    };
    let wrong = users.into_iter().filter(|(_, line)| !is_bcrypt(line));
    wrong
        .map(|(line, _)| {
            (
                line,
                "no user with a bcrypt password; write the line with `registry-svc password` or `htpasswd -B`",
            )
        })
        .collect()
}

/// The problem of credentials; never quotes them.
fn credentials(text: &str) -> Vec<(usize, &'static str)> {
    let mut lines = text.trim_end_matches(['\r', '\n']).lines();
    let first = lines.next().unwrap_or_default();
    let is_pair = first
        .split_once(':')
        .is_some_and(|(user, _)| !user.is_empty());
    match (is_pair, lines.next()) {
        (true, None) => Vec::new(),
        (false, _) => vec![(1, "no credentials, as in user:password")],
        (true, Some(_)) => vec![(
            2,
            "there is more than one line of user:password; take the others out",
        )],
    }
}

/// The problem of certificates.
fn certificates(octets: &[u8]) -> Vec<(usize, &'static str)> {
    match site_pki::is_certificate(octets) {
        Ok(()) => Vec::new(),
        Err(why) => vec![(0, why)],
    }
}

/// A site in one line.
fn summary(site: &Site) -> String {
    let of_role = |role| site.nodes.iter().filter(|node| node.role == role).count();
    let n_records = site.hosts.len() + site.records.len();
    let n_instances: usize = Service::ALL
        .iter()
        .map(|service| {
            let runs = |node: &&site::Node| node.services.contains(service);
            site.nodes.iter().filter(runs).count()
        })
        .sum();
    [
        format!("site {} ({})", site.name, site.domain),
        counted(of_role(Role::Master), "master"),
        counted(of_role(Role::Worker), "worker"),
        counted(n_instances, "service"),
        counted(site.vips.len(), "virtual IP"),
        counted(n_records, "further record"),
    ]
    .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(directory: &Path, text: &str) -> serde_json::Value {
        let path = directory.join("site.toml");
        let head = "version = \"v1\"\nname = \"n\"\ndomain = \"n.example\"\nnetworks = [\"192.0.2.0/24\"]\n";
        std::fs::write(&path, format!("{head}{text}")).unwrap();
        serde_json::to_value(look(&path, true)).unwrap()
    }

    #[test]
    fn a_program_reads_what_people_read() {
        let directory = tempfile::tempdir().unwrap();
        let node = "[[node]]\nname = \"a\"\nrole = \"master\"\naddress = \"192.0.2.1\"\n";
        let good = site(directory.path(), node);
        assert_eq!(good["good"], true, "{good}");
        let kinds = |verdict: &serde_json::Value| {
            let findings = verdict["findings"].as_array().unwrap().iter();
            findings.map(|one| one["kind"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&good), ["note", "note"]);
        assert!(good["summary"].as_str().unwrap().starts_with("site n ("));
        let odd = site(
            directory.path(),
            &format!("{node}[time]\nservers = [\"192.0.2.1\"]\n"),
        );
        assert_eq!(
            (&odd["good"], kinds(&odd)[0].as_str()),
            (&false.into(), Some("warning"))
        );
        let bad = site(directory.path(), &format!("{node}[dns]\nttl = -1\n"));
        let first = &bad["findings"][0];
        assert_eq!(
            (&first["kind"], &first["line"], &first["column"]),
            (&"problem".into(), &10.into(), &7.into())
        );
        assert!(first["file"].as_str().unwrap().ends_with("site.toml"));
        assert_eq!(first["remedy"], "write 0 to 2147483647", "{first}");
        assert!(bad.get("summary").is_none(), "{bad}");
    }
    #[test]
    fn a_kubeconfig_that_does_not_work_on_a_node_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[[node]]\nname = \"a\"\nrole = \"master\"\naddress = \"192.0.2.1\"\n\
                    [cluster]\nkubeconfig = \"k\"\n";
        let messages = |verdict: &serde_json::Value| -> Vec<String> {
            let findings = verdict["findings"].as_array().unwrap().iter();
            let problems = findings.filter(|one| one["kind"] == "problem");
            problems
                .map(|one| {
                    assert!(one["remedy"].is_string(), "{one}");
                    one["message"].as_str().unwrap().to_owned()
                })
                .collect()
        };
        let missing = messages(&site(directory.path(), text));
        assert!(
            missing[0].contains("the kubeconfig of clusterd"),
            "{missing:?}"
        );
        let write = |user: &str| {
            let kubeconfig = format!(
                "current-context: a\nclusters: [{{name: a, cluster: {{server: 'https://192.0.2.1:6443'}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{{user}}}}}]\n"
            );
            std::fs::write(directory.path().join("k"), kubeconfig).unwrap();
        };
        for (user, begins) in [
            ("exec: {command: sh}", "`exec` cannot be used here"),
            ("tokenFile: t", "it names /etc/outpost/clusterd/t, which"),
        ] {
            write(user);
            let found = messages(&site(directory.path(), text));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(begins), "{found:?}");
        }
        write("token: t");
        assert_eq!(messages(&site(directory.path(), text)), [""; 0]);
    }
}
