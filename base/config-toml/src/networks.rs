//! Lists of networks.

use std::borrow::Cow;
use std::ops::Deref;

use cidrs::Cidrs;
use config_text::{Position, Problem};
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A list of networks: `["192.168.7.0/24", "!192.168.7.9"]`. `!` excludes a network; the most specific entry decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(pub Cidrs);

impl Deref for Networks {
    type Target = Cidrs;

    fn deref(&self) -> &Cidrs {
        &self.0
    }
}

impl Networks {
    /// The odd entries that were understood, as problems at the place of the list.
    pub fn warnings_at(&self, position: Position) -> impl Iterator<Item = Problem> {
        let warnings = self.0.warnings().iter();
        warnings.map(move |warning| Problem::at(position.clone(), warning.clone()))
    }
}

impl FromIterator<IpNet> for Networks {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        Self(networks.into_iter().collect())
    }
}

impl Serialize for Networks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.entries())
    }
}

impl<'de> Deserialize<'de> for Networks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::<Entry>::deserialize(deserializer)?;
        let items = items.into_iter().map(|Entry(text)| text);
        Cidrs::from_items(items)
            .map(Self)
            .map_err(de::Error::custom)
    }
}

/// One network, so that an error has its place.
struct Entry(String);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match Cidrs::from_items([&text]) {
            Ok(_) => Ok(Self(text)),
            Err(error) => Err(de::Error::custom(error)),
        }
    }
}

impl JsonSchema for Networks {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Networks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": { "type": "string" },
            "x-type": "a list of networks, as in [\"192.168.7.0/24\"]",
        })
    }
}
