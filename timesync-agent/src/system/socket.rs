//! Sockets that send requests and get timestamps: each for one request, or for all packets to a peer, connected to one server, with
//! timestamps of the kernel both ways.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ntp::wire::LONGEST_PACKET;
use socket2::SockRef;
use time_model::sample::Stamp;
use time_model::settings::{ClientSettings, ServerSettings};
use time_model::time::{Span, UnixTime};
use time_model::view::StampSource;

use super::clock;
use super::datagram::{self, Received};

/// Bound on the error of a timestamp of the kernel, in seconds: the time between it and the wire belongs to the path.
const KERNEL_ERROR: f64 = 0.0;
/// A stamp of the kernel is this old at most when it is picked up; if it seems older, or is not past, the clock was stepped.
const OLDEST_STAMP: Span = Span(time_model::time::SECOND);

/// The requested timestamps: by the kernel, on arrival and on departure, without a copy of the sent datagram.
const STAMPS: libc::c_uint = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// Timestamps of the NIC besides, and its interface: for sent datagrams both timestamps, each with its interface.
const CARD_STAMPS: libc::c_uint = libc::SOF_TIMESTAMPING_RX_HARDWARE
    | libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_CMSG
    | libc::SOF_TIMESTAMPING_OPT_PKTINFO
    | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;

/// Octets before those of NTP in a frame without options: Ethernet, IP, UDP.
const HEADERS_V4: u32 = 14 + 20 + 8;
const HEADERS_V6: u32 = 14 + 40 + 8;

/// How sockets are made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    port: u16,
    addresses: Vec<IpAddr>,
    device: Option<String>,
    dscp: u8,
    card_stamps: bool,
}

impl Options {
    /// Whether cards stamp, too.
    #[must_use]
    pub fn with_cards(self, card_stamps: bool) -> Self {
        Self {
            card_stamps,
            ..self
        }
    }

    /// The port from which packets leave; 0 for one of the kernel's choice.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<&ClientSettings> for Options {
    fn from(settings: &ClientSettings) -> Self {
        Self {
            port: settings.port.unwrap_or(0),
            addresses: settings.bind_addresses.clone(),
            device: settings.bind_device.clone(),
            dscp: settings.dscp,
            card_stamps: false,
        }
    }
}

/// The port that clients ask, and packets to peers leave: those of a peer come to the socket that is connected to it.
impl From<(&ClientSettings, &ServerSettings)> for Options {
    fn from((client, server): (&ClientSettings, &ServerSettings)) -> Self {
        let own = Self::from(client);
        Self {
            port: server.port,
            addresses: match server.bind_addresses.is_empty() {
                true => own.addresses,
                false => server.bind_addresses.clone(),
            },
            device: server.bind_device.clone().or(own.device),
            ..own
        }
    }
}

/// A socket of one request, or of all packets to a peer.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    to: SocketAddr,
}

/// A stamp of a card, on its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicStamp {
    /// The number of the NIC's interface, if the kernel reports it.
    pub interface: Option<u32>,
    /// When.
    pub at: UnixTime,
    /// Octets of the frame, as the kernel counts them: without its check sequence.
    pub frame_length: u32,
}

/// When a request left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Departure {
    /// By the kernel.
    Kernel(Stamp),
    /// By the card.
    Card(NicStamp),
}

/// A socket that is for nothing but to ask about interfaces.
///
/// # Errors
///
/// There is no descriptor left.
pub fn plain() -> io::Result<OwnedFd> {
    datagram::socket(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))
}

/// Returns whether the kernel has IPv6; some kernels run without.
#[must_use]
pub fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// A datagram that came.
#[derive(Debug)]
pub struct Arrival {
    /// How much of the buffer it is.
    pub length: usize,
    /// When it came, by the kernel or this process.
    pub stamp: Stamp,
    /// And by the card, if that stamps.
    pub card: Option<NicStamp>,
}

