//! The command lines of `install` and `uninstall`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `install`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InstallArgs {
    /// The bundle, as `outpost bundle` makes it
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,

    /// Name of this node in the bundle [default: found by host name or address]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,

    /// Public key of the publisher; required on the first install, then kept
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Option<PathBuf>,

    /// Install a bundle of a lower generation than this node has had
    #[arg(long)]
    pub(crate) allow_older: bool,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Install below this directory, the root of a machine that is not running
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Arguments of `uninstall`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Remove the state of the services too: images of the registry, clock drift, last known health
    #[arg(long)]
    pub(crate) purge: bool,

    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Uninstall below this directory, the root of a machine that is not running
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// The end of `uninstall --help`.
pub(crate) const UNINSTALL_NOTES: &str = "\
Examples:
  outpost uninstall --dry-run
  outpost uninstall
  outpost uninstall --purge

Exit status:
  0   removed, or nothing was installed
  64  the command line is wrong
  69  a step failed; run it again
  77  no permission";

/// The end of `install --help`.
pub(crate) const INSTALL_NOTES: &str = "\
`install` first checks the signature and the digest of every member of the bundle. Then it replaces
each file atomically, loads images and starts new services. It restarts nothing that is unchanged:
it reloads a changed configuration, and swaps a changed image or unit (see `outpost swap`). If it is
killed, the next run finishes the rest.

Examples:
  outpost install site.bundle --public-key outpost.pub --dry-run
  outpost install site.bundle --public-key outpost.pub
  outpost install new.bundle
  outpost install --allow-older former.bundle

Exit status:
  0   installed, or nothing to do
  64  the command line is wrong
  65  the bundle is damaged or older than the node's, or its signature does not match the key
  69  a step failed; the finished steps are recorded
  77  no permission";
