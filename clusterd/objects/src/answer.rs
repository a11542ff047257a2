//! The answers of the API: a page of a list, an event of a watch, a refusal.
//!
//! The items of a list are read one by one, so that the peak of memory is the text and one object.

use std::fmt;
use std::time::Duration;

use cluster::{Key, Kind, Object};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::object::{self, ObjectError};

/// The place of the annotation that marks the bookmark after the first events of a watch with `sendInitialEvents`.
const INITIAL_END: &str = "/metadata/annotations/k8s.io~1initial-events-end";

/// An answer that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is not JSON of the right form.
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
    /// It has more items than are taken.
    #[error("the answer has more than {0} items")]
    TooMany(usize),
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The resource version of the whole list.
    pub version: String,
    /// The token of the next page; none at the last.
    pub next: Option<String>,
    /// The objects.
    pub objects: Vec<Object>,
    /// The items that cannot be read.
    pub bad: Vec<ObjectError>,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An object is new or other than before.
    Put {
        /// The object.
        object: Object,
        /// Its resource version.
        version: String,
    },
    /// An object is gone.
    Delete {
        /// The object.
        key: Key,
        /// The resource version of the deletion.
        version: String,
    },
    /// The server has sent everything up to a version.
    Bookmark {
        /// The resource version.
        version: String,
        /// Whether the objects that were there at the beginning have all been sent.
        initial_end: bool,
    },
    /// An object that cannot be read.
    Bad {
        /// Why.
        error: ObjectError,
        /// Its resource version; may be empty.
        version: String,
    },
    /// The server ends the watch for a reason.
    Refused(Refusal),
    /// An event of an unknown type.
    Unknown(String),
}

/// A `Status` of the API that says no.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The code, as of HTTP.
    pub code: u16,
    /// The reason in one word, such as `Expired`; may be empty.
    pub reason: String,
    /// The message.
    pub message: String,
    /// How long to wait before the next attempt.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Reads the body of an answer with this code: a `Status`, or a text of a proxy.
    #[must_use]
    pub fn read(code: u16, body: &[u8]) -> Self {
        let status = serde_json::from_slice::<Value>(body).ok();
        let status = status.filter(|value| text(value, "/kind") == "Status");
        let mut refusal = status.map_or_else(Self::default, |status| Self::of(&status));
        refusal.code = code;
        if refusal.message.is_empty() {
            refusal.message = in_one_line(&String::from_utf8_lossy(body));
        }
        refusal
    }

    fn of(status: &Value) -> Self {
        let number = |path: &str| status.pointer(path).and_then(Value::as_u64);
        let seconds = number("/details/retryAfterSeconds");
        let code = number("/code").and_then(|code| u16::try_from(code).ok());
        Self {
            code: code.unwrap_or_default(),
            reason: in_one_line(text(status, "/reason")),
            message: in_one_line(text(status, "/message")),
            retry_after: seconds.filter(|it| *it > 0).map(Duration::from_secs),
        }
    }

    /// Whether the resource version or token of the request is too old. The code says it, or the reason alone.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.is_empty() {
            true => write!(f, "{} {}", self.code, self.reason),
            false => write!(f, "{} {}", self.code, self.message),
        }
    }
}

/// The longest text of a server that is shown.
const LONGEST_MESSAGE: usize = 300;

/// A text of a server, fit for a log.
fn in_one_line(text: &str) -> String {
    let text = text.trim().chars().take(LONGEST_MESSAGE);
    text.map(|letter| match letter.is_control() {
        true => ' ',
        false => letter,
    })
    .collect()
}

/// Reads a page of a list.
///
/// # Errors
///
/// When it is no list. An item that cannot be read is no error: it is named in [`Page::bad`].
pub fn page(kind: Kind, body: &[u8], most: usize) -> Result<Page, AnswerError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let seed = List { kind, most };
    let page = seed
        .deserialize(&mut deserializer)
        .and_then(|page| deserializer.end().map(|()| page))
        .map_err(|error| AnswerError::Malformed(error.to_string()))?;
    match page.objects.len().saturating_add(page.bad.len()) > most {
        true => Err(AnswerError::TooMany(most)),
        false => Ok(page),
    }
}

/// Reads one line of a watch.
///
/// # Errors
///
/// When it is no event.
pub fn event(kind: Kind, line: &[u8]) -> Result<Event, AnswerError> {
    #[derive(Deserialize)]
    struct Line {
        r#type: String,
        #[serde(default)]
        object: Value,
    }
    let malformed = |error: serde_json::Error| AnswerError::Malformed(error.to_string());
    let Line { r#type, object } = serde_json::from_slice(line).map_err(malformed)?;
    let version = text(&object, "/metadata/resourceVersion").to_owned();
    Ok(match r#type.as_str() {
        "ADDED" | "MODIFIED" => match object::read(kind, object) {
            Ok(object) => Event::Put { object, version },
            Err(error) => Event::Bad { error, version },
        },
        // The last state of an object that goes need not be legal.
        "DELETED" => match object::key(kind, &object) {
            Some(key) => Event::Delete { key, version },
            None => Event::Bad {
                error: ObjectError {
                    key: None,
                    name: format!("a {kind} without a name"),
                    problem: "it is deleted, and the event does not name it".to_owned(),
                },
                version,
            },
        },
        "BOOKMARK" => Event::Bookmark {
            initial_end: text(&object, INITIAL_END) == "true",
            version,
        },
        "ERROR" => Event::Refused(Refusal::of(&object)),
        _ => Event::Unknown(in_one_line(&r#type)),
    })
}

/// The minor version of a server, from the body of `/version`; `1` is the major one. `27+` is 27.
#[must_use]
pub fn minor_version(body: &[u8]) -> Option<u32> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let minor = text(&value, "/minor");
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    digits
        .parse()
        .ok()
        .filter(|_| text(&value, "/major") == "1")
}

/// The text at a JSON pointer (RFC 6901); empty when there is none.
fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

//--- Lists

/// Reads a list.
struct List {
    kind: Kind,
    most: usize,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl<'de> DeserializeSeed<'de> for List {
    type Value = Page;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Page, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for List {
    type Value = Page;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.kind.resource())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Page, A::Error> {
        let mut page = Page::default();
        let (mut has_items, mut has_meta) = (false, false);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "metadata" => {
                    has_meta = true;
                    let meta: ListMeta = map.next_value()?;
                    page.version = meta.resource_version.unwrap_or_default();
                    page.next = meta.r#continue.filter(|token| !token.is_empty());
                }
                "items" => {
                    has_items = true;
                    map.next_value_seed(Items {
                        kind: self.kind,
                        most: self.most,
                        page: &mut page,
                    })?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        // A Status in place of a list must not pass as an empty one.
        if !(has_items && has_meta) {
            return Err(serde::de::Error::custom("it is no list"));
        }
        Ok(page)
    }
}

/// Reads the items of a list into its page.
struct Items<'a> {
    kind: Kind,
    most: usize,
    page: &'a mut Page,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut n_items = 0_usize;
        while let Some(item) = items.next_element::<Value>()? {
            n_items += 1;
            if n_items > self.most.saturating_add(1) {
                // The caller refuses the page; the rest need not be kept.
                continue;
            }
            match object::read(self.kind, item) {
                Ok(object) => self.page.objects.push(object),
                Err(error) => self.page.bad.push(error),
            }
        }
        Ok(())
    }
}
