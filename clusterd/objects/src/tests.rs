use std::net::IpAddr;
use std::time::Duration;

use cluster::{
    AddressType, EndpointSlice, IpFamily, Kind, Node, Object, Protocol, Ready, Service,
    ServiceType, TargetPort,
};
use serde_json::{Value, json};

use crate::answer::{self, AnswerError, Event, Refusal};
use crate::manifest::Manifests;
use crate::object::{self, read};

fn service(value: Value) -> Service {
    match read(Kind::Service, value).unwrap() {
        Object::Service(service) => *service,
        other => panic!("{other:?}"),
    }
}

fn slice(value: Value) -> EndpointSlice {
    match read(Kind::EndpointSlice, value).unwrap() {
        Object::EndpointSlice(slice) => slice,
        other => panic!("{other:?}"),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

//--- Objects

#[test]
fn a_service_is_read_as_the_api_writes_it() {
    let read = service(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
            "creationTimestamp": "2026-11-23T10:00:00Z",
            "annotations": {"metallb.io/address-pool": "edge", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [{"manager": "kubectl"}]},
        "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00::7"],
            "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
            "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Cluster", "healthCheckNodePort": 30100,
            "allocateLoadBalancerNodePorts": false, "selector": {"app": "web"}, "sessionAffinity": "None",
            "ports": [{"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080},
                      {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "VIP"}, {"hostname": "lb.example"}]}},
    }));
    assert_eq!(read.kind, ServiceType::LoadBalancer);
    assert_eq!(read.cluster_ips, [ip("10.96.0.7"), ip("fd00::7")]);
    assert_eq!(read.ip_families, [IpFamily::V4, IpFamily::V6]);
    assert!(read.external_local && !read.internal_local && !read.allocates_node_ports);
    assert_eq!(read.health_check_node_port, 30100);
    assert_eq!(read.ports[0].target, TargetPort::Name("web".to_owned()));
    assert_eq!(read.ports[1].target, TargetPort::Number(5353));
    assert_eq!(read.ports[1].protocol, Protocol::Udp);
    assert_eq!(read.ingress[0].ip, Some(ip("192.0.2.9")));
    assert_eq!(read.ingress[1].hostname, "lb.example");
    let kept: Vec<&String> = read.meta.annotations.keys().collect();
    assert_eq!(kept, ["metallb.io/address-pool"]);
}

#[test]
fn null_is_what_is_not_there() {
    let read = service(json!({
        "metadata": {"name": "a", "namespace": "b", "creationTimestamp": null, "labels": null},
        "spec": {"ports": null, "clusterIP": "None", "clusterIPs": null, "selector": null, "externalIPs": null},
        "status": {"loadBalancer": null},
    }));
    assert!(read.headless && read.ports.is_empty() && read.cluster_ips.is_empty());
    assert!(read.allocates_node_ports, "by default");
    let read = slice(json!({
        "metadata": {"name": "a-x", "namespace": "b", "labels": {"kubernetes.io/service-name": "a"}},
        "addressType": "IPv4", "endpoints": null, "ports": null,
    }));
    assert_eq!((read.service.as_str(), read.endpoints.len()), ("a", 0));
}

#[test]
fn conditions_that_nobody_states_have_their_defaults() {
    let read = slice(json!({
        "metadata": {"name": "a-x", "namespace": "b"}, "addressType": "IPv6",
        "endpoints": [
            {"addresses": ["fd00::1"]},
            {"addresses": ["fd00::2"], "conditions": {"ready": false, "serving": true, "terminating": true},
             "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "b", "name": "a-0"}},
            {"addresses": ["fd00::3"], "conditions": {"ready": false}},
        ],
    }));
    let states: Vec<_> = read
        .endpoints
        .iter()
        .map(|endpoint| (endpoint.ready, endpoint.serving, endpoint.terminating))
        .collect();
    assert_eq!(
        states,
        [
            (true, true, false),
            (false, true, true),
            (false, false, false)
        ]
    );
    assert_eq!(read.endpoints[1].pod, "b/a-0");
}

#[test]
fn old_slices_have_their_node_in_the_topology() {
    let read = slice(json!({
        "metadata": {"name": "a-x", "namespace": "b"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "topology":
            {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "z"}}],
        "ports": [{"name": "", "protocol": "TCP", "port": 80}],
    }));
    assert_eq!(read.endpoints[0].node, "n1");
    assert_eq!(read.endpoints[0].zone, "z");
}

#[test]
fn a_slice_of_names_has_no_endpoints() {
    let read = slice(json!({
        "metadata": {"name": "a-x", "namespace": "b"}, "addressType": "FQDN",
        "endpoints": [{"addresses": ["www.example"]}],
    }));
    assert_eq!(read.address_type, AddressType::Fqdn);
    assert!(read.endpoints.is_empty());
}

