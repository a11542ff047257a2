//! A double of the Kubernetes API server: lists with pages, watches with bookmarks, and everything that goes wrong there. It takes
//! statuses of Services, Events and Leases too, and says 409 as the real one does.
//!
//! One version counter for all kinds, as with etcd. It compacts, restarts, forgets its history, keeps silent, refuses tokens, and
//! is set back to an older state, when a test says so.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use daemon::clock::now;
use serde_json::{Value, json};

/// How often a watch looks at the clock.
const TICK: Duration = Duration::from_millis(50);

/// A server; clones are the same one. Further ones over the same store are made with [`Double::beside`].
#[derive(Clone)]
pub(crate) struct Double {
    server: Arc<Server>,
}

struct Server {
    address: SocketAddr,
    store: Arc<(Mutex<Store>, Condvar)>,
    behaviour: Mutex<Behaviour>,
    requests: Mutex<Vec<String>>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

/// How a server behaves; a test changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// Connections are closed at once.
    pub(crate) is_down: bool,
    /// Watches send nothing and do not end.
    pub(crate) is_silent: bool,
    /// The bearer token that is needed.
    pub(crate) token: Option<String>,
    /// The minor version; from 34 on, lists come as first events too.
    pub(crate) minor: u32,
    /// Each status is changed by another client between reading and writing, this many times.
    pub(crate) conflicts: usize,
    /// Slices are in the older version of their API alone.
    pub(crate) has_old_slices: bool,
    /// Rises with each restart: watches of an earlier one end.
    epoch: u64,
    /// The oldest version that a watch may begin at.
    history: u64,
}

#[derive(Clone, Default)]
struct Store {
    version: u64,
    objects: BTreeMap<(String, String), Value>,
    /// Version, resource, type of the event, object.
    log: Vec<(u64, String, &'static str, Value)>,
    compacted: u64,
}

/// The words of the real one for a version that is not the newest.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version";

impl Double {
    pub(crate) fn start() -> Self {
        let store = Store {
            version: 1000,
            ..Store::default()
        };
        Self::over(Arc::new((Mutex::new(store), Condvar::new())), None)
    }

    pub(crate) fn start_with_tls(config: rustls::ServerConfig) -> Self {
        let store = Store {
            version: 1000,
            ..Store::default()
        };
        let store = Arc::new((Mutex::new(store), Condvar::new()));
        Self::over(store, Some(Arc::new(config)))
    }

    /// Another server over the same store.
    pub(crate) fn beside(&self) -> Self {
        Self::over(Arc::clone(&self.server.store), None)
    }

    fn over(store: Arc<(Mutex<Store>, Condvar)>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = Arc::new(Server {
            address: listener.local_addr().expect("an address"),
            store,
            behaviour: Mutex::new(Behaviour {
                minor: 30,
                ..Behaviour::default()
            }),
            requests: Mutex::default(),
            tls,
        });
        let accepting = Arc::clone(&server);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&accepting);
                thread::spawn(move || server.connection(stream));
            }
        });
        Self { server }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.server.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.server.address)
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut lock(&self.server.behaviour));
        self.server.store.1.notify_all();
    }

    /// The requests so far, as paths with their queries.
    pub(crate) fn requests(&self) -> Vec<String> {
        lock(&self.server.requests).clone()
    }

    /// Closes every watch; the history begins now.
    pub(crate) fn restart(&self) {
        let version = lock(&self.server.store.0).version;
        self.set(|behaviour| {
            behaviour.epoch += 1;
            behaviour.history = version;
        });
    }

    /// Makes all versions up to now too old.
    pub(crate) fn compact(&self) {
        let mut store = lock(&self.server.store.0);
        store.compacted = store.version;
    }

    /// The store, to set it back to later.
    pub(crate) fn backup(&self) -> impl FnOnce(&Self) + use<> {
        let saved = lock(&self.server.store.0).clone();
        move |double| {
            *lock(&double.server.store.0) = saved;
            double.restart();
        }
    }

    /// An object as it is.
    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let store = lock(&self.server.store.0);
        let key = (resource.to_owned(), name.to_owned());
        store.objects.get(&key).cloned()
    }

    /// Every object of a resource.
    pub(crate) fn all(&self, resource: &str) -> Vec<Value> {
        let store = lock(&self.server.store.0);
        of_resource(&store, resource).cloned().collect()
    }

    /// Makes or changes an object.
    pub(crate) fn put(&self, resource: &str, object: Value) {
        self.server.put(resource, object);
    }

    pub(crate) fn delete(&self, resource: &str, name: &str) {
        let mut store = lock(&self.server.store.0);
        store.version += 1;
        let version = store.version;
        let key = (resource.to_owned(), name.to_owned());
        let mut object = store.objects.remove(&key).expect("an object");
        set_version(&mut object, version);
        store
            .log
            .push((version, resource.to_owned(), "DELETED", object));
        self.server.store.1.notify_all();
    }
}

