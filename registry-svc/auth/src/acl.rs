//! Rights of users and groups by repository.
//!
//! A rule names repositories by a glob, users and groups, and actions. Among the globs that match a
//! repository the longest wins (the one with the most characters that are no wildcards), and the
//! rules with that glob decide alone: a user that they do not name may do nothing there, although a
//! shorter glob grants it. If no glob matches, the default decides for users and the anonymous
//! level for all others. A user may do at least what anonymous clients may. Administrators may do
//! everything.
//!
//! Never looks at passwords or tokens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use config::registry_svc::{self, Anonymous};
use oci::glob::Glob;

/// An action on a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Read manifests, tags and blobs of a repository.
    Pull,
    /// Write them.
    Push,
    /// Remove them.
    Delete,
    /// List the repositories of the registry; the list depends on `Pull`.
    Catalog,
}

impl Action {
    /// The name in tokens and configurations; the catalog's is `*` (distribution's token scope
    /// `registry:catalog:*`).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Delete => "delete",
            Self::Catalog => "*",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A set of actions on a repository.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Actions(u8);

impl Actions {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Pull, push and delete.
    pub const ALL: Self = Self(0b111);
    /// Pull alone.
    pub const PULL: Self = Self(0b001);
    /// Pull and push.
    pub const PUSH: Self = Self(0b011);

    /// A set of one; the catalog is no action on a repository.
    #[must_use]
    pub fn of(action: Action) -> Self {
        match action {
            Action::Pull => Self(0b001),
            Action::Push => Self(0b010),
            Action::Delete => Self(0b100),
            Action::Catalog => Self::NONE,
        }
    }

    /// Whether an action is in it.
    #[must_use]
    pub fn contains(self, action: Action) -> bool {
        self.0 & Self::of(action).0 != 0
    }

    /// The actions in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The actions in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Its actions, one after the other.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        [Action::Pull, Action::Push, Action::Delete]
            .into_iter()
            .filter(move |action| self.contains(*action))
    }

    /// From the word in a token's scope; `*` is everything, what is unknown is nothing.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word {
            "pull" => Self::of(Action::Pull),
            "push" => Self::of(Action::Push),
            "delete" => Self::of(Action::Delete),
            "*" => Self::ALL,
            _ => Self::NONE,
        }
    }
}

impl FromIterator<registry_svc::Action> for Actions {
    fn from_iter<I: IntoIterator<Item = registry_svc::Action>>(actions: I) -> Self {
        let one = |action| {
            Self::of(match action {
                registry_svc::Action::Pull => Action::Pull,
                registry_svc::Action::Push => Action::Push,
                registry_svc::Action::Delete => Action::Delete,
            })
        };
        actions.into_iter().map(one).fold(Self::NONE, Self::union)
    }
}

impl From<Anonymous> for Actions {
    fn from(anonymous: Anonymous) -> Self {
        match anonymous {
            Anonymous::None => Self::NONE,
            Anonymous::Pull => Self::PULL,
            Anonymous::Push => Self::PUSH,
            Anonymous::All => Self::ALL,
        }
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// The client, as far as rules care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester<'a> {
    /// A client without authentication.
    Anonymous,
    /// An authenticated client.
    User {
        /// The name.
        name: &'a str,
        /// Groups that a certificate names, beside those of the configuration.
        groups: &'a [String],
    },
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The repositories.
    pub repositories: Glob,
    /// The users; `*` is every authenticated user.
    pub users: BTreeSet<String>,
    /// The groups.
    pub groups: BTreeSet<String>,
    /// The actions that they may do.
    pub actions: Actions,
    /// The actions that anonymous clients may do.
    pub anonymous: Actions,
}

/// Everything that decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    rules: Vec<Rule>,
    /// The groups of each user.
    groups: BTreeMap<String, Arc<[String]>>,
    admins: BTreeSet<String>,
    default: Actions,
    anonymous: Actions,
}

/// The parts of an [`Acl`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclParts {
    /// The rules; their order says nothing.
    pub rules: Vec<Rule>,
    /// The members of each group.
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// Users and, as `@NAME`, groups who may do everything.
    pub admins: BTreeSet<String>,
    /// The actions of users where no rule matches.
    pub default: Actions,
    /// The actions of anonymous clients where no rule matches.
    pub anonymous: Actions,
}

