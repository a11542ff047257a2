//! Reports as chronyc prints them: columns for people, values with commas between them for programs.

mod heading;
mod ntp_data;
mod value;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use crate::calendar;
use crate::reply::{
    Activity, Address, Client, Report, SelectData, ServerStats, Smoothing, SourceData, SourceStats,
    Tracking,
};

use heading::{
    CLIENTS, SELECTDATA, SELECTDATA_LEGEND, SOURCES, SOURCES_LEGEND, SOURCESTATS,
    SOURCESTATS_LEGEND,
};
use value::{fixed, interval, leap_letter, letter, ppm, signed, signed_ppm, signed_span, span};

pub(crate) use value::{exponential, leap, letters, mode, stamp, timestamp};

/// The client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// People.
    Text,
    /// Programs.
    Csv,
}

/// The heading of a report.
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
    /// The name of a source.
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

    /// The name of a source that may be a reference clock.
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
    /// The content of a line.
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

    /// The heading of the lines.
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
