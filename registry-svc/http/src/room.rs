//! Room on the disk and in repositories, where the configuration bounds it.

use oci::reference::RepositoryName;
use registry_store::space::Space;

use crate::error::Refused;

/// The room that there is; without bounds there always is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room<'a>(Option<&'a Space>);

impl<'a> Room<'a> {
    pub(super) fn of(space: Option<&'a Space>) -> Self {
        Self(space)
    }

    /// Admits octets to the disk and to a repository.
    pub(super) fn admit(&self, name: &RepositoryName, octets: u64) -> Result<(), Refused> {
        match self.0 {
            Some(space) => Ok(space.admit(name, octets)?),
            None => Ok(()),
        }
    }

    /// Admits further octets of a body to the disk.
    pub(super) fn admit_more(&self) -> Result<(), Refused> {
        match self.0 {
            Some(space) => Ok(space.admit_room(0)?),
            None => Ok(()),
        }
    }

    /// Admits the octets of a push to a repository.
    pub(super) fn admit_quota(&self, name: &RepositoryName, octets: u64) -> Result<(), Refused> {
        match self.0 {
            Some(space) => Ok(space.admit_quota(name, octets)?),
            None => Ok(()),
        }
    }
}
