//! Files of keepalived.conf, and the configuration that comes of each.
//!
//! Size: a table for each block of keepalived.conf.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use config::{Document, Written};
use config_text::OneFile;

use super::*;

mod manual;

const ON_PREM: &str = include_str!("fixtures/on-prem.conf");
const BY_HAND: &str = include_str!("fixtures/by-hand.conf");

fn read(text: &str) -> Result<Tree, Vec<Problem>> {
    parse(
        Path::new("keepalived.conf"),
        &mut OneFile(text.as_bytes()),
        None,
    )
}

fn imported(text: &str, id: Option<&str>) -> Draft<LbProxy> {
    import(
        Path::new("keepalived.conf"),
        &mut OneFile(text.as_bytes()),
        id,
    )
    .unwrap()
}

fn written(draft: &Draft<LbProxy>) -> String {
    draft.written("From keepalived.conf.").unwrap().to_string()
}

/// The virtual IPs of a file.
fn vips(text: &str, id: Option<&str>) -> Vec<toml::Value> {
    vips_of(&written(&imported(text, id)))
}

fn vips_of(toml: &str) -> Vec<toml::Value> {
    let values: toml::Table = toml.parse().unwrap();
    let vips = values.get("vip").and_then(toml::Value::as_array);
    vips.cloned().unwrap_or_default()
}

/// The backends of a file.
fn backends(toml: &str) -> toml::Value {
    let values: toml::Table = toml.parse().unwrap();
    let none = toml::Value::Array(Vec::new());
    values.get("backend").cloned().unwrap_or(none)
}

/// The backends of our own file written by the same rules.
fn as_backends(text: &str) -> toml::Value {
    let document = Document::inline("x.toml", format!("version = \"v1\"\n{text}"));
    let file: LbProxy = document.parse().unwrap();
    backends(&Written::new(&file).unwrap().to_string())
}

/// The virtual IPs of our own file written by the same rules: durations have more than one form.
fn as_written(text: &str) -> toml::Value {
    let document = Document::inline("x.toml", format!("version = \"v1\"\n{text}"));
    let file: LbProxy = document.parse().unwrap();
    let toml = Written::new(&file).unwrap().to_string();
    toml::Value::Array(vips_of(&toml))
}

/// The only virtual IP of an instance with `lines` in it.
fn vip(lines: &str) -> toml::Value {
    let mut vips = vips(&instance(lines), None);
    assert_eq!(vips.len(), 1);
    vips.remove(0)
}

fn instance(lines: &str) -> String {
    format!(
        "vrrp_instance V {{\ninterface eth0\nvirtual_router_id 7\nvirtual_ipaddress {{ 192.0.2.1 }}\n{lines}\n}}\n"
    )
}

fn remarks(text: &str) -> String {
    let remarks: Vec<String> = imported(text, None)
        .notes
        .iter()
        .map(ToString::to_string)
        .collect();
    remarks.join("\n")
}

/// The tree as one line: words with spaces, blocks in braces.
fn shown(nodes: &[Node]) -> String {
    let shown: Vec<String> = nodes
        .iter()
        .map(|node| match &node.block {
            Some(block) => format!("{}{{{}}}", node.words.join("|"), shown(block)),
            None => node.words.join("|"),
        })
        .collect();
    shown.join(";")
}

/// Files by path.
struct Disk(BTreeMap<&'static str, &'static str>);

impl Files for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let text = path.to_str().and_then(|path| self.0.get(path));
        let text = text.ok_or(io::ErrorKind::NotFound)?;
        Ok(text.as_bytes().to_vec())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.0.keys().rev().map(PathBuf::from);
        Ok(paths
            .filter(|path| path.parent() == Some(directory))
            .collect())
    }
}

//--- Syntax

