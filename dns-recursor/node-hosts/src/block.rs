//! The block of a hosts file: found, read and replaced. All other bytes of the file stay as they are.
//!
//! ```text
//! 127.0.0.1 localhost
//! # BEGIN outpost-node-resolver
//! 172.30.1.1 image-registry.openshift-image-registry.svc image-registry.openshift-image-registry.svc.cluster.local
//! # END outpost-node-resolver
//! ```
//!
//! A file keeps its line ends, CRLF too. One without a line end at its end gets none: then the block has none either, so that
//! the file without its block is the same again.

use std::net::IpAddr;

/// The line before the block.
pub const BEGIN: &str = "# BEGIN outpost-node-resolver";
/// The line after the block.
pub const END: &str = "# END outpost-node-resolver";
/// The comment of the lines of OpenShift's node-resolver.
pub const NODE_RESOLVER: &str = "openshift-generated-node-resolver";
/// The most lines of the block.
pub const MAX_LINES: usize = 1024;

/// A line of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The address.
    pub address: IpAddr,
    /// Its names; never none.
    pub names: Vec<String>,
}

/// The treatment of the lines of OpenShift's node-resolver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeResolver {
    /// They stay: that program runs too.
    #[default]
    Keep,
    /// They are taken over into the block.
    Replace,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A line of another program.
    Foreign,
    /// A line of a block.
    Own,
    /// A line of OpenShift's node-resolver, which is replaced.
    NodeResolver,
}

/// The file with this block, and without any other one. No entries make no block.
#[must_use]
pub fn replaced(file: &[u8], entries: &[Entry], node_resolver: NodeResolver) -> Vec<u8> {
    let lines: Vec<&[u8]> = file.split_inclusive(|octet| *octet == b'\n').collect();
    let kinds = kinds(&lines, entries, node_resolver);
    let line_end = line_end(&lines, &kinds);
    // The place of the first block, in bytes of the rest.
    let mut place = None;
    let mut rest = Vec::with_capacity(file.len());
    for (line, kind) in lines.iter().zip(&kinds) {
        match kind {
            Kind::Foreign => rest.extend_from_slice(line),
            Kind::Own => place = place.or(Some(rest.len())),
            Kind::NodeResolver => {}
        }
    }
    // The block was put behind a file without a line end, which got one for it.
    let was_open =
        kinds.last() == Some(&Kind::Own) && lines.last().is_some_and(|line| !line.ends_with(b"\n"));
    if was_open && rest.ends_with(line_end) {
        rest.truncate(rest.len() - line_end.len());
    }
    if entries.is_empty() {
        return rest;
    }
    let place = place.unwrap_or(rest.len()).min(rest.len());
    let (before, behind) = rest.split_at(place);
    let is_open = behind.is_empty() && !before.is_empty() && !before.ends_with(b"\n");
    let mut whole = before.to_vec();
    if is_open {
        whole.extend_from_slice(line_end);
    }
    whole.extend_from_slice(BEGIN.as_bytes());
    whole.extend_from_slice(line_end);
    for entry in entries.iter().take(MAX_LINES) {
        let line = format!("{} {}", entry.address, entry.names.join(" "));
        whole.extend_from_slice(line.as_bytes());
        whole.extend_from_slice(line_end);
    }
    whole.extend_from_slice(END.as_bytes());
    if !is_open {
        whole.extend_from_slice(line_end);
    }
    whole.extend_from_slice(behind);
    whole
}

/// The line end of the file: that of its first line of others, which stays the first whatever is written. Without one, that of the
/// lines that are replaced.
fn line_end(lines: &[&[u8]], kinds: &[Kind]) -> &'static [u8] {
    let first = |kind: Kind| {
        let mut of_kind = lines.iter().zip(kinds).filter(|(_, it)| **it == kind);
        of_kind.next().and_then(|(line, _)| match line {
            // An open line that ends with a carriage return would else get the other half of a CRLF.
            [.., b'\r', b'\n'] | [.., b'\r'] => Some(&b"\r\n"[..]),
            [.., b'\n'] => Some(&b"\n"[..]),
            _ => None,
        })
    };
    let kinds = [Kind::Foreign, Kind::Own, Kind::NodeResolver];
    kinds.into_iter().find_map(first).unwrap_or(b"\n")
}

/// The entries of the block that is there, and those of OpenShift's node-resolver when they are to be taken over: the last
/// good addresses of a former process.
#[must_use]
pub fn entries(file: &[u8], node_resolver: NodeResolver) -> Vec<Entry> {
    let lines: Vec<&[u8]> = file.split_inclusive(|octet| *octet == b'\n').collect();
    let kinds = kinds(&lines, &[], node_resolver);
    let of_lines = lines.iter().zip(kinds);
    let entries = of_lines.filter_map(|(line, kind)| match kind {
        Kind::Foreign => None,
        Kind::Own | Kind::NodeResolver => entry(line),
    });
    entries.take(MAX_LINES).collect()
}

/// The kinds of all lines. A block without its end goes as far as lines of these entries' names follow: those behind may be
/// another program's.
fn kinds(lines: &[&[u8]], entries: &[Entry], node_resolver: NodeResolver) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(lines.len());
    while let Some(line) = lines.get(kinds.len()) {
        let rest = lines.get(kinds.len() + 1..).unwrap_or_default();
        match text(line) {
            BEGIN => {
                let n_inside = inside(rest, entries);
                kinds.extend(std::iter::repeat_n(Kind::Own, n_inside + 1));
            }
            END => kinds.push(Kind::Own),
            _ if node_resolver == NodeResolver::Replace && is_of_node_resolver(line) => {
                kinds.push(Kind::NodeResolver);
            }
            _ => kinds.push(Kind::Foreign),
        }
    }
    kinds
}

/// The number of lines of a block after its first one.
fn inside(rest: &[&[u8]], entries: &[Entry]) -> usize {
    let marker = rest
        .iter()
        .position(|line| matches!(text(line), BEGIN | END));
    match marker.and_then(|at| rest.get(at).map(|line| (at, text(line)))) {
        Some((at, END)) => at + 1,
        _ => {
            let is_known = |line: &&&[u8]| {
                entry(line).is_some_and(|it| entries.iter().any(|one| one.names == it.names))
            };
            rest.iter().take_while(is_known).count()
        }
    }
}

/// Whether OpenShift's node-resolver has written a line: an address, a name, the same name below a domain, and its
/// comment. A line of another program that it has glued its own to is left out.
fn is_of_node_resolver(line: &[u8]) -> bool {
    let Some((_, comment)) = text(line).split_once('#') else {
        return false;
    };
    let is_pair = entry(line).is_some_and(|entry| match entry.names.as_slice() {
        [short, long] => long
            .strip_prefix(short.as_str())
            .is_some_and(|domain| domain.starts_with('.')),
        _ => false,
    });
    comment.trim() == NODE_RESOLVER && is_pair
}

fn entry(line: &[u8]) -> Option<Entry> {
    let line = text(line).split('#').next()?;
    let mut words = line.split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    let names: Vec<String> = words.map(str::to_owned).collect();
    (!names.is_empty()).then_some(Entry { address, names })
}

/// The text of a line without its end; nothing for one that is not UTF-8, which is another program's.
fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).map_or("", str::trim_end)
}

#[cfg(test)]
mod tests;
