//! The clients of the agent: any client of NTP, chronyd, chronyc.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tests::daemon::Daemon;
use tests::scratch::loopback;
use tests::time::{
    Agent, Chronyd, PATIENCE, PORT, ask_over, ask_patiently, chronyd_measures, now, request,
};
use tests::wait;

/// An island of its own that answers everybody on loopback.
const ALONE: &str = "local stratum 8\nallow 127.0.0.0/8\n";

fn client(agent: &Agent) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(agent.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn every_version_of_the_protocol_is_answered() {
    let agent = Agent::on_loopback(ALONE);
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    for version in 1..=4_u8 {
        let socket = client(&agent);
        let ask = || {
            ask_over(&socket, |octets| octets[0] = version << 3 | 3)
                .unwrap_or_else(|error| panic!("version {version}: {error}"))
        };
        let reply = ask();
        assert_eq!(
            (reply.leap(), reply.version(), reply.mode()),
            (0, version, 4)
        );
        assert_eq!(reply.stratum, 8);
        assert_eq!(reply.reference_id, 0x7f7f_0101, "the own clock");
        assert!(reply.rest.is_empty());
        wait::for_it("it is the time", PATIENCE, || ask().offset.abs() < 0.1);
    }
    daemon.stop();
}

#[test]
fn what_is_no_request_of_a_client_is_not_answered() {
    let agent = Agent::on_loopback(ALONE);
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    let socket = client(&agent);
    // Passive, server, broadcast, control and private: the last two are what servers were abused by.
    for mode in [0, 2, 4, 5, 6, 7] {
        let mut octets = request(now());
        octets[0] = 4 << 3 | mode;
        socket.send(&octets).unwrap();
    }
    for length in [0, 1, 47] {
        socket.send(&request(now())[..length]).unwrap();
    }
    let mut version = request(now());
    version[0] = 5 << 3 | 3;
    socket.send(&version).unwrap();
    // The only answer is to the request that comes last: `ask_over` passes over no other of this mode.
    let reply = ask_over(&socket, |_| {}).unwrap();
    assert_eq!(reply.mode(), 4);
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let more = wait::uninterrupted(|| socket.recv(&mut [0; 64]));
    assert!(more.is_err(), "another answer");
    daemon.stop();
}

#[test]
fn who_is_not_allowed_is_not_answered() {
    let agent = Agent::on_loopback("local stratum 8\nallow 127.0.0.0/8\ndeny 127.0.0.1\n");
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    let from = |ip: &str| {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        socket.connect(agent.address()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        ask_over(&socket, |_| {}).is_ok()
    };
    wait::for_it("who may ask is answered", PATIENCE, || from("127.0.0.2"));
    assert!(!from("127.0.0.1"));
    // The rules change in place.
    agent.configure("local stratum 8\nallow 127.0.0.1\n");
    daemon.hang_up();
    wait::for_it("the other one is answered", PATIENCE, || {
        from("127.0.0.1") && !from("127.0.0.2")
    });
    daemon.stop();
}

/// So many requests fit into the queue of a socket.
const BLOCK: u32 = 50;

#[test]
fn who_asks_too_often_is_answered_now_and_then() {
    let agent = Agent::on_loopback(&format!("{ALONE}ratelimit interval 3 burst 4 leak 4\n"));
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    let socket = client(&agent);
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    const N: u32 = 400;
    let mut n_answers = 0;
    for n_asked in (BLOCK..=N).step_by(BLOCK as usize) {
        for _ in 0..BLOCK {
            socket.send(&request(now())).unwrap();
        }
        // The queues of both sockets are not what is looked at: each request is one or the other before the next ones.
        wait::for_it("all are dropped or answered", PATIENCE, || {
            while wait::uninterrupted(|| socket.recv(&mut [0; 64])).is_ok() {
                n_answers += 1;
            }
            let (_, metrics) = agent.get("/metrics").unwrap();
            let name = "timesync_server_dropped_total{reason=\"rate\"}";
            let dropped = tests::daemon::metric(&metrics, name).unwrap_or_default();
            dropped.to_bits() == f64::from(n_asked - n_answers).to_bits()
        });
    }
    // A burst of four, and one in sixteen of the rest: 29 on average. By chance it is not below 6, nor above 80.
    assert!((6..=80).contains(&n_answers), "{n_answers} of {N}");
    // Another client is not held back.
    let another = UdpSocket::bind("127.0.0.3:0").unwrap();
    another.connect(agent.address()).unwrap();
    another.set_read_timeout(Some(PATIENCE)).unwrap();
    ask_over(&another, |_| {}).unwrap();
    daemon.stop();
}

#[test]
fn chronyd_measures_by_us_and_follows_us() {
    let agent = Agent::on_loopback(ALONE);
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    let server = format!("server {} port {PORT} iburst", agent.ip);
    // The offset of one exchange is wrong by half of the time that either side waited for its turn.
    wait::for_it("chronyd measures the time", PATIENCE, || {
        let chronyd = std::process::Command::new("/usr/sbin/chronyd");
        chronyd_measures(chronyd, &server).abs() < 0.05
    });
    let chronyd = Chronyd::on_loopback(&format!(
        "server {} port {PORT} iburst minpoll -2 maxpoll -2\ncmdport 0\n",
        agent.ip
    ));
    let tracking = chronyd.wait_synchronised();
    assert_eq!(tracking[2], "9", "one stratum below: {tracking:?}");
    daemon.stop();
}

#[test]
fn chronyd_asks_us_with_a_key_in_interleaved_mode() {
    let agent = Agent::on_loopback("");
    let keys = agent.files.write(
        "keys",
        "1 SHA256 HEX:000102030405060708090a0b0c0d0e0f1011121314151617\n2 AES128 HEX:00112233445566778899aabbccddeeff\n",
    );
    agent.configure(&format!("{ALONE}keyfile {}\n", keys.display()));
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    for key in [1, 2] {
        let chronyd = Chronyd::on_loopback(&format!(
            "server {} port {PORT} iburst minpoll -2 maxpoll -2 xleave key {key}\nkeyfile {}\ncmdport 0\n",
            agent.ip,
            keys.display()
        ));
        chronyd.wait_synchronised();
        wait::for_it("answers are interleaved", PATIENCE, || {
            let (_, text) = chronyd.chronyc(&["ntpdata"]);
            let says = |name: &str| {
                let mut lines = text.lines().filter(|line| line.starts_with(name));
                lines.any(|line| line.ends_with("Yes"))
            };
            says("Interleaved") && says("Authenticated")
        });
    }
    // A signature of a key that is not ours is not answered.
    let socket = client(&agent);
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let forged = ask_over(&socket, |octets| {
        octets.extend(1_u32.to_be_bytes());
        octets.extend([7; 32]);
    });
    assert!(forged.is_err(), "{forged:?}");
    assert_eq!(ask_patiently(agent.address()).mode(), 4);
    daemon.stop();
}

#[test]
fn a_chronyd_that_has_us_as_its_peer_follows_us() {
    let agent = Agent::on_loopback("");
    let keys = agent.files.write(
        "keys",
        "1 SHA256 HEX:000102030405060708090a0b0c0d0e0f1011121314151617\n",
    );
    agent.configure(&format!("{ALONE}keyfile {}\n", keys.display()));
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    for options in ["", "key 1", "key 1 xleave"] {
        let chronyd = Chronyd::on_loopback(&format!(
            "peer {} port {PORT} minpoll -2 maxpoll -2 {options}\nkeyfile {}\ncmdport 0\n\
             port {PORT}\nbindaddress {}\n",
            agent.ip,
            keys.display(),
            loopback()
        ));
        let tracking = chronyd.wait_synchronised();
        assert_eq!(
            tracking[2], "9",
            "{options}, one stratum below: {tracking:?}"
        );
        let (_, text) = chronyd.chronyc(&["ntpdata"]);
        let line = |name: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(name));
            lines.next().unwrap_or_default().to_owned()
        };
        assert!(line("Mode").ends_with("Symmetric passive"), "{text}");
        let is_signed = if options.is_empty() { "No" } else { "Yes" };
        assert!(line("Authenticated").ends_with(is_signed), "{text}");
    }
    daemon.stop();
}

