//! Who is heard, and how it proves who it is.

use super::*;

#[test]
fn nodes_that_cannot_prove_who_they_are_are_not_heard() {
    run(async {
        let mut site = Site::new(3);
        site.tls = true;
        certificates(&site, &["node-0", "node-1", "stranger"]);
        let first = site.start(0).await;
        let second = site.start(1).await;
        connected_pair(&first, &second).await;
        // A node whose certificate is not for its name does not start.
        let settings = Settings {
            tls: Some(files(site.directory.path(), 2)),
            ..alone(&name(2))
        };
        assert!(matches!(
            Cluster::start(settings, first.store.clone()),
            Err(crate::TlsError::OtherName { .. })
        ));
        // One with a certificate of the authority for the name of no peer is not let in.
        let stranger = Settings {
            tls: Some(files(site.directory.path(), 2)),
            peers: vec![PeerSettings {
                name: name(0),
                address: site.addresses[0].to_string().parse().unwrap(),
            }],
            ..alone(&"stranger".parse().unwrap())
        };
        let stranger = Cluster::start(stranger, second.store.clone()).unwrap();
        until("the stranger is refused", async || {
            !stranger.status().peers[0].error.is_empty()
        })
        .await;
        assert!(!stranger.status().peers[0].connected);
        // The files are read anew, and a pair that does not work leaves what is in force.
        first.cluster.reload().unwrap();
        std::fs::write(files(site.directory.path(), 0).key, "nothing").unwrap();
        assert!(first.cluster.reload().is_err());
        let (digest, _) = push(&first.store, "v1", &[octets(1, 10)]).await;
        until("the image arrives", async || {
            shown(&second.store, "v1").await == Some(digest)
        })
        .await;
    });
}

async fn connected_pair(one: &Node, other: &Node) {
    until("the nodes follow each other", async || {
        let follows = |node: &Node| {
            node.cluster
                .status()
                .peers
                .iter()
                .any(|peer| peer.connected)
        };
        follows(one) && follows(other)
    })
    .await;
}

pub(super) fn files(directory: &Path, at: usize) -> NodeFiles {
    NodeFiles {
        ca: directory.join("ca.pem"),
        certificate: directory.join(format!("{at}.pem")),
        key: directory.join(format!("{at}.key")),
    }
}

/// Writes an authority, and a certificate for each of the names.
pub(super) fn certificates(site: &Site, names: &[&str]) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap();
    std::fs::write(site.directory.path().join("ca.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for (at, name) in names.iter().enumerate() {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let files = files(site.directory.path(), at);
        std::fs::write(files.certificate, certificate.pem()).unwrap();
        std::fs::write(files.key, key.serialize_pem()).unwrap();
    }
}
