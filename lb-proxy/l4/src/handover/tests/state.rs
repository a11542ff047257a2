//! What a successor is told besides connections.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::thread;

use super::super::ask;
use super::super::channel::{Channel, HandoverSocket};
use super::{hello_of, old};
use crate::relay::tests::rig::{LIMIT, Rig};
use l4_core::handover::{Message, WITH_FLOWS};

/// What is in the one descriptor of that name.
fn state_in(descriptors: Vec<(String, OwnedFd)>) -> String {
    let mut named = descriptors.into_iter().filter(|(name, _)| name == "state");
    let (_, descriptor) = named.next().unwrap();
    assert!(named.next().is_none());
    let mut file = File::from(descriptor);
    file.seek(SeekFrom::Start(0)).unwrap();
    std::io::read_to_string(file).unwrap()
}

#[test]
fn the_state_is_that_of_the_moment_of_the_take_over() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[]).start();
    let was = old(&mut rig, &path);
    let mut predecessor = ask(&path).unwrap().unwrap();
    assert_eq!(state_in(predecessor.take_others()), "state 1");
    // A start takes a while.
    assert_eq!(was.asked.load(Ordering::Relaxed), 1);
    let next = Rig::new(&[]).start();
    let taken = predecessor.take(next.engine()).unwrap();
    assert_eq!(state_in(taken.state), "state 2");
    was.gone.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_successor_of_the_version_before_is_not_told_the_state_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[]).start();
    let was = old(&mut rig, &path);
    let mut channel = Channel::open(&path).unwrap().unwrap();
    channel.send(&hello_of(WITH_FLOWS), &[]).unwrap();
    let mut said = Vec::new();
    loop {
        let (message, _fds) = channel.receive().unwrap();
        let answer = match &message {
            Message::Sockets(_) => Some(Message::Acknowledged),
            Message::SocketsEnd => Some(Message::Take),
            Message::End { connections: 0, .. } => Some(Message::Received { connections: 0 }),
            _ => None,
        };
        said.push(message);
        match answer {
            Some(answer) => channel.send(&answer, &[]).unwrap(),
            None if said.last() == Some(&Message::Yours) => break,
            None => {}
        }
    }
    let n_sockets = said.iter().filter(|it| matches!(it, Message::Sockets(_)));
    assert_eq!(n_sockets.count(), 1, "{said:?}");
    was.gone.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_predecessor_of_the_version_before_does_not_tell_the_state_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let door = HandoverSocket::open(&path).unwrap();
    let never = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let predecessor = thread::spawn(move || {
        let mut channel = loop {
            if let Some(channel) = door.accept(&never).unwrap() {
                break channel;
            }
        };
        let end = Message::End {
            connections: 0,
            bytes: 0,
            flows: 0,
        };
        let talk = [
            vec![hello_of(WITH_FLOWS), Message::SocketsEnd],
            vec![end],
            vec![Message::Yours],
        ];
        for answers in talk {
            channel.receive().unwrap();
            for answer in answers {
                channel.send(&answer, &[]).unwrap();
            }
        }
    });
    let next = Rig::new(&[]).start();
    let taken = ask(&path).unwrap().unwrap().take(next.engine()).unwrap();
    assert!(taken.state.is_empty());
    predecessor.join().unwrap();
}
