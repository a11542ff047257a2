//! Certificates: reads them, checks that they still fit a site, and makes new ones.
//!
//! `today` is a parameter, in days since 1970; only keys and serial numbers are chance.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config_text::counted;
use daemon::calendar::civil_date;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, SerialNumber, date_time_ymd,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName};
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::revocation_list::CertificateRevocationList;

/// The content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The common name.
    pub(super) subject: String,
    /// Its serial number, as it is written.
    pub(super) serial: Vec<u8>,
    /// Host names and addresses.
    pub(super) names: BTreeSet<String>,
    /// The day of its end, since 1970.
    pub(super) last_day: u64,
    /// Whether it may be shown to clients, and to servers (RFC 5280 §4.2.1.12: anything, unless it says).
    pub(super) may_serve: bool,
    pub(super) may_ask: bool,
    /// Whether it may sign others.
    pub(super) is_authority: bool,
    /// The names and addresses that it may sign for; `None` if all (RFC 5280 §4.2.1.10).
    pub(super) permitted: Option<BTreeSet<String>>,
    /// Its public key, bare.
    pub(super) key: Vec<u8>,
    /// All of it.
    der: Vec<u8>,
}

impl Facts {
    /// Reads the first certificate of a PEM file.
    pub(super) fn read(pem: &[u8]) -> Result<Self, &'static str> {
        let (_, pem) = parse_x509_pem(pem).map_err(|_| "no PEM")?;
        Self::of(&pem)
    }

    /// Whether it ends soon, or has ended.
    pub(super) fn ends_soon(&self, today: u64) -> Option<Reason> {
        let days = self.days_left(today);
        (days < SOON).then_some(Reason::Ends { days })
    }

    /// Reads all certificates of a PEM file, [`MAX_CHAIN`] at most.
    pub(super) fn read_all(pem: &[u8]) -> Result<Vec<Self>, &'static str> {
        Self::read_up_to(
            pem,
            MAX_CHAIN,
            "more certificates than lead to any authority",
        )
    }

    /// Reads all certificates of a PEM file with a series, [`MAX_SERIES`] at most.
    pub(super) fn read_series(pem: &[u8]) -> Result<Vec<Self>, &'static str> {
        Self::read_up_to(pem, MAX_SERIES, "more certificates than are made")
    }

    fn read_up_to(
        pem: &[u8],
        most: usize,
        too_many: &'static str,
    ) -> Result<Vec<Self>, &'static str> {
        let mut all = Vec::new();
        for pem in Pem::iter_from_buffer(pem) {
            if all.len() == most {
                return Err(too_many);
            }
            all.push(Self::of(&pem.map_err(|_| "no PEM")?)?);
        }
        if all.is_empty() {
            return Err("no PEM");
        }
        Ok(all)
    }

    fn of(pem: &Pem) -> Result<Self, &'static str> {
        let certificate = pem.parse_x509().map_err(|_| "no certificate")?;
        let subject = certificate
            .subject()
            .iter_common_name()
            .find_map(|name| name.as_str().ok())
            .unwrap_or_default()
            .to_owned();
        let alternatives = certificate
            .subject_alternative_name()
            .map_err(|_| "a certificate with broken names")?;
        let names = alternatives
            .iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(shown)
            .collect();
        let usage = certificate
            .extended_key_usage()
            .map_err(|_| "a certificate with a broken usage")?
            .map(|extension| extension.value);
        let may = |one: fn(&ExtendedKeyUsage<'_>) -> bool| {
            usage.is_none_or(|usage| usage.any || one(usage))
        };
        let constraints = certificate
            .name_constraints()
            .map_err(|_| "a certificate with broken constraints")?;
        let permitted = constraints.and_then(|extension| {
            let subtrees = extension.value.permitted_subtrees.as_ref()?;
            let bases = subtrees
                .iter()
                .filter_map(|subtree| subtree_shown(&subtree.base));
            Some(bases.collect())
        });
        let seconds = certificate.validity().not_after.timestamp();
        Ok(Self {
            subject,
            serial: certificate.raw_serial().to_vec(),
            names,
            last_day: u64::try_from(seconds).unwrap_or(0) / DAY,
            may_serve: may(|usage| usage.server_auth),
            may_ask: may(|usage| usage.client_auth),
            is_authority: certificate.is_ca(),
            permitted,
            key: certificate.public_key().subject_public_key.data.to_vec(),
            der: pem.contents.clone(),
        })
    }

    /// Whether an authority has signed it.
    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        let own = x509_parser::parse_x509_certificate(&self.der);
        let other = x509_parser::parse_x509_certificate(&authority.der);
        let (Ok((_, own)), Ok((_, other))) = (own, other) else {
            return false;
        };
        own.issuer().as_raw() == other.subject().as_raw()
            && own.verify_signature(Some(other.public_key())).is_ok()
    }

    /// Whether it has signed a list of revoked certificates.
    pub(super) fn has_signed(&self, list: &CertificateRevocationList<'_>) -> bool {
        let Ok((_, own)) = x509_parser::parse_x509_certificate(&self.der) else {
            return false;
        };
        list.issuer().as_raw() == own.subject().as_raw()
            && list.verify_signature(own.public_key()).is_ok()
    }

    /// Whether clients that trust an authority trust this certificate, with the certificates that come with it in the
    /// order in which one signs the one before.
    fn leads_to(&self, more: &[Self], authority: &Self) -> bool {
        let mut current = self;
        for next in more {
            if current.is_signed_by(authority) {
                return true;
            }
            if !(next.is_authority && current.is_signed_by(next)) {
                return false;
            }
            current = next;
        }
        current.is_signed_by(authority)
    }

    /// It again, as PEM.
    pub(super) fn to_pem(&self) -> String {
        let text = STANDARD.encode(&self.der);
        // RFC 7468 §2: 64 letters in a line.
        let lines: Vec<&str> = (0..text.len())
            .step_by(64)
            .filter_map(|at| text.get(at..(at + 64).min(text.len())))
            .collect();
        format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            lines.join("\n")
        )
    }

    /// Days until its end.
    pub(super) fn days_left(&self, today: u64) -> u64 {
        self.last_day.saturating_sub(today)
    }
}

