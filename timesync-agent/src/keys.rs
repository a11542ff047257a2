//! Reads the file of keys, at the start and on a reload.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use daemon::disk;

use ntp::key_file;
use ntp::keys::KeyRing;
use time_model::settings::Settings;

/// A shorter secret can be guessed; chronyd warns of it, too.
const SHORTEST: usize = 80;

/// The configured keys. Reports a problem, and uses the rest: a server does not stay down for a key.
pub(crate) fn read(settings: &Settings) -> (KeyRing, Vec<String>) {
    let (ring, mut warnings) = match settings.key_file.as_deref() {
        Some(path) => read_file(path),
        None => (KeyRing::new(), Vec::new()),
    };
    warnings.extend(sources_without(settings, &ring));
    (ring, warnings)
}

/// Sources that are not asked for want of their key, and those whose key is short.
fn sources_without(settings: &Settings, ring: &KeyRing) -> Vec<String> {
    let sources = settings.sources.iter();
    let keyed = sources.filter_map(|source| Some((&source.host, source.options.key?)));
    let odd = keyed.filter_map(|(host, id)| match ring.get(id).map(ntp::keys::Key::bits) {
        None => Some(format!(
            "there is no key {id}: {host} is not asked, since its answers could not be believed"
        )),
        Some(bits) if bits < SHORTEST => Some(format!(
            "key {id} of {host} has {bits} bits, which can be guessed: {SHORTEST} are the least"
        )),
        Some(_) => None,
    });
    odd.collect()
}

fn read_file(path: &Path) -> (KeyRing, Vec<String>) {
    let octets = match disk::read(path) {
        Ok(octets) => octets,
        Err(error) => {
            let warning = format!("cannot read the keys in {}: {error}", path.display());
            return (KeyRing::new(), vec![warning]);
        }
    };
    let (ring, problems) = key_file::parse(&octets, path);
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

    fn settings(text: &str) -> Settings {
        Settings::new(
            &peer_chrony::parse_bytes(text.as_bytes())
                .unwrap()
                .draft
                .config,
        )
    }

    #[test]
    fn what_is_wrong_with_the_file_is_told_and_the_rest_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chrony.keys");
        std::fs::write(&path, "1 good\n2\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        mode(0o640).unwrap();
        let settings = settings(&format!("keyfile {}", path.display()));
        let (ring, warnings) = read(&settings);
        assert_eq!((ring.len(), warnings.len()), (1, 1), "{warnings:?}");
        mode(0o644).unwrap();
        let (_, warnings) = read(&settings);
        assert!(warnings[1].starts_with("everybody may use"), "{warnings:?}");
        std::fs::remove_file(&path).unwrap();
        let (ring, warnings) = read(&settings);
        assert!(
            ring.is_empty() && warnings[0].contains("cannot read"),
            "{warnings:?}"
        );
        assert!(read(&Settings::default()).1.is_empty());
    }

    #[test]
    fn a_source_whose_key_is_missing_or_short_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chrony.keys");
        std::fs::write(&path, "1 0123456789\n2 012345678\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let sources = "server a key 1\nserver b key 2\nserver c key 3\nserver d\n";
        let with_file = format!("keyfile {}\n{sources}", path.display());
        for (text, expected) in [
            (
                &*with_file,
                &[
                    "key 2 of b has 72 bits",
                    "there is no key 3: c is not asked",
                ][..],
            ),
            (
                sources,
                &[
                    "there is no key 1: a",
                    "there is no key 2: b",
                    "there is no key 3: c",
                ],
            ),
        ] {
            let (_, warnings) = read(&settings(text));
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            for (warning, expected) in warnings.iter().zip(expected) {
                assert!(warning.starts_with(expected), "{warnings:?}");
            }
        }
    }
}
