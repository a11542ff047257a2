//! `outpost image build`: from static programs to archives, without podman.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use daemon::calendar::Timestamp;
use daemon::outln;

use crate::image::args::ImageBuildArgs;
use crate::image::checkout::{Checkout, own_machine};
use crate::image::sbom::{Packages, Subject};
use durable::Rights;
use service_image::digest::Sha256;
use service_image::elf::{self, Linkage, Machine};
use service_image::layer::Tree;
use service_image::layout::{self, Recipe, UID};
use service_image::sums::Sums;
use site::service::Service;
use site_node::images::archives::{self, SUMS};

/// Builds the images, and says how large they are.
///
/// # Errors
///
/// When a program does not build, is not static, or something cannot be written.
pub(crate) fn run(args: &ImageBuildArgs) -> anyhow::Result<()> {
    let checkout = Checkout::find(args.checkout.as_deref())?;
    let time = checkout.time()?;
    let services = match &args.services[..] {
        [] => Service::ALL.to_vec(),
        some => some.to_vec(),
    };
    let programs = match &args.binaries {
        Some(given) => given.clone(),
        None => {
            let names: Vec<&str> = services.iter().map(|service| service.name()).collect();
            checkout.build(&[&names[..], &[COMMAND]].concat(), time)?
        }
    };
    fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make {}", args.output.display()))?;
    let mut kitchen = Kitchen {
        time,
        args,
        lock: fs::read_to_string(checkout.root().join("Cargo.lock"))
            .context("cannot read Cargo.lock")?,
        packages: None,
        checkout,
        sums: Sums::default(),
    };
    let mut total = 0;
    for service in services {
        total += kitchen.image(service, &programs.join(service.name()))?;
    }
    kitchen.command(&programs.join(COMMAND))?;
    let sums = args.output.join(SUMS);
    durable::write(&sums, Rights::PUBLIC, kitchen.sums.to_string().as_bytes())?;
    outln!("{:<16} {:>10}", "all images", mebibytes(total));
    Ok(())
}

/// The common data of all images of one run.
struct Kitchen<'a> {
    args: &'a ImageBuildArgs,
    checkout: Checkout,
    time: u64,
    lock: String,
    /// The packages, for the processor of the programs.
    packages: Option<(Machine, Packages)>,
    sums: Sums,
}

impl Kitchen<'_> {
    /// Writes one image and its bill of materials, and gives its size.
    fn image(&mut self, service: Service, path: &Path) -> anyhow::Result<u64> {
        let program = Program::read(path, service.name())?;
        let (version, revision) = program.version(&self.checkout);
        let recipe = Recipe {
            service: service.name().to_owned(),
            description: service.description().to_owned(),
            version,
            revision,
            source: self.args.source.clone(),
            licenses: LICENSES.to_owned(),
            machine: program.machine,
            created: Timestamp(UNIX_EPOCH + Duration::from_secs(self.time)).to_string(),
            time: self.time,
        };
        let bill = self.bill(&recipe, &program)?;
        let layer = self
            .tree(service, &program, &bill)?
            .layer(self.time)
            .with_context(|| format!("cannot pack the image of {service}"))?;
        let archive = self.args.output.join(archives::name(service));
        let written = File::create(&archive)
            .and_then(|file| layout::write(&recipe, &layer, BufWriter::new(file)))
            .with_context(|| format!("cannot write {}", archive.display()))?;
        let beside = self.args.output.join(format!("{service}.cdx.json"));
        fs::write(&beside, &bill).with_context(|| format!("cannot write {}", beside.display()))?;
        // Check the archive as it was written: a node loads that.
        let image = archives::read(&archive)?;
        anyhow::ensure!(
            image.image_id == written.image_id,
            "{} is not what was written",
            archive.display()
        );
        let digest = archives::digest_of(&archive)?;
        self.sums.set(&archives::name(service), digest);
        self.sums
            .set(&format!("{service}.cdx.json"), Sha256::of(&bill));
        let size = fs::metadata(&archive).map_or(image.compressed, |found| found.len());
        outln!(
            "{:<16} {:>10}  {:>10} unpacked  {} {}",
            service.name(),
            mebibytes(size),
            mebibytes(layer.size),
            recipe.version,
            written.image_id.short()
        );
        Ok(size)
    }

    fn bill(&mut self, recipe: &Recipe, program: &Program) -> anyhow::Result<Vec<u8>> {
        if self
            .packages
            .as_ref()
            .is_none_or(|(known, _)| *known != program.machine)
        {
            let metadata = self.checkout.metadata(program.machine)?;
            let packages = Packages::parse(&metadata, &self.lock)?;
            self.packages = Some((program.machine, packages));
        }
        let (_, packages) = self.packages.as_ref().context("no packages are known")?;
        packages.bill(Subject {
            package: &recipe.service,
            version: &recipe.version,
            created: &recipe.created,
            program: &program.bytes,
        })
    }

    /// The files of an image: the program, what says what it is, and the places that a node mounts.
    fn tree(&self, service: Service, program: &Program, bill: &[u8]) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        for directory in [
            "dev",
            "etc",
            "etc/outpost",
            "proc",
            "run",
            "run/outpost",
            "run/outpost-admin",
            "sys",
            "usr",
            "usr/share",
            "usr/share/licenses",
            "usr/share/outpost",
            "var",
            "var/lib",
        ] {
            tree.directory(directory, 0o755, 0);
        }
        tree.directory("var/lib/outpost", 0o755, UID);
        tree.directory("tmp", 0o1777, 0);
        tree.file(service.name(), 0o555, Arc::clone(&program.bytes));
        tree.file(
            "etc/passwd",
            0o444,
            format!("outpost:x:{UID}:{UID}::/:/\n").into_bytes(),
        );
        tree.file(
            "etc/group",
            0o444,
            format!("outpost:x:{UID}:\n").into_bytes(),
        );
        tree.file("usr/share/outpost/sbom.cdx.json", 0o444, bill);
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = read(&self.checkout.root().join(name))?;
            tree.file(&format!("usr/share/licenses/{name}"), 0o444, text);
        }
        if let Some(bundle) = &self.args.ca_bundle {
            for directory in ["etc/ssl", "etc/ssl/certs"] {
                tree.directory(directory, 0o755, 0);
            }
            tree.file("etc/ssl/certs/ca-certificates.crt", 0o444, read(bundle)?);
        }
        Ok(tree)
    }

    /// The command that installs the images goes beside them, if it was built.
    fn command(&mut self, path: &Path) -> anyhow::Result<()> {
        if !path.is_file() {
            outln!(
                "{COMMAND}: not in {}; a bundle needs it",
                self.programs().display()
            );
            return Ok(());
        }
        let program = Program::read(path, COMMAND)?;
        let beside = self.args.output.join(COMMAND);
        let rights = Rights {
            mode: 0o755,
            owner: None,
        };
        durable::write(&beside, rights, &program.bytes[..])?;
        self.sums.set(COMMAND, Sha256::of(&program.bytes));
        let size = u64::try_from(program.bytes.len()).unwrap_or(u64::MAX);
        outln!(
            "{COMMAND:<16} {:>10}  (the command itself, not packed)",
            mebibytes(size)
        );
        Ok(())
    }

    fn programs(&self) -> PathBuf {
        self.args.binaries.clone().unwrap_or_default()
    }
}

