//! A blob to copy: its origin, and the progress that counts its octets.

use std::sync::Arc;

use oci::digest::Digest;
use oci::reference::RepositoryName;
use registry_client::connection::ByteStream;
use tokio_stream::StreamExt as _;

use crate::TransferError;
use crate::origin::Origin;
use crate::progress::Progress;

/// A blob that is to be copied, and where it is.
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) origin: Origin,
    pub(crate) repository: RepositoryName,
    pub(crate) progress: Arc<Progress>,
    /// Its digest.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
}

impl Source {
    /// Its bytes from an offset on.
    ///
    /// # Errors
    ///
    /// When they cannot be had.
    pub async fn open(&self, from: u64) -> Result<ByteStream, TransferError> {
        let body = self
            .origin
            .blob(&self.repository, &self.digest, from)
            .await?;
        let body = body.ok_or(TransferError::Missing(self.digest))?;
        let progress = Arc::clone(&self.progress);
        Ok(Box::pin(body.map(move |piece| {
            if let Ok(piece) = &piece {
                progress.passed(piece.len());
            }
            piece
        })))
    }
}
