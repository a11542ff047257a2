//! Every way to push a blob.

use registry_facts::hlc::Hlc;
use registry_facts::record::{Fact, NodeId, Record};

use super::*;

/// A session of repository `a`, and where it is.
async fn begun(registry: &Registry) -> String {
    let reply = registry.post("/v2/a/blobs/uploads/").await;
    assert_eq!(reply.status, 202, "{reply:?}");
    stands(&reply, 0);
    reply.location().to_owned()
}

/// The session has so many octets.
#[track_caller]
fn stands(reply: &Reply, offset: u64) {
    let range = format!("0-{}", offset.saturating_sub(1));
    assert_eq!(reply.header("range"), range, "{reply:?}");
    let id = reply.header("docker-upload-uuid");
    assert!(
        !id.is_empty() && reply.location().ends_with(id),
        "{reply:?}"
    );
}

/// The blob is there.
async fn created(registry: &Registry, reply: &Reply, octets: &[u8], digest: &Digest) {
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(reply.header("docker-content-digest"), digest.to_string());
    let get = registry.get(reply.location()).await;
    assert_eq!((get.status, &get.body[..]), (200, octets));
}

async fn patch(registry: &Registry, location: &str, range: Option<&str>, body: &[u8]) -> Reply {
    let length = body.len().to_string();
    let mut headers = vec![("content-length", length.as_str())];
    headers.extend(range.map(|range| ("content-range", range)));
    let request = Ask::new("PATCH", location).headers(&headers).body(body);
    registry.send(request).await
}

async fn put(
    registry: &Registry,
    location: &str,
    digest: &Digest,
    range: Option<&str>,
    body: &[u8],
) -> Reply {
    let path = format!("{location}?digest={digest}");
    let length = body.len().to_string();
    let mut headers = vec![("content-length", length.as_str())];
    headers.extend(range.map(|range| ("content-range", range)));
    registry
        .send(Ask::new("PUT", &path).headers(&headers).body(body))
        .await
}

#[test]
fn in_one_request() {
    block_on(async {
        let registry = Registry::open().await;
        for octets in [b"hello".as_slice(), b""] {
            for digest in [sha256(octets), sha512(octets)] {
                let path = format!("/v2/a/blobs/uploads/?digest={digest}");
                let reply = registry.send(Ask::new("POST", &path).body(octets)).await;
                created(&registry, &reply, octets, &digest).await;
            }
        }
    });
}

#[test]
fn in_two_requests() {
    block_on(async {
        let registry = Registry::open().await;
        for octets in [b"hello".as_slice(), b""] {
            // A session does not know the algorithm before the digest comes.
            for digest in [sha256(octets), sha512(octets)] {
                let location = begun(&registry).await;
                let reply = put(&registry, &location, &digest, None, octets).await;
                created(&registry, &reply, octets, &digest).await;
                registry.get(&location).await.is(404, "BLOB_UPLOAD_UNKNOWN");
            }
        }
    });
}

#[test]
fn as_a_stream() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        // As containers/image does: no Content-Range, no length.
        let frames =
            ["str", "ea", "med"].map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from(part))));
        let body = StreamBody::new(tokio_stream::iter(frames));
        let reply = registry.send_body(Ask::new("PATCH", &location), body).await;
        assert_eq!(reply.status, 202);
        stands(&reply, 8);
        let reply = patch(&registry, &location, None, b" on").await;
        stands(&reply, 11);
        let digest = sha256(b"streamed on");
        let reply = put(&registry, &location, &digest, None, b"").await;
        created(&registry, &reply, b"streamed on", &digest).await;
    });
}

