//! Any bytes as a request or a reply of chronyc's protocol.

use chronyc::answer::{Answer, Facts, answer};
use chronyc::reply::{Reply, Report};
use chronyc::request::{Refused, Request};
use chronyc::{MAX_LENGTH, float};
use ntp::responder::{Acl, Tables};
use time_model::view::{SourceView, View};

pub(super) fn body(data: &[u8]) {
    as_request(data);
    if let Some(reply) = Reply::parse(data) {
        // A reply that was understood can be written again.
        let again = Reply::parse(&reply.to_octets(MAX_LENGTH));
        let again = again.expect("a reply that was written");
        assert_eq!(
            (again.command, again.sequence),
            (reply.command, reply.sequence)
        );
    }
    for bits in data.as_chunks::<4>().0 {
        let number = float::decode(u32::from_be_bytes(*bits));
        assert!(number.is_finite());
        let back = float::decode(float::encode(number));
        assert!(
            (back - number).abs() <= number.abs() * 1e-7,
            "{number:e} {back:e}"
        );
    }
}

fn as_request(data: &[u8]) {
    let (command, sequence, status, report) = match Request::parse(data) {
        Err(Refused::Silently) => return,
        Err(Refused::With {
            command,
            sequence,
            status,
        }) => (command, sequence, status, Report::Null),
        Ok(request) => {
            assert!(request.to_octets().len() <= data.len().max(MAX_LENGTH));
            assert_eq!(
                Request::parse(&request.to_octets()).map(|again| again.sequence),
                Ok(request.sequence)
            );
            let source = SourceView {
                address: Some([192, 0, 2, 1].into()),
                ..SourceView::default()
            };
            let view = View {
                sources: vec![source, SourceView::default()],
                ..View::default()
            };
            let tables = Tables::new(0, [1, 2]);
            let access = Acl::new();
            let facts = Facts {
                view: &view,
                tables: &tables,
                client_log: true,
                access: &access,
                command_access: &access,
                open: &[],
            };
            // Over UDP, nothing is ever done.
            assert!(matches!(
                answer(&request.command, &facts, false),
                Answer::Reply(..)
            ));
            match answer(&request.command, &facts, true) {
                Answer::Reply(status, report) => {
                    (request.command.number(), request.sequence, status, report)
                }
                Answer::ControlRequest(_) => return,
            }
        }
    };
    let reply = Reply {
        command,
        sequence,
        status,
        report,
    };
    let octets = reply.to_octets(data.len());
    assert!(
        octets.len() <= data.len(),
        "a reply is no longer than its request"
    );
    let again = Reply::parse(&octets).expect("a whole reply");
    assert_eq!((again.status, again.sequence), (status, sequence));
}
