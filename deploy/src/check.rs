//! `outpost check`: everything about a site file that would not work, without changing anything.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use config_text::{Position, counted};
use daemon::config::{Problem, Problems};
use daemon::{disk, exit, outln};

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
}

/// The end of `--help`.
pub(crate) const NOTES: &str = "\
Prints a line for each problem, FILE:LINE:COLUMN: TEXT; a warning or a note says so. It finds,
among others:
  * unknown keys, with the nearest known one
  * addresses in use twice, outside the site's networks, or unusable
  * networks that overlap
  * names in use twice (nodes, etcd-N, name servers, [[publish]], records), or invalid
  * records that the zone's own parser refuses
  * ports on which two services listen
  * virtual IPs without an interface, without a node to hold them, or with the same router number
  * services that lack another service on the same node
  * upstreams that are the site itself, and time servers with names that no server resolves
  * an even number of masters, or no master
  * quotas of zero; mirrors without an upstream, with the site itself as upstream, or with a name
    that no server resolves
  * missing files: registry users (or passwords other than bcrypt's), credentials and authorities
    of mirrors

Examples:
  outpost check
  outpost check --strict /srv/sites/north/site.toml

Exit status:
  0   no problem (there may be warnings and notes)
  64  the command line is wrong
  78  there are problems";

/// Runs the verb.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let (lines, is_good) = look(&args.site, args.strict);
    for line in lines {
        outln!("{line}");
    }
    exit::code(if is_good { exit::OK } else { exit::CONFIG })
}

/// The lines about a site file, and whether it is good.
fn look(path: &Path, strict: bool) -> (Vec<String>, bool) {
    let document = match site_file::open(path) {
        Ok(document) => document,
        Err(problems) => return (lines(&problems, &[]), false),
    };
    let read = site_file::parse(&document);
    let base = path.parent().unwrap_or_else(|| Path::new(""));
    let mut problems = read.site.as_ref().err().cloned().unwrap_or_default();
    for file in &read.named {
        problems.extend(named(base, file));
    }
    let has_warning = read
        .remarks
        .iter()
        .any(|remark| remark.kind == Kind::Warning);
    let mut said = lines(&problems, &read.remarks);
    match &read.site {
        Ok(site) if problems.0.is_empty() => {
            said.extend(site_pki::remarks(base, site));
            said.push(format!("{}: {}", path.display(), summary(site)));
            (said, !(strict && has_warning))
        }
        _ => (said, false),
    }
}

/// Problems, then remarks, each in the order of the file.
fn lines(problems: &Problems, remarks: &[Remark]) -> Vec<String> {
    let place = |position: &Option<Position>| {
        position
            .as_ref()
            .map(|position| (position.line, position.column))
    };
    let mut problems: Vec<&Problem> = problems.0.iter().collect();
    problems.sort_by_key(|problem| place(&problem.position));
    let mut remarks: Vec<&Remark> = remarks.iter().collect();
    remarks.sort_by_key(|remark| place(&remark.problem.position));
    let problems = problems.into_iter().map(ToString::to_string);
    problems
        .chain(remarks.into_iter().map(ToString::to_string))
        .collect()
}

/// The problems of a file that the site file names.
fn named(base: &Path, named: &Named) -> Vec<Problem> {
    let path = base.join(&named.path);
    let octets = match disk::read(&path) {
        Ok(octets) => octets,
        Err(error) => {
            let message = format!("cannot read {}, {}: {error}", path.display(), named.what);
            return vec![Problem::at(named.position.clone(), message)];
        }
    };
    let text = String::from_utf8_lossy(&octets);
    let found = match named.holds {
        Holds::Users => users(&text),
        Holds::Credentials => credentials(&text),
        Holds::Certificates => certificates(&octets),
    };
    let problem = |(line, message): (usize, &str)| match line {
        // A problem of the whole file: report it at the place that names the file.
        0 => Problem::at(
            named.position.clone(),
            format!("{} {message}", path.display()),
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

/// The problems of the registry's users, by line; 0 is the whole file.
fn users(text: &str) -> Vec<(usize, &'static str)> {
    let lines = (1..).zip(text.lines());
    let users: Vec<(usize, &str)> = lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .collect();
    if users.is_empty() {
        return vec![(0, "names no user: no client could push")];
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
                "no user with a bcrypt password, as `htpasswd -B` writes it",
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
        (true, Some(_)) => vec![(2, "there is more than one line of user:password")],
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
