//! Pulling and deleting blobs.

use super::*;

#[test]
fn a_blob_is_pulled_as_it_was_pushed_and_head_says_the_same() {
    block_on(async {
        let registry = Registry::open().await;
        let large = vec![7; 700 << 10];
        for octets in [b"hello".as_slice(), b"", b"{}", &large] {
            let digest = registry.push_blob("a/b", octets).await;
            let path = format!("/v2/a/b/blobs/{digest}");
            let get = registry.get(&path).await;
            assert_eq!((get.status, get.body.len()), (200, octets.len()));
            assert_eq!(&get.body[..], octets);
            assert_eq!(get.header("content-length"), octets.len().to_string());
            assert_eq!(get.header("content-type"), "application/octet-stream");
            assert_eq!(get.header("docker-content-digest"), digest.to_string());
            assert_eq!(get.header("etag"), format!("\"{digest}\""));
            assert_eq!(get.header("accept-ranges"), "bytes");
            let head = registry.head(&path).await;
            assert_eq!((head.status, head.body.len()), (200, 0));
            assert_eq!(head.headers, get.headers);
        }
    });
}

#[test]
fn ranges_are_those_of_the_conformance_suite() {
    block_on(async {
        let registry = Registry::open().await;
        let octets: Vec<u8> = (0..2048u32).map(|n| n.to_le_bytes()[0]).collect();
        let digest = registry.push_blob("a", &octets).await;
        let path = format!("/v2/a/blobs/{digest}");
        for (range, start, end) in [
            ("bytes=500-1499", 500, 1500),
            ("bytes=500-", 500, 2048),
            ("bytes=-500", 1548, 2048),
            ("bytes=2000-5000", 2000, 2048),
            ("bytes=0-0", 0, 1),
        ] {
            let headers = [("range", range)];
            let get = registry
                .send(Ask::new("GET", &path).headers(&headers))
                .await;
            assert_eq!(get.status, 206, "{range}");
            assert_eq!(&get.body[..], &octets[start..end], "{range}");
            assert_eq!(get.header("content-length"), (end - start).to_string());
            let shown = format!("bytes {start}-{}/2048", end - 1);
            assert_eq!(get.header("content-range"), shown);
            let head = registry
                .send(Ask::new("HEAD", &path).headers(&headers))
                .await;
            // Parts are of GET alone.
            assert_eq!((head.status, head.header("content-length")), (200, "2048"));
            assert!(!head.headers.contains_key("content-range"));
        }
        for range in ["bytes=500-0", "bytes=5000-10000", "bytes=2048-"] {
            let headers = [("range", range)];
            let reply = registry
                .send(Ask::new("GET", &path).headers(&headers))
                .await;
            assert_eq!(reply.status, 416, "{range}");
            assert_eq!(reply.header("content-range"), "bytes */2048");
        }
        for range in ["bytes=0-1,4-5", "lines=1-2", "bytes=x"] {
            let headers = [("range", range)];
            let reply = registry
                .send(Ask::new("GET", &path).headers(&headers))
                .await;
            assert_eq!((reply.status, reply.body.len()), (200, 2048), "{range}");
        }
    });
}

#[test]
fn a_range_of_other_content_is_not_given() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("a", b"0123456789").await;
        let path = format!("/v2/a/blobs/{digest}");
        let tag = format!("\"{digest}\"");
        for (validator, status, length) in [(tag.as_str(), 206, 3), ("\"other\"", 200, 10)] {
            let headers = [("range", "bytes=2-4"), ("if-range", validator)];
            let reply = registry
                .send(Ask::new("GET", &path).headers(&headers))
                .await;
            assert_eq!(
                (reply.status, reply.body.len()),
                (status, length),
                "{validator}"
            );
        }
    });
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("a", b"hello").await;
        let path = format!("/v2/a/blobs/{digest}");
        let tag = format!("\"{digest}\"");
        for method in ["GET", "HEAD"] {
            let headers = [("if-none-match", tag.as_str())];
            let reply = registry
                .send(Ask::new(method, &path).headers(&headers))
                .await;
            assert_eq!((reply.status, reply.body.len()), (304, 0));
            assert_eq!(reply.header("etag"), tag);
            // What a cache may do with it is said again (RFC 9110 §15.4.5).
            assert_eq!(reply.header("cache-control"), "max-age=31536000");
        }
        let headers = [("if-none-match", "\"other\"")];
        let reply = registry
            .send(Ask::new("GET", &path).headers(&headers))
            .await;
        assert_eq!(reply.status, 200);
    });
}

#[test]
fn who_wants_other_content_is_told_that_this_is_not_it() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("a", b"hello").await;
        let path = format!("/v2/a/blobs/{digest}");
        let tag = format!("\"{digest}\"");
        for (wanted, status) in [(tag.as_str(), 200), ("*", 200), ("\"other\"", 412)] {
            let headers = [("if-match", wanted), ("if-none-match", "\"other\"")];
            let reply = registry
                .send(Ask::new("GET", &path).headers(&headers))
                .await;
            assert_eq!(reply.status, status, "{wanted}");
        }
    });
}

#[test]
fn a_deleted_blob_is_gone_at_once_and_from_its_repository_alone() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("a", b"hello").await;
        registry.push_blob("b", b"hello").await;
        let path = format!("/v2/a/blobs/{digest}");
        assert_eq!(registry.delete(&path).await.status, 202);
        assert_eq!(registry.head(&path).await.status, 404);
        registry.delete(&path).await.is(404, "BLOB_UNKNOWN");
        assert_eq!(
            registry.get(format!("/v2/b/blobs/{digest}")).await.body,
            "hello"
        );
        registry.push_blob("a", b"hello").await;
        assert_eq!(registry.head(&path).await.status, 200);
    });
}

#[test]
fn a_blob_belongs_to_its_repository() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("a", b"hello").await;
        registry
            .get(format!("/v2/b/blobs/{digest}"))
            .await
            .is(404, "BLOB_UNKNOWN");
    });
}
