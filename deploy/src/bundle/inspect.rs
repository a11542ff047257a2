//! `outpost bundle verify` and `list`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use config_text::counted;
use daemon::outln;

use crate::bundle::args::{BundleList, BundleVerify};
use crate::bundle::keys;
use crate::image::build::mebibytes;
use site_bundle::reader::Bundle;
use site_bundle::signature;

/// Opens a bundle; nothing in it is believed yet.
///
/// # Errors
///
/// When it is none.
pub(crate) fn open(path: &Path) -> anyhow::Result<Bundle<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Bundle::open(BufReader::new(file))
        .with_context(|| format!("{} is not a bundle", path.display()))
}

/// Checks everything.
///
/// # Errors
///
/// When the signature is not right, or anything is damaged.
pub(super) fn verify(args: &BundleVerify) -> anyhow::Result<()> {
    let key = keys::public(&args.public_key)?;
    let mut bundle = open(&args.bundle)?;
    let (text, said) = bundle.signed();
    let comment = signature::verify(&key, said, text)
        .with_context(|| format!("{} is not to be believed", args.bundle.display()))?;
    let mut total = 0u64;
    bundle
        .check_members(|_, size| total = total.saturating_add(size))
        .with_context(|| args.bundle.display().to_string())?;
    let number = bundle.manifest().members.len();
    outln!("signed by {}: {comment}", signature::key_id(&key));
    outln!(
        "{}, {}: all as they were signed",
        counted(number, "member"),
        mebibytes(total)
    );
    Ok(())
}

/// Shows what is in it, and who says that it made it.
///
/// # Errors
///
/// When it is no bundle.
pub(super) fn list(args: &BundleList) -> anyhow::Result<()> {
    let bundle = open(&args.bundle)?;
    let (text, said) = bundle.signed();
    if args.json {
        outln!("{}", String::from_utf8_lossy(text).trim_end());
        return Ok(());
    }
    let manifest = bundle.manifest();
    outln!(
        "site {} ({}), generation {}, made by outpost {}",
        manifest.site,
        manifest.domain,
        manifest.generation,
        manifest.made_by
    );
    outln!(
        "signature of key {}, not checked here",
        signature::signer_id(said)?
    );
    for image in &manifest.images {
        let size = manifest
            .members
            .get(&image.member)
            .map_or(0, |member| member.size);
        outln!(
            "image {:<15} {:>9}  {} (git {})  {}",
            image.service,
            mebibytes(size),
            image.version,
            image.revision,
            image.image_id.short()
        );
    }
    for node in &manifest.nodes {
        let addresses: Vec<String> = node.addresses.iter().map(ToString::to_string).collect();
        outln!(
            "node {} ({}): {}; {}, {}",
            node.name,
            addresses.join(", "),
            node.services.join(", "),
            counted(node.files.len(), "file"),
            counted(node.units.len(), "unit")
        );
    }
    Ok(())
}