#[test]
fn lines_are_words_and_blocks() {
    for (text, expected) in [
        ("a b c", "a|b|c"),
        ("a b\nc", "a|b;c"),
        ("a {\n b\n c d\n}\ne", "a{b;c|d};e"),
        ("a\n{\nb\n}", "a{b}"),
        ("a { b }\nc { }", "a{b};c{}"),
        ("a{b{c}}", "a{b{c}}"),
        ("  a\t b  # c\n! d\n#e\nf!g", "a|b;f"),
        ("a \"b # ! c\" d", "a|b # ! c|d"),
        ("a 'b c' \"d\\\"e\\\\f\"", "a|b c|d\"e\\f"),
        ("a b\\#c \\!d", "a|b#c|!d"),
        ("a \\\n b \\\n c\nd", "a|b|c;d"),
        ("a ${x} $y", "a|${x}|$y"),
        ("a \"\" ''", "a||"),
        ("a b\r\nc", "a|b;c"),
        ("", ""),
    ] {
        let tree = read(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        assert_eq!(shown(&tree.nodes), expected, "{text}");
    }
}

#[test]
fn words_have_their_places() {
    let tree = read("a {\n  bb \"c d\" e{ f }\n}\n").unwrap();
    let bb = &tree.nodes[0].children()[0];
    assert_eq!(bb.position.to_string(), "keepalived.conf:2:3");
    assert_eq!(
        bb.children()[0].position.to_string(),
        "keepalived.conf:2:15"
    );
}

#[test]
fn braces_and_quotes_that_do_not_fit_are_told_with_their_place() {
    let deep = "a {\n".repeat(40);
    for (text, expected) in [
        (
            "a {\nb",
            "keepalived.conf:1:1: the block of `a` does not end",
        ),
        (
            "a {\nb\n}\n }",
            "keepalived.conf:4:2: this brace closes nothing",
        ),
        ("\n {", "keepalived.conf:2:2: this brace belongs to nothing"),
        (
            "a { } { }",
            "keepalived.conf:1:7: this brace belongs to nothing",
        ),
        (
            "a \"b\nc",
            "keepalived.conf:1:1: a quote does not end on its line",
        ),
        (
            &deep,
            "keepalived.conf:33:3: blocks are too deep in each other",
        ),
        (
            "$A=${A}${A}\n${A}",
            "keepalived.conf:2:1: there is no end to its parameters",
        ),
    ] {
        let problems = read(text).unwrap_err();
        assert_eq!(problems[0].to_string(), expected);
    }
}

#[test]
fn parameters_may_be_whole_instances() {
    let text = "$N=1\n$I= \\\nvrrp_instance V${N} { \\\n@high priority 130 \\\n@low priority 120 \\\n}\n$I\n$N=2\n$I\n";
    let of = |id: &str| {
        let tree = parse(Path::new("x"), &mut OneFile(text.as_bytes()), Some(id)).unwrap();
        shown(&tree.nodes)
    };
    assert_eq!(
        of("high"),
        "vrrp_instance|V1{priority|130};vrrp_instance|V2{priority|130}"
    );
    assert_eq!(
        of("low"),
        "vrrp_instance|V1{priority|120};vrrp_instance|V2{priority|120}"
    );
    assert_eq!(of("none"), "vrrp_instance|V1{};vrrp_instance|V2{}");
}

#[test]
fn lines_for_other_machines_do_not_count() {
    let text = "@main a\n@^main b\n@^backup c\n $IF=@main\n$IF d\n @x e\n";
    let of = |id: Option<&str>| {
        let tree = parse(Path::new("x"), &mut OneFile(text.as_bytes()), id).unwrap();
        (shown(&tree.nodes), tree.conditional.len())
    };
    // Only at the very beginning of a line.
    assert_eq!(of(Some("main")), ("a;c;d;@x|e".to_owned(), 0));
    assert_eq!(of(Some("backup")), ("b;@x|e".to_owned(), 0));
    assert_eq!(of(None), ("@x|e".to_owned(), 4));
}

#[test]
fn files_are_included_relative_to_the_one_that_does() {
    let files = BTreeMap::from([
        (
            "/etc/k/keepalived.conf",
            "a\ninclude conf.d/*.conf\nz {\nincludew inner\n}\n",
        ),
        ("/etc/k/conf.d/2.conf", "two\ninclude more/x.conf\n"),
        ("/etc/k/conf.d/1.conf", "one\n"),
        ("/etc/k/conf.d/.3.conf", "hidden\n"),
        ("/etc/k/conf.d/4.txt", "other\n"),
        ("/etc/k/conf.d/more/x.conf", "x\n"),
        ("/etc/k/inner", "i\n"),
    ]);
    let tree = parse(Path::new("/etc/k/keepalived.conf"), &mut Disk(files), None).unwrap();
    assert_eq!(shown(&tree.nodes), "a;one;two;x;z{i}");
    assert_eq!(
        tree.nodes[1].position.to_string(),
        "/etc/k/conf.d/1.conf:1:1"
    );
}

#[test]
fn what_cannot_be_included_is_told() {
    let check = |text: &'static str, expected: &str| {
        let files = BTreeMap::from([("/k", text)]);
        let problems = parse(Path::new("/k"), &mut Disk(files), None).unwrap_err();
        assert!(
            problems[0].to_string().starts_with(expected),
            "{problems:?}"
        );
    };
    check("\ninclude gone\n", "/k:2:1: cannot read /gone: ");
    check(
        "include k\n",
        "/k:1:1: files include each other without end",
    );
    let problems = parse(Path::new("/gone"), &mut Disk(BTreeMap::new()), None).unwrap_err();
    assert!(problems[0].to_string().starts_with("cannot read /gone: "));
    // Thirty times itself, and each of those again: given up.
    let files = BTreeMap::from([("/k/a.conf", "include *.conf\ninclude *.conf\n")]);
    assert!(parse(Path::new("/k/a.conf"), &mut Disk(files), None).is_err());
}

