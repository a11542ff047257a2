use std::net::IpAddr;

use super::answer::{Answer, ControlRequest, Facts, answer};
use super::reply::{Activity, Address, Client, Clients, Reply, Report, ServerStats, Status};
use super::request::{Command, Refused, Request, Source, Sources, Tuning};
use super::source::NewSource;
use super::{MAX_LENGTH, REPLY_HEADING};
use ntp::engine;
use ntp::responder::{Acl, Tables};
use time_model::settings::{self, AccessRule, MakeStep, SelectOptions};
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::{
    Leap, ManualView, PacketView, SourceMode, SourceState, SourceStatistics, SourceView, Tracking,
    View,
};
use timekeeper::Entered;

fn address() -> Address {
    Address::Ip("192.0.2.1".parse().unwrap())
}

fn sources() -> Sources {
    Sources::one("2001:db8::1".parse().unwrap())
}

/// Each command, with the length of its request as chronyc 4.3 sends it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn commands() -> Vec<(Command, usize)> {
    vec![
        (Command::Null, 28),
        (Command::Online(sources()), 60),
        (Command::Offline(Sources::ALL), 60),
        (
            Command::Burst {
                sources: sources(),
                good: 4,
                total: 8,
            },
            68,
        ),
        (Command::MinPoll(address(), -6), 44),
        (Command::MaxPoll(address(), 6), 44),
        (Command::MaxUpdateSkew(5.0), 28),
        (Command::Dump, 28),
        (Command::NSources, 32),
        (Command::SourceData(7), 76),
        (Command::Rekey, 28),
        (
            Command::Access {
                commands: false,
                allow: true,
                all: false,
                address: address(),
                bits: 24,
            },
            44,
        ),
        (
            Command::Access {
                commands: true,
                allow: false,
                all: true,
                address: Address::Unspecified,
                bits: 0,
            },
            44,
        ),
        (Command::AddSource(Box::new(named())), 372),
        (Command::DeleteSource(address()), 40),
        (Command::AccessCheck(address()), 40),
        (Command::CommandAccessCheck(address()), 40),
        (Command::Tracking, 104),
        (Command::SourceStats(1), 84),
        (Command::RtcReport, 56),
        (Command::CycleLogs, 28),
        (Command::ManualList, 416),
        (Command::MakeStep, 28),
        (Command::Activity, 48),
        (Command::Reselect, 28),
        (
            Command::SetMakeStep {
                limit: -1,
                threshold: 0.5,
            },
            28,
        ),
        (Command::Smoothing, 52),
        (Command::SmoothTime(1), 28),
        (Command::Refresh, 28),
        (Command::ServerStats, 72),
        (
            Command::Local {
                on: true,
                stratum: 5,
                distance: 1.0,
                orphan: true,
                conditions: None,
            },
            36,
        ),
        (
            Command::Local {
                on: true,
                stratum: 5,
                distance: 1.0,
                orphan: false,
                conditions: Some([0.5, 2.0, 4.0]),
            },
            48,
        ),
        (Command::Tune(address(), Tuning::MaxDelay(0.5)), 44),
        (Command::Tune(address(), Tuning::MaxDelayRatio(2.0)), 44),
        (
            Command::Tune(address(), Tuning::MaxDelayDeviationRatio(4.0)),
            44,
        ),
        (Command::Tune(address(), Tuning::MinStratum(3)), 44),
        (Command::Tune(address(), Tuning::PollTarget(16)), 44),
        (
            Command::SelectOptions {
                source: Source {
                    address: Address::Unspecified,
                    reference_id: u32::from_be_bytes(*b"PHC0"),
                },
                mask: 0x18,
                set: 0x8,
            },
            52,
        ),
        (
            Command::Offset(
                Source {
                    address: address(),
                    reference_id: 0,
                },
                -0.25,
            ),
            48,
        ),
        (Command::ReselectDistance(0.125), 28),
        (Command::Manual(1), 28),
        (Command::SetTime(UnixTime(1_000 * SECOND + 5)), 40),
        (Command::ChangeFrequency(-1.5), 28),
        (Command::ChangeOffset(0.25), 28),
        (Command::ManualDelete(3), 28),
        (Command::TrimRtc, 28),
        (Command::WriteRtc, 28),
        (Command::NtpData(address()), 152),
        (Command::Shutdown, 28),
        (Command::OnOffline, 28),
        (Command::SourceName(address()), 284),
        (Command::ResetSources, 28),
        (Command::AuthData(address()), 52),
        (
            Command::Clients {
                first: 0,
                count: 8,
                min_hits: 0,
                reset: false,
            },
            520,
        ),
        (Command::SelectData(0), 76),
        (Command::ReloadSources, 28),
    ]
}

