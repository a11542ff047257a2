//! The command line of `outpost`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use daemon::config::HumanDuration;

use crate::bundle::args::{BundleArgs, KeyArgs};
use crate::check::{self, CheckArgs};
use crate::image::args::ImageArgs;
use crate::images::args::{ImagePlace, ImagesArgs};
use crate::install::args::{INSTALL_NOTES, InstallArgs, UNINSTALL_NOTES, UninstallArgs};
use crate::pki::PkiArgs;
use crate::render;
use crate::render::RenderArgs;
use site::service::Service;
use site_init::InitArgs;

/// Starts an Outpost site and looks after it
///
/// A site is one to three masters that need no machine beside them: their own DNS servers answer
/// for the site, and every answer names only masters that work.
#[derive(Debug, Parser)]
#[command(
    name = "outpost",
    version = daemon::version!(),
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_long_help = EXIT_STATUS
)]
pub(crate) struct Outpost {
    /// The verb.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs of `outpost`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole site on this machine, on loopback addresses, until Ctrl-C
    ///
    /// Runs the real services (healthd, dns-authd, dns-recursor, lb-proxy, registry-svc, timesync-agent)
    /// as child processes with the configuration of an example site: the domain ocp4.redhat.ren with
    /// three masters. Each master is a small TCP responder on a loopback address of its own, for the
    /// probes of healthd; its registry port leads to registry-svc. `up` needs no privileges and writes
    /// only into the run directory.
    ///
    /// On a terminal it shows a live screen; otherwise it prints a line for each event. Everything stops
    /// on q, Ctrl-C, SIGTERM or SIGHUP, or when `outpost` dies, and nothing is left behind.
    ///
    /// From a checkout, `up` first builds the services (cargo build) if they are missing or older than
    /// their sources. Installed, it uses those beside the `outpost` binary.
    #[command(after_long_help = UP_NOTES)]
    Up(UpArgs),

    /// Take masters of the running site down, or bring them up again
    ///
    /// A master that is down refuses connections on all of its ports. Within one probe interval,
    /// half a second, no answer names it any more.
    #[command(after_long_help = MASTER_EXAMPLES)]
    Master(MasterArgs),

    /// Show the running site, this node, or all nodes of a site
    ///
    /// If `outpost up` runs a site, shows that site. On a node, shows for each service the slot that
    /// serves, its version, whether it is ready, how often systemd restarted it, when it last reported
    /// progress, and the queues and drops of its sockets; and the targets that healthd finds down.
    ///
    /// With --site, shows all nodes of the site file over ssh, all at once, without prompts, and each
    /// within 60 seconds. Keys, known hosts and jump hosts come from ssh's own configuration. On the
    /// nodes the user must be root, or run /usr/local/bin/outpost with sudo and no password.
    #[command(after_long_help = STATUS_NOTES)]
    Status(StatusArgs),

    /// Say how this node answers a name or serves an address, and why
    ///
    /// Follows the way of a client: the route and the cache of dns-recursor; the zone, the record and its targets in
    /// dns-authd; the state of each target in healthd and what the probes of each node find; the frontends, servers and
    /// queues of lb-proxy, and the holder of a virtual address. Sends no query and changes nothing.
    #[command(after_long_help = EXPLAIN_NOTES)]
    Explain(ExplainArgs),

    /// Build images of the services
    Image(ImageArgs),

    /// Pack everything that the nodes of a site need into one signed file
    ///
    /// Images, configurations, units and certificates of every node, the command itself, a manifest with
    /// the digest of each, and a signature in minisign's format. `outpost install` applies it on a node
    /// without a network.
    Bundle(BundleArgs),

    /// Install a bundle on this node, or bring the node up to it
    #[command(after_long_help = INSTALL_NOTES)]
    Install(InstallArgs),

    /// Remove what `outpost install` installed
    ///
    /// Keeps the state of the services (such as the registry's images) unless --purge is given. Keeps files that
    /// were changed since the installation, and restores files that the installation had replaced.
    #[command(after_long_help = UNINSTALL_NOTES)]
    Uninstall(UninstallArgs),

    /// Make a key pair for signing bundles
    Key(KeyArgs),

