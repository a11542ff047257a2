use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

use super::certificate::{Audience, Authority, Reason, lacks};
use super::revoked::Revoked;
use super::*;

/// The directory of a site file.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join("pki").join(name)).unwrap()
    }

    fn write(&self, name: &str, contents: &[u8]) {
        fs::write(self.0.path().join("pki").join(name), contents).unwrap();
    }

    fn make(&self, site: &Site, renew: bool) -> anyhow::Result<()> {
        let options = MakeOptions { days: 1825, renew };
        Store::new(self.0.path(), site).make(site, options)
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
    let home = Home::new();
    let site = site();
    fs::write(home.0.path().join("users"), "a:$2y$05$x\n").unwrap();
    assert!(load(home.0.path(), &site).is_err());
    home.make(&site, false).unwrap();
    let before = FILES.map(|name| home.read(name));
    home.make(&site, false).unwrap();
    assert_eq!(FILES.map(|name| home.read(name)), before);
    for name in FILES.iter().filter(|name| name.ends_with(".key")) {
        let mode = fs::metadata(home.0.path().join("pki").join(name)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
    }
    let secrets = load(home.0.path(), &site).unwrap();
    assert_eq!(secrets.nodes.len(), 2);
    assert_eq!(
        secrets.registry_users.as_deref(),
        Some(&b"a:$2y$05$x\n"[..])
    );
    assert_eq!(remarks(home.0.path(), &site), [""; 0]);
}

#[test]
fn the_authority_may_sign_for_the_site_alone() {
    let home = Home::new();
    let mut site = site();
    site.registry.users = None;
    home.make(&site, false).unwrap();
    let permitted = |home: &Home| {
        let facts = Facts::read(&home.read("ca.crt")).unwrap();
        Vec::from_iter(facts.permitted.unwrap())
    };
    let before = [
        "127.0.0.1",
        "192.168.7.13",
        "192.168.7.14",
        "::1",
        "localhost",
        "master-0",
        "master-1",
        "ocp4.redhat.ren",
    ];
    assert_eq!(permitted(&home), before);
    let (key, leaf) = (home.read("ca.key"), home.read("nodes/master-0.crt"));
    // Another node: a new certificate of the authority with the same key, so what it has signed stays good.
    let mut more = site.nodes[1].clone();
    let (name, address) = ("master-2".to_owned(), "192.168.7.15".to_owned());
    more.name.clone_from(&name);
    more.addresses = vec![address.parse().unwrap()];
    site.nodes.push(more);
    let old = home.read("ca.crt");
    home.make(&site, false).unwrap();
    let (new, after) = (home.read("ca.crt"), permitted(&home));
    home.write("ca.crt", &old);
    let error = load(home.0.path(), &site).unwrap_err().to_string();
    assert!(error.contains("it may not sign for every node"), "{error}");
    home.write("ca.crt", &new);
    assert!(
        after.contains(&name) && after.contains(&address),
        "{after:?}"
    );
    assert_eq!(
        (home.read("ca.key"), home.read("nodes/master-0.crt")),
        (key, leaf)
    );
    assert_eq!(remarks(home.0.path(), &site), [""; 0]);
    // And one less.
    site.nodes.pop();
    assert_eq!(remarks(home.0.path(), &site).len(), 1);
    home.make(&site, false).unwrap();
    assert_eq!(permitted(&home), before);
}

#[test]
fn a_node_is_known_by_all_its_names() {
    let home = Home::new();
    let mut site = site();
    site.vips = vec![site::Vip {
        name: "api".to_owned(),
        role: site::VipRole::Api,
        addresses: vec!["192.168.7.100/24".parse().unwrap()],
        router_id: None,
    }];
    site.page = Some(site::Page {
        names: vec!["status".to_owned()],
        port: 5446,
        users: None,
        client_ca: None,
        open: true,
    });
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
            "status.ocp4.redhat.ren",
        ]
    );
}

