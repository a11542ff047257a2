//! `[access]`: the rights of users and clients.

use std::collections::{BTreeMap, BTreeSet};

use ::config::registry_svc::{Access, CertificateName, Rule as Written};
use ::config::{Check, at, nearest};
use oci::glob::Glob;
use registry_auth::Actions;
use registry_auth::acl::{AclParts, Rule};

/// The members of groups.
type Groups = BTreeMap<String, BTreeSet<String>>;

/// Whether a client can authenticate.
pub(super) fn has_users(access: &Access) -> bool {
    access.htpasswd.is_some() || access.certificates != CertificateName::None
}

/// The rights.
pub(super) fn acl(access: &Access, check: &mut Check<'_>) -> AclParts {
    let groups = access.groups.iter();
    let groups: Groups = groups
        .map(|(group, members)| (group.clone(), members.iter().cloned().collect()))
        .collect();
    // A certificate may name groups that the file does not have.
    let known = (access.certificates != CertificateName::CommonName).then_some(&groups);
    let rules = access.rule.iter().enumerate();
    let rules = rules.flat_map(|(index, rule)| of_rule(index, rule, known, check));
    AclParts {
        rules: rules.collect(),
        admins: access.admins.iter().cloned().collect(),
        default: match &access.default {
            Some(actions) => actions.iter().copied().collect(),
            None if access.rule.is_empty() => Actions::ALL,
            None => Actions::NONE,
        },
        anonymous: match access.anonymous {
            Some(anonymous) => anonymous.into(),
            None if has_users(access) => Actions::NONE,
            // No client can say who it is, so none may change what the others pull.
            None => Actions::PULL,
        },
        groups,
    }
}

/// Whether an anonymous client may change something.
pub(super) fn anonymous_push(acl: &AclParts) -> bool {
    let may_push = |actions: Actions| actions.contains(registry_auth::Action::Push);
    may_push(acl.anonymous) || acl.rules.iter().any(|rule| may_push(rule.anonymous))
}

/// A rule for each pattern. `groups` are those that a rule may name; any may if there are none.
fn of_rule(
    index: usize,
    rule: &Written,
    groups: Option<&Groups>,
    check: &mut Check<'_>,
) -> Vec<Rule> {
    for (place, group) in rule.groups.iter().enumerate() {
        if let Some(groups) = groups
            && !groups.contains_key(group)
        {
            let hint = match nearest(group, groups.keys().map(String::as_str)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            check.problem(
                &at!["access", "rule", index, "groups", place],
                format!("there is no group `{group}`{hint}"),
            );
        }
    }
    let mut rules = Vec::new();
    for (place, pattern) in rule.repositories.iter().enumerate() {
        match Glob::parse(pattern) {
            Ok(repositories) => rules.push(Rule {
                repositories,
                users: rule.users.iter().cloned().collect(),
                groups: rule.groups.iter().cloned().collect(),
                actions: rule.actions.iter().copied().collect(),
                anonymous: rule.anonymous.iter().copied().collect(),
            }),
            Err(error) => check.problem(
                &at!["access", "rule", index, "repositories", place],
                error.to_string(),
            ),
        }
    }
    rules
}
