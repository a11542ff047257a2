//! Links and addresses of this node, by rtnetlink.
//!
//! One task follows the kernel's messages and keeps a [`View`]; a reader that waits for news sees the
//! latest only, and acts on how things are and not on what happened. From time to time, and whenever
//! the kernel had more news than fitted, it reads everything again.
//!
//! Addresses of virtual routers carry VRRP's number as their protocol (`IFA_PROTO`, `ip address ...
//! proto 112`; kernels before 5.18 forget it), so that what a process has left behind that could not
//! clean up is known as ours.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use daemon::latest::{Latest, Reader};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use netlink_packet_route::route::RouteType;
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};
use rtnetlink::{AddressMessageBuilder, Handle, MulticastGroup, RouteMessageBuilder};
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt};
use tracing::warn;
use vrrp::PROTOCOL;
use vrrp::announce::Hardware;
use vrrp::settings::VirtualAddress;

/// Between two complete looks: this bounds the harm of news that got lost silently.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// How long the kernel may take to answer. It answers at once, or something is very wrong.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How long an address of IPv6 may take from the kernel's answer until it works: the kernel adds its route
/// afterwards, in a task of its own, which takes tens of milliseconds on a busy machine. Announced before,
/// it would draw traffic that no process answers.
const WORKING_LIMIT: Duration = Duration::from_millis(100);

/// Between two looks whether it does.
const WORKING_STEP: Duration = Duration::from_millis(1);

/// News taken before they are published together.
const NEWS_BATCH: usize = 256;

/// The links of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    links: BTreeMap<u32, Link>,
}

/// One link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    name: String,
    /// It is meant to be up, and has a carrier.
    pub(super) is_up: bool,
    /// Ethernet only.
    pub(super) hardware: Option<Hardware>,
    /// In the kernel's order, in which the first is the primary one.
    pub(super) addresses: Vec<LinkAddress>,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkAddress {
    pub(super) entry: VirtualAddress,
    /// A virtual router's.
    pub(super) is_ours: bool,
    /// Not while IPv6 looks for duplicates, or has found one.
    pub(super) is_usable: bool,
}

impl View {
    /// A link by its name.
    pub(super) fn link(&self, name: &str) -> Option<&Link> {
        self.links.values().find(|link| link.name == name)
    }

    /// All links.
    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// Takes in one piece of news, and says whether it was one.
    fn take_in(&mut self, message: &RouteNetlinkMessage) -> bool {
        match message {
            RouteNetlinkMessage::NewLink(message) if is_plain(message) => {
                let index = message.header.index;
                let link = self.links.entry(index).or_default();
                link.describe(message);
            }
            RouteNetlinkMessage::DelLink(message) if is_plain(message) => {
                self.links.remove(&message.header.index);
            }
            RouteNetlinkMessage::NewAddress(message) => {
                let (Some(address), Some(link)) = (address_of(message), self.link_of(message))
                else {
                    return false;
                };
                let known = link.addresses.iter_mut();
                match known.into_iter().find(|known| known.entry == address.entry) {
                    Some(known) => *known = address,
                    None => link.addresses.push(address),
                }
            }
            RouteNetlinkMessage::DelAddress(message) => {
                let (Some(address), Some(link)) = (address_of(message), self.link_of(message))
                else {
                    return false;
                };
                link.addresses.retain(|known| known.entry != address.entry);
            }
            _ => return false,
        }
        true
    }

    fn link_of(&mut self, message: &AddressMessage) -> Option<&mut Link> {
        self.links.get_mut(&message.header.index)
    }
}

impl Link {
    /// Whether it has an address, however long its prefix.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        let mut addresses = self.addresses.iter();
        addresses.any(|known| known.entry.address == address)
    }

    fn describe(&mut self, message: &LinkMessage) {
        self.index = message.header.index;
        let flags = message.header.flags;
        self.is_up = flags.contains(LinkFlags::Up | LinkFlags::Running);
        let is_ethernet = message.header.link_layer_type == LinkLayerType::Ether;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => self.name.clone_from(name),
                LinkAttribute::Address(hardware) if is_ethernet => {
                    self.hardware = hardware.as_slice().try_into().ok();
                }
                _ => {}
            }
        }
    }
}