/// A program that needs nothing beside the kernel.
struct Program {
    path: PathBuf,
    name: &'static str,
    bytes: Arc<[u8]>,
    machine: Machine,
}

impl Program {
    fn read(path: &Path, name: &'static str) -> anyhow::Result<Self> {
        let bytes: Arc<[u8]> = read(path)?.into();
        let found = elf::inspect(&bytes).with_context(|| path.display().to_string())?;
        if found.linkage == Linkage::Dynamic {
            bail!(
                "{} needs libraries or an interpreter, which the image does not have; build it with \
                 RUSTFLAGS=-Ctarget-feature=+crt-static and --target {}-unknown-linux-gnu",
                path.display(),
                std::env::consts::ARCH
            );
        }
        Ok(Self {
            path: path.to_owned(),
            name,
            bytes,
            machine: found.machine,
        })
    }

    /// The version that it reports, or else the checkout's.
    fn version(&self, checkout: &Checkout) -> (String, String) {
        let own = own_machine().is_ok_and(|own| own == self.machine);
        let said = own
            .then(|| Command::new(&self.path).arg("--version").output().ok())
            .flatten()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        said.and_then(|said| parse_version(&said, self.name))
            .unwrap_or_else(|| {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                (
                    version,
                    checkout.revision().unwrap_or_else(|| "unknown".to_owned()),
                )
            })
    }
}

/// `healthd 0.1.0 (git 1a2b3c4d5, built 2026-11-21)`.
fn parse_version(said: &str, name: &str) -> Option<(String, String)> {
    let (version, rest) = said.strip_prefix(name)?.trim().split_once(" (git ")?;
    let (revision, _) = rest.split_once(',')?;
    Some((version.to_owned(), revision.to_owned()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A size as people compare it.
pub(crate) fn mebibytes(octets: u64) -> String {
    let tenths = octets.saturating_mul(10) / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

const LICENSES: &str = "MIT OR Apache-2.0";
/// The program that this is.
pub(crate) const COMMAND: &str = "outpost";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_of_itself_is_understood() {
        assert_eq!(
            parse_version(
                "lb-proxy 0.1.0 (git 1a2b3c4d5, built 2026-11-21)\n",
                "lb-proxy"
            ),
            Some(("0.1.0".to_owned(), "1a2b3c4d5".to_owned()))
        );
        assert_eq!(parse_version("usage: lb-proxy", "lb-proxy"), None);
        assert_eq!(parse_version("", "lb-proxy"), None);
    }

    #[test]
    fn sizes_are_rounded_down() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes((5 << 20) + (1 << 19)), "5.5 MiB");
    }
}
