//! `rewrite [continue|stop] FIELD …`, on one line or with its arguments in a block.

use dns_wire::Name;
use peer_forwarder::{Rewrite, RewriteKind};

use crate::{Line, Reader, Word};

impl Reader<'_> {
    pub(crate) fn rewrite(
        &mut self,
        plugin: &Word,
        arguments: &[Word],
        body: &[Line],
        zones: &[Name],
    ) {
        let mut words: Vec<&Word> = arguments.iter().collect();
        // As in CoreDNS, a block counts where the line itself has too little.
        if words.len() < 2 {
            words.extend(body.iter().flatten());
        }
        let goes_on = match words.first().map(|it| it.text.to_ascii_lowercase()) {
            Some(mode) if mode == "continue" || mode == "stop" => {
                words.remove(0);
                mode == "continue"
            }
            _ => false,
        };
        let [field, rest @ ..] = words.as_slice() else {
            self.error(plugin, "has no field");
            return;
        };
        let rule = match field.text.to_ascii_lowercase().as_str() {
            "name" => self.name_rule(plugin, rest),
            "type" => match rest {
                [from, to] => Some(rule(RewriteKind::Type, from, to)),
                _ => {
                    self.error(plugin, "takes two types");
                    None
                }
            },
            "class" | "edns0" | "ttl" | "cname" | "rcode" => {
                let whole: Vec<&str> = words.iter().map(|it| it.text.as_str()).collect();
                let what = format!("rewrite {}", whole.join(" "));
                let reason = "names and types of questions are rewritten";
                self.found.not_carried(&plugin.at, &what, reason);
                return;
            }
            _ => {
                self.error(field, "is no field of `rewrite`");
                return;
            }
        };
        let Some(rule) = rule else {
            return;
        };
        if zones.iter().any(|zone| !zone.is_root()) {
            let message = "`rewrite` is for questions of all zones here".to_owned();
            self.found.odd(Some(&plugin.at), message);
        }
        self.found.rewrites.push(Rewrite { goes_on, ..rule });
    }

    /// `[exact|prefix|suffix|substring|regex] FROM TO [answer auto | answer name FROM TO | answer value FROM TO]…`.
    fn name_rule(&mut self, plugin: &Word, words: &[&Word]) -> Option<Rewrite> {
        let (kind, from, to, answers) = match words {
            [from, to] => (RewriteKind::Exact, from, to, &[][..]),
            [kind, from, to, answers @ ..] => {
                let of = match kind.text.to_ascii_lowercase().as_str() {
                    "exact" => RewriteKind::Exact,
                    "prefix" => RewriteKind::Prefix,
                    "suffix" => RewriteKind::Suffix,
                    "substring" => RewriteKind::Substring,
                    "regex" => RewriteKind::Regex,
                    _ => {
                        self.error(kind, "is no kind of match of `rewrite`");
                        return None;
                    }
                };
                (of, from, to, answers)
            }
            _ => {
                self.error(plugin, "takes a name and another");
                return None;
            }
        };
        let mut rule = rule(kind, from, to);
        let mut rest = answers;
        while let [first, after @ ..] = rest {
            // The word may be left out behind another rule of the kind.
            let after = match first.text.as_str() {
                "answer" => after,
                _ => rest,
            };
            rest = match after {
                [kind, after @ ..] if kind.text == "auto" => {
                    rule.reverts = true;
                    after
                }
                [kind, from, to, after @ ..] if kind.text == "name" => {
                    rule.owners.push([from.text.clone(), to.text.clone()]);
                    after
                }
                [kind, from, to, after @ ..] if kind.text == "value" => {
                    rule.values.push([from.text.clone(), to.text.clone()]);
                    after
                }
                _ => {
                    self.error(first, "is no rule for answers of `rewrite`");
                    return None;
                }
            };
        }
        Some(rule)
    }
}

/// A rule; a rule that compares the whole name changes answers back.
fn rule(kind: RewriteKind, from: &Word, to: &Word) -> Rewrite {
    Rewrite {
        kind,
        from: from.text.clone(),
        to: to.text.clone(),
        reverts: kind == RewriteKind::Exact,
        owners: Vec::new(),
        values: Vec::new(),
        goes_on: false,
    }
}
