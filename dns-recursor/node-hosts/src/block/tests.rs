use random::Random;

use super::entries as block_entries;
use super::*;

fn one(address: &str) -> Entry {
    Entry {
        address: address.parse().unwrap(),
        names: vec!["r.svc".to_owned(), "r.svc.cluster.local".to_owned()],
    }
}

fn text_of(file: &str, entries: &[Entry], node_resolver: NodeResolver) -> String {
    String::from_utf8(replaced(file.as_bytes(), entries, node_resolver)).unwrap()
}

const BLOCK: &str = "# BEGIN outpost-node-resolver\n10.0.0.1 r.svc r.svc.cluster.local\n\
                     # END outpost-node-resolver";

#[test]
fn a_block_is_added_replaced_in_its_place_and_removed() {
    let entries = [one("10.0.0.1")];
    let keep = NodeResolver::Keep;
    for (file, with, without) in [
        ("", format!("{BLOCK}\n"), ""),
        ("a\n", format!("a\n{BLOCK}\n"), "a\n"),
        // No line end at the end: none then either.
        ("a", format!("a\n{BLOCK}"), "a"),
        ("\n\n", format!("\n\n{BLOCK}\n"), "\n\n"),
    ] {
        assert_eq!(text_of(file, &entries, keep), with, "{file:?}");
        assert_eq!(
            text_of(&with, &entries, keep),
            with,
            "{file:?}: the same again"
        );
        assert_eq!(text_of(&with, &[], keep), without, "{file:?}");
    }
    let middle = format!("a\n{BLOCK}\nb");
    let other = text_of(&middle, &[one("10.0.0.2")], keep);
    assert_eq!(other, middle.replace("10.0.0.1", "10.0.0.2"));
    assert_eq!(text_of(&middle, &[], keep), "a\nb");
}

#[test]
fn line_ends_of_windows_stay_and_the_block_has_them_too() {
    let entries = [one("10.0.0.1")];
    let block = BLOCK.replace('\n', "\r\n");
    for (file, with) in [
        ("a\r\nb\r\n", format!("a\r\nb\r\n{block}\r\n")),
        ("a\r\nb", format!("a\r\nb\r\n{block}")),
        // Half a line end at the end.
        ("a\r", format!("a\r\r\n{block}")),
        ("a\nb\r", format!("a\nb\r\n{BLOCK}")),
    ] {
        let found = text_of(file, &entries, NodeResolver::Keep);
        assert_eq!(found, with);
        assert_eq!(text_of(&found, &entries, NodeResolver::Keep), with);
        assert_eq!(text_of(&found, &[], NodeResolver::Keep), file);
    }
}

#[test]
fn the_line_end_of_lines_that_are_replaced_is_not_that_of_the_file() {
    let entries = [one("10.0.0.1")];
    let line = "10.0.0.9 r.svc r.svc.cluster.local # openshift-generated-node-resolver";
    for (file, with) in [
        (format!("{line}\r\na\n"), format!("a\n{BLOCK}\n")),
        (
            format!("{line}\na\r"),
            format!("a\r\r\n{BLOCK}").replace(BLOCK, &BLOCK.replace('\n', "\r\n")),
        ),
        (
            format!("{line}\r\n"),
            format!("{}\r\n", BLOCK.replace('\n', "\r\n")),
        ),
    ] {
        let found = text_of(&file, &entries, NodeResolver::Replace);
        assert_eq!(found, with, "{file:?}");
        assert_eq!(
            text_of(&found, &entries, NodeResolver::Replace),
            with,
            "{file:?}"
        );
    }
}

#[test]
fn there_is_one_block_and_what_is_left_of_others_goes() {
    let entries = [one("10.0.0.1")];
    for (file, with) in [
        (
            format!("{BLOCK}\na\n{BLOCK}\nb\n"),
            format!("{BLOCK}\na\nb\n"),
        ),
        // Its end is lost: only lines of its own names go.
        (
            "# BEGIN outpost-node-resolver\n10.0.0.9 r.svc r.svc.cluster.local\n10.0.0.5 node1\n"
                .to_owned(),
            format!("{BLOCK}\n10.0.0.5 node1\n"),
        ),
        // Its begin is lost.
        (
            "a\n# END outpost-node-resolver\nb\n".to_owned(),
            format!("a\n{BLOCK}\nb\n"),
        ),
        // A begin without an end, and then a whole block.
        (
            format!("# BEGIN outpost-node-resolver\nx\n{BLOCK}\n"),
            format!("{BLOCK}\nx\n"),
        ),
        // Another program has appended, without a line end before it.
        (
            format!("a\n{BLOCK}10.0.0.5 node1\n"),
            format!("a\n{BLOCK}\n# END outpost-node-resolver10.0.0.5 node1\n"),
        ),
    ] {
        assert_eq!(
            text_of(&file, &entries, NodeResolver::Keep),
            with,
            "{file:?}"
        );
    }
}

