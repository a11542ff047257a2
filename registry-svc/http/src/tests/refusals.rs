//! What is refused, and how.

use super::*;
use crate::uploads::Client;

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
            .admit(Client::User("alice".to_owned()), &limits);
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
        std::fs::remove_dir_all(registry.root.path()).unwrap();
        let root = registry.root.path().display().to_string();
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

/// Room for everything beside `free` bytes.
fn room_but(free: u64) -> space::Settings {
    space::Settings {
        watermarks: space::Watermarks {
            warn: 100,
            stop: 100,
            free,
        },
        reserve: 0,
        quotas: Vec::new(),
    }
}

/// Room for everything.
fn ample() -> space::Settings {
    room_but(0)
}

/// What is answered to every way to push.
async fn pushes(registry: &Registry, octets: &[u8]) -> Vec<Reply> {
    let begun = registry.post("/v2/a/b/blobs/uploads/").await;
    let location = begun.location().to_owned();
    let length = octets.len().to_string();
    let headers = [("content-length", length.as_str())];
    let digest = sha256(octets);
    let whole = format!("/v2/a/b/blobs/uploads/?digest={digest}");
    let last = format!("{location}?digest={digest}");
    let mut replies = Vec::new();
    for (method, path) in [
        ("PATCH", location.as_str()),
        ("PUT", &last),
        ("POST", &whole),
        ("PUT", "/v2/a/b/manifests/v1"),
    ] {
        let request = Ask::new(method, path).headers(&headers).body(octets);
        replies.push(registry.send(request).await);
    }
    replies
}

#[test]
fn a_full_disk_refuses_pushes_and_nothing_else() {
    block_on(async {
        let registry = Registry::open().await;
        let digest = registry.push_blob("a/b", b"hello").await;
        let full = room_but(u64::MAX);
        let registry = registry.within(full);
        for reply in pushes(&registry, b"more").await {
            reply.is(507, "DENIED");
            assert_eq!(reply.header("connection"), "close");
        }
        let path = format!("/v2/a/b/blobs/{digest}");
        assert_eq!(registry.get(&path).await.body, "hello");
        assert_eq!(registry.delete(&path).await.status, 202);
    });
}

#[test]
fn a_disk_that_is_being_freed_asks_to_come_again() {
    block_on(async {
        let registry = Registry::open().await;
        let room = registry
            .api
            .parts
            .store
            .disk()
            .room(registry.root.path())
            .unwrap();
        let full = room_but(room.free + (1 << 30));
        let registry = registry.within(full);
        registry.api.space.as_ref().unwrap().expect(room.total);
        let digest = sha256(b"x");
        let path = format!("/v2/a/blobs/uploads/?digest={digest}");
        let reply = registry.send(Ask::new("POST", &path).body(b"x")).await;
        // Whether so much could ever be free depends on the disk.
        match room.total > room.free + (2 << 30) {
            true => {
                reply.is(429, "TOOMANYREQUESTS");
                assert_eq!(reply.header("retry-after"), "5");
            }
            false => reply.is(507, "DENIED"),
        }
        assert_eq!(reply.header("connection"), "close");
    });
}

#[test]
fn a_repository_holds_no_more_than_it_may() {
    block_on(async {
        let registry = Registry::open().await;
        let quota = |repositories: &str, size| space::Quota {
            repositories: oci::glob::Glob::parse(repositories).unwrap(),
            size,
        };
        let bounds = space::Settings {
            // The longest pattern decides, in whatever order, and of equals the smallest.
            quotas: vec![
                quota("a/b", 10),
                quota("a/**", 5),
                quota("a/b", 100),
                quota("**", 1000),
            ],
            ..ample()
        };
        let registry = registry.within(bounds);
        // What others hold is not counted.
        registry.push_blob("b", &[b'x'; 100]).await;
        registry.push_blob("a/b", b"123456").await;
        for reply in pushes(&registry, b"12345").await {
            reply.is(403, "DENIED");
            assert_eq!(
                reply.json()["errors"][0]["detail"],
                json!({ "bytes": 5, "left": 4 })
            );
        }
        let digest = registry.push_blob("a/b", b"1234").await;
        assert_eq!(
            registry
                .delete(format!("/v2/a/b/blobs/{digest}"))
                .await
                .status,
            202
        );
        registry.push_blob("a/b", b"5678").await;
    });
}