/// A name as a site has it; others are none of ours.
fn shown(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// A name or an address that an authority may sign for, as [`permitted`] has it. A network of more than one address is shown with
/// its mask, and is none of ours.
fn subtree_shown(base: &GeneralName<'_>) -> Option<String> {
    match base {
        GeneralName::IPAddress(octets) => {
            let (address, mask) = octets.split_at(octets.len() / 2);
            let address = shown(&GeneralName::IPAddress(address))?;
            match mask.iter().all(|octet| *octet == 255) {
                true => Some(address),
                false => Some(format!("{address} mask {mask:02x?}")),
            }
        }
        name => shown(name),
    }
}

/// The names and addresses that the authority of a site may sign for: the domain, which stands for all below it, and the names of
/// nodes that are not.
pub(super) fn permitted(
    domain: &str,
    names: impl Iterator<Item = BTreeSet<String>>,
) -> BTreeSet<String> {
    let below = format!(".{domain}");
    let mut all: BTreeSet<String> = names.flatten().collect();
    all.retain(|name| !name.ends_with(&below));
    all.insert(domain.to_owned());
    all
}

//--- Whether one is still good

/// The reason to renew a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// There is none.
    Missing,
    /// It is none.
    Unreadable(&'static str),
    /// It belongs to another key than the one beside it.
    OtherKey,
    /// Another authority has signed it.
    OtherAuthority,
    /// It is for other names; these are missing.
    Names(Vec<String>),
    /// The authority has revoked it.
    Revoked,
    /// It may sign for other names than those of the site, or not for all of them.
    Permits,
    /// It may not be used for this.
    Usage(&'static str),
    /// Clients would believe it, and have others.
    Believed,
    /// Its certificates end on other days than those of the site file.
    OtherDays,
    /// It ends soon.
    Ends {
        /// The number of days left.
        days: u64,
    },
    /// The user asked for it.
    Asked,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("there was none"),
            Self::Unreadable(why) => write!(f, "it was {why}"),
            Self::OtherKey => f.write_str("it belonged to another key"),
            Self::OtherAuthority => f.write_str("another authority had signed it"),
            Self::Names(names) if names.is_empty() => f.write_str("it had names too many"),
            Self::Names(names) => write!(f, "it was not for {}", names.join(", ")),
            Self::Revoked => f.write_str("it was revoked"),
            Self::Permits => f.write_str("it could sign for other names than those of the site"),
            Self::Usage(what) => write!(f, "it may not be used {what}"),
            Self::Believed => {
                f.write_str("clients would believe it, who are shown short-lived ones")
            }
            Self::OtherDays => f.write_str("`certificate-days` was another"),
            Self::Ends { days: 0 } => f.write_str("it had ended"),
            Self::Ends { days } => write!(f, "it ended in {}", counted(*days, "day")),
            Self::Asked => f.write_str("renewed as asked"),
        }
    }
}