    /// Load, list and verify the images of this node
    Images(ImagesArgs),

    /// Describe a site: write site.toml
    ///
    /// Takes values from flags, from OpenShift's install-config.yaml and agent-config.yaml, and asks for the
    /// rest. Writes a commented site file that `outpost check` accepts.
    #[command(after_long_help = site_init::NOTES)]
    Init(Box<InitArgs>),

    /// Check a site file
    ///
    /// Reads a site file and every file that it names, and changes nothing. Lists all problems at once.
    #[command(after_long_help = check::NOTES)]
    Check(CheckArgs),

    /// Replace a running service with another version, without interrupting clients
    ///
    /// `swap` checks the archive and loads it into the idle slot. It starts that slot beside the serving
    /// one, on the same sockets, and watches it once it is ready: its self-check, systemd and healthd.
    /// Then it records the new slot as the one to start at boot, and stops the old slot, which first
    /// answers what it has read.
    ///
    /// If a step fails, the old slot keeps serving or takes over again.
    #[command(after_long_help = SWAP_NOTES)]
    Swap(SwapArgs),

    /// Return a service to a version that has served on this node
    ///
    /// The same as `swap`, with the image of the version that served before the one that runs, or of the one
    /// that --to names. A version that did not start is never among them. `outpost history` lists them.
    #[command(after_long_help = SWAP_NOTES)]
    Rollback(RollbackArgs),

    /// List the versions that this node keeps of each service, and how its last swaps ended
    ///
    /// A version is kept once it has served: at most five of a service, of which the one that runs and the one
    /// before it are never removed. The running one is marked with a star.
    #[command(after_long_help = HISTORY_NOTES)]
    History(HistoryArgs),

    /// Write the configurations, units and Ignition of every node of a site file
    #[command(after_long_help = render::NOTES)]
    Render(RenderArgs),

    /// Make, renew and show the certificates of a site
    Pki(PkiArgs),

    /// Print what a shell needs to complete the words of a command line
    #[command(after_long_help = COMPLETIONS_NOTES)]
    Completions(CompletionsArgs),

    /// Become another program that ends when its parent ends
    #[command(hide = true)]
    ExecChild(ExecChildArgs),
}

/// Arguments of `up`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpArgs {
    /// Directory for configuration, sockets and state; removed at the end
    ///
    /// Default: outpost-up below `$XDG_RUNTIME_DIR`, or outpost-up-UID in the directory for
    /// temporary files. It has to be new, or empty and private.
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,

    /// Print a line for each event, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,

    /// Also print what the services log (with plain lines; the screen shows it with `l`)
    #[arg(long)]
    pub(crate) log: bool,

    /// Do not build; use the service binaries as they are
    #[arg(long)]
    pub(crate) no_build: bool,

    /// Resolve outside names with this server; may be repeated
    ///
    /// Without one, names outside the site fail at once with SERVFAIL: a site may have no way out.
    #[arg(long, value_name = "IP[:PORT]", value_parser = upstream)]
    pub(crate) upstream: Vec<SocketAddr>,

    /// Run clusterd too, and have it read the manifests of this directory as its cluster
    ///
    /// clusterd reads files in YAML and JSON (`*.yaml`, `*.yml`, `*.json`), and follows them: a file that is saved is taken up
    /// at once. Services in them have names below cluster.local.
    #[arg(long, value_name = "DIR")]
    pub(crate) kubernetes: Option<PathBuf>,

    /// Addresses and ports.
    #[command(flatten, next_help_heading = "Addresses and ports")]
    pub(crate) places: AddressArgs,
}