/// Neither a body whose length is not said nor a session of many parts gets around a quota.
#[test]
fn a_quota_holds_for_what_comes_without_a_length_or_in_parts() {
    block_on(async {
        let registry = Registry::open().await;
        let bounds = space::Settings {
            quotas: vec![space::Quota {
                repositories: oci::glob::Glob::parse("a/**").unwrap(),
                size: 10,
            }],
            ..ample()
        };
        let registry = registry.within(bounds);
        let content = b"twelve octets";
        let digest = sha256(content);
        let path = format!("/v2/a/b/blobs/uploads/?digest={digest}");
        let body = StreamBody::new(tokio_stream::iter([Ok::<_, std::io::Error>(Frame::data(
            Bytes::from_static(content),
        ))]));
        let reply = registry.send_body(Ask::new("POST", &path), body).await;
        reply.is(403, "DENIED");

        let location = registry.post("/v2/a/b/blobs/uploads/").await;
        let mut location = location.location().to_owned();
        let mut status = 202;
        for part in content.chunks(5) {
            let reply = registry.send(Ask::new("PATCH", &location).body(part)).await;
            status = reply.status;
            if status == 202 {
                location = reply.location().to_owned();
            }
        }
        assert_eq!(status, 403);
        let path = format!("{location}?digest={digest}");
        // The session went with what it held.
        let reply = registry.send(Ask::new("PUT", &path)).await;
        reply.is(404, "BLOB_UPLOAD_UNKNOWN");
        assert_eq!(registry.api.parts.store.n_sessions(), 0);
        let blob = format!("/v2/a/b/blobs/{digest}");
        assert_eq!(registry.get(&blob).await.status, 404);
        // Within the bound, as ever.
        registry.push_blob("a/b", b"ten octets").await;
    });
}

/// What is mounted is held as what is pushed is.
#[test]
fn a_quota_holds_for_mounts_and_for_manifests_without_a_length() {
    block_on(async {
        let registry = Registry::open().await;
        let image = registry.image("b", "1").await;
        let bounds = space::Settings {
            quotas: vec![space::Quota {
                repositories: oci::glob::Glob::parse("a/**").unwrap(),
                size: 100,
            }],
            ..ample()
        };
        let registry = registry.within(bounds);
        let (small, large) = (registry.push_blob("b", &[b'x'; 60]).await, [b'y'; 60]);
        let large = registry.push_blob("b", &large).await;
        let mount = |digest| format!("/v2/a/b/blobs/uploads/?mount={digest}&from=b");
        assert_eq!(registry.post(mount(small)).await.status, 201);
        let reply = registry.post(mount(large)).await;
        reply.is(403, "DENIED");
        assert_eq!(
            reply.json()["errors"][0]["detail"],
            json!({ "bytes": 60, "left": 40 })
        );
        let blob = format!("/v2/a/b/blobs/{large}");
        assert_eq!(registry.get(&blob).await.status, 404);
        // Nothing comes by mounting again what is there.
        assert_eq!(registry.post(mount(small)).await.status, 201);

        let body = StreamBody::new(tokio_stream::iter([Ok::<_, std::io::Error>(Frame::data(
            Bytes::from(image.to_string()),
        ))]));
        let headers = [("content-type", OCI_IMAGE)];
        let request = Ask::new("PUT", "/v2/a/b/manifests/v1").headers(&headers);
        registry.send_body(request, body).await.is(403, "DENIED");
    });
}
