//! Pushing, pulling and deleting manifests.

use oci::manifest::{DOCKER_IMAGE, OCI_INDEX, Sparse};
use registry_webhook::EventAction;

use super::*;

fn octets(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

#[test]
fn a_manifest_is_pulled_as_it_was_pushed_by_tag_and_by_digest() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a/b", "1").await;
        // Spaces and all: the octets are the manifest.
        let text = format!("{image:#}\n  ");
        let digest = sha256(text.as_bytes());
        let headers = [(
            "content-type",
            "application/vnd.oci.image.manifest.v1+json; charset=utf-8",
        )];
        let request = Ask::new("PUT", "/v2/a/b/manifests/v1").headers(&headers);
        let reply = registry.send(request.body(text.as_bytes())).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(reply.location(), format!("/v2/a/b/manifests/{digest}"));
        assert_eq!(reply.header("docker-content-digest"), digest.to_string());
        assert_eq!(
            (reply.header("oci-subject"), reply.header("oci-tag")),
            ("", "")
        );
        for reference in ["v1".to_owned(), digest.to_string()] {
            let path = format!("/v2/a/b/manifests/{reference}");
            let get = registry.get(&path).await;
            assert_eq!((get.status, &get.body[..]), (200, text.as_bytes()));
            assert_eq!(get.header("content-type"), OCI_IMAGE);
            assert_eq!(get.header("docker-content-digest"), digest.to_string());
            assert_eq!(get.header("content-length"), text.len().to_string());
            let head = registry.head(&path).await;
            assert_eq!((head.status, head.body.len()), (200, 0));
            assert_eq!(head.headers, get.headers);
            let tag = get.header("etag").to_owned();
            let headers = [("if-none-match", tag.as_str())];
            let reply = registry
                .send(Ask::new("GET", &path).headers(&headers))
                .await;
            assert_eq!((reply.status, reply.body.len()), (304, 0));
        }
    });
}

#[test]
fn the_stored_type_is_given_whatever_is_accepted() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        registry.push("/v2/a/manifests/v1", OCI_IMAGE, &image).await;
        let headers = [("accept", DOCKER_IMAGE)];
        let reply = registry
            .send(Ask::new("GET", "/v2/a/manifests/v1").headers(&headers))
            .await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, OCI_IMAGE)
        );
    });
}

#[test]
fn a_digest_has_to_be_the_manifest_s() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        let right = octets(&image);
        for digest in [sha256(&right), sha512(&right)] {
            let path = format!("/v2/a/manifests/{digest}");
            let reply = registry.push(&path, OCI_IMAGE, &image).await;
            assert_eq!((reply.status, reply.location()), (201, path.as_str()));
            assert_eq!(registry.get(&path).await.body, right);
        }
        for wrong in [sha256(b"x"), sha512(b"x")] {
            let path = format!("/v2/a/manifests/{wrong}");
            registry
                .push(&path, OCI_IMAGE, &image)
                .await
                .is(400, "DIGEST_INVALID");
        }
        let reply = registry
            .push("/v2/a/manifests/sha256:baddigeststring", OCI_IMAGE, &image)
            .await;
        reply.is(400, "DIGEST_INVALID");
    });
}

#[test]
fn many_tags_come_with_one_push() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        let digest = sha256(&octets(&image));
        let tags: Vec<String> = (10..30).map(|n| format!("v{n}")).collect();
        let query: Vec<String> = tags.iter().map(|tag| format!("tag={tag}")).collect();
        let path = format!("/v2/a/manifests/{digest}?{}&tag=v10", query.join("&"));
        let reply = registry.push(&path, OCI_IMAGE, &image).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(reply.header("oci-tag"), tags.join(", "));
        assert_eq!(
            registry.get("/v2/a/tags/list").await.json()["tags"],
            json!(tags)
        );
        assert_eq!(registry.head("/v2/a/manifests/v29").await.status, 200);
    });
}

#[test]
fn bad_tags_and_too_many_are_refused_as_a_whole() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        let digest = sha256(&octets(&image));
        let path = format!("/v2/a/manifests/{digest}?tag=good&tag=.bad");
        registry
            .push(&path, OCI_IMAGE, &image)
            .await
            .is(400, "MANIFEST_INVALID");
        let many: Vec<String> = (0..200).map(|n| format!("tag=v{n}")).collect();
        let path = format!("/v2/a/manifests/{digest}?{}", many.join("&"));
        registry
            .push(&path, OCI_IMAGE, &image)
            .await
            .is(414, "MANIFEST_INVALID");
        let path = format!("/v2/a/manifests/{}", "x".repeat(129));
        registry
            .push(&path, OCI_IMAGE, &image)
            .await
            .is(400, "MANIFEST_INVALID");
        assert_eq!(
            registry
                .head(format!("/v2/a/manifests/{digest}"))
                .await
                .status,
            404
        );
    });
}

