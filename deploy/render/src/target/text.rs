//! The text of a unit: sections of keys, in the order in which they were set (systemd.syntax(7)).

use std::fmt::Display;

/// A unit file that is being written.
#[derive(Debug)]
pub(super) struct Text(String);

impl Text {
    /// Begins a file with comments, a line each.
    pub(super) fn new(comments: &[&str]) -> Self {
        Self(String::new()).comments(comments)
    }

    /// Begins a section.
    pub(super) fn section(mut self, name: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(&format!("[{name}]\n"));
        self
    }

    /// Comments, a line each.
    pub(super) fn comments(mut self, lines: &[&str]) -> Self {
        for line in lines {
            self.0.push_str(&format!("# {line}\n"));
        }
        self
    }

    /// Sets a key; once more adds to it, as systemd has it.
    pub(super) fn set(mut self, key: &str, value: impl Display) -> Self {
        self.0.push_str(&format!("{key}={value}\n"));
        self
    }

    /// Sets a key once for each value.
    pub(super) fn set_each(self, key: &str, values: impl IntoIterator<Item: Display>) -> Self {
        values
            .into_iter()
            .fold(self, |text, value| text.set(key, value))
    }

    /// Sets a key to a list of words; not at all to none.
    pub(super) fn set_words(self, key: &str, words: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let mut value = String::new();
        for word in words {
            if !value.is_empty() {
                value.push(' ');
            }
            value.push_str(word.as_ref());
        }
        match value.is_empty() {
            true => self,
            false => self.set(key, value),
        }
    }

    /// The same, changed by `change` if `condition` holds.
    pub(super) fn when(self, condition: bool, change: impl FnOnce(Self) -> Self) -> Self {
        match condition {
            true => change(self),
            false => self,
        }
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_apart_and_lists_are_words() {
        let none: [&str; 0] = [];
        let text = Text::new(&["What it is."])
            .section("Unit")
            .set("Description", "a unit")
            .set_words("After", ["one.service", "two.service"])
            .set_words("Before", none)
            .section("Service")
            .comments(&["Why."])
            .set_each("Environment", ["A=1", "B=2"])
            .when(false, |text| text.set("Never", 1))
            .finish();
        assert_eq!(
            text,
            "# What it is.\n\n[Unit]\nDescription=a unit\nAfter=one.service two.service\n\
             \n[Service]\n# Why.\nEnvironment=A=1\nEnvironment=B=2\n"
        );
    }
}
