//! A headless Chromium, driven by the DevTools protocol over a pipe: opens a page and says what it shows.
//!
//! The browser reaches loopback addresses alone: every other name is one that does not exist.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::scratch::Scratch;

/// Longer than anything takes here, even on a busy machine. No test waits for it to pass.
const LIMIT: Duration = Duration::from_secs(60);

/// A running browser. Dropped, it is killed.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    messages: BufReader<UnixStream>,
    number: u64,
    _profile: Scratch,
}

/// A page in a browser.
#[derive(Debug)]
pub struct Tab<'b> {
    browser: &'b mut Browser,
    session: String,
    /// Errors of the page and its console so far.
    pub errors: Vec<String>,
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// Whether the reader prefers dark colours.
    pub dark: bool,
}

impl Browser {
    /// Starts the Chromium of the Debian package `chromium`.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be started.
    #[must_use]
    pub fn start() -> Self {
        let profile = Scratch::new("browser");
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_read_timeout(Some(LIMIT)).expect("a positive time");
        let input = theirs.try_clone().expect("a descriptor");
        // The protocol is on the descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
            "sh",
        ]);
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-pings",
            "--no-proxy-server",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.*",
            // The authority of a test is in no store of the browser.
            "--ignore-certificate-errors",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(std::os::fd::OwnedFd::from(input));
        command.stdout(std::os::fd::OwnedFd::from(theirs));
        command.stderr(Stdio::null());
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("chromium (Debian package chromium): {error}"));
        Self {
            child,
            messages: BufReader::new(ours),
            number: 0,
            _profile: profile,
        }
    }

    /// Opens an empty page.
    ///
    /// # Panics
    ///
    /// Panics if the browser does not.
    pub fn tab(&mut self, look: Look) -> Tab<'_> {
        let mut errors = Vec::new();
        let url = json!({"url": "about:blank"});
        let made = self.call(None, "Target.createTarget", url, &mut errors);
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", attach, &mut errors);
        let session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        let mut tab = Tab {
            browser: self,
            session,
            errors,
        };
        for domain in ["Page", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        let metrics = json!({
            "width": look.width,
            "height": look.height,
            "deviceScaleFactor": 1,
            "mobile": look.width < 600,
        });
        tab.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        tab.call("Emulation.setEmulatedMedia", media);
        tab
    }

    fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
        errors: &mut Vec<String>,
    ) -> Value {
        self.number += 1;
        let mut request = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        let mut octets = request.to_string().into_bytes();
        octets.push(0);
        self.messages
            .get_mut()
            .write_all(&octets)
            .unwrap_or_else(|error| panic!("chromium (Debian package chromium) is gone: {error}"));
        loop {
            let message = self.message(method);
            if message["id"] == self.number {
                let failed = &message["error"];
                assert!(failed.is_null(), "{method}: {failed}");
                return message["result"].clone();
            }
            errors.extend(complaint(&message));
        }
    }

    fn message(&mut self, awaited: &str) -> Value {
        let mut octets = Vec::new();
        let read = self.messages.read_until(0, &mut octets);
        match read {
            Ok(n) if n > 0 => {
                octets.pop();
                serde_json::from_slice(&octets).expect("a message of the protocol")
            }
            Ok(_) => panic!("{awaited}: chromium (Debian package chromium) does not run"),
            Err(error) => panic!("{awaited}: {error}"),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// The error that a message of the browser is about.
fn complaint(message: &Value) -> Option<String> {
    let params = &message["params"];
    match message["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            Some(params["entry"].to_string())
        }
        _ => None,
    }
}

impl Tab<'_> {
    fn call(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        self.browser
            .call(Some(&session), method, params, &mut self.errors)
    }

    /// Goes to an address.
    pub fn open(&mut self, url: &str) {
        let done = self.call("Page.navigate", json!({"url": url}));
        assert!(done["errorText"].is_null(), "{url}: {done}");
    }

    /// The value of an expression of the page; it may be a promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let done = self.call("Runtime.evaluate", params);
        let failed = &done["exceptionDetails"];
        assert!(failed.is_null(), "{expression}: {failed}");
        done["result"]["value"].clone()
    }

    /// Waits until an expression of the page is true.
    pub fn wait(&mut self, condition: &str) {
        let limit = LIMIT.as_millis() / 2;
        let expression = format!(
            "new Promise(resolve => {{ const end = Date.now() + {limit}; const look = () => {{
               let seen = false; try {{ seen = {condition}; }} catch (none) {{}}
               if (seen || Date.now() > end) resolve(Boolean(seen)); else setTimeout(look, 20); }}; look(); }})"
        );
        let seen = self.value(&expression);
        let text = if seen == true {
            Value::Null
        } else {
            self.value("document.body.innerText")
        };
        assert!(
            seen == true,
            "never true: {condition}\n{text}\n{:?}",
            self.errors
        );
    }

    /// A picture of the page from its top, as wide and high as given; PNG in Base64.
    pub fn picture(&mut self, width: u32, height: u32) -> String {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let done = self.call("Page.captureScreenshot", params);
        done["data"].as_str().expect("a picture").to_owned()
    }

    /// Closes the page. Returns the errors that it and its console had.
    pub fn close(mut self) -> Vec<String> {
        self.call("Page.close", json!({}));
        self.errors
    }
}
