//! A peer's setting for safety that this server cannot honour: every verb refuses it, with its place.

use std::process::Command;

use tests::binaries::binary;
use tests::daemon::run;
use tests::scratch::Scratch;

/// EX_DATAERR and EX_CONFIG of sysexits.h.
const DATA: i32 = 65;
const CONFIG: i32 = 78;

#[test]
fn a_script_that_decides_about_answers_stops_serve_check_and_import_alike() {
    let files = Scratch::new("safety");
    let conf = files.write(
        "recursor.conf",
        "forward-zones-recurse=.=192.0.2.53\nlocal-address=127.0.0.1\nlua-dns-script=/etc/powerdns/block.lua\n",
    );
    let place = format!("{}:3:1: ", conf.display());
    let ended = |args: &[&str], more: &[&str]| {
        let mut command = Command::new(binary("dns-recursor"));
        command.args(args).arg(&conf).args(more);
        let (status, stdout, stderr) = run(command);
        (status.code(), stdout + &stderr)
    };
    for (args, code) in [
        (&["serve", "--recursor-conf"][..], CONFIG),
        (&["check", "--recursor-conf"], CONFIG),
        (&["import", "recursor.conf"], DATA),
    ] {
        let (status, said) = ended(args, &[]);
        assert_eq!(status, Some(code), "{args:?}: {said}");
        assert!(said.contains(&place), "{args:?}: {said}");
        assert!(
            said.contains("--without lua-dns-script"),
            "{args:?}: {said}"
        );
    }
    for args in [
        &["check", "--recursor-conf"][..],
        &["import", "recursor.conf"],
    ] {
        let (status, said) = ended(args, &["--without", "lua-dns-script"]);
        assert_eq!(status, Some(0), "{args:?}: {said}");
        assert!(said.contains("security: "), "{args:?}: {said}");
    }
}
