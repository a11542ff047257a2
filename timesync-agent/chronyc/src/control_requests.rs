//! Commands of chronyc that change something, and the part that executes each.

use ipnet::IpNet;

use super::reply::{Address, Report, Status};
use super::request::{Command, Source, Sources, Tuning};
use super::source::select_options;
use ntp::engine;
use time_model::settings::{AccessRule, ClientMatch, Local, MakeStep};

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRequest {
    /// By the engine.
    Engine(engine::Command),
    /// Ask those sources that there is a way to, and no others.
    OnOffline,
    /// Read the keys again.
    Rekey,
    /// Read the sources of `sourcedir` again.
    ReloadSources,
    /// Open the logs again.
    CycleLogs,
    /// End.
    Shutdown,
    /// Allow or deny a network.
    Access {
        /// To chronyc's protocol, not to the time.
        commands: bool,
        /// The network, and the verdict.
        rule: AccessRule,
    },
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The reply is this.
    Reply(Status, Report),
    /// Another part executes this, and the reply is its result.
    ControlRequest(ControlRequest),
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Self::Reply(status, Report::Null)
    }
}

impl From<Report> for Answer {
    fn from(report: Report) -> Self {
        Self::Reply(Status::Success, report)
    }
}

impl From<engine::Command> for Answer {
    fn from(command: engine::Command) -> Self {
        Self::ControlRequest(ControlRequest::Engine(command))
    }
}

/// The reply to a command that the engine has executed.
#[must_use]
pub fn replied(reply: engine::Reply) -> (Status, Report) {
    let report = match &reply {
        engine::Reply::Entered(entered) => Report::ManualTimestamp(*entered),
        _ => Report::Null,
    };
    (reply.into(), report)
}

impl From<engine::Reply> for Status {
    fn from(reply: engine::Reply) -> Self {
        match reply {
            engine::Reply::Done | engine::Reply::Sources(_) | engine::Reply::Entered(_) => {
                Self::Success
            }
            engine::Reply::AlreadyPresent => Self::SourceAlreadyKnown,
            engine::Reply::TooMany => Self::TooManySources,
            engine::Reply::NoSuchSource => Self::NoSuchSource,
            engine::Reply::NoSuchEntry => Self::BadSample,
            engine::Reply::NotEnabled => Self::NotEnabled,
            engine::Reply::Invalid => Self::Invalid,
            engine::Reply::Failed => Self::Failed,
        }
    }
}

/// The result of a command that is no report.
pub(super) fn control_request(command: &Command) -> Answer {
    use engine::Command as Do;
    let for_sources =
        |sources: &Sources, make: fn(engine::SourceMatch) -> Do| match source_match(*sources) {
            Ok(sources) => Answer::from(make(sources)),
            Err(status) => status.into(),
        };
    match command {
        Command::Online(sources) => for_sources(sources, Do::Online),
        Command::Offline(sources) => for_sources(sources, Do::Offline),
        Command::Burst {
            sources,
            good,
            total,
        } => match (
            source_match(*sources),
            u32::try_from(*good),
            u32::try_from(*total),
        ) {
            (Ok(sources), Ok(good), Ok(total)) => Do::Burst {
                good,
                total,
                sources,
            }
            .into(),
            (Err(status), ..) => status.into(),
            _ => Status::Invalid.into(),
        },
        Command::MinPoll(address, poll) => polling(*address, Some(*poll), None),
        Command::MaxPoll(address, poll) => polling(*address, None, Some(*poll)),
        Command::Tune(..) | Command::SelectOptions { .. } | Command::Offset(..) => tune(command),
        Command::ReselectDistance(distance) => Do::SetReselectDistance(distance.abs()).into(),
        Command::MaxUpdateSkew(skew) if *skew >= 0.0 => Do::SetMaxUpdateSkew(*skew).into(),
        Command::MakeStep => Do::MakeStep.into(),
        Command::SetMakeStep { limit, threshold } if *threshold >= 0.0 => {
            let rule = match u32::try_from(*limit) {
                Ok(0) => None,
                limit => Some(MakeStep {
                    threshold: *threshold,
                    limit: limit.ok(),
                }),
            };
            Do::SetMakeStep(rule).into()
        }
        Command::Local { .. } => local(command),
        Command::SmoothTime(0) => Do::SmoothTime(engine::SmoothTime::Reset).into(),
        Command::SmoothTime(1) => Do::SmoothTime(engine::SmoothTime::Activate).into(),
        Command::Refresh => Do::Refresh.into(),
        Command::Reselect => Do::Reselect.into(),
        Command::ResetSources => Do::ResetSources.into(),
        Command::OnOffline => Answer::ControlRequest(ControlRequest::OnOffline),
        Command::Rekey => Answer::ControlRequest(ControlRequest::Rekey),
        Command::ReloadSources => Answer::ControlRequest(ControlRequest::ReloadSources),
        Command::CycleLogs => Answer::ControlRequest(ControlRequest::CycleLogs),
        Command::Shutdown => Answer::ControlRequest(ControlRequest::Shutdown),
        // Samples are not kept in files, so there is nothing to be written.
        Command::Dump => Status::Success.into(),
        Command::MaxUpdateSkew(_) | Command::SetMakeStep { .. } | Command::SmoothTime(_) => {
            Status::Invalid.into()
        }
        _ => change(command),
    }
}

