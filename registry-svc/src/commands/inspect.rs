//! Verbs that only read: they query a running daemon, or open the store when there is none.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ::config::registry_svc::RegistrySvc;
use daemon::admin::{self, Place};
use daemon::run::{self, StartError};
use daemon::succession::{Lock, LockError};
use daemon::{errln, exit};
use registry_facts::name::NodeName;
use registry_store::disk::{Disk, RealDisk};
use registry_store::{Settings, Store, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::InspectArgs;
use crate::config::{Config, DEFAULT_ADMIN};
use crate::service;
use crate::views::{Looker, View, ViewError};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum InspectError {
    /// The daemon said no.
    #[error("{0}")]
    Refused(String),
    /// The response cannot be parsed.
    #[error("the daemon's answer cannot be understood")]
    Answer(#[source] serde_json::Error),
    /// The configuration cannot be read, and nothing else says where to look.
    #[error("no daemon answers at {admin}, and {problem}")]
    Nowhere {
        /// The queried address.
        admin: Place,
        /// Why there is no root.
        problem: String,
    },
    /// A daemon has the root, and does not answer.
    #[error("no daemon answers at {admin}")]
    Held {
        /// The queried address.
        admin: Place,
        /// The process that holds the root.
        #[source]
        source: LockError,
    },
    /// Nodes that the verb cannot hear may need what it would take away.
    #[error(
        "the store is one of several nodes that hold the same, which only a running registry-svc hears: \
         start it, and it does this"
    )]
    OfSeveral,
    /// There is no registry.
    #[error("there is no registry in {}", .0.display())]
    NoRegistry(PathBuf),
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] StoreError),
    /// The disk or the object store cannot be used.
    #[error(transparent)]
    Start(StartError),
    /// The requested item cannot be shown.
    #[error(transparent)]
    View(#[from] ViewError),
}

impl InspectError {
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::View(_) => exit::DATA,
            Self::Nowhere { .. } | Self::Held { .. } | Self::NoRegistry(_) | Self::OfSeveral => {
                exit::UNAVAILABLE
            }
            Self::Answer(_) | Self::Store(_) => exit::SOFTWARE,
            Self::Start(error) => error.code,
        }
    }
}

/// Shows a view in lines as `render` makes them, or as JSON.
pub(super) fn at<T: DeserializeOwned>(
    args: &InspectArgs,
    view: &View,
    render: impl Fn(&T) -> String,
) -> ExitCode {
    run::verb(async { shown(look(args, view).await, args.status.json, render) })
}

fn shown<T: DeserializeOwned>(
    looked: Result<Value, InspectError>,
    is_json: bool,
    render: impl Fn(&T) -> String,
) -> ExitCode {
    let text = looked.and_then(|value| match is_json {
        true => Ok(format!("{value:#}\n")),
        false => {
            let view = serde_json::from_value(value).map_err(InspectError::Answer)?;
            Ok(render(&view))
        }
    });
    match text {
        Ok(text) => {
            daemon::print::out(format_args!("{text}"));
            exit::code(exit::OK)
        }
        Err(error) => {
            errln!("{}", exit::chain(&error));
            exit::code(error.code())
        }
    }
}

/// The holder of the store.
pub(super) enum Reached {
    /// A daemon that answers there.
    Daemon(Place),
    /// This process.
    Disk(Box<Opened>),
}

/// A store that no daemon has.
pub(super) struct Opened {
    pub(super) store: Store,
    /// The configuration, if there is one.
    pub(super) config: Option<Config>,
    _lock: Lock,
}

/// Finds the daemon, or opens the store.
pub(super) async fn reach(args: &InspectArgs) -> Result<Reached, InspectError> {
    let document = daemon::config::read(&args.config);
    let config = document.and_then(|document| Config::from_document(&document));
    let configured = config.as_ref().ok().and_then(|config| config.common.admin);
    let address = args.status.admin.or(configured).unwrap_or(DEFAULT_ADMIN);
    let admin = match &args.status.socket {
        Some(socket) => Place::Socket(socket.clone()),
        None => Place::Address(address),
    };
    // A given root is read although a daemon may run on another one.
    let is_asked =
        args.status.admin.is_some() || args.status.socket.is_some() || args.root.is_none();
    if is_asked && admin::get(admin.clone(), "/livez").await.is_ok() {
        return Ok(Reached::Daemon(admin));
    }
    let settings = settings(args, config.as_ref().ok());
    let Some(settings) = settings else {
        let problem = match config {
            Err(problems) => problems.to_string(),
            Ok(_) => "nothing says where to look".to_owned(),
        };
        return Err(InspectError::Nowhere { admin, problem });
    };
    let is_there = |name: &str| settings.root.join(name).exists();
    if !is_there("journal") && !is_there("journal-copy") {
        return Err(InspectError::NoRegistry(settings.root));
    }
    let lock = Lock::take(&settings.root);
    let lock = lock.map_err(|source| InspectError::Held { admin, source })?;
    let disk: Arc<dyn Disk> = match &config {
        Ok(config) if args.root.is_none() => service::disk(config).map_err(InspectError::Start)?,
        _ => Arc::new(RealDisk),
    };
    let (store, _) = Store::open(settings, disk).await?;
    Ok(Reached::Disk(Box::new(Opened {
        store,
        config: config.ok(),
        _lock: lock,
    })))
}

async fn look(args: &InspectArgs, view: &View) -> Result<Value, InspectError> {
    match reach(args).await? {
        Reached::Daemon(admin) => {
            let response = admin::get(admin, &view.path()).await;
            let response = response.map_err(|error| InspectError::Refused(exit::chain(&error)))?;
            let text = response.text();
            match response.is_success() {
                true => serde_json::from_str(&text).map_err(InspectError::Answer),
                false => Err(InspectError::Refused(text.trim_end().to_owned())),
            }
        }
        Reached::Disk(opened) => {
            let looked = Looker::new(opened.store.clone()).look(view).await;
            opened.store.close().await;
            serde_json::to_value(looked?).map_err(InspectError::Answer)
        }
    }
}

/// How the store is opened, if anything says where it is.
fn settings(args: &InspectArgs, config: Option<&Config>) -> Option<Settings> {
    let configured = config.map(service::store_settings);
    match (&args.root, configured) {
        (None, configured) => configured.or_else(|| {
            let RegistrySvc { root, .. } = RegistrySvc::default();
            root.exists().then(|| alone(root))
        }),
        (Some(root), Some(configured)) => Some(Settings {
            root: root.clone(),
            ..configured
        }),
        (Some(root), None) => Some(alone(root.clone())),
    }
}

/// The settings of a node that stands alone.
fn alone(root: PathBuf) -> Settings {
    let name: NodeName = service::ALONE.parse().expect("it is a name");
    Settings::new(root, name)
}
