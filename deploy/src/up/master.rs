//! The stand-in for a master: a TCP responder on each of its ports, which can be taken down.
//!
//! Down means that nothing listens: a connect is refused at once, as on a machine whose service
//! is stopped. It answers with a line of HTTP, for people who try `curl`; connections to a port with a
//! real service of this machine behind it are passed on to that.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use daemon::accept::Acceptor;
use daemon::connections::{Connections, Opening, Placed, Policy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use site_up::view::Offer;

/// A master.
#[derive(Debug)]
pub(crate) struct Master {
    name: String,
    address: IpAddr,
    offers: Vec<(Offer, Behind)>,
    /// One task for each offer; empty while the master is down.
    listeners: JoinSet<()>,
}

/// The server behind a port of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Nothing but a greeting.
    Greeting,
    /// A service of this machine.
    Service(SocketAddr),
}

impl Master {
    /// A master that is down.
    pub(crate) fn new(name: &str, address: IpAddr, offers: Vec<(Offer, Behind)>) -> Self {
        Self {
            name: name.to_owned(),
            address,
            offers,
            listeners: JoinSet::new(),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it listens.
    pub(crate) fn is_up(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Listens on every port.
    ///
    /// # Errors
    ///
    /// When a port is taken; then none is listened on.
    pub(crate) async fn bring_up(&mut self) -> io::Result<()> {
        if self.is_up() {
            return Ok(());
        }
        let mut bound = Vec::new();
        for (offer, behind) in &self.offers {
            let address = SocketAddr::new(self.address, offer.port);
            let listener = TcpListener::bind(address)
                .await
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
            let greeting = format!("{}, {}\n", self.name, offer.what);
            bound.push((listener, greeting, *behind));
        }
        for (listener, greeting, behind) in bound {
            self.listeners
                .spawn(respond(listener, greeting.into(), behind));
        }
        Ok(())
    }

    /// Closes every port, and every connection to it.
    pub(crate) async fn take_down(&mut self) {
        self.listeners.shutdown().await;
    }
}

/// The places in `known` of the masters that people mean: by name, by number, or `all`.
///
/// # Errors
///
/// When there is no such master; names the masters.
pub(crate) fn choose(names: &[String], known: &[&str]) -> Result<Vec<usize>, String> {
    let mut chosen = Vec::new();
    for name in names {
        let is_meant =
            |index: usize, own: &str| name == "all" || name == own || *name == index.to_string();
        let before = chosen.len();
        chosen.extend(
            (0..)
                .zip(known)
                .filter(|(index, own)| is_meant(*index, own))
                .map(|(index, _)| index),
        );
        if chosen.len() == before {
            return Err(format!("no master {name}; there are {}", known.join(", ")));
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// Answers every connection to one port. Connections end with the task that runs this.
async fn respond(listener: TcpListener, greeting: Arc<str>, behind: Behind) {
    let connections = Connections::new("master", Policy::of(CONNECTIONS));
    let acceptor = Acceptor::new(connections, Opening::Request);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = acceptor.next(&listener).await;
        let greeting = Arc::clone(&greeting);
        connections.spawn(async move {
            let _answer = stream.place().answer();
            // A client that goes away in the middle is its own business.
            match behind {
                Behind::Greeting => {
                    let greeted = greet(stream, &greeting);
                    drop(tokio::time::timeout(CONNECTION_LIMIT, greeted).await);
                }
                Behind::Service(address) => drop(pass_on(stream, address).await),
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Reads a request, or not, and says who is here.
async fn greet(mut stream: Placed<TcpStream>, greeting: &str) -> io::Result<()> {
    let mut request = [0; 1024];
    if stream.read(&mut request).await? == 0 {
        return Ok(());
    }
    let length = greeting.len();
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{greeting}"
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// Passes everything on to a service, and what it answers back.
async fn pass_on(mut stream: Placed<TcpStream>, address: SocketAddr) -> io::Result<()> {
    let mut service = TcpStream::connect(address).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut service).await?;
    Ok(())
}

/// Open connections to one port; one more replaces one without an answer.
const CONNECTIONS: usize = 64;
/// How long one connection may last.
const CONNECTION_LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A port of one loopback address that is free at this moment.
    fn free_port(address: IpAddr) -> u16 {
        std::net::TcpListener::bind((address, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
    }

    #[test]
    fn masters_go_by_name_and_by_number() {
        let known = ["master-0", "master-1", "master-2"];
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            choose(&names, &known)
        };
        assert_eq!(chosen(&["1"]), Ok(vec![1]));
        assert_eq!(chosen(&["master-2", "0", "2"]), Ok(vec![0, 2]));
        assert_eq!(chosen(&["all", "1"]), Ok(vec![0, 1, 2]));
        let refusal = Err("no master 3; there are master-0, master-1, master-2".to_owned());
        assert_eq!(chosen(&["0", "3"]), refusal);
        assert!(chosen(&["01"]).is_err());
    }

    #[tokio::test]
    async fn a_master_answers_refuses_and_answers_again() {
        let address = IpAddr::V4(Ipv4Addr::new(127, 61, 0, 13));
        let port = free_port(address);
        let offer = Offer {
            what: "API".to_owned(),
            port,
        };
        let offers = vec![(offer, Behind::Greeting)];
        let mut master = Master::new("master-0", address, offers);
        assert!(TcpStream::connect((address, port)).await.is_err());

        master.bring_up().await.unwrap();
        let mut stream = TcpStream::connect((address, port)).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("\r\n\r\nmaster-0, API\n"), "{answer}");

        master.take_down().await;
        assert!(!master.is_up());
        assert!(TcpStream::connect((address, port)).await.is_err());

        master.bring_up().await.unwrap();
        assert!(TcpStream::connect((address, port)).await.is_ok());
    }

    #[tokio::test]
    async fn what_stands_behind_a_port_is_reached_through_it() {
        let address = IpAddr::V4(Ipv4Addr::new(127, 61, 0, 15));
        let service = TcpListener::bind((address, 0)).await.unwrap();
        let port = free_port(address);
        let offer = Offer {
            what: "registry".to_owned(),
            port,
        };
        let behind = Behind::Service(service.local_addr().unwrap());
        let mut master = Master::new("master-0", address, vec![(offer, behind)]);
        master.bring_up().await.unwrap();
        let mut client = TcpStream::connect((address, port)).await.unwrap();
        let (mut served, _) = service.accept().await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let mut octets = [0; 4];
        served.read_exact(&mut octets).await.unwrap();
        served.write_all(b"pong").await.unwrap();
        client.read_exact(&mut octets).await.unwrap();
        assert_eq!(&octets, b"pong");
        master.take_down().await;
        assert_eq!(client.read(&mut octets).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_master_with_a_taken_port_stays_down_whole() {
        let address = IpAddr::V4(Ipv4Addr::new(127, 61, 0, 14));
        let taken = std::net::TcpListener::bind((address, 0)).unwrap();
        let free = free_port(address);
        let offers = [
            Offer {
                what: "API".to_owned(),
                port: free,
            },
            Offer {
                what: "registry".to_owned(),
                port: taken.local_addr().unwrap().port(),
            },
        ];
        let offers = offers.map(|offer| (offer, Behind::Greeting)).into();
        let mut master = Master::new("master-0", address, offers);
        let error = master.bring_up().await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&taken.local_addr().unwrap().to_string()),
            "{error}"
        );
        assert!(!master.is_up());
        assert!(TcpStream::connect((address, free)).await.is_err());
    }
}
