//! The rules between the keys of `[page.tls]`.

use ::config::healthd::Healthd;
use ::config::{Check, at};

/// Checks that clients can log in, and that a page with a login is not open besides.
pub(super) fn check(file: &Healthd, check: &mut Check<'_>) {
    let Some(tls) = &file.page.tls else { return };
    let place = at!["page", "tls"];
    let has_login = tls.users.is_some() || tls.client_ca.is_some();
    if !has_login && !tls.open {
        let words = "no client could log in: name `users` or `client-ca`, or write `open = true` for every client";
        check.problem(&place, words);
    }
    if has_login && tls.open {
        let words =
            "a page that is `open` asks for no login: take `open` out, or `users` and `client-ca`";
        check.problem(&at!["page", "tls", "open"], words);
    }
    if tls.listen.is_empty() {
        let words =
            "`listen` is empty: no client could connect; take the table out to publish nothing";
        check.problem(&at!["page", "tls", "listen"], words);
    }
}
