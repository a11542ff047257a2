//! Users and their passwords, as `htpasswd -B` writes them: `name:$2y$10$…`, a user a line.
//!
//! Only bcrypt is accepted: the other kinds that htpasswd knows (`$apr1$`, `{SHA}`, crypt, plain
//! text) are guessed in no time once the file leaks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon::config::{Position, Problem, Problems};
use daemon::disk::{self, Stamp};

/// The most that a password may cost: at 15 one takes seconds, and anybody may ask for it.
const HIGHEST_COST: u32 = 15;

/// The least that bcrypt allows.
const LOWEST_COST: u32 = 4;

/// More users than this are kept elsewhere.
const MOST_USERS: usize = 10_000;

/// The interval between two looks at a file that is followed.
const LOOK: Duration = Duration::from_secs(2);

/// A name longer than this is none.
const LONGEST_NAME: usize = 255;

/// Reads a file of users.
///
/// # Errors
/// When it cannot be read, or has a line that is not a user with a bcrypt hash.
pub fn read(path: &Path) -> Result<Users, Problems> {
    let unreadable = |error: &dyn std::fmt::Display| {
        let path = path.display();
        Problem::new(format!("cannot read users from {path}: {error}"))
    };
    let octets = disk::read(path).map_err(|error| unreadable(&error))?;
    let text = String::from_utf8(octets).map_err(|error| unreadable(&error))?;
    Users::parse(path, &text)
}

/// Hands the users of a file to `adopt` whenever the file has changed, for ever; a file with a problem changes nothing.
pub async fn follow(path: PathBuf, mut adopt: impl FnMut(Users)) {
    let mut seen = Stamp::of(&path);
    loop {
        tokio::time::sleep(LOOK).await;
        let stamp = Stamp::of(&path);
        if stamp == seen {
            continue;
        }
        seen = stamp;
        match read(&path) {
            Ok(users) => {
                tracing::info!(users = users.len(), "The file of users is taken up");
                adopt(users);
            }
            Err(problems) => {
                for problem in &problems.0 {
                    tracing::error!(%problem, "The file of users stays as it was");
                }
            }
        }
    }
}

/// The users of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    hashes: BTreeMap<String, Arc<str>>,
    cost: u32,
}

impl Users {
    /// Reads the text of a file; `path` is what problems call it.
    ///
    /// # Errors
    /// Every line that is not a user with a bcrypt hash.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let mut users = Self::default();
        let path: Arc<Path> = path.into();
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            if let Err((column, message)) = users.add(trimmed) {
                let position = Position {
                    file: Arc::clone(&path),
                    line: index + 1,
                    column,
                };
                problems.push(Problem::at(position, message));
            }
        }
        problems.unless_empty(users)
    }

    /// The hash of a user's password.
    #[must_use]
    pub fn hash(&self, user: &str) -> Option<Arc<str>> {
        self.hashes.get(user).map(Arc::clone)
    }

    /// How many users there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The names of the users.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.hashes.keys().map(String::as_str)
    }

    /// The highest cost of a user's password.
    #[must_use]
    pub fn cost(&self) -> u32 {
        self.cost.max(LOWEST_COST)
    }

    fn add(&mut self, line: &str) -> Result<(), (usize, String)> {
        let Some((name, hash)) = line.split_once(':') else {
            return Err((
                1,
                "a line is `name:hash`, as `htpasswd -B` writes it".into(),
            ));
        };
        let column = name.chars().count() + 2;
        let hash = hash.trim_end();
        if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('@') {
            return Err((1, "that is no name of a user".into()));
        }
        if name.chars().any(char::is_control) {
            return Err((1, "the name has control characters".into()));
        }
        let cost = cost(hash).map_err(|message| (column, message))?;
        if self.hashes.len() >= MOST_USERS {
            return Err((1, format!("there are more than {MOST_USERS} users")));
        }
        if self.hashes.contains_key(name) {
            return Err((1, format!("user {name} is there twice")));
        }
        self.cost = self.cost.max(cost);
        self.hashes.insert(name.to_owned(), hash.into());
        Ok(())
    }
}