#[test]
fn only_what_does_not_do_any_more_is_made_anew_and_no_key_is() {
    let home = Home::new();
    let mut site = site();
    home.make(&site, false).unwrap();
    let before = FILES.map(|name| home.read(name));
    // Another address of one node.
    site.nodes[0].addresses = vec!["192.168.7.23".parse().unwrap()];
    let said = remarks(home.0.path(), &site);
    assert!(
        said[0].contains("it could sign for other names"),
        "{said:?}"
    );
    assert!(said[1].contains("it was not for 192.168.7.23"), "{said:?}");
    fs::write(home.0.path().join("users"), "").unwrap();
    let problems = load(home.0.path(), &site).unwrap_err();
    assert_eq!(problems.0.len(), 2, "{problems}");
    home.make(&site, false).unwrap();
    let changed: Vec<&str> = FILES
        .into_iter()
        .zip(&before)
        .filter(|(name, before)| home.read(name) != **before)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, ["ca.crt", "nodes/master-0.crt"]);
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
    let home = Home::new();
    let site = site();
    home.make(&site, false).unwrap();
    let (first, second) = (
        home.read("nodes/master-0.crt"),
        home.read("nodes/master-1.crt"),
    );
    home.write("nodes/master-0.crt", &second);
    assert!(remarks(home.0.path(), &site)[0].contains("it belonged to another key"));
    home.write("nodes/master-0.crt", b"x");
    assert!(remarks(home.0.path(), &site)[0].contains("it was no PEM"));
    home.write("nodes/master-0.crt", &first);
    let other = Home::new();
    other.make(&site, false).unwrap();
    home.write("ca.crt", &other.read("ca.crt"));
    assert!(remarks(home.0.path(), &site)[0].contains("another authority had signed it"));
    let error = home.make(&site, false).unwrap_err();
    assert!(
        error.to_string().contains("do not belong together"),
        "{error}"
    );
}

#[test]
fn an_authority_may_be_kept_elsewhere_until_something_is_to_be_signed() {
    let home = Home::new();
    let mut site = site();
    home.make(&site, false).unwrap();
    fs::rename(
        home.0.path().join("pki/ca.key"),
        home.0.path().join("ca.key"),
    )
    .unwrap();
    home.make(&site, false).unwrap();
    site.registry.names.push("mirror".to_owned());
    let error = home.make(&site, false).unwrap_err().to_string();
    assert!(
        error.contains("it was not for mirror.ocp4.redhat.ren"),
        "{error}"
    );
    assert!(!home.0.path().join("pki/ca.key").exists());
}

#[test]
fn what_ends_soon_is_made_anew() {
    let home = Home::new();
    let site = site();
    home.make(&site, false).unwrap();
    let authority = Authority::of(&site, Facts::read(&home.read("ca.crt")).unwrap());
    let pem = home.read("nodes/master-0.crt");
    let facts = Facts::read(&pem).unwrap();
    let names = names(&site, &site.nodes[0]);
    for (today, reason) in [
        (facts.last_day - 90, None),
        (facts.last_day - 89, Some(Reason::Ends { days: 89 })),
        (facts.last_day + 5, Some(Reason::Ends { days: 0 })),
    ] {
        assert_eq!(
            lacks(
                Some(&pem),
                (&facts.key, Audience::All),
                &names,
                &authority,
                today
            ),
            reason
        );
    }
}

//--- An authority elsewhere

