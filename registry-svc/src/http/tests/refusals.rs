//! What is refused, and how.

use super::*;

#[test]
fn other_paths_are_not_found() {
    block_on(async {
        let registry = Registry::open().await;
        for path in [
            "/",
            "/v1/",
            "/v2/a",
            "/v2/a/tags",
            "/v3/a/tags/list",
            "/metrics",
        ] {
            let reply = registry.get(path).await;
            assert_eq!(reply.status, 404, "{path}");
        }
    });
}

#[test]
fn other_methods_are_not_allowed() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = sha256(b"");
        for (method, path, allow) in [
            ("POST", "/v2/".to_owned(), "GET, HEAD"),
            ("POST", format!("/v2/a/blobs/{digest}"), "GET, HEAD, DELETE"),
            ("GET", "/v2/a/blobs/uploads/".to_owned(), "POST"),
            (
                "POST",
                "/v2/a/manifests/b".to_owned(),
                "GET, HEAD, PUT, DELETE",
            ),
            ("DELETE", "/v2/a/tags/list".to_owned(), "GET, HEAD"),
            ("PUT", format!("/v2/a/referrers/{digest}"), "GET, HEAD"),
            ("OPTIONS", "/v2/_catalog".to_owned(), "GET, HEAD"),
        ] {
            let reply = registry.send(Ask::new(method, &path)).await;
            reply.is(405, "UNSUPPORTED");
            assert_eq!(reply.header("allow"), allow, "{method} {path}");
        }
    });
}

#[test]
fn names_and_digests_are_checked_before_anything_is_looked_up() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = sha256(b"");
        for name in [
            "A", "a//b", "a/", "-a", "a..b", "a_-b", "%2e%2e", "a%2Fb/..", "ü",
        ] {
            for path in [
                format!("/v2/{name}/tags/list"),
                format!("/v2/{name}/blobs/{digest}"),
                format!("/v2/{name}/manifests/latest"),
                format!("/v2/{name}/referrers/{digest}"),
            ] {
                if path.parse::<hyper::Uri>().is_ok() {
                    registry.get(&path).await.is(400, "NAME_INVALID");
                }
            }
            let path = format!("/v2/{name}/blobs/uploads/");
            if path.parse::<hyper::Uri>().is_ok() {
                registry.post(&path).await.is(400, "NAME_INVALID");
            }
        }
        let long = format!("sha512:{}", "0".repeat(64));
        for bad in ["sha256:baddigeststring", "md5:00", "latest:", &long] {
            for path in ["blobs", "referrers", "manifests"] {
                let reply = registry.get(format!("/v2/a/{path}/{bad}")).await;
                reply.is(400, "DIGEST_INVALID");
            }
        }
    });
}

#[test]
fn what_is_not_there_is_named() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = sha256(b"nowhere");
        for (path, code) in [
            (format!("/v2/a/blobs/{digest}"), "BLOB_UNKNOWN"),
            (format!("/v2/a/manifests/{digest}"), "MANIFEST_UNKNOWN"),
            ("/v2/a/manifests/latest".to_owned(), "MANIFEST_UNKNOWN"),
            ("/v2/a/manifests/.no-tag".to_owned(), "MANIFEST_UNKNOWN"),
            ("/v2/a/tags/list".to_owned(), "NAME_UNKNOWN"),
            (
                "/v2/a/blobs/uploads/nothing".to_owned(),
                "BLOB_UPLOAD_UNKNOWN",
            ),
            (
                "/v2/a/blobs/uploads/node-1-00000000000000000000000000".to_owned(),
                "BLOB_UPLOAD_UNKNOWN",
            ),
        ] {
            registry.get(&path).await.is(404, code);
            if code != "NAME_UNKNOWN" {
                registry.delete(&path).await.is(404, code);
            }
            let head = registry.head(&path).await;
            assert_eq!((head.status, head.body.len()), (404, 0), "{path}");
        }
    });
}

#[test]
fn a_read_only_registry_changes_nothing() {
    block_on(async {
        let limits = Limits {
            read_only: true,
            ..Limits::default()
        };
        let registry = Registry::with(limits).await;
        let digest = sha256(b"");
        for (method, path) in [
            ("POST", "/v2/a/blobs/uploads/".to_owned()),
            ("PUT", "/v2/a/manifests/latest".to_owned()),
            ("DELETE", "/v2/a/manifests/latest".to_owned()),
            ("DELETE", format!("/v2/a/blobs/{digest}")),
        ] {
            let reply = registry.send(Ask::new(method, &path)).await;
            reply.is(405, "UNSUPPORTED");
            assert_eq!(reply.header("allow"), "GET, HEAD");
        }
        assert_eq!(registry.get("/v2/").await.status, 200);
    });
}

#[test]
fn bodies_beyond_the_bound_come_later() {
    block_on(async {
        let limits = Limits {
            uploads: 1,
            ..Limits::default()
        };
        let registry = Registry::with(limits.clone()).await;
        let held = registry
            .api
            .uploads
            .admit("192.0.2.1".parse().unwrap(), &limits);
        let digest = sha256(b"x");
        let path = format!("/v2/a/blobs/uploads/?digest={digest}");
        let reply = registry.send(Ask::new("POST", &path).body(b"x")).await;
        reply.is(429, "TOOMANYREQUESTS");
        assert_eq!(reply.header("connection"), "close");
        assert!(!reply.header("retry-after").is_empty());
        drop(held);
        assert_eq!(
            registry
                .send(Ask::new("POST", &path).body(b"x"))
                .await
                .status,
            201
        );
    });
}

#[test]
fn no_answer_names_a_path_of_the_server() {
    block_on(async {
        let registry = Registry::open().await;
        // The store's directory goes away beneath it: nothing works any more.
        let digest = registry.push_blob("a", b"x").await;
        std::fs::remove_dir_all(&registry.root).unwrap();
        let root = registry.root.display().to_string();
        let put = format!("/v2/a/blobs/uploads/?digest={}", sha256(b"y"));
        for (method, path) in [
            ("GET", format!("/v2/a/blobs/{digest}")),
            ("POST", put),
            ("POST", "/v2/a/blobs/uploads/".to_owned()),
        ] {
            let reply = registry.send(Ask::new(method, &path).body(b"y")).await;
            let said = format!("{:?} {:?}", reply.headers, reply.body);
            assert!(
                !said.contains(&root) && !said.contains("os error"),
                "{said}"
            );
        }
    });
}
