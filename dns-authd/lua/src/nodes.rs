//! `clusternodes`: the addresses of nodes in a list of the configuration, which nodes of the cluster join. `PowerDNS` has no such
//! function.
//!
//! `clusternodes('api')` is a table of the addresses of the record's family, without nodes that are cordoned;
//! `clusternodes('api', 3)` has those of node 3, cordoned or not, and is empty if there is none.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

use dns_wire::Type;
use mlua::{Lua, Table, Value};

use crate::listed::{ListedNode, NAME};
use crate::note::{Note, Severity};
use crate::run::Run;
use crate::values;

/// Adds the function to the globals of programs.
pub(crate) fn install(lua: &Lua, globals: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let run = Rc::clone(run);
    let nodes = lua.create_function(move |_, (list, number): (Value, Value)| {
        addresses(&run, &list, &number)
    })?;
    globals.raw_set(NAME, nodes)
}

fn addresses(run: &Run, list: &Value, number: &Value) -> mlua::Result<Vec<String>> {
    let list = values::string(list, "clusternodes: the list")?;
    let number = match number {
        Value::Nil => None,
        number => Some(values::integer(number, "clusternodes: the number")?),
    };
    let subject = run.subject()?;
    let Some(nodes) = subject.view.nodes(&list) else {
        return Err(values::refuse(format!(
            "{NAME}: `[cluster]` of the configuration has no list `{list}`"
        )));
    };
    let is_of_family = |address: &IpAddr| match subject.snippet.rtype {
        Type::A => address.is_ipv4(),
        Type::AAAA => address.is_ipv6(),
        _ => true,
    };
    let mut taken = BTreeSet::new();
    for node in nodes.iter().filter(|node| is_of_family(&node.address)) {
        let is_taken = match number {
            Some(number) => i64::from(node.number) == number,
            None => !node.is_cordoned,
        };
        let is_new = is_taken && taken.insert(node.address);
        if is_taken && is_new && node.is_learned {
            say(run, node, "is learned from the cluster");
        } else if !is_taken && number.is_none() {
            say(run, node, "is cordoned and left out");
        }
    }
    let nodes = nodes.iter().map(|node| node.address);
    let in_order = nodes.filter(|address| taken.remove(address));
    Ok(in_order.map(|address| address.to_string()).collect())
}

fn say(run: &Run, node: &ListedNode, what: &str) {
    let ListedNode { name, address, .. } = node;
    run.note(Note::new(
        Severity::Info,
        format!("{address} of {name} {what}"),
    ));
}