//--- Terms

#[test]
fn the_template_of_openshift_comes_over() {
    let expected = as_written(
        r#"
        [[vip]]
        name = "ocp4_API_0"
        addresses = ["192.168.7.100/32"]
        interface = "br-ex"
        router-id = 51
        version = 2
        priority = 40
        interval = "1s"
        source = "192.168.7.13"
        peers = ["192.168.7.14", "192.168.7.15"]
        password = "ocp4_api"
        announce = { refresh = "1m" }
        [[vip]]
        name = "ocp4_INGRESS_0"
        addresses = ["192.168.7.101/32"]
        interface = "br-ex"
        router-id = 52
        version = 2
        priority = 20
        interval = "1s"
        source = "192.168.7.13"
        peers = ["192.168.7.14"]
        password = "ocp4_ing"
        track = ["backend:chk_ingress"]
        when-unable = "release"
        announce = { refresh = "1m" }
    "#,
    );
    assert_eq!(toml::Value::Array(vips(ON_PREM, None)), expected);
    let remarks = remarks(ON_PREM);
    assert!(
        remarks.contains("its scripts add 28 while they succeed: write priority = 68"),
        "{remarks}"
    );
    for script in [
        "chk_ocp_lb",
        "chk_ocp_both",
        "chk_mcs",
        "chk_default_ingress",
    ] {
        assert!(
            remarks.contains(&format!("track_script {script} of")),
            "{remarks}"
        );
    }
}

#[test]
fn a_script_that_asks_a_url_is_a_probe() {
    let expected = as_backends(
        r#"
        [[backend]]
        name = "chk_ingress"
        check = { kind = "http", path = "/healthz", interval = "1s", rise = 3, fall = 2 }
        [[backend.server]]
        name = "asked"
        address = "127.0.0.1:1936"
    "#,
    );
    assert_eq!(backends(&written(&imported(ON_PREM, None))), expected);
}

/// The only virtual IP of an instance that tracks the script `s`, the backends, and the notes.
fn tracking(script: &str, weight: &str) -> (toml::Value, toml::Value, String) {
    let text = format!(
        "vrrp_script s {{\nscript \"{script}\"\n}}\n{}",
        instance(&format!("track_script {{ s {weight} }}"))
    );
    let draft = imported(&text, None);
    let toml = written(&draft);
    let notes: Vec<String> = draft.notes.iter().map(ToString::to_string).collect();
    (vips_of(&toml).remove(0), backends(&toml), notes.join("\n"))
}

#[test]
fn what_a_script_means_depends_on_its_weight() {
    let probe = "curl -sf http://localhost:1936/healthz";
    let (vip, backends, notes) = tracking(probe, "");
    assert_eq!(vip["track"][0], "backend:s".into());
    assert_eq!(vip["when-unable"], "release".into());
    assert_eq!(backends[0]["server"][0]["address"], "127.0.0.1:1936".into());
    assert!(notes.contains("healthd asks in its place"), "{notes}");
    let (vip, _, _) = tracking(probe, "weight -20");
    assert_eq!(vip["weigh"][0]["what"], "backend:s".into());
    assert_eq!(vip["weigh"][0]["weight"], (-20).into());
    assert_eq!((vip.get("track"), vip.get("when-unable")), (None, None));

    // lb-proxy answers for itself.
    for (weight, priority) in [("", 100), ("weight 20", 120), ("weight -20", 100)] {
        let (vip, backends, _) = tracking("killall -0 haproxy", weight);
        assert_eq!(vip["priority"], priority.into(), "{weight}");
        assert_eq!((vip.get("track"), vip.get("weigh")), (None, None));
        assert_eq!(backends, toml::Value::Array(Vec::new()));
    }
}

