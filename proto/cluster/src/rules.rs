//! The rights of clusterd at the API: the requests of its parts, and the rules that `outpost` renders for them.

use crate::object::Kind;

/// A rule of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; that of the core is empty.
    pub group: &'static str,
    /// The resources.
    pub resources: &'static [&'static str],
    /// The names of the objects; empty for all.
    pub names: &'static [&'static str],
    /// The verbs.
    pub verbs: &'static [&'static str],
}

/// The Lease of the clusterd that writes.
pub const LEASE: &str = "outpost-clusterd";

/// The rules for giving addresses in the whole cluster, beside those for reading.
pub const ADDRESSES: [Rule; 2] = [
    Rule {
        group: "",
        resources: &["services/status"],
        names: &[],
        verbs: &["patch"],
    },
    Rule {
        group: "",
        resources: &["events"],
        names: &[],
        verbs: &["create"],
    },
];

/// The rule for reading the object of OpenShift's DNS operator.
pub const DNSES: Rule = Rule {
    group: Kind::Dns.group(),
    resources: &[Kind::Dns.resource()],
    names: &["default"],
    verbs: &Kind::VERBS,
};

/// The rules for the election in the namespace of the Lease. A rule with a name cannot let anything be made.
pub const ELECTION: [Rule; 2] = [
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &[],
        verbs: &["create"],
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &[LEASE],
        verbs: &["get", "update"],
    },
];
