//! Tags, repositories and referrers.

use oci::manifest::OCI_INDEX;

use super::*;

/// Pushes the same image under each tag.
async fn tagged(registry: &Registry, name: &str, tags: &[&str]) {
    let image = registry.image(name, "1").await;
    for tag in tags {
        let path = format!("/v2/{name}/manifests/{tag}");
        assert_eq!(registry.push(&path, OCI_IMAGE, &image).await.status, 201);
    }
}

/// Where the rest of a list is.
fn next(reply: &Reply) -> Option<&str> {
    let link = reply.headers.get("link")?.to_str().unwrap();
    let path = link
        .strip_prefix('<')
        .and_then(|link| link.strip_suffix(">; rel=\"next\""));
    Some(path.unwrap_or_else(|| panic!("{link}")))
}

#[test]
fn tags_come_in_the_order_of_ascii() {
    block_on(async {
        let registry = Registry::open().await;
        tagged(
            &registry,
            "a/b",
            &["v2", "latest", "V1", "v10", "_x", "1.0"],
        )
        .await;
        let reply = registry.get("/v2/a/b/tags/list").await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, "application/json")
        );
        let expected = json!({ "name": "a/b", "tags": ["1.0", "V1", "_x", "latest", "v10", "v2"] });
        assert_eq!(reply.json(), expected);
        assert!(next(&reply).is_none());
        let head = registry.head("/v2/a/b/tags/list").await;
        assert_eq!((head.headers, head.body.len()), (reply.headers, 0));
    });
}

#[test]
fn tags_come_in_pages() {
    block_on(async {
        let registry = Registry::open().await;
        let tags = ["a", "b", "c", "d", "e"];
        tagged(&registry, "x", &tags).await;
        let mut seen = Vec::new();
        let mut path = "/v2/x/tags/list?n=2".to_owned();
        let mut pages = 0;
        loop {
            let reply = registry.get(&path).await;
            let page = reply.json()["tags"].as_array().unwrap().clone();
            assert!(page.len() <= 2);
            seen.extend(page);
            pages += 1;
            match next(&reply) {
                Some(next) => path = next.to_owned(),
                None => break,
            }
        }
        assert_eq!((json!(seen), pages), (json!(tags), 3));
    });
}

#[test]
fn pages_begin_after_last_whether_it_is_there_or_not() {
    block_on(async {
        let registry = Registry::open().await;
        tagged(&registry, "x", &["a", "c", "e"]).await;
        for (query, tags, has_next) in [
            ("?last=a", json!(["c", "e"]), false),
            ("?last=b", json!(["c", "e"]), false),
            ("?last=e", json!([]), false),
            ("?last=c&n=5", json!(["e"]), false),
            ("?n=1", json!(["a"]), true),
            ("?n=3", json!(["a", "c", "e"]), false),
            ("?n=0", json!([]), false),
            ("?n=0&last=a", json!([]), false),
        ] {
            let reply = registry.get(format!("/v2/x/tags/list{query}")).await;
            assert_eq!(
                (reply.status, &reply.json()["tags"]),
                (200, &tags),
                "{query}"
            );
            assert_eq!(next(&reply).is_some(), has_next, "{query}");
        }
        registry
            .get("/v2/nowhere/tags/list?n=0")
            .await
            .is(404, "NAME_UNKNOWN");
        registry
            .get("/v2/x/tags/list?n=-1")
            .await
            .is(400, "UNSUPPORTED");
    });
}

#[test]
fn repositories_come_in_pages() {
    block_on(async {
        let registry = Registry::open().await;
        assert_eq!(
            registry.get("/v2/_catalog").await.json(),
            json!({ "repositories": [] })
        );
        for name in ["b", "a/c", "a"] {
            tagged(&registry, name, &["v1"]).await;
        }
        let reply = registry.get("/v2/_catalog").await;
        assert_eq!(reply.json(), json!({ "repositories": ["a", "a/c", "b"] }));
        let reply = registry.get("/v2/_catalog?n=2").await;
        assert_eq!(reply.json(), json!({ "repositories": ["a", "a/c"] }));
        let path = next(&reply).unwrap().to_owned();
        let reply = registry.get(&path).await;
        assert_eq!(reply.json(), json!({ "repositories": ["b"] }));
        assert!(next(&reply).is_none());
        let reply = registry.get("/v2/_catalog?n=0").await;
        assert_eq!(
            (reply.json(), next(&reply)),
            (json!({ "repositories": [] }), None)
        );
    });
}

