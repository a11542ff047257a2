//! Every metric is documented.

use std::path::Path;

use tidy::files::checkout;

use tidy::files::{all_rust_files, shown};

#[test]
fn every_metric_is_documented() {
    let documented = std::fs::read_to_string(checkout().join("docs/metrics.md")).unwrap();
    let mut missing = Vec::new();
    for file in all_rust_files() {
        let is_metrics = file.file_name().is_some_and(|name| name == "metrics.rs");
        if !is_metrics {
            continue;
        }
        for name in constants(&file) {
            if !documented.contains(&format!("`{name}")) {
                missing.push(format!("{}: {name}", shown(&file)));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in docs/metrics.md:\n{}",
        missing.join("\n")
    );
}

/// String constants of a file: `const NAME: &str = "value";`.
fn constants(file: &Path) -> Vec<String> {
    let is_constant = |line: &str| line.contains("const ") && line.contains("&str");
    let text = std::fs::read_to_string(file).unwrap();
    // A long value stands on the line after its name.
    let joined = text.replace("=\n", "=");
    joined
        .lines()
        .filter(|line| is_constant(line))
        .filter_map(|line| line.split('"').nth(1))
        .filter(|value| value.contains('_') && !value.contains(' '))
        .map(str::to_owned)
        .collect()
}
