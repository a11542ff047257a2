//! What every disk has to do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by it"
)]

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::{ALIGNMENT, Access, Disk, File};

/// Blocks that are aligned and others may follow each other in any order.
fn check_blocks(file: &dyn File) {
    let block = |octet: u8, length: usize| {
        let memory = vec![octet; length + 2 * ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        (memory, begin)
    };
    let (a, at) = block(b'a', 2 * ALIGNMENT);
    let (b, from) = block(b'b', ALIGNMENT);
    let length = ALIGNMENT as u64;
    file.write_block(&a[at..at + 2 * ALIGNMENT], 0).unwrap();
    file.write_block(&a[at..at + 100], 2 * length).unwrap();
    file.write_block(&b[from..from + ALIGNMENT], length)
        .unwrap();
    file.write_block(&b[from + 1..][..ALIGNMENT], 2 * length)
        .unwrap();
    file.write_block(&b[from..from + ALIGNMENT], 3 * length + 1)
        .unwrap();
    let mut content = vec![0; 5 * ALIGNMENT];
    let mut n_read = 0;
    loop {
        match file.read_at(&mut content[n_read..], n_read as u64).unwrap() {
            0 => break,
            more => n_read += more,
        }
    }
    assert_eq!(n_read, 4 * ALIGNMENT + 1);
    assert!(content[..ALIGNMENT].iter().all(|octet| *octet == b'a'));
    let hole = 3 * ALIGNMENT;
    assert!(content[ALIGNMENT..hole].iter().all(|octet| *octet == b'b'));
    assert_eq!(content[hole], 0);
    assert!(content[hole + 1..n_read].iter().all(|octet| *octet == b'b'));
    check_blocks_read(file, &content[..n_read]);
    file.truncate(5).unwrap();
}

/// Blocks are read from wherever they are, and as much of the last as there is.
fn check_blocks_read(file: &dyn File, content: &[u8]) {
    let mut memory = vec![0; 3 * ALIGNMENT];
    let begin = memory.as_ptr().align_offset(ALIGNMENT);
    for (begin, length, at) in [
        (begin, 2 * ALIGNMENT, 0),
        (begin, 2 * ALIGNMENT, 3 * ALIGNMENT),
        (begin + 1, ALIGNMENT, ALIGNMENT),
        (begin, ALIGNMENT, 7),
        (begin, 5, ALIGNMENT),
    ] {
        let buffer = &mut memory[begin..begin + length];
        let n_read = file.read_block(buffer, at as u64).unwrap();
        assert_eq!(n_read, length.min(content.len() - at), "{length} at {at}");
        assert_eq!(&buffer[..n_read], &content[at..at + n_read]);
    }
    let buffer = &mut memory[begin..begin + ALIGNMENT];
    assert_eq!(file.read_block(buffer, 5 * ALIGNMENT as u64).unwrap(), 0);
}

/// Checks a disk in an empty directory.
pub fn check(disk: &dyn Disk, root: &Path) {
    let (a, b, directory) = (root.join("a"), root.join("b"), root.join("d"));
    assert_eq!(disk.list(&directory).unwrap(), None);
    disk.create_directory(&directory).unwrap();
    disk.create_directory(&directory).unwrap();
    assert_eq!(disk.list(&directory).unwrap(), Some(Vec::new()));
    let file = disk.create(&a).unwrap();
    let again = disk.create(&a).map(drop).map_err(|error| error.kind());
    assert_eq!(again, Err(io::ErrorKind::AlreadyExists));
    let pieces = [
        Bytes::from_static(b"ab"),
        Bytes::new(),
        Bytes::from_static(b"cde"),
    ];
    file.write_at(&pieces, 0).unwrap();
    file.allocate(1 << 16).unwrap();
    assert_eq!(file.size().unwrap(), 5);
    file.write_at(&[Bytes::from_static(b"X")], 1).unwrap();
    let mut buffer = [0; 9];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 5);
    assert_eq!(buffer.get(..5).unwrap(), b"aXcde");
    assert_eq!(file.read_at(&mut buffer, 5).unwrap(), 0);
    check_blocks(&*file);
    file.truncate(2).unwrap();
    file.sync().unwrap();
    file.seal().unwrap();
    assert_eq!(disk.status(&a).unwrap().unwrap().size, 2);
    disk.create(&b).unwrap();
    disk.rename(&a, &b).unwrap();
    disk.sync_directory(root).unwrap();
    if let Some(file_system) = disk.file_system(root).unwrap() {
        file_system.sync().unwrap();
    }
    assert_eq!(disk.status(&a).unwrap(), None);
    assert_eq!(disk.list(root).unwrap(), Some(vec!["b".to_owned()]));
    // A file that is open is read on under any name, and under none.
    let opened = disk.open(&b, Access::Read).unwrap();
    disk.touch(&b).unwrap();
    disk.remove(&b).unwrap();
    assert_eq!(opened.read_at(&mut buffer, 0).unwrap(), 2);
    let gone = disk
        .open(&b, Access::Read)
        .map(drop)
        .map_err(|error| error.kind());
    assert_eq!(gone, Err(io::ErrorKind::NotFound));
    let gone = disk.remove(&b).map_err(|error| error.kind());
    assert_eq!(gone, Err(io::ErrorKind::NotFound));
    let room = disk.room(root).unwrap();
    assert!(room.free <= room.total && room.total > 0);
    let lock = disk.lock(&root.join("lock")).unwrap();
    let second = disk
        .lock(&root.join("lock"))
        .map(drop)
        .map_err(|error| error.kind());
    assert_eq!(second, Err(io::ErrorKind::WouldBlock));
    drop(lock);
    disk.lock(&root.join("lock")).unwrap();
}
