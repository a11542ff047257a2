//! The tools of every part of a site file: the report, the claims, and lists of addresses.

use std::net::IpAddr;
use std::ops::Range;

use config::{Check, Ip, Step};

use super::claims::{Addresses, Names, Ports};
use super::report::Report;
use super::{Named, names};

/// More of one kind (networks, virtual IPs, what is published, upstreams) no site has; all are compared
/// with all.
pub(super) const MAX_LISTED: usize = 100;

/// The site that is built, and all claims.
#[derive(Debug)]
pub(super) struct Builder<'c, 'd> {
    pub(super) report: Report<'c, 'd>,
    pub(super) addresses: Addresses,
    pub(super) names: Names,
    pub(super) ports: Ports,
    pub(super) named: Vec<Named>,
}

impl<'c, 'd> Builder<'c, 'd> {
    pub(super) fn new(check: &'c mut Check<'d>) -> Self {
        Self {
            report: Report::new(check),
            addresses: Addresses::default(),
            names: Names::default(),
            ports: Ports::new(),
            named: Vec::new(),
        }
    }

    /// A text that has to pass as a name.
    pub(super) fn name(
        &mut self,
        text: &str,
        way: &[Step<'_>],
        check: impl Fn(&str) -> Result<(), names::Wrong>,
    ) -> String {
        if let Err(why) = check(text) {
            let span = self.report.span(way);
            self.report.wrong(span, format!("`{text}` {why}"));
        }
        text.to_owned()
    }

    /// The addresses under `address` and `addresses` of the table at the end of `way`: one at least, of each family one at
    /// most.
    pub(super) fn address_list(
        &mut self,
        one: Option<Ip>,
        several: &[Ip],
        way: &[Step<'_>],
        name: &str,
    ) -> Vec<(IpAddr, Range<usize>)> {
        let key = |steps: &[Step<'static>]| [way, steps].concat();
        let address = key(&[Step::Key("address")]);
        let addresses = key(&[Step::Key("addresses")]);
        let mut list: Vec<(IpAddr, Range<usize>)> = Vec::new();
        let several = several.iter().enumerate();
        let several =
            several.map(|(index, ip)| (*ip, [&addresses[..], &[Step::Item(index)]].concat()));
        let one_of = one.into_iter().map(|ip| (ip, address.clone()));
        for (Ip(ip), way) in one_of.chain(several) {
            let span = self.report.span(&way);
            if list
                .iter()
                .any(|(known, _)| known.is_ipv4() == ip.is_ipv4())
            {
                let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
                let message = format!(
                    "`{name}` has an {family} address already; a machine has one of each family here"
                );
                self.report.wrong(span, message);
                continue;
            }
            list.push((ip, span));
        }
        let is_lost = self.report.is_lost(&address) || self.report.is_lost(&addresses);
        if list.is_empty() && !is_lost {
            let span = self.report.span(&key(&[Step::Key("name")]));
            let message =
                format!("`{name}` has no `address`; write one, as in address = \"192.168.7.13\"");
            self.report.wrong(span, message);
        }
        list
    }
}
