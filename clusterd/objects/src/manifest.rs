//! Manifests: files that people and tools write, in YAML or JSON, with lists in them.
//!
//! They lack what the API would fill in: a namespace, a protocol, a cluster IP. Objects of other kinds are passed over.
//! A name that comes twice is an error of the second one, and the first one counts.

use std::collections::BTreeMap;

use cluster::{Key, Kind, Object};
use serde_json::Value;

use crate::object::{self, ObjectError};

/// The namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// How deep lists may lie in lists.
const MAX_DEPTH: usize = 8;
/// Values of all documents of one file: some hundred bytes each, so that a small file cannot take the memory.
const MAX_NODES: usize = 2_000_000;
/// The depth of values in a document.
const MAX_VALUE_DEPTH: usize = 64;

/// The objects of the files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    objects: BTreeMap<Key, (Object, String)>,
    /// The problems, each with its file.
    pub problems: Vec<ManifestProblem>,
    /// The objects of other kinds that were passed over.
    pub n_others: usize,
}

/// Something in a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct ManifestProblem {
    /// The file.
    pub file: String,
    /// The problem.
    pub problem: String,
    /// The object, if it has a key: its earlier form is kept.
    pub key: Option<Key>,
}

impl Manifests {
    /// Adds the objects of a file. Files are added in the order of their names.
    pub fn add(&mut self, file: &str, text: &str) {
        match documents(text) {
            Ok(documents) => {
                for document in documents {
                    self.add_value(file, document, 0);
                }
            }
            Err(problem) => self.problem(file, problem, None),
        }
    }

    /// Says that a file cannot be read at all.
    pub fn unreadable(&mut self, file: &str, problem: String) {
        self.problem(file, problem, None);
    }

