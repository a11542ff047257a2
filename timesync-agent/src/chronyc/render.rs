//! Reports as chronyc prints them: columns for people, values with commas between them for programs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use super::calendar;
use crate::cmdmon::reply::{
    Activity, Address, Client, NEVER, NtpData, Report, SelectData, ServerStats, Smoothing,
    SourceData, SourceStats, Tracking,
};
use crate::time::{SECOND, UnixTime};

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// People.
    Text,
    /// Programs.
    Csv,
}

/// What goes before the lines of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// Nothing.
    None,
    /// That it went well.
    Ok,
    /// Columns of `sources`.
    Sources,
    /// Columns of `sourcestats`.
    SourceStats,
    /// Columns of `selectdata`.
    SelectData,
    /// Columns of `clients`.
    Clients,
}

/// Names of sources, where there are any.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub &'a HashMap<IpAddr, String>);

impl Names<'_> {
    /// What a source is called.
    #[must_use]
    pub fn of(self, address: Address) -> String {
        match address {
            Address::Unspecified => "[UNSPEC]".to_owned(),
            Address::Id(id) => format!("ID#{id:010}"),
            Address::Ip(address) => match self.0.get(&address) {
                Some(name) => name.clone(),
                None => address.to_string(),
            },
        }
    }

    /// What a source is called that may be a reference clock.
    fn of_source(self, reference_id: u32, address: Address) -> String {
        match address {
            Address::Unspecified => letters(reference_id),
            address => self.of(address),
        }
    }
}

/// A page that grows.
#[derive(Debug)]
pub struct Page<'a> {
    /// What is on it.
    pub text: String,
    form: Form,
    names: Names<'a>,
}

impl<'a> Page<'a> {
    /// An empty one.
    #[must_use]
    pub fn new(form: Form, names: Names<'a>) -> Self {
        Self {
            text: String::new(),
            form,
            names,
        }
    }

    /// What goes before the lines.
    pub fn heading(&mut self, heading: Heading, verbose: bool) {
        let (legend, columns) = match heading {
            Heading::None => return,
            Heading::Ok => {
                self.text.push_str("200 OK\n");
                return;
            }
            Heading::Sources => (SOURCES_LEGEND, SOURCES),
            Heading::SourceStats => (SOURCESTATS_LEGEND, SOURCESTATS),
            Heading::SelectData => (SELECTDATA_LEGEND, SELECTDATA),
            Heading::Clients => ("", CLIENTS),
        };
        if verbose {
            self.text.push_str(legend);
        }
        self.text.push_str(columns);
        self.text.push('\n');
        self.text.push_str(&"=".repeat(columns.len()));
        self.text.push('\n');
    }

    /// One report.
    pub fn report(&mut self, report: &Report) {
        match report {
            Report::Tracking(tracking) => self.tracking(tracking),
            Report::SourceData(data) => self.source(data),
            Report::SourceStats(stats) => self.source_stats(stats),
            Report::SelectData(data) => self.select_data(data),
            Report::Activity(activity) => self.activity(*activity),
            Report::Smoothing(smoothing) => self.smoothing(smoothing),
            Report::NtpData(data) => self.ntp_data(data),
            Report::ServerStats(stats) => self.server_stats(stats),
            Report::Clients(clients) => {
                for client in &clients.clients {
                    self.client(client);
                }
            }
            _ => {}
        }
    }

    /// A line of values with commas between them.
    fn csv(&mut self, values: &[String]) {
        self.text.push_str(&values.join(","));
        self.text.push('\n');
    }

    /// Lines of a label and a value.
    fn labelled(&mut self, width: usize, lines: &[(&str, String)]) {
        for (label, value) in lines {
            // Writing to a string does not fail.
            let _written = writeln!(self.text, "{label:width$}: {value}");
        }
    }

