//! Zones below a private root, signed by BIND's tools.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;

use tests::daemon::run;
use tests::dns::{A, TXT};
use tests::scratch::Scratch;

/// A zone: its name, the options of `dnssec-signzone` (none for an unsigned zone), the algorithm, and its records.
pub(super) struct Zone(
    pub(super) &'static str,
    pub(super) Option<&'static [&'static str]>,
    pub(super) &'static str,
    pub(super) &'static str,
);

pub(super) const P256: &str = "ECDSAP256SHA256";
pub(super) const PAST: &[&str] = &["-s", "20240101000000", "-e", "20240201000000"];
pub(super) const FUTURE: &[&str] = &["-s", "20560101000000", "-e", "20560201000000"];
pub(super) const NSEC3: &[&str] = &["-3", "-", "-H", "0"];
pub(super) const OPT_OUT: &[&str] = &["-3", "aabb", "-H", "1", "-A"];

/// The questions about names below the apex of a zone: present ones, denials, wildcards and empty non-terminals.
pub(super) const QUESTIONS: [(&str, u16); 10] = [
    ("www", A),
    ("www", TXT),
    ("no", A),
    ("x.y.no", A),
    ("q.wild", A),
    ("q.r.wild", A),
    ("q.wild", TXT),
    ("ent", A),
    ("a.ent", A),
    ("x.www", A),
];

/// The texts of zones that lead to one another, and the trust anchor of the root.
pub(super) struct Tree {
    /// The name and the text of each.
    pub(super) zones: Vec<(String, String)>,
    pub(super) anchor: String,
}

/// Signs zones, each of which stands behind those below it. A zone has the server `ns` in it, at the address that `server`
/// has for it; the zone above delegates to that, unless its own records have other servers for it. The zone `bogus.test` has other data than were signed, and the DS
/// record of `wrong.test` names a key that it does not have.
pub(super) fn sign(files: &Scratch, zones: &[Zone], server: impl Fn(&str) -> Ipv4Addr) -> Tree {
    let mut ds: BTreeMap<&str, String> = BTreeMap::new();
    let mut texts = Vec::new();
    for Zone(name, options, algorithm, records) in zones {
        let mut text = format!(
            "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\n{records}ns A {}\n",
            server(name)
        );
        let below = zones.iter().map(|Zone(child, ..)| *child);
        for child in below.filter(|child| above(child, zones) == Some(*name)) {
            if !records.contains(&format!("{child}. NS ")) {
                let address = server(child);
                writeln!(text, "{child}. NS ns.{child}.\nns.{child}. A {address}").unwrap();
            }
            text.push_str(ds.get(child).map_or("", String::as_str));
        }
        let Some(options) = options else {
            texts.push(((*name).to_owned(), text));
            continue;
        };
        let key = generate(files, algorithm, name);
        let named = match *name {
            "wrong.test" => {
                let other = generate(files, algorithm, name);
                let record = tool(files, "dnssec-dsfromkey", &["-2", &other]);
                for end in ["key", "private"] {
                    std::fs::remove_file(files.join(&format!("{other}.{end}"))).unwrap();
                }
                record
            }
            _ => tool(files, "dnssec-dsfromkey", &["-2", &key]),
        };
        ds.insert(name, named);
        files.write("in.zone", &text);
        let fixed = [
            "-q", "-S", "-z", "-P", "-o", name, "-O", "full", "-f", "out.zone",
        ];
        tool(
            files,
            "dnssec-signzone",
            &[&fixed, *options, &["in.zone"]].concat(),
        );
        let mut signed = std::fs::read_to_string(files.join("out.zone")).unwrap();
        if *name == "bogus.test" {
            signed = signed.replace("192.0.2.66", "192.0.2.67");
        }
        texts.push(((*name).to_owned(), signed));
    }
    Tree {
        zones: texts,
        anchor: ds["."].trim().to_owned(),
    }
}

/// The zone that delegates another: the closest above it.
fn above<'a>(child: &str, zones: &'a [Zone]) -> Option<&'a str> {
    let names = zones.iter().map(|Zone(name, ..)| *name);
    let above = names.filter(|name| match *name {
        "." => child != ".",
        name => child.ends_with(&format!(".{name}")),
    });
    above.max_by_key(|name| if *name == "." { 0 } else { name.len() })
}

pub(super) fn generate(files: &Scratch, algorithm: &str, zone: &str) -> String {
    let size: &[&str] = match algorithm.starts_with("RSA") {
        true => &["-b", "2048"],
        false => &[],
    };
    let fixed = ["-q", "-a", algorithm, "-f", "KSK"];
    let key = tool(files, "dnssec-keygen", &[&fixed, size, &[zone]].concat());
    key.trim().to_owned()
}

pub(super) fn tool(files: &Scratch, name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(name);
    command.current_dir(files.path()).args(arguments);
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{name} {arguments:?}: {stdout}{stderr}");
    stdout
}