#[test]
fn lines_of_node_resolver_are_taken_over_when_that_is_asked_for() {
    let own = "10.0.0.8 r.svc r.svc.cluster.local # openshift-generated-node-resolver\n";
    // Its name was glued to the end of another program's line; a name of two words; another comment.
    let others = "10.0.0.5 node110.0.0.8 r.svc r.svc.cluster.local # openshift-generated-node-resolver\n\
                  10.0.0.6 x y # openshift-generated-node-resolver\n\
                  10.0.0.7 r.svc r.svc.cluster.local # not openshift-generated-node-resolver\n\
                  # openshift-generated-node-resolver\n";
    let file = format!("{own}{others}{own}");
    let entries = [one("10.0.0.1")];
    assert_eq!(
        text_of(&file, &entries, NodeResolver::Keep),
        format!("{file}{BLOCK}\n")
    );
    assert_eq!(
        text_of(&file, &entries, NodeResolver::Replace),
        format!("{others}{BLOCK}\n")
    );
    let found = block_entries(file.as_bytes(), NodeResolver::Replace);
    assert_eq!(found, [one("10.0.0.8"), one("10.0.0.8")]);
    assert!(block_entries(file.as_bytes(), NodeResolver::Keep).is_empty());
}

#[test]
fn entries_of_a_former_process_are_read_from_its_block() {
    let file = format!("10.0.0.5 r.svc r.svc.cluster.local\n{BLOCK}\n");
    let found = block_entries(file.as_bytes(), NodeResolver::Keep);
    assert_eq!(found, [one("10.0.0.1")]);
}

#[test]
fn bytes_that_are_no_text_stay() {
    let file = b"\xff\xfe\n\0\n".as_slice();
    let with = replaced(file, &[one("10.0.0.1")], NodeResolver::Keep);
    assert!(with.starts_with(file));
    assert_eq!(replaced(&with, &[], NodeResolver::Keep), file);
}

#[test]
fn the_block_is_bounded_and_large_files_stay() {
    let entries = vec![one("10.0.0.1"); MAX_LINES + 10];
    let file = "10.1.1.1 another\n".repeat(10_000);
    let with = text_of(&file, &entries, NodeResolver::Keep);
    assert!(with.starts_with(&file));
    assert_eq!(with.lines().count(), 10_000 + MAX_LINES + 2);
}

/// Random files of lines that matter: what is not the block's own stays, and to write twice changes nothing more.
#[test]
fn random_files_keep_the_bytes_of_others() {
    let pieces = [
        BEGIN,
        END,
        "\n",
        "\r\n",
        "a",
        "10.0.0.5 node1",
        "10.0.0.9 r.svc r.svc.cluster.local",
        "10.0.0.8 r.svc r.svc.cluster.local # openshift-generated-node-resolver",
        " ",
        "#",
    ];
    for seed in 0..2_000_u128 {
        let mut random = Random::new(seed.to_be_bytes());
        let mut pick = |n: usize| usize::try_from(random.bits()).unwrap_or(0) % n;
        let n_pieces = pick(12);
        let file: String = (0..n_pieces).map(|_| pieces[pick(pieces.len())]).collect();
        let entries = vec![one("10.0.0.1"); pick(3)];
        let with = text_of(&file, &entries, NodeResolver::Keep);
        let again = text_of(&with, &entries, NodeResolver::Keep);
        assert_eq!(with, again, "seed {seed}: {file:?}");
        let n_blocks = with.lines().filter(|line| line.trim_end() == BEGIN).count();
        assert_eq!(
            n_blocks,
            usize::from(!entries.is_empty()),
            "seed {seed}: {file:?}"
        );
        if !file.contains("outpost-node-resolver") {
            assert!(with.starts_with(&file), "seed {seed}: {file:?}");
            let without = text_of(&with, &[], NodeResolver::Keep);
            assert_eq!(without, file, "seed {seed}");
        }
    }
}
