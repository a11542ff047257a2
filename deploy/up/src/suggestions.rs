//! The commands that show a site at work, by the programs that this machine has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The programs of this machine that can ask a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    dns: Option<&'static str>,
    http: Option<&'static str>,
    has_skopeo: bool,
}

impl Tools {
    /// The first of each kind that is here.
    pub fn find(is_here: impl Fn(&str) -> bool) -> Self {
        Self {
            dns: ["dig", "kdig"].into_iter().find(|name| is_here(name)),
            http: ["curl", "wget"].into_iter().find(|name| is_here(name)),
            has_skopeo: is_here("skopeo"),
        }
    }
}

/// The things of a site to try.
#[derive(Clone, Debug)]
pub struct Demonstration {
    /// The address for DNS clients.
    pub dns: SocketAddr,
    /// Names worth asking for.
    pub names: Vec<String>,
    /// A published port that speaks HTTP.
    pub http: SocketAddr,
    /// The published port of the registry.
    pub registry: SocketAddr,
    /// An archive of an image to push.
    pub image: String,
    /// The program `registry-svc`, which pushes where skopeo is not here.
    pub registry_svc: String,
    /// The cluster, if there is one.
    pub cluster: Option<ClusterShow>,
}

/// The cluster of a site to try.
#[derive(Clone, Debug)]
pub struct ClusterShow {
    /// The program `clusterd`, which shows objects.
    pub clusterd: String,
    /// The socket of the clusterd that runs.
    pub socket: String,
    /// The name of a Service.
    pub name: String,
}

/// A command line for each thing to try. One whose program is not here names the package that has it.
pub fn suggestions(tools: Tools, show: &Demonstration) -> Vec<String> {
    let server = reachable(show.dns.ip());
    let port = show.dns.port();
    let query = |name: &String| {
        let arguments = format!("@{server} -p {port} {name}");
        match tools.dns {
            Some(program) => format!("{program} {arguments}"),
            None => format!("dig {arguments}   # apt-get install bind9-dnsutils"),
        }
    };
    let queries = show.names.iter().map(query);
    let http = show.http;
    let get = match tools.http {
        Some("wget") => format!("wget -qO- http://{http}"),
        Some(program) => format!("{program} http://{http}"),
        None => format!("curl http://{http}   # apt-get install curl"),
    };
    let (image, registry) = (&show.image, show.registry);
    let push = match tools.has_skopeo {
        true => format!(
            "skopeo copy --dest-tls-verify=false oci-archive:{image} docker://{registry}/hello:1"
        ),
        false => format!(
            "{} push {image} http://{registry}/hello:1",
            show.registry_svc
        ),
    };
    let cluster = show.cluster.iter().flat_map(|cluster| {
        let ClusterShow {
            clusterd, socket, ..
        } = cluster;
        let verbs = ["get service", "watch"].into_iter();
        let lines = verbs.map(move |verb| format!("{clusterd} {verb} --socket {socket}"));
        std::iter::once(query(&cluster.name)).chain(lines)
    });
    queries.chain([get, push]).chain(cluster).collect()
}

/// The address by which this machine reaches a listener.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_are_here_are_suggested() {
        let show = Demonstration {
            dns: ([0, 0, 0, 0], 5300).into(),
            names: vec!["api.example.org".to_owned()],
            http: ([127, 0, 0, 1], 6443).into(),
            registry: ([127, 0, 0, 1], 5443).into(),
            image: "/run/hello.tar".to_owned(),
            registry_svc: "bin/registry-svc".to_owned(),
            cluster: None,
        };
        let with = |here: &[&str]| suggestions(Tools::find(|name| here.contains(&name)), &show);
        assert_eq!(
            with(&["kdig", "dig", "curl", "wget", "skopeo"]),
            [
                "dig @127.0.0.1 -p 5300 api.example.org",
                "curl http://127.0.0.1:6443",
                "skopeo copy --dest-tls-verify=false oci-archive:/run/hello.tar docker://127.0.0.1:5443/hello:1",
            ]
        );
        assert_eq!(
            with(&["kdig", "wget"]),
            [
                "kdig @127.0.0.1 -p 5300 api.example.org",
                "wget -qO- http://127.0.0.1:6443",
                "bin/registry-svc push /run/hello.tar http://127.0.0.1:5443/hello:1",
            ]
        );
        let with_cluster = Demonstration {
            cluster: Some(ClusterShow {
                clusterd: "bin/clusterd".to_owned(),
                socket: "/run/clusterd.sock".to_owned(),
                name: "web.shop.svc.cluster.local".to_owned(),
            }),
            ..show.clone()
        };
        assert_eq!(
            suggestions(Tools::find(|name| name == "dig"), &with_cluster).split_off(3),
            [
                "dig @127.0.0.1 -p 5300 web.shop.svc.cluster.local",
                "bin/clusterd get service --socket /run/clusterd.sock",
                "bin/clusterd watch --socket /run/clusterd.sock",
            ]
        );
        let none = with(&[]);
        for package in ["bind9-dnsutils", "curl"] {
            let names = |line: &&String| line.ends_with(&format!("   # apt-get install {package}"));
            assert_eq!(none.iter().filter(names).count(), 1, "{none:?}");
        }
    }
}