/// Addresses and ports.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct AddressArgs {
    /// First three bytes of all addresses: services on NET.1, masters on NET.13, .14 and .15
    #[arg(long, value_name = "NET", default_value = "127.0.0", value_parser = net)]
    pub(crate) net: Net,

    /// Address of dns-recursor, UDP and TCP [default: NET.1:5300]
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) dns: Option<SocketAddr>,

    /// Port of dns-authd, on NET.1
    #[arg(long, value_name = "PORT", default_value_t = 5301, value_parser = port())]
    pub(crate) authority_port: u16,

    /// First of seven ports, on NET.1, for the admin listeners of the services
    #[arg(long, value_name = "PORT", default_value_t = 9401, value_parser = clap::value_parser!(u16).range(1..=65_529))]
    pub(crate) admin_port: u16,

    /// Port of the masters' API server
    #[arg(long, value_name = "PORT", default_value_t = 6443, value_parser = port())]
    pub(crate) api_port: u16,

    /// Port of the masters' ingress, in place of 443, which needs privileges
    #[arg(long, value_name = "PORT", default_value_t = 8443, value_parser = port())]
    pub(crate) ingress_port: u16,

    /// Port of the masters' registry
    #[arg(long, value_name = "PORT", default_value_t = 5443, value_parser = port())]
    pub(crate) registry_port: u16,

    /// Port of registry-svc, on NET.1
    #[arg(long, value_name = "PORT", default_value_t = 5000, value_parser = port())]
    pub(crate) registry_svc_port: u16,

    /// UDP port of timesync-agent, on NET.1, in place of 123, which needs privileges
    #[arg(long, value_name = "PORT", default_value_t = 11_123, value_parser = port())]
    pub(crate) time_port: u16,
}

/// Arguments of `master`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MasterArgs {
    /// Down or up.
    #[command(subcommand)]
    pub(crate) verb: MasterVerb,
}

/// The verbs of `master`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum MasterVerb {
    /// Take masters down
    Down(Masters),
    /// Bring masters up again
    Up(Masters),
}

/// Masters of a running site.
#[derive(Clone, Debug, Args)]
pub(crate) struct Masters {
    /// Name (master-1) or number (1) of a master, or `all`
    #[arg(required = true, value_name = "MASTER")]
    pub(crate) masters: Vec<String>,

    /// Run directory of the site, if `outpost up` was given one
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
}

/// Arguments of `status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show this node, even where a site runs
    #[arg(long, conflicts_with_all = ["run_dir", "site"])]
    pub(crate) node: bool,

    /// Show all nodes of this site file, asked over ssh [default: site.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "run_dir", num_args = 0..=1, default_missing_value = site_file::DEFAULT)]
    pub(crate) site: Option<PathBuf>,

    /// User name for ssh, with --site
    #[arg(long, value_name = "USER", default_value = "core")]
    pub(crate) login: String,

    /// Print JSON; with --watch, a line for each look
    #[arg(long)]
    pub(crate) json: bool,

    /// Look again and again, until Ctrl-C, with this pause [default: 2s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    watch: Option<HumanDuration>,

    /// Run directory of the site, if `outpost up` was given one
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
}

impl StatusArgs {
    /// The pause between two looks, if there are to be several.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.watch.map(|pause| pause.0.max(SHORTEST_PAUSE))
    }
}

/// Looks cost the services an answer each: no more than five a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name, such as api.ocp4.redhat.ren; or IP address of a server or a virtual address, with or without a port
    #[arg(value_name = "NAME|ADDRESS[:PORT]")]
    pub(crate) about: String,

    /// Type of the records, for a name
    #[arg(long = "type", value_name = "TYPE", default_value = "A")]
    pub(crate) rtype: String,

    /// Client that would ask [default: one that may]
    #[arg(long, value_name = "IP")]
    pub(crate) client: Option<IpAddr>,

    /// Ask the services of this node, even where a site runs
    #[arg(long, conflicts_with = "run_dir")]
    pub(crate) node: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Run directory of the site, if `outpost up` was given one
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
}

/// Arguments of `swap`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SwapArgs {
    /// The service
    pub(crate) service: Service,

    /// Image of the new version, as `outpost image build` makes it
    #[arg(required_unless_present = "settle")]
    pub(crate) archive: Option<PathBuf>,

    /// Swap nothing; resolve a swap that was interrupted
    ///
    /// Starts the slot on record, and stops the other one. Every swap begins with that.
    #[arg(long, conflicts_with = "archive")]
    pub(crate) settle: bool,

    /// Options of a swap.
    #[command(flatten)]
    pub(crate) options: SwapOptions,
}

