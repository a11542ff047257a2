//! The sandbox itself, in a process of its own: it cannot be left again.

use std::fs;
use std::io::ErrorKind;
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::*;

/// Tells a child of these tests that it is one, and which directory it may write to.
const CHILD: &str = "OUTPOST_SANDBOX_CHILD";

/// A line of what the kernel says of this thread.
fn status(name: &str) -> String {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_process_in_the_sandbox_keeps_what_it_needs_and_nothing_else() {
    let Some(directory) = std::env::var_os(CHILD) else {
        let directory = tempfile::tempdir().unwrap();
        let test = "tests::a_process_in_the_sandbox_keeps_what_it_needs_and_nothing_else";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, directory.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{told}\n{errors}");
        assert!(told.contains("everything was tried"), "{told}\n{errors}");
        return;
    };
    // A thread that was there before is in it, too.
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let earlier = thread::spawn(move || {
        gone.recv().unwrap();
        Command::new("true").spawn().unwrap_err().kind()
    });
    let kept = Capabilities {
        set_time: true,
        ..Capabilities::default()
    };
    kept.keep().unwrap();
    forbid().unwrap();
    assert_eq!(status("Seccomp"), "2");
    assert_eq!(status("NoNewPrivs"), "1");
    assert_eq!(status("CapInh"), "0000000000000000");
    let set_time = 1_u64 << 25;
    let effective = u64::from_str_radix(&status("CapEff"), 16).unwrap();
    assert_eq!(effective & !set_time, 0, "{effective:#x}");
    go.send(()).unwrap();
    assert_eq!(earlier.join().unwrap(), ErrorKind::PermissionDenied);
    let refused = Command::new("true").spawn().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    // What keeping the time needs works.
    thread::spawn(|| thread::sleep(Duration::from_millis(1)))
        .join()
        .unwrap();
    thread::Builder::new()
        .name("named".to_owned())
        .spawn(|| ())
        .unwrap()
        .join()
        .unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1);
    UnixDatagram::unbound().unwrap();
    assert!(("localhost", 123).to_socket_addrs().is_ok());
    let path = Path::new(&directory).join("drift");
    fs::write(&path, "12.3 0.4\n").unwrap();
    let renamed = path.with_extension("new");
    fs::rename(&path, &renamed).unwrap();
    fs::remove_file(&renamed).unwrap();
    // So does the runtime of the other half of the process.
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    });
    // A process may end itself, as when a successor asks for what it has, and nobody else.
    let signal = rustix::process::Signal::CONT;
    rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    let parent = rustix::process::getppid().unwrap();
    assert!(rustix::process::kill_process(parent, signal).is_err());
    println!("everything was tried");
}

#[test]
fn capabilities_have_the_kernels_numbers() {
    let all = Capabilities {
        set_time: true,
        bind_ports: true,
        raw_packets: true,
        configure_cards: true,
    };
    assert_eq!(all.bits(), 0x0200_3400);
    assert_eq!(Capabilities::default().bits(), 0);
}
