//! The objects of programs: addresses, names, networks and the query's header (docs/lua-records/reference
//! of `PowerDNS`).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use dns_wire::{Flags, Name};
use ipnet::IpNet;
use mlua::{
    BorrowedStr, Lua, LuaString, MetaMethod, Table, UserData, UserDataMethods, UserDataRef, Value,
};

use crate::geography::network;
use crate::run::Run;
use crate::values;

/// The most entries a set or group of networks may have.
const MAX_ENTRIES: usize = 4096;

/// Adds the functions that make objects to the globals of programs.
pub(crate) fn install(lua: &Lua, globals: &Table, _: &Rc<Run>) -> mlua::Result<()> {
    globals.raw_set(
        "newCA",
        lua.create_function(|_, text: BorrowedStr| Address::parse(&text))?,
    )?;
    globals.raw_set("newCAFromRaw", lua.create_function(address_from_raw)?)?;
    globals.raw_set(
        "newCAS",
        lua.create_function(|_, ()| Ok(AddressSet::default()))?,
    )?;
    globals.raw_set(
        "newDN",
        lua.create_function(|_, text: BorrowedStr| DnsName::parse(&text))?,
    )?;
    globals.raw_set(
        "newNetmask",
        lua.create_function(|_, text: BorrowedStr| Ok(Network(network(&text)?.trunc())))?,
    )?;
    globals.raw_set(
        "newNMG",
        lua.create_function(|_, masks: Value| {
            let mut group = NetworkGroup::default();
            if !masks.is_nil() {
                group.add_all(&masks)?;
            }
            Ok(group)
        })?,
    )
}

//--- Address

/// An address with a port, which is 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) SocketAddr);

impl Address {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(SocketAddr::new(address, 0))
    }

    fn parse(text: &str) -> mlua::Result<Self> {
        text.parse()
            .map(Self::of)
            .or_else(|_| text.parse().map(Self))
            .map_err(|_| values::refuse(format!("`{text}` is no address")))
    }
}

fn address_from_raw(_: &Lua, (raw, port): (LuaString, Option<u16>)) -> mlua::Result<Address> {
    let bytes = raw.as_bytes();
    let address = if let Ok(octets) = <[u8; 4]>::try_from(&*bytes) {
        IpAddr::V4(octets.into())
    } else if let Ok(octets) = <[u8; 16]>::try_from(&*bytes) {
        IpAddr::V6(octets.into())
    } else {
        return Err(values::refuse(format!(
            "newCAFromRaw takes 4 or 16 octets, not {}",
            bytes.len()
        )));
    };
    Ok(Address(SocketAddr::new(address, port.unwrap_or(0))))
}

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getPort", |_, this, ()| Ok(this.0.port()));
        methods.add_method("isIPv4", |_, this, ()| Ok(this.0.is_ipv4()));
        methods.add_method("isIPv6", |_, this, ()| Ok(this.0.is_ipv6()));
        methods.add_method("isMappedIPv4", |_, this, ()| Ok(mapped(this.0).is_some()));
        methods.add_method("mapToIPv4", |_, this, ()| {
            mapped(this.0)
                .map(|v4| Self(SocketAddr::new(v4.into(), this.0.port())))
                .ok_or_else(|| values::refuse("mapToIPv4: the address maps no IPv4 address"))
        });
        methods.add_method("toString", |_, this, ()| Ok(this.0.ip().to_string()));
        methods.add_method("toStringWithPort", |_, this, ()| Ok(this.0.to_string()));
        methods.add_method("getRaw", |lua, this, ()| match this.0.ip() {
            IpAddr::V4(v4) => lua.create_string(v4.octets()),
            IpAddr::V6(v6) => lua.create_string(v6.octets()),
        });
        methods.add_method("equal", |_, this, other: UserDataRef<Self>| {
            Ok(this.0.ip() == other.0.ip())
        });
        methods.add_method_mut("truncate", |_, this, bits: u8| {
            this.0.set_ip(truncated(this.0.ip(), bits));
            Ok(())
        });
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| {
            Ok(this.0.ip().to_string())
        });
        methods.add_meta_function(
            MetaMethod::Eq,
            |_, (one, other): (UserDataRef<Self>, UserDataRef<Self>)| Ok(*one == *other),
        );
    }
}

