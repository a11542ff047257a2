//! Files of keys, as `chrony.keys(5)` has them: `ID [TYPE] [ASCII:|HEX:]KEY` on each line.
//!
//! A line that is no key is left out and told of, as chronyd does: the others are good all the same, and a server does not
//! stay down for one of them. No message holds a secret.

use std::path::Path;
use std::sync::Arc;

use config_text::{Position, Problem};

use crate::keys::{Algorithm, Key, KeyRing};

/// The keys of a file, and what is wrong with its other lines.
#[must_use]
pub fn parse(octets: &[u8], path: &Path) -> (KeyRing, Vec<Problem>) {
    let path: Arc<Path> = path.into();
    let mut ring = KeyRing::new();
    let mut problems = Vec::new();
    let text = String::from_utf8_lossy(octets);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        // The first letter of a comment in every file of chrony.
        if line.is_empty() || line.starts_with(['#', '%', ';', '!']) {
            continue;
        }
        let problem = |message: String| {
            let position = Position {
                file: Arc::clone(&path),
                line: number,
                column: 1,
            };
            Problem::at(position, message)
        };
        match key(line) {
            Ok((id, key)) => match ring.insert(id, key) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    problems.push(problem(format!("key {id} comes twice; this one counts")));
                }
                Err(error) => problems.push(problem(error.to_string())),
            },
            Err(message) => problems.push(problem(message)),
        }
    }
    (ring, problems)
}

fn key(line: &str) -> Result<(u32, Key), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (id, algorithm, secret) = match words.as_slice() {
        [id, secret] => (*id, "MD5", *secret),
        [id, algorithm, secret] => (*id, *algorithm, *secret),
        _ => return Err("a key is its ID, its type and its octets".to_owned()),
    };
    let id = id
        .parse()
        .map_err(|_| "the ID of a key is a number".to_owned())?;
    let names = || Algorithm::ALL.map(Algorithm::name).join(", ");
    let algorithm = Algorithm::from_name(algorithm)
        .ok_or_else(|| format!("the type of a key is one of {}", names()))?;
    let secret = octets(secret)?;
    let key = Key::new(algorithm, &secret).map_err(|error| error.to_string())?;
    Ok((id, key))
}

fn octets(text: &str) -> Result<Vec<u8>, String> {
    let Some(digits) = text.strip_prefix("HEX:") else {
        return Ok(text
            .strip_prefix("ASCII:")
            .unwrap_or(text)
            .as_bytes()
            .to_vec());
    };
    let wrong = || "after HEX: come pairs of hexadecimal digits".to_owned();
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let octet = |[high, low]: &[u8; 2]| -> Option<u8> {
        let digit = |letter: u8| char::from(letter).to_digit(16);
        u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
    };
    pairs
        .iter()
        .map(|pair| octet(pair).ok_or_else(wrong))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (KeyRing, Vec<String>) {
        let (ring, problems) = parse(text.as_bytes(), Path::new("chrony.keys"));
        (ring, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_form_of_a_key_is_read() {
        let (ring, problems) = parsed(
            "# comment\n! and this\n\n1 secret\n 2 SHA1 ASCII:secret\n25 sha256 HEX:1DC764E0791B11FA67EFC7ECBC4B0D73\n\
             30 AES128 HEX:00112233445566778899aabbccddeeff\n",
        );
        assert_eq!(problems, [""; 0]);
        let algorithms: Vec<_> = ring.iter().map(|(id, key)| (id, key.algorithm())).collect();
        assert_eq!(
            algorithms,
            [
                (1, Algorithm::Md5),
                (2, Algorithm::Sha1),
                (25, Algorithm::Sha256),
                (30, Algorithm::Aes128)
            ]
        );
        // The same octets in another form sign alike.
        let (other, _) = parsed("2 SHA1 HEX:736563726574\n");
        let signed = |ring: &KeyRing| {
            let mut digest = [0; 64];
            let length = ring.sign(2, 4, b"message", &mut digest);
            (length, digest)
        };
        assert_eq!(signed(&ring), signed(&other));
        assert!(signed(&ring).0.is_some());
    }

    #[test]
    fn a_line_that_is_no_key_is_told_of_without_its_secret() {
        for (line, said) in [
            ("1", "a key is its ID"),
            ("1 MD5 SECRET x", "a key is its ID"),
            ("x SECRET", "the ID of a key is a number"),
            ("4294967296 SECRET", "the ID of a key is a number"),
            ("0 SECRET", "0 is no key ID"),
            ("1 ROT13 SECRET", "the type of a key is one of MD5, SHA1, "),
            (
                "1 AES128 SECRET",
                "the key has 6 octets where 16 are wanted",
            ),
            ("1 SHA1 HEX:5SECRET", "pairs of hexadecimal digits"),
            ("1 SHA1 HEX:SECRET00", "pairs of hexadecimal digits"),
            ("1 SHA1 HEX:", "the key is empty"),
        ] {
            let (ring, problems) = parsed(&format!("\n{line}\n7 good\n"));
            assert_eq!(problems.len(), 1, "{line}: {problems:?}");
            assert!(problems[0].starts_with("chrony.keys:2:1: "), "{problems:?}");
            assert!(problems[0].contains(said), "{problems:?}");
            assert!(!problems[0].contains("SECRET"), "{problems:?}");
            assert_eq!(ring.len(), 1, "the other one is good");
        }
        let (_, problems) = parsed("1 a\n1 b\n");
        assert_eq!(
            problems,
            ["chrony.keys:2:1: key 1 comes twice; this one counts"]
        );
    }
}