    fn tracking(&mut self, it: &Tracking) {
        let name = self.names.of_source(it.reference_id, it.address);
        if self.form == Form::Csv {
            return self.csv(&[
                format!("{:08X}", it.reference_id),
                name,
                it.stratum.to_string(),
                timestamp(it.reference_time),
                fixed(it.current_correction, 9),
                fixed(it.last_offset, 9),
                fixed(it.rms_offset, 9),
                fixed(it.frequency, 3),
                fixed(it.residual_frequency, 3),
                fixed(it.skew, 3),
                fixed(it.root_delay, 9),
                fixed(it.root_dispersion, 9),
                fixed(it.last_update_interval, 1),
                leap(it.leap).to_owned(),
            ]);
        }
        let slow = |is_slow: bool| if is_slow { "slow" } else { "fast" };
        let correction = it.current_correction;
        let frequency = it.frequency;
        self.labelled(
            16,
            &[
                ("Reference ID", format!("{:08X} ({name})", it.reference_id)),
                ("Stratum", it.stratum.to_string()),
                ("Ref time (UTC)", calendar::text(it.reference_time)),
                (
                    "System time",
                    format!(
                        "{} seconds {} of NTP time",
                        fixed(correction.abs(), 9),
                        slow(correction > 0.0)
                    ),
                ),
                (
                    "Last offset",
                    format!("{} seconds", signed(it.last_offset, 9)),
                ),
                ("RMS offset", format!("{} seconds", fixed(it.rms_offset, 9))),
                (
                    "Frequency",
                    format!(
                        "{} ppm {}",
                        fixed(frequency.abs(), 3),
                        slow(frequency <= 0.0)
                    ),
                ),
                (
                    "Residual freq",
                    format!("{} ppm", signed(it.residual_frequency, 3)),
                ),
                ("Skew", format!("{} ppm", fixed(it.skew, 3))),
                ("Root delay", format!("{} seconds", fixed(it.root_delay, 9))),
                (
                    "Root dispersion",
                    format!("{} seconds", fixed(it.root_dispersion, 9)),
                ),
                (
                    "Update interval",
                    format!("{} seconds", fixed(it.last_update_interval, 1)),
                ),
                ("Leap status", leap(it.leap).to_owned()),
            ],
        );
    }

    fn source(&mut self, it: &SourceData) {
        let name = match it.address {
            // A reference clock has its ID in the place of an address.
            Address::Ip(IpAddr::V4(id)) if it.mode == 2 => letters(Ipv4Addr::to_bits(id)),
            address => self.names.of(address),
        };
        let mode = letter(b"^=#", it.mode);
        let state = letter(b"*?x~+-", it.state);
        let (stratum, poll, reach) = (it.stratum, it.poll, it.reachability);
        if self.form == Form::Csv {
            return self.csv(&[
                mode.to_string(),
                state.to_string(),
                name,
                stratum.to_string(),
                poll.to_string(),
                format!("{reach:o}"),
                it.since_sample.to_string(),
                fixed(it.offset, 9),
                fixed(it.original_offset, 9),
                fixed(it.error, 9),
            ]);
        }
        let (since, error) = (interval(it.since_sample), span(it.error));
        let (offset, original) = (signed_span(it.offset), signed_span(it.original_offset));
        // Writing to a string does not fail.
        let _written = writeln!(
            self.text,
            "{mode}{state} {name:<27}  {stratum:2}  {poll:2}   {reach:3o}  {since}  {offset}[{original}] +/- {error}"
        );
    }

    fn source_stats(&mut self, it: &SourceStats) {
        let name = self.names.of_source(it.reference_id, it.address);
        if self.form == Form::Csv {
            return self.csv(&[
                name,
                it.n_samples.to_string(),
                it.n_runs.to_string(),
                it.span.to_string(),
                fixed(it.residual_frequency, 3),
                fixed(it.skew, 3),
                fixed(it.offset, 9),
                fixed(it.deviation, 9),
            ]);
        }
        let _written = writeln!(
            self.text,
            "{name:<25} {:3} {:3}  {} {} {}  {}  {}",
            it.n_samples,
            it.n_runs,
            interval(it.span),
            signed_ppm(it.residual_frequency),
            ppm(it.skew),
            signed_span(it.offset),
            span(it.deviation),
        );
    }