#[test]
fn a_tag_moves() {
    block_on(async {
        let registry = Registry::open().await;
        let (first, second) = (
            registry.image("a", "1").await,
            registry.image("a", "2").await,
        );
        for image in [&first, &second, &first] {
            assert_eq!(
                registry
                    .push("/v2/a/manifests/v1", OCI_IMAGE, image)
                    .await
                    .status,
                201
            );
            assert_eq!(registry.get("/v2/a/manifests/v1").await.body, octets(image));
        }
        let digest = sha256(&octets(&second));
        assert_eq!(
            registry
                .head(format!("/v2/a/manifests/{digest}"))
                .await
                .status,
            200
        );
    });
}

#[test]
fn what_is_missing_is_named() {
    block_on(async {
        let registry = Registry::open().await;
        let mut image = registry.image("a", "1").await;
        let layer = described(LAYER, b"not pushed");
        image["layers"].as_array_mut().unwrap().push(layer.clone());
        let reply = registry.push("/v2/a/manifests/v1", OCI_IMAGE, &image).await;
        reply.is(400, "MANIFEST_BLOB_UNKNOWN");
        assert_eq!(reply.json()["errors"].as_array().unwrap().len(), 1);
        assert_eq!(
            reply.json()["errors"][0]["detail"]["digest"],
            layer["digest"]
        );
        let index = json!({
            "schemaVersion": 2, "mediaType": OCI_INDEX,
            "manifests": [described(OCI_IMAGE, b"not pushed")],
        });
        let reply = registry.push("/v2/a/manifests/v1", OCI_INDEX, &index).await;
        reply.is(400, "MANIFEST_BLOB_UNKNOWN");
        assert_eq!(registry.head("/v2/a/manifests/v1").await.status, 404);
    });
}

#[test]
fn a_blob_of_another_repository_is_missing_too() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        let reply = registry.push("/v2/b/manifests/v1", OCI_IMAGE, &image).await;
        reply.is(400, "MANIFEST_BLOB_UNKNOWN");
    });
}

#[test]
fn sparse_manifests_are_taken_where_they_may_be() {
    block_on(async {
        for (sparse, of_index, of_image) in [
            (Sparse::Refused, 400, 400),
            (Sparse::Indexes, 201, 400),
            (Sparse::All, 201, 201),
        ] {
            let limits = Limits {
                sparse,
                ..Limits::default()
            };
            let registry = Registry::with(limits).await;
            let mut image = registry.image("a", "1").await;
            assert_eq!(
                registry
                    .push("/v2/a/manifests/whole", OCI_IMAGE, &image)
                    .await
                    .status,
                201
            );
            let index = json!({
                "schemaVersion": 2, "mediaType": OCI_INDEX,
                "manifests": [described(OCI_IMAGE, &octets(&image)), described(OCI_IMAGE, b"no")],
            });
            let reply = registry
                .push("/v2/a/manifests/index", OCI_INDEX, &index)
                .await;
            assert_eq!(reply.status, of_index, "{sparse:?}");
            image["layers"]
                .as_array_mut()
                .unwrap()
                .push(described(LAYER, b"no"));
            let reply = registry
                .push("/v2/a/manifests/image", OCI_IMAGE, &image)
                .await;
            assert_eq!(reply.status, of_image, "{sparse:?}");
        }
    });
}

#[test]
fn layers_from_elsewhere_need_not_be_pushed() {
    block_on(async {
        let registry = Registry::open().await;
        let mut image = registry.image("a", "1").await;
        let foreign = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";
        image["layers"]
            .as_array_mut()
            .unwrap()
            .push(described(foreign, b"elsewhere"));
        let reply = registry.push("/v2/a/manifests/v1", OCI_IMAGE, &image).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    });
}

#[test]
fn a_deletion_is_told_with_the_type_of_what_went() {
    block_on(async {
        let (registry, mut told) = Registry::open().await.overheard();
        let image = registry.image("a", "1").await;
        let index = json!({
            "schemaVersion": 2, "mediaType": OCI_INDEX,
            "manifests": [described(OCI_IMAGE, &octets(&image))],
        });
        for (tag, media_type, document) in [("one", OCI_IMAGE, &image), ("all", OCI_INDEX, &index)]
        {
            let path = format!("/v2/a/manifests/{tag}");
            assert_eq!(registry.push(&path, media_type, document).await.status, 201);
        }
        told.by_ref().for_each(drop);
        let (of_image, of_index) = (sha256(&octets(&image)), sha256(&octets(&index)));
        for (reference, media_type) in [
            ("all".to_owned(), OCI_INDEX),
            (of_index.to_string(), OCI_INDEX),
            ("one".to_owned(), OCI_IMAGE),
            (of_image.to_string(), OCI_IMAGE),
        ] {
            let reply = registry
                .delete(format!("/v2/a/manifests/{reference}"))
                .await;
            assert_eq!(reply.status, 202, "{reply:?}");
            let event = told.next().unwrap();
            assert_eq!(
                (event.action, event.media_type.as_str()),
                (EventAction::Delete, media_type),
                "{reference}"
            );
        }
    });
}

