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

#[test]
fn a_file_that_is_cut_to_its_length_gives_back_its_room_and_keeps_its_date_without() {
    const CLAIMED: u64 = 16 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("part");
    let file = RealDisk.create(&path).unwrap();
    file.write_at(&[Bytes::from(vec![7; 1000])], 0).unwrap();
    let date = SystemTime::UNIX_EPOCH + Duration::from_hours(400_000);
    let set = || {
        let opened = fs::File::options().write(true).open(&path).unwrap();
        opened.set_modified(date).unwrap();
    };
    set();
    file.truncate(1000).unwrap();
    assert_eq!(file.status().unwrap().modified, date);
    file.allocate(CLAIMED).unwrap();
    set();
    file.truncate(1000).unwrap();
    let now = fs::metadata(&path).unwrap();
    assert!(now.len() == 1000 && 512 * now.blocks() < CLAIMED);
}
