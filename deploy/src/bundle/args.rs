//! The command lines of `bundle` and `key`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `bundle`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_long_help = BUNDLE_NOTES)]
pub(crate) struct BundleArgs {
    /// Look at a bundle instead of making one.
    #[command(subcommand)]
    pub(crate) verb: Option<BundleVerb>,

    /// The site file
    #[arg(long, value_name = "FILE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// Directory that `outpost image build` wrote
    #[arg(long, value_name = "DIR", required = true)]
    pub(crate) images: Option<PathBuf>,

    /// The key to sign with, as `outpost key generate` or minisign makes it
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) key: Option<PathBuf>,

    /// File with the password of the key; without it an encrypted key asks for it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    /// Write a bundle for each node, OUTPUT/NAME.bundle, that has the keys of no other node
    #[arg(long)]
    pub(crate) per_node: bool,

    /// File to write the bundle to; a directory with --per-node
    ///
    /// A bundle contains private keys of its nodes; only its owner can read it.
    #[arg(long, short, value_name = "OUTPUT", required = true)]
    pub(crate) output: Option<PathBuf>,
}

/// The verbs of `bundle`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BundleVerb {
    /// Check the signature of a bundle and the digest of everything in it
    #[command(after_long_help = LOOK_NOTES)]
    Verify(BundleVerify),

    /// Show what is in a bundle
    #[command(after_long_help = LOOK_NOTES)]
    List(BundleList),
}

/// Arguments of `bundle verify`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BundleVerify {
    /// The bundle
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,

    /// Public key of the publisher
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: PathBuf,
}

/// Arguments of `bundle list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BundleList {
    /// The bundle
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,

    /// Print its manifest
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `key`.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArgs {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: KeyVerb,
}

/// The verbs of `key`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Make a pair of keys, in minisign's format
    #[command(after_long_help = KEY_NOTES)]
    Generate(KeyGenerate),
}

/// Arguments of `key generate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyGenerate {
    /// Write OUTPUT.key and OUTPUT.pub; existing files are never overwritten
    #[arg(long, short, value_name = "OUTPUT", default_value = "outpost")]
    pub(crate) output: PathBuf,

    /// File with a password to encrypt the key with; without it the key is not encrypted
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// The end of `bundle --help`.
const BUNDLE_NOTES: &str = "\
A bundle has a generation, a number that grows when its content changes. The last one is in
bundle.generation beside the site file; keep that file with it. `outpost install` refuses a bundle
of a lower generation than the node has had.

Examples:
  outpost bundle --images images --key site.key --output site.bundle
  outpost bundle --images images --key site.key --per-node --output bundles
  outpost bundle verify site.bundle --public-key site.pub
  outpost bundle list site.bundle

Exit status:
  0   the bundle is written
  64  the command line is wrong
  65  an image or the key is invalid, or a file cannot be read or written
  78  the site file has problems, or a certificate is missing";

/// The end of the help of its verbs.
const LOOK_NOTES: &str = "\
Exit status:
  0   the bundle is whole; with `verify`, signed by that key too
  64  the command line is wrong
  65  the bundle is damaged, its signature does not match the key, or it cannot be read";

/// The end of `key generate --help`.
const KEY_NOTES: &str = "\
OUTPUT.key signs bundles; keep it where bundles are made. Copy OUTPUT.pub to every node over a
trusted channel, for its first install.

Examples:
  outpost key generate --output site

Exit status:
  0   both are written
  64  the command line is wrong
  69  one of the files exists already, or cannot be written";
