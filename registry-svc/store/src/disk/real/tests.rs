use super::*;
use crate::disk::suite;

#[test]
fn the_machines_files_do_what_the_store_asks_of_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    suite::check(&RealDisk, directory.path());
}

#[test]
fn a_sealed_file_is_for_everybody_to_read_and_nobody_to_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealed");
    RealDisk.create(&path).unwrap().seal().unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o444);
}

#[test]
fn more_pieces_than_one_call_takes_are_written_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let file = RealDisk.create(&directory.path().join("pieces")).unwrap();
    let pieces: Vec<Bytes> = (0..3 * MOST_SLICES)
        .map(|at| Bytes::from(at.to_string().into_bytes()))
        .collect();
    file.write_at(&pieces, 0).unwrap();
    let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
    let mut read = vec![0; whole.len()];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), whole.len());
    assert_eq!(read, whole);
}
