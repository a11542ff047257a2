//! `outpost up`: the whole site on this machine, on loopback addresses, until Ctrl-C.
//!
//! In this order: find (and build) the service binaries → make the run directory → see that every
//! port is free → render the site → bring the masters up → start the services → show them →
//! stop them in reverse → remove the run directory. Nothing is started before everything that can
//! be refused has been asked for.

mod binaries;
mod child;
pub(crate) mod control;
mod hello;
mod life;
mod master;
mod poll;
mod ports;
mod printer;
pub(crate) mod run_dir;
mod signals;
mod terminal;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io};

use anyhow::Context as _;
use daemon::{errln, exit, outln};
use proto::health::Schedule;

use self::child::Plan;
use self::life::{Outcome, Setup};
use self::ports::{PortRequest, Refusal};
use self::run_dir::RunDir;
use crate::args::{AddressArgs, UpArgs};
use site::service::{PerService, Service};
use site::{Role, Site};
use site_render::config::{self, Layout, Place};
use site_up::suggestions::{ClusterShow, Demonstration, Tools, suggestions};

/// Runs the site and gives the exit code.
pub(crate) fn run(args: &UpArgs) -> ExitCode {
    match try_run(args) {
        Ok(Outcome::Stopped(after)) => {
            outln!(
                "The site ran for {} and is gone.",
                site_up::view::short(after)
            );
            exit::code(exit::OK)
        }
        Ok(Outcome::Failed(service, lines)) => {
            errln!("outpost: {service} does not start; its last lines:");
            for line in lines {
                errln!("  {line}");
            }
            exit::code(exit::UNAVAILABLE)
        }
        Err(error) => {
            errln!("outpost: {error:#}");
            exit::code(if is_forbidden(&error) {
                exit::NO_PERMISSION
            } else {
                exit::UNAVAILABLE
            })
        }
    }
}

/// Whether privileges are all that is missing.
fn is_forbidden(error: &anyhow::Error) -> bool {
    let is_denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    error
        .downcast_ref::<Refusal>()
        .is_some_and(|refusal| refusal.permission)
        || error
            .chain()
            .any(|cause| cause.downcast_ref().is_some_and(is_denied))
}

fn try_run(args: &UpArgs) -> anyhow::Result<Outcome> {
    let manifests = args.kubernetes.as_deref().map(manifests).transpose()?;
    let services = Service::of(Role::Master, manifests.is_some());
    let binaries = binaries::find(!args.no_build, &services)?;
    let path = args.run_dir.clone().unwrap_or_else(RunDir::default_path);
    let run_dir = RunDir::take(&path)?;
    let outcome = run_in(&run_dir, args, manifests, &binaries);
    let removed = run_dir.remove().context("cannot remove the run directory");
    let outcome = outcome?;
    removed?;
    Ok(outcome)
}

