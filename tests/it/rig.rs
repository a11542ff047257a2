//! A site under faults and attacks: see `tests::rig`. `target/…/debug/rig` runs more of them.

use tests::rig::{LASTS, Table, run, schedule};

/// The faults of a seed: a third of a minute on an idle machine.
const N_FAULTS: usize = 7;

fn survives(seed: u64) {
    println!("{}", Table::head());
    let table = run(&schedule(seed, N_FAULTS), LASTS, |row| println!("{row}"));
    println!("{table}");
    let mistakes = table.mistakes();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_site_survives_the_faults_of_seed_0() {
    survives(0);
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_site_survives_the_faults_of_seed_1() {
    survives(1);
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_site_survives_the_faults_of_seed_2() {
    survives(2);
}
