use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::WWW_AUTHENTICATE;
use hyper::{Method, Request, StatusCode};
use oci::glob::Glob;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use serde_json::Value;

use super::acl::{Acl, AclParts, Rule};
use super::*;

const CLIENT: &str = "192.0.2.9:40000";

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

fn peer() -> Peer {
    Peer {
        is_tls: true,
        ..Peer::plain(CLIENT.parse().unwrap())
    }
}

fn head(method: Method, uri: &str, authorization: Option<&str>) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    request = request.header(HOST, "registry.example.org:5443");
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    request.body(()).unwrap().into_parts().0
}

fn get(authorization: Option<&str>) -> Parts {
    head(Method::GET, "/v2/", authorization)
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn users() -> Users {
    let hash = bcrypt::hash("secret", 4).unwrap();
    Users::parse(
        Path::new("users"),
        &format!("alice:{hash}\nreader:{hash}\n"),
    )
    .unwrap()
}

fn tokens() -> Tokens {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let signer = Signer::from_pkcs8(key.as_ref()).unwrap();
    Tokens {
        keys: vec![signer.public()],
        signer: Arc::new(signer),
        lifetime: Duration::from_mins(5),
        refresh: Duration::from_hours(1),
        realm: None,
    }
}

/// Alice does everything but in `ops`, the reader pulls, strangers pull what is public.
fn policy() -> Policy {
    let rule = |repositories, users: &[&str], actions, anonymous| Rule {
        repositories: Glob::parse(repositories).unwrap(),
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        groups: BTreeSet::from(["ops".to_owned()]),
        actions,
        anonymous,
    };
    let acl = Acl::new(AclParts {
        rules: vec![
            rule("**", &["alice"], Actions::ALL, Actions::NONE),
            rule("app/**", &["alice"], Actions::ALL, Actions::NONE),
            rule("app/**", &["reader"], Actions::PULL, Actions::NONE),
            rule("public/**", &["*"], Actions::PULL, Actions::PULL),
            rule("ops/**", &[], Actions::ALL, Actions::NONE),
        ],
        groups: BTreeMap::new(),
        ..AclParts::default()
    });
    Policy {
        acl,
        users: Some(users()),
        tokens: Some(tokens()),
        certificates: CertificateName::CommonName,
        service: DEFAULT_SERVICE.to_owned(),
    }
}

fn want(repository: &str, action: Action) -> [Want<'_>; 1] {
    [Want { repository, action }]
}

fn check(access: &Access, head: &Parts, wants: &[Want<'_>]) -> Result<Identity, Refusal> {
    block_on(access.check(head, &peer(), wants))
}

fn challenge(result: Result<Identity, Refusal>) -> String {
    match result {
        Err(Refusal::Unauthorized { challenge }) => challenge.to_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

fn token(access: &Access, head: &Parts, body: &str) -> (StatusCode, Value) {
    let response = block_on(access.token(head, &peer(), body.as_bytes()));
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        assert!(response.headers().contains_key(WWW_AUTHENTICATE));
    }
    (status, serde_json::from_slice(response.body()).unwrap())
}

/// The token that a client of this name gets for a scope.
fn bearer(access: &Access, authorization: Option<&str>, scope: &str) -> String {
    let uri = format!("/token?service={DEFAULT_SERVICE}&scope={scope}");
    let (status, value) = token(access, &head(Method::GET, &uri, authorization), "");
    assert_eq!(status, StatusCode::OK, "{value}");
    format!("Bearer {}", value["token"].as_str().unwrap())
}

#[test]
fn an_open_registry_asks_nobody() {
    let access = Access::open();
    let wants = want("a", Action::Delete);
    assert!(check(&access, &get(None), &wants).is_ok());
    assert!(check(&access, &get(Some("Basic ???")), &[]).is_ok());
    assert_eq!(access.challenge_of_base(&get(None), &peer()), None);
    let (status, _) = token(&access, &get(None), "");
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[test]
fn where_nobody_is_known_nobody_is_asked() {
    let access = Access::new(Policy {
        acl: Acl::new(AclParts {
            anonymous: Actions::PUSH,
            ..AclParts::default()
        }),
        ..Policy::open()
    });
    assert!(check(&access, &get(None), &[]).is_ok());
    assert!(check(&access, &get(None), &want("a", Action::Push)).is_ok());
    let denied = check(&access, &get(None), &want("a", Action::Delete));
    assert_eq!(denied, Err(Refusal::Denied));
}

#[test]
fn the_base_tells_where_to_fetch_a_token() {
    let access = Access::new(policy());
    assert_eq!(
        challenge(check(&access, &get(None), &[])),
        "Bearer realm=\"https://registry.example.org:5443/token\",service=\"outpost-registry\""
    );
    // HTTP/2 has the name in the URI.
    let head = head(Method::GET, "http://quay.example.org/v2/", None);
    let plain = Peer::plain(CLIENT.parse().unwrap());
    let told = challenge(block_on(access.check(&head, &plain, &[])));
    assert!(
        told.starts_with("Bearer realm=\"http://quay.example.org/token\""),
        "{told}"
    );
}

#[test]
fn passwords_let_users_in_and_rules_decide() {
    let access = Access::new(policy());
    let alice = basic("alice", "secret");
    let reader = basic("reader", "secret");
    let ok = check(&access, &get(Some(&alice)), &want("app/x", Action::Push));
    assert_eq!(ok.unwrap().name(), Some("alice"));
    let denied = check(&access, &get(Some(&reader)), &want("app/x", Action::Push));
    assert_eq!(denied, Err(Refusal::Denied));
    for wrong in [
        basic("alice", "wrong"),
        basic("nobody", "secret"),
        "Basic ???".to_owned(),
        "Digest x".to_owned(),
        "Basic".to_owned(),
    ] {
        let told = challenge(check(&access, &get(Some(&wrong)), &[]));
        assert!(told.starts_with("Bearer "), "{wrong}: {told}");
    }
}

#[test]
fn strangers_pull_what_is_public_and_are_asked_for_the_rest() {
    let access = Access::new(policy());
    let public = want("public/tools", Action::Pull);
    assert!(check(&access, &get(None), &public).is_ok());
    // Some clients send an empty name and password.
    assert!(check(&access, &get(Some("Basic Og==")), &public).is_ok());
    let told = challenge(check(&access, &get(None), &want("app/x", Action::Pull)));
    assert!(told.ends_with(",scope=\"repository:app/x:pull\""), "{told}");
    let stranger = bearer(&access, None, "repository:public/tools:pull");
    assert!(check(&access, &get(Some(&stranger)), &[]).is_ok());
    assert!(check(&access, &get(Some(&stranger)), &public).is_ok());
}

#[test]
fn a_token_grants_what_was_asked_for_and_no_more() {
    let access = Access::new(policy());
    let alice = basic("alice", "secret");
    let token = bearer(&access, Some(&alice), "repository:app/x:pull,push");
    let may = |wants: &[Want<'_>]| check(&access, &get(Some(&token)), wants);
    assert!(may(&want("app/x", Action::Push)).is_ok());
    let told = challenge(may(&want("app/x", Action::Delete)));
    assert!(
        told.ends_with(",scope=\"repository:app/x:delete\",error=\"insufficient_scope\""),
        "{told}"
    );
    let reader = basic("reader", "secret");
    let token = bearer(&access, Some(&reader), "repository:app/x:pull,push");
    let denied = check(&access, &get(Some(&token)), &want("app/x", Action::Push));
    assert_eq!(denied, Err(Refusal::Denied));
    let told = challenge(check(&access, &get(Some("Bearer x.y.z")), &[]));
    assert!(told.ends_with(",error=\"invalid_token\""), "{told}");
}

#[test]
fn a_right_that_is_taken_away_is_gone_at_once() {
    let before = policy();
    let tokens = before.tokens.clone();
    let access = Access::new(before);
    let alice = basic("alice", "secret");
    let token = bearer(&access, Some(&alice), "repository:app/x:push");
    let wants = want("app/x", Action::Push);
    assert!(check(&access, &get(Some(&token)), &wants).is_ok());
    access.adopt(Policy {
        acl: Acl::default(),
        tokens,
        ..policy()
    });
    let denied = check(&access, &get(Some(&token)), &wants);
    assert_eq!(denied, Err(Refusal::Denied));
}

#[test]
fn a_token_of_another_node_is_accepted() {
    let (here, there) = (policy(), policy());
    let key = there.tokens.as_ref().unwrap().signer.public();
    let there = Access::new(there);
    let mut tokens = here.tokens.clone().unwrap();
    tokens.keys.push(key);
    let here = Access::new(Policy {
        tokens: Some(tokens),
        ..here
    });
    let alice = basic("alice", "secret");
    let token = bearer(&there, Some(&alice), "repository:app/x:pull");
    let wants = want("app/x", Action::Pull);
    assert!(check(&here, &get(Some(&token)), &wants).is_ok());
    let token = bearer(&here, Some(&alice), "repository:app/x:pull");
    assert!(check(&there, &get(Some(&token)), &wants).is_err());
}

#[test]
fn refresh_tokens_end_with_the_password() {
    let access = Access::new(policy());
    let post = head(Method::POST, "/token", None);
    let form = "grant_type=password&username=alice&password=secret&access_type=offline&scope=repository:app/x:pull";
    let (status, value) = token(&access, &post, form);
    assert_eq!(status, StatusCode::OK);
    assert_eq!(value["scope"], "repository:app/x:pull");
    assert!(value["expires_in"].as_u64().unwrap() >= 60);
    let refresh = value["refresh_token"].as_str().unwrap();
    let form = format!("grant_type=refresh_token&refresh_token={refresh}");
    assert_eq!(token(&access, &post, &form).0, StatusCode::OK);
    // It lets nobody into a repository.
    let bearer = format!("Bearer {refresh}");
    assert!(check(&access, &get(Some(&bearer)), &[]).is_err());
    let changed = Policy {
        tokens: access.policy().tokens.clone(),
        ..policy()
    };
    access.adopt(changed);
    let (status, value) = token(&access, &post, &form);
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(value["error"], "invalid_grant");
    assert_eq!(value["errors"][0]["code"], "UNAUTHORIZED");
}

#[test]
fn what_is_no_request_for_a_token_is_refused() {
    let access = Access::new(policy());
    let post = head(Method::POST, "/token", None);
    for form in ["", "grant_type=magic", "\u{0}"] {
        assert_eq!(token(&access, &post, form).0, StatusCode::BAD_REQUEST);
    }
    let wrong = "grant_type=password&username=alice&password=wrong";
    assert_eq!(token(&access, &post, wrong).0, StatusCode::UNAUTHORIZED);
    let delete = head(Method::DELETE, "/token", None);
    assert_eq!(
        token(&access, &delete, "").0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    let closed = Access::new(Policy {
        acl: Acl::default(),
        ..policy()
    });
    let stranger = head(Method::GET, "/token", None);
    assert_eq!(token(&closed, &stranger, "").0, StatusCode::UNAUTHORIZED);
}

#[test]
fn a_certificate_says_who_somebody_is_and_in_which_groups() {
    let access = Access::new(policy());
    let subject = Subject {
        common_name: Some("machine".to_owned()),
        organizations: vec!["ops".to_owned()],
        ..Subject::default()
    };
    let machine = Peer {
        certificate: Some(Arc::new(subject)),
        ..peer()
    };
    let wants = want("ops/x", Action::Delete);
    let identity = block_on(access.check(&get(None), &machine, &wants)).unwrap();
    assert_eq!(identity.name(), Some("machine"));
    // What is said in words wins.
    let alice = basic("alice", "secret");
    let denied = block_on(access.check(&get(Some(&alice)), &machine, &wants));
    assert_eq!(denied, Err(Refusal::Denied));
    access.adopt(Policy {
        certificates: CertificateName::None,
        ..policy()
    });
    assert!(block_on(access.check(&get(None), &machine, &wants)).is_err());
}

#[test]
fn without_tokens_a_password_is_asked_for_in_each_request() {
    let access = Access::new(Policy {
        tokens: None,
        ..policy()
    });
    // Who may pull without one is let in, and still learns that there are passwords.
    assert!(check(&access, &get(None), &[]).is_ok());
    let told = access.challenge_of_base(&get(None), &peer()).unwrap();
    assert_eq!(told, "Basic realm=\"outpost-registry\"");
    let told = challenge(check(&access, &get(None), &want("app/x", Action::Push)));
    assert_eq!(told, "Basic realm=\"outpost-registry\"");
    let closed = Access::new(Policy {
        tokens: None,
        acl: Acl::new(AclParts {
            default: Actions::ALL,
            ..AclParts::default()
        }),
        ..policy()
    });
    assert!(check(&closed, &get(None), &[]).is_err());
    assert!(check(&closed, &get(Some("Bearer x")), &[]).is_err());
}

#[test]
fn a_node_may_do_what_its_client_was_let_in_for() {
    let access = Access::new(policy());
    let node = Peer {
        node: Some("master-1".into()),
        ..peer()
    };
    let wants = want("ops/x", Action::Delete);
    let identity = block_on(access.check(&get(None), &node, &wants)).unwrap();
    assert!(access.allows(&identity, "ops/x", Action::Push));
}

#[test]
fn lists_show_what_may_be_pulled() {
    let access = Access::new(policy());
    let all = || vec!["app/x", "ops/x", "public/x", "z"];
    let reader = basic("reader", "secret");
    let wants = want("", Action::Catalog);
    let identity = check(&access, &get(Some(&reader)), &wants).unwrap();
    assert_eq!(access.listed(&identity, all()), ["app/x", "public/x"]);
    let token = bearer(&access, Some(&reader), "registry:catalog:*");
    let identity = check(&access, &get(Some(&token)), &wants).unwrap();
    assert_eq!(access.listed(&identity, all()), ["app/x", "public/x"]);
    let stranger = check(&access, &get(None), &wants).unwrap();
    assert_eq!(access.listed(&stranger, all()), ["public/x"]);
    assert!(!access.allows(&stranger, "app/x", Action::Pull));
}

#[test]
fn where_no_client_can_be_known_a_password_neither_helps_nor_hurts() {
    let access = Access::new(Policy {
        acl: Acl::new(AclParts {
            anonymous: Actions::PULL,
            ..AclParts::default()
        }),
        ..Policy::open()
    });
    let want = |action| Want {
        repository: "ocp4/release",
        action,
    };
    for authorization in [None, Some(basic("pull", "secret"))] {
        let head = get(authorization.as_deref());
        let check = |wants: &[Want<'_>]| block_on(access.check(&head, &peer(), wants)).err();
        assert!(check(&[]).is_none());
        assert!(check(&[want(Action::Pull)]).is_none());
        for action in [Action::Push, Action::Delete] {
            assert!(matches!(check(&[want(action)]), Some(Refusal::Denied)));
        }
    }
}