fn mapped(address: SocketAddr) -> Option<Ipv4Addr> {
    match address.ip() {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
    }
}

/// The address with everything after its first `bits` bits zeroed.
fn truncated(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let kept = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(bits)));
            Ipv4Addr::from(u32::from(v4) & kept.unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            let kept = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(bits)));
            Ipv6Addr::from(u128::from(v6) & kept.unwrap_or(0)).into()
        }
    }
}

/// A set of addresses; ports do not count.
#[derive(Clone, Debug, Default)]
struct AddressSet(BTreeSet<IpAddr>);

impl AddressSet {
    fn add(&mut self, value: &Value) -> mlua::Result<()> {
        if let Value::UserData(data) = value {
            self.0.insert(data.borrow::<Address>()?.0.ip());
        } else if let Some(text) = values::text(value) {
            self.0.insert(Address::parse(&text)?.0.ip());
        } else {
            for text in values::texts(value, "add: its argument")? {
                self.0.insert(Address::parse(&text)?.0.ip());
            }
        }
        bounded(self.0.len())
    }
}

impl UserData for AddressSet {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("add", |_, this, value: Value| this.add(&value));
        methods.add_method("check", |_, this, address: Value| {
            Ok(this.0.contains(&address_of(&address)?))
        });
    }
}

fn bounded(n_entries: usize) -> mlua::Result<()> {
    if n_entries > MAX_ENTRIES {
        return Err(values::refuse(format!("more than {MAX_ENTRIES} entries")));
    }
    Ok(())
}

/// An address given as an object or as text.
fn address_of(value: &Value) -> mlua::Result<IpAddr> {
    match value {
        Value::UserData(data) => Ok(data.borrow::<Address>()?.0.ip()),
        other => Ok(Address::parse(&values::string(other, "an address")?)?
            .0
            .ip()),
    }
}

//--- DnsName

/// A domain name.
#[derive(Clone, Debug)]
pub(crate) struct DnsName(pub(crate) Name);

impl DnsName {
    fn parse(text: &str) -> mlua::Result<Self> {
        if text.is_empty() {
            return Ok(Self(Name::root()));
        }
        Name::parse(text)
            .map(Self)
            .map_err(|error| values::refuse(format!("`{text}` is no name: {error}")))
    }

    /// The labels in front of `parent`, as a name of their own.
    fn relative_to(&self, parent: &Self) -> mlua::Result<Self> {
        if !self.0.is_within(&parent.0) {
            return Ok(Self(self.0.clone()));
        }
        let n_own = self.0.n_labels() - parent.0.n_labels();
        let labels: Vec<&[u8]> = self.0.labels().take(n_own).collect();
        let mut relative = Name::root();
        for label in labels.into_iter().rev() {
            relative = relative
                .prepend(label)
                .map_err(|error| values::refuse(error.to_string()))?;
        }
        Ok(Self(relative))
    }
}

impl UserData for DnsName {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("toString", |_, this, ()| Ok(this.0.to_string()));
        methods.add_method("toStringNoDot", |_, this, ()| {
            let text = this.0.to_string();
            Ok(text.strip_suffix('.').unwrap_or(&text).to_owned())
        });
        methods.add_method("countLabels", |_, this, ()| Ok(this.0.n_labels()));
        for name in ["wireLength", "wirelength"] {
            methods.add_method(name, |_, this, ()| Ok(this.0.as_wire().len()));
        }
        methods.add_method("isPartOf", |_, this, other: UserDataRef<Self>| {
            Ok(this.0.is_within(&other.0))
        });
        methods.add_method("makeRelative", |_, this, other: UserDataRef<Self>| {
            this.relative_to(&other)
        });
        methods.add_method("canonCompare", |_, this, other: UserDataRef<Self>| {
            Ok(this.0 < other.0)
        });
        methods.add_method("equal", |_, this, other: BorrowedStr| {
            Ok(this.0 == Self::parse(&other)?.0)
        });
        methods.add_method("getRawLabels", |lua, this, ()| {
            let labels: mlua::Result<Vec<LuaString>> = this
                .0
                .labels()
                .map(|label| lua.create_string(label))
                .collect();
            lua.create_sequence_from(labels?)
        });
        methods.add_method_mut("chopOff", |_, this, ()| {
            let Some(parent) = this.0.parent() else {
                return Ok(false);
            };
            this.0 = parent;
            Ok(true)
        });
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
        methods.add_meta_function(
            MetaMethod::Eq,
            |_, (one, other): (UserDataRef<Self>, UserDataRef<Self>)| Ok(one.0 == other.0),
        );
        methods.add_meta_function(
            MetaMethod::Lt,
            |_, (one, other): (UserDataRef<Self>, UserDataRef<Self>)| Ok(one.0 < other.0),
        );
    }
}

