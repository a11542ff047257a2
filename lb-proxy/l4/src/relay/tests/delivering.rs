//! Bytes that a client has not read yet when its session ends.

use std::net::TcpStream;

use balance::pool::Eligibility;
use balance::table::OnDown;

use super::rig::{Rig, accept, is_reset, pattern, read_exact, read_to_end, server, until};
use crate::relay::Filter;

/// More than the client's kernel takes by itself, less than both kernels do.
const LENGTH: usize = 300_000;

/// A session whose server has sent bytes that the kernel has taken and that the client has not read.
fn waiting(rig: &Rig, far: &mut TcpStream, sent: &[u8]) {
    use std::io::Write as _;
    far.write_all(sent).unwrap();
    until("bytes", || {
        let sessions = rig.engine().sessions(&Filter::all());
        sessions[0].bytes_out == sent.len() as u64
    });
}

#[test]
fn a_server_that_goes_down_takes_no_byte_with_it_that_was_accepted() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log();
    rig.policy.on_down = OnDown::Reset;
    let mut rig = rig.start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    let sent = pattern(LENGTH, 1);
    waiting(&rig, &mut far, &sent);
    rig.pool.servers[0].eligibility = Eligibility::Down;
    rig.publish();
    assert!(read_exact(&mut client, sent.len()) == sent);
    assert!(is_reset(&read_to_end(&mut client)));
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["DD"]);
}

#[test]
fn an_operator_does_not_wait_for_a_client() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).with_log().start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    waiting(&rig, &mut far, &pattern(LENGTH, 2));
    assert_eq!(rig.engine().kill(&Filter::all()), 1);
    assert!(is_reset(&read_to_end(&mut client)));
    assert_eq!(rig.terminations(), ["KD"]);
}

#[test]
fn a_process_that_stops_delivers_to_clients_that_read() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log().start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    let sent = pattern(LENGTH, 3);
    waiting(&rig, &mut far, &sent);
    let engine = rig.engine.take();
    let stopping = std::thread::spawn(move || drop(engine));
    assert!(read_exact(&mut client, sent.len()) == sent);
    assert!(is_reset(&read_to_end(&mut client)));
    stopping.join().unwrap();
    assert_eq!(rig.terminations(), ["PD"]);
}
