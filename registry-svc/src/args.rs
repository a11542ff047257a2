//! The command line.

pub mod transfer;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use daemon::args::{AdminArgs, ServeArgs, StatusArgs};
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_facts::name::NodeName;

use crate::args::transfer::{ExportArgs, ImportArgs, PullArgs, PushArgs};

/// The configuration that is read when none is named.
pub const DEFAULT_CONFIG: &str = "/etc/outpost/registry-svc/registry-svc.toml";

/// OCI registry that keeps one content on every node
///
/// Serves images from this node's own disk, and gives nothing up that it has acknowledged. Several
/// nodes hold the same content without a shared disk, and any of them takes any request.
///
/// Exit codes: 0 done, 64 usage, 65 a file that cannot be understood, 69 not there, 70 failure, 77 no
/// permission, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "registry-svc", version = daemon::version!(), max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve in the foreground until SIGTERM
    ///
    /// SIGHUP reads the configuration again; a configuration with a problem changes nothing.
    /// Sockets that systemd passes by the names `registry` and `cluster` replace those that the
    /// configuration would bind. When a registry-svc serves them already, the new process asks it
    /// to finish and continues where it stopped: clients that connect meanwhile wait for a moment.
    Serve(ServeArgs<ConfigArgs>),
    /// Check the configuration and print all problems
    ///
    /// Prints each problem as `file:line:column: message`, after the warnings. Also reads the files
    /// that the configuration names: certificates, users, keys. Exits with 0 when there is no
    /// problem, and with 78 otherwise. Changes nothing.
    Check(ConfigArgs),
    /// Ask the running registry how it is doing
    Status(DaemonArgs),
    /// List repositories
    Ls(InspectArgs),
    /// Show how much each repository holds, the largest first
    Du(InspectArgs),
    /// List the tags of a repository
    Tags {
        /// The repository
        #[arg(value_name = "REPOSITORY")]
        repository: RepositoryName,
        /// The daemon or the store.
        #[command(flatten)]
        look: InspectArgs,
    },
    /// Show a manifest, what it refers to and what refers to it
    Inspect {
        /// REPOSITORY:TAG or REPOSITORY@DIGEST; the tag is `latest` unless given
        #[arg(value_name = "REPOSITORY[:TAG|@DIGEST]")]
        image: ImageArg,
        /// The daemon or the store.
        #[command(flatten)]
        look: InspectArgs,
    },
    /// Bring images in from an archive or a directory
    ///
    /// OCI layouts, archives of docker save and podman save, directories of skopeo and of `oc image
    /// mirror`, archives of oc-mirror, data directories of docker-registry. What is here is not copied
    /// again, so an import that was stopped is gone on with by asking for the same. Exits with 0 when
    /// all of it is here, and with 65 when something is wrong with the archive.
    Import(Box<ImportArgs>),
    /// Write images to an OCI layout, or to a data directory of docker-registry
    Export(ExportArgs),
    /// Push images of an archive or a directory to a registry
    Push(PushArgs),
    /// Pull images of a registry into a directory or an archive
    Pull(PullArgs),
    /// Say what this node and another one do not have alike
    ///
    /// Prints a line for each difference and exits with 1 when there is any; prints nothing and
    /// exits with 0 when both hold the same. Needs a running registry of a cluster.
    Diff {
        /// The other node, as the configuration names it
        #[arg(value_name = "NODE")]
        node: String,
        /// The running daemon.
        #[command(flatten)]
        ask: DaemonArgs,
    },
    /// List the nodes of the site, take one in, or forget one
    #[command(subcommand)]
    Node(NodeVerb),
    /// Take away what no manifest refers to
    ///
    /// The running daemon collects the garbage while clients push and pull. Without a daemon the
    /// verb does it itself, except on the store of a node of a cluster: only the daemon hears from
    /// the other nodes. Removed content waits in the trash for a second grace, from which a push or
    /// a HEAD restores it; a later run deletes it. Manifests without a tag stay unless the
    /// configuration says otherwise (`untagged` of `[sweep]`).
    Gc {
        /// Say what would be taken away, and change nothing
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// The daemon or the store.
        #[command(flatten)]
        look: InspectArgs,
    },
    /// Read every blob and look at every manifest
    ///
    /// Moves a blob whose bytes do not match its digest to the quarantine and fetches it again from
    /// another node if there is one. Exits with 0 when everything is whole or was repaired, and
    /// with 65 after printing the damaged blobs.
    Verify(InspectArgs),
    /// As verify, at the rate of the configuration (`rate` of `[scrub]`)
    Scrub(InspectArgs),
    /// List images that lost their names with a damaged journal, and name them
    ///
    /// registry-svc keeps its journal twice. If both copies are damaged at the same place, names are lost, and
    /// their images stay on the disk until `--done`. Without arguments the verb prints each manifest that no
    /// repository has, with the names that the damaged journal may have had for it. With a digest and a name it
    /// gives the manifest and all its content to that repository. Nodes of a cluster get lost names from each
    /// other.
    Recover(Box<RecoverArgs>),
    /// Print a line of a file of users, for a password that is read from standard input
    Password {
        /// The user.
        #[arg(value_name = "USER")]
        user: String,
        /// Cost of a verification: each step doubles it
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(4..=15))]
        cost: u32,
    },
}