    /// The objects.
    #[must_use]
    pub fn into_objects(self) -> Vec<Object> {
        self.objects
            .into_values()
            .map(|(object, _)| object)
            .collect()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn add_value(&mut self, file: &str, mut value: Value, depth: usize) {
        if value.is_null() {
            // Between two lines of `---` there may be nothing.
            return;
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text("kind").unwrap_or_default();
        let version = text("apiVersion").unwrap_or_default();
        if kind.is_empty() {
            return self.problem(file, "a document has no `kind`".to_owned(), None);
        }
        if kind.ends_with("List")
            && let Some(items) = value.get_mut("items")
        {
            let items = items.take();
            return self.add_list(file, &kind, &version, items, depth);
        }
        self.add_object(file, &version, &kind, value);
    }

    fn add_list(&mut self, file: &str, kind: &str, version: &str, items: Value, depth: usize) {
        if depth >= MAX_DEPTH {
            return self.problem(file, "lists lie too deep in lists".to_owned(), None);
        }
        let Value::Array(items) = items else {
            return;
        };
        for mut item in items {
            name_kind(&mut item, kind, version);
            self.add_value(file, item, depth + 1);
        }
    }

    fn add_object(&mut self, file: &str, version: &str, kind: &str, mut value: Value) {
        let read = match (version, kind) {
            ("v1", "Node") => object::read(Kind::Node, value).map(|object| vec![object]),
            ("v1", "Namespace") => object::read(Kind::Namespace, value).map(|object| vec![object]),
            ("v1", "Service") => {
                fill_namespace(&mut value);
                object::read(Kind::Service, value).map(|object| vec![object])
            }
            ("discovery.k8s.io/v1" | "discovery.k8s.io/v1beta1", "EndpointSlice") => {
                fill_namespace(&mut value);
                object::read(Kind::EndpointSlice, value).map(|object| vec![object])
            }
            ("operator.openshift.io/v1", "DNS") => {
                let only = Kind::Dns.only();
                let name = value.pointer("/metadata/name").and_then(Value::as_str);
                if name != only {
                    // The operator knows no other one.
                    self.n_others += 1;
                    return;
                }
                object::read(Kind::Dns, value).map(|object| vec![object])
            }
            ("v1", "Endpoints") => {
                fill_namespace(&mut value);
                endpoints(value)
            }
            _ => {
                self.n_others += 1;
                return;
            }
        };
        match read {
            Ok(objects) => {
                for object in objects {
                    self.insert(file, object);
                }
            }
            Err(error) => {
                let problem = error.to_string();
                self.problem(file, problem, error.key);
            }
        }
    }

    fn insert(&mut self, file: &str, object: Object) {
        let key = object.key();
        match self.objects.get(&key) {
            None => {
                self.objects.insert(key, (object, file.to_owned()));
            }
            Some((_, first)) => {
                let problem = format!("{key} is in {first} already; that one counts");
                self.problem(file, problem, None);
            }
        }
    }

    fn problem(&mut self, file: &str, problem: String, key: Option<Key>) {
        self.problems.push(ManifestProblem {
            file: file.to_owned(),
            problem,
            key,
        });
    }
}

/// The reason why a text cannot be parsed at all; none when it can, whatever its objects are.
#[must_use]
pub fn check(text: &str) -> Option<String> {
    documents(text).err()
}

/// The objects of a text as they are written, of every kind, out of the lists that they are in.
///
/// # Errors
///
/// A text that is neither YAML nor JSON, or whose lists lie too deep in lists.
pub fn values(text: &str) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for document in documents(text)? {
        collect(document, 0, &mut found)?;
    }
    Ok(found)
}

fn collect(mut value: Value, depth: usize, found: &mut Vec<Value>) -> Result<(), String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text("kind").unwrap_or_default();
    let version = text("apiVersion").unwrap_or_default();
    let items = match kind.ends_with("List") {
        true => value.get_mut("items").map(Value::take),
        false => None,
    };
    match items {
        Some(_) if depth >= MAX_DEPTH => Err("lists lie too deep in lists".to_owned()),
        Some(Value::Array(items)) => items.into_iter().try_for_each(|mut item| {
            name_kind(&mut item, &kind, &version);
            collect(item, depth + 1, found)
        }),
        Some(_) => Ok(()),
        None => {
            found.extend((!value.is_null()).then_some(value));
            Ok(())
        }
    }
}

/// Gives an item of a typed list, such as `ServiceList`, the kind that the list has: its items do not repeat it.
fn name_kind(item: &mut Value, list: &str, version: &str) {
    let of_items = list.strip_suffix("List").unwrap_or_default();
    if !of_items.is_empty()
        && let Some(fields) = item.as_object_mut()
        && !fields.contains_key("kind")
    {
        fields.insert("kind".to_owned(), of_items.into());
        fields.insert("apiVersion".to_owned(), version.into());
    }
}

fn endpoints(value: Value) -> Result<Vec<Object>, ObjectError> {
    let key = object::key(Kind::EndpointSlice, &value);
    let name = key.as_ref().map_or_else(
        || "Endpoints without a name".to_owned(),
        |key| format!("endpoints {}/{}", key.namespace, key.name),
    );
    object::slices_of_endpoints(value).map_err(|problem| ObjectError {
        key: None,
        name,
        problem,
    })
}

fn fill_namespace(value: &mut Value) {
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else {
        return;
    };
    let namespace = metadata.get("namespace").and_then(Value::as_str);
    if namespace.is_none_or(str::is_empty) {
        metadata.insert("namespace".to_owned(), DEFAULT_NAMESPACE.into());
    }
}

/// The documents of a file. JSON is YAML too, but for a few escapes, and faster to read by itself.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{') {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Ok(documents) = documents.collect::<Result<Vec<_>, _>>() {
            return Ok(documents);
        }
    }
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES, max_depth: MAX_VALUE_DEPTH },
    };
    let read = serde_saphyr::from_multiple_with_options(text, options);
    read.map_err(|error| {
        error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}
