//! The packages of the workspace, as `cargo metadata` tells them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::files::checkout;

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// The folder of its Cargo.toml, from the root of the checkout.
    pub folder: PathBuf,
    pub targets: Vec<Target>,
    pub dependencies: Vec<Dependency>,
    /// `[package.metadata.outpost] core = true`: it decides, and never does I/O.
    pub core: bool,
    /// `[package.metadata.outpost] shared = true`: other services may depend on it although it lies in one service's folder.
    pub shared: bool,
}

/// A library or a program of a package.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    /// The file that it starts with.
    pub root: PathBuf,
}

/// A line of `[dependencies]` or of one of its sisters.
#[derive(Clone, Debug)]
pub struct Dependency {
    pub name: String,
    /// Neither of tests only nor of the build script.
    pub normal: bool,
}

/// Reads the workspace.
pub fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(checkout())
        .output()
        .unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {stderr}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let mut packages: Vec<Package> = list(&metadata["packages"]).map(package).collect();
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    packages
}

impl Package {
    /// The folder at the root of the checkout that it lies in: `base`, `peers`, `dns-authd`.
    pub fn top(&self) -> &str {
        let first = self.folder.components().next();
        first.and_then(|c| c.as_os_str().to_str()).unwrap_or("")
    }
}

fn package(value: &Value) -> Package {
    let manifest = Path::new(text(&value["manifest_path"]));
    let folder = manifest.parent().expect("a manifest lies in a folder");
    let says = |key: &str| value["metadata"]["outpost"][key] == Value::Bool(true);
    let is_product = |target: &&Value| {
        list(&target["kind"]).any(|kind| matches!(text(kind), "lib" | "bin" | "proc-macro"))
    };
    let target = |target: &Value| Target {
        name: text(&target["name"]).to_owned(),
        root: PathBuf::from(text(&target["src_path"])),
    };
    let dependency = |dependency: &Value| Dependency {
        name: text(&dependency["name"]).to_owned(),
        normal: dependency["kind"].is_null(),
    };
    Package {
        name: text(&value["name"]).to_owned(),
        folder: folder.strip_prefix(checkout()).unwrap_or(folder).to_owned(),
        targets: list(&value["targets"])
            .filter(is_product)
            .map(target)
            .collect(),
        dependencies: list(&value["dependencies"]).map(dependency).collect(),
        core: says("core"),
        shared: says("shared"),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
