//! The manifest of a bundle: the site, its nodes, what each gets, and the digest of every member.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use service_image::digest::Sha256;

/// The content of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Manifest {
    /// The version of this form.
    pub version: Version,
    /// The site's name.
    pub site: String,
    /// Its domain.
    pub domain: String,
    /// The number of the bundle: one of the same site with other content has a larger one. 0 in those that were made before there
    /// were numbers.
    #[serde(default)]
    pub generation: u64,
    /// When its newest image was made, in seconds since 1970.
    pub created: u64,
    /// The version of the command that made it.
    pub made_by: String,
    /// The nodes.
    pub nodes: Vec<BundleNode>,
    /// The images.
    pub images: Vec<BundleImage>,
    /// Every member but this one and its signature.
    pub members: BTreeMap<String, Member>,
}

/// The version of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// The first.
    #[serde(rename = "v1")]
    V1,
}

/// A member of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Member {
    /// Octets.
    pub size: u64,
    /// Their digest.
    pub sha256: Sha256,
}

/// The part of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BundleNode {
    /// Its host name within the domain.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// How its services run.
    pub runtime: BundleRuntime,
    /// The services that it runs, by name.
    pub services: Vec<String>,
    /// The files that it gets, in the order of their paths.
    pub files: Vec<BundleFile>,
    /// The units that it gets and that are no part of another program's.
    pub units: Vec<BundleUnit>,
}

/// How the services of a node run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BundleRuntime {
    /// Containers, from a store of their own.
    Podman,
    /// Programs, unpacked from the images.
    Native,
}

/// A file of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BundleFile {
    /// The path on the node.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// The member that has its bytes.
    pub member: String,
}

/// A unit of systemd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BundleUnit {
    /// Its name.
    pub name: String,
    /// Whether it is started at boot.
    pub enable: bool,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BundleImage {
    /// The service that it is of.
    pub service: String,
    /// Its version.
    pub version: String,
    /// The revision of its source.
    pub revision: String,
    /// The name for podman.
    pub image_id: Sha256,
    /// The member that is its archive.
    pub member: String,
}

/// Why a manifest is refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not of this form.
    #[error("it cannot be understood")]
    Json(#[from] serde_json::Error),
    /// More of something than there can be.
    #[error("more than {1} {0}")]
    TooMany(&'static str, usize),
    /// A name that is empty, or could mean something to a path or a shell.
    #[error("{0:?} is not a valid name of {1}")]
    BadName(String, &'static str),
    /// A path that is not absolute, or not the shortest for its file.
    #[error("{} is not an absolute path, or contains . or ..", .0.display())]
    BadPath(PathBuf),
    /// Permissions that no file of ours has.
    #[error("{path}: {mode:o} are no permissions", path = .0.display(), mode = .1)]
    BadMode(PathBuf, u32),
    /// The same twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// A member is spoken of that is not listed.
    #[error("it does not list the member {0}")]
    NoMember(String),
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// When it is none, or says what cannot be.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = serde_json::from_slice(text)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The bytes of it, which are signed: the same for the same content.
    ///
    /// # Errors
    ///
    /// When a path is no text.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// The part of one node. The files of the others are not in it, so that no node has the keys of another one.
    #[must_use]
    pub fn of_node(&self, name: &str) -> Self {
        let mut part = self.clone();
        part.nodes.retain(|node| node.name == name);
        let runs = |image: &BundleImage| {
            let mut nodes = part.nodes.iter();
            nodes.any(|node| node.services.contains(&image.service))
        };
        part.images = self
            .images
            .iter()
            .filter(|image| runs(image))
            .cloned()
            .collect();
        let files = part.nodes.iter().flat_map(|node| &node.files);
        let files = files.map(|file| file.member.as_str());
        let images = part.images.iter().map(|image| image.member.as_str());
        let used: BTreeSet<&str> = files.chain(images).chain([COMMAND]).collect();
        let members = self.members.iter();
        let members = members.filter(|(name, _)| used.contains(name.as_str()));
        part.members = members
            .map(|(name, member)| (name.clone(), *member))
            .collect();
        part
    }

    fn check(&self) -> Result<(), ManifestError> {
        bound("nodes", self.nodes.len(), MAX_NODES)?;
        bound("images", self.images.len(), MAX_IMAGES)?;
        bound("members", self.members.len(), MAX_MEMBERS)?;
        for name in self.members.keys() {
            check_member(name)?;
        }
        for image in &self.images {
            check_name(&image.service, "a service")?;
            self.listed(&image.member)?;
        }
        once(self.images.iter().map(|image| image.service.as_str()))?;
        once(self.nodes.iter().map(|node| node.name.as_str()))?;
        for node in &self.nodes {
            self.check_node(node)?;
        }
        Ok(())
    }

    fn check_node(&self, node: &BundleNode) -> Result<(), ManifestError> {
        check_name(&node.name, "a node")?;
        bound("files of a node", node.files.len(), MAX_FILES)?;
        bound("units of a node", node.units.len(), MAX_FILES)?;
        for service in &node.services {
            check_name(service, "a service")?;
        }
        for unit in &node.units {
            check_name(&unit.name, "a unit")?;
        }
        once(node.units.iter().map(|unit| unit.name.as_str()))?;
        let mut paths = BTreeSet::new();
        for file in &node.files {
            check_path(&file.path)?;
            if file.mode & !0o777 != 0 {
                return Err(ManifestError::BadMode(file.path.clone(), file.mode));
            }
            if !paths.insert(&file.path) {
                return Err(ManifestError::Twice(file.path.display().to_string()));
            }
            self.listed(&file.member)?;
        }
        Ok(())
    }

    fn listed(&self, member: &str) -> Result<(), ManifestError> {
        match self.members.contains_key(member) {
            true => Ok(()),
            false => Err(ManifestError::NoMember(member.to_owned())),
        }
    }
}

fn bound(what: &'static str, found: usize, limit: usize) -> Result<(), ManifestError> {
    match found <= limit {
        true => Ok(()),
        false => Err(ManifestError::TooMany(what, limit)),
    }
}

fn once<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), ManifestError> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(ManifestError::Twice(name.to_owned())),
    }
}

