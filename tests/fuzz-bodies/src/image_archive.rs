//! Any bytes as an archive of an image, as a program, and as a list of digests.

use std::io::Cursor;

use service_image::{archive, elf, sums::Sums};

pub(super) const WORDS: &[&str] = &[
    "index.json",
    "oci-layout",
    "blobs/sha256/",
    "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:",
    "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[",
    "\"org.opencontainers.image.title\":\"healthd\"",
    "\x7fELF",
    "  healthd.tar\n",
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
];

pub(super) fn body(data: &[u8]) {
    match archive::read(Cursor::new(data)) {
        Ok(image) => {
            assert!(!image.service.is_empty() && !image.service.contains('/'));
            for (path, listed) in &image.files {
                // Two entries of one name are listed as the last and read as the first.
                if let Ok(bytes) = archive::file(Cursor::new(data), &image, path) {
                    assert_eq!(bytes.len() as u64, listed.size);
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = elf::inspect(data) {
        assert!(!error.to_string().is_empty());
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(sums) = Sums::parse(text)
    {
        assert_eq!(Sums::parse(&sums.to_string()), Ok(sums));
    }
}
