//! Certificates as they are read from files and from other nodes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use config::nodes::NodeName;
use pem::{EncodeConfig, LineEnding};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::pem::Pem;

/// The most certificates in a file; `outpost pki make` makes 250 at most.
const MOST: usize = 1_000;

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct One {
    /// Its end, in seconds since 1970.
    pub(super) end: u64,
    /// Its public key, bare.
    pub(super) key: Vec<u8>,
    /// Its names and addresses, as they are encoded.
    pub(super) names: BTreeSet<Vec<u8>>,
    der: Vec<u8>,
}

impl One {
    /// Reads the first certificate of a PEM file.
    pub(super) fn read(pem: &[u8]) -> Result<Self, &'static str> {
        let first = Pem::iter_from_buffer(pem).next().ok_or("no PEM")?;
        Self::of(first.map_err(|_| "no PEM")?)
    }

    fn of(pem: Pem) -> Result<Self, &'static str> {
        let certificate = pem.parse_x509().map_err(|_| "no certificate")?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|_| "a certificate with broken names")?;
        let names = names.map(|extension| &extension.value.general_names);
        let names = names.into_iter().flatten();
        let end = certificate.validity().not_after.timestamp();
        Ok(Self {
            end: u64::try_from(end).unwrap_or(0),
            key: certificate.public_key().subject_public_key.data.to_vec(),
            names: names.map(|name| format!("{name:?}").into_bytes()).collect(),
            der: pem.contents,
        })
    }

    /// It again, as PEM.
    pub(super) fn to_pem(&self) -> String {
        let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
        let text = pem::Pem::new("CERTIFICATE", self.der.clone());
        pem::encode_config(&text, lines)
    }
}

/// The certificates of a node, in the order of a file.
#[derive(Debug)]
pub(super) struct Series(Vec<One>);

impl Series {
    pub(super) fn read(pem: &[u8]) -> Result<Self, &'static str> {
        let mut all = Vec::new();
        for pem in Pem::iter_from_buffer(pem) {
            if all.len() == MOST {
                return Err("it has more certificates than any site");
            }
            all.push(One::of(pem.map_err(|_| "it is no PEM")?)?);
        }
        if !all.is_sorted_by_key(|one| one.end) {
            return Err("its certificates are not in the order of their ends");
        }
        Ok(Self(all))
    }

    /// The end of each, in seconds since 1970.
    pub(super) fn ends(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|one| one.end)
    }

    pub(super) fn get(&self, number: usize) -> Option<&One> {
        self.0.get(number)
    }
}

/// Whether clients of this node trust a certificate now, which the authority in a file has signed.
pub(super) fn is_trusted(given: &One, ca: &Path, node: &NodeName) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", ca.display());
    let authorities = CertificateDer::pem_file_iter(ca).map_err(|error| unreadable(&error))?;
    for authority in authorities {
        let added = roots.add(authority.map_err(|error| unreadable(&error))?);
        added.map_err(|error| unreadable(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unreadable(&error))?;
    let name = ServerName::try_from(node.as_str()).map_err(|error| error.to_string())?;
    let own = CertificateDer::from(given.der.as_slice());
    verifier
        .verify_server_cert(&own, &[], &name, &[], UnixTime::now())
        .map(drop)
        .map_err(|error| error.to_string())
}
