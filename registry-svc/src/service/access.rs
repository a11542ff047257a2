//! Rights of users and clients, read from the files that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::config::registry_svc::Token;
use daemon::config::{Problem, Problems};
use daemon::exit;
use registry_auth::acl::Acl;
use registry_auth::{Access, Policy, Tokens, key};

use crate::config::Config;

/// The policy of a configuration; makes the key for tokens when there is none.
///
/// # Errors
/// Everything that is wrong with what the configuration names.
pub(crate) fn policy(config: &Config) -> Result<Policy, Problems> {
    let mut problems = Problems::default();
    let access = &config.file.access;
    let users = match access.htpasswd.as_deref().map(passwords::read).transpose() {
        Ok(users) => users,
        Err(of_users) => {
            problems.extend(of_users);
            None
        }
    };
    let root = &config.file.root;
    let tokens = match config.token().map(|token| tokens(token, root)) {
        None => None,
        Some(Ok(tokens)) => Some(tokens),
        Some(Err(error)) => {
            problems.push(Problem::new(exit::chain(&error)));
            None
        }
    };
    problems.unless_empty(Policy {
        acl: Acl::new(config.acl.clone()),
        users,
        tokens,
        certificates: access.certificates,
        service: access.service.to_string(),
    })
}

/// The problems of the files of users and keys; creates no file.
pub(crate) fn check(config: &Config) -> Problems {
    let mut problems = Problems::default();
    if let Some(Err(of_users)) = config.file.access.htpasswd.as_deref().map(passwords::read) {
        problems.extend(of_users);
    }
    let Some(token) = config.token() else {
        return problems;
    };
    let own = token.key.as_deref().map(|path| key::load(path).map(|_| ()));
    let trusted = token.trusted.iter();
    let trusted = trusted.map(|path| key::load_public(path).map(|_| ()));
    for error in own.into_iter().chain(trusted).filter_map(Result::err) {
        problems.push(Problem::new(exit::chain(&error)));
    }
    problems
}

fn tokens(token: &Token, root: &Path) -> Result<Tokens, key::KeyError> {
    let signer = match &token.key {
        Some(path) => key::load(path)?,
        None => {
            let signer = key::load_or_make(&root.join(key::PRIVATE))?;
            key::write_public(&root.join(key::PUBLIC), &signer.public())?;
            signer
        }
    };
    let mut keys = vec![signer.public()];
    for path in &token.trusted {
        keys.push(key::load_public(path)?);
    }
    Ok(Tokens {
        signer: Arc::new(signer),
        keys,
        lifetime: token.lifetime.get(),
        refresh: token.refresh.get(),
        realm: token.realm.as_ref().map(ToString::to_string),
    })
}

/// Takes the file of users up whenever it has changed; one with a problem changes nothing.
pub(super) async fn follow(access: Access, path: PathBuf) {
    let adopt = |users| {
        let before = access.policy();
        access.adopt(Policy {
            acl: before.acl.clone(),
            users: Some(users),
            tokens: before.tokens.clone(),
            certificates: before.certificates,
            service: before.service.clone(),
        });
    };
    passwords::follow(path, adopt).await;
}
