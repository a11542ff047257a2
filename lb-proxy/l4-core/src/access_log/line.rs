//! A record as a line of text.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::num::NonZeroU64;
use std::time::Duration;

use super::Record;

/// HAProxy's tcplog, without the header of syslog (its configuration.txt, "TCP log format"):
///
/// ```text
/// client_ip:client_port [accept_date] frontend_name backend_name/server_name Tw/Tc/Tt bytes_read
///     termination_state actconn/feconn/beconn/srv_conn/retries srv_queue/backend_queue
/// 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0
/// ```
///
/// Dates are in UTC. `bytes_read` are those to the client. Timers are in milliseconds, -1 when it did
/// not come to that; a `+` before the retries says that the server was changed. Without a backend its
/// place has the frontend's name; without a server there is `<NOSRV>`.
pub(super) fn text(record: &Record, out: &mut Vec<u8>) {
    let backend = record.backend.as_deref().unwrap_or(&record.frontend);
    let server = record.server.as_deref().unwrap_or("<NOSRV>");
    let counts = &record.counts;
    let sign = if counts.is_redispatched { "+" } else { "" };
    // Writing to a vector does not fail.
    let _written = writeln!(
        out,
        "{}:{} [{}] {} {backend}/{server} {}/{}/{} {} {} {}/{}/{}/{}/{sign}{} {}/{}",
        record.client.ip().to_canonical(),
        record.client.port(),
        LogDate(record.since_epoch()),
        record.frontend,
        Milliseconds(record.timers.queue),
        Milliseconds(record.timers.connect),
        Milliseconds(Some(record.timers.total)),
        record.bytes_out,
        record.termination,
        counts.process,
        counts.frontend,
        counts.backend,
        counts.server,
        counts.retries,
        counts.server_queue,
        counts.backend_queue,
    );
}

/// An object of JSON (RFC 8259) in one line. Absent values are `null`; timers are in milliseconds,
/// with three digits behind the point.
pub(super) fn json(record: &Record, out: &mut Vec<u8>) {
    let counts = &record.counts;
    let address = |address: std::net::SocketAddr| {
        std::net::SocketAddr::new(address.ip().to_canonical(), address.port())
    };
    // Writing to a vector does not fail.
    let _written = writeln!(
        out,
        "{{\"accepted\":\"{}\",\"client\":\"{}\",\"local\":{},\"frontend\":{},\"backend\":{},\
         \"server\":{},\"server_address\":{},\"name\":{},\"queue_ms\":{},\"connect_ms\":{},\
         \"total_ms\":{},\"bytes_in\":{},\"bytes_out\":{},\"termination\":\"{}\",\
         \"actconn\":{},\"feconn\":{},\"beconn\":{},\"srv_conn\":{},\"retries\":{},\
         \"redispatched\":{},\"srv_queue\":{},\"backend_queue\":{},\"generation\":{}}}",
        Timestamp(record.since_epoch()),
        address(record.client),
        Quoted(record.local.map(address)),
        Quoted(Some(&record.frontend)),
        Quoted(record.backend.as_ref()),
        Quoted(record.server.as_ref()),
        Quoted(record.server_address.map(address)),
        Quoted(record.name.as_ref()),
        Fine(record.timers.queue),
        Fine(record.timers.connect),
        Fine(Some(record.timers.total)),
        record.bytes_in,
        record.bytes_out,
        record.termination,
        counts.process,
        counts.frontend,
        counts.backend,
        counts.server,
        counts.retries,
        counts.is_redispatched,
        counts.server_queue,
        counts.backend_queue,
        Plain(record.generation),
    );
}

//--- Values

/// Whole milliseconds, or -1.
struct Milliseconds(Option<Duration>);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(duration) => write!(f, "{}", duration.as_millis()),
            None => f.write_str("-1"),
        }
    }
}

/// Milliseconds with their fraction, or `null`.
struct Fine(Option<Duration>);

impl Display for Fine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(duration) => {
                let micros = duration.as_micros();
                write!(f, "{}.{:03}", micros / 1000, micros % 1000)
            }
            None => f.write_str("null"),
        }
    }
}

/// A number, or `null`.
struct Plain(Option<NonZeroU64>);

impl Display for Plain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(formatter),
            None => formatter.write_str("null"),
        }
    }
}

/// A string of JSON, or `null`.
struct Quoted<T>(Option<T>);

impl<T: Display> Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(value) = &self.0 else {
            return f.write_str("null");
        };
        f.write_str("\"")?;
        fmt::write(&mut Escaping(f), format_args!("{value}"))?;
        f.write_str("\"")
    }
}

/// Escapes what goes through it (RFC 8259 §7).
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '"' | '\\' => write!(self.0, "\\{letter}")?,
                control if u32::from(control) < 0x20 => {
                    write!(self.0, "\\u{:04x}", u32::from(control))?;
                }
                letter => fmt::Write::write_char(self.0, letter)?,
            }
        }
        Ok(())
    }
}

//--- Dates

/// `06/Feb/2009:12:12:51.443`, of the time since 1970.
struct LogDate(Duration);

impl Display for LogDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let date = Date::of(self.0);
        let month = MONTHS.get(usize::from(date.month) - 1).unwrap_or(&"");
        let (day, year) = (date.day, date.year);
        write!(f, "{day:02}/{month}/{year:04}:{}", TimeOfDay(self.0))
    }
}

/// `2009-02-06T12:12:51.443Z` (RFC 3339), of the time since 1970.
struct Timestamp(Duration);

impl Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = Date::of(self.0);
        write!(f, "{year:04}-{month:02}-{day:02}T{}Z", TimeOfDay(self.0))
    }
}

struct TimeOfDay(Duration);

impl Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0.as_secs() % DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{hour:02}:{minute:02}:{second:02}.{:03}",
            self.0.subsec_millis()
        )
    }
}

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: u64,
    month: u8,
    day: u8,
}

impl Date {
    /// Goes by years and months from 1970, with the leap days that are in them.
    fn of(since_epoch: Duration) -> Self {
        let mut days = since_epoch.as_secs() / DAY;
        // 400 years always have the same number of days.
        let mut year = 1970 + 400 * (days / 146_097);
        days %= 146_097;
        loop {
            let length = if is_leap(year) { 366 } else { 365 };
            if days < length {
                break;
            }
            days -= length;
            year += 1;
        }
        let mut month = 1;
        for length in [
            31,
            if is_leap(year) { 29 } else { 28 },
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
        ] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        let day = u8::try_from(days + 1).unwrap_or(31);
        Self { year, month, day }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// In seconds.
const DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_233_922_371, "2009-02-06T12:12:51.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (13_574_563_200, "2400-02-29T00:00:00.000Z"),
        ] {
            let since = Duration::from_secs(seconds);
            assert_eq!(Timestamp(since).to_string(), expected);
        }
        assert_eq!(
            LogDate(Duration::from_millis(1_233_922_371_443)).to_string(),
            "06/Feb/2009:12:12:51.443"
        );
    }
}
