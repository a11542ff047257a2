//! The verbs `import`, `export`, `push` and `pull`.
//!
//! `import` and `export` work on the store itself and want it for themselves: while the registry runs,
//! images come in with `import --to` and go out with `pull`, as for any other client.

mod listing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use config_text::counted;
use daemon::config::Problems as ConfigProblems;
use daemon::run::StartError;
use daemon::succession::{Lock, LockError};
use daemon::{errln, exit, outln};
use oci::manifest::Sparse;
use oci::reference::Reference;
use registry_archive::catalogue::{Catalogue, Problems, Unreadable};
use registry_archive::format::Format;
use registry_archive::name::{Host, ImageName, Naming, Selection};
use registry_client::ClientError;
use registry_client::Registry;
use registry_client::connection::{Pool, TrustError};
use registry_client::credentials::{AuthFile, AuthFileError, Credentials};
use registry_client::endpoint::{EndpointError, Remote, Scheme};
use registry_facts::name::NodeName;
use registry_store::disk::{Disk, RealDisk};
use registry_store::{Settings, Store, StoreError};
use registry_transfer::archive::{Archive, ArchiveError};
use registry_transfer::copy::Copy;
use registry_transfer::items::Item;
use registry_transfer::origin::Origin;
use registry_transfer::progress;
use registry_transfer::progress::Progress;
use registry_transfer::report::{Report, shown};
use registry_transfer::sink::{Layout, Sink};
use registry_transfer::tree::{Tree, TreeError};
use registry_transfer::{TransferError, items};
use tokio::time::Instant;

use self::listing::{items_of_registry, items_of_store};

use crate::args::transfer::{
    ClientArgs, ExportArgs, ExportForm, ImportArgs, NameArgs, PullArgs, PushArgs, StoreArgs,
    SelectionArgs,
};
use crate::config::Config;
use crate::service;

/// Repositories or tags asked of the store at once.
const PAGE: usize = 1_000;

