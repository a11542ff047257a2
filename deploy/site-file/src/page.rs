//! The site's page: how it is published, and who may look.

use config::at;
use config::site as file;

use super::Holds;
use super::builder::Builder;
use site::service::Service;
use site::{Node, Page};

impl Builder<'_, '_> {
    /// The page as the file publishes it.
    pub(super) fn page(&mut self, spec: Option<&file::Page>, nodes: &[Node]) -> Option<Page> {
        let spec = spec?;
        let table = self.report.span(&at!["page"]);
        let has_login = spec.users.is_some() || spec.client_ca.is_some();
        let is_lost =
            ["users", "client-ca", "open"].map(|key| self.report.is_lost(&at!["page", key]));
        if !has_login && !spec.open && !is_lost.contains(&true) {
            let why = "no client could log in to the page; write a file of `users` or a `client-ca`, or `open = true` for every client";
            self.report.wrong(table.clone(), why);
        }
        if spec.open {
            let span = self.report.span(&at!["page", "open"]);
            match has_login {
                true => self.report.wrong(
                    span,
                    "a page that is `open` asks for no login; take `open` out, or `users` and `client-ca`",
                ),
                false => self.report.warn(
                    span,
                    "every host that reaches a node sees the site's page without a login: its nodes, services, names and addresses; write a file of `users` in place of `open`",
                ),
            }
        }
        let mut healthds = nodes.iter();
        if !nodes.is_empty() && !healthds.any(|node| node.services.contains(&Service::Healthd)) {
            let why = "no node publishes the page: no node runs healthd; add it to the `services` of a node, or take [page] out";
            self.report.wrong(table, why);
        }
        self.names_file(
            "the users of the page",
            Holds::Users,
            spec.users.as_ref(),
            &at!["page", "users"],
        );
        self.names_file(
            "the authority of the page's clients",
            Holds::Certificates,
            spec.client_ca.as_ref(),
            &at!["page", "client-ca"],
        );
        Some(Page {
            names: spec.names.clone(),
            port: spec.port.get(),
            users: spec.users.clone(),
            client_ca: spec.client_ca.clone(),
            open: spec.open,
        })
    }
}
