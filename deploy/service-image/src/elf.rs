//! Programs as files (System V ABI, chapters 4 and 5): for which processor one is, and whether it
//! needs anything beside the kernel.

/// The facts about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The processor.
    pub machine: Machine,
    /// How it finds its libraries.
    pub linkage: Linkage,
}

/// A processor that services are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// `x86_64`.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// How a program finds its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// They are in it.
    Static,
    /// It names an interpreter or libraries, which an image without a distribution does not have.
    Dynamic,
}

/// Why a file is no program of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// It does not begin as one.
    #[error("it is no ELF file")]
    NotElf,
    /// 32 bits, or the other order of bytes.
    #[error("it is no 64-bit little-endian ELF file")]
    OtherClass,
    /// An object file, a library of the static kind, a core.
    #[error("not an ELF program")]
    NoProgram,
    /// Another processor.
    #[error("it is for processor {0} (e_machine), not x86_64 or aarch64")]
    OtherMachine(u16),
    /// It ends before what its header promises.
    #[error("it breaks off")]
    Truncated,
}

impl Machine {
    /// The architecture as images name it (GOARCH).
    #[must_use]
    pub fn oci(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// Looks at a program.
///
/// # Errors
///
/// When it is none, or none for a processor that services are built for.
pub fn inspect(file: &[u8]) -> Result<Program, ElfError> {
    let rest = file.strip_prefix(b"\x7fELF").ok_or(ElfError::NotElf)?;
    if !rest.starts_with(&[CLASS_64, LITTLE_ENDIAN]) {
        return Err(ElfError::OtherClass);
    }
    if !matches!(u16_at(file, 16)?, EXECUTABLE | SHARED) {
        return Err(ElfError::NoProgram);
    }
    let machine = match u16_at(file, 18)? {
        62 => Machine::X86_64,
        183 => Machine::Aarch64,
        other => return Err(ElfError::OtherMachine(other)),
    };
    let (start, size, number) = (u64_at(file, 32)?, u16_at(file, 54)?, u16_at(file, 56)?);
    let mut linkage = Linkage::Static;
    for n in 0..number {
        let header = start
            .checked_add(u64::from(n) * u64::from(size))
            .ok_or(ElfError::Truncated)?;
        match u32_at(file, header)? {
            PT_INTERP => linkage = Linkage::Dynamic,
            PT_DYNAMIC if needs_libraries(file, header)? => linkage = Linkage::Dynamic,
            _ => {}
        }
    }
    Ok(Program { machine, linkage })
}

/// Whether the dynamic section of this program header names a library. A static program that may
/// be loaded anywhere (static-pie) has such a section, for its own relocations.
fn needs_libraries(file: &[u8], header: u64) -> Result<bool, ElfError> {
    let offset = u64_at(file, at(header, 8)?)?;
    let length = u64_at(file, at(header, 32)?)?;
    for n in 0..(length / ENTRY).min(MAX_ENTRIES) {
        match u64_at(file, at(offset, n * ENTRY)?)? {
            DT_NULL => return Ok(false),
            DT_NEEDED => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

fn at(base: u64, offset: u64) -> Result<u64, ElfError> {
    base.checked_add(offset).ok_or(ElfError::Truncated)
}

fn bytes_at<const N: usize>(file: &[u8], at: u64) -> Result<[u8; N], ElfError> {
    let rest = usize::try_from(at).ok().and_then(|at| file.get(at..));
    rest.and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or(ElfError::Truncated)
}

fn u16_at(file: &[u8], at: u64) -> Result<u16, ElfError> {
    bytes_at(file, at).map(u16::from_le_bytes)
}

fn u32_at(file: &[u8], at: u64) -> Result<u32, ElfError> {
    bytes_at(file, at).map(u32::from_le_bytes)
}

fn u64_at(file: &[u8], at: u64) -> Result<u64, ElfError> {
    bytes_at(file, at).map(u64::from_le_bytes)
}

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const EXECUTABLE: u16 = 2;
const SHARED: u16 = 3;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
/// Octets of an entry of the dynamic section.
const ENTRY: u64 = 16;
/// Entries of a dynamic section that are looked at; real ones have about thirty.
const MAX_ENTRIES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with one program header of a kind, and a dynamic section of these tags.
    fn program(header_kind: u32, tags: &[u64]) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16..18].copy_from_slice(&SHARED.to_le_bytes());
        file[18..20].copy_from_slice(&62u16.to_le_bytes());
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&1u16.to_le_bytes());
        file[64..68].copy_from_slice(&header_kind.to_le_bytes());
        file[72..80].copy_from_slice(&120u64.to_le_bytes());
        let length = u64::try_from(tags.len()).unwrap() * ENTRY;
        file[96..104].copy_from_slice(&length.to_le_bytes());
        for tag in tags {
            file.extend(tag.to_le_bytes());
            file.extend([0; 8]);
        }
        file
    }

    #[test]
    fn what_names_an_interpreter_or_a_library_is_dynamic() {
        for (file, linkage) in [
            (program(1, &[]), Linkage::Static),
            (program(PT_INTERP, &[]), Linkage::Dynamic),
            (program(PT_DYNAMIC, &[5, 6, DT_NULL]), Linkage::Static),
            (program(PT_DYNAMIC, &[5, DT_NEEDED]), Linkage::Dynamic),
            // What is behind the end of the section is not in it.
            (program(PT_DYNAMIC, &[DT_NULL, DT_NEEDED]), Linkage::Static),
        ] {
            let machine = Machine::X86_64;
            assert_eq!(inspect(&file), Ok(Program { machine, linkage }));
        }
    }

    #[test]
    fn the_running_test_is_a_program() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(inspect(&own).is_ok());
    }

    #[test]
    fn a_file_that_breaks_off_anywhere_is_refused() {
        let whole = program(PT_DYNAMIC, &[5, DT_NEEDED]);
        for length in 0..whole.len() {
            let refused = inspect(&whole[..length]);
            // The value beside the last tag is not looked at.
            assert!(refused.is_err() || length >= whole.len() - 8, "{length}");
        }
        assert_eq!(inspect(b"#!/bin/sh"), Err(ElfError::NotElf));
        assert_eq!(inspect(b"\x7fELF\x01\x01"), Err(ElfError::OtherClass));
    }
}
