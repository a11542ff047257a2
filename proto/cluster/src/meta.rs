//! The fields that every object has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The fields that every object has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The namespace; empty for kinds that lie in none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The identity: an object that was deleted and made again has another. Empty for one of a manifest.
    pub uid: String,
    /// When it was made (RFC 3339); empty for one of a manifest.
    pub created: String,
    /// Whether its deletion has begun.
    pub deleting: bool,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations that services of Outpost may read; the others are left out.
    pub annotations: BTreeMap<String, String>,
}