/// Waits until a peer of the agent follows it, as the peer's `chronyc` shows it.
fn follows(agent: &Agent, chronyc: impl Fn(&[&str]) -> (Option<i32>, String)) {
    wait::for_it("the peer is followed", PATIENCE, || {
        let (_, text) = chronyc(&["-c", "-n", "sources"]);
        text.contains(&format!("=,*,{},8,", agent.ip))
    });
    let (_, text) = chronyc(&["-n", "ntpdata", &agent.ip.to_string()]);
    let mode = text.lines().find(|line| line.starts_with("Mode"));
    assert!(
        mode.is_some_and(|line| line.ends_with("Symmetric active")),
        "{text}"
    );
}

#[test]
fn peers_poll_each_other_and_the_one_without_time_follows() {
    let (leader, follower) = (Agent::on_loopback(""), Agent::on_loopback(""));
    let keys = "7 SHA256 HEX:000102030405060708090a0b0c0d0e0f1011121314151617\n";
    for (agent, other, more) in [
        (&leader, &follower, "local stratum 8\n"),
        (&follower, &leader, ""),
    ] {
        let keys = agent.files.write("keys", keys);
        // No client is allowed: that does not matter to a peer.
        agent.configure(&format!(
            "{more}peer {} port {PORT} minpoll -2 maxpoll -2 key 7\nkeyfile {}\n",
            other.ip,
            keys.display()
        ));
    }
    let leads = leader.start();
    leader.wait_state(&["local"]);
    let follows_it = follower.start();
    follower.wait_state(&["locked"]);
    follows(&leader, |arguments| follower.chronyc_unix(arguments));
    let status = follower.status();
    let source = &status["sources"][0];
    assert_eq!(source["mode"], "peer", "{status}");
    assert_eq!(source["stratum"], 8, "{status}");
    // The leader sees that the other one has its time from there.
    let (_, text) = leader.chronyc_unix(&["-c", "-n", "sources"]);
    assert!(text.starts_with(&format!("=,?,{},", follower.ip)), "{text}");
    follows_it.stop();
    leads.stop();
}

