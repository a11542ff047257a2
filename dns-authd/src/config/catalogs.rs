//! Catalog zones (RFC 9432) of a configuration: those that are read, those that are written, and the zones that the former add.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::config::dns_authd::{self, CatalogGroup, DnsAuthd};
use ::config::{Address, Check, Step, at};
use config_text::Position;
use dns_answer::table::Origin;
use dns_catalog::{Listed, Member, Members, file_name};
use dns_exchange::Primary;
use dns_views::{Clients, ZoneAccess, ZoneId};
use dns_wire::{Key, Keys, Name};
use peer_bind::{ZoneDecl, ZoneKind};

use super::primaries::{self, Trusts};
use super::{Config, Secondary};

/// The ending of the file of a member zone. Only files with it are ever removed.
pub const MEMBER: &str = "member";

/// A catalog zone.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Its name.
    pub name: Name,
    /// The file that keeps it.
    pub file: PathBuf,
    /// Whether this server reads or writes it.
    pub role: Role,
    /// The place of its name.
    position: Position,
}

/// The use of a catalog.
#[derive(Clone, Debug)]
pub enum Role {
    /// It is read: its zones are served.
    Consumer(Consumer),
    /// It is written, with these zones.
    Producer(Vec<Listed>),
}

/// A catalog that is read.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// The directory of its zones.
    pub directory: PathBuf,
    /// The most zones.
    pub most: usize,
    source: Source,
    groups: Vec<(String, Source)>,
}

/// The servers that zones are transferred from.
#[derive(Clone, Debug)]
struct Source {
    primaries: Vec<Primary>,
    key: Option<Key>,
}

/// The zones that are catalogs, or that catalogs have added.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    catalogs: HashSet<Name>,
    members: HashSet<Name>,
    readers: Arc<Clients>,
}

impl Origins {
    /// Why the server has a zone.
    #[must_use]
    pub fn of(&self, zone: &ZoneId) -> Origin {
        if zone.view.is_some() {
            Origin::Configured
        } else if self.catalogs.contains(&zone.apex) {
            Origin::Catalog(Arc::clone(&self.readers))
        } else if self.members.contains(&zone.apex) {
            Origin::Member
        } else {
            Origin::Configured
        }
    }
}

impl Catalog {
    /// The catalog, if it is read.
    #[must_use]
    pub const fn consumer(&self) -> Option<&Consumer> {
        match &self.role {
            Role::Consumer(consumer) => Some(consumer),
            Role::Producer(_) => None,
        }
    }

    /// The file of one of its zones.
    #[must_use]
    pub fn file_of(consumer: &Consumer, zone: &Name, member: &Member) -> PathBuf {
        let name = file_name(zone, &member.id);
        consumer.directory.join(format!("{name}.{MEMBER}"))
    }

    /// The file of the list of its zones.
    #[must_use]
    pub fn ledger(&self, consumer: &Consumer) -> PathBuf {
        let name = file_name(&self.name, b"");
        consumer.directory.join(format!("{name}.members"))
    }
}

impl Consumer {
    /// The servers of a zone: those of the first group that it is in.
    fn source_of(&self, member: &Member) -> &Source {
        let mut groups = self.groups.iter();
        let its = groups.find(|(name, _)| member.groups.contains(name));
        its.map_or(&self.source, |(_, source)| source)
    }
}

impl Config {
    /// The same with the zones that catalogs have added. A member of a catalog that is not read is left out.
    #[must_use]
    pub fn with_members(&self, members: &Members) -> Self {
        let mut config = self.clone();
        for (zone, member) in members {
            let mut catalogs = self.catalogs.iter();
            let catalog = catalogs.find(|catalog| catalog.name == member.catalog);
            let Some((catalog, consumer)) =
                catalog.and_then(|catalog| Some((catalog, catalog.consumer()?)))
            else {
                continue;
            };
            let file = Catalog::file_of(consumer, zone, member);
            let source = consumer.source_of(member);
            config.zones.declared.push(ZoneDecl {
                name: zone.clone(),
                view: None,
                kind: ZoneKind::Secondary,
                file: Some(file.clone()),
                primaries: source.primaries.iter().map(Primary::address).collect(),
                also_notify: Vec::new(),
                access: ZoneAccess::default(),
                position: catalog.position.clone(),
            });
            config.secondaries.push(Secondary {
                name: zone.clone(),
                view: None,
                file,
                primaries: source.primaries.clone(),
                key: source.key.clone(),
            });
            config.origins.members.insert(zone.clone());
        }
        config.answers.notifiers = Arc::new(super::notifiers(&config.secondaries));
        config
    }

