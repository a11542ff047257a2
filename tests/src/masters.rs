//! TCP responders that stand for the masters of a site.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::binaries::binary;
use crate::netns::Machine;

/// Something that accepts connections on some addresses, and can be taken away.
#[derive(Debug)]
pub struct Master<'a> {
    machine: Option<&'a Machine>,
    addresses: Vec<SocketAddr>,
    child: Option<Child>,
}

impl<'a> Master<'a> {
    /// Starts one on this machine.
    #[must_use]
    pub fn local(addresses: Vec<SocketAddr>) -> Self {
        Self::start(None, addresses)
    }

    /// Starts one on a machine of a network.
    #[must_use]
    pub fn on(machine: &'a Machine, addresses: Vec<SocketAddr>) -> Self {
        Self::start(Some(machine), addresses)
    }

    fn start(machine: Option<&'a Machine>, addresses: Vec<SocketAddr>) -> Self {
        let mut master = Self {
            machine,
            addresses,
            child: None,
        };
        master.up();
        master
    }

    /// Its connections are refused from here on.
    ///
    /// # Panics
    ///
    /// Panics if the operating system does not let go of the process.
    pub fn down(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("own child");
            child.wait().expect("own child");
        }
    }

    /// It accepts connections again.
    ///
    /// # Panics
    ///
    /// Panics if an address is taken.
    pub fn up(&mut self) {
        if self.child.is_some() {
            return;
        }
        let program = binary("responder");
        let mut command = match self.machine {
            Some(machine) => machine.command(program),
            None => Command::new(program),
        };
        command.args(self.addresses.iter().map(ToString::to_string));
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("responder starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("responder writes");
        assert_eq!(line, "ready\n", "responder on {:?}", self.addresses);
        self.child = Some(child);
    }
}

impl Drop for Master<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