#[test]
fn a_chronyd_and_this_agent_are_peers() {
    let agent = Agent::on_loopback("");
    let ip = loopback();
    agent.configure(&format!(
        "local stratum 8\npeer {ip} port {PORT} minpoll -2 maxpoll -2\n"
    ));
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    let chronyd = Chronyd::on_loopback(&format!(
        "peer {} port {PORT} minpoll -2 maxpoll -2\ncmdport 0\nport {PORT}\nbindaddress {ip}\n",
        agent.ip,
    ));
    let tracking = chronyd.wait_synchronised();
    assert_eq!(tracking[2], "9", "one stratum below: {tracking:?}");
    follows(&agent, |arguments| chronyd.chronyc(arguments));
    daemon.stop();
}

/// The next datagram of one of these modes that comes to a socket.
fn next_of(socket: &UdpSocket, modes: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 1024];
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let length = wait::uninterrupted(|| socket.recv(&mut buffer)).expect("a datagram comes");
        if modes.contains(&(buffer[0] & 7)) {
            return buffer[..length].to_vec();
        }
    }
    panic!("none of the modes {modes:?}");
}

#[test]
fn what_a_peer_asks_as_a_client_is_answered_as_any_client_is() {
    for batch in [true, false] {
        for (allow, is_answered) in [(ALONE, true), ("local stratum 8\n", false)] {
            let ip = loopback();
            let agent = Agent::on_loopback(&format!(
                "{allow}peer {ip} port {PORT} minpoll -2 maxpoll -2\n"
            ));
            let other = UdpSocket::bind((ip, PORT)).unwrap();
            other.connect(agent.address()).unwrap();
            other.set_read_timeout(Some(PATIENCE)).unwrap();
            let lines = format!("node = \"test\"\nbatch = {batch}\n");
            let daemon = Daemon::start("timesync-agent", agent.serve_by(agent.admin(), &lines));
            agent.wait_state(&["local"]);
            // From its first packet on a socket of the agent's is connected to this one.
            next_of(&other, &[1]);
            for _ in 0..4 {
                let asked = request(now());
                other.send(&asked).unwrap();
                let answer = next_of(&other, if is_answered { &[4] } else { &[1, 4] });
                assert_eq!(answer[0] & 7 == 4, is_answered, "batch {batch}: {answer:?}");
                if is_answered {
                    assert_eq!(answer[1], 8, "the stratum: {answer:?}");
                    assert_eq!(answer[24..32], asked[40..48], "its own number: {answer:?}");
                }
            }
            // It stays a peer.
            next_of(&other, &[1]);
            daemon.stop();
        }
    }
}