impl Server {
    fn put(&self, resource: &str, mut object: Value) -> Value {
        let mut store = lock(&self.store.0);
        store.version += 2;
        let version = store.version;
        set_version(&mut object, version);
        let key = (resource.to_owned(), key_of(&object));
        let before = store.objects.insert(key, object.clone());
        let event = if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        store
            .log
            .push((version, resource.to_owned(), event, object.clone()));
        self.store.1.notify_all();
        object
    }
}

fn set_version(object: &mut Value, version: u64) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.expect("an object has metadata");
    metadata.insert("resourceVersion".to_owned(), version.to_string().into());
}

fn key_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    match text("namespace").as_str() {
        "" => text("name"),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request: resource and query.
struct Request {
    method: String,
    body: Vec<u8>,
    target: String,
    path: String,
    query: BTreeMap<String, String>,
    token: Option<String>,
}

impl Server {
    fn connection(&self, stream: TcpStream) {
        if lock(&self.behaviour).is_down {
            return;
        }
        match &self.tls {
            None => drop(self.answer(stream)),
            Some(config) => {
                let session = rustls::ServerConnection::new(Arc::clone(config));
                let session = session.expect("a session");
                drop(self.answer(rustls::StreamOwned::new(session, stream)));
            }
        }
    }

    fn answer(&self, mut stream: impl Read + Write) -> std::io::Result<()> {
        let request = read_request(&mut stream)?;
        let told = match request.method.as_str() {
            "GET" => request.target.clone(),
            method => format!("{method} {}", request.target),
        };
        lock(&self.requests).push(told);
        let behaviour = lock(&self.behaviour).clone();
        if behaviour.token.is_some() && behaviour.token != request.token {
            let text = status(401, "Unauthorized", "Unauthorized");
            return respond(&mut stream, 401, &text);
        }
        if request.path == "/version" {
            let text = json!({"major": "1", "minor": behaviour.minor.to_string()});
            return respond(&mut stream, 200, &text);
        }
        if request.method != "GET" || request.path.contains("/leases/") {
            let (code, body) = self.write(&request);
            return respond(&mut stream, code, &body);
        }
        let is_old = request.path.contains("/v1beta1/");
        let is_slices = request.path.starts_with("/apis/discovery.k8s.io/");
        if is_slices && is_old != behaviour.has_old_slices {
            let text = status(
                404,
                "NotFound",
                "the server could not find the requested resource",
            );
            return respond(&mut stream, 404, &text);
        }
        match request.query.contains_key("watch") {
            true => self.watch(&mut stream, &request, &behaviour),
            false => self.list(&mut stream, &request),
        }
    }

    /// A write, or a Lease that is read: the code and the body of the answer.
    fn write(&self, request: &Request) -> (u16, Value) {
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let missing = || (404, status(404, "NotFound", "not found"));
        let conflict = || (409, status(409, "Conflict", MODIFIED));
        let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
        let (namespace, resource, name) = match parts.as_slice() {
            ["api", "v1", "namespaces", namespace, resource] => (namespace, resource, None),
            ["apis", _, "v1", "namespaces", namespace, resource] => (namespace, resource, None),
            [
                "api",
                "v1",
                "namespaces",
                namespace,
                resource,
                name,
                "status",
            ] => (namespace, resource, Some(name)),
            ["apis", _, "v1", "namespaces", namespace, resource, name] => {
                (namespace, resource, Some(name))
            }
            _ => return missing(),
        };
        let key = name.map(|name| (String::from(*resource), format!("{namespace}/{name}")));
        let known = key.and_then(|key| lock(&self.store.0).objects.get(&key).cloned());
        match (request.method.as_str(), *resource) {
            ("POST", "events" | "leases") => {
                let is_there = {
                    let key = (String::from(*resource), key_of(&body));
                    lock(&self.store.0).objects.contains_key(&key)
                };
                match is_there {
                    true => (409, status(409, "AlreadyExists", "it exists")),
                    false => (201, self.put(resource, body)),
                }
            }
            ("GET", "leases") => known.map_or_else(missing, |known| (200, known)),
            ("PUT", "leases") => match known {
                None => missing(),
                Some(known) if version(&known) != version(&body) => conflict(),
                Some(_) => (200, self.put(resource, body)),
            },
            ("PATCH", "services") => {
                let mut behaviour = lock(&self.behaviour);
                let Some(mut known) = known else {
                    return missing();
                };
                if behaviour.conflicts > 0 {
                    behaviour.conflicts -= 1;
                    drop(behaviour);
                    self.put(resource, known);
                    return conflict();
                }
                drop(behaviour);
                if version(&known) != version(&body) {
                    return conflict();
                }
                if let Some(known) = known.as_object_mut() {
                    let status = body.get("status").cloned();
                    known.insert("status".to_owned(), status.unwrap_or_default());
                }
                (200, self.put(resource, known))
            }
            _ => (
                405,
                status(405, "MethodNotAllowed", "the double has no such request"),
            ),
        }
    }

    fn list(&self, stream: &mut impl Write, request: &Request) -> std::io::Result<()> {
        let store = lock(&self.store.0).clone();
        let resource = resource(&request.path);
        let number = |name: &str| request.query.get(name).and_then(|it| it.parse().ok());
        let limit = number("limit").unwrap_or(usize::MAX);
        // A token is the version and the number of items before.
        let (version, skip) = match request.query.get("continue") {
            None => (store.version, 0),
            Some(token) => {
                let (version, skip) = token.split_once('/').unwrap_or_default();
                (
                    version.parse().unwrap_or_default(),
                    skip.parse().unwrap_or_default(),
                )
            }
        };
        if version < store.compacted {
            let text = status(410, "Expired", "The provided continue parameter is too old");
            return respond(stream, 410, &text);
        }
        let selector = request.query.get("fieldSelector");
        let name = selector.and_then(|it| it.strip_prefix("metadata.name="));
        let namespace = namespace(&request.path);
        let is_asked = |object: &&Value| {
            let metadata = &object["metadata"];
            name.is_none_or(|name| metadata["name"] == name)
                && namespace.is_none_or(|namespace| metadata["namespace"] == namespace)
        };
        let all: Vec<&Value> = of_resource(&store, resource).filter(is_asked).collect();
        let items: Vec<&Value> = all.iter().skip(skip).take(limit).copied().collect();
        let end = skip + items.len();
        let next = (end < all.len()).then(|| format!("{version}/{end}"));
        let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
        respond(
            stream,
            200,
            &json!({"kind": "List", "metadata": metadata, "items": items}),
        )
    }

    fn watch(
        &self,
        stream: &mut impl Write,
        request: &Request,
        begun: &Behaviour,
    ) -> std::io::Result<()> {
        let resource = resource(&request.path);
        let number = |name: &str| {
            request
                .query
                .get(name)
                .and_then(|it| it.parse::<u64>().ok())
        };
        let ends = now() + Duration::from_secs(number("timeoutSeconds").unwrap_or(30));
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )?;
        stream.flush()?;
        let mut position = match number("resourceVersion") {
            Some(version) => version,
            None => self.first_events(stream, resource)?,
        };
        let compacted = lock(&self.store.0).compacted;
        if position < begun.history.max(compacted) {
            let text = status(
                410,
                "Expired",
                &format!("too old resource version: {position}"),
            );
            chunk(stream, &json!({"type": "ERROR", "object": text}))?;
            return end(stream);
        }
        let mut has_bookmark = false;
        loop {
            let store = lock(&self.store.0);
            let (store, _) = self
                .store
                .1
                .wait_timeout(store, TICK)
                .unwrap_or_else(PoisonError::into_inner);
            let log = store.log.iter();
            let news = log.filter(|(at, of, ..)| *at > position && of == resource);
            let news: Vec<_> = news.cloned().collect();
            let newest = store.version;
            drop(store);
            // After the wait: what a test has set before a change holds for the change.
            let behaviour = lock(&self.behaviour).clone();
            let is_over = behaviour.epoch != begun.epoch || behaviour.is_down;
            if is_over {
                return end(stream);
            }
            if behaviour.is_silent {
                continue;
            }
            for (version, _, event, object) in news {
                chunk(stream, &json!({"type": event, "object": object}))?;
                position = version;
            }
            let is_near = now() + Duration::from_secs(2) >= ends;
            if is_near && !has_bookmark && newest > position {
                has_bookmark = true;
                chunk(stream, &bookmark(newest, &json!({})))?;
            }
            if now() >= ends {
                return end(stream);
            }
        }
    }

    fn first_events(&self, stream: &mut impl Write, resource: &str) -> std::io::Result<u64> {
        let store = lock(&self.store.0).clone();
        for object in of_resource(&store, resource) {
            chunk(stream, &json!({"type": "ADDED", "object": object}))?;
        }
        let mark = json!({"k8s.io/initial-events-end": "true"});
        chunk(stream, &bookmark(store.version, &mark))?;
        Ok(store.version)
    }
}