#[test]
fn a_script_that_is_not_understood_counts_as_one_that_fails() {
    for (weight, priority) in [("weight 20", 100), ("weight -20", 80), ("weight -253", 1)] {
        let (vip, _, notes) = tracking("/etc/keepalived/chk.sh", weight);
        assert_eq!(vip["priority"], priority.into(), "{weight}");
        assert_eq!((vip.get("track"), vip.get("weigh")), (None, None));
        assert!(notes.contains("nothing here tells what it asks"), "{notes}");
    }
    let (vip, backends, notes) = tracking("/etc/keepalived/chk.sh", "");
    assert_eq!(vip["track"][0], "backend:s".into());
    assert_eq!(vip["when-unable"], "release".into());
    assert_eq!(backends[0].get("server"), None, "so that it is never able");
    assert!(notes.contains("does not hold the address until"), "{notes}");
}

#[test]
fn scripts_of_a_group_count_for_each_of_its_instances() {
    let text = format!(
        "vrrp_sync_group g {{\ngroup {{\nV\n}}\ntrack_script {{\nweighed\ns weight 5\n}}\n}}\n\
         vrrp_script weighed {{\nscript \"/usr/bin/true\"\nweight 28\n}}\n\
         vrrp_script s {{\nscript \"nc -z 127.0.0.1 80\"\n}}\n{}",
        instance("priority 40")
    );
    let vip = vips(&text, None).remove(0);
    assert_eq!(vip["weigh"][0]["weight"], 5.into());
    let remarks = remarks(&text);
    assert!(remarks.contains("write priority = 68"), "{remarks}");
}

const LVS: &str = "
        virtual_server 192.0.2.10 443 {
            delay_loop 6
            lb_algo wlc
            lb_kind NAT
            protocol TCP
            sorry_server 192.0.2.30 443
            real_server 192.0.2.21 8443 {
                weight 3
                SSL_GET {
                    url {
                        path /readyz
                        status_code 204
                    }
                    connect_timeout 3
                    connect_port 9443
                }
            }
            real_server 192.0.2.22 8443 {
                weight 1
            }
        }
        virtual_server 2001:db8::10 514 {
            protocol UDP
            persistence_timeout 50
            lb_kind DR
            real_server 2001:db8::21 514 {
                MISC_CHECK {
                    misc_path /usr/bin/check
                }
            }
        }";

/// The same in lb-proxy's terms.
const LVS_IN_OURS: &str = r#"
        version = "v1"
        [[frontend]]
        name = "192.0.2.10:443"
        listen = ["192.0.2.10:443"]
        backend = "192.0.2.10:443"
        path = "kernel-preferred"
        masquerade = false
        [[frontend]]
        name = "2001:db8::10:514-udp"
        listen = ["[2001:db8::10]:514"]
        backend = "2001:db8::10:514-udp"
        protocol = "udp"
        path = "kernel-preferred"
        [[backend]]
        name = "192.0.2.10:443"
        balance = "least-connections"
        check = { kind = "https", path = "/readyz", status = 204, verify = "none", interval = "6s", timeout = "3s" }
        [[backend.server]]
        name = "192.0.2.21:8443"
        address = "192.0.2.21:8443"
        weight = 3
        check-port = 9443
        [[backend.server]]
        name = "192.0.2.22:8443"
        address = "192.0.2.22:8443"
        weight = 1
        check = false
        [[backend.server]]
        name = "sorry"
        address = "192.0.2.30:443"
        backup = true
        check = false
        [[backend]]
        name = "2001:db8::10:514-udp"
        balance = "source"
        check = "none"
        [[backend.server]]
        name = "2001:db8::21:514"
        address = "[2001:db8::21]:514"
        weight = 1
    "#;