impl Acl {
    /// Makes it ready to be asked.
    #[must_use]
    pub fn new(parts: AclParts) -> Self {
        let mut of_user: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (group, members) in parts.groups {
            for member in members {
                of_user.entry(member).or_default().push(group.clone());
            }
        }
        let mut rules = parts.rules;
        // The longest first: the first that matches then says how long the others have to be.
        rules.sort_by_key(|rule| Reverse(rule.repositories.weight()));
        Self {
            rules,
            groups: of_user
                .into_iter()
                .map(|(user, groups)| (user, groups.into()))
                .collect(),
            admins: parts.admins,
            default: parts.default,
            anonymous: parts.anonymous,
        }
    }

    /// Every client may do everything, as with a registry without authentication.
    #[must_use]
    pub fn open() -> Self {
        Self {
            default: Actions::ALL,
            anonymous: Actions::ALL,
            ..Self::default()
        }
    }

    /// The actions that a client may do to a repository.
    #[must_use]
    pub fn actions(&self, who: Requester<'_>, repository: &str) -> Actions {
        if self.is_admin(who) {
            return Actions::ALL;
        }
        // A client that does not log in would have these.
        self.granted(who, repository)
            .union(self.granted(Requester::Anonymous, repository))
    }

    fn granted(&self, who: Requester<'_>, repository: &str) -> Actions {
        let mut matching = self
            .rules
            .iter()
            .filter(|rule| rule.repositories.matches(repository))
            .peekable();
        let Some(weight) = matching.peek().map(|rule| rule.repositories.weight()) else {
            return match who {
                Requester::Anonymous => self.anonymous,
                Requester::User { .. } => self.default,
            };
        };
        matching
            .take_while(|rule| rule.repositories.weight() == weight)
            .map(|rule| match who {
                Requester::Anonymous => rule.anonymous,
                Requester::User { name, groups } if self.names(rule, name, groups) => rule.actions,
                Requester::User { .. } => Actions::NONE,
            })
            .fold(Actions::NONE, Actions::union)
    }

    /// Whether a client may do an action; the catalog is for all clients that may pull anything,
    /// and for all users, since it lists only the repositories that they may pull.
    #[must_use]
    pub fn allows(&self, who: Requester<'_>, repository: &str, action: Action) -> bool {
        match action {
            Action::Catalog => match who {
                Requester::User { .. } => true,
                Requester::Anonymous => self.lets_strangers_pull(),
            },
            action => self.actions(who, repository).contains(action),
        }
    }

    /// Whether anonymous clients may pull anything.
    #[must_use]
    pub fn lets_strangers_pull(&self) -> bool {
        let mut rules = self.rules.iter();
        self.anonymous.contains(Action::Pull)
            || rules.any(|rule| rule.anonymous.contains(Action::Pull))
    }

