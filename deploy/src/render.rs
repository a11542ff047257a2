//! `outpost render`: writes the files of every node of a site.
//!
//! In this order: read the site and its secrets → render → look what there is → plan → show the
//! difference, or write. Nothing is written before everything that can be refused has been looked at.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use daemon::config::Problems;
use daemon::{clock, errln, exit, outln, print};

use site::secrets::Secrets;
use site::{Node, Site};
use site_render::config::{self, NodeFile, Output};
use site_render::tree::{Change, Entry, Manifest, Plan, Scope, Tree, plan};
use site_render::{rbac, target};

use crate::zone_serial;

/// Arguments of `render`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RenderArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// The form to render; may be repeated
    #[arg(long, value_name = "TARGET", default_value = "all")]
    pub(crate) target: Vec<Target>,

    /// Directory to write to; each target gets a directory in it
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Only the files of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,

    /// Show what would change, and change nothing; exit with 1 if anything would
    #[arg(long)]
    pub(crate) diff: bool,
}

/// The forms that can be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Target {
    /// Configurations, zones and certificates, as they lie on each node
    Configs,
    /// Quadlets and socket units for podman, for each node
    Quadlet,
    /// Plain systemd units, for hosts without quadlets or without podman
    Units,
    /// Ignition for each node: all of the above in one file
    Ignition,
    /// `MachineConfigs` of OpenShift, one for each role
    #[value(name = "machineconfig")]
    MachineConfig,
    /// Butane, the form of Ignition that people read
    Butane,
    /// The account of clusterd, a manifest to apply to the cluster
    Kubernetes,
    /// Patches and objects by which OpenShift gives its DNS and virtual IPs over to the site, and takes them back
    #[value(name = "openshift")]
    OpenShift,
    /// All of them
    All,
}

impl Target {
    /// Every single one.
    const EACH: [Self; 8] = [
        Self::Configs,
        Self::Quadlet,
        Self::Units,
        Self::Ignition,
        Self::MachineConfig,
        Self::Butane,
        Self::Kubernetes,
        Self::OpenShift,
    ];

    /// The directory that it is written to, also its name.
    fn directory(self) -> &'static str {
        match self {
            Self::Configs => "configs",
            Self::Quadlet => "quadlet",
            Self::Units => "units",
            Self::Ignition => "ignition",
            Self::MachineConfig => "machineconfig",
            Self::Butane => "butane",
            Self::Kubernetes => "kubernetes",
            Self::OpenShift => "openshift",
            Self::All => "all",
        }
    }
}

/// The end of `--help`.
pub(crate) const NOTES: &str = "\
Below the output directory there is one for each target: configs, quadlet and units have one for
each node, which is that node's root; ignition, machineconfig, butane, kubernetes and openshift have
files that are handed over as they are. Only a site with a [cluster] has kubernetes; only one with
OpenShift has openshift, and there the files dns-* only with a domain in [cluster], the files vip-*
only with virtual IPs of the API or the ingress. The same site file gives the same bytes, wherever
it is rendered.

A file that an earlier rendering wrote, and this one does not, is removed; .outpost-rendered in the
output directory names them. A file that no rendering wrote is never overwritten or removed. Files
with keys in them are the owner's alone, and --diff does not show them.

Examples:
  outpost render --output out
  outpost render --output out --diff
  outpost render site.toml --target ignition --node master-0 --output out

Exit status:
  0   rendered; with --diff: nothing would change
  1   with --diff: something would change
  64  the command line is wrong
  69  there is no such node, or a file is in the way that was not rendered
  70  the output directory cannot be written
  77  no permission
  78  there are problems in the site file, or a secret is missing";

/// Runs the verb.
pub(crate) fn run(args: &RenderArgs) -> ExitCode {
    match try_run(args) {
        Ok(code) => exit::code(code),
        Err(Failure::Site(problems)) => {
            for problem in &problems.0 {
                errln!("{problem}");
            }
            exit::code(exit::CONFIG)
        }
        Err(Failure::Other(error)) => {
            errln!("outpost: {error:#}");
            let io = error.downcast_ref::<io::Error>();
            exit::code(io.map_or(exit::UNAVAILABLE, exit::code_of_io))
        }
    }
}

