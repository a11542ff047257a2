//! How full the disk and the repositories may become.
//!
//! A push is refused before its body is read when it would fill the disk or its repository beyond
//! the limit. This module decides from numbers; [`room`] looks them up.

pub mod room;

use oci::glob::Glob;

pub use room::Space;

/// How full the disk and the repositories may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How full the disk may become.
    pub watermarks: Watermarks,
    /// Bytes kept aside, so that deletions work on a full disk.
    pub reserve: u64,
    /// The most that repositories may hold together, by glob.
    pub quotas: Vec<Quota>,
}

impl Settings {
    /// The settings of a configuration, whose quotas have these patterns.
    #[must_use]
    pub fn of(space: &config::registry_svc::Space, quotas: Vec<Quota>) -> Self {
        Self {
            watermarks: Watermarks {
                warn: space.warn.get(),
                stop: space.stop.get(),
                free: space.free.0,
            },
            reserve: space.reserve.0,
            quotas,
        }
    }
}

/// The most that some repositories may hold, each by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The repositories.
    pub repositories: Glob,
    /// Bytes.
    pub size: u64,
}

/// How full the disk may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Percent of the disk at which the registry warns.
    pub warn: u8,
    /// Percent of the disk beyond which nothing is pushed.
    pub stop: u8,
    /// Octets that stay free in any case.
    pub free: u64,
}

/// How full the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FillLevel {
    /// There is room.
    Ample,
    /// There is some, and an operator should look after it.
    Scarce,
    /// Nothing is pushed any more.
    Full,
}

impl FillLevel {
    /// Its name in what is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ample => "ample",
            Self::Scarce => "scarce",
            Self::Full => "full",
        }
    }
}

/// Why a push has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// On the disk.
    Disk {
        /// Whether there will be room once unneeded content is removed.
        is_passing: bool,
    },
    /// In the repository.
    Quota {
        /// Octets that were to be pushed.
        wanted: u64,
        /// Octets that may be.
        left: u64,
    },
}

impl Watermarks {
    /// Octets that may still be pushed to a disk of `total` octets of which `free` are free.
    #[must_use]
    pub fn left(&self, total: u64, free: u64) -> u64 {
        let kept = percent(total, 100 - self.stop.min(100)).max(self.free);
        free.saturating_sub(kept)
    }

    /// How full such a disk is.
    #[must_use]
    pub fn standing(&self, total: u64, free: u64) -> FillLevel {
        if self.left(total, free) == 0 {
            FillLevel::Full
        } else if free < percent(total, 100 - self.warn.min(100)) {
            FillLevel::Scarce
        } else {
            FillLevel::Ample
        }
    }

    /// Whether `wanted` octets may be pushed; `freeable` octets are about to be free.
    ///
    /// # Errors
    /// When they may not.
    pub fn admit(&self, total: u64, free: u64, freeable: u64, wanted: u64) -> Result<(), Full> {
        let fits = |free| {
            let left = self.left(total, free);
            left > 0 && wanted <= left
        };
        match fits(free) {
            true => Ok(()),
            false => Err(Full::Disk {
                is_passing: fits(free.saturating_add(freeable).min(total)),
            }),
        }
    }
}

/// Whether a repository that holds `held` octets and may hold `most` may hold `wanted` more.
///
/// # Errors
/// When it may not.
pub fn within_quota(most: u64, held: u64, wanted: u64) -> Result<(), Full> {
    let left = most.saturating_sub(held);
    match wanted <= left && left > 0 {
        true => Ok(()),
        false => Err(Full::Quota { wanted, left }),
    }
}

/// Rounded up, and without overflow.
fn percent(whole: u64, percent: u8) -> u64 {
    let part = (u128::from(whole) * u128::from(percent)).div_ceil(100);
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    const USUAL: Watermarks = Watermarks {
        warn: 85,
        stop: 95,
        free: 2 * GIB,
    };

    #[test]
    fn the_disk_keeps_the_larger_of_both_bounds() {
        // 5 % of 100 GiB are more than 2 GiB, 5 % of 20 GiB are less.
        assert_eq!(USUAL.left(100 * GIB, 50 * GIB), 45 * GIB);
        assert_eq!(USUAL.left(20 * GIB, 10 * GIB), 8 * GIB);
        assert_eq!(USUAL.left(20 * GIB, 2 * GIB), 0);
        assert_eq!(USUAL.left(20 * GIB, 0), 0);
        assert_eq!(
            USUAL.left(u64::MAX, u64::MAX),
            u64::MAX - percent(u64::MAX, 5)
        );
    }

    #[test]
    fn a_disk_is_scarce_before_it_is_full() {
        let standings = [
            (50, FillLevel::Ample),
            (15, FillLevel::Ample),
            (14, FillLevel::Scarce),
        ];
        for (free, standing) in standings {
            assert_eq!(USUAL.standing(100 * GIB, free * GIB), standing, "{free}");
        }
        assert_eq!(USUAL.standing(100 * GIB, 5 * GIB), FillLevel::Full);
        assert_eq!(USUAL.standing(100 * GIB, 0), FillLevel::Full);
    }

    #[test]
    fn what_does_not_fit_is_refused_for_now_or_for_good() {
        let admit = |free: u64, freeable: u64, wanted: u64| {
            USUAL.admit(100 * GIB, free * GIB, freeable * GIB, wanted * GIB)
        };
        let full = |is_passing| Err(Full::Disk { is_passing });
        assert_eq!(admit(50, 0, 45), Ok(()));
        assert_eq!(admit(50, 0, 46), full(false));
        assert_eq!(admit(50, 1, 46), full(true));
        // Nothing at all is pushed to a full disk, not even nothing.
        assert_eq!(admit(5, 0, 0), full(false));
        assert_eq!(admit(6, 0, 0), Ok(()));
        assert_eq!(admit(1, 200, 100), full(false));
    }

    #[test]
    fn a_repository_holds_what_it_may() {
        assert_eq!(within_quota(10, 4, 6), Ok(()));
        assert_eq!(
            within_quota(10, 4, 7),
            Err(Full::Quota { wanted: 7, left: 6 })
        );
        assert_eq!(
            within_quota(10, 12, 1),
            Err(Full::Quota { wanted: 1, left: 0 })
        );
        assert_eq!(
            within_quota(10, 10, 0),
            Err(Full::Quota { wanted: 0, left: 0 })
        );
    }
}
