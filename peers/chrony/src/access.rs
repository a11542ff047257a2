//! `allow`, `deny`, `cmdallow`, `cmddeny`: `[all] [address|network|name]`.

use config::timesync_agent::{AccessError, AccessRule, ClientMatch};

use super::Reader;
use super::line::Line;

impl Reader<'_> {
    pub(super) fn access(&mut self, line: &Line<'_>, allow: bool) -> Option<AccessRule> {
        let mut words = line.words.iter().copied().peekable();
        let all = words.next_if(|word| word.is("all")).is_some();
        let clients = match words.next() {
            None => ClientMatch::Everybody,
            Some(word) => match word.text.parse() {
                Ok(clients) => clients,
                Err(error) => {
                    let error: AccessError = error;
                    self.problem(line.at(word), error.to_string());
                    return None;
                }
            },
        };
        if let Some(word) = words.next() {
            let message = format!("`{}` is one word too many", word.text);
            self.problem(line.at(word), message);
        }
        Some(AccessRule {
            allow,
            all,
            clients,
        })
    }
}