fn view() -> View {
    let server = SourceView {
        name: "ntp.example.org".to_owned(),
        address: Some("192.0.2.1".parse().unwrap()),
        reference_id: 0xc000_0201,
        state: SourceState::Best,
        stratum: 2,
        poll: 6,
        reach: 0o377,
        online: true,
        last_sample: Some(RawTime(90 * SECOND)),
        adjusted_offset: 0.25,
        measured_offset: 0.5,
        root_distance: 0.125,
        statistics: SourceStatistics {
            n_samples: 8,
            n_runs: 4,
            span: Span(77 * SECOND),
            offset: 0.25,
            ..SourceStatistics::default()
        },
        packet: Some(PacketView {
            port: 123,
            offset: 0.5,
            tests: 0x3ff,
            interleaved: true,
            ..PacketView::default()
        }),
        ..SourceView::default()
    };
    let clock = SourceView {
        name: "PHC0".to_owned(),
        mode: SourceMode::ReferenceClock,
        reference_id: u32::from_be_bytes(*b"PHC0"),
        online: true,
        ..SourceView::default()
    };
    View {
        now: Reading {
            raw: RawTime(100 * SECOND),
            wall: UnixTime(1_000 * SECOND),
        },
        tracking: Tracking {
            reference_id: 0xc000_0201,
            address: Some("192.0.2.1".parse().unwrap()),
            stratum: 3,
            leap: Leap::Insert,
            reference_time: UnixTime(990 * SECOND + 5),
            correction: 0.25,
            last_offset: 0.5,
            ..Tracking::default()
        },
        sources: vec![server, clock],
        n_unresolved: 2,
        ..View::default()
    }
}

fn told(command: &Command, is_local: bool, open: Option<&[String]>) -> Answer {
    let usual = settings::OPEN_COMMANDS.map(str::to_owned);
    let view = view();
    let tables = Tables::new(0, [1, 2]);
    let access = Acl::new();
    let facts = Facts {
        view: &view,
        tables: &tables,
        client_log: true,
        access: &access,
        command_access: &access,
        open: open.unwrap_or(&usual),
    };
    answer(command, &facts, is_local)
}

#[test]
fn requests_have_chronycs_length_and_come_back() {
    for (command, length) in commands() {
        let request = Request {
            sequence: 0x0102_0304,
            attempt: 1,
            command,
        };
        let octets = request.to_octets();
        assert_eq!(octets.len(), length, "{request:?}");
        assert_eq!(Request::parse(&octets), Ok(request.clone()));
        let short = Request::parse(&octets[..length - 1]);
        let expected = if length > REPLY_HEADING {
            Refused::With {
                command: request.command.number(),
                sequence: 0x0102_0304,
                status: Status::BadPacketLength,
            }
        } else {
            Refused::Silently
        };
        assert_eq!(short, Err(expected), "{request:?}");
    }
}

#[test]
fn what_is_no_request_is_not_answered() {
    let good = Request {
        sequence: 9,
        attempt: 0,
        command: Command::Tracking,
    }
    .to_octets();
    let with = |place: usize, octet: u8| {
        let mut bad = good.clone();
        bad[place] = octet;
        Request::parse(&bad)
    };
    let refused = |command, status| {
        Err(Refused::With {
            command,
            sequence: 9,
            status,
        })
    };
    // A reply, so that nobody is made to answer an answer; octets that mean nothing; a version before all.
    for (place, octet) in [(1, 2), (1, 0), (2, 1), (3, 1), (0, 4)] {
        assert_eq!(with(place, octet), Err(Refused::Silently), "{place}");
    }
    assert_eq!(with(0, 5), refused(33, Status::BadPacketVersion));
    assert_eq!(with(0, 7), refused(33, Status::BadPacketVersion));
    assert_eq!(with(5, 200), refused(200, Status::Invalid));
    assert_eq!(Request::parse(&[]), Err(Refused::Silently));
}

