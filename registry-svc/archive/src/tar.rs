//! Tape archives: POSIX ustar and pax (IEEE Std 1003.1, pax interchange format) and GNU's long names.
//!
//! The reader moves from header to header and returns the place of each member's bytes; it skips
//! them, and they are read later from there. Lengths in headers are bounded before anything is
//! allocated for them. Sparse members are [`Kind::Other`]: registries' archives have none.

use std::io::{self, Read};

/// Archives are made of blocks of this size.
pub const BLOCK: u64 = 512;
const BLOCK_LENGTH: usize = 512;
/// Octets of an extended header. Names have at most 1,024, and there are two in one.
const MAX_EXTENSION: u64 = 64 << 10;
/// Extended headers one after the other. GNU's tar writes two, pax one.
const MAX_EXTENSIONS: usize = 8;
/// The largest size that eleven octal digits say.
const MAX_OCTAL: u64 = 0o777_7777_7777;

/// A source that can skip bytes without reading them where that is possible.
pub trait Forward: Read {
    /// Skips `length` bytes. Beyond the end is no error: a read there returns nothing.
    ///
    /// # Errors
    ///
    /// When the bytes cannot be read.
    fn skip(&mut self, length: u64) -> io::Result<()>;
}

/// Goes through an archive.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    /// How far it has been read.
    position: u64,
    /// The offset of the next header.
    next: u64,
}

/// One member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name as written; none if it is not UTF-8.
    pub name: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// How many octets it has.
    pub size: u64,
    /// The offset of its bytes.
    pub offset: u64,
}

/// The kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    File,
    /// Another name for a member, relative to where this one is.
    Symlink(String),
    /// Another name for a member.
    HardLink(String),
    /// A directory.
    Directory,
    /// A device, a queue, or bytes that are not written as they are.
    Other,
}

/// Why an archive cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The bytes cannot be read.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// It ends in the middle.
    #[error("it breaks off")]
    Truncated,
    /// This is no header.
    #[error("no tar header at octet {0}")]
    NoHeader(u64),
    /// A header that cannot be followed.
    #[error("the header at octet {at} is damaged: {what}")]
    Damaged {
        /// The offset of the header.
        at: u64,
        /// The damage.
        what: &'static str,
    },
}

/// The values of extended headers for the member that follows.
#[derive(Default)]
struct Extension {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

impl<R: Forward> Reader<R> {
    /// Goes through what is read from here.
    pub fn new(from: R) -> Self {
        Self {
            from,
            position: 0,
            next: 0,
        }
    }

    /// The next member, whose bytes can be read with [`Self::read_member`].
    ///
    /// # Errors
    ///
    /// When the archive ends in the middle or is none.
    pub fn next_member(&mut self) -> Result<Option<Member>, TarError> {
        let mut extension = Extension::default();
        for _ in 0..=MAX_EXTENSIONS {
            let Some((at, header)) = self.header()? else {
                return Ok(None);
            };
            let size = number(field(&header, 124, 12)).ok_or(TarError::Damaged {
                at,
                what: "its size is no number",
            })?;
            match header[156] {
                b'x' => self.pax(size, at, &mut extension)?,
                b'L' => extension.name = Some(terminated(self.extension(size, at)?)),
                b'K' => extension.link = Some(terminated(self.extension(size, at)?)),
                // Values for all members (a comment with git's revision) do not matter here.
                b'g' => self.behind(size, at)?,
                flag => return self.member(&header, flag, size, at, extension).map(Some),
            }
        }
        Err(TarError::Damaged {
            at: self.next,
            what: "too many extended headers",
        })
    }

    /// The bytes of the member that was returned last, from their beginning and once.
    ///
    /// # Errors
    ///
    /// When the archive breaks off in them.
    pub fn read_member(&mut self, member: &Member, limit: usize) -> Result<Vec<u8>, TarError> {
        let length = usize::try_from(member.size).map_or(limit, |size| size.min(limit));
        self.octets(length)
    }

