//! Manifests of every kind, and what is none.

use serde_json::{Value, json};

use super::*;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

fn hex(digit: char) -> String {
    format!("sha256:{}", String::from(digit).repeat(64))
}

fn digest(digit: char) -> Digest {
    hex(digit).parse().unwrap()
}

fn described(media_type: &str, digit: char) -> Value {
    json!({ "mediaType": media_type, "digest": hex(digit), "size": 7 })
}

fn image() -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": OCI_IMAGE,
        "config": described(CONFIG, 'a'),
        "layers": [described(LAYER, 'b'), described(LAYER, 'c'), described(LAYER, 'b')],
    })
}

fn index() -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [described(OCI_IMAGE, 'd'), described(OCI_IMAGE, 'e')],
    })
}

fn read(document: &Value, content_type: Option<&str>) -> Result<Manifest, ManifestError> {
    parse(document.to_string().as_bytes(), content_type)
}

/// `document` with one member replaced, or taken away by null.
fn with(mut document: Value, name: &str, value: Value) -> Value {
    let members = document.as_object_mut().unwrap();
    match value {
        Value::Null => drop(members.remove(name)),
        value => drop(members.insert(name.to_owned(), value)),
    }
    document
}

#[test]
fn an_image_wants_its_config_and_each_layer_once() {
    let manifest = read(&image(), Some(OCI_IMAGE)).unwrap();
    assert_eq!(manifest.media_type, OCI_IMAGE);
    assert_eq!(
        manifest.closure.blobs,
        [digest('a'), digest('b'), digest('c')]
    );
    assert!(manifest.closure.manifests.is_empty() && manifest.closure.optional.is_empty());
    assert_eq!(manifest.artifact_type.as_deref(), Some(CONFIG));
    assert!(!manifest.is_index());
}

#[test]
fn an_index_wants_its_manifests() {
    let manifest = read(&index(), Some(OCI_INDEX)).unwrap();
    assert_eq!(manifest.closure.manifests, [digest('d'), digest('e')]);
    assert!(manifest.closure.blobs.is_empty());
    assert_eq!(manifest.artifact_type, None);
    assert!(manifest.is_index());
    let empty = with(index(), "manifests", json!([]));
    assert_eq!(read(&empty, None).unwrap().closure, Closure::default());
}

#[test]
fn every_known_type_is_read() {
    let docker = |document: Value, media_type: &str| with(document, "mediaType", json!(media_type));
    let artifact = json!({
        "mediaType": OCI_ARTIFACT,
        "artifactType": "application/vnd.example.sbom",
        "blobs": [described("text/plain", 'f')],
    });
    for (document, media_type, wanted) in [
        (image(), OCI_IMAGE, 3),
        (docker(image(), DOCKER_IMAGE), DOCKER_IMAGE, 3),
        (index(), OCI_INDEX, 2),
        (docker(index(), DOCKER_LIST), DOCKER_LIST, 2),
        (artifact, OCI_ARTIFACT, 1),
    ] {
        let manifest = read(&document, Some(media_type)).unwrap();
        assert_eq!(manifest.media_type, media_type);
        assert_eq!(manifest.closure.required().count(), wanted, "{media_type}");
    }
}

#[test]
fn parameters_of_the_content_type_say_nothing() {
    let with_charset = format!("{OCI_IMAGE}; charset=utf-8");
    assert_eq!(
        read(&image(), Some(&with_charset)).unwrap().media_type,
        OCI_IMAGE
    );
}

#[test]
fn the_type_is_what_either_side_says() {
    let silent = with(image(), "mediaType", Value::Null);
    assert_eq!(
        read(&silent, Some(OCI_IMAGE)).unwrap().media_type,
        OCI_IMAGE
    );
    assert_eq!(read(&image(), None).unwrap().media_type, OCI_IMAGE);
    assert_eq!(read(&image(), Some("")).unwrap().media_type, OCI_IMAGE);
    assert_eq!(read(&silent, None).unwrap().media_type, OCI_IMAGE);
    let silent = with(index(), "mediaType", Value::Null);
    assert_eq!(read(&silent, None).unwrap().media_type, OCI_INDEX);
}