#[test]
fn each_number_is_a_command_or_one_that_no_release_takes() {
    let known: Vec<u16> = commands()
        .iter()
        .map(|(command, _)| command.number())
        .collect();
    for number in 0..200_u16 {
        let mut datagram = Request {
            sequence: 9,
            attempt: 0,
            command: Command::Null,
        }
        .to_octets();
        datagram[4..6].copy_from_slice(&number.to_be_bytes());
        datagram.resize(MAX_LENGTH, 0);
        match Request::parse(&datagram) {
            Ok(request) => assert_eq!(request.command.number(), number),
            Err(refused) => {
                let status = Status::Invalid;
                let expected = Refused::With {
                    command: number,
                    sequence: 9,
                    status,
                };
                assert_eq!(refused, expected);
                assert!(!known.contains(&number), "{number}");
                let retired = [10, 12, 27, 28, 32, 38, 39, 40, 55, 58, 59, 60, 61];
                assert!(number > 74 || retired.contains(&number), "{number}");
            }
        }
    }
}

#[test]
fn no_reply_is_longer_than_its_request() {
    for (command, _) in commands() {
        let request = Request {
            sequence: 1,
            attempt: 0,
            command,
        };
        let length = request.to_octets().len();
        for is_local in [true, false] {
            let Answer::Reply(status, report) = told(&request.command, is_local, None) else {
                continue;
            };
            let reply = Reply {
                command: request.command.number(),
                sequence: 1,
                status,
                report,
            };
            for length in [length, length + 100, REPLY_HEADING] {
                let octets = reply.to_octets(length);
                assert!(octets.len() <= length.min(MAX_LENGTH), "{request:?}");
            }
            assert_eq!(
                Reply::parse(&reply.to_octets(length)).as_ref(),
                Some(&reply)
            );
        }
    }
}

#[test]
fn times_that_were_entered_come_back_too() {
    let entry = ManualView {
        at: UnixTime(1_000 * SECOND + 5),
        offset: 0.25,
        original_offset: -0.5,
        residual: 0.125,
    };
    let entered = Entered {
        offset: 0.5,
        frequency_change: -0.25,
        frequency: 8.0,
    };
    for (report, room) in [
        (Report::ManualList(vec![]), 416),
        (Report::ManualList(vec![entry; 16]), 416),
        (Report::ManualTimestamp(entered), 40),
    ] {
        let reply = Reply {
            command: 1,
            sequence: 2,
            status: Status::Success,
            report,
        };
        let octets = reply.to_octets(room);
        assert_eq!(octets.len(), room);
        assert_eq!(Reply::parse(&octets), Some(reply));
    }
}

#[test]
fn reports_that_nobody_has_in_their_view_come_back_too() {
    let clients = Clients {
        n_indices: 16,
        next_index: 3,
        clients: vec![
            Client {
                address: address(),
                ntp_hits: 1,
                command_hits: 2,
                ntp_drops: 3,
                command_drops: 4,
                ntp_interval: -4,
                command_interval: 6,
                ntp_timeout_interval: 127,
                last_ntp_hit: 7,
                last_command_hit: 8,
            };
            8
        ],
    };
    let stats = ServerStats {
        ntp_hits: 1,
        command_hits: 2,
        ntp_drops: 3,
        command_drops: 4,
        log_drops: 5,
        ntp_auth_hits: 6,
        ntp_interleaved_hits: 7,
        ntp_timestamps: 8,
        ntp_span: 9,
        received_by: [10, 11, 12],
        transmitted_by: [13, 14, 15],
    };
    for (report, room) in [
        (Report::Clients(clients), 520),
        (Report::ServerStats(stats), 196),
    ] {
        let reply = Reply {
            command: 1,
            sequence: 2,
            status: Status::Success,
            report,
        };
        let octets = reply.to_octets(room);
        assert_eq!(octets.len(), room);
        assert_eq!(Reply::parse(&octets), Some(reply));
    }
    // chronyc 4.3 leaves room for 32 bits a counter, and gets no more.
    let reply = Reply {
        command: 54,
        sequence: 2,
        status: Status::Success,
        report: Report::ServerStats(ServerStats {
            ntp_hits: u64::MAX,
            ..stats
        }),
    };
    let Some(Report::ServerStats(narrow)) = Reply::parse(&reply.to_octets(72)).map(|it| it.report)
    else {
        panic!("no such report");
    };
    assert_eq!(
        (narrow.ntp_hits, narrow.received_by),
        (u32::MAX.into(), [0; 3])
    );
}

