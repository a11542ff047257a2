//! The lists for people: in the status, and in lines.

use std::fmt::{self, Write as _};
use std::time::Instant;

use api::cluster_nodes::{NodeList, NodeMember, Nodes};
use api::lb_proxy::{HeldLoss, Origin, RefusedNode};
use cluster_members::Listed;

use crate::{List, Lists};

/// The lists of a status. `now` is for the time that is left to a loss.
pub(crate) fn lists(lists: &Lists, now: Instant) -> Vec<NodeList> {
    let lists = lists.lists.iter();
    lists.map(|(name, one)| list(name, one, now)).collect()
}

fn list(name: &str, list: &List, now: Instant) -> NodeList {
    let refused = list.refused.iter().map(|refused| RefusedNode {
        node: refused.node.clone(),
        why: refused.why.to_string(),
    });
    NodeList {
        name: name.to_owned(),
        nodes: list.nodes.iter().map(|it| it.name().to_owned()).collect(),
        members: list.members.iter().map(member).collect(),
        refused: refused.collect(),
        held: list.held.as_ref().map(|held| HeldLoss {
            servers: held.losses.iter().map(ToString::to_string).collect(),
            of: held.of,
            seconds: held.until.saturating_duration_since(now).as_secs(),
        }),
    }
}

fn member(listed: &Listed) -> NodeMember {
    let Listed { member, number } = listed;
    NodeMember {
        name: member.name.clone(),
        address: member.address.to_string(),
        number: *number,
        origin: match member.origin {
            cluster_members::Origin::Written => Origin::Written,
            cluster_members::Origin::Learned => Origin::Learned,
            cluster_members::Origin::Both => Origin::Both,
        },
        drains: member.drains,
    }
}

/// Writes the lists as lines, each after `indent`.
///
/// # Errors
///
/// Those of the writer.
pub fn write(text: &mut String, nodes: &Nodes, indent: &str) -> fmt::Result {
    for list in &nodes.lists {
        let which = list.nodes.join(", ");
        writeln!(text, "{indent}{} ({which} of the cluster)", list.name)?;
        for member in &list.members {
            let origin = match member.origin {
                Origin::Learned if nodes.saved => "learned, from the disk",
                Origin::Learned => "learned",
                Origin::Both => "written, a node",
                Origin::Written | Origin::Resolved => "written",
            };
            let drains = if member.drains { ", cordoned" } else { "" };
            let NodeMember { name, address, .. } = member;
            writeln!(text, "{indent}    {name} {address}  {origin}{drains}")?;
        }
        for RefusedNode { node, why } in &list.refused {
            writeln!(text, "{indent}    {node} may not join: {why}")?;
        }
        if let Some(held) = &list.held {
            let (lost, of, seconds) = (held.servers.join(" "), held.of, held.seconds);
            writeln!(
                text,
                "{indent}    {lost} of {of} would leave or drain: counts if it lasts {seconds} s more"
            )?;
        }
    }
    Ok(())
}
