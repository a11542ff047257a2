//! Any text as a range, of content of any size.

use oci::range::{Asked, asked, chunk, content_range};
use oci::upload::Part;

pub(super) const WORDS: &[&str] = &["bytes=", "-", "0-0", "18446744073709551615", ",", "bytes "];

pub(super) fn body(data: &[u8]) {
    let Some((size, text)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_le_bytes(*size);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    for size in [0, 1, size >> 32, size] {
        if let Asked::Part(part) = asked(Some(text), size) {
            assert!(
                part.start < part.end && part.end <= size,
                "{part:?} of {size}"
            );
            let shown = content_range(&part, size);
            assert!(shown.ends_with(&size.to_string()), "{shown}");
        }
    }
    if let Some(chunk) = chunk(text) {
        assert!(chunk.length > 0);
        let last = chunk.first.checked_add(chunk.length - 1);
        assert!(last.is_some(), "{chunk:?}");
        let part = Part::of(Some(text), Some(chunk.length)).expect("a chunk is a part");
        assert_eq!(
            (part.at(), part.length()),
            (Some(chunk.first), Some(chunk.length))
        );
    }
}
