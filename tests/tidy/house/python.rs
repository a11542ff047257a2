//! Scripts in Python name nothing that is not there: a name that is not imported would be found by running only.

use std::process::Command;

use tidy::files::all_files;

#[test]
fn scripts_in_python_have_no_mistakes_that_can_be_seen() {
    let scripts: Vec<_> = all_files()
        .into_iter()
        .filter(|file| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let first = text.lines().next().unwrap_or_default();
            let is_named = file.extension().is_some_and(|extension| extension == "py");
            is_named || (first.starts_with("#!") && first.contains("python"))
        })
        .collect();
    assert!(!scripts.is_empty(), "there are scripts in Python");
    // Debian's package of the same name; `tests/run` installs it.
    let output = Command::new("pyflakes3")
        .args(&scripts)
        .output()
        .unwrap_or_else(|error| panic!("pyflakes3: {error}"));
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
