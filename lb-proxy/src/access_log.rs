//! One record for every session, in the fields of HAProxy's tcplog.
