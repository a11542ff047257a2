//! The content of a list of revoked certificates (RFC 5280 §5).

use std::collections::{BTreeMap, BTreeSet};

use rcgen::{
    CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use x509_parser::parse_x509_crl;
use x509_parser::pem::Pem;
use x509_parser::revocation_list::CertificateRevocationList;

use super::certificate::{Facts, date};

/// The serial numbers of revoked certificates, and since when each is revoked, in days since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Revoked {
    pub(super) number: u64,
    pub(super) since: BTreeMap<Vec<u8>, u64>,
}

impl Revoked {
    /// Reads lists (PEM), each of which one of the authorities has signed.
    pub(super) fn read(pem: &[u8], authorities: &[Facts]) -> Result<Self, &'static str> {
        let mut revoked = Self::default();
        let mut is_empty = true;
        for pem in Pem::iter_from_buffer(pem) {
            let pem = pem.map_err(|_| "it is no PEM")?;
            if pem.label != "X509 CRL" {
                return Err("it has something else than lists of revoked certificates (X509 CRL)");
            }
            let (_, list) = parse_x509_crl(&pem.contents)
                .map_err(|_| "it has no list of revoked certificates that can be read")?;
            if !authorities.iter().any(|one| one.has_signed(&list)) {
                return Err("no authority of the nodes' certificates has signed it");
            }
            revoked.add(&list);
            is_empty = false;
        }
        match is_empty {
            true => Err("it is no PEM"),
            false => Ok(revoked),
        }
    }

    fn add(&mut self, list: &CertificateRevocationList<'_>) {
        let number = list.crl_number().and_then(|number| number.try_into().ok());
        self.number = self.number.max(number.unwrap_or(0));
        for one in list.iter_revoked_certificates() {
            let seconds = u64::try_from(one.revocation_date.timestamp()).unwrap_or(0);
            self.since
                .insert(one.raw_serial().to_vec(), seconds / 86_400);
        }
    }

    /// The serial numbers.
    pub(super) fn serials(&self) -> BTreeSet<Vec<u8>> {
        self.since.keys().cloned().collect()
    }

    /// The list as its authority signs it.
    pub(super) fn pem(
        &self,
        issuer: &Issuer<'_, KeyPair>,
        today: u64,
        last_day: u64,
    ) -> Result<String, rcgen::Error> {
        let at = |(year, month, day)| date_time_ymd(year, month, day);
        let revoked = self.since.iter().map(|(serial, day)| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: at(date(*day)),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: at(date(today)),
            next_update: at(date(last_day.max(today + 1))),
            crl_number: SerialNumber::from(self.number),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(issuer)?.pem()
    }
}

/// The authority of a site, and those between it and the nodes.
pub(super) fn issuers<C: AsRef<[u8]>>(
    authority: &Facts,
    chains: impl Iterator<Item = C>,
) -> Vec<Facts> {
    let between = chains.flat_map(|chain| Facts::read_all(chain.as_ref()).unwrap_or_default());
    let between = between.filter(|one| one.is_authority);
    std::iter::once(authority.clone()).chain(between).collect()
}
