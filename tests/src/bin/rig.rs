//! Breaks a site while clients use it, and prints what that costs them: see `tests::rig`.
//!
//! ```text
//! rig [--seed N] [--seeds N] [--faults N] [--only TEXT] [--lasts SECONDS] [--soak MINUTES]
//! ```
//!
//! `--seeds` runs several seeds, one after another; `--faults` is the number of faults of each; `--only` takes those faults whose names
//! contain the text; each lasts 4 seconds unless `--lasts` says otherwise; `--soak` breaks nothing and measures what the services grow by. Wants root, and the programs of the site in `OUTPOST_BINARIES`.

use std::process::ExitCode;
use std::time::Duration;

use tests::rig::{Fault, LASTS, Table, run, schedule, soak};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| {
        let at = arguments.iter().position(|argument| argument == key)?;
        arguments.get(at + 1)
    };
    let number = |key: &str, default: u64| {
        let text = value(key);
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    let first = number("--seed", 0);
    let n_faults = usize::try_from(number("--faults", 8)).expect("few");
    let only = value("--only");
    let lasts = Duration::from_secs(number("--lasts", LASTS.as_secs()));
    let minutes = number("--soak", 0);
    if minutes > 0 {
        println!("{}", Table::head());
        let minutes = u32::try_from(minutes).expect("some hours");
        let (table, growth) = soak(minutes, |row| println!("{row}"));
        println!("{table}\n{growth}");
        return exit(table.mistakes().len());
    }
    let mut n_mistakes = 0;
    for seed in first..first + number("--seeds", 1) {
        let faults = match only {
            None => schedule(seed, n_faults),
            Some(text) => {
                let all = Fault::all().into_iter();
                all.filter(|fault| fault.to_string().contains(text.as_str()))
                    .collect()
            }
        };
        println!("seed {seed}\n{}", Table::head());
        let table = run(&faults, lasts, |row| println!("{row}"));
        println!("{table}");
        n_mistakes += table.mistakes().len();
    }
    exit(n_mistakes)
}

fn exit(n_mistakes: usize) -> ExitCode {
    println!("{n_mistakes} mistakes");
    match n_mistakes {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
