//! Whole nodes: systemd as PID 1, podman, a disk that outlives a power cut, an address on the wire.
//!
//! A node is a container of systemd-nspawn in the network namespace of a [`Machine`]. Its root is an
//! overlay over one unpacked Debian ([`Root`]); what it writes stays in a directory of the test and is
//! there again after [`Node::cut_power`] and [`Node::start`]. Ignition is applied to that root by
//! its own engine, as the initramfs of a real node does.
//!
//! A node shares the kernel with the machine of the tests, and so its clock: no node has the
//! capability to set it. It never starts anything outside its own cgroup, mount and network
//! namespaces.
//!
//! The settings that a machine may need, each found by trying:
//! - PID 1 of the machine may not be systemd: `--register=no --keep-unit`, a cgroup of our own for
//!   each start (a second start in the first's is refused as busy), the unified hierarchy asked for;
//! - crun makes a session keyring, which nspawn's system call filter forbids: `SYSTEMD_SECCOMP=0`;
//! - podman sets `net.ipv4.ping_group_range`: `SYSTEMD_NSPAWN_API_VFS_WRITABLE=network`;
//! - an overlay cannot lie on an overlay: container storage and the state of Outpost are bound from
//!   where the disk of the node lies, which is memory where there is enough (`disk.rs`).

pub mod bare;
mod cgroup;
mod disk;
mod images;
pub mod lan;
mod outside;
pub mod pulse;
mod root;
pub mod tls;

use std::fs::{File, create_dir_all};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::checkout;
use crate::daemon::run;
use crate::netns::Machine;
use crate::scratch::Scratch;
use crate::wait;

use cgroup::Cgroup;
pub use images::{Images, images_or_skip};
pub use outside::Outside;
pub use root::{Root, bare_or_skip, or_skip};

/// A node: its disk, and while it runs its processes.
#[derive(Debug)]
pub struct Node {
    /// Its place on the wire.
    pub machine: Machine,
    name: String,
    root: &'static Root,
    disk: Scratch,
    running: Option<Running>,
}

/// A node that has power.
#[derive(Debug)]
struct Running {
    nspawn: Child,
    /// PID 1 of the node, as this machine numbers it.
    leader: Pid,
    /// Goes last, when nothing is left in it.
    _cgroup: Cgroup,
}

impl Node {
    /// A node with an empty disk over `root`, without power.
    ///
    /// # Panics
    ///
    /// Panics if the disk cannot be written.
    #[must_use]
    pub fn new(root: &'static Root, machine: Machine, name: &str) -> Self {
        let disk = disk::empty(name);
        for directory in ["upper", "work", "root", "containers", "outpost/images"] {
            create_dir_all(disk.join(directory)).expect("the scratch directory is writable");
        }
        Self {
            machine,
            name: name.to_owned(),
            root,
            disk,
            running: None,
        }
    }

