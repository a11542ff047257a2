//! Questions that are changed before they are resolved, from a Corefile that is carried over.

use std::process::Command;

use tests::binaries::binary;
use tests::daemon::run;
use tests::dns::{A, AAAA, CNAME, NOERROR, NXDOMAIN, Question, TXT, ask, ask_a, name_to_wire};
use tests::scratch::{Scratch, at, loopback};
use tests::upstream::{Action, Asked, Upstream};

use super::explain::explain;
use super::{Forward, address, addresses, start};

const RULES: &str = "rewrite name exact old.test www.new.test\n    rewrite name suffix .consul.test .service.test answer auto\n    \
    rewrite stop {\n        name regex (.*)-(us)\\.rocks\\.test {1}.service.{2}.test\n        \
    answer name (.*)\\.service\\.(us)\\.test {1}-{2}.rocks.test\n    }\n    rewrite type TXT A\n";

/// Knows names below `new.test`, `service.test` and `us.test` only.
fn act(asked: &Asked) -> Action {
    let name = asked.name();
    let rtype = asked.message.questions[0].1;
    let records = match name.as_str() {
        "web.service.test." => vec![(CNAME, 60, name_to_wire("db.service.test"))],
        "www.new.test." | "db.service.test." | "ftp.service.us.test." | "plain.test."
            if rtype == A =>
        {
            vec![(A, 60, address(1))]
        }
        "www.new.test." => return Action::Send(asked.negative(NOERROR, "test", 60)),
        _ => return Action::Send(asked.negative(NXDOMAIN, "test", 60)),
    };
    Action::Send(asked.answer(NOERROR, &records))
}

/// The rules of a Corefile, as `import` writes them.
fn imported(files: &Scratch) -> String {
    let corefile = format!(". {{\n    forward . 192.0.2.1\n    {RULES}}}\n");
    let mut command = Command::new(binary("dns-recursor"));
    command.args(["import", "corefile"]);
    command.arg(files.write("Corefile", &corefile));
    let (status, text, complaint) = run(command);
    assert!(status.success(), "{complaint}");
    let begin = text.find("[[rewrite]]").unwrap_or_else(|| panic!("{text}"));
    text[begin..].to_owned()
}

#[test]
fn changed_questions_are_answered_as_their_clients_have_asked() {
    let files = Scratch::new("rewrite");
    let to = [at(loopback(), 5300)];
    let _upstream = Upstream::start(to[0], act);
    let everything = Forward {
        zone: ".",
        to: &to,
        recursive: true,
    };
    let (site, _daemon) = start(&[everything], &imported(&files));
    let server = site.resolver();
    // The second time from the cache.
    for _ in 0..2 {
        for (name, owners) in [
            ("OLD.test", &["old.test."][..]),
            ("web.consul.test", &["web.consul.test.", "db.consul.test."]),
            ("ftp-us.rocks.test", &["ftp-us.rocks.test."]),
            ("www.new.test", &["www.new.test."]),
        ] {
            let answer = ask_a(server, name).unwrap();
            assert_eq!(addresses(&answer), ["192.0.2.1"], "{name}");
            let found = answer.answers.iter();
            let found: Vec<String> = found.map(|it| it.owner.to_ascii_lowercase()).collect();
            assert_eq!(found, owners, "{name}");
        }
        let none = ask(server, &Question::new("old.test", AAAA)).unwrap();
        assert_eq!((none.rcode, none.answers.len()), (u16::from(NOERROR), 0));
        let missing = ask_a(server, "none.consul.test").unwrap();
        assert_eq!(missing.rcode, u16::from(NXDOMAIN));
        let of_type = ask(server, &Question::new("plain.test", TXT)).unwrap();
        assert_eq!(of_type.answers.len(), 1);
    }
    let told = explain(&site, &["old.test"]);
    assert!(
        told.contains("changes the question to www.new.test. A"),
        "{told}"
    );
}
