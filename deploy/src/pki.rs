//! `outpost pki`: the command line of [`site_pki`].

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use daemon::{errln, exit};
use site_pki::{MakeOptions, Store};

/// Arguments of `pki`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PkiArgs {
    /// Make or show.
    #[command(subcommand)]
    pub(crate) verb: PkiVerb,
}

/// The verbs of `pki`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PkiVerb {
    /// Make missing certificates, and renew unusable ones
    ///
    /// Makes the authority and its key, a key and a certificate for each node that runs the registry,
    /// and the key of its tokens if it has users. Good files stay as they are. `make` renews a
    /// certificate, with the same key, if the names or addresses of its node have changed, if another
    /// authority has signed it, or in the last 90 days before its end. Only the owner can read keys, and
    /// `make` never removes or replaces one. To use your own authority, put ca.crt and ca.key into the
    /// directory.
    #[command(after_long_help = MAKE_NOTES)]
    Make(MakeArgs),

    /// Make certificate requests for an external authority
    ///
    /// Makes a missing key for each node that runs the registry, and beside it NAME.csr: a request
    /// (PKCS #10) for its names and addresses, for servers and clients. Makes no request for a good
    /// certificate. No key leaves the directory.
    #[command(after_long_help = REQUEST_NOTES)]
    Request(RequestArgs),

    /// Accept certificates that an external authority has signed
    ///
    /// Finds the node of each certificate by its key, and checks all before it writes any: each must have
    /// every requested name, be valid for servers and clients, and lead to the authority. Intermediate
    /// certificates may be in any of the files.
    #[command(after_long_help = ACCEPT_NOTES)]
    Accept(AcceptArgs),

    /// Revoke the certificates of a node
    ///
    /// For a node that was stolen, or whose disk was. Writes ca.crl, the list of revoked certificates,
    /// and puts the node's certificate and key aside. Every node refuses revoked certificates and ends
    /// the connections that were made with them, as soon as it has the list: render and install the
    /// site's files on every other node. Clients of the registry do not look at the list.
    #[command(after_long_help = REVOKE_NOTES)]
    Revoke(RevokeArgs),

    /// Take the next step in replacing the secrets of DNS cookies
    ///
    /// A secret is replaced in three steps: the next one is announced, then used, then the former is
    /// removed. Install the files of a step on every node before you take the next one, and wait an
    /// hour before the last: then no client has a cookie that a server refuses.
    #[command(after_long_help = ROLL_NOTES)]
    RollCookies(RollArgs),

    /// Show certificates, what they are for and when they end
    #[command(after_long_help = SHOW_NOTES)]
    Show(ShowArgs),
}

/// Arguments of `pki make`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MakeArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// Validity of new certificates of nodes, in days
    #[arg(long, value_name = "DAYS", default_value_t = 1825, value_parser = clap::value_parser!(u16).range(91..))]
    pub(crate) days: u16,

    /// Renew all certificates of nodes, and that of an authority that outpost made
    #[arg(long)]
    pub(crate) renew: bool,
}

impl MakeArgs {
    fn options(&self) -> MakeOptions {
        MakeOptions {
            days: self.days,
            renew: self.renew,
        }
    }
}

/// Arguments of `pki request`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RequestArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,

    /// Make requests for all certificates again
    #[arg(long)]
    pub(crate) renew: bool,
}

/// Arguments of `pki accept`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AcceptArgs {
    /// Certificates (PEM): those of nodes, and what is between them and the authority
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The authority's own certificate (PEM); it becomes ca.crt, and need not be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,

    /// The site file
    #[arg(long, value_name = "FILE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,
}

/// Arguments of `pki revoke`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The node's name
    #[arg(value_name = "NODE")]
    pub(crate) node: String,

    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,
}

/// Arguments of `pki roll-cookies`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RollArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,
}

/// Arguments of `pki show`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowArgs {
    /// The site file
    #[arg(value_name = "SITE", default_value = site_file::DEFAULT)]
    pub(crate) site: PathBuf,
}

