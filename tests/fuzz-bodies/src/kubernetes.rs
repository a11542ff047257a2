//! Any bytes as what clusterd reads: answers of the API, events of a watch, a Lease, manifests, a kubeconfig.

use std::path::Path;

use cluster::{Kind, Object};
use cluster_objects::answer::{self, AnswerError, Event, Refusal};
use cluster_objects::kubeconfig;
use cluster_objects::manifest::{self, Manifests};

/// The most items of a list.
const MOST: usize = 4;
/// The longest text of a server that clusterd shows.
const LONGEST_MESSAGE: usize = 300;

pub(super) fn body(data: &[u8]) {
    for kind in Kind::ALL {
        page(kind, data);
        for line in data.split(|&byte| byte == b'\n') {
            event(kind, line);
        }
    }
    for code in [401, 410, 429, 500] {
        let refusal = Refusal::read(code, data);
        assert_eq!(refusal.code, code);
        shown(&refusal);
    }
    if let Ok(seen) = cluster_election::read(data) {
        let version = Some(seen.version.as_str());
        let written = cluster_election::object(&seen.lease, "n", "l", version).to_string();
        assert_eq!(cluster_election::read(written.as_bytes()), Ok(seen));
    }
    if let Some(minor) = answer::minor_version(data) {
        assert!(data.windows(5).any(|text| text == b"minor"), "{minor}");
    }
    if let Ok(text) = std::str::from_utf8(data) {
        manifests(text);
        if let Ok(read) = kubeconfig::read(text, Path::new("/etc/outpost")) {
            for file in read.files() {
                assert!(file.is_absolute(), "{}", file.display());
            }
        }
    }
}

fn page(kind: Kind, data: &[u8]) {
    match answer::page(kind, data, MOST) {
        Ok(page) => {
            assert!(page.objects.len() + page.bad.len() <= MOST);
            page.objects.iter().for_each(|object| check(kind, object));
            assert_ne!(
                page.next.as_deref(),
                Some(""),
                "no page follows an empty token"
            );
            for error in &page.bad {
                assert!(
                    !error.name.is_empty() && !error.problem.is_empty(),
                    "{error:?}"
                );
            }
        }
        Err(AnswerError::TooMany(most)) => assert_eq!(most, MOST),
        Err(AnswerError::Malformed(problem)) => assert!(!problem.is_empty()),
    }
}

fn event(kind: Kind, line: &[u8]) {
    match answer::event(kind, line) {
        Ok(Event::Put { object, .. }) => check(kind, &object),
        Ok(Event::Delete { key, .. }) => {
            assert_eq!(key.kind, kind);
            assert_eq!(key.namespace.is_empty(), !kind.is_namespaced(), "{key}");
        }
        Ok(Event::Refused(refusal)) => shown(&refusal),
        Ok(Event::Unknown(name)) => one_line(&name),
        Ok(Event::Bookmark { .. } | Event::Bad { .. }) | Err(_) => {}
    }
}

/// An object is of the kind that was asked for, and can be found again by its key.
fn check(kind: Kind, object: &Object) {
    let key = object.key();
    assert_eq!(key.kind, kind);
    assert!(!key.name.is_empty());
    assert_eq!(key.namespace.is_empty(), !kind.is_namespaced(), "{key}");
}

/// A text of a server fits into a line of a log.
fn shown(refusal: &Refusal) {
    one_line(&refusal.message);
    one_line(&refusal.reason);
}

fn one_line(text: &str) {
    assert!(text.chars().count() <= LONGEST_MESSAGE, "{text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

/// A text that cannot be parsed has no objects; one that comes twice adds none.
fn manifests(text: &str) {
    let mut read = Manifests::default();
    read.add("a.yaml", text);
    let (n_objects, n_problems) = (read.len(), read.problems.len());
    if manifest::check(text).is_some() {
        assert_eq!((n_objects, n_problems), (0, 1), "{:?}", read.problems);
    }
    read.add("b.yaml", text);
    assert_eq!(read.len(), n_objects);
    assert!(read.problems.len() >= 2 * n_problems);
    for object in read.into_objects() {
        check(object.kind(), &object);
    }
}

/// Pieces of such texts.
pub(super) const WORDS: &[&str] = &[
    "{\"kind\":\"ServiceList\",\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"a\"},\"items\":[",
    "{\"type\":\"ADDED\",\"object\":",
    "{\"type\":\"DELETED\",\"object\":",
    "{\"type\":\"BOOKMARK\",\"object\":",
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}",
    "\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}",
    "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}",
    "\"labels\":{\"kubernetes.io/service-name\":\"a\"}",
    "\"spec\":{\"clusterIP\":\"None\",\"clusterIPs\":[\"172.30.0.1\",\"fd02::1\"]}",
    "\"ports\":[{\"port\":80,\"targetPort\":\"web\",\"protocol\":\"SCTP\"}]",
    "\"endpoints\":[{\"addresses\":[\"10.128.0.7\"],\"conditions\":{\"ready\":null}}]",
    "\"addressType\":\"FQDN\"",
    "\"retryAfterSeconds\":18446744073709551615",
    "null",
    "-1",
    "65536",
    "]}",
    "\n",
    "\n---\n",
    "apiVersion: v1\nkind: List\nitems:\n- ",
    "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n",
    "kind: Endpoints\nsubsets: [{addresses: [{ip: 10.128.0.7}], ports: [{port: 1}]}]\n",
    "metadata: {name: a}\n",
    "&a [*a]",
    "<<: *a",
    "!!binary ",
    "current-context: a\n",
    "contexts: [{name: a, context: {cluster: a, user: a}}]\n",
    "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: ca.crt}}]\n",
    "users: [{name: a, user: {client-key-data: YQ==}}]\n",
];
