//! Values of a site file: networks, ports, releases.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use config_toml::WholeNumber;
use config_toml::as_text;

/// A text that is not a value of a site file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteValueError {
    /// Not a network.
    #[error("`{0}` is not a network, as in \"192.168.7.0/24\"")]
    NotNetwork(String),
    /// An address with a prefix length.
    #[error("`{0}` is an address in a network; the network is {1}")]
    Address(IpNet, IpNet),
    /// Not a release of OpenShift.
    #[error("`{0}` is no release of OpenShift from 4.7 on, as in \"4.18\"")]
    Openshift(String),
    /// Not a release of podman.
    #[error("`{0}` is no release of podman, as in \"4.9\", nor \"none\"")]
    Podman(String),
}

//--- Network

/// A network: `"192.168.7.0/24"`, `"fd00:7::/64"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl Deref for Network {
    type Target = IpNet;

    fn deref(&self) -> &IpNet {
        &self.0
    }
}

impl From<IpNet> for Network {
    fn from(network: IpNet) -> Self {
        Self(network.trunc())
    }
}

impl From<Network> for IpNet {
    fn from(network: Network) -> Self {
        network.0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for Network {
    type Err = SiteValueError;

    fn from_str(text: &str) -> Result<Self, SiteValueError> {
        let network: IpNet = text
            .parse()
            .map_err(|_| SiteValueError::NotNetwork(text.to_owned()))?;
        match network.trunc() {
            whole if whole == network => Ok(Self(network)),
            whole => Err(SiteValueError::Address(network, whole)),
        }
    }
}

as_text!(Network, "a network, as in \"192.168.7.0/24\"");

//--- Numbers

/// Makes a number with a range whose error says what the number is for.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $least:literal to $most:literal, $refusal:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The number.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The number, when it is within the range.
            #[must_use]
            pub fn new(number: $inner) -> Option<Self> {
                ($least..=$most).contains(&i64::from(number)).then_some(Self(number))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let number = deserializer.deserialize_i64(WholeNumber)?;
                let within = <$inner>::try_from(number).ok().and_then(Self::new);
                within.ok_or_else(|| de::Error::custom(format_args!($refusal, number)))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "integer", "minimum": $least, "maximum": $most })
            }
        }
    };
}

number!(
    /// A TCP port to listen on.
    Port(u16),
    1 to 65535,
    "{} is no port to listen on; ports are 1 to 65535"
);
number!(
    /// The TTL of a record, in seconds (RFC 2181 §8).
    Ttl(u32),
    0 to 2_147_483_647,
    "a TTL is at most 2147483647 and not negative (RFC 2181 §8); this one is {}"
);
number!(
    /// The number of a virtual router (RFC 9568 §5.2.3).
    RouterId(u8),
    1 to 255,
    "the number of a virtual router is 1 to 255, not {}"
);

impl Port {
    /// The registry's, for clients.
    pub const REGISTRY: Self = Self(5443);
    /// The registry's, between nodes.
    pub const REGISTRY_CLUSTER: Self = Self(5444);
    /// The site's page.
    pub const PAGE: Self = Self(crate::healthd::PAGE_PORT);
}

impl Ttl {
    /// The TTL of a zone that names no other.
    pub const DEFAULT: Self = Self(180);
}

//--- Releases

/// A release of OpenShift 4: `"4.18"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Openshift {
    /// The minor version.
    pub minor: u8,
}

impl Openshift {
    /// The first release with Ignition 3.2, in which machine configurations are rendered.
    const FIRST: u8 = 7;
}

impl FromStr for Openshift {
    type Err = SiteValueError;

    fn from_str(text: &str) -> Result<Self, SiteValueError> {
        match release(text) {
            Some((4, minor)) if minor >= Self::FIRST => Ok(Self { minor }),
            _ => Err(SiteValueError::Openshift(text.to_owned())),
        }
    }
}

impl fmt::Display for Openshift {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "4.{}", self.minor)
    }
}

as_text!(Openshift, "a release of OpenShift, as in \"4.18\"");

/// A release of podman, or none at all: `"5.2"`, `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Podman {
    /// systemd runs the services without containers.
    None,
    /// The major and the minor version.
    Release(u8, u8),
}

impl FromStr for Podman {
    type Err = SiteValueError;

    fn from_str(text: &str) -> Result<Self, SiteValueError> {
        match text {
            "none" => Ok(Self::None),
            version => release(version)
                .map(|(major, minor)| Self::Release(major, minor))
                .ok_or_else(|| SiteValueError::Podman(text.to_owned())),
        }
    }
}

impl fmt::Display for Podman {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Release(major, minor) => write!(formatter, "{major}.{minor}"),
        }
    }
}

as_text!(Podman, "a release of podman, as in \"5.2\", or \"none\"");

/// The first two parts of `4.18` or `5.2.2`.
fn release(text: &str) -> Option<(u8, u8)> {
    let mut parts = text.split('.');
    let release = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let rest_is_numbers = parts.all(|part| part.parse::<u16>().is_ok());
    rest_is_numbers.then_some(release)
}
