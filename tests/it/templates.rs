//! Every template that is shipped passes the `check` of its service.

use std::process::Command;

use tests::binaries::{SERVICES, binary, checkout};
use tests::certificate::self_signed;
use tests::daemon::run;
use tests::scratch::Scratch;

#[test]
fn every_template_passes_the_check_of_its_daemon() {
    // The registry's reads the certificate that its template names.
    let files = Scratch::new("templates");
    let [certificate, key] = ["pem", "key"].map(|kind| files.join(&format!("registry.{kind}")));
    self_signed(&certificate, &key, "registry");
    for daemon in SERVICES {
        let mut template = checkout().join(format!("deploy/config/{daemon}.toml"));
        if daemon == "registry-svc" {
            let text = std::fs::read_to_string(&template).unwrap();
            let named = "\"/etc/outpost/registry.";
            let here = format!("\"{}/registry.", files.path().display());
            template = files.write("registry-svc.toml", &text.replace(named, &here));
        }
        let mut command = Command::new(binary(daemon));
        command.arg("check").arg("--config").arg(&template);
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{}\n{stdout}{stderr}", template.display());
    }
}
