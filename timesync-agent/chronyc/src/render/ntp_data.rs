//! The last packet of a source.

use std::collections::HashMap;

use super::value::{exponential, fixed, id_of, leap, letters, mode, signed, stamp, timestamp};
use super::{Form, Names, Page};
use crate::calendar;
use crate::reply::NtpData;

impl Page<'_> {
    #[expect(clippy::too_many_lines, reason = "a line or two for each field")]
    pub(super) fn ntp_data(&mut self, it: &NtpData) {
        // Here sources have no names.
        let none = HashMap::new();
        let address = |address| Names(&none).of(address);
        let id = if it.stratum <= 1 {
            letters(it.reference_id)
        } else {
            String::new()
        };
        let tests = [it.flags >> 7 & 7, it.flags >> 4 & 7, it.flags & 15];
        let [first, second, third] = tests;
        let tests = [
            format!("{first:03b}"),
            format!("{second:03b}"),
            format!("{third:04b}"),
        ];
        let (poll, precision) = (exponential(it.poll), exponential(it.precision));
        let yes = |bit: u16| if it.flags & bit == 0 { "No" } else { "Yes" }.to_owned();
        let (interleaved, authenticated) = (yes(0x4000), yes(0x8000));
        if self.form == Form::Csv {
            let mut values = vec![
                address(it.remote_address),
                format!("{:08X}", id_of(it.remote_address)),
                it.remote_port.to_string(),
                address(it.local_address),
                format!("{:08X}", id_of(it.local_address)),
                leap(it.leap.into()).to_owned(),
                it.version.to_string(),
                mode(it.mode).to_owned(),
                it.stratum.to_string(),
                it.poll.to_string(),
                fixed(poll, 0),
                it.precision.to_string(),
                fixed(precision, 9),
                fixed(it.root_delay, 6),
                fixed(it.root_dispersion, 6),
                format!("{:08X}", it.reference_id),
                id,
                timestamp(it.reference_time),
                fixed(it.offset, 9),
                fixed(it.peer_delay, 9),
                fixed(it.peer_dispersion, 9),
                fixed(it.response_time, 9),
                fixed(it.jitter_asymmetry, 2),
            ];
            values.extend(tests);
            values.extend([interleaved, authenticated]);
            values.extend([it.transmit_stamp, it.receive_stamp].map(|by| stamp(by).to_owned()));
            let totals = [
                it.total_sent,
                it.total_received,
                it.total_valid,
                it.total_good,
            ];
            values.extend(totals.map(|n| n.to_string()));
            return self.csv(&values);
        }
        let seconds = |value: f64, digits: usize| format!("{} seconds", fixed(value, digits));
        let remote = it.remote_address;
        let local = it.local_address;
        self.labelled(
            16,
            &[
                (
                    "Remote address",
                    format!("{} ({:08X})", address(remote), id_of(remote)),
                ),
                ("Remote port", it.remote_port.to_string()),
                (
                    "Local address",
                    format!("{} ({:08X})", address(local), id_of(local)),
                ),
                ("Leap status", leap(it.leap.into()).to_owned()),
                ("Version", it.version.to_string()),
                ("Mode", mode(it.mode).to_owned()),
                ("Stratum", it.stratum.to_string()),
                (
                    "Poll interval",
                    format!("{} ({} seconds)", it.poll, fixed(poll, 0)),
                ),
                (
                    "Precision",
                    format!("{} ({} seconds)", it.precision, fixed(precision, 9)),
                ),
                ("Root delay", seconds(it.root_delay, 6)),
                ("Root dispersion", seconds(it.root_dispersion, 6)),
                ("Reference ID", format!("{:08X} ({id})", it.reference_id)),
                ("Reference time", calendar::text(it.reference_time)),
                ("Offset", format!("{} seconds", signed(it.offset, 9))),
                ("Peer delay", seconds(it.peer_delay, 9)),
                ("Peer dispersion", seconds(it.peer_dispersion, 9)),
                ("Response time", seconds(it.response_time, 9)),
                ("Jitter asymmetry", signed(it.jitter_asymmetry, 2)),
                ("NTP tests", tests.join(" ")),
                ("Interleaved", interleaved),
                ("Authenticated", authenticated),
                ("TX timestamping", stamp(it.transmit_stamp).to_owned()),
                ("RX timestamping", stamp(it.receive_stamp).to_owned()),
                ("Total TX", it.total_sent.to_string()),
                ("Total RX", it.total_received.to_string()),
                ("Total valid RX", it.total_valid.to_string()),
                ("Total good RX", it.total_good.to_string()),
            ],
        );
    }
}
