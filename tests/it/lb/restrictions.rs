//! Restrictions of a haproxy.cfg that lb-proxy cannot have.

use std::process::Command;

use tests::binaries::binary;
use tests::daemon::run;
use tests::scratch::Scratch;

#[test]
fn an_import_that_would_let_in_more_clients_is_refused_until_it_is_accepted() {
    let files = Scratch::new("lb-restrictions");
    for (rule, refused) in [
        (
            "tcp-request connection reject unless { src -f /etc/lan }",
            true,
        ),
        (
            "tcp-request connection reject if { sc0_sess_rate gt 50 }",
            true,
        ),
        // HAProxy rejects no client by a counter that no rule makes.
        (
            "tcp-request connection reject if { sc0_conn_rate gt 50 }",
            false,
        ),
        ("http-request deny unless { src 10.0.0.0/8 }", true),
        ("tcp-request connection reject", false),
        (
            "tcp-request connection reject if !{ src 10.0.0.0/8 }",
            false,
        ),
    ] {
        let text = format!("listen l\n bind :6000\n {rule}\n server s 192.0.2.1:1\n");
        let file = files.write("haproxy.cfg", &text);
        let import = |flag: Option<&str>| {
            let mut command = Command::new(binary("lb-proxy"));
            command
                .args(["import", "haproxy.cfg"])
                .args(flag)
                .arg(&file);
            run(command)
        };
        let (status, stdout, stderr) = import(None);
        let expected = if refused { 65 } else { 0 };
        assert_eq!(status.code(), Some(expected), "{rule}: {stderr}");
        assert_eq!(stdout.is_empty(), refused, "{rule}");
        assert_eq!(
            stderr.contains("--accept-open"),
            refused,
            "{rule}: {stderr}"
        );
        let (status, stdout, stderr) = import(Some("--accept-open"));
        assert_eq!(status.code(), Some(0), "{rule}: {stderr}");
        assert!(stdout.contains("[[frontend]]"), "{rule}");
    }
}
