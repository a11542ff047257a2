//! A journal out of what can be read of a damaged one.
//!
//! Every whole record of every file is taken, around what is damaged. Their statements become the
//! snapshot of a new journal, as repairs: they have no place in the sequences of their origins, for
//! nothing tells which records are lost. So the other nodes send all of theirs again, and find by
//! comparison what only this node has. The damaged files are moved to a directory of their own; those of
//! the copy are read and then replaced.
//!
//! The journal of a node that begins again is replaced in the same way, by an empty one.
//!
//! A crash at any step leaves the damaged journal or the new one.

use std::path::Path;
use std::sync::Arc;

use registry_facts::frame::{self, Kind};
use registry_facts::index::SCAN;
use registry_facts::index::memory::MemoryIndex;
use registry_facts::index::view::View;
use registry_facts::record::Record;

use super::JournalError;
use super::files;
use super::snapshot::{Directory, Output, unreadable};
use crate::disk::{Access, Disk, remove_if_there};

/// Records that are applied at once.
const APPLIED_AT_ONCE: usize = 1000;

/// Octets that are read at once: a part of the disk that cannot be read takes no more with it.
const PIECE: usize = 4096;

/// The result of reading a damaged journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Whole records.
    pub n_records: u64,
    /// Octets that are in no whole record.
    pub n_lost: u64,
}

/// The part of a journal that its replacement keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All statements that can be read.
    Records,
    /// None of them.
    Nothing,
}

/// Applies what can be read of a journal to a view.
///
/// # Errors
///
/// Fails on a record of a newer version, and as the disk does.
pub fn read(disk: &dyn Disk, directory: &Path, view: &View) -> Result<Salvaged, JournalError> {
    read_files(disk, directory, names(disk, directory)?, view)
}

/// Applies what can be read of some files of a journal to a view.
///
/// # Errors
///
/// Fails as [`read`] does.
pub(super) fn read_files(
    disk: &dyn Disk,
    directory: &Path,
    names: Vec<String>,
    view: &View,
) -> Result<Salvaged, JournalError> {
    let mut salvaged = Salvaged::default();
    for name in names {
        let octets = octets(disk, &directory.join(&name))?;
        let mut group = Vec::new();
        let mut failure = Ok(());
        salvaged.n_lost += frame::salvage(&octets, &mut |frame, at| {
            if failure.is_err() || frame.kind == Kind::End {
                return;
            }
            match Record::decode(frame.payload) {
                Ok(record) => group.push(record),
                Err(what) => {
                    let file = name.clone();
                    failure = Err(JournalError::Newer { file, at, what });
                }
            }
            if group.len() >= APPLIED_AT_ONCE {
                failure = view.apply(&group).map_err(unreadable);
                salvaged.n_records += group.len() as u64;
                group.clear();
            }
        });
        failure?;
        view.apply(&group).map_err(unreadable)?;
        salvaged.n_records += group.len() as u64;
    }
    Ok(salvaged)
}

/// Puts a journal of what can be read in the place of a damaged one, whose files go to `set_aside`. One
/// that was set aside before is removed: there is never more than one.
///
/// # Errors
///
/// Fails as [`read`] does.
pub fn replace(
    directory: &Directory,
    set_aside: &Path,
    keep: Keep,
) -> Result<Salvaged, JournalError> {
    let doing = || JournalError::io("set the damaged journal aside");
    let (disk, path) = (&*directory.disk, &directory.path);
    disk.create_directory(path).map_err(doing())?;
    let mut view = View::new(Arc::new(MemoryIndex::default()));
    let salvaged = read(disk, path, &view)?;
    let damaged = names(disk, path)?;
    // Each may have what the other has lost.
    let copied = names(disk, &directory.copy).unwrap_or_default();
    read_files(disk, &directory.copy, copied.clone(), &view)?;
    if keep == Keep::Nothing {
        // A crash may have left an empty journal in its place, and what is aside must stay then.
        if salvaged.n_records == 0 {
            return Ok(salvaged);
        }
        view = View::new(Arc::new(MemoryIndex::default()));
    }
    let numbers = damaged.iter().chain(&copied);
    let next = numbers.filter_map(|name| number(name)).max();
    let next = next.unwrap_or(0).saturating_add(1);
    // Written aside first: from its name on, it alone counts.
    let temporary = path.join(format!("{}.tmp", files::snapshot(next)));
    let segment = path.join(files::segment(next));
    for rest in [&temporary, &segment] {
        remove_if_there(disk, rest).map_err(doing())?;
    }
    write(disk, &temporary, &view)?;
    drop(disk.create(&segment).map_err(doing())?);
    disk.sync_directory(path).map_err(doing())?;
    disk.rename(&temporary, &path.join(files::snapshot(next)))
        .and_then(|()| disk.sync_directory(path))
        .map_err(doing())?;
    disk.create_directory(set_aside).map_err(doing())?;
    for name in disk.list(set_aside).map_err(doing())?.unwrap_or_default() {
        disk.remove(&set_aside.join(name)).map_err(doing())?;
    }
    for name in damaged {
        disk.rename(&path.join(&name), &set_aside.join(&name))
            .map_err(doing())?;
    }
    disk.sync_directory(set_aside)
        .and_then(|()| disk.sync_directory(path))
        .map_err(doing())?;
    if let Some(root) = set_aside.parent() {
        disk.sync_directory(root).map_err(doing())?;
    }
    Ok(salvaged)
}

fn write(disk: &dyn Disk, path: &Path, view: &View) -> Result<(), JournalError> {
    let file = disk
        .create(path)
        .map_err(JournalError::io("write a new journal"))?;
    let mut output = Output::new(&*file);
    let mut after = None;
    loop {
        let registers = view.registers(after.as_ref(), SCAN).map_err(unreadable)?;
        let Some(last) = registers.last() else {
            return output.finish().map(drop);
        };
        after = Some(last.fact.key());
        for register in registers {
            output.put(&Record {
                origin: register.origin,
                sequence: 0,
                stamp: register.stamp,
                facts: vec![register.fact],
            })?;
        }
    }
}

/// The files of a journal, old ones too: they may have what newer ones have lost.
pub(super) fn names(disk: &dyn Disk, directory: &Path) -> Result<Vec<String>, JournalError> {
    let names = disk
        .list(directory)
        .map_err(JournalError::io("list the journal"))?;
    let mut names = names.unwrap_or_default();
    names.retain(|name| number(name).is_some());
    Ok(names)
}

pub(super) fn number(name: &str) -> Option<u64> {
    files::number(name, ".log").or_else(|| files::number(name, ".snapshot"))
}

/// The octets of a file, with zeros for what cannot be read.
pub(crate) fn octets(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, JournalError> {
    let doing = || JournalError::io("read the damaged journal");
    let file = disk.open(path, Access::Read).map_err(doing())?;
    let size = usize::try_from(file.size().map_err(doing())?).unwrap_or(usize::MAX);
    let mut octets = vec![0; size];
    let mut at = 0;
    for piece in octets.chunks_mut(PIECE) {
        let mut filled = 0;
        while let Some(rest) = piece.get_mut(filled..)
            && !rest.is_empty()
            && let Ok(n_read @ 1..) = file.read_at(rest, at + filled as u64)
        {
            filled += n_read;
        }
        at += piece.len() as u64;
    }
    Ok(octets)
}
