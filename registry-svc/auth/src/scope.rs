//! The requested and the granted scopes of a token (distribution's token scope documentation).
//!
//! ```text
//! scope    = resource *( SP resource )
//! resource = type [ "(" class ")" ] ":" name ":" action *( "," action )
//! ```
//!
//! A name may contain a colon (`host:port/path`), so the type ends at the first one and the actions
//! begin after the last. A scope that cannot be parsed grants nothing and is no error: a server
//! answers with the intersection of the requested and the allowed actions.

use super::acl::{Acl, Action, Actions, Requester};

/// The most resources of one token; a client that copies an image requests two.
const MOST: usize = 64;

/// A requested or granted resource of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A repository.
    Repository {
        /// Its name.
        name: String,
        /// The actions.
        actions: Actions,
    },
    /// The list of all repositories.
    Catalog,
}

impl Resource {
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Repository { name, .. }, Self::Repository { name: other, .. }) => name == other,
            (Self::Catalog, Self::Catalog) => true,
            (Self::Repository { .. }, Self::Catalog) | (Self::Catalog, Self::Repository { .. }) => {
                false
            }
        }
    }
}

/// Reads the values of all `scope` parameters; the same repository named twice is one.
#[must_use]
pub fn parse<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Vec<Resource> {
    let mut wanted: Vec<Resource> = Vec::new();
    let words = scopes.into_iter().flat_map(str::split_ascii_whitespace);
    for resource in words.take(MOST).filter_map(resource) {
        let known = wanted.iter_mut().find(|known| known.is_same_as(&resource));
        match (known, resource) {
            (
                Some(Resource::Repository { actions, .. }),
                Resource::Repository { actions: more, .. },
            ) => *actions = actions.union(more),
            (Some(_), _) => {}
            (None, resource) => wanted.push(resource),
        }
    }
    wanted
}

fn resource(text: &str) -> Option<Resource> {
    let (kind, rest) = text.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    // "repository(plugin)": the class says what is in it, which does not matter here.
    let kind = kind.split_once('(').map_or(kind, |(kind, _)| kind);
    match kind {
        "repository" if !name.is_empty() => Some(Resource::Repository {
            name: name.to_owned(),
            actions: actions
                .split(',')
                .map(Actions::from_word)
                .fold(Actions::NONE, Actions::union),
        }),
        "registry" if name == "catalog" => {
            let is_asked = actions.split(',').any(|action| action == "*");
            is_asked.then_some(Resource::Catalog)
        }
        _ => None,
    }
}

/// The part of the requested scopes that a client may have; leaves out a repository without any
/// action.
#[must_use]
pub fn granted(acl: &Acl, who: Requester<'_>, wanted: Vec<Resource>) -> Vec<Resource> {
    let grant = |resource| match resource {
        Resource::Repository { name, actions } => {
            let actions = actions.intersection(acl.actions(who, &name));
            (!actions.is_empty()).then_some(Resource::Repository { name, actions })
        }
        Resource::Catalog => acl
            .allows(who, "", Action::Catalog)
            .then_some(Resource::Catalog),
    };
    wanted.into_iter().filter_map(grant).collect()
}

/// Whether one of these grants an action.
#[must_use]
pub fn grants(all: &[Resource], repository: &str, action: Action) -> bool {
    all.iter().any(|resource| match resource {
        Resource::Repository { name, actions } => name == repository && actions.contains(action),
        Resource::Catalog => action == Action::Catalog,
    })
}

/// The text of what is granted, as the `scope` of an answer has it.
#[must_use]
pub fn text(all: &[Resource]) -> String {
    let words: Vec<String> = all
        .iter()
        .map(|resource| match resource {
            Resource::Repository { name, actions } => {
                let actions: Vec<&str> = actions.iter().map(Action::as_str).collect();
                format!("repository:{name}:{}", actions.join(","))
            }
            Resource::Catalog => "registry:catalog:*".to_owned(),
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::AclParts;

    fn check(scopes: &[&str], expected: &str) {
        assert_eq!(text(&parse(scopes.iter().copied())), expected, "{scopes:?}");
    }

    #[test]
    fn scopes_are_read_as_clients_write_them() {
        check(&["repository:a/b:pull"], "repository:a/b:pull");
        check(&["repository:a:push,pull"], "repository:a:pull,push");
        check(&["repository:a:*"], "repository:a:pull,push,delete");
        check(&["repository(plugin):a:pull"], "repository:a:pull");
        check(
            &["repository:host:5000/a:pull"],
            "repository:host:5000/a:pull",
        );
        check(
            &["repository:a:pull repository:b:pull,push"],
            "repository:a:pull repository:b:pull,push",
        );
        check(
            &["repository:a:pull", "repository:a:push"],
            "repository:a:pull,push",
        );
        check(
            &["registry:catalog:*", "registry:catalog:*"],
            "registry:catalog:*",
        );
    }

    #[test]
    fn what_is_not_understood_grants_nothing() {
        for odd in [
            "",
            "repository",
            "repository:a",
            "repository::pull",
            "wheel:a:pull",
            "registry:catalog:pull",
            "registry:other:*",
        ] {
            check(&[odd], "");
        }
        check(&["repository:a:fly,pull"], "repository:a:pull");
        assert_eq!(
            parse(["repository:a:pull "; 100].iter().copied()).len(),
            1,
            "{MOST} at most"
        );
    }

    #[test]
    fn a_token_grants_the_intersection() {
        let acl = Acl::new(AclParts {
            default: Actions::PUSH,
            anonymous: Actions::PULL,
            ..AclParts::default()
        });
        let user = Requester::User {
            name: "x",
            groups: &[],
        };
        let wanted = || parse(["repository:a:pull,push,delete", "registry:catalog:*"]);
        let got = granted(&acl, user, wanted());
        assert_eq!(text(&got), "repository:a:pull,push registry:catalog:*");
        assert!(grants(&got, "a", Action::Push));
        assert!(!grants(&got, "a", Action::Delete));
        assert!(!grants(&got, "b", Action::Pull));
        assert!(grants(&got, "", Action::Catalog));
        let got = granted(&acl, Requester::Anonymous, wanted());
        assert_eq!(text(&got), "repository:a:pull registry:catalog:*");
        let got = granted(&Acl::default(), Requester::Anonymous, wanted());
        assert_eq!(text(&got), "");
    }
}
