use std::time::Duration;

use crate::healthd::{Healthd, Kind, Listen, Target};
use crate::{Document, HumanDuration, Whole, Written, at, restart_needed};

fn config() -> Healthd {
    let mut config = Healthd {
        listen: vec![Listen::Unix("/run/x.sock".into())],
        ..Healthd::default()
    };
    config.probes.grace = HumanDuration(Duration::from_mins(2));
    let target = |port| Target {
        fall: Whole::new(3),
        headers: Some(vec![["A".to_owned(), "b\n\"".to_owned()]]),
        ..Target::new(Kind::Http, ([192, 0, 2, 1], port).into())
    };
    config.target = vec![target(80), target(81)];
    config
}

#[test]
fn only_values_that_are_no_defaults_are_written() {
    let nothing = Written::new(&Healthd::default()).unwrap().to_string();
    assert_eq!(nothing, "version = \"v1\"\n");
    let written = Written::new(&config())
        .unwrap()
        .head("Rendered.\n\nSecond\u{7} line.")
        .comment(&at!["listen"], "The socket.")
        .comment(&at!["target", 1], "The second.")
        .comment(&at!["target", 0, "fall"], "Patient.")
        .comment(&at!["absent"], "Nowhere.")
        .to_string();
    assert_eq!(
        written,
        r#"# Rendered.
#
# Second  line.
version = "v1"
# The socket.
listen = ["unix:/run/x.sock"]

[probes]
grace = "2m"

[[target]]
kind = "http"
address = "192.0.2.1:80"
# Patient.
fall = 3
headers = [["A", """
b
""""]]

# The second.
[[target]]
kind = "http"
address = "192.0.2.1:81"
fall = 3
headers = [["A", """
b
""""]]
"#
    );
}

#[test]
fn a_written_file_reads_back() {
    let written = Written::new(&config()).unwrap().to_string();
    let read: Healthd = Document::inline("x", written).parse().unwrap();
    assert_eq!(read, config());
}

#[test]
fn keys_that_need_a_restart_are_named() {
    let old = config();
    let mut new = old.clone();
    new.probes.grace = HumanDuration(Duration::ZERO);
    new.target.clear();
    assert!(restart_needed(&old, &new).is_empty());
    new.listen.clear();
    new.admin.listen = None.into();
    assert_eq!(restart_needed(&old, &new), ["listen", "admin.listen"]);
}
