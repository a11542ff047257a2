//! Answers of a real ptp4l 3.1.1 that follows another, free-running, with stamps of the kernel.

use super::*;

const DEFAULT: &str = "0d02004a00000000000000000000000000000000c2a483fffe4e5ebc00000001047f0000000000000000\
    0000000002000001001620000300000180fffeffff80c2a483fffe4e5ebc0000";
const CURRENT: &str = "0d02004800000000000000000000000000000000c2a483fffe4e5ebc00000001047f0000000000000000\
    0000000002000001001420010001fffffffffc58000000000000067b0000";
const PARENT: &str = "0d02005600000000000000000000000000000000c2a483fffe4e5ebc00000001047f0000000000000000\
    0000000002000001002220028e4905fffe6d7a3400010000ffff7fffffff80f8feffff808e4905fffe6d7a34";
const TIME_PROPERTIES: &str = "0d02003a00000000000000000000000000000000c2a483fffe4e5ebc00000001047f0000000000\
    0000000000000002000001000620030025 00a0";
const PORT: &str = "0d02005000000000000000000000000000000000c2a483fffe4e5ebc00010001047f0000000000000000\
    0000000002000001001c2004c2a483fffe4e5ebc000108000000000000000000000300010002";
const TIME_STATUS: &str = "0d02006800000000000000000000000000000000c2a483fffe4e5ebc00000001047f00000000000000\
    00000000000200000100 34c000fffffffffffffd8e18ea28303412c574000000000000000000000000000000000000\
    00000000000000018e4905fffe6d7a34";
const PORT_PROPERTIES: &str = "0d02004800000000000000000000000000000000c2a483fffe4e5ebc00010001047f0000000000\
    00000000000000020000010014c004c2a483fffe4e5ebc00010800046574683000";

const OWN: [u8; 8] = [0xc2, 0xa4, 0x83, 0xff, 0xfe, 0x4e, 0x5e, 0xbc];
const GRANDMASTER: [u8; 8] = [0x8e, 0x49, 0x05, 0xff, 0xfe, 0x6d, 0x7a, 0x34];

/// In the order of [`Client::WANTED`].
const ALL: [&str; 7] = [
    DEFAULT,
    PARENT,
    TIME_PROPERTIES,
    PORT,
    PORT_PROPERTIES,
    CURRENT,
    TIME_STATUS,
];

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let octet = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).unwrap();
    digits.chunks(2).map(octet).collect()
}

fn answer_of(hex: &str) -> Answer {
    let (sequence, answer) = parse(&octets(hex)).unwrap();
    assert_eq!(sequence, 1);
    answer
}

/// A client that was told everything.
fn told() -> (Client, Vec<Measured>) {
    let mut client = Client::new(0);
    for id in Client::WANTED {
        client.request(id);
    }
    let measured = ALL.iter().filter_map(|hex| client.handle(&octets(hex)));
    let measured = measured.collect();
    (client, measured)
}

#[test]
fn answers_of_ptp4l_are_understood() {
    let quality = ClockQuality {
        class: 255,
        accuracy: 0xfe,
        variance: 0xffff,
    };
    assert_eq!(
        answer_of(DEFAULT),
        Answer::Default(DefaultDataSet {
            slave_only: true,
            n_ports: 1,
            priority_1: 128,
            quality: ClockQuality {
                class: 255,
                ..quality
            },
            priority_2: 128,
            identity: OWN,
            domain: 0,
        })
    );
    let Answer::Current(current) = answer_of(CURRENT) else {
        panic!("{:?}", answer_of(CURRENT));
    };
    assert_eq!(current.steps_removed, 1);
    assert!((current.offset + 936e-9).abs() < 1e-12, "{current:?}");
    assert!((current.delay - 1659e-9).abs() < 1e-12, "{current:?}");
    assert_eq!(
        answer_of(PARENT),
        Answer::Parent(ParentDataSet {
            port: PortIdentity {
                clock: GRANDMASTER,
                port: 1
            },
            priority_1: 128,
            quality: ClockQuality {
                class: 248,
                ..quality
            },
            priority_2: 128,
            grandmaster: GRANDMASTER,
        })
    );
}

