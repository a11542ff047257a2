//! EDNS options of a response.

use dns_cookie::{Cookie, CookieState, LENGTH as COOKIE_LENGTH};
use dns_wire::edns::{ClientSubnet, Edns, extended_error, option};
use dns_wire::header;

use crate::client::{Client, Transport};
use crate::settings::Settings;

/// The options of a response, decided before its records so that there is room for them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'q> {
    nsid: Option<&'q [u8]>,
    keepalive: Option<u16>,
    subnet: Option<ClientSubnet>,
    cookie: Option<Cookie>,
    cookie_state: CookieState,
    extended_error: Option<u16>,
    /// The text of the extended error; may be empty.
    text: &'static str,
    is_malformed: bool,
}

/// Octets of an option's code and length.
const HEAD: usize = 4;

/// The text of an answer by this server's own probes. RFC 8914 has no code for it.
const STANDS_IN: &str = "healthd is away; by probes of this server";

impl<'q> Options<'q> {
    /// Reads a query's options and decides on those of its response.
    #[cold]
    pub(crate) fn read(edns: &Edns<'_>, client: &Client, settings: &'q Settings) -> Self {
        let mut options = Self::default();
        for (code, data) in edns.options() {
            match code {
                option::NSID => options.nsid = settings.nsid.as_deref(),
                // RFC 7828 §3.2.1: meaningless over UDP, and other transports have their own.
                option::TCP_KEEPALIVE
                    if matches!(client.transport, Transport::Tcp | Transport::Tls) =>
                {
                    options.keepalive = Some(settings.keepalive);
                }
                option::CLIENT_SUBNET if settings.client_subnet => {
                    let subnet = ClientSubnet::parse(data);
                    options.is_malformed |= subnet.is_none();
                    options.subnet = subnet.map(|subnet| ClientSubnet {
                        scope_prefix: 0,
                        ..subnet
                    });
                }
                option::COOKIE if options.cookie_state == CookieState::None => {
                    if let Some(cookies) = &settings.cookies {
                        let client_address = client.peer.ip();
                        let checked = cookies
                            .secrets
                            .check(data, client_address, (client.clock)());
                        options.cookie = checked.cookie;
                        options.cookie_state = checked.cookie_state;
                        options.is_malformed |= checked.cookie_state == CookieState::Malformed;
                    }
                }
                _ => {}
            }
        }
        options
    }

    /// The client's network, if the query carries one and the settings honour it.
    #[inline]
    pub(crate) const fn subnet(&self) -> Option<ClientSubnet> {
        self.subnet
    }

    /// The state of the query's cookie.
    #[inline]
    pub(crate) const fn cookie_state(&self) -> CookieState {
        self.cookie_state
    }

    /// The number of bits of the client's network that the answer holds for (RFC 7871 §7.2.1).
    #[inline]
    pub(crate) const fn set_scope(&mut self, prefix: u8) {
        if let Some(subnet) = &mut self.subnet {
            subnet.scope_prefix = prefix;
        }
    }

    /// Sets the reason of an error (RFC 8914).
    pub(crate) const fn set_extended_error(&mut self, why: u16) {
        self.extended_error = Some(why);
        self.text = "";
    }

    /// Octets of the note that an answer is by this server's own probes.
    pub(crate) const NOTE: usize = HEAD + 2 + STANDS_IN.len();

    /// Notes that the answer is by this server's own probes.
    pub(crate) const fn note_stand_in(&mut self) {
        self.extended_error = Some(extended_error::OTHER);
        self.text = STANDS_IN;
    }

    /// Whether a relevant option breaks its format.
    #[inline]
    pub(crate) const fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.nsid.is_none()
            && self.keepalive.is_none()
            && self.subnet.is_none()
            && self.cookie.is_none()
            && self.extended_error.is_none()
    }

    /// The length of the options, without an extended error: that comes only without records, or where there is room.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.nsid.map_or(0, |nsid| HEAD + nsid.len())
            + self.keepalive.map_or(0, |_| HEAD + 2)
            + self
                .subnet
                .map_or(0, |subnet| HEAD + subnet.compose().len())
            + self.cookie.map_or(0, |_| HEAD + COOKIE_LENGTH)
    }

    /// Writes the options behind an OPT record that ends at `at`; returns the end.
    #[cold]
    pub(crate) fn write(&self, out: &mut [u8], at: usize) -> Option<usize> {
        let mut end = at;
        if let Some(nsid) = self.nsid {
            end = push(out, end, option::NSID, nsid)?;
        }
        if let Some(keepalive) = self.keepalive {
            end = push(out, end, option::TCP_KEEPALIVE, &keepalive.to_be_bytes())?;
        }
        if let Some(subnet) = self.subnet {
            end = push(out, end, option::CLIENT_SUBNET, &subnet.compose())?;
        }
        if let Some(cookie) = &self.cookie {
            end = push(out, end, option::COOKIE, cookie)?;
        }
        if let Some(why) = self.extended_error {
            let data = [&why.to_be_bytes(), self.text.as_bytes()].concat();
            end = push(out, end, option::EXTENDED_ERROR, &data)?;
        }
        let length = u16::try_from(end - at).ok()?;
        header::set_word(out, at.checked_sub(2)?, length).then_some(end)
    }
}

fn push(out: &mut [u8], at: usize, code: u16, data: &[u8]) -> Option<usize> {
    let end = at + HEAD + data.len();
    let length = u16::try_from(data.len()).ok()?;
    let room = out.get_mut(at..end)?;
    let (head, body) = room.split_at_mut_checked(HEAD)?;
    let [c1, c0] = code.to_be_bytes();
    let [l1, l0] = length.to_be_bytes();
    head.copy_from_slice(&[c1, c0, l1, l0]);
    body.copy_from_slice(data);
    Some(end)
}
