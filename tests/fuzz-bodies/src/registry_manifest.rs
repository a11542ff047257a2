//! Any bytes as a manifest of each type.

use std::collections::BTreeSet;

use oci::digest::{Algorithm, Digest};
use oci::manifest::{
    DOCKER_IMAGE, DOCKER_LIST, OCI_ARTIFACT, OCI_IMAGE, OCI_INDEX, Sparse, descriptors, index_of,
    parse,
};

pub(super) const WORDS: &[&str] = &[
    "\"schemaVersion\":2,",
    "\"mediaType\":",
    "\"config\":",
    "\"layers\":[",
    "\"manifests\":[",
    "\"subject\":",
    "\"annotations\":{",
    "\"artifactType\":",
    "\"digest\":\"sha256:",
    "null",
    "application/vnd.oci.image.manifest.v1+json",
];

pub(super) fn body(data: &[u8]) {
    let types = [
        OCI_IMAGE,
        OCI_INDEX,
        OCI_ARTIFACT,
        DOCKER_IMAGE,
        DOCKER_LIST,
        "a/b",
    ];
    for media_type in types.into_iter().map(Some).chain([None]) {
        let manifest = match parse(data, media_type) {
            Ok(manifest) => manifest,
            Err(error) => {
                assert!(error.to_string().len() < 2 * data.len() + 400, "{error}");
                continue;
            }
        };
        assert!(media_type.is_none_or(|said| said == manifest.media_type));
        // The same as what is stored and read again.
        assert_eq!(
            parse(data, Some(&manifest.media_type)).as_ref(),
            Ok(&manifest)
        );
        let kept: Vec<_> = manifest.closure.kept().collect();
        let distinct: BTreeSet<_> = kept.iter().collect();
        assert_eq!(kept.len(), distinct.len());
        let relaxed = manifest.closure.clone().relaxed(Sparse::All);
        assert_eq!(
            (relaxed.required().count(), relaxed.kept().count()),
            (0, kept.len())
        );
        let shown = manifest.descriptor(Digest::of(Algorithm::Sha256, data), data.len() as u64);
        assert_eq!(
            descriptors(&index_of(std::slice::from_ref(&shown))),
            Ok(vec![shown])
        );
    }
    drop(descriptors(data));
}