    pub(super) fn with_catalogs(mut self, catalogs: Vec<Catalog>) -> Self {
        let names = catalogs.iter().map(|catalog| catalog.name.clone());
        self.origins = Origins {
            catalogs: names.collect(),
            members: HashSet::new(),
            readers: Arc::new(self.access.transfer.clone()),
        };
        self.catalogs = catalogs;
        self
    }
}

/// Reads the catalogs of a file, and declares them as zones.
pub(super) fn read(
    file: &DnsAuthd,
    home: Option<&Path>,
    (keys, trusts): (&Keys, &Trusts),
    declared: &mut Vec<ZoneDecl>,
    check: &mut Check<'_>,
) -> Vec<Catalog> {
    // A catalog has no word for views.
    let of_no_view = declared.iter().filter(|zone| zone.view.is_none());
    let zones: Vec<Name> = of_no_view.map(|zone| zone.name.clone()).collect();
    let mut catalogs = Vec::new();
    for (index, table) in file.catalog.iter().enumerate() {
        let text = &table.name;
        let name = match Name::parse(text) {
            Ok(name) => name,
            Err(error) => {
                let message = format!("`{text}` is not a zone name: {error}");
                check.problem(&at!["catalog", index, "name"], message);
                continue;
            }
        };
        if zones.contains(&name) || catalogs.iter().any(|one: &Catalog| one.name == name) {
            let message = format!("zone {name} is declared twice");
            check.problem(&at!["catalog", index, "name"], message);
            continue;
        }
        let position = check.position(&at!["catalog", index, "name"]);
        let place = |path: &Path| home.map_or_else(|| path.to_owned(), |home| home.join(path));
        let mut reader = Reader {
            table,
            index,
            keys,
            trusts,
            check,
        };
        let role = match table.primaries.is_empty() {
            true => reader.producer(&name, &zones).map(Role::Producer),
            false => reader.consumer(&place).map(Role::Consumer),
        };
        let Some(role) = role else {
            continue;
        };
        let primaries = table.primaries.iter().map(|address| address.0);
        let also_notify = table.also_notify.iter().map(|address| address.0);
        let path = place(&table.file);
        declared.push(ZoneDecl {
            name: name.clone(),
            view: None,
            kind: match table.primaries.is_empty() {
                true => ZoneKind::Primary,
                false => ZoneKind::Secondary,
            },
            file: Some(path.clone()),
            primaries: primaries.collect(),
            also_notify: also_notify.collect(),
            access: ZoneAccess::default(),
            position: position.clone(),
        });
        catalogs.push(Catalog {
            name,
            file: path,
            role,
            position,
        });
    }
    catalogs
}

/// The way to a value of the file.
type KeyPath<'w> = &'w [Step<'w>];

/// One table of a catalog.
struct Reader<'r, 'c, 'd> {
    table: &'r dns_authd::Catalog,
    index: usize,
    keys: &'r Keys,
    trusts: &'r Trusts,
    check: &'c mut Check<'d>,
}