    /// The next header; none at the end.
    fn header(&mut self) -> Result<Option<(u64, [u8; BLOCK_LENGTH])>, TarError> {
        let gap = self.next.saturating_sub(self.position);
        self.from.skip(gap)?;
        self.position = self.next;
        let at = self.position;
        let mut block = [0; BLOCK_LENGTH];
        let length = fill(&mut self.from, &mut block)?;
        match length {
            // Archives without their two zero blocks are common.
            0 => return Ok(None),
            BLOCK_LENGTH => {}
            _ => return Err(TarError::Truncated),
        }
        self.position = at.saturating_add(BLOCK);
        self.next = self.position;
        if block.iter().all(|&octet| octet == 0) {
            return Ok(None);
        }
        match is_header(&block) {
            true => Ok(Some((at, block))),
            false => Err(TarError::NoHeader(at)),
        }
    }

    fn member(
        &mut self,
        header: &[u8; BLOCK_LENGTH],
        flag: u8,
        size: u64,
        at: u64,
        extension: Extension,
    ) -> Result<Member, TarError> {
        let name = extension.name.unwrap_or_else(|| name_of(header));
        let link = extension
            .link
            .unwrap_or_else(|| text(field(header, 157, 100)).to_vec());
        let is_directory = flag == b'5' || (matches!(flag, b'0' | 0) && name.ends_with(b"/"));
        let kind = match (flag, String::from_utf8(link)) {
            _ if is_directory => Kind::Directory,
            (b'0' | b'7' | 0, _) if !extension.is_sparse => Kind::File,
            (b'1', Ok(target)) => Kind::HardLink(target),
            (b'2', Ok(target)) => Kind::Symlink(target),
            _ => Kind::Other,
        };
        // A member without bytes may give any size.
        let size = match flag {
            b'1'..=b'6' => 0,
            _ => extension.size.unwrap_or(size),
        };
        let offset = self.position;
        self.behind(size, at)?;
        Ok(Member {
            name: String::from_utf8(name).ok(),
            kind,
            size,
            offset,
        })
    }

    /// Places the next header behind `size` bytes and the padding of their last block.
    fn behind(&mut self, size: u64, at: u64) -> Result<(), TarError> {
        let end = self
            .position
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(BLOCK));
        self.next = end.ok_or(TarError::Damaged {
            at,
            what: "its size is none that can be",
        })?;
        Ok(())
    }

    fn extension(&mut self, size: u64, at: u64) -> Result<Vec<u8>, TarError> {
        self.behind(size, at)?;
        match usize::try_from(size) {
            Ok(length) if size <= MAX_EXTENSION => self.octets(length),
            _ => Err(TarError::Damaged {
                at,
                what: "an extended header is too long",
            }),
        }
    }

    fn octets(&mut self, length: usize) -> Result<Vec<u8>, TarError> {
        let mut octets = Vec::new();
        let limit = u64::try_from(length).unwrap_or(u64::MAX);
        let read = (&mut self.from).take(limit).read_to_end(&mut octets)?;
        self.position = self
            .position
            .saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        match read == length {
            true => Ok(octets),
            false => Err(TarError::Truncated),
        }
    }

    /// Records of `length key=value`, a newline behind each.
    fn pax(&mut self, size: u64, at: u64, extension: &mut Extension) -> Result<(), TarError> {
        let octets = self.extension(size, at)?;
        let damaged = |what| TarError::Damaged { at, what };
        let mut rest: &[u8] = &octets;
        while !rest.is_empty() {
            let (key, value, behind) =
                record(rest).ok_or_else(|| damaged("a record of pax is none"))?;
            rest = behind;
            match key {
                b"path" => extension.name = Some(value.to_vec()),
                b"linkpath" => extension.link = Some(value.to_vec()),
                b"size" => {
                    let size = decimal(value).ok_or_else(|| damaged("its size is no number"))?;
                    extension.size = Some(size);
                }
                key if key.starts_with(b"GNU.sparse.") => extension.is_sparse = true,
                _ => {}
            }
        }
        Ok(())
    }
}

//--- Fields

/// A block begins with a header if its sum is what it says; old writers added signed octets.
fn is_header(block: &[u8; BLOCK_LENGTH]) -> bool {
    let Some(said) = number(field(block, 148, 8)) else {
        return false;
    };
    let octets = || {
        block.iter().enumerate().map(|(at, &octet)| match at {
            148..156 => b' ',
            _ => octet,
        })
    };
    let unsigned: u64 = octets().map(u64::from).sum();
    let signed: i64 = octets()
        .map(|octet| i64::from(i8::from_ne_bytes([octet])))
        .sum();
    said == unsigned || i64::try_from(said).is_ok_and(|said| said == signed)
}

