//! The serial number of the site's zones, which moves with their content (RFC 1982), so that secondary servers notice a change.
//!
//! A site file with `dns.serial` has its own.

use std::path::Path;

use site::Site;
use site_render::config::zones;

use crate::number::{NumberFile, Settled};

const FILE: NumberFile = NumberFile {
    name: "zone.serial",
    what: "The serial number of the zones, and the digest of their content.",
    remedy: "`serial` in [dns] sets one",
};

/// The number of a site whose zones have never been rendered.
const FIRST: u32 = 1;

/// Gives the zones of a site their serial number; none has to be kept where the site file has one.
///
/// # Errors
///
/// When the file of the last number cannot be read.
pub(crate) fn settle(home: &Path, site: &mut Site) -> anyhow::Result<Option<Settled<u32>>> {
    if site.zone.serial.is_some() {
        return Ok(None);
    }
    site.zone.serial = Some(0);
    let content: String = zones(site).into_iter().map(|zone| zone.text).collect();
    let settled = FILE.settle(home, content.as_bytes(), FIRST, next)?;
    site.zone.serial = Some(settled.number);
    Ok(Some(settled))
}

/// The next number (RFC 1982 §3.1); some servers read 0 as no number.
const fn next(serial: u32) -> u32 {
    match serial.wrapping_add(1) {
        0 => FIRST,
        next => next,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn site() -> Site {
        let mut site = Site::example();
        site.zone.serial = None;
        site
    }

    /// Renders a site as `render` does, and gives the number of its zones.
    fn rendered(home: &Path, mut site: Site) -> u32 {
        let settled = settle(home, &mut site).unwrap();
        settled.map_or(Ok(()), |settled| settled.keep()).unwrap();
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
        let path = directory.path().join(FILE.name);
        fs::write(&path, "# old\n4294967295 none\n").unwrap();
        assert_eq!(rendered(directory.path(), site()), 1);
        fs::write(&path, "soon none\n").unwrap();
        let error = settle(directory.path(), &mut site()).unwrap_err();
        assert!(error.to_string().contains("has no number"), "{error}");
    }
}
