//! Writes the documents that follow from the code.
//!
//! | | |
//! | --- | --- |
//! | `docs/reference/SERVICE.md` | every key of the service's configuration |
//! | `docs/reference/SERVICE.schema.json` | its JSON schema, for editors |
//! | `deploy/config/SERVICE.toml` | the template: every key with its default |
//! | `deploy/config/site.toml` | the template of a site: the one that Outpost was made for |
//! | `docs/man/*.1` | the manual of every command |
//!
//! `make generate` runs it; CI fails when a document is not the one that it writes.

mod man;
mod reference;
mod schema;
mod site;
mod template;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use config::clusterd::Clusterd;
use config::dns_authd::DnsAuthd;
use config::dns_recursor::DnsRecursor;
use config::healthd::Healthd;
use config::lb_proxy::LbProxy;
use config::registry_svc::RegistrySvc;
use config::schema;
use config::timesync_agent::TimesyncAgent;
use serde_json::Value;

/// A service and the schema of its configuration.
struct Service {
    name: &'static str,
    schema: Value,
}

fn services() -> Vec<Service> {
    let service = |name, schema| Service { name, schema };
    vec![
        service("clusterd", schema::<Clusterd>()),
        service("healthd", schema::<Healthd>()),
        service("dns-authd", schema::<DnsAuthd>()),
        service("dns-recursor", schema::<DnsRecursor>()),
        service("lb-proxy", schema::<LbProxy>()),
        service("timesync-agent", schema::<TimesyncAgent>()),
        service("registry-svc", schema::<RegistrySvc>()),
    ]
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for service in services() {
        let Service { name, schema } = &service;
        let reference = root.join("docs/reference");
        write(
            &reference.join(format!("{name}.md")),
            &reference::page(name, &reference::of_service(name), schema),
        )?;
        let json = format!("{schema:#}\n");
        write(&reference.join(format!("{name}.schema.json")), &json)?;
        let template = root.join(format!("deploy/config/{name}.toml"));
        write(&template, &template::template(name, schema))?;
    }
    site::write(&root)?;
    man::write(&root.join("docs/man"))
}

/// Writes a file that has changed.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
