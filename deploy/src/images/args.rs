//! The command line of `images`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use site::service::Service;
use site_node::images::ImagePaths;

/// Arguments of `images`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImagesArgs {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: ImagesVerb,
}

/// The verbs of `images`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ImagesVerb {
    /// Load missing or damaged images from the node's archives
    ///
    /// outpost-images.service runs this at boot. It loads an image again that is missing, half loaded or
    /// damaged, and replaces a store that podman refuses to open. It reads the bytes of files that were
    /// written to since they were last compared; `images verify` reads all. It uses no network.
    #[command(after_long_help = IMAGES_NOTES)]
    Load(ImagePlace),

    /// Wait until the images of a service are loaded, or cannot be
    ///
    /// outpost-image-SERVICE.service runs this at boot, beside outpost-images.service: a service starts
    /// as soon as its own images are there.
    #[command(after_long_help = IMAGES_NOTES)]
    Wait(ImageWait),

    /// Show what each slot of each service would run
    #[command(after_long_help = IMAGES_NOTES)]
    List(ImageList),

    /// Read every byte of every archive and of the store, and list what is damaged
    #[command(after_long_help = IMAGES_NOTES)]
    Verify(ImagePlace),
}

/// Arguments of `images list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageList {
    /// The directories of images.
    #[command(flatten)]
    pub(crate) place: ImagePlace,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `images wait`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageWait {
    /// The service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Service,

    /// Directory of the archives
    #[arg(long, value_name = "DIR", default_value = "/var/lib/outpost/images")]
    pub(crate) archives: PathBuf,
}

/// The directories of a node's images.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImagePlace {
    /// Directory of the archives
    #[arg(long, value_name = "DIR", default_value = "/var/lib/outpost/images")]
    pub(crate) archives: PathBuf,

    /// Description of the store (containers-storage.conf)
    #[arg(long, value_name = "FILE", default_value = "/etc/outpost/storage.conf")]
    pub(crate) storage: PathBuf,

    /// The node runs programs instead of containers: unpack them from the archives
    #[arg(long)]
    pub(crate) native: bool,

    /// With --native: directory of the programs
    #[arg(long, value_name = "DIR", default_value = "/var/lib/outpost/bin")]
    pub(crate) programs: PathBuf,
}

impl ImagePlace {
    /// The same for a node that runs containers, or programs.
    pub(crate) fn paths(&self, native: bool) -> ImagePaths {
        ImagePaths {
            archives: self.archives.clone(),
            storage: self.storage.clone(),
            programs: native.then(|| self.programs.clone()),
        }
    }
}

/// The end of the help of the verbs of `images`.
const IMAGES_NOTES: &str = "\
Examples:
  outpost images list
  outpost images verify
  outpost images load --native     # on a node without podman

Exit status:
  0   everything is there and whole
  64  the command line is wrong
  69  something is missing or damaged, or cannot be read";
