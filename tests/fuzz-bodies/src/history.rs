//! Any bytes as the history of a zone: what is read of them is written and read again as it was, and every version on the way to the newest
//! is found.

use dns_history::History;
use dns_wire::Name;

pub(super) fn body(data: &[u8]) {
    let zone = Name::parse("example.").expect("a name");
    let Ok(history) = History::decode(data, &zone) else {
        return;
    };
    let again = History::decode(&history.encode(&zone), &zone);
    assert_eq!(again.as_ref(), Ok(&history), "what is written is read");
    for change in history.changes() {
        assert!(change.is_whole(), "the records lead to the next version");
    }
    let Some(newest) = history.newest().map(|version| version.serial()) else {
        return;
    };
    for change in history.changes() {
        let from = change.from.serial();
        let there = history.difference(from, newest).expect("both are kept");
        let back = history.difference(newest, from).expect("both are kept");
        assert_eq!(there, back.reversed(), "the way back");
        if let Some(changes) = history.since(from) {
            let last = changes.last().expect("a way has steps");
            assert_eq!(last.to.serial(), newest, "the way leads to the newest");
        }
    }
}
