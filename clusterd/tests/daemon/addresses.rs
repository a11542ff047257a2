//! Services of type `LoadBalancer` get addresses, and one of several clusterds writes them.

use cluster::rules::{ADDRESSES, ELECTION, Rule};

use super::*;

const POOL: &str = "[[pool]]\nname = \"lan\"\naddresses = [\"192.0.2.1-192.0.2.2\"]\n";

fn giver(double: &Double, identity: &str) -> Daemon {
    let mut daemon = Daemon::configured(&format!(
        "addresses.identity = \"{identity}\"\n{POOL}[api]\naddresses = [\"{}\"]\npage = 2\nwatch = \"10s\"\n",
        double.url()
    ));
    daemon.start();
    daemon
}

fn balanced(name: &str, created: u32) -> Value {
    let created = format!("2026-01-01T00:00:{created:02}Z");
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": created},
        "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
    })
}

fn address(double: &Double, name: &str) -> Option<String> {
    let service = double.get("services", &format!("shop/{name}"))?;
    let ip = service.pointer("/status/loadBalancer/ingress/0/ip")?;
    ip.as_str().map(str::to_owned)
}

fn events(double: &Double, name: &str) -> Vec<String> {
    let events = double.all("events");
    let events = events
        .iter()
        .filter(|event| event.pointer("/involvedObject/name") == Some(&json!(name)));
    events
        .map(|event| format!("{} {}", event["reason"], event["message"]).replace('"', ""))
        .collect()
}

async fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The verb, group, resource and name that the API server authorizes a request by.
fn is_allowed(request: &str) -> bool {
    let (method, target) = match request.split_once(' ') {
        Some((method, target)) => (method, target),
        None => ("GET", request),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path == "/version" {
        return true;
    }
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return false,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, name) = match rest {
        [resource] => ((*resource).to_owned(), ""),
        [resource, name] => ((*resource).to_owned(), *name),
        [resource, name, part] => (format!("{resource}/{part}"), *name),
        _ => return false,
    };
    let verb = match (method, name.is_empty(), query.contains("watch=1")) {
        ("GET", true, true) => "watch",
        ("GET", true, false) => "list",
        ("GET", false, _) => "get",
        ("POST", ..) => "create",
        ("PUT", ..) => "update",
        ("PATCH", ..) => "patch",
        _ => return false,
    };
    let reads = Kind::ALL
        .iter()
        .any(|kind| kind.group() == group && kind.resource() == resource);
    let admits = |rule: &Rule| {
        rule.group == group
            && rule.resources.contains(&resource.as_str())
            && rule.verbs.contains(&verb)
            && (rule.names.is_empty() || rule.names.contains(&name))
    };
    (reads && Kind::VERBS.contains(&verb)) || ADDRESSES.iter().chain(&ELECTION).any(admits)
}

#[tokio::test]
async fn a_service_gets_an_address_and_one_that_gets_none_is_told_why() {
    let double = populated();
    let daemon = giver(&double, "a");
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    double.set(|behaviour| behaviour.conflicts = 2);
    double.put("services", balanced("web", 1));
    wait("the first address", || address(&double, "web").is_some()).await;
    let first = address(&double, "web").expect("an address");
    assert!(
        ["192.0.2.1", "192.0.2.2"].contains(&first.as_str()),
        "{first}"
    );
    let service = double.get("services", "shop/web").expect("a Service");
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"][0]["ipMode"],
        "VIP"
    );
    let key = Key {
        kind: Kind::Service,
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    until(&link, "the address in the snapshot", |it| {
        matches!(it.get(&key).map(|it| &**it), Some(Object::Service(service)) if !service.ingress.is_empty())
    })
    .await;
    double.put("services", balanced("mail", 2));
    wait("the second address", || address(&double, "mail").is_some()).await;
    double.put("services", balanced("late", 3));
    double.put("services", balanced("later", 4));
    wait("an Event for each that waits", || {
        !events(&double, "late").is_empty() && !events(&double, "later").is_empty()
    })
    .await;
    assert_eq!(
        events(&double, "late"),
        ["AllocationFailed No address: no IPv4 address is left in lan"]
    );
    assert_eq!(
        events(&double, "web"),
        [format!("IPAllocated Assigned {first} from pool lan")]
    );
    shows_its_addresses(&daemon).await;
    // One is deleted: the older of both gets its address, and the others keep theirs.
    let kept = address(&double, "mail");
    double.delete("services", "shop/web");
    wait("the address that is free", || {
        address(&double, "late").as_ref() == Some(&first)
    })
    .await;
    assert_eq!(address(&double, "mail"), kept);
    assert_eq!(address(&double, "later"), None);
    // Another type gives the address back.
    let mut service = double.get("services", "shop/late").expect("a Service");
    service["spec"]["type"] = "ClusterIP".into();
    double.put("services", service);
    wait("the address that is given back", || {
        address(&double, "later").as_ref() == Some(&first)
    })
    .await;
    assert_eq!(address(&double, "late"), None);
    for request in double.requests() {
        assert!(is_allowed(&request), "no rule for {request}");
    }
}

