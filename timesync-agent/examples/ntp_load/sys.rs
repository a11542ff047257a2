//! Batches of requests and answers: `sendmmsg` and `recvmmsg`.
#![expect(unsafe_code, reason = "sendmmsg, recvmmsg and their message headers")]

use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::ptr;

/// Datagrams of one system call.
const SIZE: usize = 64;
/// Octets of a request, and room for an answer that is too long.
const ROOM: usize = 96;
/// Octets of a request and of its answer.
const LENGTH: usize = 48;

/// Buffers, and headers that are made from them for each call.
pub(crate) struct Batch {
    requests: Box<[[u8; LENGTH]; SIZE]>,
    answers: Box<[[u8; ROOM]; SIZE]>,
    number: u64,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let mut request = [0; LENGTH];
        // Version 4, mode 3.
        request[0] = 0x23;
        Self {
            requests: Box::new([request; SIZE]),
            answers: Box::new([[0; ROOM]; SIZE]),
            number: 0,
        }
    }

    /// Sends so many requests, but a batch at most; how many were sent.
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
        let mut vectors = self.requests.each_mut().map(|request| libc::iovec {
            iov_base: request.as_mut_ptr().cast(),
            iov_len: LENGTH,
        });
        let mut headers = headers(&mut vectors);
        let length = u32::try_from(count).unwrap_or(0);
        // SAFETY: The first `count` headers point to vectors and requests that live through the call.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), length, 0) };
        usize::try_from(sent).unwrap_or(0)
    }

    /// Receives what is there, up to a batch: how many, and how many of them are no answers.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> (usize, usize) {
        let mut vectors = self.answers.each_mut().map(|answer| libc::iovec {
            iov_base: answer.as_mut_ptr().cast(),
            iov_len: ROOM,
        });
        let mut headers = headers(&mut vectors);
        // SAFETY: The headers point to vectors and buffers that live through the call and are borrowed exclusively.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                u32::try_from(SIZE).unwrap_or(0),
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).unwrap_or(0);
        let is_wrong = |(header, answer): &(&libc::mmsghdr, &[u8; ROOM])| {
            // Mode 4, and not unsynchronised.
            let first = answer.first().copied().unwrap_or_default();
            usize::try_from(header.msg_len) != Ok(LENGTH) || first & 7 != 4 || first >> 6 == 3
        };
        let came = headers.iter().zip(self.answers.iter()).take(received);
        (received, came.filter(is_wrong).count())
    }
}

fn headers(vectors: &mut [libc::iovec; SIZE]) -> [libc::mmsghdr; SIZE] {
    vectors.each_mut().map(|vector| {
        // SAFETY: The structure is of integers and pointers, for which zero is a value.
        let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header
    })
}