#[test]
fn a_node_is_read_as_the_api_writes_it() {
    let node = |conditions: Value| {
        let read = read(
            Kind::Node,
            json!({
                "metadata": {"name": "master-0", "labels": {"node-role.kubernetes.io/master": ""}},
                "spec": {"unschedulable": true, "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": null}]},
                "status": {"addresses": [{"type": "InternalIP", "address": "192.168.7.13"}],
                    "conditions": conditions, "images": [{"names": ["x"], "sizeBytes": 7}]},
            }),
        );
        match read.unwrap() {
            Object::Node(node) => node,
            other => panic!("{other:?}"),
        }
    };
    let Node { ready, .. } = node(Value::Null);
    assert_eq!(ready, Ready::Unknown);
    let read = node(json!([
        {"type": "Ready", "status": "False"}, {"type": "NetworkUnavailable", "status": "True"}]));
    assert_eq!(read.ready, Ready::False);
    assert!(read.network_unavailable && read.unschedulable);
    assert_eq!(read.addresses[0].address, "192.168.7.13");
    assert_eq!(read.taints[0].key, "a");
}

#[test]
fn an_object_that_cannot_be_read_is_named() {
    for (value, name, problem) in [
        (
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"ports": [{"port": 70000}]}}),
            "service b/a",
            "70000",
        ),
        (
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"clusterIPs": ["10.0.0"]}}),
            "service b/a",
            "no IP address",
        ),
        (
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": "x"}),
            "service b/a",
            "invalid type",
        ),
        (
            json!({"metadata": {"name": "A b"}}),
            "a service without a name",
            "is no name",
        ),
        (json!(7), "a service without a name", "invalid type"),
    ] {
        let error = read(Kind::Service, value).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(name) && text.contains(problem), "{text}");
        assert_eq!(error.key.is_some(), name == "service b/a");
    }
}

#[test]
fn texts_that_are_too_long_are_left_out() {
    let long = "x".repeat(5000);
    let read = service(json!({
        "metadata": {"name": "a", "namespace": "b", "annotations":
            {"metallb.io/address-pool": long, "metallb.io/allow-shared-ip": "k", "metallb.io/x": 7}},
    }));
    let kept: Vec<&String> = read.meta.annotations.values().collect();
    assert_eq!(kept, ["k"]);
}

//--- Answers

fn namespaces(items: &str) -> String {
    format!(
        r#"{{"kind":"NamespaceList","apiVersion":"v1","metadata":{{"resourceVersion":"1001","continue":"abc","remainingItemCount":7}},"items":{items}}}"#
    )
}

#[test]
fn a_bad_item_harms_no_other() {
    let body = namespaces(
        r#"[{"metadata":{"name":"a"}},{"metadata":{"name":7}},{"metadata":{"name":"c"}}]"#,
    );
    let page = answer::page(Kind::Namespace, body.as_bytes(), 10).unwrap();
    assert_eq!((page.objects.len(), page.bad.len()), (2, 1));
    assert_eq!(page.version, "1001");
    assert_eq!(page.next.as_deref(), Some("abc"));
    let page = answer::page(Kind::Namespace, namespaces("null").as_bytes(), 10).unwrap();
    assert!(page.objects.is_empty());
}

