//! A flow on its way from one balancer to another, of this process or of its successor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use l4_core::flow::Known;
use l4_core::handover::DatagramFlow;

use super::flow_socket::FlowSocket;

/// A flow that leaves. Its socket is the balancer's until that is dropped.
#[derive(Debug)]
pub struct OutgoingFlow {
    pub(super) frontend: Arc<str>,
    /// The inode of the socket that clients send to.
    pub(super) listener: u64,
    pub(super) known: Known,
    pub(super) flow_socket: Arc<FlowSocket>,
    pub(super) kept: Option<Box<[u8]>>,
}

/// A flow that arrives.
#[derive(Debug)]
pub struct IncomingFlow {
    pub(super) frontend: Arc<str>,
    pub(super) listener: u64,
    pub(super) known: Known,
    /// Connected to the server.
    pub(super) socket: OwnedFd,
    pub(super) kept: Option<Box<[u8]>>,
}

impl OutgoingFlow {
    /// The description of a flow for another process, besides its socket.
    pub(crate) fn describe(&self) -> DatagramFlow {
        let known = &self.known;
        DatagramFlow {
            frontend: self.frontend.to_string(),
            listener: self.listener,
            client: Some(known.client),
            local: known.local,
            server: known.server.to_string(),
            server_address: Some(known.server_address),
            requests: known.requests,
            responses: known.responses,
            idle: known.idle,
            kept: self.kept.as_deref().unwrap_or_default().to_vec(),
        }
    }

    /// The socket that is connected to its server.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.flow_socket.socket.as_fd()
    }

    /// For another balancer of this process, once its own is gone.
    pub(super) fn arrive(self) -> Option<IncomingFlow> {
        let flow_socket = Arc::into_inner(self.flow_socket)?;
        Some(IncomingFlow {
            frontend: self.frontend,
            listener: self.listener,
            known: self.known,
            socket: flow_socket.socket.into(),
            kept: self.kept,
        })
    }
}

impl IncomingFlow {
    /// A flow as another process describes it and its socket; none when there is no address of both ends.
    pub(crate) fn assemble(it: DatagramFlow, socket: OwnedFd) -> Option<Self> {
        Some(Self {
            frontend: it.frontend.into(),
            listener: it.listener,
            known: Known {
                client: it.client?,
                local: it.local,
                server: it.server.into(),
                server_address: it.server_address?,
                requests: it.requests,
                responses: it.responses,
                idle: it.idle,
            },
            socket,
            kept: Some(it.kept)
                .filter(|kept| !kept.is_empty())
                .map(Vec::into_boxed_slice),
        })
    }
}
