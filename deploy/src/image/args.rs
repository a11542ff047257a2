//! The command line of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use site::service::Service;

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

/// What `--help` of `image build` says after the options.
const BUILD_NOTES: &str = "\
Examples:
  outpost image build --output images
  outpost image build --output images registry-svc --ca-bundle /etc/ssl/certs/ca-certificates.crt

Exit status:
  0   all images are there
  64  the command line is wrong
  69  a program cannot be built or is not static, or a file cannot be written";
