//! A software bill of materials in CycloneDX's JSON (ECMA-424, version 1.5).
//!
//! From what Cargo resolved (`cargo metadata`), with the checksums of Cargo.lock, and what the
//! program itself says of the C library and the compiler in it. The same input gives the same bytes:
//! there is no serial number, and the time is the image's.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// The program that a bill describes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The package of the program.
    pub(crate) package: &'a str,
    /// Its version, as the program itself says it.
    pub(crate) version: &'a str,
    /// When the image is made, as RFC 3339 has it.
    pub(crate) created: &'a str,
    /// The program.
    pub(crate) program: &'a [u8],
}

/// All packages, from `cargo metadata`.
#[derive(Debug)]
pub(crate) struct Packages {
    by_id: BTreeMap<String, Package>,
    /// The packages that each is made of.
    uses: BTreeMap<String, BTreeSet<String>>,
    checksums: BTreeMap<(String, String), String>,
}

impl Packages {
    /// Reads what Cargo prints and Cargo.lock.
    ///
    /// # Errors
    ///
    /// When one of them is not what it is to be.
    pub(crate) fn parse(metadata: &[u8], lock: &str) -> anyhow::Result<Self> {
        let metadata: Metadata =
            serde_json::from_slice(metadata).context("cargo metadata cannot be understood")?;
        let lock: Lock = toml::from_str(lock).context("Cargo.lock cannot be understood")?;
        let by_id = metadata.packages.into_iter();
        let is_linked = |dependency: &Dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| kind.kind.is_none())
        };
        let uses = metadata.resolve.nodes.into_iter().map(|node| {
            let linked = node.deps.into_iter().filter(is_linked);
            (node.id, linked.map(|dependency| dependency.pkg).collect())
        });
        let checksums = lock.package.into_iter().filter_map(|locked| {
            let checksum = locked.checksum?;
            Some(((locked.name, locked.version), checksum))
        });
        Ok(Self {
            by_id: by_id.map(|package| (package.id.clone(), package)).collect(),
            uses: uses.collect(),
            checksums: checksums.collect(),
        })
    }

    /// The bill of one program.
    ///
    /// # Errors
    ///
    /// When Cargo knows no such package.
    pub(crate) fn bill(&self, subject: Subject<'_>) -> anyhow::Result<Vec<u8>> {
        let mut own = self.by_id.values();
        let own = own
            .find(|package| package.name == subject.package && package.source.is_none())
            .with_context(|| format!("Cargo knows no package {}", subject.package))?;
        let inside = self.closure(&own.id);
        let mut components: Vec<Component<'_>> = inside
            .iter()
            .filter(|id| **id != own.id)
            .filter_map(|id| self.by_id.get(*id))
            .map(|package| self.component(package, "library"))
            .collect();
        components.extend(found_in(subject.program));
        components.sort_by(|a, b| a.bom_ref.cmp(&b.bom_ref));
        let dependencies = inside.iter().filter_map(|id| self.dependency(id));
        let mut dependencies: Vec<Relation> = dependencies.collect();
        dependencies.sort_by(|a, b| a.name.cmp(&b.name));
        let bill = Bill {
            bom_format: "CycloneDX",
            spec_version: "1.5",
            version: 1,
            metadata: About {
                timestamp: subject.created,
                component: Component {
                    version: subject.version.to_owned(),
                    ..self.component(own, "application")
                },
            },
            components,
            dependencies,
        };
        let mut text = serde_json::to_vec_pretty(&bill).context("cannot write the bill")?;
        text.push(b'\n');
        Ok(text)
    }

    /// A package and everything that it is made of.
    fn closure<'a>(&'a self, root: &'a str) -> BTreeSet<&'a str> {
        let mut inside = BTreeSet::new();
        let mut waiting = vec![root];
        while let Some(id) = waiting.pop() {
            if inside.insert(id) {
                let uses = self.uses.get(id).into_iter().flatten();
                waiting.extend(uses.map(String::as_str));
            }
        }
        inside
    }

    fn component<'a>(&'a self, package: &'a Package, kind: &'a str) -> Component<'a> {
        let key = (package.name.clone(), package.version.clone());
        let hash = |checksum: &'a String| Hash {
            alg: "SHA-256",
            content: checksum,
        };
        // Before SPDX had expressions, Cargo's manifests had a slash.
        let expression = |license: &String| License {
            expression: license.replace('/', " OR "),
        };
        Component {
            kind,
            bom_ref: purl(package),
            name: &package.name,
            version: package.version.clone(),
            licenses: package
                .license
                .as_ref()
                .map(expression)
                .into_iter()
                .collect(),
            hashes: self.checksums.get(&key).map(hash).into_iter().collect(),
            purl: Some(purl(package)),
        }
    }

    fn dependency(&self, id: &str) -> Option<Relation> {
        let name = |id: &String| self.by_id.get(id).map(purl);
        let uses = self.uses.get(id)?.iter().filter_map(name);
        let depends_on: BTreeSet<String> = uses.collect();
        Some(Relation {
            name: purl(self.by_id.get(id)?),
            depends_on,
        })
    }
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

