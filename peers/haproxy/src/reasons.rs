//! Keywords that need no reading: some are so here anyway, others have no counterpart.

use config::Class;

use super::lexer::Line;

/// The result for a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// It is so here anyway.
    SoAnyway,
    /// It is not carried over, for this reason.
    Lost(&'static str),
}

/// A line in `global`.
pub(super) fn global(line: &Line) -> Disposition {
    let keyword = line.word(0).unwrap_or_default();
    Disposition::Lost(match keyword {
        "daemon" | "master-worker" | "mworker-max-reloads" | "nbproc" => {
            return Disposition::SoAnyway;
        }
        "chroot" | "gid" | "group" | "pidfile" | "set-dumpable" | "uid" | "user" | "ulimit-n"
        | "fd-hard-limit" | "strict-limits" | "unix-bind" | "node" | "description"
        | "localpeer" => "it is the unit's or the container's affair",
        "log" | "log-send-hostname" | "log-tag" => {
            "logs go to standard error, from where the journal takes them"
        }
        "stats" => "`lb-proxy status`, `sessions` and `backend` ask the admin listener",
        "maxconnrate" | "maxsessrate" | "maxsslconn" | "maxsslrate" | "maxpipes" => {
            "see `limits` of a frontend"
        }
        "cpu-map" | "numa-cpu-mapping" | "thread-groups" => "the scheduler places the workers",
        "spread-checks" | "max-spread-checks" | "external-check" => "healthd spreads its probes",
        "server-state-base" | "server-state-file" => "healthd keeps what it knows over restarts",
        "setenv" | "presetenv" | "resetenv" | "unsetenv" => {
            "variables are read from the importing machine, not from the file"
        }
        word if word.starts_with("tune.") || word.starts_with("no") || word == "busy-polling" => {
            "the engine is another"
        }
        word if word.starts_with("ssl-") || word.starts_with("ca-") || word.starts_with("crt-") => {
            "TLS is passed through, never ended here"
        }
        word if word.starts_with("lua-") => "there are no scripts",
        _ => "it has no counterpart",
    })
}

/// The weight of a line that is lost, in whichever section.
pub(super) fn class(line: &Line) -> Class {
    let (keyword, second) = match line.word(0) {
        Some("no") => (line.word(1), line.word(2)),
        keyword => (keyword, line.word(1)),
    };
    let second = second.unwrap_or_default();
    match keyword.unwrap_or_default() {
        // Rules and limits that keep clients, connections or requests out.
        "tcp-request" | "filter" | "block" | "rate-limit" | "maxconnrate" | "maxsessrate"
        | "maxsslconn" | "maxsslrate" => Class::Security,
        "tcp-response" | "http-request" | "http-response" | "http-after-response" => {
            let action = match second {
                "content" => line.word(2).unwrap_or_default(),
                action => action,
            };
            match action {
                "auth" | "close" | "deny" | "reject" | "return" | "silent-drop" | "tarpit" => {
                    Class::Security
                }
                _ => Class::Behaviour,
            }
        }
        "maxconn" | "use_backend" => Class::Security,
        // The rules of old versions: reqdeny, rspideny.
        word if word.starts_with("req") || word.starts_with("rsp") => Class::Security,
        "option" => match second {
            "checkcache" | "http-restrict-req-hdr-names" => Class::Security,
            "contstats"
            | "dontlog-normal"
            | "dontlognull"
            | "log-health-checks"
            | "log-separate-errors"
            | "logasap"
            | "socket-stats" => Class::Cosmetic,
            _ => Class::Behaviour,
        },
        "backlog" | "busy-polling" | "capture" | "chroot" | "cpu-map" | "declare"
        | "description" | "email-alert" | "error-log-format" | "fd-hard-limit" | "gid"
        | "group" | "guid" | "id" | "log" | "log-format" | "log-format-sd"
        | "log-send-hostname" | "log-steps" | "log-tag" | "node" | "numa-cpu-mapping"
        | "pidfile" | "set-dumpable" | "stats" | "strict-limits" | "thread-groups" | "uid"
        | "ulimit-n" | "unique-id-format" | "unix-bind" | "user" => Class::Cosmetic,
        word if word.starts_with("tune.") => Class::Cosmetic,
        _ => Class::Behaviour,
    }
}

