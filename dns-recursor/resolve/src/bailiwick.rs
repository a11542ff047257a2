//! The names that a flight's servers may speak for, by the forward table.
//!
//! Servers that a zone is forwarded to answer for its names, less those that another entry of the table, or this
//! server itself, answers for. So a server of one zone changes nothing for another, whatever records it sends.

use dns_cache::message::Bailiwick;
use dns_wire::{Name, Type};

use crate::forward::{Route, Table};

/// The names of the servers of a route, or of a zone that referrals have led to.
#[derive(Debug)]
pub struct Realm<'a> {
    /// The table by which names belong to routes.
    pub table: &'a Table,
    /// The route of the question.
    pub route: &'a Route,
    /// The zone that its servers answer for: the route's, or one below.
    pub zone: &'a Name,
}

impl Bailiwick for Realm<'_> {
    fn owns(&self, name: &Name, rtype: Type) -> bool {
        let name = name.to_lowercase();
        // The servers of the zone above a delegated zone have its DS records.
        let is_above = rtype == Type::DS && name == *self.zone && *self.zone != self.route.zone;
        let route = self.table.find(name.as_wire(), rtype);
        name.is_within(self.zone)
            && !is_above
            && !self.table.is_local(name.as_wire())
            && (self.route.is_inner() || route.is_some_and(|route| route.zone == self.route.zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Mode;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn table(zones: &[&str], local: &[&str]) -> Table {
        let route = |zone: &&str| Route::new(name(zone), Mode::Recursive, Vec::new());
        Table::new(zones.iter().map(route)).with_local(local.iter().map(|zone| name(zone)))
    }

    #[track_caller]
    fn check(route: &str, zone: &str, owned: &[(&str, Type)], foreign: &[(&str, Type)]) {
        let table = table(
            &[".", "evil.test", "bank.test", "deep.bank.test"],
            &["localhost", "bank.local"],
        );
        let realm = Realm {
            route: table.find(name(route).as_wire(), Type::A).unwrap(),
            table: &table,
            zone: &name(zone),
        };
        for (list, expected) in [(owned, true), (foreign, false)] {
            for (owner, rtype) in list {
                let owns = realm.owns(&name(owner), *rtype);
                assert_eq!(owns, expected, "{route} {zone}: {owner} {rtype}");
            }
        }
    }

    #[test]
    fn names_belong_to_the_servers_of_the_longest_suffix() {
        let a = Type::A;
        check(
            "bank.test",
            "bank.test",
            &[
                ("bank.test", a),
                ("WWW.Bank.test", a),
                ("deep.bank.test", Type::DS),
            ],
            &[
                ("test", a),
                (".", a),
                ("www.evil.test", a),
                ("deep.bank.test", a),
                ("x.deep.bank.test", a),
                ("bank.test", Type::DS),
            ],
        );
        check(
            ".",
            ".",
            &[
                (".", a),
                ("test", a),
                ("bank.test", Type::DS),
                ("example", a),
                ("local", a),
            ],
            &[
                ("bank.test", a),
                ("x.evil.test", Type::SOA),
                ("localhost", a),
                ("x.bank.local", a),
            ],
        );
        check(
            ".",
            "example",
            &[("example", a), ("x.example", Type::DS)],
            &[(".", a), ("other", a), ("example", Type::DS)],
        );
    }

    #[test]
    fn a_local_zone_that_has_a_route_is_the_routes() {
        let table = table(&[".", "home.arpa"], &["home.arpa", "invalid"]);
        let is_local = |text: &str| table.is_local(name(text).as_wire());
        assert!(!is_local("x.home.arpa"));
        assert!(is_local("x.invalid"));
        assert!(!is_local("example"));
    }
}
