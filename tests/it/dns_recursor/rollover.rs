//! The rollover of a root's key (RFC 5011) beside Unbound, with hold-downs of seconds: a new key, the revocation of the old one, and a thief
//! who has the old one.

use std::time::Duration;

use serde_json::Value;
use tests::dns::{NOERROR, SERVFAIL, TXT, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::signed_tree::{P256, generate, tool};
use super::validation::{question, start_unbound};

/// Longer than bogus keys are remembered, on a busy machine.
const LONG: Duration = Duration::from_secs(180);

/// A private root, and the keys of its owner and of others.
struct Root {
    files: Scratch,
    serial: u32,
}

impl Root {
    fn key(&self) -> String {
        generate(&self.files, P256, ".")
    }

    /// The zone with these keys, signed by those of them that sign. Each version has another name, `v1` and so on, so that no cache has it.
    fn sign(&mut self, keys: &[(&str, bool)]) -> String {
        self.serial += 1;
        let serial = self.serial;
        let mut text = format!(
            "$TTL 4\n@ SOA ns host {serial} 3600 600 86400 1\n@ NS ns\nns A 192.0.2.53\nv{serial} TXT x\n"
        );
        for (key, _) in keys {
            let record = std::fs::read_to_string(self.files.join(&format!("{key}.key"))).unwrap();
            text.push_str(&record.replace(" IN DNSKEY", " 4 IN DNSKEY"));
        }
        self.files.write("in.zone", &text);
        let fixed = [
            "-q", "-z", "-P", "-o", ".", "-O", "full", "-f", "out.zone", "in.zone",
        ];
        let signing = keys.iter().filter(|(_, signs)| *signs);
        let signing: Vec<&str> = signing.map(|(key, _)| *key).collect();
        tool(
            &self.files,
            "dnssec-signzone",
            &[&fixed[..], &signing].concat(),
        );
        std::fs::read_to_string(self.files.join("out.zone")).unwrap()
    }

    /// The text of a record of the version.
    fn name(&self) -> String {
        format!("v{}", self.serial)
    }
}

/// The state of a key by its tag, as the status has it.
fn state(site: &Site, key: &str) -> String {
    let status: Value = serde_json::from_str(&site.get("dns-recursor", "/status").1).unwrap();
    let zones = &status["detail"]["dnssec"]["managed"];
    let keys = zones[0]["keys"].as_array().cloned().unwrap_or_default();
    let mut keys = keys.iter().filter(|it| it["tag"] == tag(key));
    keys.next().map_or_else(
        || "unknown".to_owned(),
        |key| key["state"].as_str().unwrap().to_owned(),
    )
}

/// The tag of a key, by the name of its files: `K.+013+12345`.
fn tag(key: &str) -> u32 {
    key.rsplit_once('+').unwrap().1.parse().unwrap()
}

fn wait_for(site: &Site, key: &str, expected: &str) {
    wait::for_it(&format!("key {key} {expected}"), LONG, || {
        state(site, key) == expected
    });
}

#[test]
fn a_rollover_ends_as_in_unbound_and_the_old_key_is_worth_nothing() {
    let mut root = Root {
        files: Scratch::new("rollover"),
        serial: 0,
    };
    let site = Site::new();
    let [old, new, foreign] = [root.key(), root.key(), root.key()];
    let serve = |text: &str| site.configure_authd(&[(".", text)], "answers.udp-payload = 4096");
    serve(&root.sign(&[(&old, true)]));
    let authd = site.start("dns-authd");
    // Until it is served: a name that is asked for too early is one that does not exist, for as long as caches remember.
    let publish = |root: &mut Root, keys: &[(&str, bool)]| {
        serve(&root.sign(keys));
        authd.hang_up();
        wait::for_it("the new version", LONG, || {
            let answer = ask(site.authority(), &question(&root.name(), TXT, false));
            answer.is_ok_and(|answer| answer.rcode == u16::from(NOERROR))
        });
    };
    let anchor = tool(&root.files, "dnssec-dsfromkey", &["-2", &old]);
    let anchor = anchor.trim();
    let dnssec = format!(
        "[dnssec]\nmode = \"validate\"\nmanaged-keys-directory = \"{}\"\ninitial-anchors = [\"{anchor}\"]\n\
         add-holddown = \"10s\"\ndel-holddown = \"10s\"",
        site.files.join("keys").display(),
    );
    site.configure_recursor(&site.forward("."), &dnssec);
    let recursor = site.start("dns-recursor");
    let keys = root.files.write("root.key", anchor);
    let options = format!(
        "auto-trust-anchor-file: \"{}\"\n  permit-small-holddown: yes\n  add-holddown: 10\n  del-holddown: 10",
        keys.display()
    );
    let unbound = at(loopback(), 5304);
    let _unbound = start_unbound(&root.files, unbound, &site, &options);
    let agree = |root: &Root, expected: (u8, bool)| {
        for (server, to) in [("ours", site.resolver()), ("Unbound", unbound)] {
            wait::for_it(
                &format!("{expected:?} of {server} for {}", root.name()),
                LONG,
                || {
                    let answer = ask(to, &question(&root.name(), TXT, true));
                    answer.is_ok_and(|answer| {
                        let rcode = u8::try_from(answer.rcode).unwrap();
                        (rcode, answer.authentic_data) == expected
                    })
                },
            );
        }
    };
    let theirs = |state: &str| {
        wait::for_it(&format!("Unbound: {state}"), LONG, || {
            std::fs::read_to_string(&keys).is_ok_and(|text| text.contains(state))
        });
    };
    wait_for(&site, &old, "valid");
    agree(&root, (NOERROR, true));

    // A new key stands by.
    publish(&mut root, &[(&old, true), (&new, false)]);
    wait_for(&site, &new, "pending");
    agree(&root, (NOERROR, true));
    assert_ne!(state(&site, &new), "unknown");
    theirs("ADDPEND");
    wait_for(&site, &new, "valid");
    recursor.wait_log("Key of a zone has changed its state");
    wait::for_it("Unbound: two valid keys", LONG, || {
        std::fs::read_to_string(&keys).is_ok_and(|text| text.matches("[  VALID  ]").count() == 2)
    });

    // The old key ends.
    let revoked = tool(&root.files, "dnssec-revoke", &["-K", ".", &old]);
    let revoked = revoked.trim().rsplit('/').next().unwrap().to_owned();
    publish(&mut root, &[(&revoked, true), (&new, true)]);
    wait_for(&site, &old, "revoked");
    theirs("REVOKED");
    agree(&root, (NOERROR, true));
    let page = site.get("dns-recursor", "/metrics").1;
    for (state, count) in [("valid", 1), ("revoked", 1), ("pending", 0)] {
        let line =
            format!("dns_recursor_trust_anchor_keys{{zone=\".\",state=\"{state}\"}} {count}");
        assert!(page.contains(&line), "{line}\n{page}");
    }
    let (_, explained) = site.get("dns-recursor", "/explain?name=x.example&type=A");
    let expected = format!("that of ., key {}", tag(&new));
    assert!(explained.contains(&expected), "{expected}\n{explained}");

    // A thief has the old key, and would add one of his own.
    recursor.stop();
    let _recursor = site.start("dns-recursor");
    publish(&mut root, &[(&old, true), (&foreign, true)]);
    agree(&root, (SERVFAIL, false));
    assert_eq!(state(&site, &foreign), "unknown");
    let after = state(&site, &old);
    assert!(["revoked", "removed"].contains(&&*after), "{after}");
    publish(&mut root, &[(&new, true)]);
    agree(&root, (NOERROR, true));
    wait_for(&site, &old, "removed");
}