/// Bridges tell of their ports in messages of the same type.
fn is_plain(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Unspec
}

fn address_of(message: &AddressMessage) -> Option<LinkAddress> {
    let mut local = None;
    let mut peer = None;
    let mut is_ours = false;
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => peer = Some(*address),
            AddressAttribute::Protocol(protocol) => is_ours = *protocol == OURS,
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    Some(LinkAddress {
        entry: VirtualAddress {
            // On a point-to-point link the other one is the peer's; IPv6 has one only.
            address: local.or(peer)?,
            prefix_length: message.header.prefix_len,
        },
        is_ours,
        is_usable: !flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
    })
}

/// The mark that tells our addresses from others'.
const OURS: AddressProtocol = AddressProtocol::Other(PROTOCOL);

//--- Netlink

/// Changes addresses, and follows links and addresses.
#[derive(Debug)]
pub(super) struct Netlink {
    handle: Handle,
    view: Arc<Latest<View>>,
    /// Ends with this.
    _tasks: JoinSet<()>,
}

impl Netlink {
    /// Opens it, and looks at everything once.
    pub(super) async fn start() -> io::Result<Self> {
        let mut tasks = JoinSet::new();
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tasks.spawn(connection);
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ];
        let (connection, _, news) = rtnetlink::new_multicast_connection(&groups)?;
        tasks.spawn(connection);
        let first = look(&handle).await.map_err(io::Error::other)?;
        let view = Latest::new(first);
        let news = news.map(|(message, _)| message);
        tasks.spawn(follow(handle.clone(), news, Arc::clone(&view)));
        Ok(Self {
            handle,
            view,
            _tasks: tasks,
        })
    }

    /// The links and addresses of now.
    pub(super) fn current(&self) -> Arc<View> {
        self.view.current()
    }

    /// The links and addresses, and their changes.
    pub(super) fn reader(&self) -> Reader<View> {
        self.view.reader()
    }

    /// Puts an address on a link, or leaves it there. The kernel takes it off after its lifetime, in whole seconds, if it has one.
    pub(super) async fn add(
        &self,
        index: u32,
        entry: VirtualAddress,
        lifetime: Option<Duration>,
    ) -> Result<(), NetlinkError> {
        let addresses = self.handle.address();
        let request = addresses.add(index, entry.address, entry.prefix_length);
        let mut request = request.replace();
        let message = request.message_mut();
        message.attributes.push(AddressAttribute::Protocol(OURS));
        let mut lifetimes = CacheInfo::default();
        lifetimes.ifa_valid = match lifetime {
            Some(lifetime) => u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX),
            None => u32::MAX,
        };
        lifetimes.ifa_preferred = lifetimes.ifa_valid;
        if entry.address.is_ipv6() {
            // Used at once; that there is one holder is what the election is for.
            message.header.flags = AddressHeaderFlags::Nodad;
            // Deprecated: nothing that this node begins comes from an address that moves (RFC 6724 §5).
            lifetimes.ifa_preferred = 0;
        }
        message
            .attributes
            .push(AddressAttribute::CacheInfo(lifetimes));
        answered(request.execute()).await
    }

    /// Waits until addresses that were added are answered for, or should be.
    pub(super) async fn until_working(&self, entries: &[VirtualAddress]) {
        let mut entries = entries.iter();
        // IPv4 has its route before the kernel answers.
        let last = entries.rfind(|entry| entry.address.is_ipv6());
        let Some(IpAddr::V6(address)) = last.map(|last| last.address) else {
            return;
        };
        let working = async {
            while !self.is_local(address).await {
                tokio::time::sleep(WORKING_STEP).await;
            }
        };
        if tokio::time::timeout(WORKING_LIMIT, working).await.is_err() {
            warn!(%address, "An address is on its link and has no route yet");
        }
    }

    /// Whether what comes for an address stays on this node. It has the address on a link before that.
    async fn is_local(&self, address: Ipv6Addr) -> bool {
        let question = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, 128)
            .build();
        let mut answers = std::pin::pin!(self.handle.route().get(question).execute());
        let answer = answers.next().await;
        answer.is_some_and(|route| route.is_ok_and(|route| route.header.kind == RouteType::Local))
    }

    /// Takes an address off a link; it may not be there.
    pub(super) async fn remove(
        &self,
        index: u32,
        entry: VirtualAddress,
    ) -> Result<(), NetlinkError> {
        let request = self.handle.address().del(message_for(index, entry));
        match answered(request.execute()).await {
            Err(NetlinkError::Refused(rtnetlink::Error::NetlinkError(refusal)))
                if is_absent(refusal.raw_code()) =>
            {
                Ok(())
            }
            result => result,
        }
    }
}

