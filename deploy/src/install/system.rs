//! systemd and the rest of the machine, as far as installing asks for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// The machine that is installed on: this one, or one below a directory that does not run.
#[derive(Clone, Debug)]
pub(crate) struct System {
    root: PathBuf,
    runs: bool,
}

impl System {
    /// The machine whose root is here.
    pub(crate) fn at(root: &Path) -> Self {
        let runs = root == Path::new("/") && Path::new("/run/systemd/system").is_dir();
        Self {
            root: root.to_owned(),
            runs,
        }
    }

    /// Whether systemd runs on it; without it, everything else happens when the system starts.
    pub(crate) fn runs(&self) -> bool {
        self.runs
    }

    /// Those of these units that start with the machine.
    pub(crate) fn enabled(&self, units: &BTreeSet<String>) -> BTreeSet<String> {
        let is_enabled = |unit: &&String| {
            let said = self.systemctl().args(["is-enabled", unit]).output();
            said.is_ok_and(|said| said.stdout.starts_with(b"enabled"))
        };
        units.iter().filter(is_enabled).cloned().collect()
    }

    /// `systemctl`, for this machine.
    ///
    /// # Errors
    ///
    /// When it is not there, or ends with anything but 0.
    pub(crate) fn manage(&self, verb: &[&str], units: &[String]) -> anyhow::Result<()> {
        let mut command = self.systemctl();
        command.args(verb).args(units);
        run(command)
    }

    fn systemctl(&self) -> Command {
        let mut command = Command::new("systemctl");
        if !self.runs {
            command.arg("--root").arg(&self.root);
        }
        command
    }

    /// Another program, on a machine that runs.
    ///
    /// # Errors
    ///
    /// When it is not there, or ends with anything but 0.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command.args(arguments);
        run(command)
    }

    /// Whether a unit runs.
    pub(crate) fn is_active(&self, unit: &str) -> bool {
        let mut command = self.systemctl();
        command.args(["is-active", "--quiet", unit]);
        command.status().is_ok_and(|status| status.success())
    }
}

fn run(mut command: Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {shown}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{shown} ended with {}: {}",
        output.status,
        said.trim()
    );
    Ok(())
}

/// This machine's host name.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
