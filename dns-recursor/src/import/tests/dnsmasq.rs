//! Imported dnsmasq.conf files: the configuration that results, and what its own check says.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ::config::Refused;
use config_text::Files;
use daemon::config::Document;
use dns_cache::message::TtlLimits;

use crate::config::Config;
use crate::import::dnsmasq as import;

struct Memory(BTreeMap<PathBuf, &'static str>);

impl Files for Memory {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.as_bytes().to_vec())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let here = self
            .0
            .keys()
            .filter(|path| path.parent() == Some(directory));
        Ok(here.cloned().collect())
    }
}

#[expect(
    clippy::panic_in_result_fn,
    reason = "TOML that is not understood is a failed test, not an error of the file"
)]
fn read(files: &[(&str, &'static str)]) -> Result<(Config, Vec<String>), Vec<String>> {
    let told = |refused: Refused| refused.problems.0.iter().map(ToString::to_string).collect();
    let mut memory = Memory(
        files
            .iter()
            .map(|(path, text)| (path.into(), *text))
            .collect(),
    );
    match import(Path::new(files[0].0), &mut memory) {
        Ok(imported) => {
            let toml = imported
                .written("")
                .map_or_else(|error| error.to_string(), |toml| toml.to_string());
            let document = Document::inline("import", toml.as_str());
            let config = Config::from_document(&document).unwrap_or_else(|p| panic!("{p}\n{toml}"));
            let remarks = imported.notes.iter().map(ToString::to_string);
            Ok((config, remarks.collect()))
        }
        Err(refused) => Err(told(refused)),
    }
}

fn zones(config: &Config) -> Vec<String> {
    let zone = |f: &crate::config::Forward| format!("{} {:?}", f.zone, f.upstreams);
    config.forwards.iter().map(zone).collect()
}

#[test]
fn a_nodes_dnsmasq_keeps_its_servers_and_its_bounds() {
    let (config, remarks) = read(&[
        ("/etc/dnsmasq.conf", "conf-dir=/etc/dnsmasq.d,.bak\n"),
        (
            "/etc/dnsmasq.d/origin-dns.conf",
            "no-resolv\ndomain-needed\nno-negcache\nmax-cache-ttl=1\nenable-dbus\ndns-forward-max=10000\n\
             cache-size=10000\nbind-dynamic\nmin-port=1024\nexcept-interface=lo\n# End of config\n",
        ),
        (
            "/etc/dnsmasq.d/origin-upstream-dns.conf",
            "server=172.22.122.3\nserver=172.22.122.2 # second\nserver=172.22.122.4#5353\n",
        ),
        ("/etc/dnsmasq.d/node.conf", "server=/in-addr.arpa/cluster.local/127.0.0.1#5301\n"),
        ("/etc/dnsmasq.d/old.bak", "nonsense=1\n"),
    ])
    .unwrap();
    assert_eq!(
        zones(&config),
        [
            ". [172.22.122.3:53, 172.22.122.2:53, 172.22.122.4:5353]",
            "cluster.local. [127.0.0.1:5301]",
            "in-addr.arpa. [127.0.0.1:5301]",
        ]
    );
    assert_eq!(
        (
            config.file.cache.entries,
            config.file.cache.negative_entries
        ),
        (10_000, 0)
    );
    assert_eq!(
        (
            TtlLimits::of(&config.file.cache).positive_max,
            config.file.resolve.max_questions.get()
        ),
        (1, 10_000)
    );
    assert!(config.file.local.domain_needed);
    assert_eq!(config.file.hosts.files, [Path::new("/etc/hosts")]);
    for words in ["`enable-dbus`", "`except-interface=lo`"] {
        assert!(
            remarks.iter().any(|remark| remark.contains(words)),
            "{words}: {remarks:#?}"
        );
    }
    assert_eq!(remarks.len(), 2);
}

#[test]
fn names_and_hosts_files_are_carried_over() {
    let (config, remarks) = read(&[(
        "d.conf",
        "no-resolv\nno-hosts\nserver=192.0.2.53\naddn-hosts=/etc/nodes\nlocal-ttl=7\n\
         address=/apps.example/192.0.2.1\naddress=/apps.example/fd00::1\naddress=/ads.example/\n\
         host-record=api.example,api,192.0.2.2,fd00::2,30\ncname=www.example,api.example\n",
    )])
    .unwrap();
    let file = &config.file;
    let name = |name: &config::dns_recursor::GivenName| {
        let addresses = name.addresses.iter().map(ToString::to_string);
        let data: Vec<String> = addresses.chain(name.alias.clone()).collect();
        format!("{} {} {}", name.name, data.join(" "), name.ttl.0.as_secs())
    };
    let names: Vec<String> = file.name.iter().map(name).collect();
    assert_eq!(
        names,
        [
            "apps.example. 192.0.2.1 fd00::1 60",
            "*.apps.example. 192.0.2.1 fd00::1 60",
            "api.example. 192.0.2.2 fd00::2 30",
            "api. 192.0.2.2 fd00::2 30",
            "www.example. api.example. 60",
        ]
    );
    assert_eq!(file.hosts.files, [Path::new("/etc/nodes")]);
    assert_eq!(file.hosts.ttl.0.as_secs(), 7);
    assert_eq!(remarks.len(), 1, "{remarks:#?}");
    assert!(
        remarks[0].contains("`address=/ads.example/`"),
        "{remarks:?}"
    );
    let errors = read(&[(
        "d.conf",
        "address=x\naddress=/a/b\nhost-record=a\ncname=a\n",
    )]);
    assert_eq!(errors.unwrap_err().len(), 5);
}

#[test]
fn without_no_resolv_the_systems_servers_are_used() {
    let resolv = ("/run/resolv", "nameserver 192.0.2.1\nnameserver fd00::1\n");
    let conf = (
        "d.conf",
        "listen-address=127.0.0.1,::1\nport=5300\nresolv-file=/run/resolv\nserver=192.0.2.9\n",
    );
    let (config, _) = read(&[conf, resolv]).unwrap();
    assert_eq!(
        zones(&config),
        [". [192.0.2.9:53, 192.0.2.1:53, [fd00::1]:53]"]
    );
    let listen: Vec<String> = config.file.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:5300", "[::1]:5300"]);
}

#[test]
fn a_name_server_of_the_system_that_is_this_server_is_left_out() {
    let resolv = (
        "/etc/resolv.conf",
        "nameserver 127.0.0.1\nnameserver 192.0.2.1\nnameserver ::1\n",
    );
    for (conf, expected, n_remarks) in [
        ("cache-size=1\n", ". [192.0.2.1:53]", 2),
        (
            "listen-address=127.0.0.1\n",
            ". [192.0.2.1:53, [::1]:53]",
            1,
        ),
        ("port=5300\n", ". [127.0.0.1:53, 192.0.2.1:53, [::1]:53]", 0),
    ] {
        let (config, remarks) = read(&[("d.conf", conf), resolv]).unwrap();
        assert_eq!(zones(&config), [expected], "{conf}");
        assert_eq!(remarks.len(), n_remarks, "{conf}: {remarks:?}");
    }
}

#[test]
fn what_is_lost_is_said_and_what_is_wrong_is_told() {
    let (config, remarks) = read(&[(
        "d.conf",
        "no-resolv\naddress=/apps.example/192.0.2.1\nlocal=/lan/\nserver=/x.example/192.0.2.1@eth0\ndhcp-range=a\n\
         use-stale-cache=3600\nbogus-priv\nlog-queries\n",
    )])
    .unwrap();
    assert!(config.file.query_log.enabled);
    assert_eq!(remarks.len(), 3, "{remarks:#?}");
    assert_eq!(zones(&config), ["x.example. [192.0.2.1:53]"]);
    assert_eq!(config.file.stale.max_age.0.as_secs(), 3600);
    let errors = read(&[(
        "d.conf",
        "  port=x\nserver=nowhere\ncache-size=many\nconf-file=/none\n",
    )])
    .unwrap_err();
    for expected in [
        "d.conf:1:3: `x`",
        "d.conf:2:1: `nowhere`",
        "d.conf:3:1: `many`",
        "cannot read /none",
    ] {
        assert!(
            errors.iter().any(|error| error.starts_with(expected)),
            "{expected}: {errors:?}"
        );
    }
}