fn name_of(header: &[u8; BLOCK_LENGTH]) -> Vec<u8> {
    let name = text(field(header, 0, 100));
    // GNU's own format says `ustar` and a blank, and has other fields there.
    let prefix = match field(header, 257, 6) == b"ustar\0" {
        true => text(field(header, 345, 155)),
        false => &[],
    };
    match prefix.is_empty() {
        true => name.to_vec(),
        false => [prefix, b"/", name].concat(),
    }
}

fn field(block: &[u8; BLOCK_LENGTH], at: usize, length: usize) -> &[u8] {
    block.get(at..at + length).unwrap_or_default()
}

/// Up to the first zero.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&octet| octet == 0);
    field.get(..end.unwrap_or(field.len())).unwrap_or_default()
}

fn terminated(mut octets: Vec<u8>) -> Vec<u8> {
    let length = text(&octets).len();
    octets.truncate(length);
    octets
}

/// Octal digits between blanks and zeros, or GNU's form: the first bit set, and a binary number.
fn number(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((0x80, rest)) => rest.iter().try_fold(0_u64, |value, &octet| {
            value
                .checked_mul(256)
                .and_then(|value| value.checked_add(u64::from(octet)))
        }),
        Some((first, _)) if first & 0x80 != 0 => None,
        _ => {
            let digits = text(field).trim_ascii();
            digits.iter().try_fold(0_u64, |value, &digit| match digit {
                b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
                _ => None,
            })
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes()
        .all(|digit| digit.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// The first record: its key, its value, and what is behind it.
fn record(octets: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = octets.iter().position(|&octet| octet == b' ')?;
    let length = usize::try_from(decimal(octets.get(..blank)?)?).ok()?;
    let body = octets.get(blank + 1..length)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|&octet| octet == b'=')?;
    Some((
        body.get(..equals)?,
        body.get(equals + 1..)?,
        octets.get(length..)?,
    ))
}

/// Reads until the block is full or there is no more, and says how much that was.
fn fill(from: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = block.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

//--- Writing

/// The header of a file, with what pax says of it where ustar has no room.
#[must_use]
pub fn header(name: &str, size: u64) -> Vec<u8> {
    let mut records = Vec::new();
    if name.len() > 100 {
        add_record(&mut records, "path", name);
    }
    if size > MAX_OCTAL {
        add_record(&mut records, "size", &size.to_string());
    }
    let mut blocks = Vec::new();
    if !records.is_empty() {
        let length = u64::try_from(records.len()).unwrap_or_default();
        blocks.extend_from_slice(&block(b"././@PaxHeader", length, b'x'));
        blocks.extend_from_slice(&records);
        blocks.resize(blocks.len().next_multiple_of(BLOCK_LENGTH), 0);
    }
    blocks.extend_from_slice(&block(name.as_bytes(), size, b'0'));
    blocks
}

/// The padding behind the bytes of a file of this size.
#[must_use]
pub fn padding(size: u64) -> &'static [u8] {
    let length = usize::try_from((BLOCK - size % BLOCK) % BLOCK).unwrap_or_default();
    ZEROS.get(..length).unwrap_or_default()
}

/// The end of an archive.
#[must_use]
pub fn end() -> &'static [u8] {
    &ZEROS
}

const ZEROS: [u8; 2 * BLOCK_LENGTH] = [0; 2 * BLOCK_LENGTH];

fn block(name: &[u8], size: u64, flag: u8) -> [u8; BLOCK_LENGTH] {
    let mut block = [0; BLOCK_LENGTH];
    let mut put = |at: usize, octets: &[u8]| {
        if let Some(to) = block.get_mut(at..at + octets.len()) {
            to.copy_from_slice(octets);
        }
    };
    put(0, name.get(..100).unwrap_or(name));
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    // pax says it where there are too many digits.
    put(124, format!("{:011o}\0", size.min(MAX_OCTAL)).as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[flag]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|&octet| u32::from(octet)).sum();
    let sum = format!("{sum:06o}\0 ");
    for (to, octet) in block.iter_mut().skip(148).zip(sum.bytes()) {
        *to = octet;
    }
    block
}

/// A record counts its own length, digits included.
fn add_record(records: &mut Vec<u8>, key: &str, value: &str) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
}

#[cfg(test)]
mod tests;