#[test]
fn a_service_of_lvs_is_a_frontend_and_a_backend() {
    let draft = imported(LVS, None);
    let toml: toml::Table = written(&draft).parse().unwrap();
    let document = Document::inline("x.toml", LVS_IN_OURS);
    let file: LbProxy = document.parse().unwrap();
    let expected = Written::new(&file).unwrap().to_string();
    let expected: toml::Table = expected.parse().unwrap();
    for key in ["frontend", "backend"] {
        assert_eq!(toml.get(key), expected.get(key), "{key}");
    }
    let notes: Vec<String> = draft.notes.iter().map(ToString::to_string).collect();
    let notes = notes.join("\n");
    for part in [
        "healthd does not ask that",
        "persistence_timeout 50",
        "lb_kind DR",
    ] {
        assert!(notes.contains(part), "{part}\n{notes}");
    }
    assert_eq!(notes.lines().count(), 3, "{notes}");
}

#[test]
fn a_file_written_by_hand_comes_over() {
    let expected = as_written(
        r#"
        [[vip]]
        name = "V4"
        addresses = ["192.168.8.100/24"]
        interface = "eth0"
        router-id = 10
        version = 3
        priority = 200
        interval = "250ms"
        preempt-delay = "2500ms"
        group = "both"
        notify = "/etc/keepalived/notify.sh"
        announce = { count = 3, again-after = "0s" }
        [[vip]]
        name = "V6"
        addresses = ["fe80::100/128", "2001:db8::100/64"]
        interface = "eth0"
        router-id = 10
        version = 3
        priority = 100
        interval = "1s"
        group = "both"
        announce = { again-after = "0s" }
    "#,
    );
    assert_eq!(toml::Value::Array(vips(BY_HAND, Some("main"))), expected);
    assert_eq!(vips(BY_HAND, Some("backup"))[0]["priority"], 150.into());
}

#[test]
fn what_is_not_written_is_as_keepalived_has_it() {
    let vip = vip("");
    assert_eq!(vip["version"], 2.into());
    assert_eq!(vip["priority"], 100.into());
    assert_eq!(vip["interval"], "1s".into());
    assert_eq!(vip["addresses"][0], "192.0.2.1/32".into());
    for key in [
        "peers",
        "password",
        "preempt",
        "preempt-delay",
        "group",
        "announce",
        "source",
        "checksum",
    ] {
        assert_eq!(vip.get(key), None, "{key}");
    }
}

#[test]
fn keywords_have_our_names() {
    for (lines, key, expected) in [
        ("version 3", "version", Some("3")),
        ("priority 255", "priority", Some("255")),
        ("advert_int 3", "interval", Some("\"3s\"")),
        ("version 3\nadvert_int 0.05", "interval", Some("\"50ms\"")),
        ("advert_int 1.5", "interval", Some("\"1s\"")),
        ("advert_int 0.5", "interval", Some("\"1s\"")),
        ("nopreempt", "preempt", Some("false")),
        ("nopreempt\nstate BACKUP", "preempt", Some("false")),
        ("nopreempt\nstate MASTER", "preempt", None),
        ("preempt_delay 300", "preempt-delay", Some("\"5m\"")),
        ("mcast_src_ip 192.0.2.9", "source", Some("\"192.0.2.9\"")),
        ("unicast_peer { }", "peers", Some("[]")),
        (
            "unicast_peer {\n192.0.2.8\nnobody\n}",
            "peers",
            Some("[\"192.0.2.8\"]"),
        ),
        (
            "authentication {\nauth_pass secret\n}",
            "password",
            Some("\"secret\""),
        ),
        (
            "authentication {\nauth_type AH\nauth_pass x\n}",
            "password",
            None,
        ),
        (
            "authentication { auth_pass 1234567é }",
            "password",
            Some("\"1234567\""),
        ),
        (
            "version 3\nauthentication { auth_pass x }",
            "password",
            None,
        ),
        ("version 3\nv3_checksum_as_v2", "checksum", Some("\"rfc\"")),
        ("notify /x/y", "notify", Some("\"/x/y\"")),
        ("notify \"/x/y z\"", "notify", None),
        (
            "garp_master_refresh 10",
            "announce",
            Some("{ refresh = \"10s\" }"),
        ),
    ] {
        let expected = expected.map(|value| {
            let text = format!(
                "[[vip]]\nname = \"V\"\naddresses = []\ninterface = \"eth0\"\n{key} = {value}\n"
            );
            as_written(&text)[0][key].clone()
        });
        assert_eq!(vip(lines).get(key), expected.as_ref(), "{lines}");
    }
}

