//! Between the generated messages and the typed values.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    AdminState, Basis, CheckStep, Content, Deviation, DnsProbe, Expectation, HealthError,
    HttpProbe, Liveness, NodeFinding, Schedule, Target, TargetKind, TargetStatus, Verdict, Verify,
    Watched,
};
use crate::wire;

//--- Targets

impl TryFrom<wire::Target> for Target {
    type Error = HealthError;

    fn try_from(target: wire::Target) -> Result<Self, HealthError> {
        let address = address_from_wire(&target.address)?;
        let port = u16::try_from(target.port).ok().filter(|port| *port != 0);
        let port = port.ok_or(HealthError::Port(target.port))?;
        let source = match target.source.as_str() {
            "" => None,
            text => Some(address_from_wire(text)?),
        };
        Ok(Self {
            kind: kind_from_wire(target.kind.ok_or(HealthError::Kind)?)?,
            address: SocketAddr::new(address, port),
            source,
        })
    }
}

impl From<&Target> for wire::Target {
    fn from(target: &Target) -> Self {
        Self {
            address: target.address.ip().to_string(),
            port: u32::from(target.address.port()),
            schedule: None,
            source: target
                .source
                .map(|source| source.to_string())
                .unwrap_or_default(),
            kind: Some(kind_to_wire(&target.kind)),
        }
    }
}

impl TryFrom<wire::Target> for Watched {
    type Error = HealthError;

    fn try_from(target: wire::Target) -> Result<Self, HealthError> {
        Ok(Self {
            deviation: target.schedule.unwrap_or_default().into(),
            target: target.try_into()?,
        })
    }
}

impl From<&Watched> for wire::Target {
    fn from(watched: &Watched) -> Self {
        let deviation = &watched.deviation;
        Self {
            schedule: (!deviation.is_none()).then(|| deviation.into()),
            ..Self::from(&watched.target)
        }
    }
}

fn address_from_wire(text: &str) -> Result<IpAddr, HealthError> {
    text.parse()
        .map_err(|_| HealthError::Address(text.to_owned()))
}

fn kind_from_wire(kind: wire::target::Kind) -> Result<TargetKind, HealthError> {
    use wire::target::Kind;
    Ok(match kind {
        Kind::Tcp(wire::TcpProbe {}) => TargetKind::Tcp,
        Kind::Http(probe) => TargetKind::Http(probe.try_into()?),
        Kind::Https(probe) => TargetKind::Https(probe.try_into()?),
        Kind::Grpc(wire::GrpcProbe { service }) => TargetKind::Grpc { service },
        Kind::Dns(probe) => TargetKind::Dns(probe.try_into()?),
        Kind::Ntp(wire::NtpProbe {}) => TargetKind::Ntp,
        Kind::TcpCheck(probe) => {
            let steps = probe.steps.into_iter().map(CheckStep::try_from);
            TargetKind::TcpCheck(steps.collect::<Result<_, _>>()?)
        }
    })
}

fn kind_to_wire(kind: &TargetKind) -> wire::target::Kind {
    use wire::target::Kind;
    match kind {
        TargetKind::Tcp => Kind::Tcp(wire::TcpProbe {}),
        TargetKind::Http(probe) => Kind::Http(probe.into()),
        TargetKind::Https(probe) => Kind::Https(probe.into()),
        TargetKind::Grpc { service } => Kind::Grpc(wire::GrpcProbe {
            service: service.clone(),
        }),
        TargetKind::Dns(probe) => Kind::Dns(probe.into()),
        TargetKind::Ntp => Kind::Ntp(wire::NtpProbe {}),
        TargetKind::TcpCheck(steps) => Kind::TcpCheck(wire::TcpCheckProbe {
            steps: steps.iter().map(Into::into).collect(),
        }),
    }
}

impl TryFrom<wire::CheckStep> for CheckStep {
    type Error = HealthError;

    fn try_from(step: wire::CheckStep) -> Result<Self, HealthError> {
        use wire::check_step::Step;
        let expect = |content, is_wanted| Self::Expect(Expectation { content, is_wanted });
        Ok(match step.step.ok_or(HealthError::Step)? {
            Step::Send(octets) => Self::Send(octets),
            Step::Expect(octets) => expect(Content::Octets(octets), true),
            Step::ExpectPattern(pattern) => expect(Content::Pattern(pattern), true),
            Step::ExpectNot(octets) => expect(Content::Octets(octets), false),
            Step::ExpectNotPattern(pattern) => expect(Content::Pattern(pattern), false),
        })
    }
}

