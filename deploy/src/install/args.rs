//! The command lines of `install` and `uninstall`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `install`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InstallArgs {
    /// The bundle, as `outpost bundle` makes it
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,

    /// Which node of the bundle this is [default: by its host name or its addresses]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,

    /// The public key of who made the bundle; the first install needs it, later ones know it
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Option<PathBuf>,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Install below this directory, which is the root of a machine that does not run
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

    /// Uninstall below this directory, which is the root of a machine that does not run
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// What `--help` of uninstall says after the options.
pub(crate) const UNINSTALL_NOTES: &str = "\
Examples:
  outpost uninstall --dry-run
  outpost uninstall
  outpost uninstall --purge

Exit status:
  0   what was installed is gone, or nothing was
  64  the command line is wrong
  69  something could not be done; run it again
  77  no permission";

/// What `--help` of install says after the options.
pub(crate) const INSTALL_NOTES: &str = "\
Before anything is touched the signature and the digest of everything in the bundle are checked.
Then files are written whole, each in one step, images are put beside them and loaded, and what is
new is started. Nothing is restarted that did not change: a changed configuration is reloaded, and
a changed image or unit is swapped (see `outpost swap`). Killed at any point, the next run
finishes what is left; a run with nothing to do says so.

Examples:
  outpost install site.bundle --public-key outpost.pub --dry-run
  outpost install site.bundle --public-key outpost.pub
  outpost install new.bundle

Exit status:
  0   installed, or nothing to do
  64  the command line is wrong
  65  the bundle is damaged, or signed by somebody else
  69  something could not be done; what was done is recorded
  77  no permission";
