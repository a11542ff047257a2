//! The privileges and system calls that this process gives up once it runs, since timekeeping does not need them.
//!
//! Three things. Capabilities are dropped but for those that are used ([`Capabilities`]); nothing that is executed gains any (no
//! new privileges); and system calls that are not on a list are refused with EPERM (seccomp, over all threads). So no program is
//! executed, no process is made or traced, and modules, mounts and namespaces are out of reach. A refused call is an error like
//! any other and not the end of the process: a time server that dies because a library has begun to make another harmless call
//! would be the worse choice.
//!
//! Capabilities belong to threads: [`Capabilities::keep`] is for the thread that calls it and for those that it starts later, so
//! it is called before threads are started. [`forbid`] reaches every thread, and is called when everything is open.

mod calls;
mod filter;

use std::io;

use sys::privilege;

/// The capabilities that keeping the time may need (`capabilities(7)`); all others are dropped.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one of the kernel's, on or off"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `CAP_SYS_TIME`: the clock is set.
    pub set_time: bool,
    /// `CAP_NET_BIND_SERVICE`: ports below 1024 are bound, at the start or on a reload.
    pub bind_ports: bool,
    /// `CAP_NET_RAW`: PTP over Ethernet.
    pub raw_packets: bool,
    /// `CAP_NET_ADMIN`: to make the NIC timestamp packets.
    pub configure_cards: bool,
}

impl Capabilities {
    /// Drops all others, of this thread and of those that it starts later. Adds none.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn keep(self) -> io::Result<()> {
        let kept = self.bits();
        privilege::drop_bounds(kept);
        privilege::keep_capabilities(privilege::permitted()? & kept)?;
        privilege::no_new_privileges()
    }

    /// As the kernel numbers them (linux/capability.h).
    fn bits(self) -> u64 {
        [
            (self.set_time, 25),
            (self.bind_ports, 10),
            (self.raw_packets, 13),
            (self.configure_cards, 12),
        ]
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .fold(0, |bits, (_, number)| bits | 1 << number)
    }
}

/// From here on every thread of the process makes the system calls of the list, and no other.
///
/// # Errors
///
/// The kernel knows no seccomp, or refuses.
pub fn forbid() -> io::Result<()> {
    privilege::no_new_privileges()?;
    let program = filter::program(&calls::allowed(std::process::id()));
    let program: Vec<_> = program.into_iter().map(Into::into).collect();
    privilege::install_filter(&program)
}

#[cfg(test)]
mod tests;