/// A line in a proxy that no other module has read.
pub(super) fn proxy(line: &Line) -> Disposition {
    let (keyword, second) = match line.word(0) {
        Some("no") => (line.word(1), line.word(2)),
        keyword => (keyword, line.word(1)),
    };
    let second = second.unwrap_or_default();
    match keyword.unwrap_or_default() {
        "option" => option(second),
        "timeout" => timeout(second),
        "enabled" | "bind-process" => Disposition::SoAnyway,
        keyword => Disposition::Lost(lost(keyword)),
    }
}

fn option(name: &str) -> Disposition {
    Disposition::Lost(match name {
        // Dead peers are found, and data is spliced, always.
        "clitcpka" | "splice-auto" | "splice-request" | "splice-response" | "srvtcpka"
        | "tcp-smart-accept" | "tcp-smart-connect" | "tcpka" => {
            return Disposition::SoAnyway;
        }
        "dontlognull"
        | "dontlog-normal"
        | "log-separate-errors"
        | "logasap"
        | "socket-stats"
        | "contstats" => "the access log has a record of every session, when it ends",
        "log-health-checks" => "healthd logs what its probes find",
        "abortonclose" => return Disposition::SoAnyway,
        "nolinger" => "a reset is passed on as a reset, and nothing else is made one",
        "persist" | "prefer-last-server" => "sessions are not persistent",
        "transparent" => "servers see the proxy's address; see send-proxy",
        "independent-streams" => "both directions keep a session alive",
        "external-check" => "healthd probes; it runs no programs",
        name if name.starts_with("http")
            || name.starts_with("h1-")
            || name.starts_with("accept-invalid") =>
        {
            "HTTP is not looked into"
        }
        "checkcache"
        | "disable-h2-upgrade"
        | "forwardfor"
        | "forwarded"
        | "idle-close-on-response"
        | "originalto"
        | "http_proxy" => "HTTP is not looked into",
        _ => "it has no counterpart",
    })
}

fn timeout(name: &str) -> Disposition {
    Disposition::Lost(match name {
        "http-keep-alive" | "http-request" | "tarpit" => "HTTP is not looked into",
        "client-hs" => "TLS is passed through, never ended here",
        _ => "it has no counterpart",
    })
}

fn lost(keyword: &str) -> &'static str {
    match keyword {
        "stats" => "`lb-proxy status` and /metrics show it",
        "monitor" | "monitor-net" => "the admin listener has /readyz",
        "log-format" | "log-format-sd" | "error-log-format" | "log-tag" | "unique-id-format"
        | "unique-id-header" | "log-steps" => "the access log is JSON, or tcplog's line",
        "stick" | "stick-table" | "cookie" | "appsession" | "dynamic-cookie-key"
        | "force-persist" | "ignore-persist" | "persist" | "rdp-cookie" => {
            "there are no stick tables; see `source` of balance"
        }
        "rate-limit" => "see `limits`: rate and concurrency of each source",
        "fullconn" => "limits of servers do not move",
        "hash-type" | "hash-balance-factor" | "hash-preserve-affinity" => {
            "the hash is Maglev's, always"
        }
        "use-server" => "write a backend of its own, and a route to it",
        "dispatch" | "transparent" => "write a backend with a server",
        "email-alert" => "notifications are for what watches the metrics",
        "external-check" => "healthd probes; it runs no programs",
        "tcp-response" | "tcp-check" => "the data is not inspected",
        "backlog" => "the backlog is as long as the system allows",
        "load-server-state-from-file" | "server-state-file-name" => {
            "healthd keeps what it knows over restarts"
        }
        "clitcpka-cnt" | "clitcpka-idle" | "clitcpka-intvl" | "srvtcpka-cnt" | "srvtcpka-idle"
        | "srvtcpka-intvl" => "keep-alive is always on; see the template",
        "capture"
        | "compression"
        | "declare"
        | "errorfile"
        | "errorfiles"
        | "errorloc"
        | "errorloc302"
        | "errorloc303"
        | "filter"
        | "http-after-response"
        | "http-error"
        | "http-request"
        | "http-response"
        | "http-reuse"
        | "http-send-name-header"
        | "max-keep-alive-queue"
        | "redirect"
        | "retry-on"
        | "use-fcgi-app"
        | "max-session-srv-conns" => "HTTP is not looked into",
        "description" | "id" | "guid" => "it is for HAProxy's statistics",
        _ => "unknown here",
    }
}