#[test]
fn over_udp_come_reports_alone() {
    let unauthorised = Answer::from(Status::Unauthorised);
    let open: Vec<u16> = commands()
        .iter()
        .filter(|(command, _)| told(command, false, None) != unauthorised)
        .map(|(command, _)| command.number())
        .collect();
    // Those of chronyd 4.3.
    assert_eq!(open, [0, 14, 15, 33, 34, 35, 41, 44, 51, 65]);
    let more = ["ntpdata".to_owned(), "serverstats".to_owned()];
    let open: Vec<u16> = commands()
        .iter()
        .filter(|(command, _)| told(command, false, Some(&more)) != unauthorised)
        .map(|(command, _)| command.number())
        .collect();
    assert_eq!(open, [0, 14, 15, 54, 57]);
    assert!(
        commands()
            .iter()
            .all(|(command, _)| told(command, true, None) != unauthorised)
    );
}

#[test]
fn signs_are_chronys() {
    // The clock is behind by a quarter of a second: chronyc says "slow", and a negative offset of the local clock.
    let Answer::Reply(_, Report::Tracking(tracking)) = told(&Command::Tracking, false, None) else {
        panic!("no tracking");
    };
    assert_eq!(tracking.current_correction.to_bits(), 0.25_f64.to_bits());
    assert_eq!(tracking.last_offset.to_bits(), (-0.5_f64).to_bits());
    assert_eq!((tracking.leap, tracking.stratum), (1, 3));
    let Answer::Reply(_, Report::SourceData(data)) = told(&Command::SourceData(0), false, None)
    else {
        panic!("no source");
    };
    assert_eq!(data.offset.to_bits(), (-0.25_f64).to_bits());
    assert_eq!(data.original_offset.to_bits(), (-0.5_f64).to_bits());
    assert_eq!((data.state, data.since_sample), (0, 10));
    let Answer::Reply(_, Report::NtpData(packet)) = told(&Command::NtpData(address()), true, None)
    else {
        panic!("no packet");
    };
    assert_eq!(packet.offset.to_bits(), 0.5_f64.to_bits());
    assert_eq!(packet.flags, 0x43ff);
    let Answer::Reply(_, Report::SourceData(clock)) = told(&Command::SourceData(1), false, None)
    else {
        panic!("no clock");
    };
    assert_eq!(clock.address, Address::Ip(IpAddr::from(*b"PHC0")));
    assert_eq!(
        told(&Command::Activity, false, None),
        Report::Activity(Activity {
            online: 1,
            unresolved: 2,
            ..Activity::default()
        })
        .into()
    );
    for command in [
        Command::SourceData(2),
        Command::SourceStats(9),
        Command::NtpData(Address::Id(1)),
    ] {
        assert_eq!(told(&command, true, None), Status::NoSuchSource.into());
    }
}

fn named() -> NewSource {
    NewSource {
        name: Some("ntp.example.org".to_owned()),
        ..NewSource::default()
    }
}

