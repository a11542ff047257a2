use std::net::SocketAddr;

use daemon::config::Document;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// The directory of a registry.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn config(&self, more: &str) -> Config {
        let root = self.0.path().join("root");
        let text = format!(
            "version = \"v1\"\nlisten = [\"127.0.0.1:0\"]\nplain = true\nworkers = 1\nroot = \"{}\"\n{more}",
            root.display()
        );
        Config::from_document(&Document::inline("test", text)).unwrap()
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

async fn start(config: Config) -> (Registry, Context) {
    let mut context = Context::detached(Registry::NAME);
    let registry = Registry::start(config, &mut context).await;
    (registry.unwrap(), context)
}

fn address(registry: &Registry) -> SocketAddr {
    registry.server.addresses()[0]
}

/// The status of the answer.
async fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: registry.example.org\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_registry_serves_is_reloaded_and_ends() {
    let scratch = Scratch::new();
    let open = "[access]\nanonymous = \"all\"\n";
    block_on(async {
        let (registry, context) = start(scratch.config("")).await;
        let address = address(&registry);
        assert_eq!(ask(address, "GET", "/v2/").await, "200");
        // Without users and without a word in the file, clients only pull.
        assert_eq!(ask(address, "POST", "/v2/a/blobs/uploads/").await, "403");
        let digest = format!("/v2/a/manifests/sha256:{}", "0".repeat(64));
        assert_eq!(ask(address, "GET", &digest).await, "404");
        assert_eq!(ask(address, "DELETE", &digest).await, "403");
        registry.reload(scratch.config(open)).await.unwrap();
        assert_eq!(ask(address, "POST", "/v2/a/blobs/uploads/").await, "202");
        registry
            .reload(scratch.config(&format!("read-only = true\n{open}")))
            .await
            .unwrap();
        assert_eq!(ask(address, "POST", "/v2/a/blobs/uploads/").await, "405");
        assert_eq!(
            context.readiness.details(),
            ["read-only: nothing can be pushed"]
        );
        let status = registry.status();
        assert!(status.read_only);
        assert_eq!(status.requests.answered, 6);
        assert!(registry.drain(Duration::from_secs(30)).await);
        assert!(TcpStream::connect(address).await.is_err());
        // What is in the root is whole, and nobody else has it before this process has ended.
        assert!(scratch.0.path().join("root/clean").exists());
        let root = scratch.0.path().join("root");
        assert!(Lock::take(&root).is_err());
    });
}

#[test]
fn users_are_taken_up_and_what_cannot_be_changes_nothing() {
    let scratch = Scratch::new();
    let users = scratch.0.path().join("users");
    std::fs::write(&users, "").unwrap();
    let closed = format!("[access]\nhtpasswd = \"{}\"\n", users.display());
    block_on(async {
        let (registry, _context) = start(scratch.config("")).await;
        let address = address(&registry);
        assert_eq!(ask(address, "GET", "/v2/_catalog").await, "200");
        registry.reload(scratch.config(&closed)).await.unwrap();
        assert_eq!(ask(address, "GET", "/v2/_catalog").await, "401");
        std::fs::write(&users, "alice:plain\n").unwrap();
        let problems = registry.reload(scratch.config(&closed)).await.unwrap_err();
        assert!(problems.to_string().contains("users:1:7: "), "{problems}");
        assert_eq!(ask(address, "GET", "/v2/_catalog").await, "401");
        // The key for tokens was made where the configuration says nothing else.
        assert!(scratch.0.path().join("root/token.key").exists());
        assert!(registry.drain(Duration::from_secs(30)).await);
    });
}

#[test]
fn a_root_is_served_by_one_process() {
    let scratch = Scratch::new();
    block_on(async {
        let (registry, _context) = start(scratch.config("")).await;
        let mut context = Context::detached(Registry::NAME);
        let refused = Registry::start(scratch.config(""), &mut context).await;
        let text = exit::chain(&refused.unwrap_err());
        assert!(text.contains("is in use by process"), "{text}");
        assert!(registry.drain(Duration::from_secs(30)).await);
    });
}

#[test]
fn what_the_configuration_names_and_is_not_there_is_refused() {
    let scratch = Scratch::new();
    let text = "[access]\nhtpasswd = \"/nonexistent/users\"\n";
    block_on(async {
        let mut context = Context::detached(Registry::NAME);
        let refused = Registry::start(scratch.config(text), &mut context).await;
        let error = refused.unwrap_err();
        assert_eq!(error.code, exit::CONFIG);
        assert!(exit::chain(&error).contains("cannot read users from /nonexistent/users"));
    });
}