#[test]
fn answers_of_ptp4l_about_its_port_and_time_are_understood() {
    let port = PortIdentity {
        clock: OWN,
        port: 1,
    };
    assert_eq!(
        answer_of(TIME_PROPERTIES),
        Answer::TimeProperties(TimeProperties {
            utc_offset: 37,
            source: 0xa0,
            ..TimeProperties::default()
        })
    );
    assert_eq!(
        answer_of(PORT),
        Answer::Port(PortDataSet {
            identity: port,
            state: PortState::Uncalibrated,
            peer_delay: 0.0,
            log_sync_interval: 0,
            delay_mechanism: 1,
        })
    );
    assert_eq!(
        answer_of(TIME_STATUS),
        Answer::TimeStatus(TimeStatus {
            offset: -626,
            ingress: 0x18ea_2830_3412_c574,
            rate: 0,
            present: true,
            grandmaster: GRANDMASTER,
        })
    );
    assert_eq!(
        answer_of(PORT_PROPERTIES),
        Answer::PortProperties(PortProperties {
            identity: port,
            state: PortState::Uncalibrated,
            software: true,
            interface: "eth0".to_owned(),
        })
    );
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let good = octets(CURRENT);
    for length in 0..good.len() {
        assert_eq!(parse(&good[..length]), Err(NoAnswer::Short), "{length}");
    }
    for (at, value, expected) in [
        (0, 0x0b, NoAnswer::Foreign),
        (1, 1, NoAnswer::Foreign),
        // A request.
        (46, 0, NoAnswer::NoResponse),
        // MANAGEMENT_ERROR_STATUS.
        (49, 2, NoAnswer::NoResponse),
        (53, 0x77, NoAnswer::Unknown),
        // It says that it is longer than it is.
        (3, 0xff, NoAnswer::Short),
        (51, 0xff, NoAnswer::Short),
        // The data set is shorter than it has to be.
        (51, 10, NoAnswer::Short),
    ] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(parse(&bad), Err(expected), "{at}");
    }
}

#[test]
fn requests_are_what_ptp4l_answers() {
    let request = request(Id::TimeStatus, 24, PortIdentity::default(), 0x1234);
    assert_eq!(request.len(), 54);
    assert_eq!(request[..4], [0x0d, 2, 0, 54]);
    assert_eq!(request[4], 24);
    assert_eq!(request[30..34], [0x12, 0x34, 4, 0x7f]);
    assert_eq!(request[34..44], [0xff; 10]);
    assert_eq!(request[46], 0, "GET");
    assert_eq!(request[48..], [0, 1, 0, 2, 0xc0, 0]);
}

#[test]
fn an_offset_is_a_time_of_the_master() {
    let (mut client, measured) = told();
    let local = 0x18ea_2830_3412_c574;
    // Our clock is 626 ns behind.
    let expected = Measured {
        local: UnixTime(local),
        master: UnixTime(local + 626),
        leap: Leap::Normal,
    };
    assert_eq!(measured, [expected]);
    assert_eq!(client.handle(&octets(TIME_STATUS)), None, "it is no news");
    let view = client.view(2);
    assert_eq!((view.clock, view.process), (2, "ptp4l"));
    assert_eq!(view.interface, "eth0");
    assert_eq!((view.role, view.state), (PtpRole::Slave, PtpState::Locked));
    assert_eq!((view.class, view.steps_removed), (248, 1));
    assert_eq!(view.grandmaster, Some(GRANDMASTER));
    assert_eq!((view.offset, view.max_offset), (Some(-626e-9), 626e-9));
    assert_eq!(view.utc_offset, None, "it is not said to be valid");
    assert_eq!(view.n_measured, 1);
}

#[test]
fn a_card_that_stamps_says_nothing_of_our_clock() {
    let mut client = Client::new(0);
    let mut properties = octets(PORT_PROPERTIES);
    // timestamping: hardware.
    properties[65] = 1;
    client.handle(&properties);
    assert_eq!(client.handle(&octets(TIME_STATUS)), None);
    assert_eq!(
        client.view(0).state,
        PtpState::Locked,
        "it follows all the same"
    );
}

#[test]
fn a_grandmaster_that_goes_is_held_over_and_silence_is_ignorance() {
    let (mut client, _) = told();
    let mut status = octets(TIME_STATUS);
    // gmPresent.
    let at = status.len() - 9;
    assert_eq!(status[at], 1);
    status[at] = 0;
    assert_eq!(client.handle(&status), None);
    let view = client.view(0);
    assert_eq!((view.state, view.grandmaster), (PtpState::Holdover, None));
    assert_eq!(view.class, 255, "its own");
    for round in 0..5 {
        assert_eq!(client.is_unheard(), round == 4, "{round}");
        for id in Client::WANTED {
            client.request(id);
        }
    }
    let view = client.view(0);
    assert_eq!(
        (view.state, view.role),
        (PtpState::FreeRun, PtpRole::Unknown)
    );
    assert_eq!((view.offset, view.delay), (None, None));
}

#[test]
fn more_ports_than_a_clock_has_are_not_remembered() {
    let mut client = Client::new(0);
    let mut port = octets(PORT);
    for number in 0..=u16::MAX {
        port[62..64].copy_from_slice(&number.to_be_bytes());
        client.handle(&port);
    }
    assert_eq!(client.ports.len(), MOST_PORTS);
}
