//! Lists of networks.

use std::borrow::Cow;
use std::ops::Deref;

use cidrs::Cidrs;
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
        let items = Vec::<String>::deserialize(deserializer)?;
        Cidrs::from_items(items)
            .map(Self)
            .map_err(de::Error::custom)
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
