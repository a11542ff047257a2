use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use registry_archive::testing::Scratch;

use super::*;

fn member(name: &str, body: &[u8]) -> Vec<u8> {
    let size = body.len() as u64;
    [&tar::header(name, size), body, tar::padding(size)].concat()
}

fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

fn body(archive: &Archive, name: &str) -> io::Result<Vec<u8>> {
    archive.read(name, 1 << 30)
}

#[test]
fn the_same_is_read_from_a_directory_and_from_archives() {
    let scratch = Scratch::new();
    // Too large to be kept, so that compressed ones are unpacked again.
    let large = vec![7; usize::try_from(KEPT_FILE).unwrap() + 1];
    let files: [(&str, &[u8]); 4] = [
        ("d/first", &large),
        ("d/second", b"two"),
        ("d/third", &large[1..]),
        ("d/fourth", &large),
    ];
    let mut octets = Vec::new();
    for (name, body) in files {
        scratch.write(&format!("tree/{name}"), body);
        octets.extend(member(name, body));
    }
    octets.extend(tar::end());
    std::os::unix::fs::symlink("second", scratch.path("tree/d/link")).unwrap();
    scratch.write("one.tar", &octets);
    scratch.write("packed.tar.gz", &gzip(&octets));
    let half = member("d/first", &large).len();
    scratch.write("mirror/mirror_000001.tar", &octets[..half]);
    scratch.write("mirror/mirror_000002.tar", &octets[half..]);
    scratch.write("mirror/notes.txt", b"");
    for path in ["tree", "one.tar", "packed.tar.gz", "mirror"] {
        let archive = Archive::open(&[scratch.path(path)]).unwrap();
        assert!(
            archive.problems.is_empty(),
            "{path}: {:?}",
            archive.problems
        );
        assert_eq!(archive.is_sequential(), path == "packed.tar.gz");
        // In any order, and twice.
        for name in ["d/fourth", "d/first", "d/second", "d/third", "d/first"] {
            let expected = files.iter().find(|(file, _)| *file == name).unwrap().1;
            assert_eq!(body(&archive, name).unwrap(), expected, "{path} {name}");
        }
        assert!(body(&archive, "d/fifth").is_err());
    }
    let tree = Archive::open(&[scratch.path("tree")]).unwrap();
    assert_eq!(body(&tree, "d/link").unwrap(), b"two");
    assert_eq!(tree.title(), "tree");
    let packed = Archive::open(&[scratch.path("packed.tar.gz")]).unwrap();
    assert_eq!(packed.title(), "packed");
    assert!(packed.order("d/first") < packed.order("d/second"));
}

#[test]
fn what_breaks_off_is_read_as_far_as_it_goes() {
    let scratch = Scratch::new();
    let octets = [member("a", b"one"), member("b", &[1; 2000])].concat();
    let cut = &octets[..octets.len() - 1000];
    scratch.write("cut.tar", cut);
    scratch.write("cut.tar.gz", &gzip(cut));
    for name in ["cut.tar", "cut.tar.gz"] {
        let archive = Archive::open(&[scratch.path(name)]).unwrap();
        assert_eq!(archive.problems.count(), 1, "{name}");
        assert_eq!(body(&archive, "a").unwrap(), b"one");
        assert!(body(&archive, "b").is_err(), "{name}");
    }
}

#[test]
fn what_leads_outside_is_not_followed() {
    let scratch = Scratch::new();
    scratch.write("secret", b"secret");
    scratch.write("tree/plain", b"plain");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, scratch.path(name)).unwrap();
    };
    link("../secret", "tree/up");
    link("/etc/hostname", "tree/absolute");
    link("plain", "tree/inside");
    let archive = Archive::open(&[scratch.path("tree")]).unwrap();
    assert_eq!(archive.problems.count(), 2);
    assert!(body(&archive, "up").is_err());
    assert!(body(&archive, "absolute").is_err());
    assert_eq!(body(&archive, "inside").unwrap(), b"plain");
    // Put there after the directory was gone through.
    fs::remove_file(scratch.path("tree/plain")).unwrap();
    link("../secret", "tree/plain");
    assert!(body(&archive, "plain").is_err());
}

#[test]
fn what_is_no_archive_is_told() {
    let scratch = Scratch::new();
    scratch.write("notes.txt", &[b'x'; 700]);
    scratch.write("a.tar", &member("a", b"one"));
    let open = |names: &[&str]| {
        let paths: Vec<PathBuf> = names.iter().map(|name| scratch.path(name)).collect();
        Archive::open(&paths)
    };
    assert!(matches!(
        open(&["notes.txt"]),
        Err(ArchiveError::NoArchive { .. })
    ));
    assert!(matches!(open(&["gone"]), Err(ArchiveError::Read { .. })));
    assert!(matches!(open(&["", "a.tar"]), Err(ArchiveError::Several)));
    assert!(matches!(open(&[]), Err(ArchiveError::Several)));
    assert_eq!(open(&["a.tar", "a.tar"]).unwrap().entries.len(), 1);
}
