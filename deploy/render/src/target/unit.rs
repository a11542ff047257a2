//! A unit of systemd, and everything else that a target puts on a node.

use std::path::PathBuf;

use crate::config::{NodeFile, Part};

/// The directory of a host's own units.
const UNITS: &str = "/etc/systemd/system";

/// A unit, or a drop-in for a foreign unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its name, with its type.
    pub name: String,
    /// Its text. `None` for a foreign unit.
    pub text: Option<String>,
    /// Its drop-ins, by the name of the file.
    pub drop_ins: Vec<(String, String)>,
    /// Whether it starts with the machine.
    pub enable: bool,
    /// The service.
    pub part: Part,
}

impl Unit {
    /// A unit of this project.
    pub(super) fn new(name: impl Into<String>, text: String, part: Part) -> Self {
        Self {
            name: name.into(),
            text: Some(text),
            drop_ins: Vec::new(),
            enable: true,
            part,
        }
    }

    /// A drop-in for a foreign unit.
    pub(super) fn addition(name: &str, text: String, part: Part) -> Self {
        Self {
            name: name.to_owned(),
            text: None,
            drop_ins: vec![(DROP_IN.to_owned(), text)],
            enable: false,
            part,
        }
    }

    /// The files that it is made of.
    pub(super) fn files(&self) -> Vec<NodeFile> {
        let whole = self.text.as_ref().map(|text| {
            let path = PathBuf::from(UNITS).join(&self.name);
            file(path, text.clone(), self.part)
        });
        let drop_ins = self.drop_ins.iter().map(|(name, text)| {
            let directory = PathBuf::from(UNITS).join(format!("{}.d", self.name));
            file(directory.join(name), text.clone(), self.part)
        });
        whole.into_iter().chain(drop_ins).collect()
    }
}

/// After what a platform adds itself: OpenShift's begin with 10.
const DROP_IN: &str = "50-outpost.conf";

/// The files that a target puts on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// Units, in no order that matters.
    pub(super) units: Vec<Unit>,
    /// All other files.
    pub(super) files: Vec<NodeFile>,
}

impl Host {
    /// Everything as files, in the order of their paths.
    pub(super) fn into_files(self) -> Vec<NodeFile> {
        let mut files = self.files;
        files.extend(self.units.iter().flat_map(Unit::files));
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }
}

/// A file of text that everybody may read.
pub(super) fn file(path: impl Into<PathBuf>, text: String, part: Part) -> NodeFile {
    NodeFile {
        path: path.into(),
        mode: 0o644,
        owner: None,
        contents: text.into_bytes(),
        part,
    }
}
