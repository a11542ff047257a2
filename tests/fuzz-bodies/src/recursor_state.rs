//! Any bytes as the files that dns-recursor keeps: the cache, the keys of zones, and the forwards of the cluster; as they are, and with a
//! checksum that fits. Content that is read is written, and read again as it was.

use std::time::Duration;

use dns_cache::archive::{self, Archive, Head};
use dns_cache::cache::{Cache, CacheOptions, Capacity};
use dns_cache::instant::Instant;
use dns_cache::key::Seed;
use durable::state::Format;

/// Octets of an entry before its message: variant, pool, age, time left.
const FIELDS: usize = 14;

pub(super) fn body(data: &[u8]) {
    cache(data);
    cache(&entry(data));
    cache(
        &[
            &b"outpost dns cache 1\n"[..],
            &frame(data),
            &archive::end(0),
        ]
        .concat(),
    );
    for octets in [data.to_vec(), with_checksum("anchors", data)] {
        if let Ok(known) = anchor_store::decode(&octets) {
            let again = anchor_store::decode(&anchor_store::encode(&known));
            assert_eq!(again.as_ref(), Ok(&known), "it is read as it was written");
        }
    }
    for octets in [data.to_vec(), with_checksum("cluster", data)] {
        if let Ok(known) = learned_store::decode(&octets) {
            let again = learned_store::decode(&learned_store::encode(&known));
            assert_eq!(again.as_ref(), Ok(&known), "it is read as it was written");
        }
    }
}

fn with_checksum(kind: &'static str, data: &[u8]) -> Vec<u8> {
    let service = match kind {
        "anchors" => "dns-recursor-anchors",
        _ => "dns-recursor-cluster",
    };
    let format = Format {
        service,
        version: 1,
        checksum: crc32c::crc32c,
        max_size: u64::MAX,
    };
    format.encode(data)
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("inputs are short");
    let sum = crc32c::crc32c(payload);
    [&length.to_be_bytes()[..], &sum.to_be_bytes(), payload].concat()
}

/// A file with one entry, of these fields and this message.
fn entry(data: &[u8]) -> Vec<u8> {
    let Some((fields, message)) = data.split_at_checked(FIELDS) else {
        return Vec::new();
    };
    let Ok(length) = u16::try_from(message.len()) else {
        return Vec::new();
    };
    let head = archive::head(&Head {
        written: Duration::ZERO,
        writer: 0,
        zones: Vec::new(),
    });
    let entry = [fields, &length.to_be_bytes(), message].concat();
    [head, frame(&entry), archive::end(1)].concat()
}

fn cache(file: &[u8]) {
    let Ok(archive) = Archive::read(file) else {
        return;
    };
    let capacity = Capacity {
        entries: 1_000,
        octets: 1 << 20,
    };
    let options = CacheOptions {
        positive: capacity,
        negative: capacity,
        stale: Duration::from_secs(3_600),
    };
    let cache = Cache::new(&options, Seed(1));
    let now = Instant::START.after(Duration::from_secs(1_000_000_000));
    let (n_entries, head) = (archive.len(), archive.head.clone());
    let n_restored = archive.restore(&cache, now, Some(Duration::from_secs(1)), |_| true);
    assert!(n_restored <= n_entries, "nothing comes from nowhere");
    let mut again = archive::head(&head);
    let n_parts = cache.n_parts();
    let n_written: u64 = (0..n_parts)
        .map(|part| archive::entries(&cache, part, now, &mut again))
        .sum();
    again.extend(archive::end(n_written));
    let again = Archive::read(&again).expect("it is read as it was written");
    assert_eq!(again.head, head, "the head");
    assert_eq!(u64::try_from(again.len()), Ok(n_written), "the entries");
}