/// Two Services have addresses, and two wait.
async fn shows_its_addresses(daemon: &Daemon) {
    let status: Value = serde_json::from_str(&daemon.ask("/status").await).expect("a status");
    for (path, expected) in [
        ("leads", json!(true)),
        ("given/lan", json!(2)),
        ("waiting/0/service", json!("shop/late")),
    ] {
        let found = status.pointer(&format!("/detail/addresses/{path}"));
        assert_eq!(found, Some(&expected), "{path}: {status:#}");
    }
    let metrics = daemon.ask("/metrics").await;
    for line in [
        "clusterd_leads 1",
        "clusterd_services_waiting 2",
        "clusterd_addresses{pool=\"lan\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

// Daemons are stopped while links are read.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_stay_over_restarts_and_one_of_two_writes() {
    let double = populated();
    let mut first = giver(&double, "a");
    double.put("services", balanced("web", 1));
    wait("an address", || address(&double, "web").is_some()).await;
    let given = address(&double, "web");
    let mut second = giver(&double, "b");
    let holder = || {
        let lease = double.get("leases", "kube-system/outpost-clusterd");
        let holder = lease.map(|lease| lease["spec"]["holderIdentity"].clone());
        holder.and_then(|holder| holder.as_str().map(str::to_owned))
    };
    assert_eq!(holder().as_deref(), Some("a"));
    // Stopped, it gives the Lease up: the other begins at once.
    first.stop();
    wait("the other holder", || holder().as_deref() == Some("b")).await;
    double.put("services", balanced("mail", 2));
    wait("an address from the other", || {
        address(&double, "mail").is_some()
    })
    .await;
    assert_eq!(address(&double, "web"), given);
    let mail = address(&double, "mail");
    assert_ne!(mail, given);
    // Killed, its Lease ends by itself; what it has given stays.
    second
        .child
        .take()
        .expect("it runs")
        .kill()
        .expect("killed");
    first.start();
    wait("the first again", || holder().as_deref() == Some("a")).await;
    double.delete("services", "shop/web");
    double.put("services", balanced("late", 3));
    wait("an address that is free", || {
        address(&double, "late") == given
    })
    .await;
    assert_eq!(address(&double, "mail"), mail);
    let status = first.ask("/status").await;
    let status: Value = serde_json::from_str(&status).expect("a status");
    assert_eq!(status["detail"]["addresses"]["holder"], "a", "{status:#}");
}

#[tokio::test]
async fn what_another_load_balancer_has_given_is_left_alone() {
    let double = populated();
    let mut foreign = balanced("foreign", 1);
    foreign["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.9"}]}});
    let mut of_class = balanced("class", 2);
    of_class["spec"]["loadBalancerClass"] = "other".into();
    double.put("services", foreign.clone());
    double.put("services", of_class);
    let _daemon = giver(&double, "a");
    double.put("services", balanced("web", 3));
    wait("an address", || address(&double, "web").is_some()).await;
    assert_eq!(address(&double, "foreign").as_deref(), Some("198.51.100.9"));
    assert_eq!(address(&double, "class"), None);
    let patches = double.requests();
    let patches = patches.iter().filter(|it| it.starts_with("PATCH"));
    assert_eq!(patches.count(), 1);
}

#[tokio::test]
async fn services_of_manifests_have_the_same_addresses_everywhere() {
    let text = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{type: LoadBalancer, ports: [{{port: 80}}]}}\n"
        )
    };
    let ingress = |snapshot: &Snapshot| -> Vec<String> {
        let services = snapshot.of_kind(Kind::Service);
        let each = services.map(|object| match &**object {
            Object::Service(service) => {
                let mut points = service.ingress.iter().filter_map(|point| point.ip);
                points.next().map_or_else(String::new, |ip| ip.to_string())
            }
            _ => String::new(),
        });
        each.collect()
    };
    let mut found = Vec::new();
    for order in [["web", "mail"], ["mail", "web"]] {
        let mut daemon = Daemon::configured(&format!("manifests = \"DIR/manifests\"\n{POOL}"));
        let place = daemon.path().join("manifests");
        fs::create_dir(&place).expect("a directory");
        daemon.start();
        let link = daemon.link();
        for (n, name) in order.iter().enumerate() {
            let new = place.join(".new");
            fs::write(&new, text(name)).expect("a file");
            fs::rename(&new, place.join(format!("{name}.yaml"))).expect("a rename");
            until(&link, "the Service", |it| services(it).len() == n + 1).await;
        }
        found.push(ingress(&link.current()));
        // Another pool counts with a reload, though no file is changed.
        let file = daemon.path().join("clusterd.toml");
        let text = fs::read_to_string(&file).expect("a file");
        fs::write(&file, text.replace("192.0.2.", "198.51.100.")).expect("a file");
        let child = daemon.child.as_ref().expect("it runs");
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("a signal");
        until(&link, "the other pool", |it| {
            let all = ingress(it);
            all.iter().all(|ip| ip.starts_with("198.51.100.")) && all.len() == 2
        })
        .await;
    }
    assert_eq!(found[0], found[1]);
    assert!(
        found[0].iter().all(|ip| ip.starts_with("192.0.2.")),
        "{found:?}"
    );
}
