//! The trust in other nodes: the authority's word, and its lists of revoked certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Judges the certificates of other nodes, in both directions by the same rules: those for clients, since a site may have
/// certificates for nodes that no client of a node believes (extended key usage `clientAuth` alone, RFC 5280 §4.2.1.12).
#[derive(Debug, Clone)]
pub(super) struct Judge(Arc<dyn ClientCertVerifier>);

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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .with_crls(revoked)
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status()
            .build()?;
        Ok(Self(verifier))
    }

    pub(super) fn of_clients(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.0)
    }

    pub(super) fn of_servers(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::new(self.clone())
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
            Role::Client => self.0.verify_client_cert(own, more, at).map(drop),
            Role::Server(name) => {
                let stapled = &[];
                let verified = self.verify_server_cert(own, more, name, stapled, at);
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

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _stapled: &[u8],
        at: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify_client_cert(own, more, at)?;
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
