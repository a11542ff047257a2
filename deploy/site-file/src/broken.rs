//! Site files that are broken in one place each: the place that is shown, and what to do about it.

use super::remedy;
use super::tests::document;

/// A site file that is broken, and the first thing that is said of it.
struct Broken {
    /// Lines in the head of the file.
    top: &'static str,
    /// Lines of the first node.
    node: &'static str,
    /// Lines at the end.
    end: &'static str,
    /// The line and column.
    place: &'static str,
    /// The remedy.
    remedy: &'static str,
}

#[test]
fn every_broken_file_is_shown_with_its_place_and_a_remedy() {
    for broken in BROKEN {
        let document = document(broken.top, broken.node, broken.end);
        let problems = super::parse(&document).site.unwrap_err();
        for problem in &problems.0 {
            assert!(remedy(&problem.message).is_some(), "{problem}");
        }
        let first = problems.0.first().unwrap();
        let position = first.position.as_ref().unwrap();
        let place = format!("{}:{}", position.line, position.column);
        assert_eq!(
            (place.as_str(), remedy(&first.message)),
            (broken.place, Some(broken.remedy)),
            "{first}\n{}",
            document.text
        );
    }
}

const BROKEN: &[Broken] = &[
    Broken {
        top: "interface = br-ex",
        node: "",
        end: "",
        place: "5:13",
        remedy: "put the text into quotes, as in name = \"ocp4\"",
    },
    Broken {
        top: "gateways = [\"192.0.2.1\"",
        node: "",
        end: "",
        place: "6:1",
        remedy: "put a comma between two values, or close the list with ] before this line",
    },
    Broken {
        top: "interface = \"eth0",
        node: "",
        end: "",
        place: "5:18",
        remedy: "close the text with a quote on the same line",
    },
    Broken {
        top: "interface \"eth0\"",
        node: "",
        end: "",
        place: "5:11",
        remedy: "write KEY = VALUE, or [TABLE]",
    },
    Broken {
        top: "interface =",
        node: "",
        end: "",
        place: "5:12",
        remedy: "put the text into quotes, as in name = \"ocp4\"",
    },
    Broken {
        top: "interface = \"eth0\" gateways = []",
        node: "",
        end: "",
        place: "5:20",
        remedy: "one line has one KEY = VALUE, [TABLE] or [[LIST]]",
    },
    Broken {
        top: "name = \"again\"",
        node: "",
        end: "",
        place: "5:1",
        remedy: "write the key once, or a [[…]] for a list of tables",
    },
    Broken {
        top: "dns.serial = 99999999999999999999",
        node: "",
        end: "",
        place: "5:14",
        remedy: "write a number of at most 9223372036854775807",
    },
    Broken {
        top: "[dns\nttl = 60",
        node: "",
        end: "",
        place: "5:5",
        remedy: "close the head of the table with ]",
    },
    Broken {
        top: "nmae = \"x\"",
        node: "",
        end: "",
        place: "5:1",
        remedy: "did you mean `name`?",
    },
    Broken {
        top: "quux = \"x\"",
        node: "",
        end: "",
        place: "5:1",
        remedy: "known here: `name`, `domain`, `networks`, `gateways`, `clients`, `interface`, `pki`, `certificate-days`, `node`, `dns`, `record`, `time`, `health`, `vip`, `registry`, `page`, `cluster`, `publish`, `platform`",
    },
    Broken {
        top: "interface = 7",
        node: "",
        end: "",
        place: "5:13",
        remedy: "put the text into quotes",
    },
    Broken {
        top: "gateways = 7",
        node: "",
        end: "",
        place: "5:12",
        remedy: "write a list, as in [\"a\", \"b\"]",
    },
    Broken {
        top: "dns.serial = \"x\"",
        node: "",
        end: "",
        place: "5:14",
        remedy: "write a number of 0 to 4294967295, without quotes",
    },
    Broken {
        top: "dns.ttl = -1",
        node: "",
        end: "",
        place: "5:11",
        remedy: "write 0 to 2147483647",
    },
    Broken {
        top: "registry.anonymous-pull = \"yes\"",
        node: "",
        end: "",
        place: "5:27",
        remedy: "write true or false, without quotes",
    },
    Broken {
        top: "dns = 7",
        node: "",
        end: "",
        place: "5:7",
        remedy: "write a table, as in [dns]",
    },
    Broken {
        top: "gateways = [\"192.0.2\"]",
        node: "",
        end: "",
        place: "5:13",
        remedy: "as in \"192.0.2.1\" or \"2001:db8::1\"",
    },
    Broken {
        top: "clients = [\"10.0.0.1/8\"]",
        node: "",
        end: "",
        place: "5:12",
        remedy: "the network is 10.0.0.0/8",
    },
    Broken {
        top: "platform.openshift = \"3.11\"",
        node: "",
        end: "",
        place: "5:22",
        remedy: "as in \"4.18\"",
    },
    Broken {
        top: "platform.podman = \"new\"",
        node: "",
        end: "",
        place: "5:19",
        remedy: "as in \"4.9\", nor \"none\"",
    },
    Broken {
        top: "registry.port = 0",
        node: "",
        end: "",
        place: "5:17",
        remedy: "ports are 1 to 65535",
    },
    Broken {
        top: "health.interval = \"2 heap\"",
        node: "",
        end: "",
        place: "5:19",
        remedy: "write a number and a unit, as in \"250ms\", \"2s\", \"5m\", \"1h\" or \"7d\"",
    },
    Broken {
        top: "",
        node: "",
        end: "[[node]]\nname = \"w\"\naddress = \"192.0.2.20\"",
        place: "21:1",
        remedy: "write it, as in role = \"master\"",
    },
    Broken {
        top: "",
        node: "",
        end: "[[node]]\nname = \"w\"\nrole = \"wroker\"\naddress = \"192.0.2.20\"",
        place: "23:8",
        remedy: "did you mean `worker`?",
    },
    Broken {
        top: "",
        node: "",
        end: "[[registry.quota]]\nrepositories = \"a\"",
        place: "21:1",
        remedy: "write it, as in size = \"20GiB\"",
    },
    Broken {
        top: "",
        node: "services = [\"helathd\"]",
        end: "",
        place: "12:13",
        remedy: "did you mean `healthd`?",
    },
    Broken {
        top: "interface = \"a/b\"",
        node: "",
        end: "",
        place: "5:13",
        remedy: "`ip link` shows them",
    },
    Broken {
        top: "dns.refresh = \"3 H\"",
        node: "",
        end: "",
        place: "5:15",
        remedy: "as in 180, 3H or 1W2D",
    },
    Broken {
        top: "dns.contact = \"a@b\"",
        node: "",
        end: "",
        place: "5:15",
        remedy: "take the others out",
    },
    Broken {
        top: "registry.names = [\"Quay\"]",
        node: "",
        end: "",
        place: "5:19",
        remedy: "write small ones",
    },
    Broken {
        top: "",
        node: "",
        end: "[[record]]\nname = \"a\"\ntype = \"BOGUS\"\nvalue = \"x\"",
        place: "24:9",
        remedy: "as in \"CNAME\", \"MX\" or \"TXT\"",
    },
    Broken {
        top: "",
        node: "",
        end: "[[record]]\nname = \"a\"\ntype = \"A\"\nvalue = \"192.0.2.300\"",
        place: "24:9",
        remedy: "write it as in a master file",
    },
    Broken {
        top: "",
        node: "",
        end: "[[record]]\nname = \"a\"\ntype = \"TXT\"",
        place: "22:8",
        remedy: "write the two that are meant",
    },
    Broken {
        top: "registry.port = 5301",
        node: "",
        end: "",
        place: "5:17",
        remedy: "choose another one",
    },
    Broken {
        top: "dns.upstreams = [\"192.0.2.14\"]",
        node: "",
        end: "",
        place: "5:18",
        remedy: "name a server outside",
    },
    Broken {
        top: "dns.name-servers = []",
        node: "",
        end: "",
        place: "1:1",
        remedy: "add one or the other",
    },
    Broken {
        top: "",
        node: "",
        end: "[[vip]]\nname = \"v\"\naddress = \"192.0.2.13\"",
        place: "22:8",
        remedy: "write `interface` at the top of the file, or in the [[node]]",
    },
    Broken {
        top: "",
        node: "",
        end: "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.14\"",
        place: "24:11",
        remedy: "give one of them another",
    },
    Broken {
        top: "",
        node: "",
        end: "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.3.14\"",
        place: "24:11",
        remedy: "correct it, or add its network to `networks`",
    },
    Broken {
        top: "",
        node: "",
        end: "[[node]]\nname = \"master-1\"\nrole = \"worker\"\naddress = \"192.0.2.20\"",
        place: "22:8",
        remedy: "choose another name",
    },
    Broken {
        top: "",
        node: "",
        end: "[[node]]\nname = \"w\"\nrole = \"worker\"",
        place: "22:8",
        remedy: "write one, as in address = \"192.168.7.13\"",
    },
    Broken {
        top: "",
        node: "services = [\"lb-proxy\"]",
        end: "",
        place: "9:8",
        remedy: "add it to `services`",
    },
    Broken {
        top: "",
        node: "",
        end: "[[vip]]\nname = \"v\"\naddress = \"192.0.2.100\"",
        place: "22:8",
        remedy: "write `interface` at the top of the file, or in the [[node]]",
    },
    Broken {
        top: "interface = \"eth0\"",
        node: "",
        end: "[[vip]]\nname = \"v\"\naddress = \"192.0.2.100\"\nrouter-id = 300",
        place: "24:13",
        remedy: "write a number of 1 to 255",
    },
    Broken {
        top: "",
        node: "",
        end: "[[publish]]\nname = \"web\"",
        place: "22:8",
        remedy: "write the TCP port that clients connect to, as in port = 8080",
    },
    Broken {
        top: "",
        node: "",
        end: "[[publish]]\nname = \"web\"\nport = 80\nvip = \"v\"",
        place: "24:7",
        remedy: "add a [[vip]] of this name",
    },
    Broken {
        top: "",
        node: "",
        end: "[[registry.mirror]]\nprefix = \"q\"\nupstream = \"quay.io\"",
        place: "23:12",
        remedy: "write https:// and a host, and a port if it is not the usual one, without a path or a user",
    },
    Broken {
        top: "",
        node: "",
        end: "[[registry.quota]]\nrepositories = \"a\"\nsize = \"0\"",
        place: "23:8",
        remedy: "write a size, as in \"20GiB\"",
    },
];