/// Why a verb did nothing, or did not do all of it.
#[derive(Debug, thiserror::Error)]
enum VerbError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("{0}: {1}")]
    Unreadable(String, #[source] Unreadable),
    #[error("{0}")]
    Config(ConfigProblems),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("{0}: {1}")]
    Endpoint(String, #[source] EndpointError),
    #[error("{0} is no name of a repository")]
    Prefix(String),
    #[error("cannot read {path}", path = .0.display())]
    Secret(PathBuf, #[source] std::io::Error),
    #[error("{path} is no authentication file", path = .0.display())]
    AuthFile(PathBuf, #[source] AuthFileError),
    #[error("{path} has no line NAME:PASSWORD", path = .0.display())]
    NoCredentials(PathBuf),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the registry of this root runs: use `import --to` or `pull`, or stop it first")]
    Held(#[source] LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error("the archive has {0} images; --as names one, which --only and --tag can choose")]
    Several(usize),
    #[error("nothing of that is there")]
    Nothing,
    #[error("the runtime does not start")]
    Runtime(#[source] std::io::Error),
}

impl VerbError {
    fn code(&self) -> u8 {
        match self {
            Self::Archive(ArchiveError::Read { source, .. }) => match source.kind() {
                std::io::ErrorKind::NotFound => exit::USAGE,
                _ => exit::code_of_io(source),
            },
            Self::Archive(_)
            | Self::Unreadable(..)
            | Self::AuthFile(..)
            | Self::NoCredentials(_)
            | Self::Several(_)
            | Self::Nothing => exit::DATA,
            Self::Config(_) => exit::CONFIG,
            Self::Endpoint(..) | Self::Prefix(_) => exit::USAGE,
            Self::Start(error) => error.code,
            Self::Secret(_, source) | Self::Runtime(source) => exit::code_of_io(source),
            Self::Held(LockError::Io { source, .. }) => exit::code_of_io(source),
            Self::Held(LockError::Held { .. }) | Self::Client(_) => exit::UNAVAILABLE,
            Self::Trust(_) | Self::Store(_) | Self::Transfer(_) => exit::SOFTWARE,
            Self::Tree(TreeError::Write { source, .. }) => exit::code_of_io(source),
            Self::Tree(_) => exit::SOFTWARE,
        }
    }
}

/// The result of a verb.
enum Done {
    /// Said what there is.
    Listed {
        /// Whether all of it can be copied.
        is_whole: bool,
    },
    /// Copied what there is.
    Copied(Report),
}

/// `import`.
#[must_use]
pub(super) fn import(args: &ImportArgs) -> ExitCode {
    run(import_all(args))
}

/// `export`.
#[must_use]
pub(super) fn export(args: &ExportArgs) -> ExitCode {
    run(export_all(args))
}

/// `push`.
#[must_use]
pub(super) fn push(args: &PushArgs) -> ExitCode {
    run(push_all(args))
}

/// `pull`.
#[must_use]
pub(super) fn pull(args: &PullArgs) -> ExitCode {
    run(pull_all(args))
}

fn run(verb: impl Future<Output = Result<Done, VerbError>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(verb),
        Err(error) => Err(VerbError::Runtime(error)),
    };
    match done {
        Ok(Done::Listed { is_whole: true }) => exit::code(exit::OK),
        Ok(Done::Listed { is_whole: false }) => exit::code(exit::DATA),
        Ok(Done::Copied(report)) => {
            // Problems go to standard error, so that the last line of the output is the sum.
            let text = report.to_string();
            let mut lines: Vec<&str> = text.lines().collect();
            let sum = lines.pop().unwrap_or_default();
            for line in lines {
                errln!("{line}");
            }
            outln!("{sum}");
            exit::code(match (report.is_whole(), report.is_stopped) {
                (true, _) => exit::OK,
                (false, true) => exit::SOFTWARE,
                (false, false) => exit::DATA,
            })
        }
        Err(error) => {
            exit::report(&error);
            exit::code(error.code())
        }
    }
}

//--- In

async fn import_all(args: &ImportArgs) -> Result<Done, VerbError> {
    let naming = naming(&args.names)?;
    let (archive, catalogue) = open(&args.paths, args.format)?;
    let taken = Taken::new(archive, catalogue, &naming, &args.which)?;
    if args.list {
        taken.list();
        return Ok(Done::Listed {
            is_whole: taken.problems.is_empty(),
        });
    }
    match &args.to {
        Some(to) => {
            let remote = remote(to)?;
            let sink = Sink::registry(registry(&args.client, &remote)?);
            taken.copy(sink, &args.which).await.map(Done::Copied)
        }
        None => {
            let store = open_store(&args.store).await?;
            let report = taken
                .copy(Sink::Store(store.store.clone()), &args.which)
                .await;
            store.close().await;
            report.map(Done::Copied)
        }
    }
}

async fn push_all(args: &PushArgs) -> Result<Done, VerbError> {
    let remote = remote(&args.to)?;
    let mut naming = Naming::default();
    match &remote.reference {
        Some(Reference::Tag(tag)) => {
            naming.exactly = Some(ImageName {
                repository: remote.repository.clone(),
                tag: Some(tag.clone()),
                ..ImageName::default()
            });
        }
        _ => naming.prefix.clone_from(&remote.repository),
    }
    let (archive, catalogue) = open(std::slice::from_ref(&args.path), None)?;
    let taken = Taken::new(archive, catalogue, &naming, &args.which)?;
    let sink = Sink::registry(registry(&args.client, &remote)?);
    taken.copy(sink, &args.which).await.map(Done::Copied)
}

fn open(paths: &[PathBuf], format: Option<Format>) -> Result<(Archive, Catalogue), VerbError> {
    let archive = Archive::open(paths)?;
    let shown = paths.first().map(|path| path.display().to_string());
    let unreadable = |error| VerbError::Unreadable(shown.clone().unwrap_or_default(), error);
    let format = format.or_else(|| Format::detect(&archive));
    let format = format.ok_or(Unreadable::Unknown).map_err(unreadable)?;
    let catalogue = format.read(&archive, archive.title()).map_err(unreadable)?;
    Ok((archive, catalogue))
}

/// An archive and what is wanted of it.
struct Taken {
    archive: Archive,
    catalogue: Catalogue,
    items: Vec<Item>,
    problems: Problems,
}

impl Taken {
    fn new(
        mut archive: Archive,
        mut catalogue: Catalogue,
        naming: &Naming,
        which: &SelectionArgs,
    ) -> Result<Self, VerbError> {
        let mut problems = std::mem::take(&mut archive.problems);
        problems.extend(std::mem::take(&mut catalogue.problems));
        let items = items::of_catalogue(&catalogue, naming, &selection(which), &mut problems);
        if items.is_empty() && problems.is_empty() {
            return Err(VerbError::Nothing);
        }
        let differs = |pair: &[Item]| matches!(pair, [one, two] if one.digest != two.digest);
        if naming.exactly.is_some() && items.windows(2).any(differs) {
            return Err(VerbError::Several(items.len()));
        }
        Ok(Self {
            archive,
            catalogue,
            items,
            problems,
        })
    }

    fn list(&self) {
        for item in &self.items {
            let reference = match &item.tag {
                Some(tag) => format!(":{}", tag.as_str()),
                None => String::new(),
            };
            outln!("{}{reference} {}", item.to.as_str(), item.digest);
        }
        for problem in self.problems.iter() {
            errln!(
                "problem: {}: {}",
                shown(&problem.entry),
                shown(&problem.what)
            );
        }
        errln!("{}", counted(self.items.len(), "image"));
    }

    async fn copy(self, sink: Sink, which: &SelectionArgs) -> Result<Report, VerbError> {
        let n_left = self.catalogue.n_left;
        let origin = Origin::Archive(Arc::new(self.archive), Arc::new(self.catalogue));
        let mut report = copy(origin, sink, self.items, which).await?;
        report.n_left = n_left;
        let mut problems = self.problems;
        problems.extend(std::mem::take(&mut report.problems));
        report.problems = problems;
        Ok(report)
    }
}

async fn copy(
    origin: Origin,
    sink: Sink,
    items: Vec<Item>,
    which: &SelectionArgs,
) -> Result<Report, VerbError> {
    let progress = Arc::new(Progress::default());
    let shown = progress::show(&progress);
    let begun = Instant::now();
    let sparse = match which.sparse {
        true => Sparse::Indexes,
        false => Sparse::Refused,
    };
    let report = Copy::new(origin, sink, sparse, progress).run(items).await;
    shown.stop();
    let mut report = report?;
    report.took = begun.elapsed();
    Ok(report)
}

//--- Out

async fn export_all(args: &ExportArgs) -> Result<Done, VerbError> {
    let store = open_store(&args.store).await?;
    let exported = async {
        let items = items_of_store(&store.store, &selection(&args.which)).await?;
        if items.is_empty() {
            return Err(VerbError::Nothing);
        }
        let sink = tree(&args.path, args.format)?;
        copy(Origin::Store(store.store.clone()), sink, items, &args.which).await
    };
    let report = exported.await;
    store.close().await;
    report.map(Done::Copied)
}

async fn pull_all(args: &PullArgs) -> Result<Done, VerbError> {
    let mut whole: Option<Report> = None;
    let remotes = args
        .from
        .iter()
        .map(|from| remote(from))
        .collect::<Result<Vec<_>, _>>()?;
    // One archive of several registries is one copy after the other into the same directory, and all of
    // one registry at once.
    let mut by_registry: Vec<(Remote, Vec<Remote>)> = Vec::new();
    for remote in remotes {
        let same = by_registry
            .iter_mut()
            .find(|(first, _)| first.endpoint == remote.endpoint);
        match same {
            Some((_, all)) => all.push(remote),
            None => by_registry.push((remote.clone(), vec![remote])),
        }
    }
    for (first, remotes) in by_registry {
        let registry = registry(&args.client, &first)?;
        let mut problems = Problems::default();
        let mut items = Vec::new();
        for remote in remotes {
            let listed = items_of_registry(&registry, &remote, &selection(&args.which)).await?;
            for (name, item) in listed {
                match item {
                    Some(item) => items.push(item),
                    None => problems.add(name, "the registry has none"),
                }
            }
        }
        let sink = tree(&args.path, args.format)?;
        let mut report = copy(Origin::Registry(registry), sink, items, &args.which).await?;
        problems.extend(std::mem::take(&mut report.problems));
        report.problems = problems;
        whole = Some(match whole {
            Some(before) => before.and(report),
            None => report,
        });
    }
    Ok(Done::Copied(whole.unwrap_or_default()))
}

fn tree(path: &Path, form: ExportForm) -> Result<Sink, VerbError> {
    let layout = match form {
        ExportForm::OciLayout => Layout::Oci,
        ExportForm::Distribution => Layout::Distribution,
    };
    let is_tar = path.extension().is_some_and(|extension| extension == "tar");
    let tree = match is_tar {
        true => Tree::tar(path)?,
        false => Tree::directory(path)?,
    };
    Ok(Sink::tree(tree, layout)?)
}

/// The registry that the arguments name.
fn remote(text: &str) -> Result<Remote, VerbError> {
    Remote::parse(text, Scheme::Https).map_err(|error| VerbError::Endpoint(text.to_owned(), error))
}

//--- Arguments

fn naming(args: &NameArgs) -> Result<Naming, VerbError> {
    let prefix = args.repository.as_deref();
    let prefix = prefix.map(|prefix| {
        prefix
            .parse()
            .map_err(|_| VerbError::Prefix(prefix.to_owned()))
    });
    Ok(Naming {
        prefix: prefix.transpose()?,
        host: match args.keep_host {
            true => Host::Kept,
            false => Host::Left,
        },
        exactly: args.exactly.clone(),
    })
}

fn selection(args: &SelectionArgs) -> Selection {
    Selection {
        repositories: args.only.clone(),
        tags: args.tags.clone(),
    }
}

fn registry(args: &ClientArgs, remote: &Remote) -> Result<Registry, VerbError> {
    let pool = Pool::new(args.ca.as_deref())?;
    let known = known(args, remote)?;
    Ok(Registry::new(pool, remote.endpoint.clone(), known))
}

fn known(args: &ClientArgs, remote: &Remote) -> Result<AuthFile, VerbError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| VerbError::Secret(path, error)
    };
    if let Some(path) = &args.credentials {
        let text = std::fs::read_to_string(path).map_err(unreadable(path))?;
        let credentials = Credentials::parse(text.trim_end_matches(['\r', '\n']));
        let credentials = credentials.ok_or_else(|| VerbError::NoCredentials(path.clone()))?;
        return Ok(AuthFile::of(&remote.endpoint, credentials));
    }
    let path = match &args.authfile {
        Some(path) => path.clone(),
        None => match usual_authfile() {
            Some(path) => path,
            None => return Ok(AuthFile::default()),
        },
    };
    let octets = std::fs::read(&path).map_err(unreadable(&path))?;
    AuthFile::parse(&octets).map_err(|error| VerbError::AuthFile(path, error))
}

/// The first that is there of podman's, skopeo's and docker's (containers-auth.json).
fn usual_authfile() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("REGISTRY_AUTH_FILE") {
        return Some(path.into());
    }
    let below = |variable: &str, path: &str| {
        let directory = std::env::var_os(variable)?;
        Some(PathBuf::from(directory).join(path))
    };
    let places = [
        below("XDG_RUNTIME_DIR", "containers/auth.json"),
        below("HOME", ".config/containers/auth.json"),
        below("HOME", ".docker/config.json"),
    ];
    places.into_iter().flatten().find(|path| path.is_file())
}

//--- The store

/// The store, opened exclusively while this lives.
struct Opened {
    store: Store,
    _lock: Lock,
}

impl Opened {
    async fn close(self) {
        self.store.close().await;
    }
}

async fn open_store(args: &StoreArgs) -> Result<Opened, VerbError> {
    let document = daemon::config::read(&args.config);
    let config = document.and_then(|document| Config::from_document(&document));
    let mut disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let settings = match (&args.root, config) {
        (root, Ok(mut config)) => {
            if let Some(root) = root {
                config.file.root.clone_from(root);
            }
            disk = service::disk(&config)?;
            service::store_settings(&config)
        }
        // A root that is named needs no configuration, unless one is named too.
        (Some(root), Err(_)) if !args.config.exists() => {
            let node: NodeName = service::ALONE.parse().expect("it is a name");
            Settings::new(root.clone(), node)
        }
        (_, Err(problems)) => return Err(VerbError::Config(problems)),
    };
    let lock = Lock::take(&settings.root).map_err(VerbError::Held)?;
    let (store, _) = Store::open(settings, disk).await?;
    Ok(Opened { store, _lock: lock })
}