const MAKE_NOTES: &str = "\
Files, below the directory that `pki` in the site file names (pki beside it unless given):
  ca.crt ca.key                         the authority; its key never leaves this directory
  ca.crl                                certificates that it has revoked, after `pki revoke`
  nodes/NAME.crt nodes/NAME.key         what a node shows to clients of the registry and to other
                                        nodes
  nodes/former/                         renewed certificates; `pki revoke` revokes them too
  registry-token.key registry-token.pub what tokens are signed with, the same on every node
  dns-authd.cookie dns-recursor.cookie  the secrets of DNS cookies, the same on every node

Examples:
  outpost pki make
  outpost pki make --days 3650 /srv/sites/north/site.toml
  outpost pki make --renew

Exit status:
  0   all are good
  64  the command line is wrong
  70  a file cannot be read or written, or ca.key is not there and has to sign something
  78  the site file has problems";

const REQUEST_NOTES: &str = "\
Examples:
  outpost pki request
  openssl req -in pki/nodes/master-0.csr -noout -text
  outpost pki accept --authority root.crt master-0.crt master-1.crt master-2.crt issuing.crt

Exit status:
  0   requests are there for all that have to be signed
  64  the command line is wrong
  70  a file cannot be read or written
  77  no permission
  78  the site file has problems";

const ACCEPT_NOTES: &str = "\
Examples:
  outpost pki accept --authority root.crt signed/*.crt
  outpost pki accept --site north/site.toml master-1.crt

Exit status:
  0   all were taken
  64  the command line is wrong
  65  a file has no certificate for this site, or one does not do; nothing was taken
  70  a file cannot be read or written
  77  no permission
  78  the site file has problems";

const REVOKE_NOTES: &str = "\
Examples:
  outpost pki revoke master-1 && outpost bundle ...
  outpost pki revoke master-1 && outpost pki make    a new key for the machine that replaces it

Exit status:
  0   the node's certificates are revoked
  64  the command line is wrong
  70  the node has no certificate, ca.key is not there, or a file cannot be read or written
  77  no permission
  78  the site file has problems";

const ROLL_NOTES: &str = "\
Examples:
  outpost pki roll-cookies && outpost bundle ...

Exit status:
  0   the step is taken; the line for each file says what comes next
  64  the command line is wrong
  70  a file is missing, or cannot be read or written
  77  no permission
  78  the site file has problems";

const SHOW_NOTES: &str = "\
Examples:
  outpost pki show

Exit status:
  0   all are good for 90 days at least
  64  the command line is wrong
  78  some are missing, do not do any more or end soon, or the site file has problems";

/// Runs the verb.
pub(crate) fn run(args: &PkiArgs) -> ExitCode {
    let path = match &args.verb {
        PkiVerb::Make(args) => &args.site,
        PkiVerb::Request(args) => &args.site,
        PkiVerb::Accept(args) => &args.site,
        PkiVerb::Revoke(args) => &args.site,
        PkiVerb::RollCookies(args) => &args.site,
        PkiVerb::Show(args) => &args.site,
    };
    let site = match site_file::read(path) {
        Ok(site) => site,
        Err(problems) => {
            errln!("{problems}");
            return exit::code(exit::CONFIG);
        }
    };
    let home = path.parent().unwrap_or_else(|| Path::new(""));
    let store = Store::new(home, &site);
    let done = match &args.verb {
        PkiVerb::Make(args) => store.make(&site, args.options()),
        PkiVerb::Request(args) => store.request(&site, args.renew),
        PkiVerb::Accept(args) => {
            match store.accept(&site, args.authority.as_deref(), &args.files) {
                Ok(refused) if refused.is_empty() => Ok(()),
                Ok(refused) => {
                    for reason in refused {
                        errln!("{reason}");
                    }
                    errln!("outpost: nothing was taken");
                    return exit::code(exit::DATA);
                }
                Err(error) => Err(error),
            }
        }
        PkiVerb::Revoke(args) => store.revoke(&site, &args.node),
        PkiVerb::RollCookies(_) => store.roll_cookies(&site),
        PkiVerb::Show(_) => {
            let is_good = store.show(&site);
            return exit::code(if is_good { exit::OK } else { exit::CONFIG });
        }
    };
    match done {
        Ok(()) => exit::code(exit::OK),
        Err(error) => {
            errln!("outpost: {error:#}");
            let io = error.downcast_ref::<io::Error>();
            exit::code(io.map_or(exit::SOFTWARE, exit::code_of_io))
        }
    }
}
