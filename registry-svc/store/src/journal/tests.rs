//! The journal on a disk that fails: what is read, cut off, refused, put back, and set aside.
//!
//! Size: one journal and its damages; every table needs the same disk and the same helpers.

use std::path::Path;
use std::sync::Arc;

use oci::digest::{Algorithm, Digest};
use oci::reference::{RepositoryName, Tag};
use registry_facts::frame;
use registry_facts::index::memory::MemoryIndex;
use registry_facts::index::view::View;
use registry_facts::record::{Fact, Record, Stamped, Vector};

use super::files::{Replayed, replay, segment, snapshot};
use super::*;
use crate::disk::Disk;
use crate::disk::faulty::{Chance, End, Faults, FaultyDisk};
use crate::store::{IndexKind, NewManifest, Settings, Store, StoreError};

const ROOT: &str = "/store/journal";
const COPY: &str = "/store/journal-copy";

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

async fn open(disk: &FaultyDisk, segment: u64) -> Result<Store, StoreError> {
    let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
    settings.index = IndexKind::Memory;
    settings.segment = segment;
    let disk = Arc::new(disk.clone());
    Store::open(settings, disk).await.map(|(store, _)| store)
}

fn repository() -> RepositoryName {
    "a/b".parse().unwrap()
}

/// Pushes a manifest of its own for each number, under one tag.
async fn push(store: &Store, numbers: std::ops::Range<u64>) -> Result<(), StoreError> {
    for number in numbers {
        let bytes = bytes::Bytes::from(format!("{{\"number\":{number}}}"));
        let manifest = NewManifest {
            digest: Digest::of(Algorithm::Sha256, &bytes),
            bytes,
            media_type: "application/json".to_owned(),
            closure: Vec::new(),
            subject: None,
            tags: vec!["latest".parse::<Tag>().unwrap()],
        };
        store.put_manifest(&repository(), manifest).await?;
    }
    Ok(())
}

fn read(disk: &FaultyDisk) -> Result<(Replayed, Vec<Record>), JournalError> {
    let mut records = Vec::new();
    let replayed = replay(disk, Path::new(ROOT), None, &mut |record| {
        records.push(record);
        Ok(())
    })?;
    Ok((replayed, records))
}

/// What `latest` points to.
async fn latest(store: &Store) -> String {
    let found = store
        .manifest(&repository(), &"latest".parse().unwrap())
        .await;
    String::from_utf8(found.unwrap().unwrap().bytes.to_vec()).unwrap()
}

fn names(disk: &FaultyDisk) -> Vec<String> {
    disk.list(Path::new(ROOT)).unwrap().unwrap()
}

fn kill(disk: &FaultyDisk) -> FaultyDisk {
    disk.next_life(End::Kill, Faults::default())
}

#[test]
fn segments_follow_each_other_and_are_compacted() {
    run(async {
        let disk = FaultyDisk::new(1);
        let store = open(&disk, 1000).await.unwrap();
        push(&store, 0..60).await.unwrap();
        let vector = store.vector();
        store.close().await;
        drop(store);
        // Compaction runs beside the journal, on its own thread.
        while !names(&disk).iter().any(|name| name.ends_with(".snapshot")) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let disk = kill(&disk);
        let (replayed, records) = read(&disk).unwrap();
        assert!(
            replayed.end.segment > 3 && replayed.n_torn == 0,
            "{replayed:?}"
        );
        let mut found = Vector::default();
        for record in &records {
            found.advance(&record.origin, record.sequence);
        }
        assert_eq!(found, vector);
        let store = open(&disk, 1000).await.unwrap();
        assert_eq!(
            (latest(&store).await, store.vector()),
            ("{\"number\":59}".to_owned(), vector)
        );
        assert_eq!(
            store.tags(&repository(), None, 9).unwrap().unwrap().len(),
            1
        );
    });
}

#[test]
fn a_view_of_the_journal_is_the_view_that_wrote_it() {
    run(async {
        let disk = FaultyDisk::new(2);
        let store = open(&disk, 1500).await.unwrap();
        push(&store, 0..40).await.unwrap();
        store
            .delete_tag(&repository(), &"latest".parse().unwrap())
            .await
            .unwrap();
        let registers = store.registers(None, 9999).unwrap();
        store.close().await;
        // What compacts it is dead.
        let disk = kill(&disk);
        let view = View::new(Arc::new(MemoryIndex::default()));
        view.apply(&read(&disk).unwrap().1).unwrap();
        assert_eq!(view.registers(None, 9999).unwrap(), registers);
    });
}