/// Names become parts of paths and arguments of commands.
fn check_name(name: &str, of: &'static str) -> Result<(), ManifestError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ':');
    let fits = (1..=255).contains(&name.len()) && !name.starts_with(['-', '.']);
    match fits && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(ManifestError::BadName(name.to_owned(), of)),
    }
}

fn check_member(name: &str) -> Result<(), ManifestError> {
    let bad = || ManifestError::BadName(name.to_owned(), "a member");
    if matches!(name, MANIFEST | SIGNATURE) {
        return Err(bad());
    }
    name.split('/')
        .try_for_each(|part| check_name(part, "a member"))
        .map_err(|_| bad())
}

fn check_path(path: &Path) -> Result<(), ManifestError> {
    let text = path.to_str().unwrap_or_default();
    let mut parts = path.components();
    let is_rooted = parts.next() == Some(Component::RootDir);
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
    // Components leave out what is doubled and what ends a path.
    let is_shortest = !text.contains("//") && !text.ends_with('/') && !text.contains("/./");
    match is_rooted && is_plain && is_shortest && !text.contains('\0') && text.len() <= 4096 {
        true => Ok(()),
        false => Err(ManifestError::BadPath(path.to_owned())),
    }
}

/// The member that is this.
pub const MANIFEST: &str = "manifest.json";
/// The member that is its signature.
pub const SIGNATURE: &str = "manifest.json.minisig";
/// The member that is the command.
pub const COMMAND: &str = "outpost";

