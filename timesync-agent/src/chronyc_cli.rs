//! The verbs of chronyc: reports of a daemon, this one or chronyd, about its time.

pub mod args;
pub mod client;

use std::collections::HashMap;
use std::net::IpAddr;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use daemon::print::{self, out};
use daemon::{errln, exit, outln};

use chronyc::reply::{Address, Report, SourceData, Status};
use chronyc::request::{Command, Sources};
use client::{Client, Options, QueryError};

use args::{AddressArgs, BurstArgs, LinkArgs, MakeStepArgs, ReportArgs, WaitSyncArgs};
use chronyc::json;
use chronyc::render::{self, Form, Names, Page};

/// The local clock as a reference: it is no source of time.
const LOCAL_REFERENCE: u32 = 0x7f7f_0101;

/// A verb of chronyc.
#[derive(Debug)]
pub enum Verb<'a> {
    Tracking(&'a ReportArgs),
    Sources(&'a ReportArgs),
    SourceStats(&'a ReportArgs),
    SelectData(&'a ReportArgs),
    Activity(&'a ReportArgs),
    Smoothing(&'a ReportArgs),
    NtpData(&'a ReportArgs, Option<IpAddr>),
    ServerStats(&'a ReportArgs),
    Clients(&'a ReportArgs),
    WaitSync(&'a WaitSyncArgs),
    MakeStep(&'a MakeStepArgs),
    Burst(&'a BurstArgs),
    Online(&'a AddressArgs),
    Offline(&'a AddressArgs),
    Plain(&'a LinkArgs, Command),
}

/// Does it; 0 is well, and 1 is anything else, as chronyc has it.
#[must_use]
pub fn run(verb: &Verb<'_>) -> ExitCode {
    let done = match verb {
        Verb::Tracking(args) => report(args, Kind::Tracking),
        Verb::Sources(args) => report(args, Kind::Sources),
        Verb::SourceStats(args) => report(args, Kind::SourceStats),
        Verb::SelectData(args) => report(args, Kind::SelectData),
        Verb::Activity(args) => report(args, Kind::Activity),
        Verb::Smoothing(args) => report(args, Kind::Smoothing),
        Verb::NtpData(args, address) => report(args, Kind::NtpData(*address)),
        Verb::ServerStats(args) => report(args, Kind::ServerStats),
        Verb::Clients(args) => report(args, Kind::Clients),
        Verb::WaitSync(args) => wait_sync(args),
        Verb::MakeStep(args) => tell(&args.link, &args.command()),
        Verb::Burst(args) => tell(
            &args.link,
            &Command::Burst {
                sources: args.sources(),
                good: args.count.good,
                total: args.count.total,
            },
        ),
        Verb::Online(args) => tell(&args.link, &Command::Online(args.sources())),
        Verb::Offline(args) => tell(&args.link, &Command::Offline(args.sources())),
        Verb::Plain(link, command) => tell(link, command),
    };
    print::flush();
    match done {
        Ok(true) => exit::code(exit::OK),
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // chronyc says it on its output, which scripts read.
            match error {
                QueryError::Connect => errln!("{error}"),
                error => outln!("{error}"),
            }
            ExitCode::FAILURE
        }
    }
}

fn client(link: &LinkArgs) -> Client {
    Client::new(Options {
        hosts: link.host.clone(),
        port: link.port,
        timeout: Duration::from_millis(link.timeout),
        retries: link.retries,
    })
}

fn tell(link: &LinkArgs, command: &Command) -> Result<bool, QueryError> {
    let status = client(link).tell(command)?;
    outln!("{}", status.text());
    Ok(status.is_success())
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tracking,
    Sources,
    SourceStats,
    SelectData,
    Activity,
    Smoothing,
    NtpData(Option<IpAddr>),
    ServerStats,
    Clients,
}

fn report(args: &ReportArgs, which: Kind) -> Result<bool, QueryError> {
    let mut asking = Asking {
        client: client(&args.link),
        args,
        known: HashMap::new(),
    };
    let reports = asking.collect(which)?;
    if args.json {
        let value = json::reports(&reports, &asking.known, is_list(which));
        outln!("{value:#}");
        return Ok(true);
    }
    let form = if args.csv { Form::Csv } else { Form::Text };
    let names = Names(&asking.known);
    let mut page = Page::new(form, names);
    if !args.csv {
        page.heading(heading(which), args.verbose);
    }
    for report in &reports {
        // As chronyc has it, where it goes through all of them.
        if which == Kind::NtpData(None) && form == Form::Text {
            page.text.push('\n');
        }
        page.report(report);
    }
    out(format_args!("{}", page.text));
    Ok(true)
}

fn heading(which: Kind) -> render::Heading {
    match which {
        Kind::Sources => render::Heading::Sources,
        Kind::SourceStats => render::Heading::SourceStats,
        Kind::SelectData => render::Heading::SelectData,
        Kind::Clients => render::Heading::Clients,
        Kind::Activity => render::Heading::Ok,
        _ => render::Heading::None,
    }
}

fn is_list(which: Kind) -> bool {
    !matches!(
        which,
        Kind::Tracking | Kind::Activity | Kind::Smoothing | Kind::ServerStats
    )
}

/// A daemon, queried for one report after the other.
struct Asking<'a> {
    client: Client,
    args: &'a ReportArgs,
    /// Names of sources that were asked for.
    known: HashMap<IpAddr, String>,
}

impl Asking<'_> {
    fn collect(&mut self, which: Kind) -> Result<Vec<Report>, QueryError> {
        Ok(match which {
            Kind::Tracking => {
                let report = self.client.ask(&Command::Tracking)?;
                if let Report::Tracking(tracking) = &report {
                    self.name(tracking.address);
                }
                vec![report]
            }
            Kind::Activity => vec![self.client.ask(&Command::Activity)?],
            Kind::Smoothing => vec![self.client.ask(&Command::Smoothing)?],
            Kind::ServerStats => vec![self.client.ask(&Command::ServerStats)?],
            Kind::Sources => self.each(Command::SourceData)?,
            Kind::SourceStats => self.each(Command::SourceStats)?,
            Kind::SelectData => self.each(Command::SelectData)?,
            Kind::NtpData(Some(address)) => {
                vec![self.client.ask(&Command::NtpData(Address::Ip(address)))?]
            }
            Kind::NtpData(None) => {
                let mut reports = Vec::new();
                for source in self.each(Command::SourceData)? {
                    if let Report::SourceData(SourceData {
                        mode: 0 | 1,
                        address: address @ Address::Ip(_),
                        ..
                    }) = source
                    {
                        reports.push(self.client.ask(&Command::NtpData(address))?);
                    }
                }
                reports
            }
            Kind::Clients => self.clients()?,
        })
    }

    /// A report on each source. Those that have no address yet are shown on demand.
    fn each(&mut self, command: fn(u32) -> Command) -> Result<Vec<Report>, QueryError> {
        let Report::NSources(n) = self.client.ask(&Command::NSources)? else {
            return Err(QueryError::BadReply);
        };
        let mut reports = Vec::new();
        for index in 0..n {
            let report = self.client.ask(&command(index))?;
            let address = match &report {
                // A reference clock has its ID in the place of an address.
                Report::SourceData(data) if data.mode == 2 => Address::Unspecified,
                Report::SourceData(data) => data.address,
                Report::SourceStats(stats) => stats.address,
                Report::SelectData(data) => data.address,
                _ => return Err(QueryError::BadReply),
            };
            if matches!(address, Address::Id(_)) && !self.args.all {
                continue;
            }
            self.name(address);
            reports.push(report);
        }
        Ok(reports)
    }

    fn clients(&mut self) -> Result<Vec<Report>, QueryError> {
        let mut reports = Vec::new();
        let mut first = 0;
        loop {
            let command = Command::Clients {
                first,
                count: 8,
                min_hits: 0,
                reset: false,
            };
            let report = self.client.ask(&command)?;
            let Report::Clients(clients) = &report else {
                return Err(QueryError::BadReply);
            };
            let (next, n) = (clients.next_index, clients.n_indices);
            reports.push(report);
            if next >= n || next <= first {
                return Ok(reports);
            }
            first = next;
        }
    }

    /// Asks what the configuration calls a source.
    fn name(&mut self, address: Address) {
        let Address::Ip(address) = address else {
            return;
        };
        if self.args.csv && !self.args.names
            || self.args.numeric
            || self.known.contains_key(&address)
        {
            return;
        }
        if let Ok(Report::SourceName(name)) =
            self.client.ask(&Command::SourceName(Address::Ip(address)))
        {
            self.known.insert(address, name);
        }
    }
}

/// Waits until the clock follows a source.
fn wait_sync(args: &WaitSyncArgs) -> Result<bool, QueryError> {
    let mut client = client(&args.link);
    let interval = Duration::try_from_secs_f64(args.interval.max(0.1)).unwrap_or(Duration::MAX);
    let mut attempt: u64 = 1;
    loop {
        match client.ask(&Command::Tracking) {
            Ok(Report::Tracking(tracking)) => {
                let correction = tracking.current_correction.abs();
                let skew = tracking.skew;
                let id = tracking.reference_id;
                if args.json {
                    outln!("{}", json::attempt(attempt, &tracking));
                } else if args.csv {
                    outln!("{attempt},{id:08X},{correction:.9},{skew:.3}");
                } else {
                    outln!(
                        "try: {attempt}, refid: {id:08X}, correction: {correction:.9}, skew: {skew:.3}"
                    );
                }
                let has_source =
                    tracking.address != Address::Unspecified || (id != 0 && id != LOCAL_REFERENCE);
                let close = args.max_correction == 0.0 || correction <= args.max_correction;
                let steady = args.max_skew == 0.0 || skew <= args.max_skew;
                if has_source && close && steady {
                    return Ok(true);
                }
            }
            Ok(_) => return Err(QueryError::BadReply),
            // It may start later.
            Err(error) if args.json => outln!("{}", json::no_answer(attempt, &error)),
            Err(error) => outln!("{error}"),
        }
        print::flush();
        if args.max_tries != 0 && attempt >= args.max_tries {
            return Ok(false);
        }
        thread::sleep(interval);
        attempt += 1;
    }
}

/// The sources of an address, or all.
fn sources(address: Option<IpAddr>) -> Sources {
    address.map_or(Sources::ALL, Sources::one)
}

/// The text that chronyc prints for the result of a command.
#[must_use]
pub const fn text(status: Status) -> &'static str {
    status.text()
}