#[test]
fn a_torn_end_is_cut_off_and_the_journal_goes_on() {
    run(async {
        let disk = FaultyDisk::new(3);
        let store = open(&disk, 1 << 20).await.unwrap();
        push(&store, 0..3).await.unwrap();
        drop(store);
        let disk = kill(&disk);
        let end = disk
            .octets(&Path::new(ROOT).join(segment(1)))
            .unwrap()
            .len();
        // The last record of a batch of its own, cut in the middle of a sector. Nothing of it is in the
        // copy before it is durable.
        disk.resize(&Path::new(ROOT).join(segment(1)), end as u64 - 9);
        disk.resize(&Path::new(COPY).join(segment(1)), 2 * end as u64 / 3);
        let store = open(&disk, 1 << 20).await.unwrap();
        assert_eq!(latest(&store).await, "{\"number\":1}");
        assert_eq!(store.vector().of(&store.origin()), 2);
        push(&store, 7..8).await.unwrap();
        store.close().await;
        drop(store);
        let (replayed, records) = read(&disk).unwrap();
        assert_eq!((replayed.n_torn, records.len()), (0, 3));
    });
}

/// A record of a node, small.
fn record(sequence: u64) -> Record {
    Record {
        origin: registry_facts::record::NodeId {
            name: "n".parse().unwrap(),
            incarnation: 1,
        },
        sequence,
        stamp: registry_facts::hlc::Hlc::at(sequence),
        facts: Vec::new(),
    }
}

/// A disk with segments of two records each, each synced alone; all but the last are sealed.
fn segments(n_segments: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(5);
    for directory in ["/store", ROOT] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    for number in 1..=n_segments {
        let mut octets = Vec::new();
        let mut put = |kind, payload: &[u8]| {
            let at = octets.len() as u64;
            frame::put(&mut octets, at, at, kind, payload);
        };
        put(frame::Kind::Record, &record(2 * number - 1).encode());
        put(frame::Kind::Record, &record(2 * number).encode());
        if number < n_segments {
            put(frame::Kind::End, b"");
        }
        let file = disk.create(&Path::new(ROOT).join(segment(number))).unwrap();
        file.write_at(&[octets.into()], 0).unwrap();
    }
    disk
}

#[test]
fn a_flipped_bit_anywhere_in_what_was_synced_is_refused_and_said_where() {
    let (whole, records) = read(&segments(3)).unwrap();
    assert_eq!(records, (1..=6).map(record).collect::<Vec<_>>());
    assert_eq!(
        (whole.end.segment, whole.is_sealed, whole.n_torn),
        (3, false, 0)
    );
    let status = |number| {
        let path = Path::new(ROOT).join(segment(number));
        segments(3).status(&path).unwrap().unwrap()
    };
    for number in 1..=3 {
        // The last batch cannot be told from one that was being written.
        let n_synced = if number == 3 {
            status(3).size / 2
        } else {
            status(number).size
        };
        for octet in 0..n_synced {
            let disk = segments(3);
            disk.damage(
                &Path::new(ROOT).join(segment(number)),
                8 * octet + octet % 8,
            );
            let error = read(&disk).map(drop).unwrap_err().to_string();
            assert!(error.contains(&segment(number)), "octet {octet}: {error}");
        }
    }
}

#[test]
fn a_segment_cut_short_or_missing_is_refused() {
    for number in 1..=2 {
        let path = Path::new(ROOT).join(segment(number));
        let size = segments(3).status(&path).unwrap().unwrap().size;
        for length in 0..size {
            let disk = segments(3);
            let file = disk.open(&path, crate::disk::Access::Write).unwrap();
            file.truncate(length).unwrap();
            let error = read(&disk).map(drop).unwrap_err().to_string();
            assert!(error.contains(&segment(number)), "{length}: {error}");
        }
        let disk = segments(3);
        disk.remove(&path).unwrap();
        let error = read(&disk).map(drop).unwrap_err().to_string();
        assert!(error.contains("it is missing"), "{error}");
    }
    let disk = segments(3);
    disk.create(&Path::new(ROOT).join(snapshot(7))).unwrap();
    let error = read(&disk).map(drop).unwrap_err().to_string();
    assert!(error.contains(&segment(7)), "{error}");
}