/// An authority and one below it that signs, as companies have them.
struct Company {
    root: String,
    issuing: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Company {
    fn new() -> Self {
        let authority = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            (params, KeyPair::generate().unwrap())
        };
        let (params, key) = authority("company root");
        let root = params.self_signed(&key).unwrap().pem();
        let top = Issuer::new(params, key);
        let (params, key) = authority("company issuing");
        let issuing = params.signed_by(&key, &top).unwrap().pem();
        Self {
            root,
            issuing,
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a request as it is, but for what `change` does to it.
    fn sign(&self, request: &[u8], change: impl Fn(&mut CertificateParams)) -> String {
        let text = String::from_utf8(request.to_vec()).unwrap();
        let mut request = CertificateSigningRequestParams::from_pem(&text).unwrap();
        change(&mut request.params);
        request.signed_by(&self.issuer).unwrap().pem()
    }
}

impl Home {
    fn accept(
        &self,
        site: &Site,
        authority: Option<&str>,
        files: &[&str],
    ) -> anyhow::Result<Vec<String>> {
        let put = |name: String, text: &str| {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let authority = authority.map(|text| put("root.crt".to_owned(), text));
        let files = files.iter().enumerate();
        let files: Vec<PathBuf> = files
            .map(|(number, text)| put(format!("{number}.crt"), text))
            .collect();
        Store::new(self.0.path(), site).accept(site, authority.as_deref(), &files)
    }

    fn request(&self, site: &Site) {
        Store::new(self.0.path(), site)
            .request(site, false)
            .unwrap();
    }
}

#[test]
fn an_authority_elsewhere_signs_what_is_asked_for() {
    let (home, site, company) = (Home::new(), site(), Company::new());
    fs::write(home.0.path().join("users"), "").unwrap();
    home.request(&site);
    let requests = ["nodes/master-0.csr", "nodes/master-1.csr"].map(|name| home.read(name));
    let signed = requests.map(|request| company.sign(&request, |_| {}));
    let error = home.accept(&site, None, &[&signed[0]]).unwrap_err();
    assert!(error.to_string().contains("--authority"), "{error}");
    // In any order, and what is between in a file of its own or in another's.
    let second = format!("{}{}", signed[1], company.issuing);
    let refused = home.accept(&site, Some(&company.root), &[&second, &signed[0]]);
    assert_eq!(refused.unwrap(), [""; 0]);
    assert!(!home.0.path().join("pki/nodes/master-0.csr").exists());
    // A server hands out the whole way to the authority.
    for name in ["nodes/master-0.crt", "nodes/master-1.crt"] {
        let chain = Facts::read_all(&home.read(name)).unwrap();
        let subjects: Vec<&str> = chain.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects[1..], ["company issuing"]);
    }
    assert_eq!(remarks(home.0.path(), &site), [""; 0]);
    let secrets = load(home.0.path(), &site).unwrap();
    assert_eq!(secrets.authority, company.root.as_bytes());
    // Nothing is asked for twice, and `make` leaves all as it is.
    home.request(&site);
    assert!(!home.0.path().join("pki/nodes/master-0.csr").exists());
    let before = home.read("nodes/master-0.crt");
    home.make(&site, false).unwrap();
    assert_eq!(home.read("nodes/master-0.crt"), before);
}

#[test]
fn what_does_not_do_is_refused_and_nothing_is_taken() {
    let (home, site, company) = (Home::new(), site(), Company::new());
    home.request(&site);
    let request = home.read("nodes/master-0.csr");
    let good = company.sign(&home.read("nodes/master-1.csr"), |_| {});
    let sign = |change: fn(&mut CertificateParams)| company.sign(&request, change);
    for (bad, said) in [
        (
            sign(|params| {
                params.subject_alt_names.pop();
            }),
            "it was not for ",
        ),
        (
            sign(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
            "it may not be used by clients (clientAuth)",
        ),
        (
            sign(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)),
            "it had ended",
        ),
        (
            Company::new().sign(&request, |_| {}),
            "another authority had signed it",
        ),
        ("nonsense".to_owned(), "it is no PEM"),
    ] {
        let files = [bad.as_str(), &good, &company.issuing];
        let refused = home.accept(&site, Some(&company.root), &files).unwrap();
        assert!(
            matches!(&refused[..], [one] if one.contains("0.crt: ") && one.contains(said)),
            "{said}: {refused:?}"
        );
        assert!(
            !home.0.path().join("pki/ca.crt").exists()
                && !home.0.path().join("pki/nodes/master-1.crt").exists()
        );
    }
    // A stranger's, and an authority that is none.
    let stranger = KeyPair::generate().unwrap();
    let stranger = CertificateParams::default().self_signed(&stranger).unwrap();
    let refused = home
        .accept(&site, Some(&company.root), &[&stranger.pem()])
        .unwrap();
    assert!(
        refused[0].contains("is for no key of this site"),
        "{refused:?}"
    );
    let refused = home.accept(&site, Some(&good), &[&good]).unwrap();
    assert!(refused[0].contains("not a CA certificate"), "{refused:?}");
}

#[test]
fn an_authority_of_the_sites_own_is_not_mixed_with_another() {
    let (home, site, company) = (Home::new(), site(), Company::new());
    home.make(&site, false).unwrap();
    let request = Store::new(home.0.path(), &site).request(&site, true);
    request.unwrap();
    let signed = company.sign(&home.read("nodes/master-0.csr"), |_| {});
    let files = [signed.as_str(), &company.issuing];
    let error = home.accept(&site, Some(&company.root), &files).unwrap_err();
    assert!(
        error.to_string().contains("move it and ca.crt away first"),
        "{error}"
    );
}

//--- Revocation

#[test]
fn a_revoked_node_loses_its_key_and_all_its_certificates() {
    let home = Home::new();
    let mut site = site();
    site.registry.users = None;
    let revoke =
        |home: &Home, site: &Site, node: &str| Store::new(home.0.path(), site).revoke(site, node);
    let serial = |pem: &[u8]| Facts::read(pem).unwrap().serial;
    let listed = |home: &Home| {
        let authority = Facts::read(&home.read("ca.crt")).unwrap();
        Revoked::read(&home.read("ca.crl"), &[authority])
            .unwrap()
            .serials()
    };
    home.make(&site, false).unwrap();
    let first = home.read("nodes/master-0.crt");
    // Renewed with the same key: the former one would still be believed.
    home.make(&site, true).unwrap();
    let (second, key) = (
        home.read("nodes/master-0.crt"),
        home.read("nodes/master-0.key"),
    );
    assert_ne!(serial(&first), serial(&second));
    assert!(load(home.0.path(), &site).unwrap().revoked.is_none());

    revoke(&home, &site, "master-0").unwrap();
    assert_eq!(
        listed(&home),
        BTreeSet::from([serial(&first), serial(&second)])
    );
    let error = load(home.0.path(), &site).unwrap_err().to_string();
    assert!(error.contains("master-0.crt"), "{error}");
    // `check` names a revoked certificate that is brought back.
    home.write("nodes/master-0.crt", &second);
    home.write("nodes/master-0.key", &key);
    let remarks = remarks(home.0.path(), &site);
    assert!(
        matches!(&remarks[..], [one] if one.contains("it was revoked")),
        "{remarks:?}"
    );
    fs::remove_file(home.0.path().join("pki/nodes/master-0.key")).unwrap();

    // A new machine gets a new key, and the list stays.
    home.make(&site, false).unwrap();
    assert_ne!(home.read("nodes/master-0.key"), key);
    let secrets = load(home.0.path(), &site).unwrap();
    assert_eq!(secrets.revoked.as_deref(), Some(&home.read("ca.crl")[..]));
    assert!(!listed(&home).contains(&serial(&home.read("nodes/master-0.crt"))));

    // Another one is added to the list; a third time there is nothing of it.
    let other = serial(&home.read("nodes/master-1.crt"));
    revoke(&home, &site, "master-1").unwrap();
    assert!(listed(&home).contains(&other) && listed(&home).contains(&serial(&second)));
    let error = revoke(&home, &site, "master-1").unwrap_err().to_string();
    assert!(error.contains("nothing to revoke"), "{error}");
    let error = revoke(&home, &site, "nobody").unwrap_err().to_string();
    assert!(error.contains("nothing to revoke"), "{error}");
}

#[test]
fn a_list_that_nodes_would_refuse_is_not_rendered() {
    let home = Home::new();
    let mut site = site();
    site.registry.users = None;
    home.make(&site, false).unwrap();
    Store::new(home.0.path(), &site)
        .revoke(&site, "master-0")
        .unwrap();
    home.make(&site, false).unwrap();
    assert!(load(home.0.path(), &site).is_ok());
    let good = home.read("ca.crl");
    let text = String::from_utf8(good.clone()).unwrap();
    // Another authority with the same name.
    let stranger = Home::new();
    stranger.make(&site, false).unwrap();
    Store::new(stranger.0.path(), &site)
        .revoke(&site, "master-0")
        .unwrap();
    for (list, expected) in [
        (stranger.read("ca.crl"), "has signed it"),
        (b"nothing".to_vec(), "it is no PEM"),
        (home.read("ca.crt"), "something else than lists"),
        (
            text.replace("X509 CRL", "X509 CRX").into_bytes(),
            "something else than lists",
        ),
    ] {
        home.write("ca.crl", &list);
        let error = load(home.0.path(), &site).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let remarks = remarks(home.0.path(), &site);
        assert!(
            remarks.iter().any(|one| one.contains(expected)),
            "{remarks:?}"
        );
    }
    home.write("ca.crl", &good);
    assert!(load(home.0.path(), &site).is_ok());
}

//--- Certificates for clients of years ahead

#[test]
fn certificates_for_clients_are_made_for_years_ahead_and_convince_clients_alone() {
    let home = Home::new();
    let mut site = site();
    site.registry.users = None;
    // Without the setting a node has one certificate, for all.
    home.make(&site, false).unwrap();
    assert!(load(home.0.path(), &site).unwrap().served.is_empty());
    site.certificate_days = Some(30);
    let said = remarks(home.0.path(), &site);
    assert!(said[0].contains("clients would believe it"), "{said:?}");
    assert!(load(home.0.path(), &site).is_err());

    home.make(&site, false).unwrap();
    assert_eq!(remarks(home.0.path(), &site), [""; 0]);
    let own = Facts::read(&home.read("nodes/master-0.crt")).unwrap();
    assert!(own.may_ask && !own.may_serve);
    let pem = home.read("nodes/served/master-0.crt");
    let series = Facts::read_series(&pem).unwrap();
    for facts in &series {
        assert!(facts.may_serve && !facts.may_ask);
        assert_eq!((&facts.key, &facts.names), (&own.key, &own.names));
    }
    let apart: BTreeSet<u64> = series
        .windows(2)
        .map(|pair| pair[1].last_day - pair[0].last_day)
        .collect();
    assert_eq!(apart, BTreeSet::from([15]));
    assert!(own.last_day - series.last().unwrap().last_day < 15);

    // The node has the first, the others have all.
    let secrets = load(home.0.path(), &site).unwrap();
    assert_eq!(secrets.served["master-0"], pem);
    let first = secrets.first_served("master-0").unwrap();
    assert_eq!(Facts::read_series(first).unwrap().len(), 1);
    assert_eq!(Facts::read(first).unwrap().serial, series[0].serial);

    // So many that no manifest would hold them.
    let fewer = Site {
        certificate_days: Some(4),
        ..site.clone()
    };
    let error = home.make(&fewer, false).unwrap_err().to_string();
    assert!(error.contains("may have 1 to 250"), "{error}");
    assert_eq!(home.read("nodes/served/master-0.crt"), pem);

    // Good as they are; others when the site file has another number of days, or a node other names.
    home.make(&site, false).unwrap();
    assert_eq!(home.read("nodes/served/master-0.crt"), pem);
    site.certificate_days = Some(60);
    let said = remarks(home.0.path(), &site);
    assert!(
        said[0].contains("`certificate-days` was another"),
        "{said:?}"
    );
    home.make(&site, false).unwrap();
    let changed = home.read("nodes/served/master-0.crt");
    assert!(changed.len() < pem.len());
    site.nodes[0].addresses = vec!["192.168.7.23".parse().unwrap()];
    home.make(&site, false).unwrap();
    assert_ne!(home.read("nodes/served/master-0.crt"), changed);
    assert_eq!(remarks(home.0.path(), &site), [""; 0]);
}

#[test]
fn revoking_a_node_puts_all_its_certificates_on_the_list() {
    let home = Home::new();
    let mut site = site();
    site.registry.users = None;
    site.certificate_days = Some(200);
    home.make(&site, false).unwrap();
    let mut made: BTreeSet<Vec<u8>> = Facts::read_series(&home.read("nodes/served/master-0.crt"))
        .unwrap()
        .into_iter()
        .map(|facts| facts.serial)
        .collect();
    made.insert(
        Facts::read(&home.read("nodes/master-0.crt"))
            .unwrap()
            .serial,
    );
    Store::new(home.0.path(), &site)
        .revoke(&site, "master-0")
        .unwrap();
    let authority = Facts::read(&home.read("ca.crt")).unwrap();
    let listed = Revoked::read(&home.read("ca.crl"), &[authority]).unwrap();
    assert_eq!(listed.serials(), made);
    assert!(made.len() > 10, "{}", made.len());
    // A new machine gets others.
    home.make(&site, false).unwrap();
    let again = Facts::read_series(&home.read("nodes/served/master-0.crt")).unwrap();
    assert!(again.iter().all(|facts| !made.contains(&facts.serial)));
    assert!(load(home.0.path(), &site).is_ok());
}
