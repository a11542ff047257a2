//! The form in which each name server gets the zones with LUA records.

use std::net::IpAddr;

use dns_views::PeerRule;
use dns_wire::Name;

pub use config::dns_authd::LuaForm as Form;

/// The forms for all name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// The form for some name servers and zones. The first that fits decides.
    pub rules: Vec<PeerRule<Form>>,
    /// The form for the others.
    pub others: Form,
}

impl Forms {
    /// The form of a zone for the server at this address, which has signed with this key.
    #[must_use]
    pub fn of(&self, zone: &Name, server: IpAddr, key: Option<&Name>) -> Form {
        let mut rules = self.rules_of(zone);
        let rule = rules.find(|rule| rule.is_for(server, key));
        rule.map_or(self.others, |rule| rule.value)
    }

    /// Whether some server gets a zone flattened.
    #[must_use]
    pub fn flatten_any(&self, zone: &Name) -> bool {
        self.others == Form::Flatten || self.rules_of(zone).any(|rule| rule.value == Form::Flatten)
    }

    /// Whether the server at this address may get a zone flattened, with some key.
    #[must_use]
    pub fn may_flatten(&self, zone: &Name, server: IpAddr) -> bool {
        let mut rules = self.rules_of(zone).filter(|rule| rule.is_at(server));
        self.others == Form::Flatten || rules.any(|rule| rule.value == Form::Flatten)
    }

    fn rules_of(&self, zone: &Name) -> impl Iterator<Item = &PeerRule<Form>> {
        self.rules.iter().filter(|rule| rule.is_of(zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |networks: Option<&str>, keys: &[&str], zones: &[&str], form| PeerRule {
            networks: networks.map(|list| list.parse().unwrap()),
            keys: keys.iter().map(|key| name(key)).collect(),
            zones: zones.iter().map(|zone| name(zone)).collect(),
            value: form,
        };
        let forms = Forms {
            rules: vec![
                rule(Some("192.0.2.1"), &[], &[], Form::Flatten),
                rule(None, &["k."], &["a."], Form::Flatten),
                rule(Some("192.0.2.0/24"), &[], &["b."], Form::Refuse),
            ],
            others: Form::Raw,
        };
        for (zone, server, key, form) in [
            ("a.", "192.0.2.1", None, Form::Flatten),
            ("a.", "::ffff:192.0.2.1", None, Form::Flatten),
            ("a.", "192.0.2.2", None, Form::Raw),
            ("A.", "192.0.2.2", Some("K."), Form::Flatten),
            ("a.", "192.0.2.2", Some("other."), Form::Raw),
            ("b.", "192.0.2.2", Some("k."), Form::Refuse),
            ("b.", "198.51.100.2", Some("k."), Form::Raw),
        ] {
            let key = key.map(name);
            let found = forms.of(&name(zone), server.parse().unwrap(), key.as_ref());
            assert_eq!(found, form, "{zone} {server} {key:?}");
        }
        assert!(forms.flatten_any(&name("b.")), "for the first rule");
        let may =
            |zone: &str, server: &str| forms.may_flatten(&name(zone), server.parse().unwrap());
        assert!(may("a.", "198.51.100.1"), "with the key");
        assert!(may("b.", "192.0.2.1"));
        assert!(!may("b.", "198.51.100.1"));
        assert!(!Forms::default().flatten_any(&name("a.")));
        let all = Forms {
            others: Form::Flatten,
            ..Forms::default()
        };
        assert!(all.flatten_any(&name("a.")));
    }
}