    fn select_data(&mut self, it: &SelectData) {
        let name = self.names.of_source(it.reference_id, it.address);
        let state = char::from(it.state);
        let authenticated = if it.authentication == 0 { 'N' } else { 'Y' };
        let options = |bits: u16| -> Vec<char> {
            [(1, 'N'), (2, 'P'), (4, 'T'), (8, 'R')]
                .into_iter()
                .map(|(bit, letter)| if bits & bit == 0 { '-' } else { letter })
                .chain(['-'])
                .collect()
        };
        let (configured, effective) = (
            options(it.configured_options),
            options(it.effective_options),
        );
        if self.form == Form::Csv {
            let mut values = vec![state.to_string(), name, authenticated.to_string()];
            values.extend(configured.iter().chain(&effective).map(char::to_string));
            values.push(it.since_sample.to_string());
            values.push(fixed(it.score, 1));
            values.push(fixed(it.low, 9));
            values.push(fixed(it.high, 9));
            values.push(leap(it.leap.into()).to_owned());
            return self.csv(&values);
        }
        let (configured, effective): (String, String) = (
            configured.into_iter().collect(),
            effective.into_iter().collect(),
        );
        let _written = writeln!(
            self.text,
            "{state} {name:<25} {authenticated} {configured} {effective} {} {:5.1} {} {}  {}",
            interval(it.since_sample),
            it.score,
            signed_span(it.low),
            signed_span(it.high),
            leap_letter(it.leap),
        );
    }

    fn activity(&mut self, it: Activity) {
        let lines = [
            (it.online, "sources online"),
            (it.offline, "sources offline"),
            (it.burst_online, "sources doing burst (return to online)"),
            (it.burst_offline, "sources doing burst (return to offline)"),
            (it.unresolved, "sources with unknown address"),
        ];
        if self.form == Form::Csv {
            return self.csv(&lines.map(|(n, _)| n.to_string()));
        }
        for (n, what) in lines {
            let _written = writeln!(self.text, "{n} {what}");
        }
    }