/// The cost of a bcrypt hash, or what is wrong with it.
fn cost(hash: &str) -> Result<u32, String> {
    let kinds = ["$2y$", "$2b$", "$2a$"];
    let Some(rest) = kinds.iter().find_map(|kind| hash.strip_prefix(kind)) else {
        let kind = match hash {
            _ if hash.starts_with("$apr1$") => "MD5",
            _ if hash.starts_with("{SHA}") => "SHA-1",
            _ if hash.starts_with("$5$") || hash.starts_with("$6$") => "SHA-crypt",
            _ if hash.starts_with("$2x$") => "bcrypt of an implementation with a flaw",
            _ if hash.len() == 13 => "crypt, or plain text",
            _ => "plain text, or something unknown",
        };
        return Err(format!(
            "the password is not hashed with bcrypt but is {kind}; write it again with `htpasswd -B` or `registry-svc password`"
        ));
    };
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
    // Two digits, a dollar, 22 characters of salt and 31 of hash.
    let parts = rest.split_once('$').filter(|(cost, digest)| {
        cost.len() == 2 && digest.len() == 53 && digest.bytes().all(is_base64)
    });
    let cost = parts.and_then(|(cost, _)| cost.parse::<u32>().ok());
    match cost {
        None => Err("the bcrypt hash is damaged".into()),
        Some(cost) if (LOWEST_COST..=HIGHEST_COST).contains(&cost) => Ok(cost),
        Some(cost) => Err(format!(
            "a bcrypt cost of {cost} is out of bounds: {LOWEST_COST} to {HIGHEST_COST}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `secret`, cost 4.
    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuuKXeJrD/PA5MmRlX0jDNuDAIbIE2ZBwq";

    fn parse(text: &str) -> Result<Users, Vec<String>> {
        Users::parse(Path::new("users"), text)
            .map_err(|problems| problems.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn users_are_read() {
        let users = parse(&format!("# people\n\nalice:{HASH}\n  bob:{HASH}  \n")).unwrap();
        assert_eq!(users.names().collect::<Vec<_>>(), ["alice", "bob"]);
        assert_eq!((users.len(), users.cost()), (2, 4));
        assert_eq!(users.hash("alice").as_deref(), Some(HASH));
        assert_eq!(users.hash("carol"), None);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn other_kinds_of_hashes_are_refused_with_their_place() {
        let cases = [
            ("alice", "users:1:1: a line is"),
            (
                "alice:$apr1$x$y",
                "users:1:7: the password is not hashed with bcrypt but is MD5",
            ),
            (
                "alice:{SHA}x",
                "users:1:7: the password is not hashed with bcrypt but is SHA-1",
            ),
            ("alice:$6$x", "is SHA-crypt"),
            ("alice:secret", "is plain text"),
            ("alice:abcdefghijklm", "is crypt"),
            (
                "alice:$2y$10$short",
                "users:1:7: the bcrypt hash is damaged",
            ),
            ("ä:$2y$10$short", "users:1:3: the bcrypt hash is damaged"),
            (":x", "that is no name"),
            ("@x:y", "that is no name"),
        ];
        for (text, expected) in cases {
            let problems = parse(text).unwrap_err();
            assert!(problems[0].contains(expected), "{text}: {problems:?}");
        }
    }

    #[test]
    fn costs_are_bounded_and_every_problem_is_named() {
        let dear = HASH.replace("$04$", "$31$");
        let cheap = HASH.replace("$04$", "$03$");
        let text = format!("a:{dear}\nb:{cheap}\nc:{HASH}\nc:{HASH}\n");
        let problems = parse(&text).unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("users:1:3: a bcrypt cost of 31"));
        assert!(problems[1].contains("users:2:3: a bcrypt cost of 3"));
        assert!(problems[2].contains("users:4:1: user c is there twice"));
    }
}