fn run_in(
    run_dir: &RunDir,
    args: &UpArgs,
    manifests: Option<PathBuf>,
    binaries: &PerService<PathBuf>,
) -> anyhow::Result<Outcome> {
    let site = site(&args.places);
    let at = Addresses::of(args);
    let layout = Layout {
        manifests,
        ..layout(args, &at, run_dir.path())
    };
    let sockets = [
        &layout.healthd_socket,
        &layout.clusterd_socket,
        &layout.swap_socket,
    ];
    for socket in sockets {
        check_socket_length(socket)?;
    }
    ports::check(&port_requests(&site, &layout, &at))?;
    for directory in ["state", "zones"] {
        run_dir
            .make_dir(directory)
            .context("cannot write to the run directory")?;
    }
    for file in config::render(&site, &layout) {
        run_dir
            .write(&file.name, &file.text)
            .with_context(|| format!("cannot write {} in the run directory", file.name))?;
    }
    let image = run_dir.path().join("hello.tar");
    hello::archive()
        .and_then(|archive| run_dir.write("hello.tar", archive))
        .context("cannot write an image to the run directory")?;
    let setup = Setup {
        dns: at.dns,
        admin: layout
            .admin
            .iter()
            .filter(|(service, _)| layout.runs(*service))
            .map(|(service, address)| (service, *address))
            .collect(),
        plans: PerService::from_fn(|service| Plan {
            service,
            program: binaries.of(service).clone(),
            config: layout.directory.join(site::paths::config_name(service)),
            notify: layout.directory.join(format!("{service}.notify")),
            admin: RunDir::admin_socket(&layout.directory, service),
        }),
        listens: listens(&at),
        registry: at.registry,
        control: control::socket(run_dir.path()),
        commands: commands(
            &site,
            &at,
            args.run_dir.as_deref(),
            &image,
            &layout,
            binaries,
        ),
        site,
        plain: args.plain,
        log: args.log,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(life::run(setup))
}

/// The addresses that are shown for each service; healthd and clusterd have sockets alone.
fn listens(at: &Addresses) -> PerService<String> {
    PerService {
        healthd: String::new(),
        clusterd: String::new(),
        dns_authd: at.authority.to_string(),
        dns_recursor: at.dns.to_string(),
        lb_proxy: at.own.to_string(),
        registry_svc: at.registry.to_string(),
        timesync_agent: at.time.to_string(),
    }
}

/// The directory of manifests, wherever the services run.
fn manifests(directory: &Path) -> anyhow::Result<PathBuf> {
    let whole = directory
        .canonicalize()
        .with_context(|| format!("cannot read {}", directory.display()))?;
    anyhow::ensure!(
        whole.is_dir(),
        "{} is no directory; --kubernetes takes one with manifests in it",
        directory.display()
    );
    Ok(whole)
}

/// The commands to try, by the programs in the path.
fn commands(
    site: &Site,
    at: &Addresses,
    run_dir: Option<&Path>,
    image: &Path,
    layout: &Layout,
    binaries: &PerService<PathBuf>,
) -> Vec<String> {
    let published = |what: &str| {
        let mut ports = site.published.iter();
        let port = ports.find(|one| one.what.eq_ignore_ascii_case(what));
        // The example site publishes both.
        port.map_or(0, |one| one.port)
    };
    let show = Demonstration {
        dns: at.dns,
        names: ["api", "*.apps", "helper"]
            .map(|name| site.example_name(name))
            .into(),
        http: SocketAddr::new(at.own, published("api")),
        registry: SocketAddr::new(at.own, published("registry")),
        image: image.display().to_string(),
        registry_svc: program(&binaries.registry_svc),
        cluster: layout.runs(Service::Clusterd).then(|| ClusterShow {
            clusterd: program(&binaries.clusterd),
            socket: layout.clusterd_socket.display().to_string(),
            // The manifests may come later: none of their names is known here.
            name: "SERVICE.NAMESPACE.svc.cluster.local".to_owned(),
        }),
    };
    let mut lines = suggestions(Tools::find(|name| in_path(name).is_some()), &show);
    let own = env::current_exe().unwrap_or_else(|_| "outpost".into());
    let run_dir = run_dir.map_or_else(String::new, |run_dir| {
        format!(" --run-dir {}", run_dir.display())
    });
    lines.push(format!("{} master down master-1{run_dir}", program(&own)));
    lines
}

/// The program of this name that a shell would run.
fn in_path(name: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    let mut places = env::split_paths(&paths).map(|path| path.join(name));
    places.find(|path| path.is_file())
}

/// The way in which a user of this shell would call a program of ours.
fn program(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let found = in_path(&name).and_then(|found| found.canonicalize().ok());
    if found.is_some_and(|found| found == path) {
        return name.into_owned();
    }
    let here = env::current_dir().unwrap_or_default();
    // A bare name would be looked for in the path.
    let below = path.strip_prefix(here).ok();
    let below = below.filter(|path| path.components().count() > 1);
    below.unwrap_or(path).display().to_string()
}

/// The example site with its masters on loopback addresses and ports that need no privileges.
fn site(places: &AddressArgs) -> Site {
    let masters = [13, 14, 15].map(|last| places.net.host(last));
    Site::example().with_masters_at(&masters, |port| match port {
        443 => Some(places.ingress_port),
        5443 => Some(places.registry_port),
        6443 => Some(places.api_port),
        _ => None,
    })
}

/// The addresses of the services.
struct Addresses {
    /// The address of all services but dns-recursor, if the command line names another.
    own: IpAddr,
    dns: SocketAddr,
    authority: SocketAddr,
    registry: SocketAddr,
    time: SocketAddr,
}

impl Addresses {
    fn of(args: &UpArgs) -> Self {
        let own = IpAddr::V4(args.places.net.host(1));
        let at = |port: u16| SocketAddr::new(own, port);
        Self {
            own,
            dns: args.places.dns.unwrap_or_else(|| at(5300)),
            authority: at(args.places.authority_port),
            registry: at(args.places.registry_svc_port),
            time: at(args.places.time_port),
        }
    }
}

fn layout(args: &UpArgs, addresses: &Addresses, directory: &Path) -> Layout {
    let at = |port: u16| SocketAddr::new(addresses.own, port);
    let admin = args.places.admin_port;
    Layout {
        directory: directory.to_owned(),
        state: directory.join("state"),
        healthd_socket: directory.join("healthd.sock"),
        clusterd_socket: directory.join("clusterd.sock"),
        manifests: None,
        swap_socket: directory.join("lb-proxy.swap"),
        dns: vec![addresses.dns],
        authority: vec![addresses.authority],
        authorities: vec![addresses.authority],
        proxy: vec![addresses.own],
        registry: vec![addresses.registry],
        time: vec![addresses.time],
        // The range of the argument leaves room for six more.
        admin: PerService {
            healthd: at(admin),
            dns_authd: at(admin.saturating_add(1)),
            dns_recursor: at(admin.saturating_add(2)),
            lb_proxy: at(admin.saturating_add(3)),
            registry_svc: at(admin.saturating_add(4)),
            timesync_agent: at(admin.saturating_add(5)),
            clusterd: at(admin.saturating_add(6)),
        },
        schedule: Schedule {
            interval: PROBE_INTERVAL,
            ..Schedule::default()
        }
        .into(),
        drain: Duration::from_secs(2),
        upstreams: args.upstream.clone(),
        forwards: Vec::new(),
        place: Place::Demonstration,
    }
}

/// Short enough that a TTL of a second would be felt, so answers are not cached: a master that is
/// taken down leaves them at the next probe.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Everything that will be listened on.
fn port_requests(site: &Site, layout: &Layout, at: &Addresses) -> Vec<PortRequest> {
    let mut wanted = Vec::new();
    for (name, address) in [("dns-recursor", at.dns), ("dns-authd", at.authority)] {
        wanted.push(PortRequest::udp(name, address));
        wanted.push(PortRequest::tcp(name, address));
    }
    wanted.push(PortRequest::tcp("registry-svc", at.registry));
    wanted.push(PortRequest::udp("timesync-agent", at.time));
    let admin = layout.admin.iter();
    for (service, address) in admin.filter(|(service, _)| layout.runs(*service)) {
        wanted.push(PortRequest::tcp(
            &format!("the admin listener of {service}"),
            *address,
        ));
    }
    for published in &site.published {
        wanted.push(PortRequest::tcp(
            &format!("the {} frontend of lb-proxy", published.what),
            SocketAddr::new(at.own, published.port),
        ));
    }
    for node in site.masters() {
        for published in &site.published {
            let what = format!("the {} of {}", published.what, node.name);
            wanted.push(PortRequest::tcp(
                &what,
                SocketAddr::new(node.address(), published.port),
            ));
        }
    }
    wanted
}

/// A Unix socket's path has to fit into `struct sockaddr_un` (unix(7)).
fn check_socket_length(socket: &Path) -> anyhow::Result<()> {
    /// 108 bytes with the final zero.
    const LONGEST: usize = 107;
    let length = socket.as_os_str().len();
    anyhow::ensure!(
        length <= LONGEST,
        "the run directory's path is {} bytes too long for the socket {}",
        length - LONGEST,
        socket.display(),
    );
    Ok(())
}
