//! `unsafe` stands in one package, which argues for each block.

use tidy::files::{all_rust_files, shown};

/// The package that calls the system by hand.
const SYS: &str = "base/sys/";

#[test]
fn unsafe_code_stands_in_one_package() {
    let mut found = Vec::new();
    for file in all_rust_files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = shown(&file);
        if text.contains("unsafe") && has_unsafe(&text) && !name.starts_with(SYS) {
            found.push(name);
        }
    }
    assert!(found.is_empty(), "`unsafe` outside {SYS}: {found:?}");
}

/// Whether `unsafe` is a word of the code, not of a comment or a string.
fn has_unsafe(text: &str) -> bool {
    let tokens: proc_macro2::TokenStream = text.parse().unwrap();
    in_tokens(tokens)
}

fn in_tokens(tokens: proc_macro2::TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(word) => word == "unsafe",
        proc_macro2::TokenTree::Group(group) => in_tokens(group.stream()),
        _ => false,
    })
}

#[test]
fn a_comment_is_not_code() {
    assert!(!has_unsafe(
        "// unsafe\n#![deny(unsafe_code)] const A: &str = \"unsafe {}\";"
    ));
    assert!(has_unsafe("fn f() { if true { unsafe { g() } } }"));
}