/// Arguments of `rollback`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The service
    pub(crate) service: Service,

    /// The version to return to: its version, its revision, or the beginning of its image
    ///
    /// `outpost history SERVICE` lists them. Default: the version that served before the one that runs.
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<String>,

    /// Options of a swap.
    #[command(flatten)]
    pub(crate) options: SwapOptions,
}

/// Arguments of `history`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The service; all of this node by default
    pub(crate) service: Option<Service>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Directory of the archives
    #[arg(long, value_name = "DIR", default_value = "/var/lib/outpost/images")]
    pub(crate) archives: PathBuf,

    /// Directory in place of /, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}

/// How one version takes over from another.
#[derive(Clone, Debug, Args)]
pub(crate) struct SwapOptions {
    /// How long the new process may take to start, and then to be as ready as the old one was
    #[arg(long, value_name = "TIME", default_value = "90s")]
    pub(crate) timeout: HumanDuration,

    /// How long the new process must stay healthy before the old one is stopped
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub(crate) canary: HumanDuration,

    /// Check everything and show the steps, without taking them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print a line of JSON for each step
    #[arg(long)]
    pub(crate) json: bool,

    /// The directories of images.
    #[command(flatten, next_help_heading = "Images")]
    pub(crate) images: ImagePlace,

    /// Directory in place of /, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}

/// Arguments of `completions`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `exec-child`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExecChildArgs {
    /// Process id of the parent
    pub(crate) parent: u32,

    /// The program
    pub(crate) program: PathBuf,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

//--- Values

/// The first three bytes of a loopback network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Net(u8, u8, u8);

impl Net {
    /// The address of a host in it.
    pub(crate) fn host(self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.0, self.1, self.2, last)
    }
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

fn net(text: &str) -> Result<Net, String> {
    let bytes: Result<Vec<u8>, _> = text
        .trim_end_matches('.')
        .split('.')
        .map(str::parse)
        .collect();
    match bytes.as_deref() {
        Ok(&[127, second, third]) => Ok(Net(127, second, third)),
        _ => Err("expected three numbers of a loopback network, such as 127.0.5".to_owned()),
    }
}

fn upstream(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, 53)))
        .map_err(|_| "expected an IP address, with or without a port".to_owned())
}

fn port() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..)
}

//--- Texts

const UP_NOTES: &str = "\
Keys:
  0 1 2   take master-0, master-1 or master-2 down, or up again
  r       restart a service
  l       show what the services log
  q       quit; Ctrl-C does the same

Examples:
  outpost up
      Then ask, in another terminal, with what is on the machine (it prints the lines):
          dig @127.0.0.1 -p 5300 api.ocp4.redhat.ren
          dig @127.0.0.1 -p 5300 c.apps.ocp4.redhat.ren
          dig @127.0.0.1 -p 5300 helper.ocp4.redhat.ren
      and take a master away, and see it leave the answers:
          outpost master down 1
      The registry is there under its names, and behind lb-proxy:
          curl http://127.0.0.1:5443/v2/_catalog
          registry-svc push RUN-DIR/hello.tar http://127.0.0.1:5443/hello:1
  outpost up --upstream 192.168.7.1
      Answer outside names too.
  outpost up --net 127.0.7 --run-dir /tmp/second
      A second site beside the first; ask it at 127.0.7.1 port 5300.
  cargo run --release --bin outpost -- up
      From a checkout.

Exit status:
  0   stopped as asked
  64  the command line is wrong
  69  a port is taken, a service binary is missing or does not start
  70  a bug
  77  no permission";

const MASTER_EXAMPLES: &str = "\
Examples:
  outpost master down 1
  outpost master up master-1
  outpost master down all

Exit status:
  0   done
  64  the command line is wrong
  69  no site is running, or there is no such master";

const STATUS_NOTES: &str = "\
Examples:
  outpost status
  outpost status --node --json
  outpost status --site site.toml --login core
  outpost status --watch
  outpost status --watch=5s --json

Exit status:
  0   every service that is here serves and is ready
  64  the command line is wrong
  69  a service is not ready, or systemd, healthd or a node gave no answer
  78  the site file has a problem";

