//! `outpost install --dry-run`: shows the changes as differences.

use std::io::{Read, Seek};
use std::path::Path;

use config_text::counted;
use daemon::{outln, print};
use similar::TextDiff;

use crate::install::apply::summary;
use crate::install::found;
use crate::install::record::below;
use install_plan::plan::{Action, DesiredState, FileState, Plan, Write};
use service_image::digest::Sha256;
use site::service::Service;
use site_bundle::manifest::BundleNode;
use site_bundle::reader::Bundle;

/// Prints it.
///
/// # Errors
///
/// When a file or a member cannot be read.
pub(crate) fn show(
    root: &Path,
    bundle: &mut Bundle<impl Read + Seek>,
    node: &BundleNode,
    wanted: &DesiredState,
    plan: &Plan,
) -> anyhow::Result<()> {
    for (path, how) in &plan.writes {
        let Some(new) = wanted.files.get(path) else {
            continue;
        };
        let there = below(root, path);
        if *how == Write::Rights {
            let old = found::file(&there)?;
            outln!(
                "rights of {}: {} to {}",
                path.display(),
                rights(old),
                rights(Some(*new))
            );
            continue;
        }
        let member = node.files.iter().find(|file| file.path == *path);
        let Some(member) = member.map(|file| file.member.clone()) else {
            continue;
        };
        let new_bytes = bundle.bytes(&member)?;
        let old_bytes = std::fs::read(&there).unwrap_or_default();
        print::out(format_args!(
            "{}",
            one(path, *how, new.mode, &old_bytes, &new_bytes)
        ));
    }
    for unit in &plan.stop {
        outln!("stop {unit}");
    }
    for path in &plan.removals {
        outln!("remove {}", path.display());
    }
    for (service, digest) in &wanted.archives {
        let is_new = plan.archives.contains(service);
        if is_new || plan.actions.contains(&Action::Swap(*service)) {
            outln!(
                "image of {service}: {} to sha256:{digest}",
                old_archive(root, *service)
            );
        }
    }
    for unit in &plan.enable {
        outln!("enable {unit}");
    }
    for unit in &plan.disable {
        outln!("disable {unit}");
    }
    for action in &plan.actions {
        outln!("{action}");
    }
    if !plan.is_empty() {
        outln!(
            "dry run of {}: {}, {}; nothing was changed",
            node.name,
            summary(plan),
            counted(plan.actions.len(), "further step")
        );
    }
    Ok(())
}

fn old_archive(root: &Path, service: Service) -> String {
    let archives = found::archives(root);
    let archive = archives.archive(service, found::live(root, service));
    let digest = archive.and_then(|archive| archives.digest(&archive).ok());
    digest.map_or_else(|| "none".to_owned(), Sha256::to_oci)
}

fn rights(state: Option<FileState>) -> String {
    state.map_or_else(String::new, |state| {
        format!("{:04o} {}:{}", state.mode, state.owner.0, state.owner.1)
    })
}

/// One file as a unified difference; the content of private files is not shown.
fn one(path: &Path, how: Write, mode: u32, old: &[u8], new: &[u8]) -> String {
    let path = path.display();
    let before = match how {
        Write::New => "/dev/null".to_owned(),
        Write::Contents | Write::Rights => format!("a{path}"),
    };
    let head = format!("--- {before}\n+++ b{path}\n");
    if mode & 0o007 == 0 {
        return format!("{head}(private, not shown)\n");
    }
    match (std::str::from_utf8(old), std::str::from_utf8(new)) {
        (Ok(old), Ok(new)) if !old.contains('\0') && !new.contains('\0') => {
            let difference = TextDiff::from_lines(old, new);
            let body = difference.unified_diff().context_radius(3).to_string();
            format!("{head}{body}")
        }
        _ => format!("{head}(binary, {})\n", counted(new.len(), "byte")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_unified_and_keys_are_not_in_it() {
        let path = Path::new("/etc/outpost/x.toml");
        let shown = one(path, Write::Contents, 0o644, b"a\nb\n", b"a\nc\n");
        assert_eq!(
            shown,
            "--- a/etc/outpost/x.toml\n+++ b/etc/outpost/x.toml\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        );
        let shown = one(path, Write::New, 0o644, b"", b"a\n");
        assert!(shown.starts_with("--- /dev/null\n"), "{shown}");
        assert!(shown.ends_with("+a\n"), "{shown}");
        let shown = one(path, Write::New, 0o600, b"", b"secret\n");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(one(path, Write::New, 0o755, b"", b"\x7fELF\0").contains("binary"));
    }
}
