//! Reads the file of keys, at the start and on a reload.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use daemon_base::disk;

use crate::keys::KeyRing;
use crate::keys_file;

/// The keys that there are. What is wrong is told, and the rest is used: a server does not stay down for a key.
pub(crate) fn read(path: Option<&Path>) -> (KeyRing, Vec<String>) {
    let Some(path) = path else {
        return (KeyRing::new(), Vec::new());
    };
    let octets = match disk::read(path) {
        Ok(octets) => octets,
        Err(error) => {
            let warning = format!("cannot read the keys in {}: {error}", path.display());
            return (KeyRing::new(), vec![warning]);
        }
    };
    let (ring, problems) = keys_file::parse(&octets, path);
    let mut warnings: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
    if mode & 0o007 != 0 {
        warnings.push(format!("everybody may use the keys in {}", path.display()));
    }
    (ring, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_file_is_told_and_the_rest_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chrony.keys");
        std::fs::write(&path, "1 good\n2\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        mode(0o640).unwrap();
        let (ring, warnings) = read(Some(&path));
        assert_eq!((ring.len(), warnings.len()), (1, 1), "{warnings:?}");
        mode(0o644).unwrap();
        let (_, warnings) = read(Some(&path));
        assert!(warnings[1].starts_with("everybody may use"), "{warnings:?}");
        std::fs::remove_file(&path).unwrap();
        let (ring, warnings) = read(Some(&path));
        assert!(
            ring.is_empty() && warnings[0].contains("cannot read"),
            "{warnings:?}"
        );
        assert!(read(None).1.is_empty());
    }
}