/// Why nothing was rendered.
enum Failure {
    /// The site file, or what it names.
    Site(Problems),
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::Site(problems)
    }
}

fn try_run(args: &RenderArgs) -> Result<u8, Failure> {
    let mut site = site_file::read(&args.site)?;
    let home = args.site.parent().unwrap_or_else(|| Path::new(""));
    let serial = zone_serial::settle(home, &mut site, clock::since_1970().as_secs())?;
    let secrets = site_pki::load(home, &site)?;
    let nodes = nodes(&site, args.node.as_deref())?;
    let targets: BTreeSet<Target> = match args.target.contains(&Target::All) {
        true => Target::EACH.into(),
        false => args.target.iter().copied().collect(),
    };
    let scope = Scope {
        targets: targets
            .iter()
            .map(|target| target.directory().to_owned())
            .collect(),
        node: args.node.clone(),
    };
    let mut wanted = Tree::new();
    for target in &targets {
        wanted.extend(of_target(*target, &site, &nodes, &secrets));
    }
    let manifest = read_manifest(&args.output)?;
    let found = look(&args.output, wanted.keys().chain(manifest.paths()))?;
    let plan = plan(wanted, &found, &manifest, &scope).map_err(anyhow::Error::new)?;
    if args.diff {
        for change in &plan.changes {
            print::out(format_args!("{}", change.to_diff()));
        }
        return Ok(u8::from(!plan.changes.is_empty()));
    }
    // A number that was written is never used for other content.
    serial.keep()?;
    if let Some(oddity) = serial.oddity {
        errln!("warning: {oddity}");
    }
    write(&args.output, &plan)?;
    report(&args.output, &plan);
    Ok(exit::OK)
}

fn nodes<'a>(site: &'a Site, name: Option<&str>) -> anyhow::Result<Vec<&'a Node>> {
    let chosen = site
        .nodes
        .iter()
        .filter(|node| name.is_none_or(|name| node.name == name));
    let nodes: Vec<&Node> = chosen.collect();
    if let (Some(name), true) = (name, nodes.is_empty()) {
        let known: Vec<&str> = site.nodes.iter().map(|node| node.name.as_str()).collect();
        bail!("the site has no node {name}; it has {}", known.join(", "));
    }
    Ok(nodes)
}

//--- Render

/// The files of a target, below the output directory.
fn of_target(target: Target, site: &Site, nodes: &[&Node], secrets: &Secrets) -> Tree {
    let directory = Path::new(target.directory());
    let each = |files: fn(&Site, &Node, &Secrets) -> Vec<NodeFile>| {
        let of_node = |node: &&Node| {
            let root = directory.join(&node.name);
            let files = files(site, node, secrets);
            files.into_iter().map(move |file| below(&root, file))
        };
        nodes.iter().flat_map(of_node).collect()
    };
    let whole = |outputs: Vec<Output>| {
        let is_chosen = |output: &Output| match &output.node {
            Some(name) => nodes.iter().any(|node| node.name == *name),
            None => true,
        };
        let chosen = outputs.into_iter().filter(is_chosen);
        let entry = |output: Output| {
            let entry = Entry {
                mode: output.mode,
                contents: output.contents,
            };
            (directory.join(output.path), entry)
        };
        chosen.map(entry).collect()
    };
    match target {
        Target::Configs => each(config::node),
        Target::Quadlet => each(|site, node, _| target::quadlet(site, node)),
        Target::Units => each(|site, node, _| target::units(site, node)),
        Target::Ignition => whole(target::ignition(site, secrets)),
        Target::MachineConfig => whole(target::machineconfig(site, secrets)),
        Target::Butane => whole(target::butane(site, secrets)),
        Target::Kubernetes => whole(rbac::outputs(site)),
        Target::OpenShift => whole(target::openshift(site)),
        // The caller names each.
        Target::All => Tree::new(),
    }
}

