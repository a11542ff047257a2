use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A directory of its own, which goes away.
struct Home(PathBuf);

impl Home {
    fn new(label: &str) -> Self {
        let name = format!("outpost-pki-{label}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join("pki").join(name)).unwrap()
    }

    fn write(&self, name: &str, contents: &[u8]) {
        fs::write(self.0.join("pki").join(name), contents).unwrap();
    }

    fn make(&self, site: &Site, renew: bool) -> anyhow::Result<()> {
        let args = MakeArgs {
            site: PathBuf::new(),
            days: 1825,
            renew,
        };
        Store::new(&self.0, site).make(site, &args)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn site() -> Site {
    let mut site = Site::example();
    site.registry.users = Some("users".into());
    site.nodes.truncate(2);
    site
}

const FILES: [&str; 8] = [
    "ca.crt",
    "ca.key",
    "nodes/master-0.crt",
    "nodes/master-0.key",
    "nodes/master-1.crt",
    "nodes/master-1.key",
    "registry-token.key",
    "registry-token.pub",
];

#[test]
fn everything_is_made_once_and_keys_are_private() {
    let home = Home::new("once");
    let site = site();
    fs::write(home.0.join("users"), "a:$2y$05$x\n").unwrap();
    assert!(load(&home.0, &site).is_err());
    home.make(&site, false).unwrap();
    let before = FILES.map(|name| home.read(name));
    home.make(&site, false).unwrap();
    assert_eq!(FILES.map(|name| home.read(name)), before);
    for name in FILES.iter().filter(|name| name.ends_with(".key")) {
        let mode = fs::metadata(home.0.join("pki").join(name)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
    }
    let secrets = load(&home.0, &site).unwrap();
    assert_eq!(secrets.nodes.len(), 2);
    assert_eq!(
        secrets.registry_users.as_deref(),
        Some(&b"a:$2y$05$x\n"[..])
    );
    assert_eq!(remarks(&home.0, &site), [""; 0]);
}

#[test]
fn a_node_is_known_by_all_its_names() {
    let home = Home::new("names");
    let mut site = site();
    site.vips = vec![crate::site::Vip {
        name: "api".to_owned(),
        role: crate::site::VipRole::Api,
        addresses: vec!["192.168.7.100/24".parse().unwrap()],
        router_id: None,
    }];
    home.make(&site, false).unwrap();
    let facts = Facts::read(&home.read("nodes/master-0.crt")).unwrap();
    assert_eq!(facts.subject, "master-0");
    assert_eq!(
        Vec::from_iter(facts.names),
        [
            "127.0.0.1",
            "192.168.7.100",
            "192.168.7.13",
            "::1",
            "localhost",
            "master-0",
            "master-0.ocp4.redhat.ren",
            "quay.ocp4.redhat.ren",
            "registry.ocp4.redhat.ren",
        ]
    );
}

#[test]
fn only_what_does_not_do_any_more_is_made_anew_and_no_key_is() {
    let home = Home::new("anew");
    let mut site = site();
    home.make(&site, false).unwrap();
    let before = FILES.map(|name| home.read(name));
    // Another address of one node.
    site.nodes[0].addresses = vec!["192.168.7.23".parse().unwrap()];
    assert!(remarks(&home.0, &site)[0].contains("it was not for 192.168.7.23"));
    fs::write(home.0.join("users"), "").unwrap();
    let problems = load(&home.0, &site).unwrap_err();
    assert_eq!(problems.0.len(), 1, "{problems}");
    home.make(&site, false).unwrap();
    let changed: Vec<&str> = FILES
        .into_iter()
        .zip(&before)
        .filter(|(name, before)| home.read(name) != **before)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, ["nodes/master-0.crt"]);
    // Everything, as asked: the authority keeps its key, so what it has signed before is good.
    let old = Facts::read(&home.read("nodes/master-0.crt")).unwrap();
    home.make(&site, true).unwrap();
    let authority = Facts::read(&home.read("ca.crt")).unwrap();
    assert!(old.is_signed_by(&authority));
    for (name, before) in FILES.iter().zip(&before) {
        assert_eq!(
            home.read(name) == *before,
            !name.ends_with(".crt"),
            "{name}"
        );
    }
}

#[test]
fn files_that_do_not_belong_together_are_told() {
    let home = Home::new("mixed");
    let site = site();
    home.make(&site, false).unwrap();
    let (first, second) = (
        home.read("nodes/master-0.crt"),
        home.read("nodes/master-1.crt"),
    );
    home.write("nodes/master-0.crt", &second);
    assert!(remarks(&home.0, &site)[0].contains("it belonged to another key"));
    home.write("nodes/master-0.crt", b"x");
    assert!(remarks(&home.0, &site)[0].contains("it was no PEM"));
    home.write("nodes/master-0.crt", &first);
    let other = Home::new("other");
    other.make(&site, false).unwrap();
    home.write("ca.crt", &other.read("ca.crt"));
    assert!(remarks(&home.0, &site)[0].contains("another authority had signed it"));
    let error = home.make(&site, false).unwrap_err();
    assert!(
        error.to_string().contains("do not belong together"),
        "{error}"
    );
}

#[test]
fn an_authority_may_be_kept_elsewhere_until_something_is_to_be_signed() {
    let home = Home::new("elsewhere");
    let mut site = site();
    home.make(&site, false).unwrap();
    fs::rename(home.0.join("pki/ca.key"), home.0.join("ca.key")).unwrap();
    home.make(&site, false).unwrap();
    site.registry.names.push("mirror".to_owned());
    let error = home.make(&site, false).unwrap_err().to_string();
    assert!(
        error.contains("it was not for mirror.ocp4.redhat.ren"),
        "{error}"
    );
    assert!(!home.0.join("pki/ca.key").exists());
}

#[test]
fn what_ends_soon_is_made_anew() {
    let home = Home::new("ends");
    let site = site();
    home.make(&site, false).unwrap();
    let authority = Facts::read(&home.read("ca.crt")).unwrap();
    let pem = home.read("nodes/master-0.crt");
    let facts = Facts::read(&pem).unwrap();
    let names = names(&site, &site.nodes[0]);
    for (today, reason) in [
        (facts.last_day - 90, None),
        (facts.last_day - 89, Some(Reason::Ends { days: 89 })),
        (facts.last_day + 5, Some(Reason::Ends { days: 0 })),
    ] {
        assert_eq!(
            lacks(Some(&pem), &facts.key, &names, &authority, today),
            reason
        );
    }
}