/// `cmdallow`.
fn access(address: Address, bits: i32) -> Command {
    Command::Access {
        commands: true,
        allow: true,
        all: false,
        address,
        bits,
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn commands_become_errands() {
    use engine::Command as Do;
    use engine::SourceMatch;
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    let network = Sources {
        mask: Address::Ip("255.255.0.0".parse().unwrap()),
        address: Address::Ip("192.0.2.1".parse().unwrap()),
    };
    for (command, expected) in [
        (Command::MakeStep, Do::MakeStep.into()),
        (
            Command::Online(Sources::ALL),
            Do::Online(SourceMatch::All).into(),
        ),
        (
            Command::Offline(sources()),
            Do::Offline(SourceMatch::Network(v6.into())).into(),
        ),
        (
            Command::Offline(network),
            Do::Offline(SourceMatch::Network("192.0.0.0/16".parse().unwrap())).into(),
        ),
        (
            Command::Burst {
                sources: Sources::ALL,
                good: 4,
                total: 8,
            },
            Do::Burst {
                good: 4,
                total: 8,
                sources: SourceMatch::All,
            }
            .into(),
        ),
        (
            Command::SetMakeStep {
                limit: -1,
                threshold: 0.5,
            },
            Do::SetMakeStep(Some(MakeStep {
                threshold: 0.5,
                limit: None,
            }))
            .into(),
        ),
        (
            Command::SetMakeStep {
                limit: 0,
                threshold: 0.5,
            },
            Do::SetMakeStep(None).into(),
        ),
        (
            Command::Rekey,
            Answer::ControlRequest(ControlRequest::Rekey),
        ),
        (
            Command::Shutdown,
            Answer::ControlRequest(ControlRequest::Shutdown),
        ),
        (Command::Dump, Status::Success.into()),
        (
            Command::Online(Sources {
                mask: Address::Ip("255.0.255.0".parse().unwrap()),
                ..network
            }),
            Status::BadSubnet.into(),
        ),
        (
            Command::Online(Sources {
                mask: Address::Ip(v6),
                ..network
            }),
            Status::BadSubnet.into(),
        ),
        (
            Command::Online(Sources {
                mask: Address::Unspecified,
                address: Address::Id(1),
            }),
            Status::NoSuchSource.into(),
        ),
        (
            Command::Burst {
                sources: Sources::ALL,
                good: -1,
                total: 8,
            },
            Status::Invalid.into(),
        ),
        (
            Command::Local {
                on: true,
                stratum: 16,
                distance: 1.0,
                orphan: false,
                conditions: None,
            },
            Status::Invalid.into(),
        ),
        (
            Command::Local {
                on: true,
                stratum: 7,
                distance: 1.0,
                orphan: true,
                conditions: Some([0.5, 2.0, -4.0]),
            },
            Do::SetLocal(Some(settings::Local {
                stratum: 7,
                distance: 1.0,
                orphan: true,
                activate: 0.5,
                wait_synchronised: 2.0,
                wait_unsynchronised: 0.0,
            }))
            .into(),
        ),
        (
            Command::Tune(Address::Id(1), Tuning::PollTarget(8)),
            Status::NoSuchSource.into(),
        ),
        (
            Command::Tune(Address::Ip(v6), Tuning::MinStratum(-1)),
            Do::Tune {
                sources: SourceMatch::Network(v6.into()),
                tuning: engine::Tuning::MinStratum(0),
            }
            .into(),
        ),
        (
            // `selectopts PHC0 +prefer -noselect`
            Command::SelectOptions {
                source: Source {
                    address: Address::Unspecified,
                    reference_id: u32::from_be_bytes(*b"PHC0"),
                },
                mask: 0x18,
                set: 0x8,
            },
            Do::Tune {
                sources: SourceMatch::Clock(u32::from_be_bytes(*b"PHC0")),
                tuning: engine::Tuning::Select {
                    mask: SelectOptions {
                        noselect: true,
                        prefer: true,
                        ..SelectOptions::default()
                    },
                    to: SelectOptions {
                        prefer: true,
                        ..SelectOptions::default()
                    },
                },
            }
            .into(),
        ),
        (
            Command::ReselectDistance(-0.5),
            Do::SetReselectDistance(0.5).into(),
        ),
        (Command::Manual(0), Do::EnableManual(false).into()),
        (Command::Manual(1), Do::EnableManual(true).into()),
        (Command::Manual(2), Do::ResetManual.into()),
        (Command::Manual(3), Status::Invalid.into()),
        (Command::ManualDelete(3), Do::DeleteManual(3).into()),
        (Command::ManualDelete(-1), Status::BadSample.into()),
        (
            Command::SetTime(UnixTime(7)),
            Do::EnterTime(UnixTime(7)).into(),
        ),
        (
            Command::ChangeFrequency(-1.5),
            Do::ChangeFrequency(-1.5).into(),
        ),
        (Command::ChangeOffset(0.25), Do::ChangeOffset(0.25).into()),
        (Command::TrimRtc, Status::NoRtc.into()),
        (Command::WriteRtc, Status::NoRtc.into()),
        (Command::MinPoll(address(), 1000), Status::Invalid.into()),
        (
            access(Address::Ip("192.0.2.77".parse().unwrap()), 24),
            Answer::ControlRequest(ControlRequest::Access {
                commands: true,
                rule: AccessRule {
                    allow: true,
                    all: false,
                    clients: settings::ClientMatch::Network("192.0.2.0/24".parse().unwrap()),
                },
            }),
        ),
        (access(Address::Ip(v6), 129), Status::BadSubnet.into()),
        (access(Address::Ip(v6), -1), Status::BadSubnet.into()),
        (access(Address::Unspecified, 8), Status::BadSubnet.into()),
        (access(Address::Id(1), 0), Status::BadSubnet.into()),
        (
            Command::DeleteSource(Address::Ip(v6)),
            Do::DeleteSource(v6).into(),
        ),
        (
            Command::DeleteSource(Address::Id(1)),
            Status::NoSuchSource.into(),
        ),
        (Command::AddSource(Box::default()), Status::Invalid.into()),
    ] {
        assert_eq!(told(&command, true, None), expected, "{command:?}");
    }
}
