//! The serial number of the site's zones, which moves with their content (RFC 1982), so that secondary servers notice a change.
//!
//! A site file with `dns.serial` has its own; that is kept too, and a change that secondaries would not notice is named. The first number
//! of a site is the time: a site whose number was lost continues with a higher one.

use std::path::Path;

use site::Site;
use site_render::config::zones;

use crate::number::{NumberFile, Settled};

const FILE: NumberFile = NumberFile {
    name: "zone.serial",
    what: "The serial number of the zones, and the digest of their content.",
    remedy: "`serial` in [dns] sets one",
};

/// The serial number of a site's zones.
#[derive(Debug)]
pub(crate) struct Serial {
    settled: Settled<u32>,
    /// Whether the site file has it.
    is_fixed: bool,
    /// Why secondary servers would keep the zones that they have.
    pub(crate) oddity: Option<String>,
}

impl Serial {
    /// Keeps the number.
    ///
    /// # Errors
    ///
    /// When the file cannot be written. A number of the site file does without: it is kept for comparison alone.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        match self.settled.keep() {
            Err(_) if self.is_fixed => Ok(()),
            kept => kept,
        }
    }
}

/// Gives the zones of a site their serial number. `now` is the time in seconds since 1970.
///
/// # Errors
///
/// When the file of the last number cannot be read.
pub(crate) fn settle(home: &Path, site: &mut Site, now: u64) -> anyhow::Result<Serial> {
    let fixed = site.zone.serial.replace(0);
    let content: String = zones(site).into_iter().map(|zone| zone.text).collect();
    // Seconds fit until 2106, and the arithmetic of serials continues behind that.
    let first = u32::try_from(now % (1 << 32)).unwrap_or(1);
    let content = content.as_bytes();
    let (settled, oddity) = match fixed {
        None => (FILE.settle(home, content, first, next)?, None),
        Some(serial) => {
            let (settled, last) = FILE.set(home, content, serial)?;
            (settled, last.and_then(|last| oddity(last, serial)))
        }
    };
    site.zone.serial = Some(settled.number);
    Ok(Serial {
        settled,
        is_fixed: fixed.is_some(),
        oddity,
    })
}

/// Why secondary servers keep what they have of zones whose content has changed, and whose number was `last`.
fn oddity(last: u32, serial: u32) -> Option<String> {
    let ahead = serial.wrapping_sub(last);
    let how = match ahead {
        0 => "the same as before".to_owned(),
        1..=0x7fff_ffff => return None,
        _ => format!("lower than {last}, which was the last one"),
    };
    Some(format!(
        "the zones have changed, and `serial` in [dns] is {serial}, {how}: secondary servers keep the old zones; raise it, or remove it"
    ))
}

/// The next number (RFC 1982 §3.1); some servers read 0 as no number.
const fn next(serial: u32) -> u32 {
    match serial.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW: u64 = 1_796_000_000;
    /// The number of a site whose zones have never been rendered.
    const FIRST: u32 = 1_796_000_000;

    fn site() -> Site {
        let mut site = Site::example();
        site.zone.serial = None;
        site
    }

    /// Renders a site as `render` does, and gives the number of its zones.
    fn rendered(home: &Path, mut site: Site) -> u32 {
        settle(home, &mut site, NOW).unwrap().keep().unwrap();
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
        assert_eq!(rendered(home, site()), FIRST);
        assert_eq!(rendered(home, site()), FIRST);
        let mut more = site();
        more.hosts.extend(site().hosts.pop().map(|mut host| {
            "new".clone_into(&mut host.name);
            host
        }));
        assert_eq!(rendered(home, more.clone()), FIRST + 1);
        assert_eq!(rendered(home, more.clone()), FIRST + 1);
        // Back to the first content is forward for a secondary server.
        assert_eq!(rendered(home, site()), FIRST + 2);
        // A look does not count.
        settle(home, &mut more, NOW).unwrap();
        assert_eq!(rendered(home, site()), FIRST + 2);
        let mut fixed = site();
        fixed.zone.serial = Some(2_014_080_704);
        assert_eq!(rendered(home, fixed), 2_014_080_704);
        // Without one of its own, a site goes on from there.
        assert_eq!(rendered(home, site()), 2_014_080_704);
        more.zone.serial = None;
        assert_eq!(rendered(home, more), 2_014_080_705);
    }

    #[test]
    fn a_number_that_was_lost_is_followed_by_a_higher_one() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let last = rendered(home, site());
        fs::remove_file(home.join(FILE.name)).unwrap();
        let mut again = site();
        settle(home, &mut again, NOW + 60).unwrap();
        assert!(again.zone.serial.unwrap() > last);
    }

    #[test]
    fn a_fixed_number_that_hides_a_change_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let with = |serial: u32, network: &str| {
            let mut site = site();
            site.zone.serial = Some(serial);
            site.hosts.extend(self::site().hosts.pop().map(|mut host| {
                network.clone_into(&mut host.name);
                host
            }));
            let serial = settle(home, &mut site, NOW).unwrap();
            serial.keep().unwrap();
            serial.oddity
        };
        assert_eq!(with(7, "a"), None, "the first");
        assert_eq!(with(7, "a"), None, "the same zones");
        let same = with(7, "b").unwrap();
        assert!(same.contains("is 7, the same as before"), "{same}");
        let lower = with(6, "c").unwrap();
        assert!(lower.contains("is 6, lower than 7"), "{lower}");
        assert_eq!(with(8, "d"), None);
        // A lower one for the same zones is odd too.
        assert!(with(5, "d").is_some());
    }

    #[test]
    fn the_serial_after_the_last_is_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE.name);
        fs::write(&path, "# old\n4294967295 none\n").unwrap();
        assert_eq!(rendered(directory.path(), site()), 1);
        fs::write(&path, "soon none\n").unwrap();
        let error = settle(directory.path(), &mut site(), NOW).unwrap_err();
        assert!(error.to_string().contains("has no number"), "{error}");
    }
}