    /// Whether anonymous clients may do everything everywhere.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty() && self.anonymous == Actions::ALL
    }

    fn is_admin(&self, who: Requester<'_>) -> bool {
        let Requester::User { name, groups } = who else {
            return false;
        };
        if self.admins.is_empty() {
            return false;
        }
        // A group is written with an @, which no user's name begins with.
        let is_admins = |group: &String| self.admins.contains(&format!("@{group}"));
        self.admins.contains(name) || self.groups_of(name).iter().chain(groups).any(is_admins)
    }

    fn names(&self, rule: &Rule, name: &str, groups: &[String]) -> bool {
        rule.users.contains(name)
            || rule.users.contains("*")
            || self
                .groups_of(name)
                .iter()
                .chain(groups)
                .any(|group| rule.groups.contains(group))
    }

    fn groups_of(&self, name: &str) -> &[String] {
        self.groups.get(name).map_or(&[], |groups| groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(repositories: &str, users: &[&str], groups: &[&str], actions: Actions) -> Rule {
        let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Rule {
            repositories: Glob::parse(repositories).unwrap(),
            users: set(users),
            groups: set(groups),
            actions,
            anonymous: Actions::NONE,
        }
    }

    fn acl() -> Acl {
        let open = Rule {
            anonymous: Actions::PULL,
            ..rule("public/**", &["*"], &[], Actions::PULL)
        };
        Acl::new(AclParts {
            rules: vec![
                rule("**", &["reader"], &[], Actions::PULL),
                rule("ocp4/**", &["ci"], &["ops"], Actions::PUSH),
                rule("ocp4/**", &["reader"], &[], Actions::PULL),
                rule("ocp4/secret/*", &["alice"], &[], Actions::ALL),
                open,
            ],
            groups: BTreeMap::from([
                ("ops".to_owned(), BTreeSet::from(["bob".to_owned()])),
                ("chiefs".to_owned(), BTreeSet::from(["dave".to_owned()])),
            ]),
            admins: BTreeSet::from(["root".to_owned(), "@chiefs".to_owned()]),
            default: Actions::NONE,
            anonymous: Actions::NONE,
        })
    }

    #[test]
    fn the_longest_glob_decides_alone() {
        let acl = acl();
        let cases = [
            ("reader", "a/b", Actions::PULL),
            ("reader", "ocp4/release", Actions::PULL),
            ("reader", "ocp4/secret/key", Actions::NONE),
            ("ci", "ocp4/release", Actions::PUSH),
            ("ci", "a/b", Actions::NONE),
            ("bob", "ocp4/release/x", Actions::PUSH),
            ("bob", "ocp4/secret/key", Actions::NONE),
            ("alice", "ocp4/secret/key", Actions::ALL),
            // One segment only: the shorter glob decides again.
            ("alice", "ocp4/secret/a/b", Actions::NONE),
            ("nobody", "public/tools", Actions::PULL),
            ("root", "ocp4/secret/key", Actions::ALL),
            ("dave", "a/b", Actions::ALL),
        ];
        for (name, repository, expected) in cases {
            let who = Requester::User { name, groups: &[] };
            assert_eq!(
                acl.actions(who, repository),
                expected,
                "{name} {repository}"
            );
        }
    }

    #[test]
    fn strangers_have_what_the_deciding_rule_gives_them() {
        let acl = acl();
        for (repository, expected) in [
            ("public/tools", Actions::PULL),
            ("a/b", Actions::NONE),
            ("ocp4/release", Actions::NONE),
        ] {
            assert_eq!(acl.actions(Requester::Anonymous, repository), expected);
        }
        assert!(acl.lets_strangers_pull());
        assert!(acl.allows(Requester::Anonymous, "", Action::Catalog));
        let closed = Acl::new(AclParts::default());
        assert!(!closed.allows(Requester::Anonymous, "", Action::Catalog));
    }

    #[test]
    fn a_user_has_at_least_what_strangers_have() {
        let closed = AclParts {
            anonymous: Actions::PULL,
            ..AclParts::default()
        };
        let user = Requester::User {
            name: "bob",
            groups: &[],
        };
        assert_eq!(
            Acl::new(closed.clone()).actions(user, "a"),
            Actions::PULL,
            "by the level"
        );
        let open = Rule {
            anonymous: Actions::PUSH,
            ..rule("public/**", &["alice"], &[], Actions::PULL)
        };
        let acl = Acl::new(AclParts {
            rules: vec![open],
            ..closed
        });
        assert_eq!(acl.actions(user, "public/a"), Actions::PUSH);
        assert_eq!(acl.actions(user, "a"), Actions::PULL);
    }

    #[test]
    fn a_certificate_brings_groups_of_its_own() {
        let groups = ["ops".to_owned()];
        let who = Requester::User {
            name: "machine",
            groups: &groups,
        };
        assert_eq!(acl().actions(who, "ocp4/release"), Actions::PUSH);
        let groups = ["chiefs".to_owned()];
        let who = Requester::User {
            name: "machine",
            groups: &groups,
        };
        assert_eq!(acl().actions(who, "a"), Actions::ALL);
    }

    #[test]
    fn without_rules_default_and_level_decide() {
        let acl = Acl::new(AclParts {
            default: Actions::ALL,
            anonymous: Actions::PULL,
            ..AclParts::default()
        });
        let user = Requester::User {
            name: "x",
            groups: &[],
        };
        assert_eq!(acl.actions(user, "a"), Actions::ALL);
        assert_eq!(acl.actions(Requester::Anonymous, "a"), Actions::PULL);
        assert!(!acl.is_open() && Acl::open().is_open());
        assert_eq!(Acl::open().actions(Requester::Anonymous, "a"), Actions::ALL);
    }

    #[test]
    fn a_user_called_like_an_admin_group_is_no_admin() {
        let who = Requester::User {
            name: "chiefs",
            groups: &[],
        };
        assert_eq!(acl().actions(who, "a"), Actions::NONE);
    }
}
