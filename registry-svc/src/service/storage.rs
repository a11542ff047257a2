//! Checks of `[s3]` that need no connection.

use crate::config::Config;

/// The problem, if there is one.
pub(crate) fn check(config: &Config) -> Option<String> {
    let s3 = config.file.s3.as_ref()?;
    if !cfg!(feature = "s3") {
        return Some("[s3]: this registry-svc is built without object stores".to_owned());
    }
    let files = [&s3.access_key_file, &s3.secret_key_file];
    files.into_iter().chain(&s3.ca).find_map(|path| {
        let error = daemon::disk::read(path).err()?;
        Some(format!("cannot read {}: {error}", path.display()))
    })
}