impl Socket {
    /// A socket that is connected to a server; its port is of the kernel's choice unless the options say otherwise.
    ///
    /// # Errors
    ///
    /// There is no way to the server, or no descriptor left.
    pub fn open(to: SocketAddr, options: &Options) -> io::Result<Self> {
        let descriptor = datagram::socket(to)?;
        let set = |level, option, value| sys::option::set(&descriptor, level, option, value);
        if let Some(device) = &options.device {
            sys::option::bind_device(&descriptor, device)?;
        }
        let dscp = libc::c_int::from(options.dscp) << 2;
        if dscp != 0 {
            match to {
                SocketAddr::V4(_) => set(libc::IPPROTO_IP, libc::IP_TOS, dscp)?,
                SocketAddr::V6(_) => set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, dscp)?,
            }
        }
        let mut own = options.addresses.iter().copied();
        let own = own.find(|address| address.is_ipv4() == to.is_ipv4());
        if own.is_some() || options.port != 0 {
            // If all requests share one port, each has its own socket, told apart by the server's address.
            set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
            // And so do those of clients: as one of their group, this socket is preferred for what the other side sends, even
            // to one that joins later.
            drop(set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1));
            let any = match to {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            let own = SocketAddr::new(own.unwrap_or(any), options.port);
            SockRef::from(&descriptor).bind(&own.into())?;
        }
        let stamps = match options.card_stamps {
            true => (STAMPS | CARD_STAMPS).cast_signed(),
            false => STAMPS.cast_signed(),
        };
        // Without them the readings of this process have to do.
        drop(set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps));
        // Makes `poll` report timestamps without an error. A kernel without the option reports them as errors.
        drop(set(libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, 1));
        SockRef::from(&descriptor).connect(&to.into())?;
        Ok(Self { descriptor, to })
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// From where requests leave.
    #[must_use]
    pub fn local_address(&self) -> Option<IpAddr> {
        datagram::local_address(&self.descriptor).map(|address| address.ip())
    }

    /// Sends a request, and says when that was as far as this process knows: just before.
    ///
    /// # Errors
    ///
    /// The network is down, or whatever it says.
    pub fn send(&self, octets: &[u8]) -> io::Result<Stamp> {
        let wall = clock::wall();
        SockRef::from(&self.descriptor).send(octets)?;
        Ok(Stamp {
            wall,
            raw: None,
            by: StampSource::Daemon,
            error: 0.0,
        })
    }

    /// Sends the answer to a request of the other side. It gets no timestamp, so that all of them are those of own requests.
    ///
    /// # Errors
    ///
    /// The network is down, or whatever it says.
    pub fn answer(&self, octets: &[u8]) -> io::Result<()> {
        datagram::send_unstamped(&self.descriptor, octets)
    }

    /// Takes one report of the error queue: when the request left, as the kernel or the card says. None if there is no report,
    /// or one of something else. Only for a socket whose error `poll` has reported: a network simulator reads an empty error
    /// queue as the queue of datagrams.
    pub fn sent(&self) -> Option<Departure> {
        let received = report(&self.descriptor)?;
        received.number?;
        let card = self.card(&received).map(Departure::Card);
        card.or_else(|| kernel(&received).map(Departure::Kernel))
    }

    fn card(&self, received: &Received) -> Option<NicStamp> {
        let headers = if self.to.is_ipv6() {
            HEADERS_V6
        } else {
            HEADERS_V4
        };
        let length = u32::try_from(received.length).unwrap_or(0);
        received.hardware.map(|at| NicStamp {
            interface: received.interface,
            at: UnixTime(at),
            frame_length: received.frame_length.unwrap_or(headers + length),
        })
    }

    /// Takes a datagram; none if there is no more.
    ///
    /// # Errors
    ///
    /// The network reports that no server listens there, or that there is no route.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        loop {
            match datagram::receive(&self.descriptor, buffer, libc::MSG_DONTWAIT) {
                Ok(received) if self.is_foreign(&received) => {}
                Ok(received) => {
                    return Ok(Some(Arrival {
                        length: received.length,
                        stamp: arrived(&received),
                        card: self.card(&received),
                    }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether it came before the socket was connected, from another host.
    fn is_foreign(&self, received: &Received) -> bool {
        received
            .from
            .is_some_and(|from| (from.ip(), from.port()) != (self.to.ip(), self.to.port()))
    }
}

/// A socket that clients send to.
#[derive(Debug)]
pub struct Listener {
    descriptor: OwnedFd,
    has_many_addresses: bool,
}

/// A request, and where its answer goes.
#[derive(Debug)]
pub struct Asked {
    /// How much of the buffer it is.
    pub length: usize,
    /// The client.
    pub from: SocketAddr,
    /// The own address that the answer has to come from.
    pub to: Option<IpAddr>,
    /// When.
    pub stamp: Stamp,
}

impl Listener {
    /// Listens at an address, or at all of its family.
    ///
    /// # Errors
    ///
    /// The address is not ours, taken, or not for us.
    pub fn open(at: SocketAddr, device: Option<&str>) -> io::Result<Self> {
        let descriptor = datagram::socket(at)?;
        let set = |level, option, value| sys::option::set(&descriptor, level, option, value);
        set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if let Some(device) = device {
            sys::option::bind_device(&descriptor, device)?;
        }
        if at.is_ipv6() {
            set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        let listener = Self::prepare(descriptor, at)?;
        SockRef::from(&listener.descriptor).bind(&at.into())?;
        Ok(listener)
    }

    /// Listens on a socket that another process has bound.
    ///
    /// # Errors
    ///
    /// It is no datagram socket of an address, or does not take what is needed.
    pub fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let at = datagram::local_address(&descriptor).ok_or(io::ErrorKind::InvalidInput)?;
        datagram::set_flags(&descriptor)?;
        Self::prepare(descriptor, at)
    }

    /// Requests timestamps of requests and responses, and the own address of each request.
    fn prepare(descriptor: OwnedFd, at: SocketAddr) -> io::Result<Self> {
        let set = |level, option, value| sys::option::set(&descriptor, level, option, value);
        match at {
            SocketAddr::V4(_) => set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
            SocketAddr::V6(_) => set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?,
        }
        // Without stamps of the kernel its own readings have to do.
        drop(set(
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            STAMPS.cast_signed(),
        ));
        drop(set(libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, 1));
        Ok(Self {
            descriptor,
            has_many_addresses: at.ip().is_unspecified(),
        })
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Its own address.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        datagram::local_address(&self.descriptor)
    }

    /// Takes a request; none if there is no more.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<Asked> {
        let received = datagram::receive(&self.descriptor, buffer, libc::MSG_DONTWAIT).ok()?;
        Some(Asked {
            length: received.length,
            from: received.from?,
            to: received.to,
            stamp: arrived(&received),
        })
    }

    /// Sends the answer to a request, from the address that was asked; false if that was not possible.
    #[must_use]
    pub fn send(&self, octets: &[u8], asked: &Asked) -> bool {
        let from = asked.to.filter(|_| self.has_many_addresses);
        datagram::send_to(&self.descriptor, octets, asked.from, from).is_ok()
    }

    /// Takes one report of the error queue: when an answer left, and the how manieth it was. None if there is no report, or one
    /// of something else. Only for a socket whose error `poll` has reported, as of [`Socket::sent`].
    pub fn sent(&self) -> Option<(u32, Stamp)> {
        let received = report(&self.descriptor)?;
        received.number.zip(kernel(&received))
    }
}

/// Takes a report of the error queue.
fn report(descriptor: &OwnedFd) -> Option<Received> {
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    datagram::receive(descriptor, &mut [0; LONGEST_PACKET], flags).ok()
}

/// When a datagram came, by the kernel where that can be.
fn arrived(received: &Received) -> Stamp {
    let daemon = Stamp {
        wall: clock::wall(),
        raw: None,
        by: StampSource::Daemon,
        error: 0.0,
    };
    kernel(received)
        .filter(|stamp| (Span::ZERO..OLDEST_STAMP).contains(&(daemon.wall - stamp.wall)))
        .unwrap_or(daemon)
}

fn kernel(received: &Received) -> Option<Stamp> {
    received.software.map(|wall| Stamp {
        wall: UnixTime(wall),
        raw: None,
        by: StampSource::Kernel,
        error: KERNEL_ERROR,
    })
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Looks again and again until something is there. The machine may be building at the same time.
    fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..60_000 {
            if let Some(found) = look() {
                return found;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no {what}")
    }

    /// One exchange with a server that says the same again, and all moments of it in order; none if the kernel did not stamp its
    /// answer.
    fn exchange(socket: &Socket, server: &UdpSocket) -> Option<[UnixTime; 5]> {
        let before = clock::wall();
        let daemon = socket.send(b"request").unwrap();
        let mut buffer = [0; 64];
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..length], from).unwrap();
        let kernel = until("stamp", || socket.sent());
        let Departure::Kernel(kernel) = kernel else {
            panic!("no stamp of the kernel: {kernel:?}");
        };
        assert_eq!(kernel.by, StampSource::Kernel);
        let arrival = until("answer", || socket.receive(&mut buffer).unwrap());
        assert_eq!(&buffer[..arrival.length], b"request");
        assert_eq!(arrival.card, None);
        assert!(socket.receive(&mut buffer).unwrap().is_none());
        let walls = [
            before,
            daemon.wall,
            kernel.wall,
            arrival.stamp.wall,
            clock::wall(),
        ];
        (arrival.stamp.by == StampSource::Kernel).then_some(walls)
    }

    #[test]
    fn the_kernel_says_when_a_request_left_and_when_its_answer_came() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let server = UdpSocket::bind(loopback).unwrap();
            let to = server.local_addr().unwrap();
            // Asking for a card's stamps costs none of the kernel's.
            let options = Options::default().with_cards(to.is_ipv4());
            let socket = Socket::open(to, &options).unwrap();
            assert_eq!(socket.local_address(), Some(to.ip()));
            // The kernel begins to stamp a moment after it was asked to.
            let order = until("stamp of the kernel", || exchange(&socket, &server));
            assert!(order.is_sorted(), "{order:?}");
        }
    }

    #[test]
    fn an_answer_gets_no_timestamp_that_a_request_could_be_given() {
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = Socket::open(other.local_addr().unwrap(), &Options::default()).unwrap();
        // The kernel begins to stamp a moment after it was asked to.
        until("stamp of the kernel", || exchange(&socket, &other));
        let mut buffer = [0; 64];
        for _ in 0..8 {
            socket.answer(b"answer").unwrap();
            let (length, _) = other.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"answer");
        }
        let before = socket.send(b"request").unwrap();
        let left = until("stamp", || socket.sent());
        let Departure::Kernel(left) = left else {
            panic!("no stamp of the kernel: {left:?}");
        };
        assert!(left.wall >= before.wall, "{left:?} {before:?}");
        assert_eq!(socket.sent(), None);
    }

    #[test]
    fn a_server_that_is_not_there_is_an_error() {
        let gone = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let socket = Socket::open(gone, &Options::default()).unwrap();
        socket.send(b"request").unwrap();
        let mut buffer = [0; 64];
        until("error", || socket.receive(&mut buffer).err());
    }

    #[test]
    fn answers_come_from_where_was_asked_and_are_stamped_by_number() {
        for (any, target) in [("0.0.0.0:0", "127.0.0.3"), ("[::]:0", "::1")] {
            let listener = Listener::open(any.parse().unwrap(), None).unwrap();
            let port = listener.local_address().unwrap().port();
            let to = SocketAddr::new(target.parse().unwrap(), port);
            let socket = Socket::open(to, &Options::default()).unwrap();
            let mut buffer = [0; 64];
            for number in 0..2 {
                // The kernel begins to stamp a moment after it was asked to.
                let (sent, asked) = until("stamp of the kernel", || {
                    let sent = socket.send(b"request").unwrap();
                    let asked = until("request", || listener.receive(&mut buffer));
                    (asked.stamp.by == StampSource::Kernel).then_some((sent, asked))
                });
                assert_eq!(asked.to, Some(to.ip()));
                assert!(asked.stamp.wall >= sent.wall);
                assert!(listener.send(b"answer", &asked));
                // A connected socket takes nothing from another address.
                let arrival = until("answer", || socket.receive(&mut buffer).unwrap());
                assert_eq!(&buffer[..arrival.length], b"answer");
                let (stamped, stamp) = until("stamp", || listener.sent());
                assert_eq!(stamped, number);
                assert!(stamp.wall >= asked.stamp.wall && stamp.wall <= arrival.stamp.wall);
            }
        }
    }

    #[test]
    fn requests_come_from_where_the_configuration_says() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let free = UdpSocket::bind("127.0.0.2:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let options = Options {
            port: free.port(),
            card_stamps: false,
            addresses: vec!["::1".parse().unwrap(), free.ip()],
            device: Some("lo".to_owned()),
            dscp: 46,
        };
        let to = server.local_addr().unwrap();
        let socket = Socket::open(to, &options).unwrap();
        socket.send(b"request").unwrap();
        let (_, from) = server.recv_from(&mut [0; 64]).unwrap();
        assert_eq!(from, free);
    }
}
