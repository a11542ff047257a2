//! A kubeconfig: the part of it that names a server and credentials without running anything.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// The depth of values.
const MAX_DEPTH: usize = 16;
/// Values in all: a kubeconfig of an administrator has some contexts.
const MAX_NODES: usize = 20_000;

/// The current context of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The URL of the API server.
    pub server: String,
    /// The name that the server's certificate is verified for, where it is not the host of the URL.
    pub server_name: Option<String>,
    /// The authorities of the server.
    pub authorities: Option<Pem>,
    /// The bearer token.
    pub token: Option<Token>,
    /// The certificate of the client.
    pub certificate: Option<Pem>,
    /// Its key.
    pub key: Option<Pem>,
}

/// PEM in the kubeconfig or in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    /// In the kubeconfig.
    Inline(Vec<u8>),
    /// In this file.
    File(PathBuf),
}

/// A token in the kubeconfig or in a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// In the kubeconfig.
    Inline(String),
    /// In this file.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct File {
    current_context: String,
    clusters: Vec<Named>,
    contexts: Vec<Named>,
    users: Vec<Named>,
}

/// An entry of one of the three lists.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    cluster: Cluster,
    context: Context,
    user: User,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    tls_server_name: Option<String>,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    proxy_url: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    exec: Option<Value>,
    auth_provider: Option<Value>,
    username: Option<String>,
    password: Option<String>,
}

impl Kubeconfig {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let pems = [&self.authorities, &self.certificate, &self.key];
        let pems = pems.into_iter().flatten().filter_map(|pem| match pem {
            Pem::File(path) => Some(path.as_path()),
            Pem::Inline(_) => None,
        });
        let token = self.token.iter().filter_map(|token| match token {
            Token::File(path) => Some(path.as_path()),
            Token::Inline(_) => None,
        });
        pems.chain(token)
    }
}

/// Reads the current context; paths are relative to the directory of the file.
///
/// # Errors
/// The first thing that cannot be used.
pub fn read(text: &str, directory: &Path) -> Result<Kubeconfig, String> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES, max_depth: MAX_DEPTH },
    };
    let file: File =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    let context = find(&file.contexts, &file.current_context, "context")?
        .context
        .clone();
    let cluster = find(&file.clusters, &context.cluster, "cluster")?
        .cluster
        .clone();
    let user = match context.user.is_empty() {
        true => User::default(),
        false => find(&file.users, &context.user, "user")?.user.clone(),
    };
    if let Some(word) = unusable(&cluster, &user) {
        return Err(format!(
            "`{word}` cannot be used here: no command is run, and every server is verified"
        ));
    }
    let pem = |data: Option<String>, path: Option<PathBuf>| -> Result<Option<Pem>, String> {
        match (data, path) {
            (Some(data), _) => match STANDARD.decode(data.trim()) {
                Ok(octets) => Ok(Some(Pem::Inline(octets))),
                Err(error) => Err(format!("data is not in base64: {error}")),
            },
            (None, Some(path)) => Ok(Some(Pem::File(directory.join(path)))),
            (None, None) => Ok(None),
        }
    };
    let token_file = user
        .token_file
        .map(|path| Token::File(directory.join(path)));
    Ok(Kubeconfig {
        server: cluster.server,
        server_name: cluster.tls_server_name,
        authorities: pem(
            cluster.certificate_authority_data,
            cluster.certificate_authority,
        )?,
        // As kubectl has it: the file wins over the text.
        token: token_file.or_else(|| user.token.map(Token::Inline)),
        certificate: pem(user.client_certificate_data, user.client_certificate)?,
        key: pem(user.client_key_data, user.client_key)?,
    })
}

fn find<'a>(entries: &'a [Named], name: &str, what: &str) -> Result<&'a Named, String> {
    let found = entries.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| format!("there is no {what} {name:?}"))
}

/// The first setting that clusterd refuses.
fn unusable(cluster: &Cluster, user: &User) -> Option<&'static str> {
    [
        ("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify),
        ("proxy-url", cluster.proxy_url.is_some()),
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("username", user.username.is_some()),
        ("password", user.password.is_some()),
    ]
    .into_iter()
    .find_map(|(word, is_set)| is_set.then_some(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
apiVersion: v1
kind: Config
current-context: edge
clusters:
- name: edge
  cluster:
    server: https://api.ocp4.redhat.ren:6443
    certificate-authority: ca.crt
    tls-server-name: kubernetes
contexts:
- name: edge
  context: {cluster: edge, user: clusterd}
users:
- name: clusterd
  user:
    tokenFile: /run/token
    client-certificate-data: YQ==
";

    #[test]
    fn the_current_context_is_read() {
        let read = read(TEXT, Path::new("/etc/outpost")).unwrap();
        assert_eq!(read.server, "https://api.ocp4.redhat.ren:6443");
        assert_eq!(read.server_name.as_deref(), Some("kubernetes"));
        assert_eq!(
            read.authorities,
            Some(Pem::File("/etc/outpost/ca.crt".into()))
        );
        assert_eq!(read.token, Some(Token::File("/run/token".into())));
        assert_eq!(read.certificate, Some(Pem::Inline(b"a".to_vec())));
        let files: Vec<&Path> = read.files().collect();
        assert_eq!(
            files,
            [Path::new("/etc/outpost/ca.crt"), Path::new("/run/token")]
        );
    }

    #[test]
    fn a_kubeconfig_that_runs_or_trusts_anything_is_refused() {
        for (old, new, problem) in [
            ("tokenFile: /run/token", "exec: {command: sh}", "`exec`"),
            (
                "tokenFile: /run/token",
                "auth-provider: {name: x}",
                "`auth-provider`",
            ),
            ("tokenFile: /run/token", "username: x", "`username`"),
            (
                "tls-server-name: kubernetes",
                "insecure-skip-tls-verify: true",
                "`insecure-skip-tls-verify`",
            ),
            (
                "tls-server-name: kubernetes",
                "proxy-url: http://x",
                "`proxy-url`",
            ),
            (
                "current-context: edge",
                "current-context: no",
                "no context \"no\"",
            ),
            ("user: clusterd}", "user: no}", "no user \"no\""),
            ("YQ==", "\"%\"", "base64"),
            ("clusters:", "clusters: [", ""),
        ] {
            let error = read(&TEXT.replace(old, new), Path::new("/")).unwrap_err();
            assert!(error.contains(problem), "{new}: {error}");
        }
    }
}
