//! The facts of a site for the verbs that run on its nodes: `/etc/outpost/site.json`.
//!
//! Stable: fields are added, and mean the same for ever.

use serde_json::{Value, json};

use super::own_targets::{OwnTarget, Question, own_targets};
use site::paths;
use site::service::Service;
use site::{Node, Role, Site};

/// The file's own name.
pub(super) const NAME: &str = "site.json";

/// Renders the file.
pub(super) fn render(site: &Site, node: &Node) -> String {
    let targets = own_targets(site, node);
    let services = Service::ALL
        .into_iter()
        .filter(|service| node.services.contains(service));
    let service = |service: Service| {
        let target = targets.iter().find(|target| target.service == service);
        json!({
            "name": service.name(),
            "admin": paths::admin(service).to_string(),
            "target": target.map(target_value),
        })
    };
    let facts = json!({
        "version": 1,
        "site": site.name,
        "domain": site.domain,
        "node": node.name,
        "services": services.map(service).collect::<Vec<Value>>(),
        "nodes": site.nodes.iter().map(node_value).collect::<Vec<Value>>(),
    });
    format!("{facts:#}\n")
}

/// The probe of a service, in the words of healthd's configuration.
fn target_value(target: &OwnTarget) -> Value {
    let address = target.address.to_string();
    match &target.question {
        Question::Dns { name } => json!({ "kind": "dns", "address": address, "name": name }),
        Question::Ntp => json!({ "kind": "ntp", "address": address }),
        Question::Http { path } => json!({ "kind": "http", "address": address, "path": path }),
        Question::Https { host, path, status } => json!({
            "kind": "https", "address": address, "path": path, "host": host, "status": status,
        }),
    }
}

fn node_value(node: &Node) -> Value {
    let role = match node.role {
        Role::Master => "master",
        Role::Worker => "worker",
    };
    let addresses: Vec<String> = node.addresses.iter().map(ToString::to_string).collect();
    let services: Vec<&str> = node.services.iter().map(|one| one.name()).collect();
    json!({ "name": node.name, "role": role, "addresses": addresses, "services": services })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_knows_its_one_service_and_all_nodes() {
        let site = Site::example();
        let facts: Value = serde_json::from_str(&render(&site, &site.nodes[3])).unwrap();
        assert_eq!(facts["node"], "worker-0");
        assert_eq!(facts["services"].as_array().unwrap().len(), 1);
        assert_eq!(
            facts["services"][0]["target"],
            json!({ "kind": "http", "address": "127.0.0.1:9406", "path": "/readyz" })
        );
        assert_eq!(facts["nodes"].as_array().unwrap().len(), 6);
        assert_eq!(facts["nodes"][1]["addresses"], json!(["192.168.7.14"]));
    }
}
