//! `outpost init`: a site file from flags, from OpenShift's own files, and from a few answers.
//!
//! ```text
//! flags ──────────┐
//! --from ─────────┼─► Draft ─► questions, at a terminal ─► site.toml ─► read as `check` reads it ─► written
//! --from-cluster ─┘
//! ```
//!
//! `init` writes only a site file that `outpost check` accepts.

mod cluster;
mod draft;
mod openshift;
mod prompt;
mod values;
mod yaml;

use std::io::{self, IsTerminal as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use config_text::MAX_PROBLEMS;
use daemon::config::{Document, Problems};
use daemon::{errln, exit, outln};
use ipnet::IpNet;

use self::draft::{Draft, DraftNode};
use self::prompt::Asker;
use durable::Rights;
use site::Role;

/// The release of OpenShift where nothing says another one.
const USUAL_RELEASE: &str = "4.18";

/// Arguments of `init`.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// Take over what this install-config.yaml or agent-config.yaml says; may be repeated
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,

    /// The cluster.
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Directory for site.toml
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    output: PathBuf,

    /// Write over a site.toml that is there
    #[arg(long)]
    force: bool,

    /// Ask nothing, even at a terminal
    #[arg(long, conflicts_with = "ask")]
    yes: bool,

    /// Ask even if standard input is no terminal
    #[arg(long)]
    ask: bool,

    /// The site.
    #[command(
        flatten,
        next_help_heading = "The site (init does not ask for the value of a flag)"
    )]
    given: Given,
}

/// The cluster that the site is learned from.
#[derive(Clone, Debug, Args)]
struct ClusterArgs {
    /// Take over what a running cluster says of itself
    #[arg(long)]
    from_cluster: bool,

    /// The kubeconfig for --from-cluster; its current context counts [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "from_cluster")]
    kubeconfig: Option<PathBuf>,

    /// Read these manifests (*.yaml, *.yml, *.json) as the cluster, and ask no API
    #[arg(
        long,
        value_name = "DIR",
        requires = "from_cluster",
        conflicts_with = "kubeconfig"
    )]
    manifests: Option<PathBuf>,
}

/// The values of flags.
#[derive(Clone, Debug, Args)]
struct Given {
    /// Name of the cluster
    #[arg(long, value_parser = values::label)]
    name: Option<String>,

    /// Domain of the site
    #[arg(long, value_parser = values::domain)]
    domain: Option<String>,

    /// Network of the nodes; may be repeated
    #[arg(long, value_name = "CIDR", value_parser = values::network)]
    network: Vec<IpNet>,

    /// A master and its address, or one of each family; may be repeated
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = values::node)]
    master: Vec<DraftNode>,

    /// A worker and its address; may be repeated
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = values::node)]
    worker: Vec<DraftNode>,

    /// Virtual IP of the API; once for each family
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    api_vip: Vec<IpAddr>,

    /// Virtual IP of the ingress; once for each family
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    ingress_vip: Vec<IpAddr>,

    /// Interface of virtual IPs
    #[arg(long, value_parser = values::interface)]
    interface: Option<String>,

    /// A server that resolves names outside the site; may be repeated
    #[arg(long, value_name = "IP[:PORT]", value_parser = values::upstream)]
    upstream: Vec<String>,

    /// An NTP server outside the site; may be repeated
    #[arg(long, value_name = "HOST", value_parser = values::host)]
    time_server: Vec<String>,

    /// A name of the registry, below the domain; may be repeated
    #[arg(long, value_name = "NAME", value_parser = values::label)]
    registry: Vec<String>,

    /// The release of OpenShift, or `none` [default: 4.18]
    #[arg(long, value_name = "RELEASE", value_parser = values::release)]
    openshift: Option<String>,
}

/// The end of `--help`.
pub const NOTES: &str = "\
At a terminal, `init` asks for the values that neither a flag nor a file gives, and offers a default
for each. Without a terminal it asks nothing, and lists the missing values.

From install-config.yaml: metadata.name and baseDomain, machineNetwork, clusterNetwork, API and
ingress VIPs of baremetal, vsphere, nutanix and openstack (the old singular keys too), hosts,
replicas, NTP servers, and mirrors below the domain as names of the registry. From agent-
config.yaml: hosts with their roles and the addresses, name servers and gateways of their
networkConfig, rendezvousIP, additionalNTPSources. Keys match without case, as in OpenShift's
installer. Every other key becomes a comment in the file, `# not carried: …`, without its value:
`init` repeats no passwords and keys.

From a running cluster (--from-cluster): nodes with their roles and addresses, networks of nodes,
pods and Services, the domain of Services; with OpenShift the release, the base domain, virtual IPs,
DNS servers outside, and the settings of its installer; with kubeadm those of kubeadm. The pools
of Services are only proposed, as comments in [cluster]. Each thing that no object says is a line
on standard error and a comment in the file, `# not learned: …`. init only reads, as the account of
the kubeconfig, and takes no credentials over. It runs no `exec` command of a kubeconfig.

Examples:
  outpost init
  outpost init --from install-config.yaml --from agent-config.yaml --output north
  outpost init --from-cluster --kubeconfig auth/kubeconfig --output north
  outpost init --name edge --domain edge.example.com --network 192.0.2.0/24 \\
      --master node-0=192.0.2.10 --openshift none

Exit status:
  0   site.toml is written
  64  the command line is wrong, something is missing, or there is a site.toml already
  65  a file cannot be understood, or what was said makes no site that works
  69  the cluster cannot be asked
  70  the file cannot be written";

/// Runs the verb.
pub fn run(args: &InitArgs) -> ExitCode {
    match init(args) {
        Ok(path) => {
            let path = path.display();
            outln!(
                "wrote {path}; `outpost check {path}` says what there is to know, `outpost pki make {path}` makes certificates"
            );
            exit::code(exit::OK)
        }
        Err((code, text)) => {
            errln!("{text}");
            exit::code(code)
        }
    }
}

