use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{getxattr, setxattr};
use tempfile::TempDir;

use super::*;

fn place(content: &str) -> (TempDir, HostsFile) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hosts");
    fs::write(&path, content).unwrap();
    (directory, HostsFile::new(path))
}

fn text(file: &HostsFile) -> String {
    fs::read_to_string(file.path()).unwrap()
}

fn names(directory: &TempDir) -> usize {
    fs::read_dir(directory.path()).unwrap().count()
}

#[test]
fn a_file_is_replaced_with_its_mode_owner_and_attributes() {
    let (directory, file) = place("old");
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(file.path(), Some(12), Some(34)).unwrap();
    }
    let has_attribute = setxattr(file.path(), "user.label", b"etc_t", XattrFlags::empty()).is_ok();
    let before = file.read().unwrap();
    assert_eq!(before.bytes, b"old");
    assert_eq!(
        HostsFile::write(&before, b"new").unwrap(),
        WriteMethod::Replaced
    );
    let metadata = fs::metadata(file.path()).unwrap();
    assert_eq!(
        (text(&file).as_str(), metadata.mode() & 0o7777),
        ("new", 0o640)
    );
    if is_root {
        assert_eq!((metadata.uid(), metadata.gid()), (12, 34));
    }
    if has_attribute {
        let mut value = [0; 16];
        let length = getxattr(file.path(), "user.label", &mut value).unwrap();
        assert_eq!(&value[..length], b"etc_t");
    }
    assert_ne!(before.identity.unwrap().inode, metadata.ino());
    assert_eq!(names(&directory), 1, "nothing is left beside it");
}

#[test]
fn a_file_that_is_not_there_is_made_for_everybody_to_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = HostsFile::new(directory.path().join("hosts"));
    let before = file.read().unwrap();
    assert!(before.bytes.is_empty());
    HostsFile::write(&before, b"new").unwrap();
    let mode = fs::metadata(file.path()).unwrap().mode() & 0o7777;
    assert_eq!((text(&file).as_str(), mode), ("new", 0o644));
}

#[test]
fn a_link_stays_and_its_file_is_replaced() {
    let (directory, file) = place("old");
    let link = HostsFile::new(directory.path().join("link"));
    std::os::unix::fs::symlink("hosts", link.path()).unwrap();
    HostsFile::write(&link.read().unwrap(), b"new").unwrap();
    assert_eq!(text(&file), "new");
    assert!(fs::symlink_metadata(link.path()).unwrap().is_symlink());
}

#[test]
fn what_others_have_written_meanwhile_is_not_lost() {
    for rival in [
        (|path| fs::write(path, "rival").unwrap()) as fn(&Path),
        |path| {
            let new = path.with_file_name("new");
            fs::write(&new, "rival").unwrap();
            fs::rename(new, path).unwrap();
        },
    ] {
        let (directory, file) = place("older");
        let before = file.read().unwrap();
        rival(file.path());
        let written = HostsFile::write(&before, b"mine");
        assert!(matches!(written, Err(WriteError::Changed)), "{written:?}");
        assert!(matches!(
            overwrite(&before, b"mine"),
            Err(WriteError::Changed)
        ));
        assert_eq!((text(&file).as_str(), names(&directory)), ("rival", 1));
    }
    // It is gone, or has come.
    let (_directory, file) = place("old");
    let before = file.read().unwrap();
    fs::remove_file(file.path()).unwrap();
    assert!(HostsFile::write(&before, b"mine").is_err());
    let before = file.read().unwrap();
    fs::write(file.path(), "rival").unwrap();
    assert!(matches!(
        HostsFile::write(&before, b"mine"),
        Err(WriteError::Changed)
    ));
    assert_eq!(text(&file), "rival");
}

#[test]
fn the_leftover_of_a_killed_process_is_used_again_and_that_of_a_living_one_is_not() {
    let (directory, file) = place("old");
    let leftover = directory.path().join(".hosts.outpost-new");
    fs::write(&leftover, "much longer than what is to be written").unwrap();
    HostsFile::write(&file.read().unwrap(), b"new").unwrap();
    assert_eq!((text(&file).as_str(), names(&directory)), ("new", 1));
    let held = File::create(&leftover).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let before = file.read().unwrap();
    let written = HostsFile::write(&before, b"newer");
    assert!(matches!(written, Err(WriteError::Changed)), "{written:?}");
    drop(held);
    HostsFile::write(&before, b"newer").unwrap();
    assert_eq!(text(&file), "newer");
    // A link is not followed.
    std::os::unix::fs::symlink(directory.path().join("other"), &leftover).unwrap();
    assert!(HostsFile::write(&file.read().unwrap(), b"x").is_err());
    assert!(!directory.path().join("other").exists());
}

#[test]
fn in_its_place_a_file_gets_longer_and_shorter() {
    let (_directory, file) = place("0123456789");
    let inode = |file: &HostsFile| fs::metadata(file.path()).unwrap().ino();
    let before = inode(&file);
    for content in ["01234567890123456789", "x", "", "y\n"] {
        overwrite(&file.read().unwrap(), content.as_bytes()).unwrap();
        assert_eq!(text(&file), content);
    }
    assert_eq!(inode(&file), before);
}

#[test]
fn something_else_than_a_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = HostsFile::new(directory.path().to_owned());
    assert!(file.read().is_err());
}

/// Says that readers may stop, also when a writer fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Readers see one whole content or another, while two writers replace it.
#[test]
fn readers_never_see_a_part() {
    let (_directory, file) = place("");
    let contents: Vec<String> = (0..4)
        .map(|n| format!("{n}\n").repeat(1 + n * 3_000))
        .collect();
    HostsFile::write(&file.read().unwrap(), contents[0].as_bytes()).unwrap();
    let (is_over, contents) = (AtomicBool::new(false), &contents);
    let n_reads = std::thread::scope(|scope| {
        let over = Over(&is_over);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut n_reads = 0_u32;
                    while !is_over.load(Ordering::Relaxed) {
                        let found = text(&file);
                        assert!(contents.contains(&found), "{} octets", found.len());
                        n_reads += 1;
                    }
                    n_reads
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|offset| {
                let file = &file;
                scope.spawn(move || {
                    for n in 0..100 {
                        let content = contents[(n + offset) % 4].as_bytes();
                        match HostsFile::write(&file.read().unwrap(), content) {
                            Ok(_) | Err(WriteError::Changed) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        drop(over);
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum::<u32>()
    });
    assert!(n_reads > 0);
}
