//! Writing a bundle: the manifest, its signature, and the members in the order of their names.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::manifest::{COMMAND, MANIFEST, Manifest, SIGNATURE};
use service_image::layer::fixed_header;

/// The source of a member's bytes.
#[derive(Debug)]
pub enum Source {
    /// They are here.
    Bytes(Vec<u8>),
    /// A file has them.
    File(File),
}

/// Writes the archive. `contents` is called once for each member; its answer has to match the
/// manifest.
///
/// # Errors
///
/// When a member cannot be read, has another size than its manifest says, or writing fails.
pub fn write(
    manifest: &Manifest,
    text: &[u8],
    signature: &str,
    mut contents: impl FnMut(&str) -> io::Result<Source>,
    out: impl Write,
) -> io::Result<()> {
    let mut tar = tar::Builder::new(out);
    let time = manifest.created;
    append(&mut tar, MANIFEST, time, length(text)?, text)?;
    let signature = signature.as_bytes();
    append(&mut tar, SIGNATURE, time, length(signature)?, signature)?;
    for (name, member) in &manifest.members {
        match contents(name)? {
            Source::Bytes(bytes) if length(&bytes)? == member.size => {
                append(&mut tar, name, time, member.size, &bytes[..])?;
            }
            Source::File(file) if file.metadata()?.len() == member.size => {
                append(&mut tar, name, time, member.size, file)?;
            }
            _ => return Err(io::Error::other(format!("{name} changed meanwhile"))),
        }
    }
    tar.into_inner()?.flush()
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    time: u64,
    size: u64,
    bytes: impl Read,
) -> io::Result<()> {
    // Keys of nodes are in it: a manual unpack must not make them readable for all users.
    let mode = if name == COMMAND { 0o755 } else { 0o600 };
    let mut header = fixed_header(tar::EntryType::Regular, mode, time);
    header.set_size(size);
    tar.append_data(&mut header, name, bytes)
}

fn length(bytes: &[u8]) -> io::Result<u64> {
    u64::try_from(bytes.len()).map_err(io::Error::other)
}