/// An exit code, and what is printed.
type Failure = (u8, String);

fn init(args: &InitArgs) -> Result<PathBuf, Failure> {
    let path = args.output.join(site_file::DEFAULT);
    if path.exists() && !args.force {
        let text = format!(
            "{} is there already; --force writes over it",
            path.display()
        );
        return Err((exit::USAGE, text));
    }
    let mut draft = args.given.draft();
    for file in ordered(&args.from)? {
        openshift::import(&file, &mut draft).map_err(|problems| data(&problems))?;
    }
    if args.cluster.from_cluster {
        let objects = objects(&args.cluster)?;
        cluster::learn(&objects, &mut draft);
        for note in &draft.notes {
            errln!("{note}");
        }
    }
    let is_asked = args.ask || !args.yes && io::stdin().is_terminal();
    if is_asked {
        let mut asker = Asker::new(io::stdin().lock(), io::stderr());
        asker.fill(&mut draft).map_err(|_| {
            let text = "no more answers; nothing was written".to_owned();
            (exit::USAGE, text)
        })?;
    }
    draft.settle();
    draft
        .openshift
        .get_or_insert_with(|| USUAL_RELEASE.to_owned());
    let missing = draft.missing();
    if !missing.is_empty() {
        let text = format!("missing: {}", missing.join(" "));
        return Err((exit::USAGE, text));
    }
    let text = draft.to_string();
    let document = Document::inline(path.as_path(), text.as_str());
    let read = site_file::parse(&document);
    if let Err(problems) = read.site {
        return Err(data(&refused(&document, problems)));
    }
    for remark in &read.remarks {
        errln!("{remark}");
    }
    write(&path, &text)?;
    Ok(path)
}

/// The objects of the cluster.
fn objects(args: &ClusterArgs) -> Result<cluster::Objects, Failure> {
    let read = match (&args.manifests, &args.kubeconfig) {
        (Some(directory), _) => cluster::source::manifests(directory),
        (None, Some(kubeconfig)) => cluster::source::api(kubeconfig),
        (None, None) => {
            let Some(kubeconfig) = cluster::source::usual_kubeconfig() else {
                let text = "there is no kubeconfig; --kubeconfig FILE gives it".to_owned();
                return Err((exit::USAGE, text));
            };
            cluster::source::api(&kubeconfig)
        }
    };
    read.map_err(|error| (error.code(), exit::chain(&error)))
}

impl Given {
    fn draft(&self) -> Draft {
        let of_role = |nodes: &[DraftNode], role| {
            let with_role = |node: &DraftNode| DraftNode {
                role: Some(role),
                ..node.clone()
            };
            nodes.iter().map(with_role).collect::<Vec<_>>()
        };
        let mut nodes = of_role(&self.master, Role::Master);
        nodes.extend(of_role(&self.worker, Role::Worker));
        Draft {
            name: self.name.clone(),
            domain: self.domain.clone(),
            networks: self.network.clone(),
            interface: self.interface.clone(),
            nodes,
            api_vips: self.api_vip.clone(),
            ingress_vips: self.ingress_vip.clone(),
            upstreams: self.upstream.clone(),
            time_servers: self.time_server.clone(),
            registry_names: self.registry.clone(),
            openshift: self.openshift.clone(),
            ..Draft::default()
        }
    }
}

/// The files of `--from`; those that say what the domain is come first, because others need it.
fn ordered(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let documents: Result<Vec<Document>, Problems> =
        paths.iter().map(daemon::config::read).collect();
    let mut documents = documents.map_err(|problems| data(&problems))?;
    documents.sort_by_key(|document| !document.text.contains("baseDomain"));
    Ok(documents)
}

fn data(problems: &Problems) -> Failure {
    (exit::DATA, problems.to_string())
}

/// Problems of a file that is not written, with the lines that they are about.
fn refused(document: &Document, problems: Problems) -> Problems {
    let lines: Vec<&str> = document.text.lines().collect();
    let with_line = |mut problem: config_text::Problem| {
        let position = problem.position.take();
        let line = position.and_then(|position| lines.get(position.line.checked_sub(1)?).copied());
        problem.message = match line {
            Some(line) => format!("{} ({})", problem.message, line.trim()),
            None => problem.message,
        };
        problem
    };
    problems
        .into_iter()
        .take(MAX_PROBLEMS)
        .map(with_line)
        .collect()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| (exit::SOFTWARE, format!("outpost: {error:#}"));
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| {
            failed(
                anyhow::Error::new(error).context(format!("cannot make {}", directory.display())),
            )
        })?;
    }
    durable::write(path, Rights::PUBLIC, text.as_bytes()).map_err(failed)
}

/// Reads octets as OpenShift's files: the site file that comes of them, if all that it lacks is said.
///
/// # Errors
///
/// Values that cannot be understood.
pub fn import_bytes(data: &[u8]) -> Result<String, Problems> {
    let mut draft = Draft::default();
    let text = String::from_utf8_lossy(data);
    openshift::import(&Document::inline("install-config.yaml", text), &mut draft)?;
    draft.settle();
    Ok(draft.to_string())
}

/// Reads octets as manifests of a cluster: the site file that comes of them, if all that it lacks is said.
///
/// # Errors
///
/// A text that is neither YAML nor JSON.
pub fn learn_bytes(data: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(data);
    let objects = cluster::Objects {
        values: cluster_objects::manifest::values(&text)?,
        ..cluster::Objects::default()
    };
    let mut draft = Draft::default();
    cluster::learn(&objects, &mut draft);
    draft.settle();
    Ok(draft.to_string())
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
