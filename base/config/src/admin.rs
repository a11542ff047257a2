//! `[admin]` of every daemon.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use config_toml::parse_address;

/// The admin listener; `PORT` is its default port, on the loopback address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admin<const PORT: u16> {
    /// The listener for `/livez`, `/readyz`, `/metrics` and `/status`; `"none"` turns it off.
    pub listen: AdminListen,
}

/// [`Admin`] in the file: the derives of serde and schemars know no constant parameters.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct AdminTable {
    /// The listener for `/livez`, `/readyz`, `/metrics` and `/status`; `"none"` turns it off.
    #[schemars(with = "AdminListen", extend("x-reload" = "restart"))]
    listen: Option<AdminListen>,
}

impl<const PORT: u16> Serialize for Admin<PORT> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listen = Some(self.listen);
        AdminTable { listen }.serialize(serializer)
    }
}

impl<'de, const PORT: u16> Deserialize<'de> for Admin<PORT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = AdminTable::deserialize(deserializer)?;
        let listen = table.listen.unwrap_or_else(|| Self::default().listen);
        Ok(Self { listen })
    }
}

impl<const PORT: u16> JsonSchema for Admin<PORT> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Admin".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = AdminTable::json_schema(generator);
        if let Some(listen) = schema.pointer_mut("/properties/listen")
            && let Some(listen) = listen.as_object_mut()
        {
            let default = format!("{}:{PORT}", Ipv4Addr::LOCALHOST);
            listen.insert("default".to_owned(), default.into());
        }
        schema
    }
}

impl<const PORT: u16> Default for Admin<PORT> {
    fn default() -> Self {
        Self {
            listen: AdminListen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
        }
    }
}

/// The address of an admin listener, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminListen {
    /// There is none.
    None,
    /// The address.
    At(SocketAddr),
}

impl AdminListen {
    /// The address.
    #[must_use]
    pub const fn address(self) -> Option<SocketAddr> {
        match self {
            Self::None => None,
            Self::At(address) => Some(address),
        }
    }
}

impl From<Option<SocketAddr>> for AdminListen {
    fn from(address: Option<SocketAddr>) -> Self {
        address.map_or(Self::None, Self::At)
    }
}

impl Serialize for AdminListen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::At(address) => serializer.collect_str(address),
        }
    }
}

impl<'de> Deserialize<'de> for AdminListen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "none" {
            return Ok(Self::None);
        }
        let parsed = parse_address(&text).map(Self::At);
        parsed.map_err(|error| de::Error::custom(format_args!("{error}, or \"none\"")))
    }
}

impl JsonSchema for AdminListen {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AdminListen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-type": "an IP address with its port, or \"none\"",
        })
    }
}
