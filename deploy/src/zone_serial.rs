//! The serial number of the site's zones, which moves with their content (RFC 1982), so that secondary servers notice a change.
//!
//! A number that follows from the content alone does not always grow. So `zone.serial` beside the site file has the last number
//! and the digest of its content. A site file with `dns.serial` has its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use durable::Rights;
use service_image::digest::Sha256;

use site::Site;
use site_render::config::zones;

/// The file beside the site file.
const NAME: &str = "zone.serial";

const HEAD: &str = "\
# The serial number of the zones, and the digest of their content. outpost render and outpost bundle write
# this file; keep it with site.toml.
";

/// The number of a site whose zones have never been rendered.
const FIRST: u32 = 1;

/// A number, and the file that has to be written so that it is not used again for other content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    path: PathBuf,
    changed: Option<String>,
}

/// Gives the zones of a site their serial number.
///
/// # Errors
///
/// When the file of the last number cannot be read.
pub(crate) fn settle(home: &Path, site: &mut Site) -> anyhow::Result<Settled> {
    let path = home.join(NAME);
    if site.zone.serial.is_some() {
        let changed = None;
        return Ok(Settled { path, changed });
    }
    site.zone.serial = Some(0);
    let content: String = zones(site).into_iter().map(|zone| zone.text).collect();
    let digest = Sha256::of(content.as_bytes()).to_oci();
    let last = last(&path)?;
    let (serial, is_new) = match last {
        Some((serial, of)) if of == digest => (serial, false),
        Some((serial, _)) => (next(serial), true),
        None => (FIRST, true),
    };
    site.zone.serial = Some(serial);
    let changed = is_new.then(|| format!("{HEAD}{serial} {digest}\n"));
    Ok(Settled { path, changed })
}

impl Settled {
    /// Keeps the number.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        let Some(text) = &self.changed else {
            return Ok(());
        };
        durable::write(&self.path, Rights::PUBLIC, text.as_bytes()).with_context(|| {
            format!(
                "cannot keep the serial number of the zones in {}; `serial` in [dns] sets one",
                self.path.display()
            )
        })
    }
}

/// The next number (RFC 1982 §3.1); some servers read 0 as no number.
const fn next(serial: u32) -> u32 {
    match serial.wrapping_add(1) {
        0 => FIRST,
        next => next,
    }
}

/// The last number and the digest of its content.
fn last(path: &Path) -> anyhow::Result<Option<(u32, String)>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let words = lines.next().and_then(|line| line.split_once(' '));
    let read = words.and_then(|(serial, digest)| Some((serial.parse().ok()?, digest.to_owned())));
    match read {
        Some(read) => Ok(Some(read)),
        None => bail!(
            "{} has no serial number; write `1 none` into it, with the number that secondary servers have in the place of 1",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let mut site = Site::example();
        site.zone.serial = None;
        site
    }

    /// Renders a site as `render` does, and gives the number of its zones.
    fn rendered(home: &Path, mut site: Site) -> u32 {
        let settled = settle(home, &mut site).unwrap();
        settled.keep().unwrap();
        let serial = site.zone.serial.unwrap();
        let line = format!("        {serial:<11} ; serial");
        let zones = zones(&site);
        let mut with_head = zones.iter().filter(|file| file.text.contains(" IN SOA "));
        assert_eq!(
            with_head.clone().count(),
            zones.len() - 1,
            "all but their list"
        );
        assert!(with_head.all(|zone| zone.text.contains(&line)));
        serial
    }

    #[test]
    fn the_serial_moves_with_the_content_and_only_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        assert_eq!(rendered(home, site()), 1);
        assert_eq!(rendered(home, site()), 1);
        let mut more = site();
        more.hosts.extend(site().hosts.pop().map(|mut host| {
            "new".clone_into(&mut host.name);
            host
        }));
        assert_eq!(rendered(home, more.clone()), 2);
        assert_eq!(rendered(home, more.clone()), 2);
        // Back to the first content is forward for a secondary server.
        assert_eq!(rendered(home, site()), 3);
        // A look does not count.
        settle(home, &mut more).unwrap();
        assert_eq!(rendered(home, site()), 3);
        let mut fixed = site();
        fixed.zone.serial = Some(2_014_080_704);
        assert_eq!(rendered(home, fixed), 2_014_080_704);
        assert_eq!(rendered(home, site()), 3);
    }

    #[test]
    fn the_serial_after_the_last_is_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        fs::write(&path, "# old\n4294967295 none\n").unwrap();
        assert_eq!(rendered(directory.path(), site()), 1);
        fs::write(&path, "soon none\n").unwrap();
        let error = settle(directory.path(), &mut site()).unwrap_err();
        assert!(
            error.to_string().contains("has no serial number"),
            "{error}"
        );
    }
}