/// The access list and the sources; both until the end of the process.
fn change(command: &Command) -> Answer {
    use engine::Command as Do;
    match command {
        Command::Access {
            commands,
            allow,
            all,
            address,
            bits,
        } => match network(*address, *bits) {
            Some(clients) => Answer::ControlRequest(ControlRequest::Access {
                commands: *commands,
                rule: AccessRule {
                    allow: *allow,
                    all: *all,
                    clients,
                },
            }),
            None => Status::BadSubnet.into(),
        },
        Command::AddSource(source) => match source.settings() {
            Ok(settings) => Do::AddSource(Box::new(settings)).into(),
            Err(status) => status.into(),
        },
        Command::DeleteSource(Address::Ip(address)) => Do::DeleteSource(*address).into(),
        // A source without an address cannot be told from others.
        Command::DeleteSource(_) => Status::NoSuchSource.into(),
        Command::Manual(0) => Do::EnableManual(false).into(),
        Command::Manual(1) => Do::EnableManual(true).into(),
        Command::Manual(2) => Do::ResetManual.into(),
        Command::ManualDelete(index) => match usize::try_from(*index) {
            Ok(index) => Do::DeleteManual(index).into(),
            Err(_) => Status::BadSample.into(),
        },
        Command::SetTime(time) => Do::EnterTime(*time).into(),
        Command::ChangeFrequency(ppm) => Do::ChangeFrequency(*ppm).into(),
        Command::ChangeOffset(seconds) => Do::ChangeOffset(*seconds).into(),
        Command::TrimRtc | Command::WriteRtc => Status::NoRtc.into(),
        _ => Status::Invalid.into(),
    }
}

/// The network of an access line.
fn network(address: Address, bits: i32) -> Option<ClientMatch> {
    match address {
        Address::Unspecified => (bits == 0).then_some(ClientMatch::Everybody),
        Address::Ip(address) => {
            let network = IpNet::new(address, u8::try_from(bits).ok()?).ok()?;
            Some(ClientMatch::Network(network.trunc()))
        }
        Address::Id(_) => None,
    }
}

fn polling(address: Address, minpoll: Option<i32>, maxpoll: Option<i32>) -> Answer {
    let Address::Ip(address) = address else {
        return Status::NoSuchSource.into();
    };
    let poll = |poll: Option<i32>| poll.map(i8::try_from).transpose();
    match (poll(minpoll), poll(maxpoll)) {
        (Ok(minpoll), Ok(maxpoll)) => engine::Command::SetPolling {
            sources: engine::SourceMatch::Network(address.into()),
            minpoll,
            maxpoll,
        }
        .into(),
        _ => Status::Invalid.into(),
    }
}

/// The own time for clients.
fn local(command: &Command) -> Answer {
    use engine::Command as Do;
    match command {
        Command::Local {
            on,
            stratum,
            distance,
            orphan,
            conditions,
        } => {
            let [activate, wait_synchronised, wait_unsynchronised] =
                conditions.unwrap_or_default().map(|value| value.max(0.0));
            let stratum = u8::try_from(*stratum).ok().filter(|n| (1..=15).contains(n));
            match (on, stratum) {
                (false, _) => Do::SetLocal(None).into(),
                (true, Some(stratum)) if *distance >= 0.0 => Do::SetLocal(Some(Local {
                    stratum,
                    distance: *distance,
                    orphan: *orphan,
                    activate,
                    wait_synchronised,
                    wait_unsynchronised,
                }))
                .into(),
                _ => Status::Invalid.into(),
            }
        }
        _ => Status::Invalid.into(),
    }
}

/// A change of one source, until the configuration is read again.
fn tune(command: &Command) -> Answer {
    let by_address = |address| match address {
        Address::Ip(address) => Some(engine::SourceMatch::Network(address.into())),
        _ => None,
    };
    let (sources, tuning) = match command {
        Command::Tune(address, tuning) => {
            let tuning = match *tuning {
                Tuning::MaxDelay(seconds) => engine::Tuning::MaxDelay(seconds),
                Tuning::MaxDelayRatio(ratio) => engine::Tuning::MaxDelayRatio(ratio),
                Tuning::MaxDelayDeviationRatio(ratio) => {
                    engine::Tuning::MaxDelayDeviationRatio(ratio)
                }
                Tuning::MinStratum(stratum) => {
                    engine::Tuning::MinStratum(u8::try_from(stratum.clamp(0, 255)).unwrap_or(0))
                }
                Tuning::PollTarget(target) => {
                    engine::Tuning::PollTarget(u32::try_from(target).unwrap_or(0))
                }
            };
            (by_address(*address), tuning)
        }
        Command::Offset(source, offset) => (one(*source), engine::Tuning::Offset(*offset)),
        Command::SelectOptions { source, mask, set } => {
            let (mask, to) = (select_options(*mask), select_options(*set));
            (one(*source), engine::Tuning::Select { mask, to })
        }
        _ => return Status::Invalid.into(),
    };
    match sources {
        Some(sources) => engine::Command::Tune { sources, tuning }.into(),
        None => Status::NoSuchSource.into(),
    }
}

fn one(source: Source) -> Option<engine::SourceMatch> {
    match source.address {
        Address::Ip(address) => Some(engine::SourceMatch::Network(address.into())),
        Address::Unspecified => Some(engine::SourceMatch::Clock(source.reference_id)),
        Address::Id(_) => None,
    }
}

fn source_match(sources: Sources) -> Result<engine::SourceMatch, Status> {
    let address = match sources.address {
        Address::Unspecified => return Ok(engine::SourceMatch::All),
        Address::Ip(address) => address,
        Address::Id(_) => return Err(Status::NoSuchSource),
    };
    let network = match sources.mask {
        Address::Ip(mask) => {
            let length = ipnet::ip_mask_to_prefix(mask).map_err(|_| Status::BadSubnet)?;
            let is_same_family = mask.is_ipv4() == address.is_ipv4();
            let network = IpNet::new(address, length).ok().filter(|_| is_same_family);
            network.ok_or(Status::BadSubnet)?
        }
        _ => IpNet::from(address),
    };
    Ok(engine::SourceMatch::Network(network.trunc()))
}
