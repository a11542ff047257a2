//! The command line of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use site::service::Service;

/// Arguments of `image`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageArgs {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
}

/// The verbs of `image`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Build the images of the services as archives, without podman
    ///
    /// Each image has one static program, its bill of materials and its licences, and nothing of a
    /// distribution. The same sources and the same time (`SOURCE_DATE_EPOCH`, else the commit's) give
    /// the same bytes. The command `outpost`, static too, goes beside the images, for a bundle.
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
    /// Only for services that connect to public servers and have no `ca` of their own.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,

    /// URL of the source, for the label org.opencontainers.image.source
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
        format!("no such service; the services are {names}")
    })
}

/// The end of `image build --help`.
const BUILD_NOTES: &str = "\
Examples:
  outpost image build --output images
  outpost image build --output images registry-svc --ca-bundle /etc/ssl/certs/ca-certificates.crt

Exit status:
  0   all images are there
  64  the command line is wrong
  69  a program cannot be built or is not static, or a file cannot be written";
