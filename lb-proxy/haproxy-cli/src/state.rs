//! `show servers state` (version 1 of HAProxy's state file) and `show servers conn`.

use std::fmt::Write as _;

use crate::figures::{Backend, Check, Figures, Finding, Proxy, Server, ServerState};

/// The columns of `show servers state`.
const COLUMNS: &str = "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
                       srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
                       srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl \
                       srv_check_port srv_check_addr srv_agent_addr srv_agent_port";

/// The backends that are meant, or HAProxy's sentence.
fn backends<'a>(
    figures: &'a Figures,
    arguments: &[String],
) -> Result<Vec<(&'a Proxy, &'a Backend)>, String> {
    match arguments.first() {
        Some(name) => match figures.backend(name) {
            Some(found) => Ok(vec![found]),
            None => Err("Can't find backend.\n".to_owned()),
        },
        None => {
            let proxies = figures.proxies.iter();
            Ok(proxies
                .filter_map(|proxy| Some((proxy, proxy.backend.as_ref()?)))
                .collect())
        }
    }
}

/// Answers `show servers state`.
pub(crate) fn show(figures: &Figures, arguments: &[String]) -> String {
    let backends = match backends(figures, arguments) {
        Ok(backends) => backends,
        Err(sentence) => return sentence,
    };
    let mut text = format!("1\n# {COLUMNS}\n");
    for (proxy, backend) in backends {
        for server in &backend.servers {
            // Writing to a string does not fail.
            let _written = line(&mut text, proxy, server);
        }
    }
    text
}

fn line(text: &mut String, proxy: &Proxy, server: &Server) -> std::fmt::Result {
    // 0 is stopped, 2 runs.
    let operation = match server.state {
        ServerState::Up | ServerState::Drain => 2,
        ServerState::Down | ServerState::Maintenance => 0,
    };
    // Bits: 1 maintenance, 4 as configured, 8 drain.
    let admin = match (server.state, server.is_configured) {
        (ServerState::Maintenance, true) => 5,
        (ServerState::Maintenance, false) => 1,
        (ServerState::Drain, _) => 8,
        (ServerState::Up | ServerState::Down, _) => 0,
    };
    let (status, result) = check(server.check.as_ref());
    // Bits: 2 configured, 4 enabled.
    let check_state = if server.check.is_some() { 6 } else { 0 };
    writeln!(
        text,
        "{} {} {} {} {} {operation} {admin} {} {} {} {status} {result} 0 {check_state} 0 0 0 - {} - 0 0 - - 0",
        proxy.id,
        proxy.name,
        server.id,
        server.name,
        server.address,
        server.weight,
        server.initial_weight,
        server.changed.as_secs(),
        server.port,
    )
}

/// HAProxy's numbers for a check's status and result.
fn check(check: Option<&Check>) -> (u8, u8) {
    let Some(check) = check else { return (1, 0) };
    match (check.finding, check.connects_only) {
        (Finding::Unknown, _) => (1, 0),
        (Finding::Up, true) => (6, 3),
        (Finding::Down, true) => (8, 2),
        (Finding::Up, false) => (15, 3),
        (Finding::Down, false) => (17, 2),
    }
}

/// Answers `show servers conn`. No connection is kept for another client, so those numbers are zero.
pub(crate) fn connections(figures: &Figures, arguments: &[String]) -> String {
    let backends = match backends(figures, arguments) {
        Ok(backends) => backends,
        Err(sentence) => return sentence,
    };
    let n_threads = figures.process.threads;
    let mut text = format!(
        "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim idle_cur \
         idle_per_thr[{n_threads}]\n"
    );
    let of_threads = " 0".repeat(usize::try_from(n_threads).unwrap_or(0));
    for (proxy, backend) in backends {
        for server in &backend.servers {
            // Writing to a string does not fail.
            let _written = writeln!(
                text,
                "{}/{} {}/{} {} {} - 0 {} {} {} 0 0 0 0{of_threads}",
                proxy.name,
                server.name,
                proxy.id,
                server.id,
                server.address,
                server.port,
                server.sessions,
                server.most_sessions,
                server.most_sessions,
            );
        }
    }
    text
}