#[test]
fn sides_that_differ_are_refused() {
    let error = read(&image(), Some(DOCKER_IMAGE)).unwrap_err();
    let expected = ManifestError::MediaType {
        header: DOCKER_IMAGE.to_owned(),
        document: OCI_IMAGE.to_owned(),
    };
    assert_eq!(error, expected);
    assert!(read(&image(), Some("application/json")).is_err());
}

#[test]
fn schema_1_is_refused_by_name() {
    let old = json!({ "schemaVersion": 1, "name": "a", "tag": "b", "fsLayers": [], "history": [] });
    assert_eq!(read(&old, None), Err(ManifestError::Schema1));
    for media_type in SCHEMA_1 {
        assert_eq!(read(&old, Some(media_type)), Err(ManifestError::Schema1));
    }
    assert!(
        ManifestError::Schema1
            .to_string()
            .contains("schema 1 is not supported")
    );
}

#[test]
fn an_image_that_is_also_an_index_is_refused() {
    let both = with(image(), "manifests", json!([described(OCI_IMAGE, 'd')]));
    assert_eq!(
        read(&both, Some(OCI_IMAGE)),
        Err(ManifestError::Ambiguous("manifests"))
    );
    let both = with(index(), "layers", json!([]));
    assert_eq!(
        read(&both, Some(OCI_INDEX)),
        Err(ManifestError::Ambiguous("layers"))
    );
    let both = with(index(), "config", described(CONFIG, 'a'));
    assert_eq!(
        read(&both, Some(OCI_INDEX)),
        Err(ManifestError::Ambiguous("config"))
    );
}

#[test]
fn what_is_not_whole_is_refused() {
    assert_eq!(
        read(&with(image(), "schemaVersion", Value::Null), None),
        Err(ManifestError::SchemaVersion)
    );
    for (name, document) in [
        ("config", image()),
        ("layers", image()),
        ("manifests", index()),
    ] {
        let media_type = document["mediaType"].as_str().unwrap().to_owned();
        let result = read(&with(document, name, Value::Null), Some(&media_type));
        assert!(
            matches!(result, Err(ManifestError::Malformed(_))),
            "{name}: {result:?}"
        );
    }
    let bad = with(
        image(),
        "config",
        json!({ "mediaType": CONFIG, "digest": "sha256:1", "size": 1 }),
    );
    assert_eq!(
        read(&bad, None),
        Err(ManifestError::Digest("sha256:1".to_owned()))
    );
    let negative = json!({ "mediaType": CONFIG, "digest": hex('a'), "size": -1 });
    assert!(read(&with(image(), "config", negative), None).is_err());
}

#[test]
fn what_is_no_object_is_refused() {
    for text in [
        "",
        "[]",
        "[2]",
        "null",
        "7",
        "{",
        "{}x",
        "\"a\"",
        "{\"layers\":7}",
    ] {
        for media_type in [None, Some(OCI_IMAGE)] {
            assert!(parse(text.as_bytes(), media_type).is_err(), "{text}");
        }
    }
    for text in ["", "[]", "null", "{"] {
        assert!(
            parse(text.as_bytes(), Some("application/vnd.example+json")).is_err(),
            "{text}"
        );
    }
    assert_eq!(parse(b"{}", None), Err(ManifestError::Untyped));
    assert_eq!(parse(b"{}", Some("json")), Err(ManifestError::BadMediaType));
    assert_eq!(
        parse(b"{}", Some("a/b c")),
        Err(ManifestError::BadMediaType)
    );
}

#[test]
fn a_type_that_is_not_known_is_taken_as_it_is() {
    let unknown = "application/vnd.example.thing.v7+json";
    let odd = json!({ "layers": { "not": "a list" }, "config": 7 });
    let manifest = read(&odd, Some(unknown)).unwrap();
    assert_eq!(
        (manifest.media_type.as_str(), manifest.closure),
        (unknown, Closure::default())
    );
    let like_an_image = with(image(), "mediaType", json!(unknown));
    assert_eq!(
        read(&like_an_image, Some(unknown))
            .unwrap()
            .closure
            .blobs
            .len(),
        3
    );
}