/// The authority of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    /// Its certificate.
    pub(super) facts: Facts,
    /// Whether it was made here: then certificates have the names of their nodes and no others. Foreign
    /// ones may have more.
    pub(super) is_own: bool,
    /// The serial numbers of the certificates that it has revoked.
    pub(super) revoked: BTreeSet<Vec<u8>>,
}

/// The ones that a certificate of a node convinces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Clients and other nodes.
    All,
    /// Other nodes alone.
    Nodes,
    /// Clients alone.
    Clients,
}

/// Why the certificate in a file does not do; `None` when it does.
pub(super) fn lacks(
    pem: Option<&[u8]>,
    (key, audience): (&[u8], Audience),
    names: &BTreeSet<String>,
    authority: &Authority,
    today: u64,
) -> Option<Reason> {
    let all = match all_of(pem, Facts::read_all) {
        Ok(all) => all,
        Err(reason) => return Some(reason),
    };
    let (facts, more) = all.split_first()?;
    unfit(facts, more, (key, audience), names, authority).or_else(|| facts.ends_soon(today))
}

/// The certificates in a file, read so; or why there are none.
pub(super) fn all_of(
    pem: Option<&[u8]>,
    read: fn(&[u8]) -> Result<Vec<Facts>, &'static str>,
) -> Result<Vec<Facts>, Reason> {
    read(pem.ok_or(Reason::Missing)?).map_err(Reason::Unreadable)
}

/// Why a certificate does not do, with those that come with it; its end is not looked at.
pub(super) fn unfit(
    facts: &Facts,
    more: &[Facts],
    (key, audience): (&[u8], Audience),
    names: &BTreeSet<String>,
    authority: &Authority,
) -> Option<Reason> {
    let missing: Vec<String> = names.difference(&facts.names).cloned().collect();
    if facts.key != key {
        Some(Reason::OtherKey)
    } else if !facts.leads_to(more, &authority.facts) {
        Some(Reason::OtherAuthority)
    } else if authority.revoked.contains(&facts.serial) {
        Some(Reason::Revoked)
    } else if !missing.is_empty() || (authority.is_own && facts.names != *names) {
        Some(Reason::Names(missing))
    } else if audience == Audience::Nodes && facts.may_serve {
        Some(Reason::Believed)
    } else if audience != Audience::Nodes && !facts.may_serve {
        Some(Reason::Usage(
            "by servers (serverAuth), which every node is",
        ))
    } else if audience != Audience::Clients && !facts.may_ask {
        Some(Reason::Usage(
            "by clients (clientAuth), which nodes of the registry are to each other",
        ))
    } else {
        None
    }
}

