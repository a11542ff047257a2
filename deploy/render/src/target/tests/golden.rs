//! Every target of the seeds' site, held against files that people have read.
//!
//! `OUTPOST_BLESS=1 cargo test -p deploy --lib target::tests::golden` writes the files that they are held
//! against (tests/data/deploy/targets); the difference is for people to read.

use std::path::{Path, PathBuf};

use super::{RUNTIMES, site, vip};
use crate::config::{NodeFile, Output, Part};
use crate::target::{butane, files, ignition, machineconfig, openshift};
use site::secrets::Secrets;
use site::service::Service;
use site::{Cluster, ClusterSource, Podman, Role, Runtime, Site, VipRole};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/deploy/targets")
}

/// The seeds' site behind virtual IPs: the one that has most to render.
fn seeds(runtime: Runtime) -> Site {
    let mut site = site(runtime);
    site.vips.push(vip());
    for published in &mut site.published {
        if published.role == VipRole::Api {
            published.vip = Some(vip().name);
        }
    }
    site
}

fn name(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Quadlet(Podman::V4_4) => "quadlet-4.4",
        Runtime::Quadlet(Podman::V4_9) => "quadlet-4.9",
        Runtime::Quadlet(Podman::V5_2) => "quadlet-5.2",
        Runtime::Quadlet(Podman::V5_4) => "quadlet-5.4",
        Runtime::NoQuadlet => "units-podman",
        Runtime::Native => "units-native",
    }
}

/// All files of a node in one: there are dozens.
fn together(files: Vec<NodeFile>) -> String {
    files
        .into_iter()
        .map(|file| {
            format!(
                "==> {} {:o}\n{}\n",
                file.path.display(),
                file.mode,
                String::from_utf8(file.contents).unwrap()
            )
        })
        .collect()
}

fn check(wrong: &mut Vec<String>, name: &str, text: &str) {
    let path = data().join(name);
    if std::env::var_os("OUTPOST_BLESS").is_some() {
        std::fs::create_dir_all(data()).unwrap();
        std::fs::write(&path, text).unwrap();
    } else if std::fs::read_to_string(&path).ok().as_deref() != Some(text) {
        wrong.push(name.to_owned());
    }
}

#[test]
fn every_target_is_as_people_have_read_it() {
    let mut wrong = Vec::new();
    for runtime in RUNTIMES {
        let site = seeds(runtime);
        for node in [&site.nodes[0], &site.nodes[3]] {
            let name = format!("{}-{}.txt", name(runtime), node.name);
            check(&mut wrong, &name, &together(files(&site, node)));
        }
    }
    for runtime in [Runtime::Quadlet(Podman::V5_2), Runtime::Native] {
        let mut site = site(runtime);
        site.nodes[0].services = Service::of(Role::Master, true);
        let mut clusterd = files(&site, &site.nodes[0]);
        clusterd.retain(|file| file.part == Part::Service(Service::Clusterd));
        let name = format!("clusterd-{}.txt", name(runtime));
        check(&mut wrong, &name, &together(clusterd));
    }
    let site = seeds(Runtime::Quadlet(Podman::V5_2));
    let secrets = Secrets::made_up(&site);
    let of_master_0 =
        |output: &Output| output.node.as_deref().is_none_or(|node| node == "master-0");
    for (target, outputs) in [
        ("ignition", ignition(&site, &secrets)),
        ("machineconfig", machineconfig(&site, &secrets)),
        ("butane", butane(&site, &secrets)),
    ] {
        for output in outputs.into_iter().filter(of_master_0) {
            let name = format!("{target}-{}", output.path.display());
            check(
                &mut wrong,
                &name,
                &String::from_utf8(output.contents).unwrap(),
            );
        }
    }
    let mut site = site;
    let mut cluster = Cluster::new(ClusterSource::Kubeconfig(None));
    cluster.domain = Some("cluster.local".to_owned());
    site.cluster = Some(cluster);
    for output in openshift(&site) {
        let name = format!("openshift-{}", output.path.display());
        let text = String::from_utf8(output.contents).unwrap();
        // The image has the version of this build.
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        check(&mut wrong, &name, &text);
    }
    assert!(
        wrong.is_empty(),
        "not as in tests/data/deploy/targets (OUTPOST_BLESS=1 writes what is rendered there): {wrong:?}"
    );
}