//--- Network

/// A network; bits beyond its prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network(pub(crate) IpNet);

impl UserData for Network {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("empty", |_, _, ()| Ok(false));
        methods.add_method("getBits", |_, this, ()| Ok(this.0.prefix_len()));
        methods.add_method("getNetwork", |_, this, ()| Ok(Address::of(this.0.addr())));
        methods.add_method("getMaskedNetwork", |_, this, ()| {
            Ok(Address::of(this.0.network()))
        });
        for name in ["isIPv4", "isIpv4"] {
            methods.add_method(name, |_, this, ()| Ok(this.0.addr().is_ipv4()));
        }
        for name in ["isIPv6", "isIpv6"] {
            methods.add_method(name, |_, this, ()| Ok(this.0.addr().is_ipv6()));
        }
        methods.add_method("match", |_, this, address: Value| {
            Ok(this.0.contains(&address_of(&address)?))
        });
        methods.add_method("toString", |_, this, ()| Ok(this.0.to_string()));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
        methods.add_meta_function(
            MetaMethod::Eq,
            |_, (one, other): (UserDataRef<Self>, UserDataRef<Self>)| Ok(*one == *other),
        );
    }
}

/// A group of networks; a leading `!` excludes one, and the longest match decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkGroup(Vec<(IpNet, bool)>);

impl NetworkGroup {
    /// Whether an address belongs to the group.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0
            .iter()
            .filter(|(net, _)| net.contains(&address))
            .max_by_key(|(net, _)| net.prefix_len())
            .is_some_and(|(_, inside)| *inside)
    }

    fn add(&mut self, text: &str) -> mlua::Result<()> {
        let entry = match text.strip_prefix('!') {
            Some(text) => (network(text)?, false),
            None => (network(text)?, true),
        };
        self.0.push(entry);
        bounded(self.0.len())
    }

    fn add_all(&mut self, masks: &Value) -> mlua::Result<()> {
        values::texts(masks, "the networks")?
            .iter()
            .try_for_each(|text| self.add(text))
    }
}

impl UserData for NetworkGroup {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("addMask", |_, this, mask: BorrowedStr| this.add(&mask));
        methods.add_method_mut("addMasks", |_, this, masks: Value| this.add_all(&masks));
        methods.add_method("match", |_, this, address: Value| {
            Ok(this.contains(address_of(&address)?))
        });
    }
}

//--- Header

/// The header of a query (RFC 1035 §4.1.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header(pub(crate) [u8; 12]);

impl Header {
    fn flags(&self) -> Flags {
        Flags::read(&self.0).unwrap_or_default()
    }

    /// The n-th pair of octets.
    fn word(&self, n: usize) -> u16 {
        let octets = self.0.chunks_exact(2).nth(n);
        octets
            .and_then(|octets| octets.try_into().ok())
            .map_or(0, u16::from_be_bytes)
    }
}

impl UserData for Header {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        for (name, word) in [
            ("getID", 0),
            ("getQDCOUNT", 2),
            ("getANCOUNT", 3),
            ("getNSCOUNT", 4),
            ("getARCOUNT", 5),
        ] {
            methods.add_method(name, move |_, this, ()| Ok(this.word(word)));
        }
        for (name, bit) in [
            ("getRD", Flags::RD),
            ("getCD", Flags::CD),
            ("getTC", Flags::TC),
            ("getRA", Flags::RA),
            ("getAD", Flags::AD),
            ("getAA", Flags::AA),
        ] {
            methods.add_method(name, move |_, this, ()| Ok(this.flags().has(bit)));
        }
        methods.add_method("getRCODE", |_, this, ()| Ok(this.flags().rcode().0));
        methods.add_method("getOPCODE", |_, this, ()| Ok(this.flags().opcode().0));
    }
}
