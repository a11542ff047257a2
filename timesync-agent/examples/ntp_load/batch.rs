//! Batches of requests and answers: `sendmmsg` and `recvmmsg`.

use std::io::IoSlice;
use std::net::UdpSocket;

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use sys::batch::{self, Asked, Wait};

/// Datagrams of one system call.
const SIZE: usize = 64;
/// Octets of a request and of its answer.
const LENGTH: usize = 48;

/// Buffers for one call.
pub(crate) struct Batch {
    requests: Box<[[u8; LENGTH]; SIZE]>,
    answers: batch::Batch,
    number: u64,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let mut request = [0; LENGTH];
        // Version 4, mode 3.
        request[0] = 0x23;
        let asked = Asked {
            destination: false,
            stamps: false,
            merged: false,
        };
        let longest = batch::Longest {
            received: LENGTH,
            reply: LENGTH,
        };
        Self {
            requests: Box::new([request; SIZE]),
            answers: batch::Batch::new(SIZE, 1, longest, asked),
            number: 0,
        }
    }

    /// Sends this number of requests, at most a batch; returns the number sent.
    pub(crate) fn send(&mut self, socket: &UdpSocket, count: usize) -> usize {
        let count = count.min(SIZE);
        if count == 0 {
            return 0;
        }
        for request in self.requests.iter_mut().take(count) {
            self.number += 2;
            if let Some(transmit) = request.last_chunk_mut() {
                *transmit = self.number.to_be_bytes();
            }
        }
        let vectors = self
            .requests
            .each_ref()
            .map(|request| [IoSlice::new(request)]);
        let mut controls = [(); SIZE].map(|()| SendAncillaryBuffer::default());
        let mut messages: Vec<MMsgHdr<'_>> = vectors
            .iter()
            .zip(&mut controls)
            .take(count)
            .map(|(vector, control)| MMsgHdr::new(vector, control))
            .collect();
        sendmmsg(socket, &mut messages, SendFlags::empty()).unwrap_or(0)
    }

    /// Receives at most a batch of the answers that have arrived; returns the number received, and how many of these are not
    /// answers.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> (usize, usize) {
        let received = self.answers.receive_many(socket, Wait::No).unwrap_or(0);
        let mut n_wrong = 0;
        for index in 0..received {
            let is_answer = self.answers.message(index).is_some_and(|(message, _)| {
                // Mode 4, and not unsynchronised.
                let first = message.payload.first().copied().unwrap_or_default();
                message.payload.len() == LENGTH && first & 7 == 4 && first >> 6 != 3
            });
            n_wrong += usize::from(!is_answer);
        }
        (received, n_wrong)
    }
}