#[test]
fn in_chunks_with_and_without_the_last_in_the_put() {
    block_on(async {
        let registry = Registry::open().await;
        let octets: Vec<u8> = (0..3000u32).map(|n| n.to_le_bytes()[0]).collect();
        for is_last_in_put in [false, true] {
            let digest = sha256(&octets);
            let mut location = begun(&registry).await;
            for (start, end) in [(0, 1000), (1000, 2000)] {
                let range = format!("{start}-{}", end - 1);
                let reply = patch(&registry, &location, Some(&range), &octets[start..end]).await;
                assert_eq!(reply.status, 202, "{reply:?}");
                stands(&reply, end as u64);
                location = reply.location().to_owned();
            }
            let last = Some("2000-2999");
            let reply = match is_last_in_put {
                true => put(&registry, &location, &digest, last, &octets[2000..]).await,
                false => {
                    let reply = patch(&registry, &location, last, &octets[2000..]).await;
                    stands(&reply, 3000);
                    put(&registry, &location, &digest, None, b"").await
                }
            };
            created(&registry, &reply, &octets, &digest).await;
            registry.delete(format!("/v2/a/blobs/{digest}")).await;
        }
    });
}

#[test]
fn a_chunk_out_of_order_is_refused_and_the_session_goes_on() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        let digest = sha256(b"0123456789");
        let wrong = |reply: Reply, offset: u64| {
            reply.is(416, "BLOB_UPLOAD_INVALID");
            stands(&reply, offset);
        };
        wrong(patch(&registry, &location, Some("5-9"), b"56789").await, 0);
        assert_eq!(
            patch(&registry, &location, Some("0-4"), b"01234")
                .await
                .status,
            202
        );
        for range in ["0-4", "4-8", "6-10", "100-104"] {
            wrong(patch(&registry, &location, Some(range), b"xxxxx").await, 5);
            wrong(
                put(&registry, &location, &digest, Some(range), b"xxxxx").await,
                5,
            );
        }
        let reply = registry.get(&location).await;
        assert_eq!(reply.status, 204);
        stands(&reply, 5);
        let reply = put(&registry, &location, &digest, Some("5-9"), b"56789").await;
        created(&registry, &reply, b"0123456789", &digest).await;
    });
}

#[test]
fn a_chunk_whose_headers_do_not_fit_is_refused() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        for range in ["bytes 0-4/5", "bytes=0-4", "0-", "x", "4-0"] {
            let reply = patch(&registry, &location, Some(range), b"01234").await;
            reply.is(416, "BLOB_UPLOAD_INVALID");
            stands(&reply, 0);
        }
        patch(&registry, &location, Some("0-9"), b"01234")
            .await
            .is(400, "SIZE_INVALID");
        stands(&registry.get(&location).await, 0);
        // A stream that is longer or shorter than its range.
        for octets in [b"0123456".as_slice(), b"012"] {
            let location = begun(&registry).await;
            let frame = Ok::<_, BoxError>(Frame::data(Bytes::from_static(octets)));
            let body = StreamBody::new(tokio_stream::iter([frame]));
            let headers = [("content-range", "0-4")];
            let request = Ask::new("PATCH", &location).headers(&headers);
            registry
                .send_body(request, body)
                .await
                .is(400, "SIZE_INVALID");
        }
    });
}

#[test]
fn a_wrong_digest_is_refused_whichever_way_it_comes() {
    block_on(async {
        let registry = Registry::open().await;
        let wrong = sha256(b"something else");
        let path = format!("/v2/a/blobs/uploads/?digest={wrong}");
        let reply = registry.send(Ask::new("POST", &path).body(b"hello")).await;
        reply.is(400, "DIGEST_INVALID");
        let location = begun(&registry).await;
        put(&registry, &location, &wrong, None, b"hello")
            .await
            .is(400, "DIGEST_INVALID");
        let location = begun(&registry).await;
        patch(&registry, &location, Some("0-4"), b"hello").await;
        put(&registry, &location, &wrong, None, b"")
            .await
            .is(400, "DIGEST_INVALID");
        assert_eq!(
            registry.head(format!("/v2/a/blobs/{wrong}")).await.status,
            404
        );
        assert_eq!(
            registry
                .head(format!("/v2/a/blobs/{}", sha256(b"hello")))
                .await
                .status,
            404
        );
    });
}

