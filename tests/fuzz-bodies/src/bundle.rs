//! Any bytes as a bundle, as its manifest, as a signature and as a key.

use std::io::Cursor;
use std::path::Component;

use site_bundle::manifest::Manifest;
use site_bundle::reader::Bundle;
use site_bundle::signature;

pub(super) const WORDS: &[&str] = &[
    "manifest.json",
    "manifest.json.minisig",
    "{\"version\":\"v1\",\"site\":\"ocp4\",\"domain\":\"x\",\"created\":1,\"made-by\":\"\",\"nodes\":[",
    "\"files\":[{\"path\":\"/etc/x\",\"mode\":420,\"user\":0,\"group\":0,\"member\":\"files/a\"}]",
    "\"members\":{\"files/a\":{\"size\":1,\"sha256\":\"",
    "../",
    "untrusted comment: x\n",
    "\ntrusted comment: x\n",
    "RUQ",
];

pub(super) fn body(data: &[u8]) {
    if let Ok(mut bundle) = Bundle::open(Cursor::new(data)) {
        let members: Vec<String> = bundle.manifest().members.keys().cloned().collect();
        if bundle.check_members(|_, _| {}).is_ok() {
            for member in members {
                bundle.bytes(&member).expect("it was checked");
            }
        }
    }
    if let Ok(manifest) = Manifest::parse(data) {
        for node in &manifest.nodes {
            for file in &node.files {
                let is_plain =
                    |part: Component<'_>| !matches!(part, Component::ParentDir | Component::CurDir);
                assert!(file.path.is_absolute() && file.path.components().all(is_plain));
                assert_eq!(file.mode & !0o777, 0);
            }
        }
        let again = manifest.to_json().expect("what was text is text");
        assert_eq!(
            Manifest::parse(&again).expect("it was read before"),
            manifest
        );
    }
    if let Ok(text) = std::str::from_utf8(data) {
        drop(signature::signer_id(text));
        if let Ok(key) = signature::public_key(text) {
            assert!(signature::verify(&key, text, b"").is_err());
        }
    }
}