    fn smoothing(&mut self, it: &Smoothing) {
        let active = if it.active { "Yes" } else { "No" };
        let leaps = if it.leap_only {
            "(leap second only)"
        } else {
            ""
        };
        if self.form == Form::Csv {
            return self.csv(&[
                active.to_owned(),
                leaps.to_owned(),
                fixed(it.offset, 9),
                fixed(it.frequency, 6),
                fixed(it.wander, 6),
                fixed(it.last_update_ago, 1),
                fixed(it.remaining_time, 1),
            ]);
        }
        let ago = fixed(it.last_update_ago, 1);
        let left = fixed(it.remaining_time, 1);
        let wander = signed(it.wander, 6);
        self.labelled(
            15,
            &[
                ("Active", format!("{active} {leaps}")),
                ("Offset", format!("{} seconds", signed(it.offset, 9))),
                ("Frequency", format!("{} ppm", signed(it.frequency, 6))),
                ("Wander", format!("{wander} ppm per second")),
                ("Last update", format!("{ago} seconds ago")),
                ("Remaining time", format!("{left} seconds")),
            ],
        );
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each field")]
    fn ntp_data(&mut self, it: &NtpData) {
        // Here sources have no names.
        let none = HashMap::new();
        let address = |address| Names(&none).of(address);
        let id = if it.stratum <= 1 {
            letters(it.reference_id)
        } else {
            String::new()
        };
        let tests = [it.flags >> 7 & 7, it.flags >> 4 & 7, it.flags & 15];
        let [first, second, third] = tests;
        let tests = [
            format!("{first:03b}"),
            format!("{second:03b}"),
            format!("{third:04b}"),
        ];
        let (poll, precision) = (exponential(it.poll), exponential(it.precision));
        let yes = |bit: u16| if it.flags & bit == 0 { "No" } else { "Yes" }.to_owned();
        let (interleaved, authenticated) = (yes(0x4000), yes(0x8000));
        if self.form == Form::Csv {
            let mut values = vec![
                address(it.remote_address),
                format!("{:08X}", id_of(it.remote_address)),
                it.remote_port.to_string(),
                address(it.local_address),
                format!("{:08X}", id_of(it.local_address)),
                leap(it.leap.into()).to_owned(),
                it.version.to_string(),
                mode(it.mode).to_owned(),
                it.stratum.to_string(),
                it.poll.to_string(),
                fixed(poll, 0),
                it.precision.to_string(),
                fixed(precision, 9),
                fixed(it.root_delay, 6),
                fixed(it.root_dispersion, 6),
                format!("{:08X}", it.reference_id),
                id,
                timestamp(it.reference_time),
                fixed(it.offset, 9),
                fixed(it.peer_delay, 9),
                fixed(it.peer_dispersion, 9),
                fixed(it.response_time, 9),
                fixed(it.jitter_asymmetry, 2),
            ];
            values.extend(tests);
            values.extend([interleaved, authenticated]);
            values.extend([it.transmit_stamp, it.receive_stamp].map(|by| stamp(by).to_owned()));
            let totals = [
                it.total_sent,
                it.total_received,
                it.total_valid,
                it.total_good,
            ];
            values.extend(totals.map(|n| n.to_string()));
            return self.csv(&values);
        }
        let seconds = |value: f64, digits: usize| format!("{} seconds", fixed(value, digits));
        let remote = it.remote_address;
        let local = it.local_address;
        self.labelled(
            16,
            &[
                (
                    "Remote address",
                    format!("{} ({:08X})", address(remote), id_of(remote)),
                ),
                ("Remote port", it.remote_port.to_string()),
                (
                    "Local address",
                    format!("{} ({:08X})", address(local), id_of(local)),
                ),
                ("Leap status", leap(it.leap.into()).to_owned()),
                ("Version", it.version.to_string()),
                ("Mode", mode(it.mode).to_owned()),
                ("Stratum", it.stratum.to_string()),
                (
                    "Poll interval",
                    format!("{} ({} seconds)", it.poll, fixed(poll, 0)),
                ),
                (
                    "Precision",
                    format!("{} ({} seconds)", it.precision, fixed(precision, 9)),
                ),
                ("Root delay", seconds(it.root_delay, 6)),
                ("Root dispersion", seconds(it.root_dispersion, 6)),
                ("Reference ID", format!("{:08X} ({id})", it.reference_id)),
                ("Reference time", calendar::text(it.reference_time)),
                ("Offset", format!("{} seconds", signed(it.offset, 9))),
                ("Peer delay", seconds(it.peer_delay, 9)),
                ("Peer dispersion", seconds(it.peer_dispersion, 9)),
                ("Response time", seconds(it.response_time, 9)),
                ("Jitter asymmetry", signed(it.jitter_asymmetry, 2)),
                ("NTP tests", tests.join(" ")),
                ("Interleaved", interleaved),
                ("Authenticated", authenticated),
                ("TX timestamping", stamp(it.transmit_stamp).to_owned()),
                ("RX timestamping", stamp(it.receive_stamp).to_owned()),
                ("Total TX", it.total_sent.to_string()),
                ("Total RX", it.total_received.to_string()),
                ("Total valid RX", it.total_valid.to_string()),
                ("Total good RX", it.total_good.to_string()),
            ],
        );
    }

    fn server_stats(&mut self, it: &ServerStats) {
        let lines = [
            ("NTP packets received", it.ntp_hits),
            ("NTP packets dropped", it.ntp_drops),
            ("Command packets received", it.command_hits),
            ("Command packets dropped", it.command_drops),
            ("Client log records dropped", it.log_drops),
            ("NTS-KE connections accepted", 0),
            ("NTS-KE connections dropped", 0),
            ("Authenticated NTP packets", it.ntp_auth_hits),
            ("Interleaved NTP packets", it.ntp_interleaved_hits),
            ("NTP timestamps held", it.ntp_timestamps),
            ("NTP timestamp span", it.ntp_span),
        ];
        if self.form == Form::Csv {
            return self.csv(&lines.map(|(_, n)| n.to_string()));
        }
        self.labelled(27, &lines.map(|(label, n)| (label, n.to_string())));
    }

    fn client(&mut self, it: &Client) {
        let name = self.names.of(it.address);
        if self.form == Form::Csv {
            return self.csv(&[
                name,
                it.ntp_hits.to_string(),
                it.ntp_drops.to_string(),
                it.ntp_interval.to_string(),
                it.ntp_timeout_interval.to_string(),
                it.last_ntp_hit.to_string(),
                it.command_hits.to_string(),
                it.command_drops.to_string(),
                it.command_interval.to_string(),
                it.last_command_hit.to_string(),
            ]);
        }
        let power = |power: i8| match power {
            i8::MAX => " -".to_owned(),
            power => format!("{power:2}"),
        };
        let _written = writeln!(
            self.text,
            "{name:<25}  {:6}  {:5}  {}  {}  {}  {:6}  {:5}  {}  {}",
            it.ntp_hits,
            it.ntp_drops,
            power(it.ntp_interval),
            power(it.ntp_timeout_interval),
            interval(it.last_ntp_hit),
            it.command_hits,
            it.command_drops,
            power(it.command_interval),
            interval(it.last_command_hit),
        );
    }
}

//--- Values

/// A number with so many digits behind the point.
fn fixed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// The same, with its sign.
fn signed(value: f64, digits: usize) -> String {
    format!("{value:+.digits$}")
}

/// Seconds since 1970, with nanoseconds.
pub(super) fn timestamp(time: UnixTime) -> String {
    let (seconds, rest) = (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND));
    format!("{seconds}.{rest:09}")
}