//--- Referrers

const SBOM: &str = "application/vnd.example.sbom";

/// Pushes a manifest about `subject`; its digest.
async fn refer(
    registry: &Registry,
    subject: &Value,
    artifact_type: Option<&str>,
    n: u32,
) -> Digest {
    let mut image = registry.image("a", &format!("referrer {n}")).await;
    image["subject"] = subject.clone();
    image["annotations"] = json!({ "org.example.number": n.to_string() });
    if let Some(artifact_type) = artifact_type {
        image["artifactType"] = json!(artifact_type);
    }
    let digest = sha256(image.to_string().as_bytes());
    let path = format!("/v2/a/manifests/{digest}");
    assert_eq!(registry.push(&path, OCI_IMAGE, &image).await.status, 201);
    digest
}

fn digests(reply: &Reply) -> Vec<String> {
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, OCI_INDEX),
        "{reply:?}"
    );
    let body = reply.json();
    assert_eq!(
        (&body["schemaVersion"], &body["mediaType"]),
        (&json!(2), &json!(OCI_INDEX))
    );
    let listed = body["manifests"].as_array().unwrap();
    listed
        .iter()
        .map(|entry| entry["digest"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn nothing_refers_to_what_is_not_there() {
    block_on(async {
        let registry = Registry::open().await;
        for digest in [sha256(b"x"), sha512(b"x")] {
            let reply = registry
                .get(format!("/v2/nowhere/referrers/{digest}"))
                .await;
            assert!(digests(&reply).is_empty());
            assert_eq!(reply.header("oci-filters-applied"), "");
        }
        registry
            .get("/v2/a/referrers/sha256:0")
            .await
            .is(400, "DIGEST_INVALID");
        registry
            .get("/v2/a/referrers/latest")
            .await
            .is(400, "DIGEST_INVALID");
    });
}

#[test]
fn referrers_are_described() {
    block_on(async {
        let registry = Registry::open().await;
        let subject = described(OCI_IMAGE, b"the subject");
        let digest = refer(&registry, &subject, Some(SBOM), 1).await;
        let plain = refer(&registry, &subject, None, 2).await;
        let index = json!({
            "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [], "subject": subject,
        });
        let of_index = sha256(index.to_string().as_bytes());
        registry
            .push("/v2/a/manifests/index", OCI_INDEX, &index)
            .await;
        let subject = subject["digest"].as_str().unwrap();
        let reply = registry.get(format!("/v2/a/referrers/{subject}")).await;
        let mut expected = [digest, plain, of_index].map(|digest| digest.to_string());
        expected.sort();
        assert_eq!(digests(&reply), expected);
        let listed = reply.json()["manifests"].as_array().unwrap().clone();
        let entry = |digest: &Digest| {
            let digest = digest.to_string();
            listed
                .iter()
                .find(|entry| entry["digest"] == json!(digest))
                .unwrap()
                .clone()
        };
        let first = entry(&digest);
        assert_eq!(first["mediaType"], OCI_IMAGE);
        assert_eq!(first["artifactType"], SBOM);
        assert_eq!(first["annotations"], json!({ "org.example.number": "1" }));
        let size = registry
            .get(format!("/v2/a/manifests/{digest}"))
            .await
            .body
            .len();
        assert_eq!(first["size"], size);
        assert_eq!(entry(&plain)["artifactType"], CONFIG);
        assert!(entry(&of_index).get("artifactType").is_none());
        let head = registry.head(format!("/v2/a/referrers/{subject}")).await;
        assert_eq!((head.headers, head.body.len()), (reply.headers, 0));
    });
}

#[test]
fn referrers_are_filtered_and_come_in_pages() {
    block_on(async {
        let registry = Registry::open().await;
        let subject = described(OCI_IMAGE, b"the subject");
        let mut wanted = Vec::new();
        for n in 0..5 {
            wanted.push(refer(&registry, &subject, Some(SBOM), n).await.to_string());
        }
        refer(
            &registry,
            &subject,
            Some("application/vnd.example.other+json"),
            5,
        )
        .await;
        wanted.sort();
        let subject = subject["digest"].as_str().unwrap();
        let filtered = format!("/v2/a/referrers/{subject}?artifactType={SBOM}");
        let reply = registry.get(&filtered).await;
        assert_eq!(digests(&reply), wanted);
        assert_eq!(reply.header("oci-filters-applied"), "artifactType");
        let escaped =
            format!("/v2/a/referrers/{subject}?artifactType=application/vnd.example.other%2Bjson");
        assert_eq!(digests(&registry.get(escaped).await).len(), 1);
        let mut seen = Vec::new();
        let mut path = format!("{filtered}&n=2");
        loop {
            let reply = registry.get(&path).await;
            assert_eq!(reply.header("oci-filters-applied"), "artifactType");
            seen.extend(digests(&reply));
            match next(&reply) {
                Some(next) => path = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, wanted);
    });
}

/// However many there are, no more of them are read than are told.
#[test]
fn a_page_of_referrers_reads_no_manifests_beyond_it() {
    block_on(async {
        let registry = Registry::open().await;
        let subject = described(OCI_IMAGE, b"the subject");
        let mut referrers = Vec::new();
        for n in 0..5 {
            referrers.push(refer(&registry, &subject, None, n).await);
        }
        referrers.sort();
        let store = &registry.api.parts.store;
        for digest in &referrers[3..] {
            std::fs::remove_file(store.layout().blob(digest)).unwrap();
            store.forget(digest);
        }
        let subject = subject["digest"].as_str().unwrap();
        let reply = registry.get(format!("/v2/a/referrers/{subject}?n=2")).await;
        let expected: Vec<String> = referrers[..2].iter().map(ToString::to_string).collect();
        assert_eq!(digests(&reply), expected);
        assert!(next(&reply).is_some());
        let reply = registry.get(format!("/v2/a/referrers/{subject}")).await;
        assert_ne!(reply.status, 200);
    });
}

#[test]
fn a_deleted_referrer_refers_no_more() {
    block_on(async {
        let registry = Registry::open().await;
        let subject = described(OCI_IMAGE, b"the subject");
        let digest = refer(&registry, &subject, None, 1).await;
        registry.delete(format!("/v2/a/manifests/{digest}")).await;
        let subject = subject["digest"].as_str().unwrap();
        assert!(digests(&registry.get(format!("/v2/a/referrers/{subject}")).await).is_empty());
    });
}

#[test]
fn what_clients_listed_themselves_is_listed_too() {
    block_on(async {
        let registry = Registry::open().await;
        let subject = described(OCI_IMAGE, b"the subject");
        let of_api = refer(&registry, &subject, Some(SBOM), 1).await;
        // Pushed by a client that knew no subject.
        let old = registry.image("a", "old").await;
        let of_tag = sha256(old.to_string().as_bytes());
        registry
            .push(&format!("/v2/a/manifests/{of_tag}"), OCI_IMAGE, &old)
            .await;
        let mut entry = described(OCI_IMAGE, old.to_string().as_bytes());
        entry["artifactType"] = json!("application/vnd.example.signature");
        let index = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry] });
        let subject = subject["digest"].as_str().unwrap();
        let tag = subject.replace(':', "-");
        let reply = registry
            .push(&format!("/v2/a/manifests/{tag}"), OCI_INDEX, &index)
            .await;
        assert_eq!(reply.status, 201);
        let reply = registry.get(format!("/v2/a/referrers/{subject}")).await;
        let mut expected = [of_api, of_tag].map(|digest| digest.to_string());
        expected.sort();
        assert_eq!(digests(&reply), expected);
        let path =
            format!("/v2/a/referrers/{subject}?artifactType=application/vnd.example.signature");
        assert_eq!(digests(&registry.get(path).await), [of_tag.to_string()]);
    });
}
