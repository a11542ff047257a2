//! The settings of the API, as they were parsed.

use std::path::Path;
use std::time::Duration;

use ::config::clusterd::Api;
use cluster_client::access::AccessSettings;
use cluster_client::address::ApiAddress;
use rustls::pki_types::ServerName;

/// The directory that Kubernetes mounts into a pod.
const MOUNTED: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The settings of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiSettings {
    /// The addresses and the credentials.
    pub access: AccessSettings,
    /// Whether OpenShift's object of DNS is followed.
    pub dnses: bool,
    /// Objects of one page.
    pub page: usize,
    /// How long a watch lasts.
    pub watch: Duration,
}

impl ApiSettings {
    /// The settings of a table; `problem` takes the key and what is wrong with it.
    pub fn of(api: &Api, mut problem: impl FnMut(&'static str, String)) -> Self {
        let mut addresses = Vec::new();
        for text in &api.addresses {
            match text.parse::<ApiAddress>() {
                Ok(address) => addresses.push(address),
                Err(error) => problem("addresses", error.to_string()),
            }
        }
        let name = api.server_name.as_ref().map(|name| {
            let parsed = ServerName::try_from(name.clone());
            parsed.map_err(|_| problem("server-name", format!("{name:?} is no name of a server")))
        });
        if api.addresses.is_empty() && api.kubeconfig.is_none() {
            problem("addresses", "give `addresses` or `kubeconfig`".to_owned());
        }
        let has_kubeconfig = api.kubeconfig.is_some();
        let mounted = |name: &str| (!has_kubeconfig).then(|| Path::new(MOUNTED).join(name));
        Self {
            access: AccessSettings {
                kubeconfig: api.kubeconfig.clone(),
                addresses,
                server_name: name.and_then(Result::ok),
                ca_file: api.ca_file.clone().or_else(|| mounted("ca.crt")),
                token_file: api.token_file.clone().or_else(|| mounted("token")),
                agent: concat!("clusterd/", env!("CARGO_PKG_VERSION")),
            },
            dnses: api.dnses,
            page: api.page.get(),
            watch: api.watch.get(),
        }
    }
}
