//! `outpost completions`: scripts that complete its words in a shell.

use std::process::ExitCode;

use daemon::{exit, print};

use crate::args::CompletionsArgs;

/// Prints the script of a shell.
pub(crate) fn run(args: CompletionsArgs) -> ExitCode {
    let mut command = crate::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print::out(format_args!("{}", String::from_utf8_lossy(&script)));
    exit::code(exit::OK)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use clap_complete::Shell;

    #[test]
    fn every_shell_completes_the_verbs() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut crate::command(), "outpost", &mut script);
            let script = String::from_utf8(script).unwrap();
            for verb in ["rollback", "status", "watch"] {
                assert!(script.contains(verb), "{shell}: {verb}");
            }
        }
    }
}
