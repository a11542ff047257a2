//! `[access]`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use daemon::config::nearest;
use registry_auth::acl::{AclParts, Rule};
use registry_auth::{Action, Actions, CertificateName, DEFAULT_SERVICE};
use toml::Spanned;

use super::Reader;
use super::spec::{AccessSpec, ActionSpec, AnonymousSpec, CertificatesSpec, RuleSpec, TokenSpec};
use crate::config::{Access, Token};

/// The shortest life of a token that clients reckon with (distribution's token authentication).
const SHORTEST_TOKEN: Duration = Duration::from_mins(1);

impl Reader<'_> {
    pub(super) fn access(&mut self, spec: AccessSpec) -> Access {
        let certificates = match spec.certificates.as_ref().map(|it| *it.get_ref()) {
            None | Some(CertificatesSpec::None) => CertificateName::None,
            Some(CertificatesSpec::CommonName) => CertificateName::CommonName,
            Some(CertificatesSpec::Dns) => CertificateName::Dns,
            Some(CertificatesSpec::Uri) => CertificateName::Uri,
        };
        let knows_somebody = spec.htpasswd.is_some() || certificates != CertificateName::None;
        let anonymous = match spec.anonymous {
            Some(AnonymousSpec::None) => Actions::NONE,
            Some(AnonymousSpec::Pull) => Actions::PULL,
            Some(AnonymousSpec::Push) => Actions::PUSH,
            Some(AnonymousSpec::All) => Actions::ALL,
            // A registry without users or tokens serves everyone, as its peers do.
            None if knows_somebody => Actions::NONE,
            None => Actions::ALL,
        };
        let default = match &spec.default {
            Some(actions) => set(actions),
            None if spec.rule.is_empty() => Actions::ALL,
            None => Actions::NONE,
        };
        let groups: BTreeMap<String, BTreeSet<String>> = spec
            .groups
            .into_iter()
            .map(|(group, members)| (group, members.into_iter().collect()))
            .collect();
        let rules = spec.rule.iter().flat_map(|rule| {
            // Groups may also come with certificates, and cannot be known then.
            let known = (certificates != CertificateName::CommonName).then_some(&groups);
            self.rule(rule, known)
        });
        let rules = rules.collect();
        Access {
            htpasswd: spec.htpasswd,
            certificates,
            service: self.service(spec.service),
            token: (knows_somebody && spec.token.enabled != Some(false))
                .then(|| self.token(spec.token)),
            acl: AclParts {
                rules,
                admins: spec.admins.into_iter().map(Spanned::into_inner).collect(),
                groups,
                default,
                anonymous,
            },
        }
    }

    fn rule(
        &mut self,
        spec: &RuleSpec,
        groups: Option<&BTreeMap<String, BTreeSet<String>>>,
    ) -> Vec<Rule> {
        for group in &spec.groups {
            if let Some(groups) = groups
                && !groups.contains_key(group.get_ref())
            {
                let known = groups.keys().map(String::as_str);
                let hint = match nearest(group.get_ref(), known) {
                    Some(near) => format!("; did you mean `{near}`?"),
                    None => String::new(),
                };
                let text = format!("there is no group `{}`{hint}", group.get_ref());
                self.problem(group.span(), text);
            }
        }
        let plain =
            |names: &[Spanned<String>]| names.iter().map(|name| name.get_ref().clone()).collect();
        let place = spec.repositories.span();
        let texts = &spec.repositories.get_ref().0;
        let globs: Vec<_> = texts
            .iter()
            .filter_map(|text| self.glob(text, place.clone()))
            .collect();
        globs
            .into_iter()
            .map(|repositories| Rule {
                repositories,
                users: plain(&spec.users),
                groups: plain(&spec.groups),
                actions: set(&spec.actions),
                anonymous: set(&spec.anonymous),
            })
            .collect()
    }

    fn service(&mut self, service: Option<Spanned<String>>) -> String {
        let Some(service) = service else {
            return DEFAULT_SERVICE.to_owned();
        };
        let is_known = |byte: u8| (b'!'..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        let text = service.get_ref();
        if text.is_empty() || text.len() > 255 || !text.bytes().all(is_known) {
            self.problem(
                service.span(),
                "a service is named with printable characters and no quotes",
            );
        }
        service.into_inner()
    }

    fn token(&mut self, spec: TokenSpec) -> Token {
        let day = Duration::from_hours(24);
        if let Some(realm) = &spec.realm {
            let text = realm.get_ref();
            if !text.starts_with("https://") && !text.starts_with("http://") {
                self.problem(
                    realm.span(),
                    "a realm is the URL of the token endpoint, as in \"https://registry.example.org:5443/token\"",
                );
            }
        }
        Token {
            key: spec.key,
            trusted: spec.trusted,
            lifetime: self.time(
                spec.lifetime.as_ref(),
                Duration::from_mins(5),
                SHORTEST_TOKEN..=day,
            ),
            refresh: self.time(spec.refresh.as_ref(), day * 30, SHORTEST_TOKEN..=day * 366),
            realm: spec.realm.map(Spanned::into_inner),
        }
    }
}

fn set(actions: &[ActionSpec]) -> Actions {
    let action = |action: &ActionSpec| {
        Actions::of(match action {
            ActionSpec::Pull => Action::Pull,
            ActionSpec::Push => Action::Push,
            ActionSpec::Delete => Action::Delete,
        })
    };
    actions
        .iter()
        .map(action)
        .fold(Actions::NONE, Actions::union)
}
