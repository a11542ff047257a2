//! The secrets of DNS cookies (RFC 7873), the same on every node: a client's cookie is good at each, and after a restart.
//!
//! A secret is replaced in three steps, and every node has the files of a step before the next one:
//!
//! | the file has | servers make cookies with | they accept |
//! | --- | --- | --- |
//! | one secret | it | it |
//! | it, then the next one | the present one | both |
//! | the next one, then the former | the next one | both, for as long as clients have cookies of the former: an hour |

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use daemon::outln;
use durable::Rights;
use ring::rand::{SecureRandom as _, SystemRandom};
use site::Site;
use site::service::Service;

use super::{Store, present};

/// The services that have such a secret, each its own.
pub(super) const SERVICES: [Service; 2] = [Service::DnsAuthd, Service::DnsRecursor];

const HEAD: &str = "# The secret of DNS cookies; outpost writes this file.\n";
const ANNOUNCED: &str = "# The second secret is the next one.\n";
const REPLACED: &str = "# The second secret is the former one.\n";

/// The services of a site that have such a secret.
pub(super) fn of(site: &Site) -> impl Iterator<Item = Service> {
    SERVICES.into_iter().filter(|service| site.runs(*service))
}

/// A step in the life of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Secrets {
    Only(String),
    Announced { present: String, next: String },
    Replaced { present: String, former: String },
}

impl Secrets {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let is_secret =
            |line: &&str| line.len() == 32 && line.bytes().all(|one| one.is_ascii_hexdigit());
        let mut secret = || lines.next().filter(is_secret).map(str::to_owned);
        let (first, second) = (secret()?, secret());
        Some(match second {
            None => Self::Only(first),
            Some(former) if text.contains(REPLACED) => Self::Replaced {
                present: first,
                former,
            },
            Some(next) => Self::Announced {
                present: first,
                next,
            },
        })
    }

    /// The step after this one.
    fn next(self, new: String) -> Self {
        match self {
            Self::Only(present) => Self::Announced { present, next: new },
            Self::Announced { present, next } => Self::Replaced {
                present: next,
                former: present,
            },
            Self::Replaced { present, .. } => Self::Only(present),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Only(secret) => format!("{HEAD}{secret}\n"),
            Self::Announced { present, next } => format!("{HEAD}{ANNOUNCED}{present}\n{next}\n"),
            Self::Replaced { present, former } => {
                format!("{HEAD}{REPLACED}{present}\n{former}\n")
            }
        }
    }

    /// The next thing that the operator does.
    const fn advice(&self) -> &'static str {
        match self {
            Self::Only(_) => "the former secret is gone: install it on every node, and all is done",
            Self::Announced { .. } => {
                "the next secret is announced: install it on every node, then run this again"
            }
            Self::Replaced { .. } => {
                "the next secret is in use: install it on every node, and run this again an hour later or more"
            }
        }
    }
}

impl Store {
    /// The file with a service's secret.
    pub(super) fn cookie(&self, service: Service) -> PathBuf {
        self.path(&format!("{service}.cookie"))
    }

    /// Makes the secrets that are missing.
    pub(super) fn make_cookies(&self, site: &Site) -> anyhow::Result<()> {
        for service in of(site) {
            let path = self.cookie(service);
            if present(&path)?.is_none() {
                durable::write(
                    &path,
                    Rights::PRIVATE,
                    Secrets::Only(secret()?).text().as_bytes(),
                )?;
                outln!("made {}", path.display());
            }
        }
        Ok(())
    }

    /// Takes the next step in the replacement of the secrets.
    ///
    /// # Errors
    ///
    /// When a file is not as outpost writes it, is missing, or cannot be written; then none was changed but those before it.
    pub fn roll_cookies(&self, site: &Site) -> anyhow::Result<()> {
        for service in of(site) {
            let path = self.cookie(service);
            let Some(text) = present(&path)? else {
                bail!("{} is missing; `outpost pki make` makes it", path.display());
            };
            let secrets = Secrets::read(&String::from_utf8_lossy(&text));
            let secrets = secrets.with_context(|| {
                format!("{} has no secrets of 32 hexadecimal digits", path.display())
            })?;
            let next = secrets.next(secret()?);
            durable::write(&path, Rights::PRIVATE, next.text().as_bytes())?;
            outln!("{}: {}", path.display(), next.advice());
        }
        Ok(())
    }
}

fn secret() -> anyhow::Result<String> {
    let mut octets = [0; 16];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| anyhow::anyhow!("the system has no random numbers"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_announced_used_and_then_alone() {
        let (old, new) = ("a".repeat(32), "b".repeat(32));
        let mut secrets = Secrets::Only(old.clone());
        // What servers accept in a step, they accept in the one before and in the one after it.
        let mut accepted = Vec::new();
        for _ in 0..3 {
            secrets = secrets.next(new.clone());
            let text = secrets.text();
            assert_eq!(Secrets::read(&text).as_ref(), Some(&secrets), "{text}");
            accepted.push((text.contains(&old), text.contains(&new)));
        }
        assert_eq!(accepted, [(true, true), (true, true), (false, true)]);
        assert_eq!(secrets, Secrets::Only(new));
        for bad in ["", "# x\n", "0123\n", &"z".repeat(32)] {
            assert_eq!(Secrets::read(bad), None, "{bad:?}");
        }
    }
}
