//! The secrets of DNS cookies: those of a file, or one of this process.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use config::Problem;
use dns_cookie::{Cookies, Secrets};
use rustix::rand::{GetRandomFlags, getrandom};

/// The longest file of secrets: a few lines.
const LONGEST: u64 = 4096;

/// The clock of cookies: seconds since 1970, modulo 2³².
#[must_use]
pub fn clock() -> u32 {
    let seconds = daemon::clock::since_1970().as_secs();
    // The remainder fits.
    u32::try_from(seconds & u64::from(u32::MAX)).unwrap_or_default()
}

/// The cookies of a configuration, none if it turns them off. A relative file is one of the directory `home`.
///
/// # Errors
/// When the file of secrets cannot be read, or holds none.
pub fn load(
    options: &config::Cookies,
    home: Option<&Path>,
) -> Result<Option<Arc<Cookies>>, Problem> {
    if !options.answer_cookie {
        return Ok(None);
    }
    let secrets = match &options.cookie_secret_file {
        Some(file) => {
            let path = home.map_or_else(|| file.clone(), |home| home.join(file));
            let wrong = |error: &dyn std::fmt::Display| {
                Problem::new(format!("cookie-secret-file {}: {error}", path.display()))
            };
            let text = read(&path).map_err(|error| wrong(&error))?;
            text.parse().map_err(|error| wrong(&error))?
        }
        None => own(),
    };
    Ok(Some(Arc::new(Cookies {
        secrets,
        is_required: options.require_server_cookie,
    })))
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?
        .take(LONGEST)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// This process's secret. A reload keeps it.
fn own() -> Secrets {
    static OWN: OnceLock<Secrets> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut secret = [0; 16];
        if getrandom(&mut secret, GetRandomFlags::empty()) != Ok(secret.len()) {
            // Never happens with a supported kernel; this is the standard library's own fallback.
            let bits = || RandomState::new().build_hasher().finish();
            secret = (u128::from(bits()) << 64 | u128::from(bits())).to_le_bytes();
        }
        Secrets::alone(secret)
    })
    .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_secret_and_a_file_has_the_sites() {
        let mut options = config::Cookies::default();
        let own = load(&options, None).unwrap().unwrap();
        assert_eq!(load(&options, None).unwrap().unwrap().secrets, own.secrets);
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path();
        options.cookie_secret_file = Some("cookie.secret".into());
        let missing = load(&options, Some(home)).unwrap_err().to_string();
        assert!(missing.contains("cookie.secret: No such file"), "{missing}");
        fs::write(home.join("cookie.secret"), "0123").unwrap();
        let bad = load(&options, Some(home)).unwrap_err().to_string();
        assert!(
            bad.ends_with("line 1 is not 32 hexadecimal digits"),
            "{bad}"
        );
        let secret = "e5e973e5a6b2a43f48e7dc849e37bfcf";
        fs::write(home.join("cookie.secret"), secret).unwrap();
        let read = load(&options, Some(home)).unwrap().unwrap();
        assert_eq!(read.secrets, secret.parse().unwrap());
        options.answer_cookie = false;
        assert_eq!(load(&options, None).unwrap(), None);
    }
}
