//! The checkout that images are built from: its packages, commit and builds.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use daemon::outln;

use service_image::elf::Machine;

/// A checkout of the project.
#[derive(Clone, Debug)]
pub(crate) struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The checkout given, or else the one that the working directory is in.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        let here = match given {
            Some(given) => given.canonicalize(),
            None => env::current_dir(),
        };
        let here = here.context("cannot find the checkout")?;
        let is_checkout =
            |path: &&Path| path.join("Cargo.lock").is_file() && path.join("healthd").is_dir();
        match here.ancestors().find(is_checkout) {
            Some(root) => Ok(Self {
                root: root.to_owned(),
            }),
            None => bail!(
                "{} is in no checkout of the project; name one with --checkout",
                here.display()
            ),
        }
    }

    /// Its root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// When it was last changed, in seconds since 1970: `SOURCE_DATE_EPOCH`, or the commit's time.
    ///
    /// # Errors
    ///
    /// When neither is known: no image must depend on when it was made.
    pub(crate) fn time(&self) -> anyhow::Result<u64> {
        let (text, whose) = match env::var("SOURCE_DATE_EPOCH") {
            Ok(given) => (given, "SOURCE_DATE_EPOCH"),
            Err(_) => (
                self.git(&["log", "-1", "--format=%ct"])
                    .context("the checkout has no commit; set SOURCE_DATE_EPOCH")?,
                "the time of the commit",
            ),
        };
        text.trim()
            .parse()
            .with_context(|| format!("{whose} is {text:?}, not a number of seconds"))
    }

    /// The commit that is checked out.
    pub(crate) fn revision(&self) -> Option<String> {
        self.git(&["rev-parse", "--short=9", "HEAD"])
    }

    fn git(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("git");
        let output = command
            .current_dir(&self.root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
    }

    /// The output of `cargo metadata` for one processor.
    ///
    /// # Errors
    ///
    /// When Cargo does not say.
    pub(crate) fn metadata(&self, machine: Machine) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            triple(machine),
        ]);
        let output = command.output().context("cannot run cargo")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!(
                "cargo metadata ended with {}: {}",
                output.status,
                said.trim()
            );
        }
        Ok(output.stdout)
    }

    /// Builds static programs, and returns their directory. Cargo prints to our own output.
    ///
    /// # Errors
    ///
    /// When Cargo fails.
    pub(crate) fn build(&self, binaries: &[&str], time: u64) -> anyhow::Result<PathBuf> {
        let target = self.target_directory();
        let triple = triple(own_machine()?);
        let mut command = Command::new(cargo());
        command
            .current_dir(&self.root)
            .args(["build", "--release", "--locked", "--target", triple])
            .arg("--target-dir")
            .arg(&target);
        // Without `--package` Cargo unites the features of all default members: a program is the same whichever
        // others are built with it.
        for binary in binaries {
            command.args(["--bin", binary]);
        }
        // The programs must not contain the paths of the sources.
        let remaps = self.remaps(&target);
        let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
        let mut c_flags = Vec::new();
        for (from, to) in &remaps {
            flags.push(format!("--remap-path-prefix={}={to}", from.display()));
            c_flags.push(format!("-ffile-prefix-map={}={to}", from.display()));
        }
        command
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
            .env(
                format!("CFLAGS_{}", triple.replace('-', "_")),
                c_flags.join(" "),
            )
            .env("SOURCE_DATE_EPOCH", time.to_string());
        if let Some(revision) = self.revision() {
            command.env("OUTPOST_REVISION", revision);
        }
        outln!(
            "cargo build --release --target {triple} (static) in {}",
            self.root.display()
        );
        let status = command.status().context("cannot run cargo")?;
        anyhow::ensure!(status.success(), "cargo build ended with {status}");
        Ok(target.join(triple).join("release"))
    }

    /// A directory of its own: other flags would make Cargo build everything again and again.
    fn target_directory(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |given| self.root.join(given))
            .join("outpost-static")
    }

    fn remaps(&self, target: &Path) -> Vec<(PathBuf, &'static str)> {
        let home = env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
        // The last that fits is taken, and the target may lie in the checkout.
        let mut remaps = vec![(self.root.clone(), "/outpost")];
        remaps.extend(home.map(|home| (home, "/cargo")));
        remaps.push((target.to_owned(), "/target"));
        remaps
    }
}

/// The processor that this program was built for.
///
/// # Errors
///
/// When services are not built for it.
pub(crate) fn own_machine() -> anyhow::Result<Machine> {
    match env::consts::ARCH {
        "x86_64" => Ok(Machine::X86_64),
        "aarch64" => Ok(Machine::Aarch64),
        other => bail!("images are made for x86_64 and aarch64, not for {other}"),
    }
}

fn triple(machine: Machine) -> &'static str {
    match machine {
        Machine::X86_64 => "x86_64-unknown-linux-gnu",
        Machine::Aarch64 => "aarch64-unknown-linux-gnu",
    }
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
