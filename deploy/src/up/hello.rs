//! An image to push into the demonstration's registry: one file, made here, because a machine without
//! a network has none.

use std::io;

use service_image::elf::Machine;
use service_image::layer::Tree;
use service_image::layout::{Recipe, write};

/// The archive of an image with one line of text.
///
/// # Errors
///
/// When it cannot be packed.
pub(crate) fn archive() -> io::Result<Vec<u8>> {
    let mut tree = Tree::default();
    tree.file("hello.txt", 0o644, *b"Hello from Outpost.\n");
    let recipe = Recipe {
        service: "hello".to_owned(),
        description: "An image to push".to_owned(),
        version: "1".to_owned(),
        revision: String::new(),
        source: None,
        licenses: env!("CARGO_PKG_LICENSE").to_owned(),
        machine: match cfg!(target_arch = "aarch64") {
            true => Machine::Aarch64,
            false => Machine::X86_64,
        },
        created: "1970-01-01T00:00:00Z".to_owned(),
        time: 0,
    };
    let mut archive = Vec::new();
    write(&recipe, &tree.layer(0)?, &mut archive)?;
    Ok(archive)
}