#[test]
fn a_peer_stays_one_when_clients_are_allowed_later() {
    let ip = loopback();
    let peer = format!("local stratum 8\npeer {ip} port {PORT} minpoll -2 maxpoll -2\n");
    let agent = Agent::on_loopback(&peer);
    let other = UdpSocket::bind((ip, PORT)).unwrap();
    other.connect(agent.address()).unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    let daemon = agent.start();
    next_of(&other, &[1]);
    agent.configure(&format!("{peer}allow 127.0.0.0/8\n"));
    daemon.hang_up();
    assert_eq!(ask_patiently(agent.address()).stratum, 8);
    // On the same sockets as before.
    next_of(&other, &[1]);
    other.send(&request(now())).unwrap();
    next_of(&other, &[4]);
    daemon.stop();
}

#[test]
fn a_chronyd_that_is_our_peer_and_has_us_as_its_server_follows_us() {
    let ip = loopback();
    let agent = Agent::on_loopback(&format!(
        "{ALONE}peer {ip} port {PORT} minpoll -2 maxpoll -2\n"
    ));
    let daemon = agent.start();
    agent.wait_state(&["local"]);
    // It asks from the port that its own clients ask, as ntpd always does.
    let chronyd = Chronyd::on_loopback(&format!(
        "server {} port {PORT} minpoll -2 maxpoll -2\ncmdport 0\nport {PORT}\nacquisitionport {PORT}\n\
         bindaddress {ip}\nbindacqaddress {ip}\nallow\n",
        agent.ip,
    ));
    let tracking = chronyd.wait_synchronised();
    assert_eq!(tracking[2], "9", "one stratum below: {tracking:?}");
    // And it answers the polls of this side, which sees that it has its time from here.
    wait::for_it("both hear each other", PATIENCE, || {
        let (_, text) = agent.chronyc_unix(&["-n", "ntpdata", &ip.to_string()]);
        let line = |name: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(name));
            lines.next().unwrap_or_default().to_owned()
        };
        line("Mode").ends_with("Symmetric passive") && line("Stratum").ends_with(" 9")
    });
    daemon.stop();
}