fn of_resource<'a>(store: &'a Store, resource: &str) -> impl Iterator<Item = &'a Value> {
    let resource = resource.to_owned();
    let objects = store.objects.iter();
    objects
        .filter(move |((of, _), _)| *of == resource)
        .map(|(_, object)| object)
}

/// The namespace of a path that has one.
fn namespace(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/namespaces/")?;
    rest.split_once('/').map(|(namespace, _)| namespace)
}

fn resource(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn bookmark(version: u64, annotations: &Value) -> Value {
    let metadata = json!({
        "resourceVersion": version.to_string(), "creationTimestamp": null, "annotations": annotations});
    json!({"type": "BOOKMARK", "object": {"kind": "Service", "apiVersion": "v1", "metadata": metadata}})
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code})
}

//--- HTTP

fn read_request(stream: &mut impl Read) -> std::io::Result<Request> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut token = None;
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let lower = header.to_ascii_lowercase();
        if lower.starts_with("authorization: bearer ") {
            token = header.trim().rsplit(' ').next().map(str::to_owned);
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| {
        (
            name.to_owned(),
            value.replace("%2F", "/").replace("%3D", "="),
        )
    });
    Ok(Request {
        method,
        body,
        target: target.clone(),
        path: path.to_owned(),
        query: query.collect(),
        token,
    })
}

fn respond(stream: &mut impl Write, code: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

fn chunk(stream: &mut impl Write, line: &Value) -> std::io::Result<()> {
    let line = format!("{line}\n");
    write!(stream, "{:x}\r\n{line}\r\n", line.len())?;
    stream.flush()
}

fn end(stream: &mut impl Write) -> std::io::Result<()> {
    write!(stream, "0\r\n\r\n")?;
    stream.flush()
}
