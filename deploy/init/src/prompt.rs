//! The questions of `outpost init`: one line each, with what is taken when nothing is answered.
//!
//! An invalid answer is rejected with the reason, and the question repeated. Known values are not asked for.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::draft::Draft;
use super::values;
use site::Role;

/// The person who answers.
pub(crate) struct Asker<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Asker<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        Self { input, output }
    }

    /// Asks for everything that the draft does not know.
    ///
    /// # Errors
    ///
    /// When there are no more answers.
    pub(crate) fn fill(&mut self, draft: &mut Draft) -> io::Result<()> {
        writeln!(self.output, "{WELCOME}")?;
        if draft.name.is_none() {
            draft.name = Some(self.ask("Name of the cluster", "ocp4", values::label)?);
        }
        if draft.domain.is_none() {
            let name = draft.name.clone().unwrap_or_default();
            let usual = format!("{name}.example.com");
            draft.domain = Some(self.ask("Domain of the site", &usual, values::domain)?);
        }
        if draft.networks.is_empty() {
            draft.networks =
                self.ask("Network of the nodes", "192.168.7.0/24", values::networks)?;
        }
        self.nodes(draft)?;
        if draft.api_vips.is_empty() && draft.ingress_vips.is_empty() {
            draft.api_vips =
                self.ask("Virtual IP of the API (- for none)", "-", values::addresses)?;
            if !draft.api_vips.is_empty() {
                let text = "Virtual IP of the ingress (- for none)";
                draft.ingress_vips = self.ask(text, "-", values::addresses)?;
            }
        }
        if draft.upstreams.is_empty() {
            let text = "DNS servers outside the site (- for none)";
            draft.upstreams = self.ask(text, "-", values::upstreams)?;
        }
        if draft.time_servers.is_empty() {
            let text = "Time servers outside the site (- for none)";
            draft.time_servers = self.ask(text, "-", values::hosts)?;
        }
        if draft.registry_names.is_empty() {
            let text = "Names of the registry";
            draft.registry_names = self.ask(text, "registry", values::labels)?;
        }
        if draft.openshift.is_none() {
            let text = "Release of OpenShift (none if there is none)";
            draft.openshift = Some(self.ask(text, "4.18", values::release)?);
        }
        let has_vip = !draft.api_vips.is_empty() || !draft.ingress_vips.is_empty();
        if has_vip && draft.interface.is_none() && draft.openshift.as_deref() == Some("none") {
            let interface = self.ask("Interface of virtual IPs", "eth0", values::interface)?;
            draft.interface = Some(interface);
        }
        Ok(())
    }

    fn nodes(&mut self, draft: &mut Draft) -> io::Result<()> {
        if draft.nodes.is_empty() {
            if draft.masters == 0 {
                draft.masters = self.ask("How many masters", "3", values::n_masters)?;
            }
            if draft.workers == 0 {
                draft.workers = self.ask("How many workers", "0", values::n_workers)?;
            }
        }
        draft.settle();
        let networks = draft.networks.clone();
        let mut taken: Vec<IpAddr> = draft
            .nodes
            .iter()
            .flat_map(|node| node.addresses.clone())
            .collect();
        for node in &mut draft.nodes {
            if !node.addresses.is_empty() {
                continue;
            }
            let usual = propose(&networks, &taken, node.role == Some(Role::Master));
            let text = format!("Address of {}", node.name);
            node.addresses = self.ask(&text, &usual, |answer| {
                let addresses = values::addresses(answer)?;
                let twice = addresses.iter().find(|address| taken.contains(address));
                match twice {
                    _ if addresses.is_empty() => Err("a node has an address".to_owned()),
                    Some(address) => Err(format!("{address} is the address of another node")),
                    None => Ok(addresses),
                }
            })?;
            taken.extend(&node.addresses);
        }
        Ok(())
    }

    /// Asks until an answer does.
    fn ask<T>(
        &mut self,
        question: &str,
        usual: &str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> io::Result<T> {
        loop {
            let shown = if usual.is_empty() {
                String::new()
            } else {
                format!(" [{usual}]")
            };
            write!(self.output, "{question}{shown}: ")?;
            self.output.flush()?;
            let mut answer = String::new();
            // No answer is longer; input without an end of line is read in pieces.
            let n_read = io::Read::take(&mut self.input, LONGEST_ANSWER).read_line(&mut answer)?;
            if n_read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let answer = match answer.trim() {
                "" => usual,
                answer => answer,
            };
            match check(answer) {
                Ok(value) => return Ok(value),
                Err(why) => writeln!(self.output, "  {why}")?,
            }
        }
    }
}

/// An unused address: masters begin at .13, as those of the site from which Outpost was made.
fn propose(networks: &[IpNet], taken: &[IpAddr], is_master: bool) -> String {
    let Some(network) = networks.first() else {
        return String::new();
    };
    let last = taken
        .iter()
        .filter(|address| network.contains(*address))
        .max();
    let free = match last {
        Some(IpAddr::V4(last)) => last
            .to_bits()
            .checked_add(1)
            .map(|bits| Ipv4Addr::from_bits(bits).into()),
        Some(IpAddr::V6(last)) => last
            .to_bits()
            .checked_add(1)
            .map(|bits| Ipv6Addr::from_bits(bits).into()),
        None => network.hosts().nth(if is_master { 12 } else { 0 }),
    };
    free.filter(|address| network.contains(address))
        .map(|address: IpAddr| address.to_string())
        .unwrap_or_default()
}

/// Octets.
const LONGEST_ANSWER: u64 = 4096;

const WELCOME: &str = "\
Some questions about the site. An empty answer takes the value in brackets; several values are separated
by blanks.";