#[test]
fn a_wrong_digest_harms_no_other_session() {
    block_on(async {
        let registry = Registry::open().await;
        let (first, second) = (begun(&registry).await, begun(&registry).await);
        patch(&registry, &first, None, b"hello").await;
        patch(&registry, &second, None, b"hello").await;
        put(&registry, &first, &sha256(b"x"), None, b"")
            .await
            .is(400, "DIGEST_INVALID");
        let digest = sha256(b"hello");
        let reply = put(&registry, &second, &digest, None, b"").await;
        created(&registry, &reply, b"hello", &digest).await;
    });
}

#[test]
fn a_put_has_to_say_the_digest() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        for query in ["", "?digest=", "?digest=sha256:0", "?digest=md5:00"] {
            let path = format!("{location}{query}");
            registry
                .send(Ask::new("PUT", &path))
                .await
                .is(400, "DIGEST_INVALID");
        }
        stands(&registry.get(&location).await, 0);
    });
}

#[test]
fn an_algorithm_may_be_asked_for() {
    block_on(async {
        let registry = Registry::open().await;
        for (algorithm, digest) in [("sha256", sha256(b"hello")), ("sha512", sha512(b"hello"))] {
            let path = format!("/v2/a/blobs/uploads/?digest-algorithm={algorithm}");
            let reply = registry.post(&path).await;
            assert_eq!(reply.status, 202);
            let location = reply.location().to_owned();
            patch(&registry, &location, None, b"hello").await;
            let reply = put(&registry, &location, &digest, None, b"").await;
            created(&registry, &reply, b"hello", &digest).await;
        }
        let reply = registry
            .post("/v2/a/blobs/uploads/?digest-algorithm=md5")
            .await;
        reply.is(400, "DIGEST_INVALID");
    });
}

#[test]
fn a_session_can_be_cancelled_once() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        patch(&registry, &location, None, b"hello").await;
        let reply = registry.delete(&location).await;
        assert_eq!((reply.status, reply.body.len()), (204, 0));
        registry
            .delete(&location)
            .await
            .is(404, "BLOB_UPLOAD_UNKNOWN");
        registry.get(&location).await.is(404, "BLOB_UPLOAD_UNKNOWN");
        patch(&registry, &location, None, b"x")
            .await
            .is(404, "BLOB_UPLOAD_UNKNOWN");
        let reply = put(&registry, &location, &sha256(b"hello"), None, b"").await;
        reply.is(404, "BLOB_UPLOAD_UNKNOWN");
    });
}

#[test]
fn a_session_belongs_to_its_repository() {
    block_on(async {
        let registry = Registry::open().await;
        let elsewhere = begun(&registry).await.replace("/v2/a/", "/v2/b/");
        registry
            .get(&elsewhere)
            .await
            .is(404, "BLOB_UPLOAD_UNKNOWN");
        patch(&registry, &elsewhere, None, b"x")
            .await
            .is(404, "BLOB_UPLOAD_UNKNOWN");
        registry
            .delete(&elsewhere)
            .await
            .is(404, "BLOB_UPLOAD_UNKNOWN");
    });
}

#[test]
fn a_session_goes_on_after_a_restart() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        patch(&registry, &location, Some("0-4"), b"01234").await;
        let registry = registry.restarted().await;
        let reply = registry.get(&location).await;
        assert_eq!(reply.status, 204);
        stands(&reply, 5);
        let digest = sha256(b"0123456789");
        let reply = put(&registry, &location, &digest, Some("5-9"), b"56789").await;
        created(&registry, &reply, b"0123456789", &digest).await;
    });
}

#[test]
fn a_body_that_breaks_off_can_be_resumed() {
    block_on(async {
        let registry = Registry::open().await;
        let location = begun(&registry).await;
        let frames: [Result<_, BoxError>; 2] =
            [Ok(Frame::data(Bytes::from("01234"))), Err("gone".into())];
        let body = StreamBody::new(tokio_stream::iter(frames));
        let reply = registry.send_body(Ask::new("PATCH", &location), body).await;
        assert_eq!((reply.status, reply.header("connection")), (400, "close"));
        stands(&registry.get(&location).await, 5);
        let digest = sha256(b"0123456789");
        patch(&registry, &location, Some("5-9"), b"56789").await;
        let reply = put(&registry, &location, &digest, None, b"").await;
        created(&registry, &reply, b"0123456789", &digest).await;
    });
}