/// A power of two in seconds.
pub(super) fn exponential(power: i8) -> f64 {
    2_f64.powi(power.into())
}

/// Whole seconds in four places.
fn interval(seconds: u32) -> String {
    match seconds {
        NEVER => "   -".to_owned(),
        0..1200 => format!("{seconds:4}"),
        1200..36_000 => format!("{:3}m", seconds / 60),
        36_000..345_600 => format!("{:3}h", seconds / 3600),
        _ => match seconds / 86_400 {
            days @ 0..=999 => format!("{days:3}d"),
            days => format!("{:3}y", days / 365),
        },
    }
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.0 * DAY;

/// A span in six or seven places.
fn signed_span(seconds: f64) -> String {
    let size = seconds.abs();
    if size < 9999.5e-9 {
        format!("{:+5.0}ns", seconds * 1e9)
    } else if size < 9999.5e-6 {
        format!("{:+5.0}us", seconds * 1e6)
    } else if size < 9999.5e-3 {
        format!("{:+5.0}ms", seconds * 1e3)
    } else if size < 999.5 {
        format!("{seconds:+6.1}s")
    } else {
        let (unit, name) = large(size);
        format!("{:+6.0}{name}", seconds / unit)
    }
}

/// A span without sign in six places.
fn span(seconds: f64) -> String {
    let size = seconds.abs();
    if size < 9999.5e-9 {
        format!("{:4.0}ns", size * 1e9)
    } else if size < 9999.5e-6 {
        format!("{:4.0}us", size * 1e6)
    } else if size < 9999.5e-3 {
        format!("{:4.0}ms", size * 1e3)
    } else if size < 999.5 {
        format!("{size:5.1}s")
    } else {
        let (unit, name) = large(size);
        format!("{:5.0}{name}", size / unit)
    }
}

fn large(size: f64) -> (f64, char) {
    if size < 99_999.5 {
        (1.0, 's')
    } else if size < 99_999.5 * MINUTE {
        (MINUTE, 'm')
    } else if size < 99_999.5 * HOUR {
        (HOUR, 'h')
    } else if size < 99_999.5 * DAY {
        (DAY, 'd')
    } else {
        (YEAR, 'y')
    }
}

/// Parts per million in ten places.
fn ppm(value: f64) -> String {
    if value.abs() < 99_999.5 {
        format!("{value:10.3}")
    } else {
        format!("{value:10.0}")
    }
}

fn signed_ppm(value: f64) -> String {
    if value.abs() < 99_999.5 {
        format!("{value:+10.3}")
    } else {
        format!("{value:+10.0}")
    }
}

/// The letters of a reference ID.
pub(super) fn letters(id: u32) -> String {
    let octets = id.to_be_bytes().into_iter();
    octets
        .filter(|octet| octet.is_ascii_graphic() || *octet == b' ')
        .map(char::from)
        .collect()
}

/// The number of an address that a reference ID is made of (RFC 5905 §7.3); that of an IPv6 address takes MD5.
pub(super) fn id_of(address: Address) -> u32 {
    match address {
        Address::Ip(address) => crate::association::reference_id(address),
        Address::Unspecified | Address::Id(_) => 0,
    }
}

fn letter(letters: &[u8], index: u16) -> char {
    letters
        .get(usize::from(index))
        .map_or(' ', |letter| char::from(*letter))
}

pub(super) fn leap(leap: u16) -> &'static str {
    match leap {
        0 => "Normal",
        1 => "Insert second",
        2 => "Delete second",
        3 => "Not synchronised",
        _ => "Invalid",
    }
}