impl Reader<'_, '_, '_> {
    fn consumer(&mut self, place: &dyn Fn(&Path) -> PathBuf) -> Option<Consumer> {
        let (table, index) = (self.table, self.index);
        let Some(directory) = &table.directory else {
            let message = "a catalog that is read needs a `directory` for the zones that it lists";
            self.check.problem(&at!["catalog", index, "name"], message);
            return None;
        };
        if !table.zones.is_empty() {
            let message = "the catalog comes from its primaries, which say what it lists";
            self.check.problem(&at!["catalog", index, "zones"], message);
        }
        let addresses =
            |list: &[Address]| -> Vec<SocketAddr> { list.iter().map(|one| one.0).collect() };
        let own = addresses(&table.primaries);
        let primaries = primaries::of(&own, table.tls.as_ref(), self.trusts);
        let way = at!["catalog", index, "key"];
        let key = self.key(table.key.as_deref(), &way);
        let mut groups = Vec::new();
        for (at, group) in table.group.iter().enumerate() {
            if !group.zones.is_empty() {
                let message = "the catalog comes from its primaries, which say what is in a group";
                let way = at!["catalog", index, "group", at, "zones"];
                self.check.problem(&way, message);
            }
            let way = at!["catalog", index, "group", at, "key"];
            let its = match group.primaries.is_empty() {
                true => own.clone(),
                false => addresses(&group.primaries),
            };
            let tls = group.tls.as_ref().or(table.tls.as_ref());
            let source = Source {
                primaries: primaries::of(&its, tls, self.trusts),
                key: match &group.key {
                    Some(name) => self.key(Some(name), &way),
                    None => key.clone(),
                },
            };
            groups.push((group.name.clone(), source));
        }
        Some(Consumer {
            directory: place(directory),
            most: table.max_members.get(),
            source: Source { primaries, key },
            groups,
        })
    }

    /// The zones that the catalog lists, of these.
    fn producer(&mut self, catalog: &Name, zones: &[Name]) -> Option<Vec<Listed>> {
        let (table, index) = (self.table, self.index);
        let odd = [
            ("key", table.key.is_some()),
            ("directory", table.directory.is_some()),
        ];
        for (field, _) in odd.iter().filter(|(_, is_there)| *is_there) {
            let message = "it is for a catalog that is read, and this one has no primaries";
            self.check.problem(&at!["catalog", index, *field], message);
        }
        let mut listed: Vec<Listed> = match table.zones.is_empty() {
            true => zones.iter().cloned().map(listed_alone).collect(),
            false => Vec::new(),
        };
        for (at, text) in table.zones.iter().enumerate() {
            let way = at!["catalog", index, "zones", at];
            listed.extend(self.declared(text, zones, &way).map(listed_alone));
        }
        for (at, group) in table.group.iter().enumerate() {
            let CatalogGroup { primaries, key, .. } = group;
            if !primaries.is_empty() || key.is_some() {
                let message = "it is for a catalog that is read, and this one has no primaries";
                let way = at!["catalog", index, "group", at, "name"];
                self.check.problem(&way, message);
            }
            if group.name.len() > usize::from(u8::MAX) {
                let way = at!["catalog", index, "group", at, "name"];
                self.check.problem(&way, "a group has at most 255 octets");
            }
            for (number, text) in group.zones.iter().enumerate() {
                let way = at!["catalog", index, "group", at, "zones", number];
                let Some(zone) = self.declared(text, zones, &way) else {
                    continue;
                };
                match listed.iter_mut().find(|listed| listed.zone == zone) {
                    Some(listed) => listed.groups.push(group.name.clone()),
                    None => {
                        let message = format!("the catalog does not list {zone}: see its `zones`");
                        self.check.problem(&way, message);
                    }
                }
            }
        }
        let most = table.max_members.get();
        if listed.len() > most {
            let message = format!("the catalog lists more than {most} zones");
            let way = at!["catalog", index, "max-members"];
            self.check.problem(&way, message);
        }
        if dns_catalog::render(catalog, &listed, None, 0).is_err() {
            let message = "the name is too long for a catalog: it leaves no room for its members";
            self.check.problem(&at!["catalog", index, "name"], message);
            return None;
        }
        Some(listed)
    }

    /// A zone of the configuration.
    fn declared(&mut self, text: &str, zones: &[Name], way: KeyPath<'_>) -> Option<Name> {
        let name = Name::parse(text).ok().filter(|name| zones.contains(name));
        if name.is_none() {
            let message = format!("zone `{text}` is not declared");
            self.check.problem(way, message);
        }
        name
    }

    fn key(&mut self, name: Option<&str>, way: KeyPath<'_>) -> Option<Key> {
        let name = name?;
        let key = Name::parse(name).ok().and_then(|name| self.keys.get(&name));
        if key.is_none() {
            let message = format!("no [[key]] has the name `{name}`");
            self.check.problem(way, message);
        }
        key.cloned()
    }
}

fn listed_alone(zone: Name) -> Listed {
    Listed {
        zone,
        groups: Vec::new(),
    }
}