const EXPLAIN_NOTES: &str = "\
Examples:
  outpost explain api.ocp4.redhat.ren
  outpost explain api.ocp4.redhat.ren --type AAAA --client 192.168.7.50
  outpost explain 192.168.7.13:6443 --json

Exit status:
  0   every service that has a part in it was asked
  64  the command line is wrong
  69  a service could not be asked, or did not understand the question";

const SWAP_NOTES: &str = "\
Examples:
  outpost swap dns-authd /var/tmp/dns-authd.tar
  outpost swap lb-proxy lb-proxy.tar --canary 30s
  outpost rollback dns-authd
  outpost rollback dns-authd --to 0.1.0

Exit status:
  0   the other version serves
  1   it does not; the old version still serves, or serves again
  64  the command line is wrong
  69  another swap is running, or nothing serves: systemd keeps trying
  77  no permission";

const HISTORY_NOTES: &str = "\
Examples:
  outpost history
  outpost history dns-authd --json

Exit status:
  0   listed
  64  the command line is wrong
  69  this node has no image of the service, or its archives cannot be read";

const COMPLETIONS_NOTES: &str = "\
Examples:
  outpost completions bash > /etc/bash_completion.d/outpost
  outpost completions zsh > ~/.zfunc/_outpost
  outpost completions fish > ~/.config/fish/completions/outpost.fish

Exit status:
  0   printed
  64  the command line is wrong";

const EXIT_STATUS: &str = "\
Examples:
  outpost up
  outpost status
  outpost master down 1

Exit status (`outpost COMMAND --help` says more of each):
  0   done, or nothing to do
  1   render --diff: there is a difference; swap: the other version does not serve
  64  the command line is wrong
  65  a given file cannot be used: it is damaged, unknown, or signed with another key
  69  a site, a node, a service or a port is missing or does not work
  70  a bug, or a disk error
  77  no permission
  78  the site file, or what it names, has problems";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Outpost::command().debug_assert();
    }

    /// Every verb says what its exit status means, in lines that no terminal of 100 columns breaks.
    #[test]
    fn help_says_what_exit_statuses_mean() {
        fn look(command: &clap::Command, path: &str, is_told_above: bool) {
            let path = format!("{path} {}", command.get_name());
            let notes = command.get_after_long_help().map(ToString::to_string);
            let notes = notes.unwrap_or_default();
            for line in notes.lines() {
                assert!(line.chars().count() <= 100, "{path}: {line}");
            }
            let is_told = is_told_above || notes.contains("Exit status");
            let mut verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
            assert!(is_told || verbs.next().is_some(), "{path}");
            for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                look(verb, &path, is_told);
            }
        }
        for verb in Outpost::command().get_subcommands() {
            if !verb.is_hide_set() {
                look(verb, "outpost", false);
            }
        }
    }

    #[test]
    fn only_loopback_networks_are_taken() {
        assert_eq!(
            net("127.0.7").map(|net| net.host(13)),
            Ok(Ipv4Addr::new(127, 0, 7, 13))
        );
        for wrong in [
            "",
            "127",
            "127.0",
            "127.0.0.1",
            "10.0.0",
            "127.0.256",
            "127.0.x",
        ] {
            assert!(net(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_upstream_has_port_53_unless_it_says_otherwise() {
        assert_eq!(upstream("192.0.2.1"), Ok(([192, 0, 2, 1], 53).into()));
        assert_eq!(
            upstream("192.0.2.1:5353"),
            Ok(([192, 0, 2, 1], 5353).into())
        );
        assert_eq!(upstream("2001:db8::1").map(|at| at.port()), Ok(53));
        assert_eq!(upstream("[2001:db8::1]:5353").map(|at| at.port()), Ok(5353));
        assert!(upstream("example.com").is_err());
    }

    #[test]
    fn a_child_keeps_its_own_flags() {
        let parsed = Outpost::parse_from([
            "outpost",
            "exec-child",
            "17",
            "/bin/x",
            "serve",
            "--config",
            "/y",
        ]);
        let Command::ExecChild(args) = parsed.command else {
            panic!("{parsed:?}")
        };
        assert_eq!(args.arguments, ["serve", "--config", "/y"]);
    }
}