/// Nodes of a site; sites have three.
const MAX_NODES: usize = 1000;
/// Images; there are seven services.
const MAX_IMAGES: usize = 64;
/// Files, and units, of a node; there are about sixty.
const MAX_FILES: usize = 1000;
/// Members; a file that differs from node to node is one for each.
pub(super) const MAX_MEMBERS: usize = 10_000;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A site with one node, one image and one file.
    pub(crate) fn example() -> Manifest {
        let member = |bytes: &[u8]| Member {
            size: u64::try_from(bytes.len()).unwrap(),
            sha256: Sha256::of(bytes),
        };
        Manifest {
            version: Version::V1,
            site: "ocp4".to_owned(),
            domain: "ocp4.redhat.ren".to_owned(),
            generation: 1,
            created: 1_795_253_405,
            made_by: "0.1.0".to_owned(),
            nodes: vec![BundleNode {
                name: "master-0".to_owned(),
                addresses: vec![[192, 168, 7, 13].into()],
                runtime: BundleRuntime::Podman,
                services: vec!["healthd".to_owned()],
                files: vec![BundleFile {
                    path: "/etc/outpost/healthd.toml".into(),
                    mode: 0o644,
                    user: 0,
                    group: 0,
                    member: "files/a".to_owned(),
                }],
                units: vec![BundleUnit {
                    name: "outpost-healthd.socket".to_owned(),
                    enable: true,
                }],
            }],
            images: vec![BundleImage {
                service: "healthd".to_owned(),
                version: "0.1.0".to_owned(),
                revision: "1a2b3c4d5".to_owned(),
                image_id: Sha256::of(b"id"),
                member: "images/healthd.tar".to_owned(),
            }],
            members: BTreeMap::from([
                ("files/a".to_owned(), member(b"version = \"v1\"\n")),
                ("images/healthd.tar".to_owned(), member(b"image")),
                (COMMAND.to_owned(), member(b"program")),
            ]),
        }
    }

    fn refused(change: impl FnOnce(&mut Manifest)) -> String {
        let mut manifest = example();
        change(&mut manifest);
        Manifest::parse(&manifest.to_json().unwrap())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = example().to_json().unwrap();
        let manifest = Manifest::parse(&text).unwrap();
        assert_eq!(manifest, example());
        assert_eq!(manifest.to_json().unwrap(), text);
    }

    #[test]
    fn what_could_reach_elsewhere_is_refused() {
        for path in [
            "etc/x",
            "/etc/../x",
            "/etc//x",
            "/etc/x/",
            "/etc/./x",
            "",
            "/a\0b",
        ] {
            let said = refused(|manifest| manifest.nodes[0].files[0].path = path.into());
            assert!(said.contains("not an absolute path"), "{path:?}: {said}");
        }
        for name in ["", "..", "-x", "a b", "a/b", "a\n"] {
            assert!(
                refused(|manifest| manifest.nodes[0].name = name.to_owned())
                    .contains("not a valid name")
            );
            assert!(
                refused(|manifest| manifest.nodes[0].units[0].name = name.to_owned())
                    .contains("not a valid name")
            );
            assert!(
                refused(|manifest| manifest.images[0].service = name.to_owned())
                    .contains("not a valid name")
            );
        }
        let member = example().members["files/a"];
        for name in ["/x", "a/../b", "a//b", MANIFEST, SIGNATURE, ""] {
            let said = refused(|manifest| {
                manifest.members.insert(name.to_owned(), member);
            });
            assert!(
                said.contains("not a valid name of a member"),
                "{name:?}: {said}"
            );
        }
        let said = refused(|manifest| manifest.nodes[0].files[0].mode = 0o4755);
        assert!(said.contains("no permissions"), "{said}");
    }

    #[test]
    fn what_is_not_listed_or_there_twice_is_refused() {
        let said = refused(|manifest| {
            manifest.members.remove("files/a");
        });
        assert!(said.contains("does not list"), "{said}");
        let said = refused(|manifest| manifest.nodes.push(manifest.nodes[0].clone()));
        assert!(said.contains("twice"), "{said}");
        let said = refused(|manifest| {
            let again = manifest.nodes[0].files[0].clone();
            manifest.nodes[0].files.push(again);
        });
        assert!(said.contains("twice"), "{said}");
        assert!(Manifest::parse(b"{}").is_err());
    }

    #[test]
    fn the_part_of_a_node_has_nothing_of_another() {
        let mut whole = example();
        let mut other = whole.nodes[0].clone();
        other.name = "master-1".to_owned();
        other.services = vec!["dns-authd".to_owned()];
        other.files[0].member = "files/key-of-master-1".to_owned();
        whole.nodes.push(other);
        let member = *whole.members.values().next().unwrap();
        for name in ["files/key-of-master-1", COMMAND] {
            whole.members.insert(name.to_owned(), member);
        }
        whole.check().unwrap();
        let part = whole.of_node("master-0");
        part.check().unwrap();
        assert_eq!(part.nodes.len(), 1);
        assert_eq!(part.images, whole.images, "it runs healthd");
        assert!(part.members.contains_key(COMMAND));
        assert!(!part.members.contains_key("files/key-of-master-1"));
        let other = whole.of_node("master-1");
        other.check().unwrap();
        assert!(other.images.is_empty());
        assert!(!other.members.keys().any(|name| name.starts_with("images/")));
    }
}
