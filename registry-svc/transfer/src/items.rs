//! The items to copy: names of an archive mapped to names here, without those that are not
//! selected.

use std::collections::BTreeSet;

use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};
use registry_archive::catalogue::{Catalogue, Problems};
use registry_archive::name::{Naming, Selection};

/// An image that is to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its repository where it comes from; in an archive, that which it is to have.
    pub from: RepositoryName,
    /// Its repository where it goes.
    pub to: RepositoryName,
    /// Its tag there.
    pub tag: Option<Tag>,
    /// Its manifest or index.
    pub digest: Digest,
    /// Its media type, if given.
    pub media_type: Option<String>,
    /// Its name for the report.
    pub entry: String,
}

/// The selected images of an archive. An image that cannot be named is a problem, if it may be
/// selected.
#[must_use]
pub fn of_catalogue(
    catalogue: &Catalogue,
    naming: &Naming,
    selection: &Selection,
    problems: &mut Problems,
) -> Vec<Item> {
    let mut items = Vec::new();
    let mut seen = BTreeSet::new();
    for image in &catalogue.images {
        let tag = naming.tag(&image.name);
        if !selection.wants_tag(tag.as_ref()) {
            continue;
        }
        let repository = match naming.repository(&image.name) {
            Ok(repository) => repository,
            Err(error) => {
                let entry = format!("{} of {}", image.name, image.entry);
                problems.add(entry, error.to_string());
                continue;
            }
        };
        let is_new = seen.insert((repository.clone(), tag.clone(), image.digest));
        if !is_new || !selection.wants_repository(&repository) {
            continue;
        }
        let shown = match &image.name.repository {
            Some(_) => image.name.to_string(),
            None => format!("{} of {}", image.digest, image.entry),
        };
        items.push(Item {
            from: repository.clone(),
            to: repository,
            tag,
            digest: image.digest,
            media_type: image.media_type.clone(),
            entry: shown,
        });
    }
    items
}

#[cfg(test)]
mod tests {
    use oci::digest::{Algorithm, Digest};
    use registry_archive::catalogue::Image;
    use registry_archive::name::ImageName;

    use super::*;

    #[test]
    fn what_is_wanted_is_named_once() {
        let mut catalogue = Catalogue::default();
        for name in ["quay.example.org/a/b:1", "a/b:1", "a/b:2", "c:1", ""] {
            let image = Image {
                name: ImageName::parse(name).unwrap_or_default(),
                digest: Digest::of(Algorithm::Sha256, b"{}"),
                media_type: None,
                entry: "index.json".to_owned(),
            };
            catalogue.add(image).unwrap();
        }
        let selection = Selection {
            repositories: vec!["a/*".to_owned()],
            tags: vec!["1".to_owned()],
        };
        let named = |selection: &Selection| {
            let mut problems = Problems::default();
            let items = of_catalogue(&catalogue, &Naming::default(), selection, &mut problems);
            (items.len(), problems.count())
        };
        assert_eq!(named(&selection), (1, 0));
        assert_eq!(named(&Selection::default()), (3, 1));
    }
}
