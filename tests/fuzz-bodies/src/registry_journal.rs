//! Any bytes as a segment of the registry's journal, and as one record of it.

use registry_facts::frame::{self, Found, Kind};
use registry_facts::record::Record;

pub(super) fn body(data: &[u8]) {
    record(data);
    // The content of a frame comes out of it, at its place and at no other.
    let mut framed = Vec::new();
    let place = u64::from(data.first().copied().unwrap_or(0));
    frame::put(&mut framed, place, place, Kind::Record, data);
    match frame::take(&framed, place) {
        Found::Frame(found) => {
            assert_eq!((found.payload, found.batch), (data, place));
            assert_eq!(found.length, framed.len());
        }
        other => panic!("{other:?}"),
    }
    assert!(!matches!(frame::take(&framed, place + 1), Found::Frame(_)));
    segment(data);
}

/// Frames from the beginning; the first that is none ends them.
fn segment(data: &[u8]) {
    let mut at = 0;
    loop {
        let rest = &data[at..];
        match frame::take(rest, at as u64) {
            Found::Frame(found) => {
                assert!((1..=rest.len()).contains(&found.length));
                assert!(found.batch <= at as u64);
                record(found.payload);
                at += found.length;
            }
            Found::More(wanted) => {
                assert!(wanted > rest.len());
                break;
            }
            Found::Nothing => break,
        }
    }
    // The reader reports a torn frame, as damage or not.
    let _: bool = frame::proves_damage(&data[at..], at as u64);
}

/// A record that is one is written as it is read.
fn record(data: &[u8]) {
    if let Ok(record) = Record::decode(data) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
}