/// A node's file below a directory that stands for the node's root.
fn below(root: &Path, file: NodeFile) -> (PathBuf, Entry) {
    let path = file.path.strip_prefix("/").unwrap_or(&file.path);
    let entry = Entry {
        mode: file.mode,
        contents: file.contents,
    };
    (root.join(path), entry)
}

//--- Look

fn read_manifest(output: &Path) -> anyhow::Result<Manifest> {
    let path = output.join(Manifest::NAME);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Manifest::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The files that there are, of those named.
fn look<'a>(output: &Path, paths: impl Iterator<Item = &'a PathBuf>) -> anyhow::Result<Tree> {
    let mut found = Tree::new();
    for path in paths {
        let full = output.join(path);
        let read = fs::symlink_metadata(&full).and_then(|metadata| {
            let mode = metadata.permissions().mode() & 0o7777;
            fs::read(&full).map(|contents| Entry { mode, contents })
        });
        match read {
            Ok(entry) => {
                found.insert(path.clone(), entry);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", full.display()));
            }
        }
    }
    Ok(found)
}

//--- Write

/// Does what is planned. The manifest comes first with everything old and new in it: a rendering
/// that is cut short leaves nothing behind that the next one does not know.
fn write(output: &Path, plan: &Plan) -> anyhow::Result<()> {
    fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    let manifest = |manifest: &Manifest| {
        put(
            output,
            Path::new(Manifest::NAME),
            0o644,
            manifest.to_text().as_bytes(),
        )
    };
    let removed = plan.changes.iter().filter(|change| change.after.is_none());
    manifest(
        &plan
            .manifest
            .with(removed.map(|change| change.path.clone())),
    )?;
    for change in &plan.changes {
        match &change.after {
            Some(entry) => put(output, &change.path, entry.mode, &entry.contents)?,
            None => remove(output, &change.path)?,
        }
    }
    manifest(&plan.manifest)
}

/// Puts a file in its place, whole: readers see the old one or the new one. It is not forced to the
/// disk; a file that a power cut takes can be rendered again.
fn put(output: &Path, path: &Path, mode: u32, contents: &[u8]) -> anyhow::Result<()> {
    let full = output.join(path);
    let name = full.file_name().unwrap_or_default().to_string_lossy();
    let new = full.with_file_name(format!(".{name}.new"));
    let written = || -> io::Result<()> {
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent)?;
        }
        // One that was cut short may have left it, with other permissions.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(PRIVATE)
            .open(&new)?;
        file.write_all(contents)?;
        // Not at the creation, where the umask takes away from it.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&new, &full)
    };
    written().with_context(|| format!("cannot write {}", full.display()))
}

/// Removes a file, and the directories that it leaves empty.
fn remove(output: &Path, path: &Path) -> anyhow::Result<()> {
    let full = output.join(path);
    fs::remove_file(&full).with_context(|| format!("cannot remove {}", full.display()))?;
    let parents = path.ancestors().skip(1);
    for parent in parents.take_while(|parent| !parent.as_os_str().is_empty()) {
        // One that is not empty stays, and with it all above it.
        if fs::remove_dir(output.join(parent)).is_err() {
            break;
        }
    }
    Ok(())
}

fn report(output: &Path, plan: &Plan) {
    let count = |word: &str| {
        plan.changes
            .iter()
            .filter(|change| change.word() == word)
            .count()
    };
    for change in &plan.changes {
        outln!("{:<8} {}", change.word(), shown(output, change));
    }
    let n_written = plan.changes.len() - count("removed");
    outln!(
        "{n_written} written, {} removed, {} as they were",
        count("removed"),
        plan.n_same
    );
}

fn shown(output: &Path, change: &Change) -> String {
    output.join(&change.path).display().to_string()
}

/// Until a file has its own permissions.
const PRIVATE: u32 = 0o600;