impl From<&CheckStep> for wire::CheckStep {
    fn from(step: &CheckStep) -> Self {
        use wire::check_step::Step;
        let step = match step.clone() {
            CheckStep::Send(octets) => Step::Send(octets),
            CheckStep::Expect(Expectation { content, is_wanted }) => match (content, is_wanted) {
                (Content::Octets(octets), true) => Step::Expect(octets),
                (Content::Pattern(pattern), true) => Step::ExpectPattern(pattern),
                (Content::Octets(octets), false) => Step::ExpectNot(octets),
                (Content::Pattern(pattern), false) => Step::ExpectNotPattern(pattern),
            },
        };
        Self { step: Some(step) }
    }
}

impl TryFrom<wire::HttpProbe> for HttpProbe {
    type Error = HealthError;

    fn try_from(probe: wire::HttpProbe) -> Result<Self, HealthError> {
        let default = Self::default();
        let status = match probe.status {
            0 => default.status,
            given => u16::try_from(given)
                .ok()
                .filter(|status| (100..1000).contains(status))
                .ok_or(HealthError::Status(given))?,
        };
        let or = |given: String, other: String| if given.is_empty() { other } else { given };
        Ok(Self {
            verify: match probe.verify() {
                wire::TlsVerify::System => Verify::System,
                wire::TlsVerify::None => Verify::Off,
                wire::TlsVerify::Ca => Verify::Ca(probe.ca_file),
            },
            method: or(probe.method, default.method),
            host: probe.host,
            path: or(probe.path, default.path),
            status,
            body: Some(probe.body).filter(|body| !body.is_empty()),
            user_agent: probe.user_agent,
            headers: probe
                .headers
                .into_iter()
                .map(|header| (header.name, header.value))
                .collect(),
            byte_limit: Some(probe.byte_limit).filter(|limit| *limit != 0),
        })
    }
}

impl From<&HttpProbe> for wire::HttpProbe {
    fn from(probe: &HttpProbe) -> Self {
        let (verify, ca_file) = match &probe.verify {
            Verify::System => (wire::TlsVerify::System, String::new()),
            Verify::Off => (wire::TlsVerify::None, String::new()),
            Verify::Ca(file) => (wire::TlsVerify::Ca, file.clone()),
        };
        let header = |(name, value): &(String, String)| wire::Header {
            name: name.clone(),
            value: value.clone(),
        };
        Self {
            method: probe.method.clone(),
            path: probe.path.clone(),
            host: probe.host.clone(),
            status: u32::from(probe.status),
            body: probe.body.clone().unwrap_or_default(),
            user_agent: probe.user_agent.clone(),
            headers: probe.headers.iter().map(header).collect(),
            byte_limit: probe.byte_limit.unwrap_or_default(),
            verify: verify.into(),
            ca_file,
        }
    }
}

impl TryFrom<wire::DnsProbe> for DnsProbe {
    type Error = HealthError;

    fn try_from(probe: wire::DnsProbe) -> Result<Self, HealthError> {
        let default = Self::default();
        let word =
            |value: u32, what| u16::try_from(value).map_err(|_| HealthError::Range(value, what));
        Ok(Self {
            name: if probe.name.is_empty() {
                default.name
            } else {
                probe.name
            },
            rtype: match probe.r#type {
                0 => default.rtype,
                given => word(given, "a record type")?,
            },
            rcode: probe
                .rcode
                .map(|rcode| word(rcode, "a response code"))
                .transpose()?,
        })
    }
}

impl From<&DnsProbe> for wire::DnsProbe {
    fn from(probe: &DnsProbe) -> Self {
        Self {
            name: probe.name.clone(),
            r#type: u32::from(probe.rtype),
            rcode: probe.rcode.map(u32::from),
        }
    }
}

/// Zero stands for the site's value.
impl From<wire::Schedule> for Deviation {
    fn from(schedule: wire::Schedule) -> Self {
        let time = |millis: u32| (millis != 0).then(|| Duration::from_millis(u64::from(millis)));
        let count = |count: u32| (count != 0).then_some(count);
        Self {
            interval: time(schedule.interval_ms),
            fast_interval: time(schedule.fast_interval_ms),
            timeout: time(schedule.timeout_ms),
            rise: count(schedule.rise),
            fall: count(schedule.fall),
        }
    }
}

impl From<&Deviation> for wire::Schedule {
    fn from(deviation: &Deviation) -> Self {
        let time = |time: Option<Duration>| time.map_or(0, millis);
        Self {
            interval_ms: time(deviation.interval),
            fast_interval_ms: time(deviation.fast_interval),
            timeout_ms: time(deviation.timeout),
            rise: deviation.rise.unwrap_or_default(),
            fall: deviation.fall.unwrap_or_default(),
        }
    }
}

impl From<Schedule> for wire::Schedule {
    fn from(schedule: Schedule) -> Self {
        Self {
            interval_ms: millis(schedule.interval),
            fast_interval_ms: millis(schedule.fast_interval),
            timeout_ms: millis(schedule.timeout),
            rise: schedule.rise,
            fall: schedule.fall,
        }
    }
}

