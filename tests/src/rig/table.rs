//! What the faults cost the clients.

use std::fmt;
use std::time::Duration;

use super::faults::Fault;
use super::load::{Exchange, Fate, Kind};

/// What a fault cost one kind of client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The exchanges.
    pub n: u64,
    /// Those that took longer than such clients like.
    pub late: u64,
    /// Those that a second server had to do.
    pub again: u64,
    /// Those that no server did.
    pub lost: u64,
    /// Those with a wrong answer.
    pub wrong: u64,
    /// The first that was lost or wrong.
    pub first: Option<String>,
}

/// What a fault cost.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fault.
    pub fault: Fault,
    /// What it cost each kind of client, in the order of [`Kind::ALL`].
    pub cells: [Cell; Kind::ALL.len()],
    /// How long the virtual addresses of the API and of the ingress did not answer.
    pub silences: [Duration; 2],
    /// How long all took to be well again after the fault had ended.
    pub recovery: Duration,
    /// What must not be.
    pub mistakes: Vec<String>,
}

impl Row {
    pub(super) fn of(
        fault: Fault,
        exchanges: &[Exchange],
        silences: [Duration; 2],
        recovery: Duration,
        mut mistakes: Vec<String>,
    ) -> Self {
        let cells = Kind::ALL.map(|kind| {
            let mut cell = Cell::default();
            for exchange in exchanges.iter().filter(|exchange| exchange.kind == kind) {
                cell.n += 1;
                cell.late += u64::from(exchange.is_late());
                cell.again += u64::from(exchange.n_tries > 1);
                let (count, what) = match &exchange.fate {
                    Fate::Right => continue,
                    Fate::Lost(what) => (&mut cell.lost, what),
                    Fate::Wrong(what) => (&mut cell.wrong, what),
                };
                *count += 1;
                cell.first.get_or_insert_with(|| what.clone());
            }
            cell
        });
        for (kind, cell) in Kind::ALL.iter().zip(&cells) {
            let first = cell.first.as_deref().unwrap_or_default();
            if cell.wrong > 0 {
                mistakes.push(format!(
                    "{} of {} are wrong: {first}",
                    cell.wrong,
                    kind.title()
                ));
            }
            if cell.lost > 0 && !fault.may_cost(*kind) {
                mistakes.push(format!(
                    "{} of {} are lost: {first}",
                    cell.lost,
                    kind.title()
                ));
            }
        }
        Self {
            fault,
            cells,
            silences,
            recovery,
            mistakes,
        }
    }
}

/// Lost, late and again in the place of a cell; nothing where there is none of them.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.wrong, self.lost, self.again, self.late) {
            (0, 0, 0, 0) => "0".to_owned(),
            (0, lost, again, late) => format!("{lost}/{again}/{late}"),
            (wrong, lost, again, late) => format!("{wrong}!/{lost}/{again}/{late}"),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {:42} |", self.fault.to_string())?;
        for cell in &self.cells {
            write!(f, " {cell:9} |")?;
        }
        for silence in self.silences {
            // What one echo every few milliseconds cannot tell from none.
            match silence < Duration::from_millis(20) {
                true => write!(f, " {:5} |", "0")?,
                false => write!(f, " {:5.2} |", silence.as_secs_f64())?,
            }
        }
        write!(f, " {:5.1} |", self.recovery.as_secs_f64())?;
        for mistake in &self.mistakes {
            write!(f, "\n!!! {mistake}")?;
        }
        Ok(())
    }
}

/// What all faults cost.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// A row for each fault.
    pub rows: Vec<Row>,
    /// The images whose push was acknowledged.
    pub n_images: usize,
    /// The longest time that two nodes had the same virtual address.
    pub both: Duration,
    /// The most memory, in KiB, and the most threads that a process of each service had.
    pub peaks: Vec<(&'static str, [u64; 2])>,
    /// What must not be, and belongs to no fault.
    pub mistakes: Vec<String>,
}

impl Table {
    /// The names of the columns.
    #[must_use]
    pub fn head() -> String {
        let mut head = format!("| {:42} |", "fault (lost/another try/late; wrong!)");
        for kind in Kind::ALL {
            head += &format!(" {:9} |", kind.title());
        }
        let rule: String = head
            .split('|')
            .skip(1)
            .filter(|cell| !cell.is_empty())
            .map(|cell| format!("|{}", "-".repeat(cell.len())))
            .collect();
        format!("{head} API s | ing s | well  |\n{rule}|-------|-------|-------|")
    }

    /// All that must not be.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        let of_rows = self.rows.iter().flat_map(|row| {
            let named = row.mistakes.iter();
            named.map(|mistake| format!("{}: {mistake}", row.fault))
        });
        of_rows.chain(self.mistakes.iter().cloned()).collect()
    }
}

/// What is known at the end.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exchanges: u64 = self
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .map(|cell| cell.n)
            .sum();
        let milliseconds = self.both.as_millis();
        writeln!(
            f,
            "{exchanges} exchanges; {} images acknowledged",
            self.n_images
        )?;
        write!(f, "two nodes had one address for at most {milliseconds} ms")?;
        for (service, [kibibytes, threads]) in &self.peaks {
            let mebibytes = kibibytes / 1024;
            write!(
                f,
                "\n{service}: at most {mebibytes} MiB and {threads} threads"
            )?;
        }
        for mistake in &self.mistakes {
            write!(f, "\n!!! {mistake}")?;
        }
        Ok(())
    }
}
