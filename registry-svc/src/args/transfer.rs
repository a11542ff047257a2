//! Arguments of the verbs that bring images in and out.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use registry_archive::format::Format;
use registry_archive::name::ImageName;

use crate::args::DEFAULT_CONFIG;

/// Arguments of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// An archive or a directory; several are the parts of one archive of oc-mirror
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Its form: oci-layout, docker-archive, dir, oc-image-mirror, oc-mirror or distribution
    ///
    /// Detected unless given.
    #[arg(long, value_name = "FORM")]
    pub format: Option<Format>,

    /// Names of the images.
    #[command(flatten)]
    pub names: NameArgs,

    /// Selection of images.
    #[command(flatten)]
    pub which: SelectionArgs,

    /// Push to a registry that runs, instead of writing to the store of this node
    #[arg(long, value_name = "[http://]HOST[:PORT]")]
    pub to: Option<String>,

    /// Say what the archive has, and copy nothing
    #[arg(long)]
    pub list: bool,

    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,

    /// Access to the other registry.
    #[command(flatten)]
    pub client: ClientArgs,
}

/// Arguments of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Destination: a directory, or a tar archive if it ends in .tar
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Its form
    #[arg(long, value_enum, default_value_t = ExportForm::OciLayout)]
    pub format: ExportForm,

    /// Selection of images.
    #[command(flatten)]
    pub which: SelectionArgs,

    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Arguments of `push`.
#[derive(Clone, Debug, Args)]
pub struct PushArgs {
    /// An archive or a directory, in any form that `import` reads
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// The registry, and what names of repositories begin with there; or what the one image is called
    #[arg(value_name = "[http://]HOST[:PORT][/REPOSITORY[:TAG]]")]
    pub to: String,

    /// Selection of images.
    #[command(flatten)]
    pub which: SelectionArgs,

    /// Access to the registry.
    #[command(flatten)]
    pub client: ClientArgs,
}

/// Arguments of `pull`.
#[derive(Clone, Debug, Args)]
pub struct PullArgs {
    /// Images; without a tag or a digest all tags of a repository, without a repository all of them
    #[arg(
        required = true,
        value_name = "[http://]HOST[:PORT][/REPOSITORY[:TAG|@DIGEST]]"
    )]
    pub from: Vec<String>,

    /// Destination: a directory, or a tar archive if it ends in .tar
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Its form
    #[arg(long, value_enum, default_value_t = ExportForm::OciLayout)]
    pub format: ExportForm,

    /// Selection of images.
    #[command(flatten)]
    pub which: SelectionArgs,

    /// Access to the registry.
    #[command(flatten)]
    pub client: ClientArgs,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// An OCI image layout, which skopeo, podman, docker and ctr read
    OciLayout,
    /// A data directory of distribution (docker-registry)
    Distribution,
}

/// Names of the images.
#[derive(Clone, Debug, Default, Args)]
pub struct NameArgs {
    /// Prefix of the repositories' names; the whole name for images that have none
    #[arg(long, value_name = "PREFIX")]
    pub repository: Option<String>,

    /// Name of the only image, instead of the name in the archive
    #[arg(long = "as", value_name = "REPOSITORY[:TAG]", value_parser = image_name)]
    pub exactly: Option<ImageName>,

    /// Keep the registry that an image came from as the first part of its repository's name
    #[arg(long)]
    pub keep_host: bool,
}

/// Selection of images.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArgs {
    /// Only repositories of these names; * stands for anything but a slash, ** for anything
    #[arg(long = "only", value_name = "PATTERN")]
    pub only: Vec<String>,

    /// Only these tags
    #[arg(long = "tag", value_name = "PATTERN")]
    pub tags: Vec<String>,

    /// Take an index although manifests of some platforms are missing
    #[arg(long)]
    pub sparse: bool,
}

/// The store of this node.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// Configuration file, which says where the store is
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,

    /// Root directory of the store; wins over the configuration
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Access to another registry.
#[derive(Clone, Debug, Default, Args)]
pub struct ClientArgs {
    /// Names and passwords, as `podman login` keeps them
    ///
    /// Else the file that `REGISTRY_AUTH_FILE` names, podman's own, and docker's.
    #[arg(long, value_name = "FILE")]
    pub authfile: Option<PathBuf>,

    /// A file with a line NAME:PASSWORD
    #[arg(long, value_name = "FILE", conflicts_with = "authfile")]
    pub credentials: Option<PathBuf>,

    /// Authority that signs the registry's certificate, if this system does not trust it already
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

fn image_name(text: &str) -> Result<ImageName, String> {
    let name = ImageName::parse(text).filter(|name| name.host.is_none() && name.digest.is_none());
    name.ok_or_else(|| "not REPOSITORY[:TAG]".to_owned())
}