/// The C library and the compiler's own libraries: they are in the program, and Cargo knows neither.
fn found_in(program: &[u8]) -> Vec<Component<'static>> {
    // A static program has the C library, and does not say which version of it.
    let mark = b"GLIBC_TUNABLES";
    let has_glibc = program.windows(mark.len()).any(|window| window == mark);
    let glibc = has_glibc.then(|| ("glibc", "LGPL-2.1-or-later", String::new()));
    let rust = after(program, b"rustc version ", b')')
        .map(|text| text.split(' ').next().unwrap_or_default().to_owned())
        .map(|version| ("rust-std", "MIT OR Apache-2.0", version));
    let component = |(name, license, version): (&'static str, &str, String)| Component {
        kind: "library",
        bom_ref: generic(name, &version),
        name,
        licenses: vec![License {
            expression: license.to_owned(),
        }],
        hashes: Vec::new(),
        purl: Some(generic(name, &version)),
        version,
    };
    glibc.into_iter().chain(rust).map(component).collect()
}

fn generic(name: &str, version: &str) -> String {
    match version {
        "" => format!("pkg:generic/{name}"),
        version => format!("pkg:generic/{name}@{version}"),
    }
}

/// The text behind a mark, up to a byte.
fn after(program: &[u8], mark: &[u8], end: u8) -> Option<String> {
    /// Longer than any line that names a version.
    const LONGEST: usize = 200;
    let at = program
        .windows(mark.len())
        .position(|window| window == mark)?;
    let rest = program.get(at + mark.len()..)?;
    let text = rest.iter().take(LONGEST).take_while(|byte| **byte != end);
    String::from_utf8(text.copied().collect()).ok()
}

//--- The output of Cargo

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

/// `None` is a linked dependency; `dev` and `build` are not linked.
#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

//--- CycloneDX

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bill<'a> {
    bom_format: &'a str,
    spec_version: &'a str,
    version: u8,
    metadata: About<'a>,
    components: Vec<Component<'a>>,
    dependencies: Vec<Relation>,
}

#[derive(Serialize)]
struct About<'a> {
    timestamp: &'a str,
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(rename = "bom-ref")]
    bom_ref: String,
    name: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<License>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
}

#[derive(Serialize)]
struct Hash<'a> {
    alg: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct License {
    expression: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Relation {
    #[serde(rename = "ref")]
    name: String,
    depends_on: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "packages": [
            {"id": "w#healthd", "name": "healthd", "version": "0.1.0", "license": "MIT OR Apache-2.0", "source": null},
            {"id": "r#tokio", "name": "tokio", "version": "1.54.0", "license": "MIT", "source": "registry"},
            {"id": "r#old", "name": "old", "version": "0.2.0", "license": "MIT/Apache-2.0", "source": "registry"},
            {"id": "r#cc", "name": "cc", "version": "1.0.0", "license": "MIT", "source": "registry"}
        ],
        "resolve": {"nodes": [
            {"id": "w#healthd", "deps": [
                {"pkg": "r#tokio", "dep_kinds": [{"kind": null, "target": null}]},
                {"pkg": "r#cc", "dep_kinds": [{"kind": "build", "target": null}]}
            ]},
            {"id": "r#tokio", "deps": [{"pkg": "r#old", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
            {"id": "r#old", "deps": []},
            {"id": "r#cc", "deps": []}
        ]}
    }"#;
    const LOCK: &str = "version = 4\n[[package]]\nname = \"tokio\"\nversion = \"1.54.0\"\nchecksum = \"abc\"\n\
        [[package]]\nname = \"healthd\"\nversion = \"0.1.0\"\n";
    const PROGRAM: &[u8] = b"..GLIBC_TUNABLES..rustc version 1.95.0 (5980 2026)..";

    fn bill() -> serde_json::Value {
        let packages = Packages::parse(METADATA.as_bytes(), LOCK).unwrap();
        let subject = Subject {
            package: "healthd",
            version: "0.1.0",
            created: "2026-11-21T09:30:05.000Z",
            program: PROGRAM,
        };
        let text = packages.bill(subject).unwrap();
        assert_eq!(text, packages.bill(subject).unwrap());
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn a_bill_lists_what_is_linked_and_nothing_that_only_builds() {
        let bill = bill();
        let names: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|component| component["purl"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "pkg:cargo/old@0.2.0",
                "pkg:cargo/tokio@1.54.0",
                "pkg:generic/glibc",
                "pkg:generic/rust-std@1.95.0"
            ]
        );
        assert_eq!(bill["metadata"]["component"]["name"], "healthd");
        assert_eq!(bill["specVersion"], "1.5");
    }

    #[test]
    fn licences_and_checksums_are_carried_over() {
        let bill = bill();
        assert_eq!(
            bill["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "abc");
        assert_eq!(bill["components"][0]["hashes"], serde_json::Value::Null);
    }

    #[test]
    fn relations_name_only_what_is_inside() {
        let bill = bill();
        let relations = bill["dependencies"].as_array().unwrap();
        assert_eq!(relations.len(), 3);
        assert_eq!(relations[0]["ref"], "pkg:cargo/healthd@0.1.0");
        assert_eq!(relations[0]["dependsOn"][0], "pkg:cargo/tokio@1.54.0");
    }

    #[test]
    fn a_package_that_is_not_there_is_an_error() {
        let packages = Packages::parse(METADATA.as_bytes(), LOCK).unwrap();
        let subject = Subject {
            package: "tokio",
            version: "1",
            created: "",
            program: b"",
        };
        assert!(
            packages.bill(subject).is_err(),
            "a foreign package is no program of ours"
        );
        assert!(Packages::parse(b"{}", LOCK).is_err());
    }
}