#[test]
fn a_blob_is_mounted_from_where_it_is() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("source/of", b"hello").await;
        let named = format!("/v2/a/blobs/uploads/?mount={digest}&from=source/of");
        let escaped = format!("/v2/b/blobs/uploads/?mount={digest}&from=source%2Fof");
        let anonymous = format!("/v2/c/blobs/uploads/?mount={digest}");
        let again = format!("/v2/a/blobs/uploads/?mount={digest}&from=nowhere");
        for path in [named, escaped, anonymous, again] {
            let reply = registry.post(&path).await;
            created(&registry, &reply, b"hello", &digest).await;
        }
        registry
            .delete(format!("/v2/source/of/blobs/{digest}"))
            .await;
        assert_eq!(
            registry.get(format!("/v2/a/blobs/{digest}")).await.body,
            "hello"
        );
    });
}

/// Another node's sweep takes back what has not been pushed or mounted for a day.
#[test]
fn a_mount_of_what_the_repository_has_is_stated() {
    block_on(async {
        let registry = Registry::open().await;
        let store = &registry.api.parts.store;
        let digest = sha256(b"hello");
        let content = tokio_stream::iter([Ok(Bytes::from_static(b"hello"))]);
        store.ingest(&digest, None, content).await.unwrap();
        let link = Fact::Blob {
            repository: "a".parse().unwrap(),
            digest,
            size: Some(5),
        };
        let days_ago = Record {
            origin: NodeId {
                name: "node-2".parse().unwrap(),
                incarnation: 1,
            },
            sequence: 1,
            stamp: Hlc::at(1_700_000_000_000),
            facts: vec![link.clone()],
        };
        store.apply(vec![days_ago]).await.unwrap();
        let path = format!("/v2/a/blobs/uploads/?mount={digest}&from=nowhere");
        created(&registry, &registry.post(path).await, b"hello", &digest).await;
        let standing = store.register(&link.key()).unwrap().unwrap();
        assert_eq!(standing.origin, store.origin());
    });
}

#[test]
fn what_cannot_be_mounted_is_uploaded() {
    block_on(async {
        let registry = Registry::open().await;
        let there = registry.push_blob("source", b"there").await;
        let absent = sha256(b"hello");
        for query in [
            format!("mount={absent}&from=source"),
            format!("mount={absent}"),
            format!("mount={there}&from=elsewhere"),
            format!("mount={there}&from=NO NAME").replace(' ', "%20"),
            "mount=nonsense&from=source".to_owned(),
        ] {
            let reply = registry.post(format!("/v2/a/blobs/uploads/?{query}")).await;
            assert_eq!(reply.status, 202, "{query}");
            stands(&reply, 0);
            // containers/image cancels what it does not want.
            assert_eq!(registry.delete(reply.location()).await.status, 204);
        }
    });
}

#[test]
fn blobs_beyond_the_bound_are_refused_whichever_way_they_come() {
    block_on(async {
        let limits = Limits {
            blob: Some(8),
            ..Limits::default()
        };
        let registry = Registry::with(limits).await;
        registry.push_blob("a", b"01234567").await;
        let large = sha256(b"012345678");
        let path = format!("/v2/a/blobs/uploads/?digest={large}");
        let headers = [("content-length", "9")];
        for headers in [&headers[..], &[]] {
            let request = Ask::new("POST", &path).headers(headers).body(b"012345678");
            let reply = registry.send(request).await;
            reply.is(413, "SIZE_INVALID");
            assert_eq!(reply.header("connection"), "close");
        }
        let location = begun(&registry).await;
        assert_eq!(
            patch(&registry, &location, None, b"01234").await.status,
            202
        );
        patch(&registry, &location, None, b"5678")
            .await
            .is(413, "SIZE_INVALID");
        registry.get(&location).await.is(404, "BLOB_UPLOAD_UNKNOWN");
    });
}
