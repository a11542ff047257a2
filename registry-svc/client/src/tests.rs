use hyper::header::AUTHORIZATION;

use super::testing::{Served, answer, whole as body};
use super::*;
use crate::credentials::Credentials;

fn name(text: &str) -> RepositoryName {
    text.parse().unwrap()
}

fn tag(text: &str) -> Reference {
    Reference::Tag(text.parse().unwrap())
}

const MANIFEST: &str = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"x/y","digest":"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","size":3},"layers":[]}"#;

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

#[tokio::test]
async fn a_manifest_is_what_it_was_asked_for_by() {
    let served = Served::start(|_| async { answer(200, &[], body(MANIFEST)) }).await;
    let registry = served.registry(AuthFile::default());
    let found = registry
        .manifest(&name("a"), &tag("1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.digest, digest(MANIFEST.as_bytes()));
    assert_eq!(found.media_type, manifest::OCI_IMAGE);
    let other = Reference::Digest(digest(b"other"));
    let refused = registry.manifest(&name("a"), &other).await;
    assert!(
        matches!(refused, Err(ClientError::Digest(_))),
        "{refused:?}"
    );
    assert_eq!(served.asked()[0], "GET /v2/a/manifests/1");
}

#[tokio::test]
async fn a_token_is_asked_for_once() {
    let served = Served::start(|request: hyper::Request<_>| async move {
        let authorization = request.headers().get(AUTHORIZATION).cloned();
        let authorization = authorization.as_ref().and_then(|value| value.to_str().ok());
        let host = request.headers()["host"].to_str().unwrap().to_owned();
        match (request.uri().path(), authorization) {
            ("/token", Some("Basic bWU6c2VjcmV0")) => {
                answer(200, &[], body(r#"{"token":"abc","expires_in":300}"#))
            }
            ("/v2/a/tags/list", Some("Bearer abc")) => {
                answer(200, &[], body(r#"{"name":"a","tags":["1","-","2"]}"#))
            }
            _ => {
                let challenge = format!(r#"Bearer realm="http://{host}/token",service="s s""#);
                answer(401, &[("www-authenticate", &challenge)], body(""))
            }
        }
    })
    .await;
    let known = AuthFile::of(&served.endpoint(), Credentials::parse("me:secret").unwrap());
    let registry = served.registry(known);
    for _ in 0..2 {
        let tags = registry.tags(&name("a")).await.unwrap().unwrap();
        let tags: Vec<&str> = tags.iter().map(Tag::as_str).collect();
        assert_eq!(tags, ["1", "2"]);
    }
    let token = "GET /token?service=s%20s&scope=repository%3Aa%3Apull";
    assert_eq!(served.count("GET /token"), 1);
    assert_eq!(served.count(token), 1, "{:?}", served.asked());
    let stranger = served.registry(AuthFile::default());
    let refused = stranger.tags(&name("a")).await;
    assert!(
        matches!(refused, Err(ClientError::Unauthorized { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_password_goes_where_it_is_asked_for_and_no_further() {
    let elsewhere = Served::start(|request: hyper::Request<_>| async move {
        let proved = request.headers().contains_key(AUTHORIZATION);
        answer(if proved { 500 } else { 200 }, &[], body("blob"))
    })
    .await;
    let target = format!("http://{}/content?x=1", elsewhere.address);
    let served = Served::start(move |request: hyper::Request<_>| {
        let target = target.clone();
        async move {
            match request.headers().get(AUTHORIZATION) {
                Some(value) if value == "Basic bWU6c2VjcmV0" => {
                    answer(307, &[("location", &target)], body(""))
                }
                _ => answer(401, &[("www-authenticate", "Basic realm=x")], body("")),
            }
        }
    })
    .await;
    let known = AuthFile::of(&served.endpoint(), Credentials::parse("me:secret").unwrap());
    let registry = served.registry(known);
    let (size, content) = registry
        .blob(&name("a"), &digest(b"blob"), 0)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(size, 4);
    assert_eq!(content.whole(10).await.unwrap().unwrap(), "blob");
    assert_eq!(elsewhere.asked(), ["GET /content?x=1"]);
}

#[tokio::test]
async fn redirects_that_go_on_for_ever_are_given_up() {
    let served =
        Served::start(|_| async { answer(302, &[("location", "/again")], body("")) }).await;
    let registry = served.registry(AuthFile::default());
    let refused = registry.blob(&name("a"), &digest(b"x"), 0).await;
    assert!(
        matches!(refused, Err(ClientError::Malformed(_))),
        "{refused:?}"
    );
    assert!(served.asked().len() < 10);
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let served = Served::start(|request: hyper::Request<_>| async move {
        match request.uri().query() {
            Some("n=1000") => {
                let next = r#"<http://other/v2/_catalog?n=1000&last=b>; rel="next""#;
                answer(
                    200,
                    &[("link", next)],
                    body(r#"{"repositories":["a","b"]}"#),
                )
            }
            _ => answer(200, &[], body(r#"{"repositories":["c","NOT"]}"#)),
        }
    })
    .await;
    let registry = served.registry(AuthFile::default());
    let names = registry.repositories().await.unwrap();
    let names: Vec<&str> = names.iter().map(RepositoryName::as_str).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[tokio::test]
async fn an_error_says_what_the_registry_says() {
    let text = r#"{"errors":[{"code":"DENIED","message":"not\u001b[1m here"}]}"#;
    let served = Served::start(move |_| async move { answer(403, &[], body(text)) }).await;
    let registry = served.registry(AuthFile::default());
    let refused = registry.manifest(&name("a"), &tag("1")).await.unwrap_err();
    assert_eq!(refused.to_string(), "403 Forbidden: DENIED not[1m here");
    assert!(!refused.is_passing());
}

#[test]
fn pages_are_followed_on_the_same_registry() {
    let table = [
        (
            r#"</v2/_catalog?last=a>; rel="next""#,
            Some("/v2/_catalog?last=a"),
        ),
        (
            r#"<http://other.example.org/v2/x>; rel=next"#,
            Some("/v2/x"),
        ),
        (r#"</v2/x>; rel="prev""#, None),
        ("/v2/x", None),
        (r#"<v2/x>; rel="next""#, None),
        (r#"<http://other>; rel="next""#, None),
        ("", None),
    ];
    for (link, expected) in table {
        assert_eq!(next_page(link).as_deref(), expected, "{link}");
    }
}