//--- New ones

/// A certificate of an authority for a site, signed by its own key. It may sign for `permitted` alone, so that anyone who steals the
/// key can stand for nothing else.
pub(super) fn authority(
    subject: &str,
    permitted: &BTreeSet<String>,
    key: &KeyPair,
    last_day: u64,
) -> Result<String, rcgen::Error> {
    let mut params = params(subject, last_day)?;
    let subtree = |name: &String| match name.parse::<IpAddr>() {
        Ok(address) => {
            let whole = if address.is_ipv4() { 32 } else { 128 };
            GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, whole))
        }
        Err(_) => GeneralSubtree::DnsName(name.clone()),
    };
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: permitted.iter().map(subtree).collect(),
        excluded_subtrees: Vec::new(),
    });
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.self_signed(key).map(|made| made.pem())
}

/// A certificate of a node, which is a server and, to the other nodes, a client.
pub(super) fn node(
    subject: &str,
    names: &BTreeSet<String>,
    (key, audience): (&KeyPair, Audience),
    issuer: &Issuer<'_, KeyPair>,
    last_day: u64,
) -> Result<String, rcgen::Error> {
    let mut params = params(subject, last_day)?;
    params.subject_alt_names =
        CertificateParams::new(Vec::from_iter(names.iter().cloned()))?.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let (server, client) = (
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    );
    params.extended_key_usages = match audience {
        Audience::All => vec![server, client],
        Audience::Nodes => vec![client],
        Audience::Clients => vec![server],
    };
    params.use_authority_key_identifier_extension = true;
    let made: Certificate = params.signed_by(key, issuer)?;
    Ok(made.pem())
}

/// A request for such a certificate, for an authority that is elsewhere (PKCS #10, RFC 2986).
pub(super) fn request(
    subject: &str,
    names: &BTreeSet<String>,
    key: &KeyPair,
) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::from_iter(names.iter().cloned()))?;
    params.distinguished_name = called(subject);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.serialize_request(key)?.pem()
}

fn called(subject: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject.to_owned());
    name
}

fn params(subject: &str, last_day: u64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = called(subject);
    // The clock of a node that was without power for long may stand anywhere: a certificate that
    // begins today would not let it in to learn the time.
    params.not_before = date_time_ymd(2020, 1, 1);
    let (year, month, day) = date(last_day);
    params.not_after = date_time_ymd(year, month, day);
    params.serial_number = Some(serial()?);
    Ok(params)
}

/// A day since 1970 as certificates and lists have it. RFC 5280 §4.1.2.5.2: no year has more than four digits.
pub(super) fn date(day: u64) -> (i32, u8, u8) {
    let (year, month, day) = civil_date(day);
    let year = i32::try_from(year).unwrap_or(9999).min(9999);
    let month = u8::try_from(month).unwrap_or(12);
    (year, month, u8::try_from(day).unwrap_or(28))
}

/// A number that no certificate of the authority has had (RFC 5280 §4.1.2.2: positive, at most 20
/// octets).
fn serial() -> Result<SerialNumber, rcgen::Error> {
    let mut octets = [0; 16];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| rcgen::Error::RingUnspecified)?;
    let [first, ..] = &mut octets;
    *first = *first & 0x3f | 0x40;
    Ok(SerialNumber::from_slice(&octets))
}

/// Certificates from a node's to its authority: sites that have an authority have one or two between.
const MAX_CHAIN: usize = 8;

/// Seconds.
const DAY: u64 = 86_400;

/// The most certificates of a series: those of five years, of which each is good for 15 days. With those of three nodes a
/// `MachineConfig` has 0.6 MB, and etcd takes 1.5.
pub(super) const MAX_SERIES: usize = 250;

/// How many days before its end a certificate is renewed, and an authority's warned of. An operator checks an
/// island a few times a year.
pub(super) const SOON: u64 = 90;
