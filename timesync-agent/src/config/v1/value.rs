//! Single values: numbers of a range, spans, words.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;

use super::Reader;
use super::spec::Seconds;

impl Reader<'_> {
    /// Replaces `to` by a whole number of a range, if there is one.
    pub(super) fn int<T: TryFrom<i64>>(
        &mut self,
        value: Option<&Spanned<i64>>,
        range: RangeInclusive<i64>,
        to: &mut T,
    ) {
        let Some(value) = value else {
            return;
        };
        let number = Some(*value.get_ref()).filter(|number| range.contains(number));
        match number.and_then(|number| T::try_from(number).ok()) {
            Some(number) => *to = number,
            None => self.outside(value.span(), range.start(), range.end()),
        }
    }

    pub(super) fn some_int<T: TryFrom<i64> + Default>(
        &mut self,
        value: Option<&Spanned<i64>>,
        range: RangeInclusive<i64>,
        to: &mut Option<T>,
    ) {
        if value.is_some() {
            self.int(value, range, to.insert(T::default()));
        }
    }

    pub(super) fn float(
        &mut self,
        value: Option<&Spanned<f64>>,
        range: RangeInclusive<f64>,
        to: &mut f64,
    ) {
        if let Some(value) = value {
            if range.contains(value.get_ref()) {
                *to = *value.get_ref();
            } else {
                self.outside(value.span(), range.start(), range.end());
            }
        }
    }

    pub(super) fn some_float(
        &mut self,
        value: Option<&Spanned<f64>>,
        range: RangeInclusive<f64>,
        to: &mut Option<f64>,
    ) {
        if value.is_some() {
            self.float(value, range, to.insert(0.0));
        }
    }

    pub(super) fn span(
        &mut self,
        value: Option<&Spanned<Seconds>>,
        range: RangeInclusive<f64>,
        to: &mut f64,
    ) {
        if let Some(value) = value {
            if range.contains(&value.get_ref().0) {
                *to = value.get_ref().0;
            } else {
                let (low, high) = (format!("{} s", range.start()), format!("{} s", range.end()));
                self.outside(value.span(), &low, &high);
            }
        }
    }

    pub(super) fn some_span(
        &mut self,
        value: Option<&Spanned<Seconds>>,
        range: RangeInclusive<f64>,
        to: &mut Option<f64>,
    ) {
        if value.is_some() {
            self.span(value, range, to.insert(0.0));
        }
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        value: Option<&Spanned<String>>,
        choices: &[(&str, T)],
        to: &mut T,
    ) {
        let Some(value) = value else {
            return;
        };
        let mut all = choices.iter();
        match all.find(|(name, _)| name == value.get_ref()) {
            Some((_, choice)) => *to = *choice,
            None => {
                let names: Vec<String> = choices
                    .iter()
                    .map(|(name, _)| format!("`{name}`"))
                    .collect();
                self.problem(value.span(), format!("is one of {}", names.join(", ")));
            }
        }
    }

    pub(super) fn outside(&mut self, span: Range<usize>, low: &impl Display, high: &impl Display) {
        self.problem(span, format!("is to be from {low} to {high}"));
    }

    pub(super) fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problems.push(self.document.problem(span, message));
    }
}
