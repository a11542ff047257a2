//! The command lines of `image` and `images`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::service::Service;

/// Arguments of `image`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
}

/// What to do with images before they are anywhere.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Build the images of the services as archives, without podman
    ///
    /// Each image has one static program, its bill of materials and its licences, and nothing of a
    /// distribution. The same sources and the same time (`SOURCE_DATE_EPOCH`, else the commit's) give
    /// the same bytes. The command `outpost` is put beside the images, static too, for a bundle.
    #[command(after_long_help = BUILD_NOTES)]
    Build(ImageBuildArgs),
}

/// Arguments of `image build`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageBuildArgs {
    /// Services to build; all of them by default
    #[arg(value_name = "SERVICE", value_parser = service)]
    pub(crate) services: Vec<Service>,

    /// Directory for SERVICE.tar, SERVICE.cdx.json, outpost and SHA256SUMS
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Take programs that are built already; they have to be static
    #[arg(long, value_name = "DIR")]
    pub(crate) binaries: Option<PathBuf>,

    /// The checkout [default: the one that the working directory is in]
    #[arg(long, value_name = "DIR")]
    pub(crate) checkout: Option<PathBuf>,

    /// Certificate authorities to put into the images (PEM)
    ///
    /// Only for services that reach servers of the world and are not given a `ca` of their own.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,

    /// Where the source is, for the label org.opencontainers.image.source
    #[arg(long, value_name = "URL")]
    pub(crate) source: Option<String>,
}

/// A service by its name.
pub(crate) fn service(text: &str) -> Result<Service, String> {
    let named = Service::ALL
        .into_iter()
        .find(|service| service.name() == text);
    named.ok_or_else(|| {
        let names = Service::ALL.map(Service::name).join(", ");
        format!("there is no such service; there are {names}")
    })
}

/// Arguments of `images`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImagesArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: ImagesVerb,
}

/// What to do with the images of a node.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ImagesVerb {
    /// Load from the node's archives what its store lacks
    ///
    /// outpost-images.service runs this at boot. An image that is missing, half loaded or damaged is
    /// loaded again; a store that podman refuses to open is moved aside and filled anew. No network
    /// is used.
    #[command(after_long_help = IMAGES_NOTES)]
    Load(ImagePlace),

    /// Show what each slot of each service would run
    #[command(after_long_help = IMAGES_NOTES)]
    List(ImageList),

    /// Read every byte of every archive and of the store, and say what is damaged
    #[command(after_long_help = IMAGES_NOTES)]
    Verify(ImagePlace),
}

/// Arguments of `images list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageList {
    /// Where the images are.
    #[command(flatten)]
    pub(crate) place: ImagePlace,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the images of a node are.
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

/// What `--help` of `image build` says after the options.
const BUILD_NOTES: &str = "\
Examples:
  outpost image build --output images
  outpost image build --output images registry-svc --ca-bundle /etc/ssl/certs/ca-certificates.crt

Exit status:
  0   all images are there
  64  the command line is wrong
  69  a program cannot be built or is not static, or a file cannot be written";

/// What `--help` of the verbs of `images` says after the options.
const IMAGES_NOTES: &str = "\
Examples:
  outpost images list
  outpost images verify
  outpost images load --native     # on a node without podman

Exit status:
  0   everything is there and whole
  64  the command line is wrong
  69  something is missing or damaged, or cannot be read";