#[test]
fn addresses_of_the_other_family_have_a_router_that_moves_with_the_instance() {
    let expected = as_written(
        r#"
        [[vip]]
        name = "V"
        addresses = ["192.0.2.1/32"]
        interface = "eth0"
        router-id = 7
        version = 2
        priority = 150
        interval = "1m"
        peers = ["192.0.2.8"]
        password = "secret"
        group = "V"
        notify = "/x/y"
        [[vip]]
        name = "V-ipv6"
        addresses = ["2001:db8::1/64", "2001:db8::2/128"]
        interface = "eth0"
        router-id = 7
        version = 3
        priority = 150
        interval = "40950ms"
        group = "V"
    "#,
    );
    let text = instance(
        "virtual_ipaddress_excluded { 2001:db8::1/64 }\nvirtual_ipaddress { 2001:db8::2 }\n\
         priority 150\nadvert_int 60\nunicast_peer { 192.0.2.8 }\n\
         authentication { auth_pass secret }\nnotify /x/y",
    );
    assert_eq!(
        toml::Value::Array(vips(&text, None)),
        expected,
        "{}",
        written(&imported(&text, None))
    );
    let said = remarks(&text);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("a [[vip]] of its own has it"), "{said}");
}

#[test]
fn the_first_virtual_address_says_the_family_wherever_it_stands() {
    let text = "vrrp_sync_group g { group { V } }\n\
         vrrp_instance V {\ninterface eth0\nvirtual_router_id 7\nversion 3\nadvert_int 0.2\n\
         nopreempt\nunicast_src_ip 192.0.2.9\nunicast_peer {\n192.0.2.8\n2001:db8::8\n}\n\
         virtual_ipaddress_excluded { 192.0.2.1 }\nvirtual_ipaddress { 2001:db8::1 }\n\
         v3_checksum_as_v2\n}\n";
    let vips = vips(text, None);
    let [six, four] = &vips[..] else {
        panic!("{vips:?}")
    };
    assert_eq!(six["name"], "V".into());
    assert_eq!(six["peers"], toml::Value::Array(vec!["2001:db8::8".into()]));
    assert_eq!(six.get("source"), None);
    assert_eq!(four["name"], "V-ipv4".into());
    assert_eq!(four.get("peers"), None);
    assert_eq!(four["checksum"], "rfc".into());
    for vip in [six, four] {
        assert_eq!(vip["group"], "g".into());
        assert_eq!(vip["interval"], "200ms".into());
        assert_eq!(vip["preempt"], false.into());
    }
    assert_eq!(remarks(text).lines().count(), 3, "{}", remarks(text));
}

#[test]
fn every_keyword_is_carried_over_or_reported() {
    let none = remarks(&instance(""));
    assert_eq!(none, "");
    for keyword in [
        "frobnicate",
        "use_vmac",
        "no_accept",
        "dont_track_primary",
        "notify_master /x",
        "smtp_alert",
        "version 4",
        "priority 0",
        "priority 256",
        "virtual_router_id 0",
        "advert_int x",
        "advert_int 0",
        "preempt_delay x",
        "unicast_src_ip x",
        "unicast_peer { x }",
        "unicast_peer { 192.0.2.2 min_ttl 255 }",
        "garp_lower_prio_repeat 2",
        "track_interface { eth1 }",
        "track_script { gone }",
        "track_file { x }",
        "virtual_routes { x }",
        "strict_mode",
        "virtual_ipaddress { x }",
        "virtual_ipaddress { 192.0.2.1/33 }",
        "virtual_ipaddress { 192.0.2.1/ }",
        "virtual_ipaddress { 192.0.2.2 label x }",
        "virtual_ipaddress { 192.0.2.2 dev eth1 }",
        "virtual_ipaddress { 192.0.2.2 brd 192.0.2.255 }",
        "virtual_ipaddress { 192.0.2.2 scope link }",
        "virtual_ipaddress_excluded { 192.0.2.3 }",
        "virtual_ipaddress_excluded { x }",
        "debug 4",
        "authentication { auth_type AH }",
        "notify \"x y\"",
        "notify x root",
    ] {
        assert_eq!(
            remarks(&instance(keyword)).lines().count(),
            1,
            "{keyword}: {}",
            remarks(&instance(keyword))
        );
    }
    for fine in [
        "accept",
        "native_ipv6",
        "state BACKUP",
        "virtual_ipaddress { 192.0.2.2 dev eth0 scope global }",
    ] {
        assert_eq!(remarks(&instance(fine)), "", "{fine}");
    }
}