#[test]
fn the_last_segment_may_end_anywhere_in_its_last_batch() {
    let path = Path::new(ROOT).join(segment(3));
    let size = segments(3).status(&path).unwrap().unwrap().size;
    for length in 0..=size {
        let disk = segments(3);
        let file = disk.open(&path, crate::disk::Access::Write).unwrap();
        file.truncate(length).unwrap();
        let (replayed, records) = read(&disk).unwrap();
        let n_whole = 2 * length / size;
        assert_eq!(records.len() as u64, 4 + n_whole, "{length}");
        assert_eq!(replayed.n_torn, length - n_whole * size / 2);
    }
}

#[test]
fn a_journal_that_ends_before_its_snapshot_has_lost_its_end() {
    let of = |sequence: u64, facts| Record {
        facts,
        ..record(sequence)
    };
    let tag = |sequence| {
        let fact = Fact::Tag {
            repository: repository(),
            tag: "latest".parse().unwrap(),
            target: None,
        };
        of(sequence, vec![fact])
    };
    // The snapshot stands for two records, and was made when a third one had been stated.
    for (last, is_whole) in [(3, true), (2, false)] {
        let disk = segments(2);
        let mut octets = Vec::new();
        let mut put = |kind, payload: &[u8]| {
            let at = octets.len() as u64;
            frame::put(&mut octets, at, 0, kind, payload);
        };
        put(frame::Kind::Record, &record(2).encode());
        put(frame::Kind::Record, &tag(3).encode());
        put(frame::Kind::End, b"");
        let file = disk.create(&Path::new(ROOT).join(snapshot(2))).unwrap();
        file.write_at(&[octets.into()], 0).unwrap();
        let path = Path::new(ROOT).join(segment(2));
        if last == 2 {
            let file = disk.open(&path, crate::disk::Access::Write).unwrap();
            file.truncate(0).unwrap();
        }
        let read = read(&disk);
        assert_eq!(read.is_ok(), is_whole, "{read:?}");
        if let Err(error) = read {
            assert!(error.to_string().contains("its end is lost"), "{error}");
        }
    }
}

#[test]
fn a_successor_that_was_never_used_does_not_count() {
    let disk = segments(2);
    let path = Path::new(ROOT).join(segment(3));
    disk.create(&path).unwrap();
    let (replayed, records) = read(&disk).unwrap();
    assert_eq!((records.len(), replayed.end.segment), (4, 2));
    assert_eq!(replayed.files.stale, [segment(3)]);
}

#[test]
fn a_journal_of_an_earlier_version_lifts_no_stamp() {
    run(async {
        // Each stamp of a node was greater than all that it had seen.
        let disk = segments(3);
        let store = open(&disk, 1 << 20).await.unwrap();
        assert_eq!(store.vector().of(&record(1).origin), 6);
        push(&store, 0..1).await.unwrap();
        let ahead = registry_facts::hlc::Hlc::at(u64::MAX);
        let foreign = Record {
            sequence: 7,
            stamp: ahead,
            ..record(7)
        };
        store.apply(vec![foreign]).await.unwrap();
        push(&store, 1..2).await.unwrap();
        for register in store.registers(None, 9).unwrap() {
            assert!(!store.is_far_ahead(register.stamp), "{register:?}");
        }
        assert_eq!(latest(&store).await, "{\"number\":1}");
    });
}

/// The registers that are shown.
fn shown(store: &Store) -> Vec<Stamped> {
    let mut registers = store.registers(None, 9999).unwrap();
    registers.retain(|register| !register.fact.is_tombstone());
    registers
        .iter_mut()
        .for_each(|register| register.sequence = 0);
    registers
}

