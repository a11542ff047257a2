//! A node whose certificate for clients is about to end gets the next one from another node; a node whose key was stolen gets none.

use std::path::Path;

use rustix::process::Signal;
use tests::daemon::{metric, run};
use tests::wait;

use super::{Node, PATIENCE, Site, openssl, revoke};

/// Signs a certificate for the clients of a node that ends after some days.
fn sign(directory: &Path, node: &str, days: u32, file: &str) {
    let sign = format!(
        "x509 -req -in {node}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile {node}.ext -out {file}"
    );
    openssl(directory, &sign);
}

/// The first certificate of a node, which ends after three days, and those that the others have for it.
fn prepare(directory: &Path, node: &str) {
    std::fs::create_dir(directory.join(format!("{node}-later"))).unwrap();
    sign(directory, node, 3, &format!("{node}-served.pem"));
    let mut series = String::new();
    for days in [3, 18, 33] {
        sign(directory, node, days, "one.pem");
        series += &std::fs::read_to_string(directory.join("one.pem")).unwrap();
    }
    std::fs::write(directory.join(format!("{node}.series")), series).unwrap();
    if node != "master-2" {
        return;
    }
    // It is the last one: all have those of the others now.
    for (at, other) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let from = directory.join(format!("master-{other}.series"));
        let to = format!("master-{at}-later/master-{other}.crt");
        std::fs::copy(from, directory.join(to)).unwrap();
    }
    revoke(directory, node);
}

fn sections(directory: &Path, node: &str) -> String {
    let files = format!("{}/{node}", directory.display());
    format!(
        "[tls]\ncertificates = [{{ certificate = \"{files}-served.pem\", key = \"{files}.key\" }}]\n\
         [renewal]\ndays = 30\ncertificate = \"{files}-served.pem\"\nlater = \"{files}-later\"\nrenewed = \"{files}-renewed.pem\"\n"
    )
}

impl Node {
    /// Whether clients are shown a certificate that ends after these days at the earliest.
    fn shows_one_for(&self, directory: &Path, days: u32) -> bool {
        let show = format!(
            "openssl s_client -connect {}:5443 -CAfile ca.pem -verify_return_error </dev/null | openssl x509 -noout -checkend {}",
            self.address,
            days * 86_400
        );
        let mut command = self.machine.command("sh");
        command.current_dir(directory).args(["-c", &show]);
        run(command).0.success()
    }

    fn renewals(&self, outcome: &str) -> Option<f64> {
        let page = self.curl(&["-s", "http://127.0.0.1:9405/metrics"]).1;
        let name = format!("outpost_certificate_renewals_total{{outcome=\"{outcome}\"}}");
        metric(&page, &name)
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_node_gets_its_next_certificate_from_another_unless_its_key_was_stolen() {
    let first = |directory: &Path, node: &str| {
        prepare(directory, node);
        String::new()
    };
    let mut site = Site::with(first, sections);
    let directory = site.scratch.path().to_owned();
    for node in &site.nodes[..2] {
        wait::for_it("the next certificate is there", PATIENCE, || {
            node.renewals("taken") == Some(1.0) && node.renewals("given") == Some(1.0)
        });
        // It would see the file within a minute.
        node.daemon.as_ref().unwrap().signal(Signal::HUP);
        wait::for_it("clients see it", PATIENCE, || {
            node.shows_one_for(&directory, 16)
        });
        assert!(!node.shows_one_for(&directory, 20), "{}", node.name);
    }

    // The thief is told nothing, and keeps the one that ends.
    let stolen = &site.nodes[2];
    wait::for_it("it asks", PATIENCE, || {
        let log = stolen.daemon.as_ref().unwrap().log();
        log.contains("No other node gives the next certificate for clients")
    });
    assert_eq!(stolen.renewals("taken"), Some(0.0));
    assert!(!stolen.shows_one_for(&directory, 4));

    // A node that is alone after a start has the one that it was given.
    for at in 0..3 {
        site.kill(at);
    }
    site.start(0);
    wait::for_it("clients see it again", PATIENCE, || {
        site.nodes[0].shows_one_for(&directory, 16)
    });
}