#[test]
fn a_note_says_how_much_is_lost() {
    use config::Class::{Behaviour, Cosmetic, Security};
    let guarded = "unicast_peer { 192.0.2.8 }\nvirtual_ipaddress_excluded { 2001:db8::1 }";
    for (keyword, expected) in [
        ("no_accept", Security),
        ("strict_mode", Security),
        ("authentication { auth_type AH }", Security),
        ("unicast_peer { 192.0.2.2 min_ttl 255 }", Security),
        (guarded, Security),
        ("virtual_ipaddress_excluded { 2001:db8::1 }", Behaviour),
        ("use_vmac", Behaviour),
        ("virtual_routes { x }", Behaviour),
        ("debug 4", Cosmetic),
        ("version 3\nauthentication { auth_pass x }", Cosmetic),
        ("virtual_ipaddress { 192.0.2.2 label x }", Cosmetic),
    ] {
        let notes = imported(&instance(keyword), None).notes;
        assert_eq!(notes.len(), 1, "{keyword}: {notes:?}");
        assert_eq!(notes[0].class, expected, "{keyword}");
    }
    for (block, expected) in [
        ("global_defs { vrrp_strict }", Security),
        ("global_defs { script_user x }", Security),
        ("@main authentication {", Security),
        ("global_defs { router_id x }", Cosmetic),
        ("virtual_server 192.0.2.1 80 { }", Behaviour),
    ] {
        let notes = imported(block, None).notes;
        assert_eq!(notes[0].class, expected, "{block}: {notes:?}");
    }
}

#[test]
fn every_block_is_carried_over_or_reported() {
    for block in [
        "vrrp_script x { script y }",
        "virtual_server 192.0.2.1 80 { }",
        "virtual_server fwmark 1 { }",
        "virtual_server_group g { 192.0.2.1 80 }",
        "virtual_server 192.0.2.1 80 { real_server 192.0.2.2 80 { }\nwhat }",
        "virtual_server 192.0.2.1 80 { real_server 192.0.2.2 80 { what } }",
        "static_ipaddress { 192.0.2.1 }",
        "what",
        "vrrp_track_file x { file y }",
        "net_namespace x",
        "global_defs { router_id x }",
        "global_defs { what }",
        "global_defs { vrrp_strict }",
        "vrrp_sync_group g { notify x }",
        "vrrp_instance x { }",
        "vrrp_instance x { interface y }",
        "vrrp_instance x { interface y\nvirtual_router_id 9 }",
        "@main x",
        "x ~SEQ(a, 1, 2)",
    ] {
        assert_eq!(
            remarks(block).lines().count(),
            1,
            "{block}: {}",
            remarks(block)
        );
    }
}

#[test]
fn seconds_have_fractions() {
    for (text, micros) in [
        ("1", Some(1_000_000)),
        ("0.25", Some(250_000)),
        (".5", Some(500_000)),
        ("2.", Some(2_000_000)),
        ("1.0000019", Some(1_000_001)),
        ("", None),
        (".", None),
        ("-1", None),
        ("1e3", None),
        ("99999999999", None),
    ] {
        let seconds = instance::seconds(text);
        assert_eq!(seconds.map(|seconds| seconds.as_micros()), micros, "{text}");
    }
}

//--- Any octets

#[test]
fn no_prefix_and_no_changed_octet_of_a_file_upsets_the_import() {
    for text in [ON_PREM, BY_HAND] {
        let check = |octets: &[u8]| {
            for id in [None, Some("main")] {
                if let Ok(draft) = import(Path::new("x"), &mut OneFile(octets), id) {
                    // Without the schema of the whole, which `written` looks at each time.
                    let toml = toml_edit::ser::to_string(&draft.config).unwrap();
                    let parsed: Result<toml::Table, _> = toml.parse();
                    assert!(parsed.is_ok(), "{toml}");
                }
            }
        };
        let octets = text.as_bytes();
        for end in (0..octets.len()).step_by(7) {
            check(&octets[..end]);
        }
        for at in (0..octets.len()).step_by(5) {
            let mut changed = octets.to_vec();
            changed[at] = [b'"', b'\\', b'\n', 0, 0xff, b'{', b'}', b'$'][at % 8];
            check(&changed);
        }
    }
}
