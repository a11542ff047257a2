//! A link that takes its time: frames between a machine and the wire are held back, which needs no module of the kernel but TAP.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::nic;

/// The frames that are on their way in one direction; those beyond are lost, as in any queue.
const MAX_FRAMES: usize = 20_000;
/// The largest frame: what a link without offloads carries.
const MAX_OCTETS: usize = 2048;
/// How long it takes at most until a relay notices that it is to end.
const NOTICED: Duration = Duration::from_millis(50);

type Due = (Instant, Vec<u8>);

/// Holds frames back in both directions until it is dropped.
#[derive(Debug)]
pub struct Relay {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Makes two interfaces of these names in the network namespace of this thread, and carries frames from one to the other.
    ///
    /// # Errors
    ///
    /// When there is no `/dev/net/tun`, or the names are taken.
    pub fn start(names: [&str; 2], delay: Duration) -> io::Result<Self> {
        let make = |name: &str| nic::tap(name).map(Arc::new);
        let [near, far] = [make(names[0])?, make(names[1])?];
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for [from, to] in [[&near, &far], [&far, &near]] {
            let (sender, receiver) = sync_channel(MAX_FRAMES);
            let (from, to, is_over) = (Arc::clone(from), Arc::clone(to), Arc::clone(&is_over));
            threads.push(std::thread::spawn(move || {
                take(&from, delay, &sender, &is_over);
            }));
            threads.push(std::thread::spawn(move || give(&to, &receiver)));
        }
        Ok(Self { is_over, threads })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn take(mut from: &File, delay: Duration, sender: &SyncSender<Due>, is_over: &AtomicBool) {
    let mut frame = [0; MAX_OCTETS];
    let patience = Timespec::try_from(NOTICED).expect("it is short");
    while !is_over.load(Ordering::Relaxed) {
        let mut ready = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        if poll(&mut ready, Some(&patience)).is_ok_and(|n| n > 0)
            && let Ok(length) = from.read(&mut frame)
        {
            let due = (Instant::now() + delay, frame[..length].to_vec());
            // A full queue loses it.
            drop(sender.try_send(due));
        }
    }
}

fn give(mut to: &File, receiver: &Receiver<Due>) {
    for (at, frame) in receiver {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        // An interface that is down takes none.
        drop(to.write(&frame));
    }
}