fn leap_letter(leap: u8) -> char {
    match leap {
        0 => 'N',
        1 => '+',
        2 => '-',
        _ => '?',
    }
}

pub(super) fn mode(mode: u8) -> &'static str {
    match mode {
        1 => "Symmetric active",
        2 => "Symmetric passive",
        4 => "Server",
        _ => "Invalid",
    }
}

pub(super) fn stamp(by: u8) -> &'static str {
    match by {
        b'D' => "Daemon",
        b'K' => "Kernel",
        b'H' => "Hardware",
        _ => "Invalid",
    }
}

//--- Headings, letter by letter those of chronyc

const SOURCES: &str =
    "MS Name/IP address         Stratum Poll Reach LastRx Last sample               ";
const SOURCESTATS: &str =
    "Name/IP Address            NP  NR  Span  Frequency  Freq Skew  Offset  Std Dev";
const SELECTDATA: &str = "S Name/IP Address        Auth COpts EOpts Last Score     Interval  Leap";
const CLIENTS: &str =
    "Hostname                      NTP   Drop Int IntL Last     Cmd   Drop Int  Last";

const SOURCES_LEGEND: &str = r"
  .-- Source mode  '^' = server, '=' = peer, '#' = local clock.
 / .- Source state '*' = current best, '+' = combined, '-' = not combined,
| /             'x' = may be in error, '~' = too variable, '?' = unusable.
||                                                 .- xxxx [ yyyy ] +/- zzzz
||      Reachability register (octal) -.           |  xxxx = adjusted offset,
||      Log2(Polling interval) --.      |          |  yyyy = measured offset,
||                                \     |          |  zzzz = estimated error.
||                                 |    |           \
";

const SOURCESTATS_LEGEND: &str = r"                             .- Number of sample points in measurement set.
                            /    .- Number of residual runs with same sign.
                           |    /    .- Length of measurement set (time).
                           |   |    /      .- Est. clock freq error (ppm).
                           |   |   |      /           .- Est. error in freq.
                           |   |   |     |           /         .- Est. offset.
                           |   |   |     |          |          |   On the -.
                           |   |   |     |          |          |   samples. \
                           |   |   |     |          |          |             |
";

const SELECTDATA_LEGEND: &str = r"  . State: N - noselect, s - unsynchronised, M - missing samples,
 /         d/D - large distance, ~ - jittery, w/W - waits for others,
|          S - stale, O - orphan, T - not trusted, P - not preferred,
|          U - waits for update,, x - falseticker, + - combined, * - best.
|   Effective options   ---------.  (N - noselect, P - prefer
|   Configured options  ----.     \  T - trust, R - require)
|   Auth. enabled (Y/N) -.   \     \     Offset interval --.
|                        |    |     |                       |
";