#[test]
fn no_manifest_is_taken_for_one() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        let schema1 = "application/vnd.docker.distribution.manifest.v1+prettyjws";
        let old = json!({ "schemaVersion": 1, "fsLayers": [] });
        for (media_type, document) in [
            (DOCKER_IMAGE, &image),
            (OCI_INDEX, &image),
            (OCI_IMAGE, &json!({})),
            (OCI_IMAGE, &json!([])),
            ("text", &image),
            (schema1, &old),
        ] {
            let reply = registry
                .push("/v2/a/manifests/v1", media_type, document)
                .await;
            reply.is(400, "MANIFEST_INVALID");
        }
        let reply = registry.push("/v2/a/manifests/v1", schema1, &old).await;
        let message = reply.json()["errors"][0]["message"].to_string();
        assert!(message.contains("schema 1 is not supported"), "{message}");
    });
}

#[test]
fn what_is_unknown_is_taken_as_it_is() {
    block_on(async {
        let registry = Registry::open().await;
        let thing = json!({ "thing": [1, 2, 3] });
        let media_type = "application/vnd.example.thing.v1+json";
        let reply = registry
            .push("/v2/a/manifests/thing", media_type, &thing)
            .await;
        assert_eq!(reply.status, 201);
        let reply = registry.get("/v2/a/manifests/thing").await;
        assert_eq!(
            (reply.header("content-type"), reply.json()),
            (media_type, thing)
        );
    });
}

#[test]
fn manifests_are_large_but_not_without_bound() {
    block_on(async {
        let registry = Registry::open().await;
        let mut image = registry.image("a", "1").await;
        image["annotations"] = json!({ "org.example.large": "A".repeat(5 << 20) });
        assert!(octets(&image).len() > 4 << 20);
        let reply = registry.push("/v2/a/manifests/v1", OCI_IMAGE, &image).await;
        assert_eq!(reply.status, 201);
        assert_eq!(
            registry.get("/v2/a/manifests/v1").await.body,
            octets(&image)
        );
        image["annotations"] = json!({ "org.example.large": "A".repeat(8 << 20) });
        // With its length said, and without.
        let large = octets(&image);
        let length = large.len().to_string();
        let headers = [
            ("content-length", length.as_str()),
            ("content-type", OCI_IMAGE),
        ];
        for headers in [&headers[..], &headers[1..]] {
            let request = Ask::new("PUT", "/v2/a/manifests/v2")
                .headers(headers)
                .body(&large);
            let reply = registry.send(request).await;
            reply.is(413, "MANIFEST_INVALID");
            assert_eq!(reply.header("connection"), "close");
        }
    });
}

#[test]
fn a_subject_is_named_whether_it_is_there_or_not() {
    block_on(async {
        let registry = Registry::open().await;
        let mut image = registry.image("a", "1").await;
        let subject = described(OCI_IMAGE, b"pushed later, or never");
        image["subject"] = subject.clone();
        let reply = registry.push("/v2/a/manifests/v1", OCI_IMAGE, &image).await;
        assert_eq!(reply.status, 201);
        assert_eq!(
            reply.header("oci-subject"),
            subject["digest"].as_str().unwrap()
        );
    });
}

#[test]
fn a_deleted_tag_leaves_its_manifest() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("a", "1").await;
        let digest = sha256(&octets(&image));
        registry.push("/v2/a/manifests/v1", OCI_IMAGE, &image).await;
        assert_eq!(registry.delete("/v2/a/manifests/v1").await.status, 202);
        assert_eq!(registry.head("/v2/a/manifests/v1").await.status, 404);
        registry
            .delete("/v2/a/manifests/v1")
            .await
            .is(404, "MANIFEST_UNKNOWN");
        assert_eq!(
            registry
                .head(format!("/v2/a/manifests/{digest}"))
                .await
                .status,
            200
        );
    });
}

#[test]
fn a_deleted_manifest_takes_its_tags_with_it() {
    block_on(async {
        let registry = Registry::open().await;
        let (image, other) = (
            registry.image("a", "1").await,
            registry.image("a", "2").await,
        );
        let digest = sha256(&octets(&image));
        for tag in ["v1", "v2"] {
            registry
                .push(&format!("/v2/a/manifests/{tag}"), OCI_IMAGE, &image)
                .await;
        }
        registry.push("/v2/a/manifests/v3", OCI_IMAGE, &other).await;
        let path = format!("/v2/a/manifests/{digest}");
        assert_eq!(registry.delete(&path).await.status, 202);
        registry.delete(&path).await.is(404, "MANIFEST_UNKNOWN");
        for reference in ["v1", "v2", &digest.to_string()] {
            let reply = registry.head(format!("/v2/a/manifests/{reference}")).await;
            assert_eq!(reply.status, 404, "{reference}");
        }
        assert_eq!(
            registry.get("/v2/a/tags/list").await.json()["tags"],
            json!(["v3"])
        );
    });
}