/// The kernel's reason for not carrying out a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetlinkError {
    /// It refused.
    #[error("the kernel refuses")]
    Refused(#[source] rtnetlink::Error),
    /// It did not answer.
    #[error("the kernel does not answer")]
    Silent,
}

async fn answered(
    request: impl Future<Output = Result<(), rtnetlink::Error>>,
) -> Result<(), NetlinkError> {
    match tokio::time::timeout(ANSWER_LIMIT, request).await {
        Ok(result) => result.map_err(NetlinkError::Refused),
        Err(_) => Err(NetlinkError::Silent),
    }
}

/// Whether the address, or its link, is not there.
fn is_absent(code: i32) -> bool {
    [libc::EADDRNOTAVAIL, libc::ENODEV].contains(&code.saturating_neg())
}

fn message_for(index: u32, entry: VirtualAddress) -> AddressMessage {
    match entry.address {
        IpAddr::V4(address) => AddressMessageBuilder::<Ipv4Addr>::new()
            .index(index)
            .address(address, entry.prefix_length)
            .build(),
        IpAddr::V6(address) => AddressMessageBuilder::<Ipv6Addr>::new()
            .index(index)
            .address(address, entry.prefix_length)
            .build(),
    }
}

/// Takes addresses off a link without a runtime: for a task that ends without time to wait.
pub(super) fn remove_now(entries: &[(u32, VirtualAddress)]) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    for (index, entry) in entries {
        let message = RouteNetlinkMessage::DelAddress(message_for(*index, *entry));
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK;
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        // The kernel is done when this returns; no task is left to hear its answer.
        socket.send(&octets, 0)?;
    }
    Ok(())
}

//--- Following

async fn follow(
    handle: Handle,
    mut news: impl Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Unpin,
    latest: Arc<Latest<View>>,
) {
    let mut again = tokio::time::interval(LOOK_AGAIN);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    again.reset();
    loop {
        let message = tokio::select! {
            message = news.next() => message,
            _ = again.tick() => {
                look_again(&handle, &latest).await;
                continue;
            }
        };
        let Some(message) = message else { return };
        let mut batch = vec![message];
        while batch.len() < NEWS_BATCH
            && let Some(message) = now_or_never(&mut news).await
        {
            batch.push(message);
        }
        let mut view = View::clone(&latest.current());
        let mut is_news = false;
        let mut was_lost = false;
        for message in &batch {
            match &message.payload {
                NetlinkPayload::InnerMessage(message) => is_news |= view.take_in(message),
                NetlinkPayload::Noop | NetlinkPayload::Done(_) => {}
                _ => was_lost = true,
            }
        }
        if was_lost {
            look_again(&handle, &latest).await;
        } else if is_news {
            latest.publish(view);
        }
    }
}

/// The next item, if it is there without waiting.
async fn now_or_never<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Option<T> {
    tokio::select! {
        biased;
        next = stream.next() => next,
        () = std::future::ready(()) => None,
    }
}

async fn look_again(handle: &Handle, latest: &Latest<View>) {
    match look(handle).await {
        // Published even if nothing has changed: some wait for time to have passed.
        Ok(view) => {
            latest.publish(view);
        }
        Err(error) => warn!(%error, "Links and addresses could not be read"),
    }
}

/// Reads all links and addresses.
async fn look(handle: &Handle) -> Result<View, rtnetlink::Error> {
    let mut view = View::default();
    let mut links = std::pin::pin!(handle.link().get().execute());
    while let Some(link) = links.next().await {
        view.take_in(&RouteNetlinkMessage::NewLink(link?));
    }
    let mut addresses = std::pin::pin!(handle.address().get().execute());
    while let Some(address) = addresses.next().await {
        view.take_in(&RouteNetlinkMessage::NewAddress(address?));
    }
    Ok(view)
}

#[cfg(test)]
mod tests;
