//! NTP version 4, client mode (RFC 5905 §7.3, §9.2): up when the server says its clock is synchronised.

use std::net::{IpAddr, SocketAddr};

use super::{Outcome, connect_udp, unguessable, words};

/// The header, without extension fields.
const LENGTH: usize = 48;

/// Leap indicator "unknown", version 4, mode 3 (client).
const CLIENT: u8 = 0b00_100_011;

/// Longer packets are cut; extension fields are not read.
const BUFFER: usize = 128;

pub(super) async fn probe(address: SocketAddr, source: Option<IpAddr>) -> Outcome {
    // The server returns the transmit timestamp as it is: an unguessable number serves best
    // (RFC 9109 argues the same for ports).
    let nonce = unguessable().to_be_bytes();
    let mut request = [0; LENGTH];
    let (head, transmit) = request.split_at_mut(LENGTH - nonce.len());
    transmit.copy_from_slice(&nonce);
    if let Some(first) = head.first_mut() {
        *first = CLIENT;
    }
    let socket = connect_udp(address, source).await?;
    let sent = socket.send(&request).await;
    sent.map_err(|error| words(&error))?;
    let mut response = [0; BUFFER];
    loop {
        let received = socket.recv(&mut response).await;
        let length = received.map_err(|error| words(&error))?;
        let response = response.get(..length).unwrap_or_default();
        if let Some(outcome) = judge(response, nonce) {
            return outcome;
        }
    }
}

/// Judges a response; `None` when it answers something else.
fn judge(response: &[u8], nonce: [u8; 8]) -> Option<Outcome> {
    let packet: &[u8; LENGTH] = response.first_chunk()?;
    let &[first, stratum, ..] = packet;
    let reference = packet.get(12..16)?;
    let origin = packet.get(24..32)?;
    let transmit = packet.get(40..48)?;
    let (leap, mode) = (first >> 6, first & 7);
    if mode != 4 || origin != nonce {
        return None;
    }
    Some(match (leap, stratum) {
        (_, 0) => {
            let code = String::from_utf8_lossy(reference);
            Err(format!("kiss of death {}", code.trim_end_matches('\0')))
        }
        (3, _) => Err("clock not synchronised".to_owned()),
        (_, 16..) => Err(format!("clock not synchronised, stratum {stratum}")),
        _ if transmit == [0; 8] => Err("no time in the answer".to_owned()),
        _ => Ok(format!("stratum {stratum}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_up_when_its_clock_is_synchronised() {
        let nonce = [1, 2, 3, 4, 5, 6, 7, 8];
        let packet = |leap: u8, mode: u8, stratum: u8, time: u8| {
            let mut packet = [0; LENGTH];
            packet[0] = leap << 6 | 4 << 3 | mode;
            packet[1] = stratum;
            packet[12..16].copy_from_slice(b"RATE");
            packet[24..32].copy_from_slice(&nonce);
            packet[40] = time;
            packet
        };
        let table = [
            (packet(0, 4, 2, 9), Some(Ok("stratum 2"))),
            (packet(1, 4, 15, 9), Some(Ok("stratum 15"))),
            (packet(3, 4, 2, 9), Some(Err("clock not synchronised"))),
            (
                packet(0, 4, 16, 9),
                Some(Err("clock not synchronised, stratum 16")),
            ),
            (packet(0, 4, 0, 9), Some(Err("kiss of death RATE"))),
            (packet(0, 4, 2, 0), Some(Err("no time in the answer"))),
            (packet(0, 3, 2, 9), None),
            (packet(0, 5, 2, 9), None),
        ];
        for (packet, expected) in table {
            let expected =
                expected.map(|outcome| outcome.map(str::to_owned).map_err(str::to_owned));
            assert_eq!(judge(&packet, nonce), expected);
            assert_eq!(judge(&packet, [0; 8]), None, "another's answer");
            assert_eq!(judge(&packet[..47], nonce), None, "cut short");
        }
    }
}
