use crate::tests::{imported, remarks, values};

#[test]
fn names_of_servers_are_resolved_to_ipv4_first() {
    let text =
        "listen l\nbind :1\nserver a master0.ocp4.redhat.ren:1\nserver b nowhere.example:1\n";
    let toml = imported(text).toml;
    assert!(toml.contains("address = \"192.168.7.13:1\"\n"), "{toml}");
    let told = "192.168.7.13 is the address of master0.ocp4.redhat.ren now";
    assert!(remarks(text).contains(told), "{}", remarks(text));
    // HAProxy would not start; here it becomes a name that is asked for.
    assert!(toml.contains("address = \"nowhere.example:1\"\n"), "{toml}");
    let told = "nowhere.example has no address now";
    assert!(remarks(text).contains(told), "{}", remarks(text));
}

#[test]
fn names_with_resolvers_are_carried_over() {
    let of = |lines: &str| {
        let text = format!(
            "resolvers dns\nnameserver a 192.0.2.53:5300\nnameserver b [2001:db8::53]\nresolve_retries 2\n\
             timeout resolve 2s\ntimeout retry 500ms\nhold valid 20s\nhold nx 5s\nhold obsolete 3s\n\
             listen l\nbind :81\noption redispatch\n{lines}\n"
        );
        let values = values(&text);
        let server = values["backend"][0]["server"][0]
            .as_table()
            .unwrap()
            .clone();
        (values, server, remarks(&text))
    };
    let (values, server, remarks) = of("server w web.example:8080 resolvers dns");
    assert_eq!(remarks, "");
    assert_eq!(server["address"], "web.example:8080".into());
    assert!(!server.contains_key("servers"));
    let expected: toml::Table = r#"
        nameservers = ["192.0.2.53:5300", "[2001:db8::53]:53"]
        resolve-retries = 2
        timeout-retry = "500ms"
        timeout-resolve = "2s"
        hold-valid = "20s"
        hold-nx = "5s"
        hold-obsolete = "3s"
    "#
    .parse()
    .unwrap();
    assert_eq!(values["resolvers"].as_table(), Some(&expected));
    // The port of the connection, and the family.
    let (_, server, _) = of("server w web.example resolvers dns resolve-prefer ipv4");
    assert_eq!(server["address"], "web.example:81".into());
    assert_eq!(server["resolve-prefer"], "ipv4".into());
    // Templates: a count, or numbers from one to another; of a host or of a service.
    for (template, address, servers, said) in [
        (
            "w 3 web.example:8080",
            "web.example:8080",
            3,
            "NAME-ADDRESS",
        ),
        (
            "w 2-5 web.example:8080",
            "web.example:8080",
            4,
            "NAME-ADDRESS",
        ),
        (
            "w 9 _http._tcp.web.example",
            "_http._tcp.web.example",
            9,
            "in proportion",
        ),
    ] {
        let (_, server, remarks) = of(&format!("server-template {template} resolvers dns"));
        assert_eq!(server["name"], "w".into());
        assert_eq!(server["address"], address.into());
        assert_eq!(server["servers"], servers.into());
        assert!(remarks.contains(said), "{remarks}");
    }
}

#[test]
fn resolvers_that_cannot_be_carried_are_told() {
    let with = |section: &str, server: &str| {
        remarks(&format!(
            "resolvers dns\n{section}\nlisten l\nbind :81\noption redispatch\n{server}\n"
        ))
    };
    let server = "server w web.example:1 resolvers dns";
    for (section, server, said) in [
        ("hold timeout 5s", server, "takes no server out"),
        ("nameserver a tcp@192.0.2.1:53", server, "over UDP"),
        ("nameserver a ns.example:53", server, "no address and port"),
        ("parse-resolv-conf", server, "192.168.7.11 now"),
        ("hold nx x", server, "no time"),
        ("frob", server, "no counterpart"),
        (
            "",
            "server w 192.0.2.1:1 resolvers dns",
            "no server that has a name",
        ),
        (
            "",
            "server w web.example:1 resolvers other",
            "no such section",
        ),
        (
            "",
            &format!("{server} resolve-net 192.0.2.0/24"),
            "resolve-net",
        ),
        (
            "resolvers b\nnameserver a 192.0.2.1:53",
            &format!("{server}\nserver v v.example:1 resolvers b"),
            "at the servers of `resolvers dns`",
        ),
        (
            "",
            "server-template w 3 192.0.2.1:1",
            "an address is one server",
        ),
        (
            "",
            "server-template w x web.example:1",
            "no number of servers",
        ),
        ("", "server-template w 3 web.example:1", "NAME-ADDRESS"),
    ] {
        let remarks = with(section, server);
        assert!(remarks.contains(said), "{section} {server}: {remarks}");
    }
}
