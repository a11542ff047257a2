use std::fs;
use std::slice;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use rustls::server::Acceptor;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SignatureScheme};
use tempfile::TempDir;

use super::*;

/// A directory of certificates that goes away with the test.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Makes a certificate for the names, over the one that was there.
    fn make(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.make_with(file, names, &PKCS_ECDSA_P256_SHA256)
    }

    fn make_with(
        &self,
        file: &str,
        names: &[&str],
        kind: &'static SignatureAlgorithm,
    ) -> CertificateFiles {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate_for(kind).unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let files = CertificateFiles::new(
            self.0.path().join(format!("{file}.crt")),
            self.0.path().join(format!("{file}.key")),
        );
        fs::write(&files.chain, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}

/// What a client is shown that asks for `server` and knows these kinds of signatures, or all; an
/// address is a server without a name.
fn shown(
    certificates: &Certificates,
    server: &str,
    scheme: Option<SignatureScheme>,
) -> CertificateDer<'static> {
    let mut provider = ring::default_provider();
    if let Some(scheme) = scheme {
        let known = &mut provider.signature_verification_algorithms;
        let only: Vec<_> = known
            .mapping
            .iter()
            .copied()
            .filter(|(known, _)| *known == scheme)
            .collect();
        known.mapping = only.leak();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let server = ServerName::try_from(server.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), server).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut hello.as_slice()).unwrap();
    let accepted = acceptor.accept().ok().flatten().unwrap();
    let chosen = certificates.resolve(accepted.client_hello()).unwrap();
    chosen.cert[0].clone()
}

fn on_disk(files: &CertificateFiles) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(&files.chain).unwrap()
}

#[test]
fn a_client_is_shown_the_certificate_for_the_name_it_asks_for() {
    let scratch = Scratch::new();
    let registry = scratch.make("registry", &["registry.example"]);
    let apps = scratch.make("apps", &["*.apps.example", "apps.example"]);
    let mut named = scratch.make("named", &["other.example"]);
    named.names = vec!["Mirror.example".to_owned(), "*.mirror.example".to_owned()];
    let certificates = Certificates::read(&[registry.clone(), apps.clone(), named.clone()]);
    let certificates = certificates.unwrap();
    for (server, expected) in [
        ("registry.example", &registry),
        ("REGISTRY.example", &registry),
        ("console.apps.example", &apps),
        ("apps.example", &apps),
        // A wildcard is one label, and another's names are not taken for granted.
        ("a.b.apps.example", &registry),
        ("mirror.example", &named),
        ("a.MIRROR.example", &named),
        ("a.b.mirror.example", &registry),
        ("other.example", &registry),
        ("elsewhere.example", &registry),
        ("192.0.2.1", &registry),
    ] {
        assert_eq!(
            shown(&certificates, server, None),
            on_disk(expected),
            "{server}"
        );
    }
}

#[test]
fn a_client_is_shown_a_key_of_a_kind_that_it_knows() {
    let scratch = Scratch::new();
    let modern = scratch.make_with("modern", &["registry.example"], &PKCS_ED25519);
    let common = scratch.make("common", &["registry.example"]);
    let certificates = Certificates::read(&[modern.clone(), common.clone()]).unwrap();
    let p256 = SignatureScheme::ECDSA_NISTP256_SHA256;
    for (scheme, expected) in [
        (None, &modern),
        (Some(SignatureScheme::ED25519), &modern),
        (Some(p256), &common),
    ] {
        for server in ["registry.example", "192.0.2.1"] {
            assert_eq!(
                shown(&certificates, server, scheme),
                on_disk(expected),
                "{server} {scheme:?}"
            );
        }
    }
}

#[test]
fn files_that_cannot_be_used_say_why_and_leave_the_old_certificate() {
    let scratch = Scratch::new();
    let first = scratch.make("first", &["first.example"]);
    let second = scratch.make("second", &["second.example"]);
    let certificates = Certificates::read(&[first.clone(), second.clone()]).unwrap();
    let old = on_disk(&first);
    let why = || {
        let errors = certificates.read_again();
        assert_eq!(shown(&certificates, "first.example", None), old);
        errors
            .iter()
            .map(|error| exit::chain(error))
            .collect::<Vec<_>>()
    };
    assert!(why().is_empty());

    // The other one is renewed at the same time, and taken up.
    fs::copy(&second.key, &first.key).unwrap();
    scratch.make("second", &["second.example"]);
    let said = why();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("do not work together: "), "{said:?}");
    assert_eq!(
        shown(&certificates, "second.example", None),
        on_disk(&second)
    );

    fs::write(&first.chain, "no PEM at all").unwrap();
    assert!(why()[0].ends_with("first.crt holds no certificate"));
    fs::write(&first.chain, "-----BEGIN CERTIFICATE-----\nAA").unwrap();
    assert!(why()[0].contains("first.crt cannot be used: "));
    fs::remove_file(&first.chain).unwrap();
    let said = why();
    assert!(said[0].starts_with("cannot read /"), "{said:?}");
    assert!(said[0].contains("first.crt: No such file"), "{said:?}");
    assert!(Certificates::read(&[first]).is_err());
}

#[test]
fn other_files_are_taken_up_whole_or_not_at_all() {
    let scratch = Scratch::new();
    let first = scratch.make("first", &["a.example"]);
    let second = scratch.make("second", &["b.example"]);
    let certificates = Certificates::read(slice::from_ref(&first)).unwrap();
    let gone = CertificateFiles::new(scratch.0.path().join("gone"), &second.key);
    let refused = certificates.replace(&[second.clone(), gone]).unwrap_err();
    assert!(
        matches!(refused, CertificateError::Read { .. }),
        "{refused}"
    );
    assert_eq!(shown(&certificates, "b.example", None), on_disk(&first));
    certificates.replace(slice::from_ref(&second)).unwrap();
    assert_eq!(shown(&certificates, "a.example", None), on_disk(&second));
}

#[tokio::test]
async fn a_renewed_certificate_is_found_without_being_told() {
    let scratch = Scratch::new();
    let files = scratch.make("renewed", &["a.example"]);
    let certificates = Certificates::read(slice::from_ref(&files)).unwrap();
    let following = tokio::spawn(certificates.clone().follow_every(Duration::from_millis(5)));
    // It has seen the files as they are once it has slept for the first time.
    tokio::task::yield_now().await;
    scratch.make("renewed", &["a.example"]);
    let renewed = on_disk(&files);
    let taken_up = async {
        while shown(&certificates, "a.example", None) != renewed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, taken_up).await.unwrap();
    following.abort();
}

#[test]
fn a_handshake_is_finished_in_the_protocol_that_both_speak() {
    let scratch = Scratch::new();
    let files = scratch.make("one", &["a.example"]);
    let certificates = Certificates::read(slice::from_ref(&files)).unwrap();
    let server = certificates.server_config(&[b"h2", b"http/1.1"]).unwrap();
    let mut server = rustls::ServerConnection::new(Arc::new(server)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(on_disk(&files)).unwrap();
    let provider = Arc::new(ring::default_provider());
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("a.example").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client.write_tls(&mut there).unwrap();
        server.read_tls(&mut there.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        server.write_tls(&mut back).unwrap();
        client.read_tls(&mut back.as_slice()).unwrap();
        client.process_new_packets().unwrap();
    }
    assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
}