    /// Its host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the wire.
    ///
    /// # Panics
    ///
    /// Panics if it was given none.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        let own = self.machine.own_addresses().first();
        let address = own.and_then(|own| own.split('/').next()?.parse().ok());
        address.expect("machines have an address")
    }

    /// How this machine reaches a path of the running node, whatever is mounted there.
    ///
    /// # Panics
    ///
    /// Panics if the node has no power.
    #[must_use]
    pub fn inside_path(&self, path: &str) -> PathBuf {
        let leader = self.running.as_ref().expect("a node with power").leader;
        PathBuf::from(format!("/proc/{}/root{path}", leader.as_raw_nonzero()))
    }

    /// The path on this machine of a path of `/var/lib/outpost`.
    #[must_use]
    pub fn state(&self, name: &str) -> PathBuf {
        self.disk.join("outpost").join(name)
    }

    /// Where a path of `/var/lib/containers`, the store of CRI-O and of podman's default, lies on this
    /// machine.
    #[must_use]
    pub fn containers(&self, name: &str) -> PathBuf {
        self.disk.join("containers").join(name)
    }

    /// Puts a file on the disk, by its path on the node, as a person with a stick would.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be copied.
    pub fn put(&self, file: &Path, path: &str) {
        let target = match path.strip_prefix("/var/lib/outpost/") {
            Some(name) => self.state(name),
            None => self.disk.join("upper").join(path.trim_start_matches('/')),
        };
        let parent = target.parent().expect("it has a directory");
        create_dir_all(parent).expect("the disk is writable");
        // A link where it can be one: three nodes have the same archives.
        drop(std::fs::remove_file(&target));
        std::fs::hard_link(file, &target)
            .or_else(|_| std::fs::copy(file, &target).map(drop))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    //--- Ignition

    /// Applies an Ignition configuration to the disk with Ignition's own engine. The next start is a
    /// first boot, at which systemd enables what the configuration enables.
    ///
    /// # Panics
    ///
    /// Panics if the engine refuses the configuration, or the node runs.
    pub fn ignite(&self, config: &Path) {
        assert!(
            self.running.is_none(),
            "Ignition runs before the first boot"
        );
        let script = format!(
            "{MOUNT_ROOT}\n\
             # The engine keeps its state below /run, and labels files if the root says how.\n\
             mount -t tmpfs tmpfs /run\n\
             mkdir -p \"$disk/root/var/lib/outpost\"\n\
             mount --bind \"$disk/outpost\" \"$disk/root/var/lib/outpost\"\n\
             mkdir -p \"$disk/root/etc/selinux\" /run/ignition\n\
             printf 'SELINUX=disabled\\nSELINUXTYPE=targeted\\n' >\"$disk/root/etc/selinux/config\"\n\
             for stage in fetch files; do\n\
               IGNITION_CONFIG_FILE=$3 {ENGINE} -root \"$disk/root\" -stage $stage -platform file \
                 -config-cache /run/ignition/cache -state-file /run/ignition/state -log-to-stdout\n\
             done\n\
             echo uninitialized >\"$disk/root/etc/machine-id\"\n"
        );
        let mut command = self.prepared(&script);
        let path = std::env::var("PATH").unwrap_or_default();
        let stand_in = checkout().join("tests/nodes/stand-in");
        command
            .arg(config)
            .env("PATH", format!("{}:{path}", stand_in.display()));
        let (status, log, complaint) = run(command);
        assert!(
            status.success(),
            "Ignition on {}: {status}\n{log}{complaint}",
            self.name
        );
    }

    /// A shell script with the node's disk mounted, in a mount namespace of its own: `$disk` and
    /// `$base` are set, further arguments begin with `$3`.
    fn prepared(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-euc",
                script,
                "sh",
            ])
            .arg(self.disk.path())
            .arg(self.root.path());
        command
    }

    //--- Power

    /// Gives it power. It boots while the caller continues.
    ///
    /// The node loses its power when the calling thread ends, so that none outlives a test that is
    /// killed.
    ///
    /// # Panics
    ///
    /// Panics if it has power already, or PID 1 does not come up.
    pub fn start(&mut self) {
        assert!(self.running.is_none(), "{} runs", self.name);
        self.machine.plug();
        let cgroup = Cgroup::new(&self.name);
        let console = File::create(self.disk.join("console")).expect("the disk is writable");
        let script = format!(
            "{MOUNT_ROOT}\n\
             shift 2; for group; do [ \"$group\" != -- ] || break; shift; \
               echo $$ >\"$group/cgroup.procs\"; done; shift\n\
             exec setpriv --pdeathsig KILL systemd-nspawn --directory=\"$disk/root\" \
               --bind=\"$disk/containers:/var/lib/containers\" --bind=\"$disk/outpost:/var/lib/outpost\" \"$@\""
        );
        let mut command = self.prepared(&script);
        command
            .args(cgroup.directories())
            .arg("--")
            .args(NSPAWN)
            .arg(format!("--machine={}", self.machine.namespace()))
            .arg(format!("--hostname={}", self.name))
            .arg(format!(
                "--network-namespace-path=/run/netns/{}",
                self.machine.namespace()
            ))
            .envs([
                ("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1"),
                ("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "network"),
                ("SYSTEMD_SECCOMP", "0"),
            ])
            .stdin(Stdio::null())
            .stderr(console.try_clone().expect("a descriptor is free"))
            .stdout(console);
        let mut nspawn = command.spawn().expect("util-linux is installed");
        let leader = wait::until("PID 1 of a node", PATIENCE, || {
            let ended = nspawn.try_wait().expect("own child");
            assert!(
                ended.is_none(),
                "{} did not start: {}",
                self.name,
                self.console()
            );
            first_process_of(&nspawn)
        });
        self.running = Some(Running {
            nspawn,
            leader,
            _cgroup: cgroup,
        });
    }

    /// Waits until systemd has finished booting, and says how that went: `running`, or `degraded` if a
    /// unit failed.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_booted(&self) -> String {
        let limit = PATIENCE.as_secs().to_string();
        wait::until_at(LOOK, &format!("{} boots", self.name), PATIENCE, || {
            // Fails at once until systemd listens, and is answered only when it has finished.
            let ask = [
                "timeout",
                &limit,
                "systemctl",
                "is-system-running",
                "--wait",
            ];
            let (_, state, _) = self.try_run(&ask);
            let state = state.trim();
            matches!(state, "running" | "degraded").then(|| state.to_owned())
        })
    }

    /// Takes its power: every process is gone at once, nothing is said or written any more.
    ///
    /// Earlier writes are there afterwards, flushed or not: the page cache belongs to the
    /// machine of the tests.
    ///
    /// # Panics
    ///
    /// Panics if it has no power.
    pub fn cut_power(&mut self) {
        let mut running = self.running.take().expect("a node with power");
        kill_process(running.leader, Signal::KILL).expect("PID 1 is there");
        running.nspawn.wait().expect("own child");
        self.machine.reset();
    }

    /// Shuts it down as `poweroff` does, and waits for that.
    ///
    /// # Panics
    ///
    /// Panics if it has no power, or does not end in time.
    pub fn shut_down(&mut self) {
        let (_, _, _) = self.try_run(&["systemctl", "--no-block", "poweroff"]);
        let mut running = self.running.take().expect("a node with power");
        wait::until(&format!("{} shuts down", self.name), PATIENCE, || {
            running.nspawn.try_wait().expect("own child")
        });
        self.machine.reset();
    }

    /// Whether it has power.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    //--- Inside

    /// A command inside, as root and with nothing but its own environment.
    ///
    /// # Panics
    ///
    /// Panics if the node has no power.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let leader = self.running.as_ref().expect("a node with power").leader;
        // A program inside may set the clock no more than the node may.
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-sys_time,-sys_module,-sys_boot", "nsenter"])
            .arg(format!("--target={}", leader.as_raw_nonzero()))
            .args(["-m", "-u", "-i", "-n", "-p", "-C", "--", "env", "-i"])
            .args(["HOME=/root", "TERM=dumb"])
            .arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
            .arg(program);
        command
    }

    /// Runs a command inside to its end: exit status, what it printed, what it complained about.
    #[must_use]
    pub fn try_run(&self, command: &[&str]) -> (ExitStatus, String, String) {
        let (program, arguments) = command.split_first().expect("a program");
        let mut inside = self.command(program);
        inside.args(arguments);
        run(inside)
    }

    /// As [`Self::try_run`], for what has to succeed: what it printed.
    ///
    /// # Panics
    ///
    /// Panics if it does not.
    #[track_caller]
    pub fn run(&self, command: &[&str]) -> String {
        let (status, out, complaint) = self.try_run(command);
        assert!(
            status.success(),
            "{}: {}: {status}\n{out}{complaint}",
            self.name,
            command.join(" ")
        );
        out
    }

    /// The output of its console.
    #[must_use]
    pub fn console(&self) -> String {
        std::fs::read_to_string(self.disk.join("console")).unwrap_or_default()
    }

    /// The units that failed, and the end of what each of them logged.
    #[must_use]
    pub fn failures(&self) -> String {
        let (_, list, _) = self.try_run(&["systemctl", "--failed", "--plain", "--no-legend"]);
        let mut text = String::new();
        for unit in list.lines().filter_map(|line| line.split(' ').next()) {
            let (_, log, _) = self.try_run(&["journalctl", "--no-pager", "-n", "20", "-u", unit]);
            text.push_str(&format!("{}: {unit}\n{log}", self.name));
        }
        text
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.running.is_some() {
            let (_, log, _) = self.try_run(&["journalctl", "--no-pager", "-n", "60", "-o", "cat"]);
            eprintln!("--- journal of {}\n{}{log}---", self.name, self.failures());
        }
        if let Some(mut running) = self.running.take() {
            // It may have ended by itself.
            let _ = kill_process(running.leader, Signal::KILL);
            drop(running.nspawn.wait());
        }
    }
}

