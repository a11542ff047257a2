//! Debian's keepalived on a machine.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::netns::Machine;
use crate::scratch::Scratch;
use crate::wait;

/// One `vrrp_instance`, as much of it as the tests vary.
#[derive(Clone, Debug)]
pub struct Instance {
    /// 2 or 3.
    pub version: u8,
    /// `virtual_router_id`.
    pub router_id: u8,
    /// `priority`.
    pub priority: u8,
    /// `advert_int`.
    pub interval: Duration,
    /// `virtual_ipaddress`.
    pub addresses: Vec<IpAddr>,
    /// `unicast_src_ip` and `unicast_peer`.
    pub unicast: Option<(IpAddr, IpAddr)>,
    /// `auth_pass`.
    pub password: Option<String>,
}

impl Instance {
    fn text(&self) -> String {
        let mut text =
            String::from("global_defs {\n  vrrp_skip_check_adv_addr\n  script_user root\n}\n");
        let mut line = |words: &str| writeln!(text, "{words}").expect("strings take everything");
        line("vrrp_instance outpost {");
        line("  state BACKUP\n  interface eth0");
        line(&format!("  version {}", self.version));
        line(&format!("  virtual_router_id {}", self.router_id));
        line(&format!("  priority {}", self.priority));
        line(&format!("  advert_int {}", self.interval.as_secs_f64()));
        if let Some((source, peer)) = self.unicast {
            line(&format!(
                "  unicast_src_ip {source}\n  unicast_peer {{\n    {peer}\n  }}"
            ));
        }
        if let Some(password) = &self.password {
            line(&format!(
                "  authentication {{\n    auth_type PASS\n    auth_pass {password}\n  }}"
            ));
        }
        line("  virtual_ipaddress {");
        for address in &self.addresses {
            let length = if address.is_ipv6() { 128 } else { 32 };
            line(&format!("    {address}/{length}"));
        }
        line("  }\n}");
        text
    }
}

/// A running keepalived. Dropped, it is killed.
#[derive(Debug)]
pub struct Keepalived {
    child: Child,
    scratch: Scratch,
}

impl Keepalived {
    /// Starts it, and waits until it has begun: what that takes is the machine's, not the protocol's.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, or does not begin.
    #[must_use]
    pub fn start(machine: &Machine, instance: &Instance) -> Self {
        Self::start_with(machine, &instance.text())
    }

    /// As [`start`](Self::start), with this file.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, or does not begin.
    #[must_use]
    pub fn start_with(machine: &Machine, text: &str) -> Self {
        let scratch = Scratch::new("keepalived");
        let config = scratch.write("keepalived.conf", text);
        let log = std::fs::File::create(scratch.join("log")).expect("scratch file is made");
        let mut command = machine.command("keepalived");
        command.args(["--dont-fork", "--log-console", "--log-detail", "--vrrp"]);
        command.arg("--use-file").arg(config);
        command.arg("--pid").arg(scratch.join("pid"));
        command.arg("--vrrp_pid").arg(scratch.join("vrrp.pid"));
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        let keepalived = Self {
            child: command.spawn().expect("keepalived is installed"),
            scratch,
        };
        wait::for_it("keepalived begins", PATIENCE, || {
            keepalived.log().contains("Startup complete")
        });
        keepalived
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.join("log")).unwrap_or_default()
    }

    /// Asks it to end, which it does with a last word.
    ///
    /// # Panics
    ///
    /// Panics if it does not.
    pub fn stop(mut self) {
        signal(self.child.id(), Signal::TERM);
        wait::until("keepalived ends", PATIENCE, || {
            self.child.try_wait().expect("own child")
        });
    }

    /// Kills it as a crash would: without a last word, its addresses where they are.
    pub fn kill(self) {
        // `drop` does.
        drop(self);
    }

    /// It does not run for a while.
    pub fn pause(&self) {
        self.signal_all(Signal::STOP);
    }

    /// It runs again.
    pub fn go_on(&self) {
        self.signal_all(Signal::CONT);
    }

    fn signal_all(&self, with: Signal) {
        // Asked for before and after: one that is killed has no children any more, one that runs on may
        // have others.
        let mut children = self.children();
        signal(self.child.id(), with);
        children.extend(self.children());
        for child in children {
            signal(child, with);
        }
    }

    fn children(&self) -> BTreeSet<u32> {
        let parent = self.child.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let ids = children.split_whitespace();
        ids.filter_map(|id| id.parse().ok()).collect()
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal_all(Signal::STOP);
            self.signal_all(Signal::KILL);
        }
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- log of keepalived\n{}---", self.log());
        }
    }
}

fn signal(id: u32, with: Signal) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        kill_process(id, with).ok();
    }
}

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