/// Does one thing by chance to a file of the journal, in each of some directories.
fn damage(disk: &FaultyDisk, directories: &[&str], chance: &mut Chance) {
    let mut names = names(disk);
    // A kill may have come between the two.
    names.retain(|name| {
        directories
            .iter()
            .all(|it| disk.has(&Path::new(it).join(name)))
    });
    let at = usize::try_from(chance.below(names.len() as u64)).unwrap();
    let cause = chance.clone();
    for directory in directories {
        *chance = cause.clone();
        let path = Path::new(directory).join(&names[at]);
        let size = disk.status(&path).unwrap().unwrap().size;
        match chance.below(4) {
            0 => disk.lose(&path),
            1 => disk.resize(&path, chance.below(size.max(1))),
            _ if size > 0 => {
                for _ in 0..=chance.below(3) {
                    disk.damage(&path, chance.below(8 * size));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn two_hundred_journals_with_one_damaged_copy_lose_nothing() {
    run(async {
        let mut n_put_back = 0;
        for seed in 0..200 {
            let mut chance = Chance::new(seed);
            let disk = FaultyDisk::new(seed);
            let store = open(&disk, 1500).await.unwrap();
            push(&store, 0..20).await.unwrap();
            let (expected, origin, vector) = (shown(&store), store.origin(), store.vector());
            if chance.permille(500) {
                store.close().await;
            }
            drop(store);
            let disk = kill(&disk);
            let is_of_copy = chance.permille(300);
            let directory = if is_of_copy { COPY } else { ROOT };
            let names = names(&disk);
            let is_copied = |name: &&String| {
                let octets = |it: &str| disk.octets(&Path::new(it).join(name));
                octets(ROOT) == octets(COPY)
            };
            // Its thread may have been killed before the copy of a snapshot was made.
            if !names.iter().all(|name| is_copied(&name)) {
                continue;
            }
            damage(&disk, &[directory], &mut chance);
            let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
            settings.index = IndexKind::Memory;
            settings.segment = 1500;
            let opened = Store::open(settings, Arc::new(disk.clone())).await;
            let (store, recovery) = opened.unwrap_or_else(|error| panic!("{error}: seed {seed}"));
            assert_eq!(recovery.damaged_journal, None, "seed {seed}");
            n_put_back += u64::from(recovery.n_put_back > 0);
            assert!(!is_of_copy || recovery.n_put_back == 0, "seed {seed}");
            assert_eq!(
                (shown(&store), store.origin(), store.vector()),
                (expected, origin, vector),
                "seed {seed}"
            );
            assert!(store.is_journal_copied());
            push(&store, 90..91).await.unwrap();
            store.close().await;
            drop(store);
            let disk = kill(&disk);
            for path in disk.names() {
                if let Ok(name) = path.strip_prefix(ROOT) {
                    let copied = disk.octets(&Path::new(COPY).join(name));
                    let is_new = name.extension().is_some_and(|it| it == "snapshot");
                    assert!(is_new || copied == disk.octets(&path), "seed {seed}");
                }
            }
            let store = open(&disk, 1500).await.unwrap();
            assert_eq!(latest(&store).await, "{\"number\":90}", "seed {seed}");
        }
        assert!(n_put_back > 60, "{n_put_back}");
    });
}

#[test]
fn the_directory_of_the_journal_may_be_lost() {
    run(async {
        let disk = FaultyDisk::new(3);
        let store = open(&disk, 900).await.unwrap();
        push(&store, 0..9).await.unwrap();
        let expected = (shown(&store), store.origin());
        store.close().await;
        drop(store);
        let disk = kill(&disk);
        for name in names(&disk) {
            disk.lose(&Path::new(ROOT).join(name));
        }
        let store = open(&disk, 900).await.unwrap();
        assert_eq!((shown(&store), store.origin()), expected);
    });
}

#[test]
fn the_copy_of_another_journal_puts_nothing_back() {
    run(async {
        let (disk, other) = (FaultyDisk::new(3), FaultyDisk::new(4));
        for (disk, numbers) in [(&disk, 0..3), (&other, 5..9)] {
            let store = open(disk, 1 << 20).await.unwrap();
            push(&store, numbers).await.unwrap();
            store.close().await;
        }
        let disk = kill(&disk);
        let path = Path::new(COPY).join(segment(1));
        let octets = kill(&other).octets(&Path::new(ROOT).join(segment(1)));
        let file = disk.open(&path, crate::disk::Access::Write).unwrap();
        file.write_at(&[octets.unwrap().into()], 0).unwrap();
        let store = open(&disk, 1 << 20).await.unwrap();
        assert_eq!(latest(&store).await, "{\"number\":2}");
        let journal = disk.octets(&Path::new(ROOT).join(segment(1)));
        assert_eq!(disk.octets(&path), journal);
    });
}

#[test]
fn the_second_copy_costs_a_push_no_sync() {
    run(async {
        let disk = FaultyDisk::new(3);
        let store = open(&disk, 1 << 20).await.unwrap();
        push(&store, 0..1).await.unwrap();
        let size = || {
            let octets = |it: &str| disk.octets(&Path::new(it).join(segment(1)));
            (octets(ROOT).unwrap().len(), octets(COPY).unwrap().len())
        };
        let (n_syncs, (journal, copy)) = (disk.n_syncs(), size());
        push(&store, 1..2).await.unwrap();
        let (more, more_copied) = (size().0 - journal, size().1 - copy);
        // The file of the manifest, its directory, and the journal.
        assert_eq!(disk.n_syncs() - n_syncs, 3);
        assert!(more > 0 && more == more_copied, "{more} {more_copied}");
    });
}

#[test]
fn a_copy_that_cannot_be_made_stops_nothing() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("journal-copy"), "in the way").unwrap();
        for number in 0..2 {
            let root = scratch.path().to_owned();
            let settings = Settings::new(root, "master-0".parse().unwrap());
            let disk = Arc::new(crate::disk::RealDisk);
            let (store, _) = Store::open(settings, disk).await.unwrap();
            assert!(!store.is_journal_copied());
            push(&store, number..number + 1).await.unwrap();
            store.close().await;
        }
    });
}

#[test]
fn two_hundred_damaged_journals_are_opened_and_filled_again_by_another_node() {
    run(async {
        let (mut n_salvaged, mut n_partly) = (0, 0);
        for seed in 0..200 {
            let mut chance = Chance::new(seed);
            let disk = FaultyDisk::new(seed);
            let store = open(&disk, 1500).await.unwrap();
            push(&store, 0..20).await.unwrap();
            let expected = shown(&store);
            let origin = store.origin();
            // Another node has all of it.
            let other = open(&FaultyDisk::new(1000 + seed), 1 << 20).await.unwrap();
            follow(&store, &other, &expected).await;
            if chance.permille(500) {
                store.close().await;
            }
            drop(store);
            let disk = kill(&disk);
            damage(&disk, &[ROOT, COPY], &mut chance);
            let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
            settings.index = IndexKind::Memory;
            settings.segment = 1500;
            let opened = Store::open(settings, Arc::new(disk.clone())).await;
            let (store, recovery) = opened.unwrap_or_else(|error| panic!("{error}: seed {seed}"));
            if let Some((_, salvaged)) = &recovery.damaged_journal {
                n_salvaged += 1;
                n_partly += u64::from(salvaged.n_records > 0);
                assert_ne!(store.origin(), origin, "seed {seed}");
                assert!(store.has_damaged_journal().await.unwrap(), "seed {seed}");
                assert_eq!(store.vector(), Vector::default(), "seed {seed}");
            }
            // Nothing is shown that was never so.
            for register in shown(&store) {
                let key = register.fact.key();
                let now = expected.iter().find(|one| one.fact.key() == key);
                let now = now.unwrap_or_else(|| panic!("{register:?}: seed {seed}"));
                assert!(register.rank() <= now.rank(), "seed {seed}");
                if register.rank() == now.rank() {
                    assert_eq!(register.fact, now.fact, "seed {seed}");
                }
            }
            // The other node brings back what is lost, the end of the journal too.
            let (own, there) = (store.origin(), other.vector());
            let other_name = "master-1".parse().unwrap();
            store
                .heard(other_name, own.clone(), there.of(&own))
                .await
                .unwrap();
            follow(&other, &store, &expected).await;
            // What is stated then is there after the next start.
            push(&store, 90..91).await.unwrap();
            store.close().await;
            drop(store);
            let store = open(&kill(&disk), 1500).await.unwrap();
            assert_eq!(latest(&store).await, "{\"number\":90}", "seed {seed}");
        }
        assert!(n_salvaged > 50 && n_partly > 40, "{n_salvaged} {n_partly}");
    });
}

/// Brings the records of a store to another one, until that shows the same.
async fn follow(from: &Store, to: &Store, expected: &[Stamped]) {
    let mut feed = from.feed(to.vector());
    while shown(to) != expected {
        let next = tokio_stream::StreamExt::next(&mut feed);
        let next = tokio::time::timeout(std::time::Duration::from_secs(60), next).await;
        let Ok(record) = next else {
            panic!(
                "no more records come: of {:?} it has {:?}, and is {:?}; shown {:?}, expected {expected:?}",
                from.vector(),
                to.vector(),
                to.origin(),
                shown(to)
            );
        };
        let record = record.unwrap();
        if record.origin != to.origin() {
            to.apply(vec![record]).await.unwrap();
        }
    }
}

#[test]
fn a_journal_that_is_gone_is_begun_anew_and_the_content_stays() {
    run(async {
        let disk = FaultyDisk::new(9);
        let store = open(&disk, 1 << 20).await.unwrap();
        push(&store, 0..2).await.unwrap();
        let origin = store.origin();
        store.close().await;
        drop(store);
        let disk = kill(&disk);
        for directory in [ROOT, COPY] {
            disk.damage(&Path::new(directory).join(segment(1)), 80);
        }
        disk.damage(Path::new("/store/node-id"), 7);
        let n_blobs = disk
            .names()
            .iter()
            .filter(|it| it.starts_with("/store/blobs"))
            .count();
        let store = open(&disk, 1 << 20).await.unwrap();
        assert_ne!(store.origin(), origin);
        // The record behind the damaged one.
        assert_eq!(latest(&store).await, "{\"number\":1}");
        let blobs = disk.names();
        let blobs = blobs.iter().filter(|it| it.starts_with("/store/blobs"));
        assert_eq!(blobs.count(), n_blobs);
        // Alone, nothing without a name is swept before somebody has looked.
        let settings = crate::sweep::Settings::default();
        let report = crate::sweep::sweep(&store, None, &settings, crate::sweep::Mode::Sweep);
        let report = report.await.unwrap();
        assert!(report.is_held && report.to_string().contains("the journal was damaged"));
    });
}

#[test]
fn a_whole_record_of_a_newer_version_is_no_damage() {
    run(async {
        let disk = FaultyDisk::new(10);
        let store = open(&disk, 1 << 20).await.unwrap();
        push(&store, 0..1).await.unwrap();
        drop(store);
        let disk = kill(&disk);
        let path = Path::new(ROOT).join(segment(1));
        let end = disk.status(&path).unwrap().unwrap().size;
        let mut octets = Vec::new();
        // A record with a field of an unknown kind of fact.
        let mut newer = record(1).encode();
        newer.extend_from_slice(&[0x22, 0]);
        frame::put(&mut octets, end, end, frame::Kind::Record, &newer);
        let file = disk.open(&path, crate::disk::Access::Write).unwrap();
        file.write_at(&[octets.into()], end).unwrap();
        match open(&disk, 1 << 20).await {
            Err(StoreError::Damaged(text)) => {
                assert!(text.contains("start the version"), "{text}");
                assert!(!text.contains(ROOT), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(names(&disk), [segment(1)]);
    });
}

#[test]
fn a_write_that_fails_is_taken_back_and_the_next_one_goes_on() {
    run(async {
        let disk = FaultyDisk::new(6);
        let store = open(&disk, 1 << 20).await.unwrap();
        push(&store, 0..1).await.unwrap();
        let full = Faults {
            full: 1000,
            ..Faults::default()
        };
        disk.set_faults(full);
        let link = store
            .delete_tag(&repository(), &"latest".parse().unwrap())
            .await;
        assert!(matches!(link, Err(StoreError::Full)), "{link:?}");
        disk.set_faults(Faults::default());
        assert_eq!(latest(&store).await, "{\"number\":0}");
        push(&store, 1..2).await.unwrap();
        assert_eq!(store.vector().of(&store.origin()), 2);
        drop(store);
        let store = open(&kill(&disk), 1 << 20).await.unwrap();
        assert_eq!(latest(&store).await, "{\"number\":1}");
        assert_eq!(store.vector().of(&store.origin()), 2);
    });
}

#[test]
fn after_a_sync_that_failed_nothing_is_written_until_a_restart() {
    run(async {
        let disk = FaultyDisk::new(7);
        let store = open(&disk, 1 << 20).await.unwrap();
        push(&store, 0..1).await.unwrap();
        disk.set_faults(Faults {
            unsynced: 1000,
            ..Faults::default()
        });
        let tag: Tag = "latest".parse().unwrap();
        let refused = store.delete_tag(&repository(), &tag).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
        disk.set_faults(Faults::default());
        let refused = store.delete_tag(&repository(), &tag).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
        assert_eq!(latest(&store).await, "{\"number\":0}", "reads go on");
        drop(store);
        let disk = disk.next_life(End::PowerLoss, Faults::default());
        let store = open(&disk, 1 << 20).await.unwrap();
        assert_eq!(latest(&store).await, "{\"number\":0}");
        store.delete_tag(&repository(), &tag).await.unwrap();
    });
}

async fn push_blob(store: &Store, digest: &Digest) -> Result<(), StoreError> {
    let body = tokio_stream::iter([Ok(bytes::Bytes::from_static(b"blob"))]);
    let pushed = store.push(&repository(), digest, None, body).await;
    pushed.map(drop)
}

#[test]
fn nothing_is_acknowledged_that_relies_on_a_refusal_in_doubt() {
    run(async {
        let disk = FaultyDisk::new(9);
        let store = open(&disk, 1 << 20).await.unwrap();
        let digest = Digest::of(Algorithm::Sha256, b"blob");
        push_blob(&store, &digest).await.unwrap();
        disk.set_faults(Faults {
            unsynced: 1000,
            ..Faults::default()
        });
        let refused = store.unlink(&repository(), &digest).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
        disk.set_faults(Faults::default());
        // It stands as far as this process knows, and will not when the next one reads the journal.
        assert_eq!(store.blob(&repository(), &digest).await.unwrap(), Some(4));
        let refused = push_blob(&store, &digest).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
        drop(store);
        let store = open(&kill(&disk), 1 << 20).await.unwrap();
        assert_eq!(store.blob(&repository(), &digest).await.unwrap(), None);
    });
}

#[test]
fn what_was_refused_for_want_of_room_does_not_come_back_with_a_loss_of_power() {
    run(async {
        let digest = Digest::of(Algorithm::Sha256, b"blob");
        for seed in 0..16 {
            let disk = FaultyDisk::new(seed);
            let store = open(&disk, 1 << 20).await.unwrap();
            push_blob(&store, &digest).await.unwrap();
            disk.set_faults(Faults {
                full: 1000,
                ..Faults::default()
            });
            let refused = store.unlink(&repository(), &digest).await;
            assert!(matches!(refused, Err(StoreError::Full)), "{refused:?}");
            // Perhaps all of it was written before it failed.
            assert!(disk.is_durable(&Path::new(ROOT).join(segment(1))));
            disk.set_faults(Faults::default());
            push_blob(&store, &digest).await.unwrap();
            drop(store);
            let disk = disk.next_life(End::PowerLoss, Faults::default());
            let store = open(&disk, 1 << 20).await.unwrap();
            let size = store.blob(&repository(), &digest).await.unwrap();
            assert_eq!(size, Some(4), "seed {seed}");
        }
    });
}

#[test]
fn a_seal_that_failed_to_sync_is_written_again_before_anything_follows_it() {
    run(async {
        let tag: Tag = "latest".parse().unwrap();
        for seed in 0..32 {
            // Every batch wants a segment of its own.
            let disk = FaultyDisk::new(seed);
            let store = open(&disk, 1).await.unwrap();
            push(&store, 0..3).await.unwrap();
            disk.set_faults(Faults {
                unsynced: 1000,
                ..Faults::default()
            });
            let refused = store.delete_tag(&repository(), &tag).await;
            assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
            drop(store);
            // The seal is still to be read, and only a loss of power will show that it is not there.
            let disk = kill(&disk);
            let store = open(&disk, 1).await.unwrap();
            push(&store, 3..5).await.unwrap();
            drop(store);
            let disk = disk.next_life(End::PowerLoss, Faults::default());
            let store = open(&disk, 1).await.unwrap();
            assert_eq!(latest(&store).await, "{\"number\":4}", "seed {seed}");
        }
    });
}

#[test]
fn a_successor_that_is_left_over_does_not_keep_the_journal_from_going_on_to_the_next() {
    run(async {
        let disk = FaultyDisk::new(8);
        let store = open(&disk, 1).await.unwrap();
        push(&store, 0..1).await.unwrap();
        disk.create(&Path::new(ROOT).join(segment(2))).unwrap();
        push(&store, 1..3).await.unwrap();
        store.close().await;
        // What compacts it is dead.
        let disk = kill(&disk);
        assert_eq!(read(&disk).unwrap().0.end.segment, 3);
    });
}
