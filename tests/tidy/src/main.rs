//! The view of the rules of the house, for people: `cargo run -p tidy -- graph PACKAGE`.

use std::process::ExitCode;

use tidy::files::checkout;
use tidy::graph::Graph;
use tidy::lexicon;
use tidy::modules::Crate;
use tidy::workspace::{Package, packages};

const HELP: &str = "\
usage: cargo run -p tidy -- graph [PACKAGE…]   the modules of a package, what each uses, and the cycles
       cargo run -p tidy -- sizes              product lines of each package
       cargo run -p tidy -- lexicon [PACKAGE…] every use of what docs/lexicon.md retires
       cargo run -p tidy -- counts             how often, by package
       cargo run -p tidy -- ceilings           writes tests/tidy/ceilings.txt; refuses to raise the sum of a word
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, names)) = arguments.split_first() else {
        eprint!("{HELP}");
        return ExitCode::from(64);
    };
    let chosen: Vec<Package> = packages()
        .into_iter()
        .filter(|package| names.is_empty() || names.contains(&package.name))
        .collect();
    match verb.as_str() {
        "graph" => graph(&chosen),
        "sizes" => sizes(&chosen),
        "lexicon" => words(&chosen, names.is_empty()),
        "counts" => counts(),
        "ceilings" => return ceilings(),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(64);
        }
    }
    ExitCode::SUCCESS
}

fn graph(packages: &[Package]) {
    for package in packages {
        for target in &package.targets {
            let krate = Crate::read(&target.root);
            let graph = Graph::of(&krate);
            println!("== {} ({})", package.name, target.root.display());
            print!("{}", graph.text());
            let cycles = graph.cycles();
            println!("{} cycles", cycles.len());
            for cycle in cycles {
                println!("{cycle}");
            }
        }
    }
}

fn sizes(packages: &[Package]) {
    for package in packages {
        let lines: usize = package
            .targets
            .iter()
            .map(|target| Crate::read(&target.root).n_product_lines())
            .sum();
        println!("{lines:6}  {}", package.name);
    }
}

fn words(chosen: &[Package], with_documents: bool) {
    for used in lexicon::uses(chosen, &lexicon::read()) {
        if with_documents || used.package != "docs" {
            println!("{}: {} -> {}", used.place, used.word, used.instead);
        }
    }
}

fn counts() {
    let counts = lexicon::counts(&lexicon::uses(&packages(), &lexicon::read()));
    let mut by_package: Vec<(String, usize, Vec<String>)> = Vec::new();
    for ((package, word), count) in counts {
        let said = format!("{word} {count}");
        match by_package.last_mut() {
            Some((name, sum, words)) if *name == package => {
                *sum += count;
                words.push(said);
            }
            _ => by_package.push((package, count, vec![said])),
        }
    }
    for (package, sum, words) in by_package {
        println!("{sum:5}  {package}: {}", words.join(", "));
    }
}

fn ceilings() -> ExitCode {
    let path = checkout().join("tests/tidy/ceilings.txt");
    let before = lexicon::parse_table(&std::fs::read_to_string(&path).unwrap_or_default());
    let counts = lexicon::counts(&lexicon::uses(&packages(), &lexicon::read()));
    let grown = lexicon::grown(&counts, &before);
    for (word, before, after) in &grown {
        eprintln!("{word}: {before} uses before, {after} now");
    }
    if !grown.is_empty() {
        return ExitCode::FAILURE;
    }
    if let Err(error) = std::fs::write(&path, lexicon::table(&counts)) {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    let sum = |counts: &lexicon::Counts| counts.values().sum::<usize>();
    println!("{} uses before, {} now", sum(&before), sum(&counts));
    ExitCode::SUCCESS
}
