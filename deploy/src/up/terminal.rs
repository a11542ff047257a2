//! The terminal: character-wise input, the alternate screen, and everything as it was at the end.
//!
//! One thread reads keys and one writes frames, so a terminal that takes no output (a stopped or a
//! vanished one) holds up the screen only, never the site.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use site_up::keys::Key;
use site_up::screen::Canvas;

/// A terminal that shows our screen. Dropped, it is as it was before.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Arc<File>,
    before: Termios,
    frames: Option<SyncSender<String>>,
    written: Receiver<()>,
    colour: bool,
    unicode: bool,
}

impl Terminal {
    /// Takes the terminal over, if there is one that we may take; its keys come out of the receiver,
    /// which ends when the terminal goes away.
    ///
    /// There is none when standard output goes elsewhere, when we run in the background, or when
    /// the terminal understands no escape codes.
    pub(crate) fn take() -> Option<(Self, mpsc::Receiver<Vec<Key>>)> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let term = variable("TERM");
        if !io::stdout().is_terminal() || term.is_empty() || term == "dumb" {
            return None;
        }
        let tty = Arc::new(
            OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/tty")
                .ok()?,
        );
        if tcgetpgrp(&tty).ok()? != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(&tty).ok()?;
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .map(variable)
            .find(|value| !value.is_empty())
            .unwrap_or_default()
            .to_lowercase();
        let keys = read_keys(Arc::clone(&tty)).ok()?;
        let (frames, written) = write_frames(Arc::clone(&tty)).ok()?;
        let terminal = Self {
            tty,
            before,
            frames: Some(frames),
            written,
            colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        };
        terminal.enter().ok()?;
        Some((terminal, keys))
    }

    fn enter(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.local_modes &=
            !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        raw.input_modes &= !(InputModes::IXON | InputModes::ICRNL);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        restore_after_panic(self.before.clone());
        tcsetattr(&self.tty, OptionalActions::Now, &raw)?;
        self.show(ENTER.to_owned());
        Ok(())
    }

    /// The present screen of the terminal.
    pub(crate) fn look(&self) -> Canvas {
        let (columns, rows) = match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            Ok(_) | Err(_) => (80, 24),
        };
        Canvas {
            columns: columns.into(),
            rows: rows.into(),
            colour: self.colour,
            unicode: self.unicode,
        }
    }

    /// Shows a frame, unless the terminal still has an earlier one to take.
    pub(crate) fn show(&self, frame: String) -> bool {
        self.frames
            .as_ref()
            .is_some_and(|frames| frames.try_send(frame).is_ok())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(frames) = self.frames.take() {
            // If the terminal takes nothing, it takes no farewell either.
            let _full = frames.try_send(LEAVE.to_owned());
        }
        let _late = self.written.recv_timeout(LAST_FRAME);
        let _gone = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }
}

fn read_keys(tty: Arc<File>) -> io::Result<mpsc::Receiver<Vec<Key>>> {
    let (sender, keys) = mpsc::channel(KEYS);
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || {
            let mut bytes = [0; 64];
            while let Ok(length @ 1..) = (&*tty).read(&mut bytes) {
                let keys = Key::parse(bytes.get(..length).unwrap_or_default());
                if sender.blocking_send(keys).is_err() {
                    return;
                }
            }
        })?;
    Ok(keys)
}

fn write_frames(tty: Arc<File>) -> io::Result<(SyncSender<String>, Receiver<()>)> {
    let (sender, frames) = sync_channel::<String>(FRAMES);
    let (done, written) = sync_channel(1);
    thread::Builder::new()
        .name("frames".to_owned())
        .spawn(move || {
            for frame in frames {
                if (&*tty).write_all(frame.as_bytes()).is_err() {
                    break;
                }
            }
            let _nobody = done.try_send(());
        })?;
    Ok((sender, written))
}

/// A panic ends the process without dropping anything: the terminal has to be restored before.
fn restore_after_panic(before: Termios) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Ok(mut tty) = OpenOptions::new().write(true).open("/dev/tty") {
            drop(tty.write_all(LEAVE.as_bytes()));
            let _gone = tcsetattr(&tty, OptionalActions::Now, &before);
        }
        report(info);
    }));
}

/// Alternate screen, cleared, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l";
/// Line wrap and cursor on, the screen from before.
const LEAVE: &str = "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Reads that wait for the loop. No person types more.
const KEYS: usize = 16;
/// Frames that wait for the terminal: the first one follows the switch to the alternate screen.
const FRAMES: usize = 2;
/// How long the terminal may take to show the end.
const LAST_FRAME: Duration = Duration::from_secs(1);