#[test]
fn layers_from_elsewhere_may_be_missing() {
    let foreign = [
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    ];
    for media_type in foreign {
        let layers = json!([described(media_type, 'b'), described(LAYER, 'c')]);
        let closure = read(&with(image(), "layers", layers), None)
            .unwrap()
            .closure;
        assert_eq!(closure.blobs, [digest('a'), digest('c')], "{media_type}");
        assert_eq!(closure.optional, [digest('b')]);
        assert_eq!((closure.required().count(), closure.kept().count()), (2, 3));
    }
}

#[test]
fn a_sparse_manifest_wants_less() {
    let of_index = read(&index(), None).unwrap().closure;
    let of_image = read(&image(), None).unwrap().closure;
    let wanted = |closure: &Closure, sparse| closure.clone().relaxed(sparse).required().count();
    for (sparse, children, blobs) in [
        (Sparse::Refused, 2, 3),
        (Sparse::Indexes, 0, 3),
        (Sparse::All, 0, 0),
    ] {
        assert_eq!(wanted(&of_index, sparse), children, "{sparse:?}");
        assert_eq!(wanted(&of_image, sparse), blobs, "{sparse:?}");
        assert_eq!(of_image.clone().relaxed(sparse).kept().count(), 3);
    }
}

#[test]
fn a_subject_is_known_and_not_wanted() {
    let document = with(image(), "subject", described(OCI_IMAGE, 'd'));
    let manifest = read(&document, None).unwrap();
    assert_eq!(manifest.subject.unwrap().digest, digest('d'));
    assert!(!manifest.closure.kept().any(|wanted| *wanted == digest('d')));
}

#[test]
fn the_artifact_type_is_the_config_s_unless_it_is_given() {
    let given = "application/vnd.example.sbom";
    let cases = [
        (image(), Some(CONFIG)),
        (with(image(), "artifactType", json!(given)), Some(given)),
        (with(image(), "artifactType", json!("")), Some(CONFIG)),
        (index(), None),
        (with(index(), "artifactType", json!(given)), Some(given)),
    ];
    for (document, expected) in cases {
        let manifest = read(&document, None).unwrap();
        assert_eq!(manifest.artifact_type.as_deref(), expected, "{document}");
    }
}

#[test]
fn sha512_is_as_good() {
    let long = format!("sha512:{}", "9".repeat(128));
    let config = json!({ "mediaType": CONFIG, "digest": long, "size": 7 });
    let manifest = read(&with(image(), "config", config), None).unwrap();
    assert_eq!(manifest.closure.blobs.first().unwrap().to_string(), long);
}

#[test]
fn a_manifest_shows_as_a_referrer() {
    let annotations = json!({ "org.example.made": "today" });
    let document = with(image(), "annotations", annotations);
    let shown = read(&document, None).unwrap().descriptor(digest('9'), 321);
    let bytes = index_of(std::slice::from_ref(&shown));
    let written: Value = serde_json::from_slice(&bytes).unwrap();
    let expected = json!({
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [{
            "mediaType": OCI_IMAGE,
            "digest": hex('9'),
            "size": 321,
            "artifactType": CONFIG,
            "annotations": { "org.example.made": "today" },
        }],
    });
    assert_eq!(written, expected);
    assert_eq!(descriptors(&bytes), Ok(vec![shown]));
}

#[test]
fn nobody_to_refer_is_an_empty_list() {
    let written: Value = serde_json::from_slice(&index_of(&[])).unwrap();
    let expected = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [] });
    assert_eq!(written, expected);
    assert!(descriptors(b"{}").is_err());
}

#[test]
fn errors_repeat_little_of_what_was_sent() {
    let long = "x".repeat(1 << 20);
    let bad = with(
        image(),
        "config",
        json!({ "mediaType": CONFIG, "digest": long, "size": 1 }),
    );
    assert!(read(&bad, None).unwrap_err().to_string().len() < 300);
}
