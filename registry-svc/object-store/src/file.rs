//! An object as a file that is read: in windows, the first of them small, for many reads are of a
//! manifest or of a few octets.

use std::io;

use bytes::Bytes;
use oci::digest::Digest;
use parking_lot::Mutex;
use registry_store::disk::{File, Status};

use crate::objects::Objects;

/// The size of the first request.
const FIRST: u64 = 1 << 20;
/// The size of later requests: a request costs some milliseconds whatever its size.
const NEXT: u64 = 8 << 20;

/// An object that is read.
#[derive(Debug)]
pub(super) struct ObjectFile {
    objects: Objects,
    digest: Digest,
    status: Status,
    window: Mutex<Buffered>,
}

#[derive(Debug, Default)]
struct Buffered {
    at: u64,
    octets: Bytes,
}

impl ObjectFile {
    pub(super) fn new(objects: Objects, digest: Digest, status: Status) -> Self {
        Self {
            objects,
            digest,
            status,
            window: Mutex::default(),
        }
    }
}

impl File for ObjectFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.status.size || buffer.is_empty() {
            return Ok(0);
        }
        let mut window = self.window.lock();
        let end = window.at + u64::try_from(window.octets.len()).unwrap_or(u64::MAX);
        if at < window.at || at >= end {
            let wanted = match end > 0 && at == end {
                true => NEXT,
                false => FIRST,
            };
            let part = at..at.saturating_add(wanted).min(self.status.size);
            *window = Buffered {
                at,
                octets: self.objects.read(&self.digest, part)?,
            };
        }
        let skip = usize::try_from(at - window.at).unwrap_or(usize::MAX);
        let rest = window.octets.get(skip..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        match length {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => Ok(length),
        }
    }

    fn write_at(&self, _: &[Bytes], _: u64) -> io::Result<()> {
        Err(super::unsupported())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(super::unsupported())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(super::unsupported())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn seal(&self) -> io::Result<()> {
        Ok(())
    }

    fn status(&self) -> io::Result<Status> {
        Ok(self.status)
    }
}
