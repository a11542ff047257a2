use bytes::Bytes;

use super::*;
use crate::disk::{Access, Disk, suite};

#[test]
fn a_disk_without_faults_does_what_the_store_asks_of_one() {
    let disk = FaultyDisk::new(1);
    let root = Path::new("/root");
    disk.create_directory(root).unwrap();
    suite::check(&disk, root);
}

#[test]
fn a_loss_of_power_keeps_what_was_synced_and_nothing_else_for_sure() {
    let mut kept = BTreeSet::new();
    for seed in 0..64 {
        let disk = FaultyDisk::new(seed);
        let (synced, named) = (Path::new("/synced"), Path::new("/named"));
        let file = disk.create(synced).unwrap();
        file.write_at(&[Bytes::from_static(b"durable")], 0).unwrap();
        file.sync().unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        file.write_at(&[Bytes::from_static(b"perhaps")], 7).unwrap();
        disk.create(named).unwrap();
        let disk = disk.next_life(End::PowerLoss, Faults::default());
        assert!(file.sync().is_err(), "of a life that is over");
        let file = disk.open(synced, Access::Read).unwrap();
        let mut buffer = [0; 20];
        let length = file.read_at(&mut buffer, 0).unwrap();
        assert!(buffer[..length].starts_with(b"durable"));
        kept.insert((length, disk.status(named).unwrap().is_some()));
    }
    assert!(kept.len() >= 4, "{kept:?}");
}

#[test]
fn a_failed_sync_loses_what_a_later_one_does_not_bring_back() {
    let disk = FaultyDisk::new(3);
    let path = Path::new("/file");
    let file = disk.create(path).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    file.write_at(&[Bytes::from_static(b"lost")], 0).unwrap();
    disk.set_faults(Faults {
        broken: 1000,
        ..Faults::default()
    });
    assert!(file.sync().is_err());
    disk.set_faults(Faults::default());
    file.sync().unwrap();
    assert_eq!(file.size().unwrap(), 4, "while the power is on");
    let disk = disk.next_life(End::PowerLoss, Faults::default());
    assert_eq!(disk.status(path).unwrap().unwrap().size, 0);
}
