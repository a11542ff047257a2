//! A bare machine: Debian 12 without a service, with this checkout and Rust.
//!
//! It is a root of its own in namespaces for mounts, processes and the network, which has only loopback. The checkout lies
//! in the home of its user; whatever is written there is gone with the machine. The programs under test are its
//! `target/release`, and `cargo` is a stand-in that finds them built.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Root;
use crate::binaries::{binary, checkout};
use crate::scratch::Scratch;
use crate::wait;

/// The user of a bare machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// root.
    Root,
    /// A user with a home, and without privileges.
    Plain,
}

impl User {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Plain => 1000,
        }
    }

    fn home(self) -> &'static str {
        match self {
            Self::Root => "/root",
            Self::Plain => "/home/user",
        }
    }
}

/// The machine. Dropped, everything on it ends.
#[derive(Debug)]
pub struct BareMachine {
    user: User,
    unshare: Child,
    /// Its first process, as this machine numbers it.
    leader: String,
    place: Scratch,
}

impl BareMachine {
    /// Starts one over `root`.
    ///
    /// # Panics
    ///
    /// Panics if this machine does not allow it.
    #[must_use]
    pub fn start(root: &Root, user: User) -> Self {
        let place = Scratch::new("bare").unkept();
        let programs = binary("outpost");
        let mut command = Command::new("setpriv");
        command
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--net",
                "--pid",
            ])
            .args(["--fork", "--kill-child", "--propagation", "private"])
            .args(["sh", "-euc", INIT, "sh"])
            .arg(root.path())
            .arg(place.path())
            .arg(checkout())
            .arg(programs.parent().expect("programs lie in a directory"))
            .arg(user.home())
            .arg(user.number().to_string())
            .stdin(Stdio::null());
        let mut unshare = command.spawn().expect("util-linux is installed");
        let parent = unshare.id();
        let leader = wait::until("a bare machine", PATIENCE, || {
            let ended = unshare.try_wait().expect("own child");
            assert!(ended.is_none(), "a bare machine did not start: {ended:?}");
            let children = format!("/proc/{parent}/task/{parent}/children");
            let children = std::fs::read_to_string(children).ok()?;
            let leader = children.split_whitespace().next()?.to_owned();
            let name = std::fs::read_to_string(format!("/proc/{leader}/comm")).ok()?;
            (name.trim() == "sleep").then_some(leader)
        });
        Self {
            user,
            unshare,
            leader,
            place,
        }
    }

    /// A script in a shell of its user, in the checkout.
    #[must_use]
    pub fn shell(&self, script: &str) -> Command {
        let (user, home) = (self.user.number(), self.user.home());
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.leader))
            .args(["--mount", "--net", "--pid", "--", "chroot"])
            .arg(format!("--userspec={user}:{user}"))
            .arg(self.place.join("root"))
            .args(["env", "-i", "TERM=dumb"])
            .arg(format!("HOME={home}"))
            .arg(format!(
                "PATH={home}/.cargo/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            ))
            .args(["sh", "-c", "cd \"$HOME/outpost\" && eval \"$0\"", script]);
        command
    }
}

impl Drop for BareMachine {
    fn drop(&mut self) {
        // Its first process goes with it, and with that all others.
        drop(self.unshare.kill());
        drop(self.unshare.wait());
    }
}

/// The first process of a machine: it mounts what the machine has, and then waits.
const INIT: &str = r#"
base=$1 place=$2 checkout=$3 programs=$4 home=$5 user=$6
mount -t tmpfs -o mode=755 tmpfs "$place"
mkdir "$place/changes" "$place/work" "$place/root" "$place/checkout" "$place/checkout-work"
root=$place/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$place/changes,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root$home/.cargo/bin" "$root$home/outpost"
cp "$checkout/tests/nodes/built/cargo" "$root$home/.cargo/bin/"
mount -t overlay overlay -o "lowerdir=$checkout,upperdir=$place/checkout,workdir=$place/checkout-work" "$root$home/outpost"
mkdir -p "$root$home/outpost/target/release"
mount --bind "$programs" "$root$home/outpost/target/release"
chown -R "$user:$user" "$root$home/.cargo"
ip link set lo up
exec sleep infinity
"#;

/// How long its start may take.
const PATIENCE: Duration = Duration::from_secs(60);
