//! Arguments: numbers, paths, addresses; and options with and without a value.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::Reader;
use super::line::{Line, Word};

/// The options of a line, one after another.
pub(super) struct Options<'a, 't> {
    pub(super) line: &'a Line<'t>,
    next: usize,
}

impl<'a, 't> Options<'a, 't> {
    /// Those from the word at `first` on.
    pub(super) fn new(line: &'a Line<'t>, first: usize) -> Self {
        Self { line, next: first }
    }

    /// The next word.
    pub(super) fn take(&mut self) -> Option<Word<'t>> {
        let word = self.line.words.get(self.next).copied();
        self.next += usize::from(word.is_some());
        word
    }
}

impl Reader<'_> {
    /// The value of the option that was taken last; a problem if there is none.
    pub(super) fn value<'t>(
        &mut self,
        options: &mut Options<'_, 't>,
        option: Word<'t>,
    ) -> Option<Word<'t>> {
        let value = options.take();
        if value.is_none() {
            let message = format!("`{}` has no value", option.text);
            self.problem(options.line.end(), message);
        }
        value
    }

    /// A whole number. A number out of range is cut to the range, as chronyd does it, and reported.
    pub(super) fn integer<T>(
        &mut self,
        line: &Line<'_>,
        word: Word<'_>,
        range: RangeInclusive<T>,
    ) -> Option<T>
    where
        T: Copy + TryFrom<i64> + Into<i64>,
    {
        let (low, high) = (*range.start(), *range.end());
        let Ok(number) = word.text.parse::<i64>() else {
            let message = format!("`{}` is no whole number", word.text);
            self.problem(line.at(word), message);
            return None;
        };
        let bent = number.clamp(low.into(), high.into());
        if bent != number {
            let (low, high): (i64, i64) = (low.into(), high.into());
            let how = format!("{number} is taken for {bent}: it is to be from {low} to {high}");
            self.differs(line.at(word), line.name.text, &how);
        }
        T::try_from(bent).ok()
    }

    /// A number of seconds, parts per million or anything else that has a fraction.
    pub(super) fn float(
        &mut self,
        line: &Line<'_>,
        word: Word<'_>,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let number = word.text.parse::<f64>().ok().filter(|n| n.is_finite());
        let Some(number) = number else {
            let message = format!("`{}` is no number", word.text);
            self.problem(line.at(word), message);
            return None;
        };
        let bent = number.clamp(*range.start(), *range.end());
        if !range.contains(&number) {
            let (low, high) = (range.start(), range.end());
            let how = format!("{number} is taken for {bent}: it is to be from {low} to {high}");
            self.differs(line.at(word), line.name.text, &how);
        }
        Some(bent)
    }

    /// A port; none is bent.
    pub(super) fn port(&mut self, line: &Line<'_>, word: Word<'_>) -> Option<u16> {
        let port = word.text.parse().ok();
        if port.is_none() {
            let message = format!("`{}` is no port, 0 to 65535", word.text);
            self.problem(line.at(word), message);
        }
        port
    }

    /// An address.
    pub(super) fn address(&mut self, line: &Line<'_>, word: Word<'_>) -> Option<IpAddr> {
        let address = word.text.parse().ok();
        if address.is_none() {
            let message = format!("`{}` is no address", word.text);
            self.problem(line.at(word), message);
        }
        address
    }

    /// One word of several.
    pub(super) fn choice<T: Copy>(
        &mut self,
        line: &Line<'_>,
        word: Word<'_>,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let choice = choices.iter().find(|(name, _)| word.is(name));
        if let Some((_, value)) = choice {
            return Some(*value);
        }
        let names: Vec<String> = choices
            .iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let message = format!("`{}` is none of {}", word.text, names.join(", "));
        self.problem(line.at(word), message);
        None
    }

    /// An unknown option.
    pub(super) fn unknown_option<'k>(
        &mut self,
        line: &Line<'_>,
        word: Word<'_>,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        let directive = line.name.text.to_ascii_lowercase();
        let mut message = format!("`{directive}` has no option `{}`", word.text);
        if let Some(near) = config_text::nearest(word.text, known) {
            message.push_str(&format!("; did you mean `{near}`?"));
        }
        self.problem(line.at(word), message);
    }
}

/// A path.
pub(super) fn path(word: Word<'_>) -> PathBuf {
    PathBuf::from(word.text)
}