#[test]
fn chronyc_asks_and_understands() {
    let source = tests::time::Server::on_loopback(tests::time::Says::default());
    let lines = format!(
        "{}allow 127.0.0.0/8\n",
        source.line("iburst minpoll -2 maxpoll -2")
    );
    let agent = Agent::on_loopback(&lines);
    let daemon = agent.start();
    agent.wait_state(&["locked"]);

    let (code, text) = agent.chronyc(&["-c", "tracking"]);
    let fields: Vec<&str> = text.trim().split(',').collect();
    assert_eq!((code, fields.len()), (Some(0), 14), "{text}");
    assert_eq!((fields[2], fields[13]), ("2", "Normal"), "{text}");

    let (code, text) = agent.chronyc(&["-c", "-n", "sources"]);
    let ip = source.address.ip().to_string();
    assert!(
        code == Some(0) && text.starts_with(&format!("^,*,{ip},1,-2,")),
        "{text}"
    );
    let (code, text) = agent.chronyc(&["-c", "-n", "sourcestats"]);
    assert!(
        code == Some(0) && text.starts_with(&format!("{ip},")),
        "{text}"
    );
    // It is locked before the last of the burst has come.
    wait::for_it("the burst is over", PATIENCE, || {
        let (code, text) = agent.chronyc(&["activity"]);
        assert_eq!(code, Some(0), "{text}");
        text.contains("1 sources online")
    });
    // RHCOS waits for this at boot.
    let (code, text) = agent.chronyc(&["waitsync", "10", "0.1", "0.0", "1"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("try: 1, refid: "), "{text}");

    // Over the network nothing is changed, and counters are not told.
    let (code, text) = agent.chronyc(&["makestep"]);
    assert!(
        code != Some(0) && text.contains("501 Not authorised"),
        "{text}"
    );

    // Through the socket everything is.
    let (code, text) = agent.chronyc_unix(&["serverstats"]);
    assert!(
        code == Some(0) && text.contains("NTP packets received"),
        "{text}"
    );
    let (code, text) = agent.chronyc_unix(&["-n", "ntpdata"]);
    assert!(
        code == Some(0) && text.contains(&format!("Remote address  : {ip}")),
        "{text}"
    );
    let (code, text) = agent.chronyc_unix(&["offline"]);
    assert!(code == Some(0) && text.contains("200 OK"), "{text}");
    wait::for_it("it is offline", PATIENCE, || {
        let (_, text) = agent.chronyc(&["activity"]);
        text.contains("1 sources offline")
    });
    let (code, text) = agent.chronyc_unix(&["online"]);
    assert!(code == Some(0) && text.contains("200 OK"), "{text}");
    daemon.stop();
}

/// The threads of a process that answer NTP clients.
fn answering(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.starts_with("ntp-udp-")).count()
}

#[test]
fn threads_come_with_the_load_and_not_with_the_cores() {
    let agent = Agent::on_loopback(ALONE);
    let admin = agent.admin();
    let daemon = Daemon::start("timesync-agent", agent.serve_by(admin, "threads = 3\n"));
    agent.wait_state(&["local"]);
    let n_threads = || answering(daemon.id());
    assert_eq!(n_threads(), 1, "one for the only address");
    for _ in 0..100 {
        assert_eq!(ask_patiently(agent.address()).stratum, 8);
    }
    assert_eq!(n_threads(), 1, "a client is no load");
    // More than any thread answers, from as many sockets as the kernel needs to spread them.
    let address = agent.address();
    let stop = AtomicBool::new(false);
    let flood = || {
        let sockets: Vec<UdpSocket> = (0..16)
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect();
        while !stop.load(Ordering::Relaxed) {
            for socket in &sockets {
                for _ in 0..BLOCK {
                    let _full = socket.send_to(&request(1), address);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(flood);
        scope.spawn(flood);
        wait::for_it("all threads are there", PATIENCE, || n_threads() == 3);
        stop.store(true, Ordering::Relaxed);
    });
    daemon.wait_log("More threads answer NTP clients");
    // Whichever thread a client meets, it is answered.
    for _ in 0..32 {
        assert_eq!(ask_patiently(address).stratum, 8);
    }
    assert_eq!(n_threads(), 3, "and no more than that");
    daemon.stop();
}
