//! A node that asks, another that gives, and what it could be given instead.

use std::fs;

use config::Whole;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

use super::*;

const DAY: u64 = 86_400;

/// An authority, and what it signs.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }

    /// A certificate for servers that ends on a day, counted from today.
    fn signs(&self, key: &KeyPair, names: &[&str], in_days: u64) -> String {
        let names = names.iter().map(ToString::to_string);
        let mut params = CertificateParams::new(Vec::from_iter(names)).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        let (year, month, day) = daemon::calendar::civil_date(now() / DAY + in_days);
        params.not_after = date_time_ymd(
            i32::try_from(year).unwrap(),
            u8::try_from(month).unwrap(),
            u8::try_from(day).unwrap(),
        );
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.signed_by(key, &self.0).unwrap().pem()
    }
}

/// Two nodes of a site: `a`, whose certificate ends, and `b`, which has its later ones.
struct Site {
    directory: TempDir,
    authority: Authority,
    key: KeyPair,
    a: Renewal,
    b: Renewal,
}

const NAMES: [&str; 2] = ["a", "a.site.example"];

impl Site {
    /// The certificate of `a` ends in `first` days, and its later ones after `later`.
    fn new(first: u64, later: &[u64]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let key = KeyPair::generate().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("later-a")).unwrap();
        fs::create_dir(path("later-b")).unwrap();
        fs::write(path("ca.crt"), &authority.1).unwrap();
        fs::write(path("a.crt"), authority.signs(&key, &NAMES, first)).unwrap();
        let series: String = later
            .iter()
            .map(|days| authority.signs(&key, &NAMES, *days))
            .collect();
        fs::write(path("later-b/a.crt"), series).unwrap();
        let renewal = |node: &str| {
            let settings = Settings {
                days: Whole::clamped(30),
                certificate: path(&format!("{node}.crt")),
                later: path(&format!("later-{node}")),
                renewed: path(&format!("{node}-renewed.crt")),
            };
            Renewal::new(node.parse().unwrap(), path("ca.crt"), settings)
        };
        let (a, b) = (renewal("a"), renewal("b"));
        Self {
            directory,
            authority,
            key,
            a,
            b,
        }
    }

    /// What `a` says of a certificate.
    fn takes(&self, pem: &str) -> Result<(), String> {
        let (rendered, present) = self.a.present()?;
        self.a.take(&rendered, &present, pem)
    }

    fn counts(&self) -> [u64; 3] {
        let counts = self.a.counts();
        counts.map(|(_, count)| count.load(Ordering::Relaxed))
    }

    /// The days that the certificate which clients of `a` see has left.
    fn days_left(&self) -> u64 {
        self.a.present().unwrap().1.end / DAY - now() / DAY
    }
}

#[test]
fn another_node_gives_the_first_with_half_a_life_left() {
    let site = Site::new(3, &[3, 15, 18, 33, 48]);
    let a: NodeName = "a".parse().unwrap();
    let given = site.b.give(&a).unwrap();
    let given = One::read(given.as_bytes()).unwrap();
    assert_eq!(
        given.end / DAY - now() / DAY,
        18,
        "15 days are a little less"
    );
    let later = site.b.give_at(&a, now() + 20 * DAY).unwrap();
    assert_eq!(
        One::read(later.as_bytes()).unwrap().end / DAY - now() / DAY,
        48
    );
    let nothing = site.b.give_at(&a, now() + 40 * DAY).unwrap_err();
    assert!(matches!(nothing, Nothing::Ended(_)), "{nothing}");
    let stranger = site.b.give(&"c".parse().unwrap()).unwrap_err();
    assert!(matches!(stranger, Nothing::Unknown(_)), "{stranger}");
    fs::write(site.directory.path().join("later-b/a.crt"), "no PEM").unwrap();
    let damaged = site.b.give(&a).unwrap_err();
    assert!(
        matches!(damaged, Nothing::Unusable { .. } | Nothing::Ended(_)),
        "{damaged}"
    );
}

#[test]
fn what_is_given_is_checked_before_it_is_shown() {
    let site = Site::new(3, &[]);
    let other_key = KeyPair::generate().unwrap();
    let good = site.authority.signs(&site.key, &NAMES, 30);
    let refusals = [
        ("no PEM".to_owned(), "it is no PEM"),
        (
            site.authority.signs(&other_key, &NAMES, 30),
            "it is for another key",
        ),
        (
            site.authority.signs(&site.key, &["a"], 30),
            "it has other names",
        ),
        (
            site.authority
                .signs(&site.key, &["a", "a.site.example", "b"], 30),
            "it has other names",
        ),
        (
            site.authority.signs(&site.key, &NAMES, 3),
            "it ends no later",
        ),
        (
            Authority::new().signs(&site.key, &NAMES, 30),
            "it is not trusted",
        ),
    ];
    for (pem, expected) in refusals {
        let refused = site.takes(&pem).unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
        assert_eq!(site.days_left(), 3);
    }
    site.takes(&good).unwrap();
    assert_eq!(site.days_left(), 30);
    // Taken, given, refused.
    assert_eq!(site.counts(), [1, 0, 6]);
}

#[test]
fn a_newly_rendered_certificate_ends_what_was_renewed() {
    let site = Site::new(3, &[]);
    site.takes(&site.authority.signs(&site.key, &NAMES, 30))
        .unwrap();
    let rendered = site
        .authority
        .signs(&site.key, &["a", "b.site.example"], 20);
    fs::write(site.directory.path().join("a.crt"), rendered).unwrap();
    assert_eq!(
        site.days_left(),
        20,
        "with the new names, though it ends earlier"
    );
    fs::write(site.directory.path().join("a-renewed.crt"), "half a fi").unwrap();
    assert_eq!(site.days_left(), 20);
}

#[tokio::test]
async fn a_node_asks_one_after_another_until_one_gives() {
    let site = Site::new(3, &[3, 18, 33]);
    let others = || {
        ["dead", "wrong", "b"]
            .map(|name| (name.to_owned(), name))
            .to_vec()
    };
    let wrong = site.authority.signs(&site.key, &["a"], 30);
    let ask = async |name: &str| match name {
        "dead" => Err("no connection".to_owned()),
        "wrong" => Ok(wrong.clone()),
        _ => site
            .b
            .give(&"a".parse().unwrap())
            .map_err(|nothing| nothing.to_string()),
    };
    let renewed = async {
        while site.days_left() == 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = site.a.follow(others, ask) => {}
        () = renewed => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => {}
    }
    assert_eq!(site.days_left(), 18);
    // Taken, given, refused.
    assert_eq!(site.counts(), [1, 0, 1]);
}
