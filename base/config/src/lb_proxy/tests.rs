use super::*;
use crate::{Document, Written, at, restart_needed};

fn parse(text: &str) -> Result<LbProxy, String> {
    let document = Document::inline("x.toml", format!("version = \"v1\"\n{text}"));
    document.parse().map_err(|problems| problems.to_string())
}

#[test]
fn the_examples_of_the_manual_are_written_as_they_were_read() {
    let text = [
        STATS_SOCKETS,
        MONITORS,
        FRONTENDS,
        BACKENDS,
        VIPS,
        POOLS,
        SERVICES,
    ]
    .concat();
    let file = parse(&text).unwrap();
    assert_eq!(file.frontend.len(), 5);
    let written = Written::new(&file).unwrap().to_string();
    let again: LbProxy = Document::inline("again.toml", written.as_str())
        .parse()
        .unwrap_or_else(|problems| panic!("{problems}\n{written}"));
    assert_eq!(again, file, "{written}");
    assert!(!written.contains("retries"), "a default: {written}");
}

#[test]
fn values_that_are_text_read_and_print_the_same() {
    fn same<T: std::str::FromStr + std::fmt::Display + PartialEq + std::fmt::Debug>(
        text: &str,
        printed: &str,
    ) where
        T::Err: std::fmt::Debug,
    {
        let value: T = text.parse().unwrap();
        assert_eq!(value.to_string(), printed);
        assert_eq!(printed.parse::<T>().unwrap(), value);
    }
    same::<Rate>("50/s", "50/s");
    same::<Rate>("600/m", "600/m");
    same::<Rate>("100 / 10s", "100/10s");
    same::<Rate>("9/1m30s", "9/1m30s");
    same::<Rate>("9/1s", "9/s");
    same::<LogTarget>("off", "off");
    same::<LogTarget>("/var/log/lb", "/var/log/lb");
    same::<SwapSocket>("none", "none");
    same::<SwapSocket>("/run/x.swap", "/run/x.swap");
    same::<VirtualAddress>("192.0.2.1", "192.0.2.1/32");
    same::<VirtualAddress>("2001:db8::1/64", "2001:db8::1/64");
    same::<AddressRange>("192.0.2.1 - 192.0.2.9", "192.0.2.1-192.0.2.9");
    same::<AddressRange>("192.0.2.0/30", "192.0.2.1-192.0.2.2");
    same::<AddressRange>("192.0.2.7", "192.0.2.7");
    for text in ["50", "0/s", "5/y", "5/50ms", "5/48h", "x/s"] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

#[test]
fn ranges_are_written_three_ways() {
    let ends = |text: &str| {
        let range: AddressRange = text.parse().unwrap();
        let last = range.at(range.size() - 1);
        format!("{} {last} {}", range.at(0), range.size())
    };
    assert_eq!(
        ends("192.168.7.200 - 192.168.7.220"),
        "192.168.7.200 192.168.7.220 21"
    );
    assert_eq!(ends("192.168.7.200/29"), "192.168.7.201 192.168.7.206 6");
    assert_eq!(ends("192.168.7.200/31"), "192.168.7.200 192.168.7.201 2");
    assert_eq!(ends("192.168.7.200/32"), "192.168.7.200 192.168.7.200 1");
    assert_eq!(ends("192.168.7.9"), "192.168.7.9 192.168.7.9 1");
    assert_eq!(ends("fd00::/126"), "fd00:: fd00::3 4");
    for wrong in ["", "a", "1.2.3.4-", "1.2.3.4/33", "1.2.3"] {
        assert_eq!(
            wrong.parse::<AddressRange>(),
            Err(NotRange::Syntax),
            "{wrong}"
        );
    }
    for wrong in ["1.2.3.4-1.2.3.3", "1.2.3.4-fd00::1"] {
        assert_eq!(
            wrong.parse::<AddressRange>(),
            Err(NotRange::Order),
            "{wrong}"
        );
    }
}

#[test]
fn a_check_and_keepalive_may_be_a_word_or_a_table() {
    let check = |text: &str| {
        let file = parse(&format!("[[backend]]\nname = \"b\"\n{text}\n")).unwrap();
        file.backend[0].check.clone().and_then(|check| check.kind)
    };
    assert_eq!(check(""), None);
    assert_eq!(check("check = \"none\""), Some(Kind::None));
    assert_eq!(check("check = { kind = \"ntp\" }"), Some(Kind::Ntp));
    let keepalive = |text: &str| {
        let file = parse(&format!(
            "[[backend]]\nname = \"b\"\nconnection = {{ keepalive = {text} }}\n"
        ));
        file.map(|file| file.backend[0].connection.keepalive)
    };
    assert_eq!(keepalive("false"), Ok(Keepalive::Off));
    assert_eq!(keepalive("true"), Ok(Keepalive::default()));
    let probes = KeepaliveProbes {
        count: 9,
        ..KeepaliveProbes::default()
    };
    assert_eq!(keepalive("{ count = 9 }"), Ok(Keepalive::Probes(probes)));
    assert_eq!(
        keepalive("{ cuont = 9 }").unwrap_err(),
        "x.toml:4:30: unknown key `cuont`, did you mean `count`?"
    );
    for wrong in [
        "check = \"off\"",
        "check = 3",
        "connection = { keepalive = 3 }",
    ] {
        let text = format!("[[backend]]\nname = \"b\"\n{wrong}\n");
        assert!(
            parse(&text).unwrap_err().starts_with("x.toml:4:"),
            "{wrong}"
        );
    }
}

#[test]
fn the_keys_that_need_a_restart_are_told_from_the_others() {
    let changed = |text: &str| restart_needed(&LbProxy::default(), &parse(text).unwrap());
    assert!(
        changed("drain = \"1s\"\nfreebind = true\n[access-log]\ntarget = \"stdout\"").is_empty()
    );
    assert!(changed(BACKENDS).is_empty());
    assert_eq!(
        changed(
            "workers = 2\nmax-connections = 9\n[admin]\nlisten = \"none\"\n[health]\nsocket = \"none\"\n\
             [swap]\nsocket = \"none\"\n[kernel]\ntable = \"t\"\nflow-table = false\n"
        ),
        [
            "workers",
            "max-connections",
            "admin.listen",
            "health.endpoint",
            "swap.socket",
            "kernel.table",
            "kernel.flow-table"
        ]
    );
}

#[test]
fn a_rule_can_ask_whether_a_key_is_written() {
    let document = Document::inline(
        "x.toml",
        "version = \"v1\"\n[[frontend]]\nname = \"f\"\nlisten = []\nflows = {}\n",
    );
    let parsed = document.parse_with(|_: &LbProxy, check| {
        assert!(check.has(&at!["frontend", 0, "flows"]));
        assert!(!check.has(&at!["frontend", 0, "limits"]));
        assert!(!check.has(&at!["frontend", 1]));
        assert!(!check.has(&at!["swap"]));
    });
    assert!(parsed.is_ok());
}

#[test]
fn a_server_has_an_address_or_a_name() {
    for (text, expected) in [
        (
            "192.0.2.1:80",
            ServerAddress::Ip(([192, 0, 2, 1], 80).into()),
        ),
        ("web:80", ServerAddress::Host("web".to_owned(), 80)),
        (
            "web-1.example.:80",
            ServerAddress::Host("web-1.example.".to_owned(), 80),
        ),
        (
            "_http._tcp.web.example",
            ServerAddress::Service("_http._tcp.web.example".to_owned()),
        ),
        ("_a.b:1", ServerAddress::Host("_a.b".to_owned(), 1)),
    ] {
        let address: ServerAddress = text.parse().unwrap();
        assert_eq!(address, expected);
        assert_eq!(address.to_string(), text);
    }
    let long = format!("{}:80", "a".repeat(64));
    for (text, said) in [
        ("192.0.2.1", "a port is missing"),
        ("web.example", "a port is missing in `web.example`"),
        ("_http.web.example", "a port is missing"),
        (":80", "an IP address is missing"),
        ("192.0.2.300:80", "is no address of a server"),
        ("web example:80", "is no address of a server"),
        ("web.example:65536", "is no address of a server"),
        ("web..example:80", "is no address of a server"),
        ("/run/x.sock", "is no address of a server"),
        (long.as_str(), "is no address of a server"),
    ] {
        let error = text.parse::<ServerAddress>().unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}
