//! From the file that describes a site to what its nodes run.

mod bundle;
mod cluster;
mod fixture;
mod image;
mod install;
mod listening;
mod render;
mod site;
mod taken;
mod validate;

use std::fs;
use std::path::Path;

use tests::scratch::Scratch;

/// A site of tests/data/deploy, with every file that its site file names.
pub(crate) fn copy_site(from: &Path, to: &Scratch) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
        }
    }
}
