//! An open stream: a connected socket after its handshake, or a file after its START.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dnstap::frames::{Control, Stream};

use crate::Destination;

/// The longest time for which a reader may not read, or not take part in the handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for the reader's FINISH.
const FAREWELL: Duration = Duration::from_secs(1);

pub(crate) enum Output {
    Socket {
        path: PathBuf,
        socket: UnixStream,
        stream: Stream,
    },
    File {
        path: PathBuf,
        file: File,
        size: u64,
        max_size: u64,
    },
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { path, .. } | Self::File { path, .. } => path.display().fmt(f),
        }
    }
}

impl Output {
    /// Connects and offers the stream, or begins the file.
    pub(crate) fn open(destination: &Destination) -> io::Result<Self> {
        let because = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        match destination {
            Destination::Socket(path) => {
                let connected = connect(path).map_err(|error| because(path, error))?;
                let (socket, stream) = connected;
                Ok(Self::Socket {
                    path: path.clone(),
                    socket,
                    stream,
                })
            }
            Destination::File { path, max_size } => {
                let (file, size) = begin(path).map_err(|error| because(path, error))?;
                Ok(Self::File {
                    path: path.clone(),
                    file,
                    size,
                    max_size: *max_size,
                })
            }
        }
    }

    /// Writes data frames; a full file makes room for the next one.
    pub(crate) fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        match self {
            Self::Socket { socket, .. } => socket.write_all(frames),
            Self::File {
                path,
                file,
                size,
                max_size,
            } => {
                let more = u64::try_from(frames.len()).unwrap_or(u64::MAX);
                if size.saturating_add(more) > *max_size {
                    file.write_all(&Control::Stop.frame())?;
                    (*file, *size) = begin(path)?;
                }
                *size = size.saturating_add(more);
                file.write_all(frames)
            }
        }
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.write_all(&Control::Stop.frame()),
            Self::Socket { socket, stream, .. } => {
                socket.write_all(&Control::Stop.frame())?;
                socket.set_read_timeout(Some(FAREWELL))?;
                if let Err(error) = wait_for_reader(socket, stream) {
                    tracing::debug!(%error, "The reader of dnstap has not confirmed the end");
                }
                Ok(())
            }
        }
    }
}

fn connect(path: &Path) -> io::Result<(UnixStream, Stream)> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut stream, ready) = Stream::offer();
    socket.write_all(&ready)?;
    wait_for_reader(&mut socket, &mut stream)?;
    socket.write_all(&Control::Start.frame())?;
    Ok((socket, stream))
}

/// Reads until the reader's next frame is there. The frame is short, so that a reader that sends slowly ends it soon.
fn wait_for_reader(socket: &mut UnixStream, stream: &mut Stream) -> io::Result<()> {
    let mut octets = [0; 1024];
    loop {
        let n = socket.read(&mut octets)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let received = stream.received(octets.get(..n).unwrap_or_default());
        if received.map_err(io::Error::other)? {
            return Ok(());
        }
    }
}

/// Begins a file, and moves one that is there aside; gives its size.
fn begin(path: &Path) -> io::Result<(File, u64)> {
    let is_there = fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    if is_there {
        let mut old = OsString::from(path);
        old.push(".1");
        fs::rename(path, old)?;
    }
    let mut file = File::create(path)?;
    let start = Control::Start.frame();
    file.write_all(&start)?;
    Ok((file, u64::try_from(start.len()).unwrap_or(0)))
}
