//! Names as a site file may have them: host names (RFC 1123 §2.1) in lower case, as Kubernetes wants
//! them, and owners of records, which may be more.

/// Why a text is no name; the words follow the quoted text.
pub type Wrong = &'static str;

/// A label of a host name (RFC 1035 §2.3.4: at most 63 octets).
pub fn label(text: &str) -> Result<(), Wrong> {
    let inner = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
    if text.is_empty() {
        Err("is an empty name, or has an empty part; put one dot between two parts")
    } else if text.len() > 63 {
        Err("has a part of more than 63 letters; shorten it")
    } else if text.bytes().any(|octet| octet.is_ascii_uppercase()) {
        Err("has capital letters, which host names of a cluster must not have; write small ones")
    } else if !text.bytes().all(inner) {
        Err("is no host name: it has more than letters, digits, - and dots; take the others out")
    } else if text.starts_with('-') || text.ends_with('-') {
        Err("is no host name: a part begins or ends with -; take it out")
    } else {
        Ok(())
    }
}

/// A whole host name, without a dot at its end (at most 253 letters).
pub fn host(text: &str) -> Result<(), Wrong> {
    if text.len() > 253 {
        return Err("has more than 253 letters; shorten it");
    }
    text.split('.').try_for_each(label)
}

/// A name below the domain: a host name, one behind `*.`, `*`, or `@` for the domain itself.
pub fn owner(text: &str) -> Result<(), Wrong> {
    match text.strip_prefix("*.") {
        Some(rest) => host(rest),
        None if text == "@" || text == "*" => Ok(()),
        None => host(text),
    }
}

/// The owner of any record: labels may have underscores and capitals (RFC 2181 §11), but nothing
/// that means something else in a master file.
pub fn record_owner(text: &str) -> Result<(), Wrong> {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.*".contains(&octet);
    if text == "@" {
        Ok(())
    } else if text.is_empty() || text.split('.').any(str::is_empty) {
        Err(
            "is an empty name, has an empty part, or ends with a dot; write the part below the domain",
        )
    } else if !text.bytes().all(plain) {
        Err("is no name: it has more than letters, digits, - _ * and dots; take the others out")
    } else {
        Ok(())
    }
}

/// The name of an interface as Linux has it (`dev_valid_name`: at most 15 octets).
pub fn interface(text: &str) -> Result<(), Wrong> {
    let plain = |octet: u8| octet.is_ascii_graphic() && !b"/:\"'\\".contains(&octet);
    if text.is_empty() || text.len() > 15 {
        Err("is no interface: those have 1 to 15 letters; `ip link` shows them")
    } else if !text.bytes().all(plain) || text == "." || text == ".." {
        Err(
            "is no interface: it has letters that names of interfaces cannot have; `ip link` shows them",
        )
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_resolvers_and_clusters_take() {
        let long = "a".repeat(64);
        let longer = vec!["a".repeat(63); 4].join(".");
        for (text, is_host, is_owner, is_record) in [
            ("master-0", true, true, true),
            ("ocp4.redhat.ren", true, true, true),
            ("0", true, true, true),
            ("@", false, true, true),
            ("*", false, true, true),
            ("*.apps", false, true, true),
            ("a.*", false, false, true),
            ("_etcd._tcp", false, false, true),
            ("Master", false, false, true),
            ("-a", false, false, true),
            ("a-", false, false, true),
            ("", false, false, false),
            ("a..b", false, false, false),
            ("a.", false, false, false),
            ("a b", false, false, false),
            ("a;b", false, false, false),
            ("a\nb", false, false, false),
            ("$TTL", false, false, false),
            ("ü", false, false, false),
            (&long, false, false, true),
            (&longer, false, false, true),
        ] {
            assert_eq!(host(text).is_ok(), is_host, "{text}");
            assert_eq!(owner(text).is_ok(), is_owner, "{text}");
            assert_eq!(record_owner(text).is_ok(), is_record, "{text}");
        }
    }

    #[test]
    fn interfaces_are_what_linux_takes() {
        for right in ["br-ex", "eth0", "enp1s0f0.100", "bond0@x"] {
            assert_eq!(interface(right), Ok(()), "{right}");
        }
        for wrong in ["", "a b", "a/b", "..", "sixteen-letters-", "a\n"] {
            assert!(interface(wrong).is_err(), "{wrong}");
        }
    }
}