/// The verbs about the nodes of the site.
#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// List the other nodes, also those that were forgotten, and which of them deletion waits for
    List(DaemonArgs),
    /// Take a node in
    ///
    /// All nodes follow it from then on, without a restart. A node that no configuration names needs its address;
    /// write it into `cluster.peers` of the configurations too, so that a node that begins empty finds it.
    Add {
        /// The node, as its certificate names it
        #[arg(value_name = "NODE")]
        node: NodeName,
        /// The address at which the other nodes find it
        #[arg(value_name = "HOST:PORT")]
        address: Option<String>,
        /// The running daemon.
        #[command(flatten)]
        ask: DaemonArgs,
    },
    /// Forget a node that is gone
    ///
    /// Nothing waits for it any more: content that is not needed is deleted, and a majority is one of the other nodes.
    /// Should it come back, it sets its journal aside and begins again, because it could bring back deleted
    /// content; images that only it has keep their content and lose their names, which `registry-svc recover` lists there.
    /// A node that has been away for 30 days is forgotten without this.
    Forget {
        /// The node
        #[arg(value_name = "NODE")]
        node: NodeName,
        /// Also while no more than half of the known nodes are connected
        #[arg(long)]
        force: bool,
        /// The running daemon.
        #[command(flatten)]
        ask: DaemonArgs,
    },
}

/// The configuration file and its overrides.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`)
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,

    #[command(flatten)]
    pub admin: AdminArgs,

    /// Root directory of the store; wins over the configuration
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// The running daemon to query.
#[derive(Clone, Debug, Default, Args)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub status: StatusArgs,

    /// Its configuration file, which says where its admin listener is
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// The source of an answer: the running daemon, else the disk.
#[derive(Clone, Debug, Default, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub status: StatusArgs,

    /// Root directory of the store, for when no daemon runs; the configuration's unless given
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Configuration file that says where
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// The arguments of `recover`.
#[derive(Clone, Debug, Default, Args)]
pub struct RecoverArgs {
    /// The digest of a manifest to name
    #[arg(value_name = "DIGEST", requires = "image")]
    pub digest: Option<Digest>,

    /// Its new name
    #[arg(value_name = "REPOSITORY[:TAG]")]
    pub image: Option<ImageArg>,

    /// Give every whole image the names that are printed for it
    #[arg(long, conflicts_with_all = ["digest", "done"])]
    pub all: bool,

    /// Remove the damaged journal: the sweep then takes away what has no name
    #[arg(long, conflicts_with = "digest")]
    pub done: bool,

    /// The daemon or the store.
    #[command(flatten)]
    pub look: InspectArgs,
}

/// A manifest of a repository, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageArg {
    /// The repository.
    pub repository: RepositoryName,
    /// The tag or the digest.
    pub reference: Reference,
}

impl std::str::FromStr for ImageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (repository, reference) = match text.split_once('@') {
            Some((repository, digest)) => {
                let digest = digest.parse().map_err(|error| format!("{error}"))?;
                (repository, Reference::Digest(digest))
            }
            None => {
                let (repository, tag) = text.rsplit_once(':').unwrap_or((text, "latest"));
                let tag = tag.parse().map_err(|error| format!("{error}"))?;
                (repository, Reference::Tag(tag))
            }
        };
        Ok(Self {
            repository: repository.parse().map_err(|error| format!("{error}"))?,
            reference,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn images_are_read_as_people_write_them() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, repository, reference) in [
            ("a/b", "a/b", "latest"),
            ("a/b:v1", "a/b", "v1"),
            (&*format!("a@{digest}"), "a", &*digest),
        ] {
            let image: ImageArg = text.parse().unwrap();
            assert_eq!(image.repository.as_str(), repository);
            assert_eq!(image.reference.to_string(), reference);
        }
        for wrong in ["", "A", "a:", "a@b", "a:b/c"] {
            assert!(wrong.parse::<ImageArg>().is_err(), "{wrong}");
        }
    }
}