/// The process that nspawn runs as PID 1: its child that has become systemd.
fn first_process_of(nspawn: &Child) -> Option<Pid> {
    let parent = nspawn.id();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    children.ok()?.split_whitespace().find_map(|child| {
        let name = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        let pid = child.parse().ok().and_then(Pid::from_raw);
        pid.filter(|_| name.trim() == "systemd")
    })
}

/// Sets `$disk` and `$base` from the first two arguments, and mounts the root.
const MOUNT_ROOT: &str = "disk=$1 base=$2\n\
    mount -t overlay overlay \
      -o \"lowerdir=$base,upperdir=$disk/upper,workdir=$disk/work\" \"$disk/root\"";

/// The path of Ignition in Debian's package.
const ENGINE: &str = "/usr/lib/dracut/modules.d/30ignition/ignition";

/// The arguments of every node.
const NSPAWN: [&str; 10] = [
    "--quiet",
    "--register=no",
    "--keep-unit",
    // The clock and the kernel are those of the machine that runs the tests.
    "--capability=all",
    "--drop-capability=CAP_SYS_TIME,CAP_SYS_MODULE,CAP_SYS_BOOT",
    "--resolv-conf=off",
    "--timezone=off",
    "--link-journal=no",
    "--console=pipe",
    "--boot",
];

/// Time between two looks into a node: each starts some programs there, and nodes have these processors
/// to themselves only if no process looks all the time.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// How long anything may take. Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(300);