#[test]
fn what_is_no_list_is_no_empty_list() {
    for body in [
        "",
        "{}",
        "[]",
        r#"{"kind":"Status","metadata":{},"status":"Failure"}"#,
        r#"{"metadata":{"resourceVersion":"1"}}"#,
        &namespaces("[{]"),
        namespaces("[]").get(..40).unwrap(),
        &(namespaces("[]") + "x"),
    ] {
        let read = answer::page(Kind::Namespace, body.as_bytes(), 10);
        assert!(matches!(read, Err(AnswerError::Malformed(_))), "{body}");
    }
    let many = namespaces(&format!(
        "[{}]",
        [r#"{"metadata":{"name":"a"}}"#; 11].join(",")
    ));
    let read = answer::page(Kind::Namespace, many.as_bytes(), 10);
    assert_eq!(read, Err(AnswerError::TooMany(10)));
}

#[test]
fn events_are_read_as_the_api_writes_them() {
    let event = |line: &str| answer::event(Kind::Service, line.as_bytes()).unwrap();
    let object = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"b","resourceVersion":"1002"}}"#;
    match event(&format!(r#"{{"type":"ADDED","object":{object}}}"#)) {
        Event::Put { object, version } => {
            assert_eq!(
                (object.key().to_string().as_str(), version.as_str()),
                ("service b/a", "1002")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        event(&format!(r#"{{"type":"DELETED","object":{object}}}"#)),
        Event::Delete { version, .. } if version == "1002"
    ));
    let bookmark = |annotations: &str| {
        event(&format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Service","metadata":{{"resourceVersion":"1100","creationTimestamp":null{annotations}}},"spec":{{}}}}}}"#
        ))
    };
    let is_end = |event| {
        matches!(
            event,
            Event::Bookmark {
                initial_end: true,
                ..
            }
        )
    };
    assert!(!is_end(bookmark("")));
    assert!(is_end(bookmark(
        r#","annotations":{"k8s.io/initial-events-end":"true"}"#
    )));
    match event(
        r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old resource version: 1000 (2000)","reason":"Expired","code":410}}"#,
    ) {
        Event::Refused(refusal) => assert!(refusal.is_expired()),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        event(r#"{"type":"NEWS"}"#),
        Event::Unknown("NEWS".to_owned())
    );
    assert!(matches!(
        event(r#"{"type":"ADDED","object":null}"#),
        Event::Bad { .. }
    ));
    assert!(matches!(event(r#"{"type":"DELETED"}"#), Event::Bad { .. }));
    for line in ["", "{", "7", r#"{"type":7}"#, "\u{fffd}"] {
        assert!(
            answer::event(Kind::Service, line.as_bytes()).is_err(),
            "{line}"
        );
    }
}

#[test]
fn a_refusal_is_read_from_a_status_or_a_text() {
    let body = br#"{"kind":"Status","status":"Failure","message":"Timeout: Too large resource version","reason":"Timeout","details":{"retryAfterSeconds":1},"code":504}"#;
    let refusal = Refusal::read(504, body);
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
    assert_eq!(refusal.reason, "Timeout");
    let refusal = Refusal::read(429, b"Too many requests,\nplease try again later.\n");
    assert_eq!(
        refusal.to_string(),
        "429 Too many requests, please try again later."
    );
    assert_eq!(Refusal::read(502, b"\xff\x00").code, 502);
}

#[test]
fn versions_of_servers_are_read() {
    for (body, minor) in [
        (r#"{"major":"1","minor":"34"}"#, Some(34)),
        (r#"{"major":"1","minor":"27+"}"#, Some(27)),
        (r#"{"major":"2","minor":"0"}"#, None),
        ("{}", None),
        ("no", None),
    ] {
        assert_eq!(answer::minor_version(body.as_bytes()), minor, "{body}");
    }
}

//--- Manifests

const MANIFEST: &str = "
apiVersion: v1
kind: Namespace
metadata:
  name: shop
---
---
apiVersion: v1
kind: List
metadata: {resourceVersion: ''}
items:
- apiVersion: v1
  kind: Service
  metadata: {name: web}
  spec:
    ports: [{port: 80}]
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
- apiVersion: v1
  kind: Service
  metadata: {name: bad, namespace: shop}
  spec: {clusterIP: nowhere}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web, namespace: shop}
subsets:
- addresses: [{ip: 192.0.2.1}, {ip: 'fd00::1'}]
  notReadyAddresses: [{ip: 192.0.2.2}]
  ports: [{port: 8080, name: http}]
";

#[test]
fn manifests_are_filled_in_and_named_when_they_are_bad() {
    let mut manifests = Manifests::default();
    manifests.add("a.yaml", MANIFEST);
    manifests.add(
        "b.json",
        r#"{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"web"}},{"metadata":{"name":"two"}}]}"#,
    );
    manifests.add("c.yaml", "a: [");
    manifests.add("d.yaml", "name: x\n");
    let problems: Vec<String> = manifests.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4, "{problems:#?}");
    assert!(problems[0].starts_with("a.yaml: service shop/bad cannot be read"));
    assert!(manifests.problems[0].key.is_some());
    assert_eq!(
        problems[1],
        "b.json: service default/web is in a.yaml already; that one counts"
    );
    assert!(problems[2].starts_with("c.yaml: "));
    assert!(problems[3].ends_with("a document has no `kind`"));
    assert_eq!(manifests.n_others, 1);
    let objects = manifests.into_objects();
    let names: Vec<String> = objects
        .iter()
        .map(|object| object.key().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "namespace shop",
            "service default/two",
            "service default/web",
            "endpointslice shop/web-1-ipv4",
            "endpointslice shop/web-1-ipv6",
        ]
    );
    match &objects[2] {
        Object::Service(service) => {
            assert_eq!(service.ports[0].target, TargetPort::Number(80));
            assert!(!service.headless && service.cluster_ips.is_empty());
        }
        other => panic!("{other:?}"),
    }
    match &objects[3] {
        Object::EndpointSlice(slice) => {
            let ready: Vec<bool> = slice.endpoints.iter().map(|it| it.ready).collect();
            assert_eq!((slice.service.as_str(), ready), ("web", vec![true, false]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_of_any_kind_are_no_panic() {
    let texts = [
        MANIFEST,
        "[[[[",
        "{\"kind\":\"List\",\"items\":7}",
        "&a [*a, *a]",
        "- 1\n- 2",
        "\u{0}",
    ];
    for text in texts {
        for end in 0..=text.len() {
            let Some(part) = text.get(..end) else {
                continue;
            };
            let mut manifests = Manifests::default();
            manifests.add("x", part);
            for kind in Kind::ALL {
                drop(answer::page(kind, part.as_bytes(), 10));
                drop(answer::event(kind, part.as_bytes()));
                drop(object::key(kind, &Value::String(part.to_owned())));
            }
        }
    }
}
