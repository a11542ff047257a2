use registry_facts::hlc::Hlc;
use registry_facts::record::NodeId;

use super::*;

fn tag(name: &str, milliseconds: u64, target: Option<&str>) -> Stamped {
    Stamped {
        origin: NodeId {
            name: "a".parse().unwrap(),
            incarnation: 1,
        },
        sequence: milliseconds,
        stamp: Hlc::at(milliseconds),
        fact: Fact::Tag {
            repository: "r".parse().unwrap(),
            tag: name.parse().unwrap(),
            target: target.map(|text| Digest::of(Algorithm::Sha256, text.as_bytes())),
        },
    }
}

fn registers(list: &[Stamped]) -> Registers {
    let keyed = list.iter().map(|one| (one.fact.key(), one.clone()));
    keyed.collect()
}

fn sums(list: &[Stamped]) -> Buckets {
    let mut sums = Buckets::default();
    list.iter().for_each(|one| sums.add_register(one));
    sums
}

#[test]
fn equal_sets_have_equal_sums_in_any_order_and_whatever_is_deleted() {
    let one = [tag("a", 1, Some("x")), tag("b", 2, Some("y"))];
    let other = [
        tag("b", 2, Some("y")),
        tag("gone", 9, None),
        tag("a", 1, Some("x")),
    ];
    assert_eq!(sums(&one), sums(&other));
    assert_eq!(sums(&one).n_counted(), 2);
    assert!(sums(&one).differing(&sums(&other)).is_empty());
}

#[test]
fn any_change_shows_in_the_bucket_of_its_key() {
    let base = [tag("a", 1, Some("x")), tag("b", 2, Some("y"))];
    let changes = [
        tag("a", 1, Some("z")),
        tag("a", 3, Some("x")),
        tag("a", 3, None),
    ];
    for change in changes {
        let bucket = bucket_of(&change.fact.key());
        let other = [change, base[1].clone()];
        assert_eq!(sums(&base).differing(&sums(&other)), [bucket]);
    }
}

#[test]
fn sums_read_back_from_the_wire() {
    let mut sums = sums(&[tag("a", 1, Some("x"))]);
    sums.add_blob(&Digest::of(Algorithm::Sha512, b"x"));
    let wire = sums.to_wire();
    assert_eq!(Buckets::from_wire(&wire), Some(sums));
    assert_eq!(Buckets::from_wire(&wire[1..]), None);
}

#[test]
fn later_statements_are_taken_over_and_earlier_ones_are_not() {
    let here = registers(&[
        tag("equal", 5, Some("x")),
        tag("older-there", 5, Some("x")),
        tag("newer-there", 5, Some("x")),
        tag("deleted-there", 5, Some("x")),
        tag("deleted-here", 5, None),
        tag("only-here", 5, Some("x")),
    ]);
    let there = registers(&[
        tag("equal", 5, Some("x")),
        tag("older-there", 4, Some("y")),
        tag("newer-there", 6, Some("y")),
        tag("deleted-there", 6, None),
        tag("deleted-here", 4, Some("x")),
        tag("only-there", 1, Some("x")),
        tag("deleted-only-there", 1, None),
    ]);
    let taken: Vec<String> = repairs(&here, &there)
        .into_iter()
        .map(|one| match one.fact {
            Fact::Tag { tag, .. } => tag.to_string(),
            _ => String::new(),
        })
        .collect();
    assert_eq!(taken, ["deleted-there", "newer-there", "only-there"]);
}

#[test]
fn what_both_do_not_show_is_no_difference() {
    let here = registers(&[tag("gone", 5, None), tag("a", 1, Some("x"))]);
    let there = registers(&[tag("a", 1, Some("x")), tag("gone-too", 7, None)]);
    assert_eq!(register_differences(&here, &there), []);
    let there = registers(&[tag("a", 2, Some("x"))]);
    assert_eq!(register_differences(&here, &there).len(), 1);
    let one = Digest::of(Algorithm::Sha256, b"1");
    let blobs = blob_differences(&[one].into(), &BTreeSet::new());
    assert_eq!(
        blobs,
        [Difference::Blob {
            digest: one,
            here: true
        }]
    );
}
