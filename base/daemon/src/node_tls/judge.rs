//! The trust in other nodes: the authority's word, and its lists of revoked certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, Error, RootCertStore};

/// Judges the certificates of other nodes, in both directions by the same rules.
#[derive(Debug)]
pub(super) struct Judge {
    of_clients: Arc<dyn ClientCertVerifier>,
    of_servers: Arc<WebPkiServerVerifier>,
}

/// The part of the other node in a connection.
#[derive(Debug)]
pub(super) enum Role {
    /// It has connected.
    Client,
    /// It was connected to, by this name.
    Server(ServerName<'static>),
}

impl Judge {
    /// A list names certificates of the nodes. A certificate that no list speaks of is good: the list may be of one authority of
    /// several. The date of a list does not matter: a site without a network has no newer one, and an old list is no reason
    /// to refuse all.
    pub(super) fn new(
        roots: RootCertStore,
        revoked: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Self, VerifierBuilderError> {
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (for_clients, for_servers) = (Arc::clone(&roots), Arc::clone(&provider));
        let of_clients = WebPkiClientVerifier::builder_with_provider(for_clients, for_servers)
            .with_crls(revoked.clone())
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status()
            .build()?;
        let of_servers = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .with_crls(revoked)
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status()
            .build()?;
        Ok(Self {
            of_clients,
            of_servers,
        })
    }

    pub(super) fn of_clients(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.of_clients)
    }

    pub(super) fn of_servers(&self) -> Arc<WebPkiServerVerifier> {
        Arc::clone(&self.of_servers)
    }

    /// Whether the other end of a connection is trusted, at a time.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub(super) fn trusts(
        &self,
        chain: &[CertificateDer<'static>],
        role: &Role,
        at: UnixTime,
    ) -> Result<(), Error> {
        let Some((own, more)) = chain.split_first() else {
            return Err(Error::NoCertificatesPresented);
        };
        match role {
            Role::Client => self.of_clients.verify_client_cert(own, more, at).map(drop),
            Role::Server(name) => {
                let stapled = &[];
                let verified = self
                    .of_servers
                    .verify_server_cert(own, more, name, stapled, at);
                verified.map(drop)
            }
        }
    }

    /// Finds what would have every other node refuse this one, or this one every other. Only a list that cannot be believed is an
    /// error: with a wrong clock, or after its own revocation, a node starts and says so.
    pub(super) fn look_at_own(
        &self,
        chain: &[CertificateDer<'static>],
        path: &Path,
    ) -> Result<(), Error> {
        let path = path.display();
        match self.trusts(chain, &Role::Client, UnixTime::now()) {
            Err(error @ Error::InvalidCertRevocationList(_)) => Err(error),
            Err(Error::InvalidCertificate(CertificateError::Revoked)) => {
                tracing::error!(%path, "The certificate of this node is revoked: other nodes refuse it");
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%path, %error, "Other nodes may refuse the certificate of this node");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
