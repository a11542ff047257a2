//! The tools of every part of a site file: the report, the claims, and parsers of texts.

use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use daemon::config::Document;

use super::claims::{Addresses, Names, Ports};
use super::report::Report;
use super::spec::Text;
use super::{Named, names};

/// The site that is built, and all claims.
#[derive(Debug)]
pub(super) struct Builder<'d> {
    pub(super) report: Report<'d>,
    pub(super) addresses: Addresses,
    pub(super) names: Names,
    pub(super) ports: Ports,
    pub(super) named: Vec<Named>,
}

impl<'d> Builder<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self {
            report: Report::new(document),
            addresses: Addresses::default(),
            names: Names::default(),
            ports: Ports::new(),
            named: Vec::new(),
        }
    }

    /// A value that a text stands for.
    pub(super) fn parsed<T: FromStr>(&mut self, text: &Text, wanted: &str) -> Option<T> {
        let value = text.get_ref().parse().ok();
        if value.is_none() {
            let message = format!("`{}` is not {wanted}", text.get_ref());
            self.report.wrong(text.span(), message);
        }
        value
    }

    /// A text that has to pass as a name.
    pub(super) fn name(
        &mut self,
        text: &Text,
        check: impl Fn(&str) -> Result<(), names::Wrong>,
    ) -> String {
        if let Err(why) = check(text.get_ref()) {
            self.report
                .wrong(text.span(), format!("`{}` {why}", text.get_ref()));
        }
        text.get_ref().clone()
    }

    /// The addresses under `address` and `addresses`: one at least, of each family one at most.
    pub(super) fn address_list(
        &mut self,
        one: Option<&Text>,
        several: &[Text],
        of: &Text,
    ) -> Vec<(IpAddr, Range<usize>)> {
        let mut list: Vec<(IpAddr, Range<usize>)> = Vec::new();
        for text in one.into_iter().chain(several) {
            let Some(address) = self.parsed::<IpAddr>(text, "an IP address") else {
                continue;
            };
            if list
                .iter()
                .any(|(known, _)| known.is_ipv4() == address.is_ipv4())
            {
                let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                let message = format!("`{}` has an {family} address already", of.get_ref());
                self.report.wrong(text.span(), message);
                continue;
            }
            list.push((address, text.span()));
        }
        if one.is_none() && several.is_empty() {
            let message = format!("`{}` has no `address`", of.get_ref());
            self.report.wrong(of.span(), message);
        }
        list
    }
}