/// A time in whole milliseconds, at least one.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}

//--- States

impl From<wire::Liveness> for Liveness {
    fn from(liveness: wire::Liveness) -> Self {
        match liveness {
            wire::Liveness::Unknown => Self::Unknown,
            wire::Liveness::Up => Self::Up,
            wire::Liveness::Down => Self::Down,
        }
    }
}

impl From<Liveness> for wire::Liveness {
    fn from(liveness: Liveness) -> Self {
        match liveness {
            Liveness::Unknown => Self::Unknown,
            Liveness::Up => Self::Up,
            Liveness::Down => Self::Down,
        }
    }
}

impl From<wire::AdminState> for AdminState {
    fn from(state: wire::AdminState) -> Self {
        match state {
            wire::AdminState::Ready => Self::Ready,
            wire::AdminState::Drain => Self::Drain,
            wire::AdminState::Maintenance => Self::Maintenance,
        }
    }
}

impl From<AdminState> for wire::AdminState {
    fn from(state: AdminState) -> Self {
        match state {
            AdminState::Ready => Self::Ready,
            AdminState::Drain => Self::Drain,
            AdminState::Maintenance => Self::Maintenance,
        }
    }
}

/// The target that a status names; `None` when it cannot be parsed.
pub(super) fn target_of(status: &wire::TargetStatus) -> Option<Target> {
    Target::try_from(status.target.clone()?).ok()
}

impl From<&wire::TargetStatus> for TargetStatus {
    fn from(status: &wire::TargetStatus) -> Self {
        let moment = |millis: u64| match millis {
            0 => None,
            millis => UNIX_EPOCH.checked_add(Duration::from_millis(millis)),
        };
        let echoed = || status.target.as_ref()?.schedule;
        let in_force = status.schedule.or_else(echoed);
        Self {
            liveness: status.liveness().into(),
            admin: status.admin_state().into(),
            since: moment(status.since_ms),
            last_check: moment(status.last_check_ms),
            latency: Duration::from_micros(status.latency_us),
            reason: status.reason.clone(),
            warm: status.warm,
            generation: status.generation,
            // A healthd of the version before echoes the schedule with the target, its defaults filled in.
            schedule: Schedule::default().with(&in_force.unwrap_or_default().into()),
            verdict: status.verdict.as_ref().map(Verdict::from),
        }
    }
}

/// A target and its status as they travel.
impl From<(&Target, &TargetStatus)> for wire::TargetStatus {
    fn from((target, status): (&Target, &TargetStatus)) -> Self {
        let millis = |moment: Option<SystemTime>| {
            let since_epoch = moment.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
            since_epoch.map_or(0, |time| {
                u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
            })
        };
        Self {
            target: Some(target.into()),
            liveness: wire::Liveness::from(status.liveness).into(),
            admin_state: wire::AdminState::from(status.admin).into(),
            since_ms: millis(status.since),
            last_check_ms: millis(status.last_check),
            latency_us: u64::try_from(status.latency.as_micros()).unwrap_or(u64::MAX),
            reason: status.reason.clone(),
            warm: status.warm,
            stated: 0,
            schedule: Some(status.schedule.into()),
            generation: status.generation,
            verdict: status.verdict.as_ref().map(Into::into),
        }
    }
}

//--- Verdicts

impl From<wire::Basis> for Basis {
    fn from(basis: wire::Basis) -> Self {
        match basis {
            wire::Basis::Own => Self::Own,
            wire::Basis::Site => Self::Site,
            wire::Basis::Split => Self::Split,
            wire::Basis::Last => Self::Last,
        }
    }
}

impl From<Basis> for wire::Basis {
    fn from(basis: Basis) -> Self {
        match basis {
            Basis::Own => Self::Own,
            Basis::Site => Self::Site,
            Basis::Split => Self::Split,
            Basis::Last => Self::Last,
        }
    }
}

impl From<&wire::Verdict> for Verdict {
    fn from(verdict: &wire::Verdict) -> Self {
        let finding = |finding: &wire::NodeFinding| NodeFinding {
            node: finding.node.clone(),
            liveness: finding.liveness().into(),
            reason: finding.reason.clone(),
        };
        Self {
            basis: verdict.basis().into(),
            findings: verdict.findings.iter().map(finding).collect(),
        }
    }
}

impl From<&Verdict> for wire::Verdict {
    fn from(verdict: &Verdict) -> Self {
        let finding = |finding: &NodeFinding| wire::NodeFinding {
            node: finding.node.clone(),
            liveness: wire::Liveness::from(finding.liveness).into(),
            reason: finding.reason.clone(),
        };
        Self {
            basis: wire::Basis::from(verdict.basis).into(),
            findings: verdict.findings.iter().map(finding).collect(),
        }
    }
}
