//! The modules of a crate never use each other in a circle, at any level.

use std::path::Path;

use tempfile::TempDir;
use tidy::graph::Graph;
use tidy::modules::Crate;
use tidy::workspace::packages;

#[test]
fn modules_never_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    let mut n_modules = 0;
    for package in packages() {
        for target in &package.targets {
            let krate = Crate::read(&target.root);
            n_modules += krate.modules.len();
            for cycle in Graph::of(&krate).cycles() {
                found.push(format!("{}: {cycle}", package.name));
            }
        }
    }
    assert!(n_modules > 300, "only {n_modules} modules were read");
    assert!(
        found.is_empty(),
        "{} cycles; `cargo run -p tidy -- graph PACKAGE` shows the whole graph\n{}",
        found.len(),
        found.join("\n")
    );
}

//--- The checker itself

/// Writes a crate, and compares the modules of its cycles.
#[track_caller]
fn check(files: &[(&str, &str)], wanted: &[&[&str]]) -> Crate {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let krate = Crate::read(&folder.path().join("lib.rs"));
    assert_eq!(Graph::of(&krate).knots(), wanted);
    krate
}

#[test]
fn an_arrow_each_way_is_a_cycle() {
    let root = ("lib.rs", "mod a; mod b;");
    check(
        &[
            root,
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use super::a::A;"),
        ],
        &[&["a", "b"]],
    );
    check(&[root, ("a.rs", "use crate::b::B;"), ("b.rs", "")], &[]);
}

#[test]
fn a_cycle_over_three_is_found_once() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::{b::{self, B}, d};"),
        ("b.rs", "fn f() { crate::c::g() }"),
        ("c.rs", "macro_rules! m { () => { $crate::a::A } }"),
        ("d.rs", ""),
    ];
    check(&files, &[&["a", "b", "c"]]);
}

#[test]
fn what_lies_deep_counts_for_the_modules_at_which_the_ways_part() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod deep;"),
        ("a/deep.rs", "use crate::b::B; pub struct D;"),
        ("b.rs", "use crate::a::deep::D; pub struct B;"),
    ];
    check(&files, &[&["a", "b"]]);
}

#[test]
fn siblings_of_a_folder_are_held_against_each_other() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod x; mod y; struct Own;"),
        ("a/x.rs", "use super::y::Y; use super::Own;"),
        ("a/y.rs", "use crate::a::x::X;"),
    ];
    check(&files, &[&["a::x", "a::y"]]);
}

#[test]
fn a_module_and_its_parent_are_one() {
    let files = [
        ("lib.rs", "mod a; struct Root;"),
        ("a.rs", "mod x; use x::X; struct Own; use crate::Root;"),
        ("a/x.rs", "use super::Own; use crate::Root; pub struct X;"),
    ];
    check(&files, &[]);
}

#[test]
fn a_name_that_is_passed_on_belongs_to_the_module_that_declares_it() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
        ("a.rs", "use crate::B; pub struct A;"),
        ("b.rs", "use crate::A as Other; pub struct B;"),
    ];
    check(&files, &[&["a", "b"]]);
    // Two that pass on each other's names come to an end.
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::*;"),
        (
            "b.rs",
            "pub use crate::a::*; fn f() { crate::a::nowhere(); }",
        ),
    ];
    check(&files, &[&["a", "b"]]);
}

#[test]
fn tests_are_left_out() {
    let files = [
        (
            "lib.rs",
            "mod a; mod b; #[cfg(test)] mod helper; mod testing;",
        ),
        (
            "a.rs",
            "#[cfg(test)]\nuse crate::b::{B, C};\n#[cfg(all(test, unix))] fn f() -> crate::b::B { todo() }\n\
             #[cfg(any(test, feature = \"testing\"))] impl A { fn g() { crate::b::g() } }\n\
             struct A {\n#[cfg(test)] b: crate::b::B,\nc: u8 }\nmod tests { use crate::b::B; }\n",
        ),
        ("b.rs", "#[cfg(not(test))] use crate::a::A;"),
    ];
    let krate = check(&files, &[]);
    assert_eq!(krate.files[1].n_product_lines(), 2, "of the struct");
}

#[test]
fn inline_modules_are_modules() {
    let text = "mod a { use super::b::B; pub struct A; }\nmod b { pub(in crate::b) struct B; use super::a::A; }";
    check(&[("lib.rs", text)], &[&["a", "b"]]);
}

#[test]
fn words_in_comments_and_strings_are_no_arrows() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "/// See [`crate::b::B`].\n// crate::b\nconst T: &str = \"crate::b::B\";",
        ),
        (
            "b.rs",
            "use crate::a::T; fn f(x: A) { x.a::<u8>(); std::a::f(); }",
        ),
    ];
    check(&files, &[]);
}

#[test]
fn a_cycle_is_shown_with_its_lines() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b;");
    write("a.rs", "\nuse crate::b::B;\nuse crate::b::C;");
    write("b.rs", "use crate::a::A;");
    let krate = Crate::read(&folder.path().join("lib.rs"));
    let cycles = Graph::of(&krate).cycles().join("\n");
    let place = |name: &str| Path::new(folder.path()).join(name).display().to_string();
    let wanted = format!(
        "in crate: a, b use each other\n    a → b  {}:2 `crate::b::B` and 1 more\n    b → a  {}:1 `crate::a::A`",
        place("a.rs"),
        place("b.rs")
    );
    assert_eq!(cycles, wanted);
    let text = Graph::of(&krate).text();
    assert_eq!(text, "crate\n  a → b\n  b → a\n");
}
