//! Keys as files.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use minisign::{KeyPair, PublicKey, SecretKey, SecretKeyBox};

use crate::bundle::args::KeyGenerate;
use site_bundle::signature::{self, SigningKey};

/// Makes a pair of keys, and gives its number.
///
/// # Errors
///
/// When one of the files is there already, or cannot be written.
pub(crate) fn generate(args: &KeyGenerate) -> anyhow::Result<String> {
    let pair = match &args.password_file {
        Some(file) => KeyPair::generate_encrypted_keypair(Some(password(file)?)),
        None => KeyPair::generate_unencrypted_keypair(),
    };
    let pair = pair.context("cannot make a pair of keys")?;
    let id = signature::key_id(&pair.pk);
    let secret = pair
        .sk
        .to_box(Some(&format!("outpost secret key {id}")))
        .context("cannot write the secret key")?;
    let public = pair.pk.to_box().context("cannot write the public key")?;
    create(&beside(&args.output, "key"), 0o600, &secret.into_string())?;
    create(&beside(&args.output, "pub"), 0o644, &public.into_string())?;
    Ok(id)
}

/// `name.ending`, whatever dots the name has.
fn beside(output: &Path, ending: &str) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn create(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The key to sign with.
///
/// # Errors
///
/// When it cannot be read, or its password is wrong.
pub(crate) fn secret(path: &Path, password_file: Option<&Path>) -> anyhow::Result<SigningKey> {
    let text = read(path)?;
    let what = || {
        format!(
            "{} is no secret key, or its password is another",
            path.display()
        )
    };
    if let Some(key) = SigningKey::unencrypted(&text).with_context(what)? {
        return Ok(key);
    }
    let password = password_file.map(password).transpose()?;
    let decrypted = SecretKeyBox::from_string(&text)
        .and_then(|boxed| SecretKey::from_box(boxed, password))
        .with_context(what)?;
    SigningKey::of(&decrypted).with_context(what)
}

/// The key to believe in.
///
/// # Errors
///
/// When it cannot be read.
pub(crate) fn public(path: &Path) -> anyhow::Result<PublicKey> {
    signature::public_key(&read(path)?).with_context(|| path.display().to_string())
}

fn password(path: &Path) -> anyhow::Result<String> {
    let text = read(path)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
