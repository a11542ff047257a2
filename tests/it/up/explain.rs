//! `outpost explain` of a running site, and the transcript of docs/explain.md.

use api::explain::dns_authd::Place as NamePlace;
use api::explain::dns_recursor::Outcome;
use api::explain::node::{Explanation, Part};
use tests::binaries::checkout;

use super::*;

const NAME: &str = "api.ocp4.redhat.ren";

impl Place {
    /// The words of an explanation, and the exit code.
    fn told(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let (status, text, complaint) = run(self.outpost(&[&["explain"], arguments].concat()));
        assert_eq!(complaint, "", "{text}");
        (status.code(), text)
    }

    fn explained(&self, arguments: &[&str]) -> Explanation {
        let (code, text) = self.told(&[arguments, &["--json"]].concat());
        let explanation: Explanation = serde_json::from_str(&text).expect("an explanation");
        let expected = if explanation.is_whole() { 0 } else { 69 };
        assert_eq!(code, Some(expected), "{text}");
        explanation
    }

    /// A transcript as it is in the document: the addresses of a real site, its paths, and no times or counts.
    fn masked(&self, text: &str) -> Vec<String> {
        let [first, second, third] = self.net;
        let node = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let text = text
            .replace(&format!("{first}.{second}.{third}."), "192.168.7.")
            .replace(
                &self.run_dir().display().to_string(),
                "/run/user/1000/outpost-up",
            )
            .replace(&format!("as {node} has it"), "as master-0 has it");
        // The balancer of the records chose one of the masters that are up.
        masked(&text.replace("IN A 192.168.7.15", "IN A 192.168.7.13"))
    }
}

/// Replaces each word that begins with a digit and is no address of the site.
fn masked(text: &str) -> Vec<String> {
    let word = |word: &str| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        match is_number && !word.contains("192.168.7.") {
            true => {
                let end = word.trim_end_matches([',', ';', ':', ')']).len();
                format!("#{}", word.get(end..).unwrap_or_default())
            }
            false => word.to_owned(),
        }
    };
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        format!("{}{}", " ".repeat(indent), words.join(" "))
    };
    text.trim_end().lines().map(line).collect()
}

/// The transcript behind a command in the document.
fn documented(command: &str) -> String {
    let text = std::fs::read_to_string(checkout().join("docs/explain.md")).expect("the document");
    let (_, behind) = text
        .split_once(&format!("$ {command}\n"))
        .unwrap_or_else(|| panic!("no `{command}` in docs/explain.md"));
    let (transcript, _) = behind.split_once("```").expect("the end of a block");
    transcript.to_owned()
}

#[test]
fn a_name_is_explained_along_its_way() {
    let place = Place::new("up-explain");
    let site = place.start();
    place.address(NAME);
    let (status, _, complaint) = run(place.outpost(&["master", "down", "1"]));
    assert!(status.success(), "{complaint}");
    let gone = SocketAddr::from((place.host(14), 6443)).to_string();
    let mut last = None;
    wait::for_it("every part has the master down", PATIENCE, || {
        let now = place.explained(&[NAME]);
        let is_down = is_down_everywhere(&now, &gone);
        last = Some(now);
        is_down
    });
    let explained = last.expect("an explanation");
    assert!(explained.is_whole(), "{explained:#?}");
    let recursor = explained.dns_recursor.answer().unwrap();
    let route = recursor.route.as_ref().unwrap();
    assert_eq!(route.zone, "ocp4.redhat.ren.");
    let authority = explained.dns_authd.answer().unwrap();
    let answer = authority.response.as_ref().unwrap().answer.join("\n");
    assert!(!answer.contains(&place.host(14).to_string()), "{answer}");
    assert_eq!(authority.steps[0].live[0].targets.len(), 3);
    let balancer = explained.lb_proxy.answer().unwrap();
    let backend = balancer.backends.iter().find(|it| it.backend.name == "api");
    assert_eq!(backend.unwrap().backend.usable, 2, "{balancer:#?}");

    // The document has the same words.
    let (code, told) = place.told(&[NAME]);
    assert_eq!(code, Some(0));
    assert!(told.lines().count() <= 40, "{told}");
    let command = format!("outpost explain {NAME}");
    assert_eq!(place.masked(&told), masked(&documented(&command)), "{told}");

    // A name that is not there, and a client that may not ask.
    let missing = place.explained(&["nothing.ocp4.redhat.ren"]);
    let authority = missing.dns_authd.answer().unwrap();
    let closest = NamePlace::Missing("ocp4.redhat.ren.".to_owned());
    assert_eq!(authority.steps[0].place, closest);
    assert_eq!(authority.response.as_ref().unwrap().rcode, "NXDOMAIN");
    assert!(matches!(missing.healthd, Part::None(_)), "{missing:#?}");
    let refused = place.explained(&[NAME, "--client", "198.51.100.7"]);
    let recursor = refused.dns_recursor.answer().unwrap();
    assert_eq!(recursor.outcome, Outcome::Refused);
    let (_, told) = place.told(&[NAME, "--client", "198.51.100.7"]);
    assert!(
        told.contains("198.51.100.7 is not in allow-from: "),
        "{told}"
    );

    // A server of the balancer.
    let server = place.explained(&[&gone]);
    assert!(matches!(server.dns_recursor, Part::None(_)));
    let targets = &server.healthd.answer().unwrap().targets;
    assert!(targets.iter().any(|it| it.target.address == gone));
    let frontends = &server.lb_proxy.answer().unwrap().frontends;
    assert!(frontends.iter().any(|it| it.frontend.name == "api"));
    site.stop();
}

/// Whether each service that follows liveness has a target down.
fn is_down_everywhere(explanation: &Explanation, target: &str) -> bool {
    let in_zone = explanation.dns_authd.answer().is_some_and(|it| {
        let live = it.steps.iter().flat_map(|step| &step.live);
        let mut targets = live.flat_map(|set| &set.targets);
        targets.any(|it| it.address == target && it.liveness.to_string() == "down")
    });
    let at_healthd = explanation.healthd.answer().is_some_and(|it| {
        let mut targets = it.targets.iter();
        targets.any(|it| it.target.address == target && it.target.liveness.to_string() == "down")
    });
    let at_balancer = explanation.lb_proxy.answer().is_some_and(|it| {
        let mut servers = it.backends.iter().flat_map(|it| &it.backend.servers);
        servers.any(|it| it.address == target && !it.chosen && it.avoided_seconds.is_none())
    });
    in_zone && at_healthd && at_balancer
}

#[test]
fn services_that_are_away_are_named_and_the_exit_says_so() {
    let place = Place::new("up-explain-away");
    let (code, told) = place.told(&[NAME]);
    assert_eq!(code, Some(69), "{told}");
    for service in ["dns-recursor", "dns-authd"] {
        let line = format!("! {service} could NOT be asked: nothing listens at ");
        assert!(told.contains(&line), "{told}");
    }
    for service in ["healthd", "lb-proxy"] {
        let line = format!("{service} has no part in it: the answer has no address");
        assert!(told.contains(&line), "{told}");
    }
    let (code, told) = place.told(&["192.0.2.1:6443"]);
    assert_eq!(code, Some(69), "{told}");
    assert!(told.contains("! healthd could NOT be asked: "), "{told}");
    assert!(told.contains("! lb-proxy could NOT be asked: "), "{told}");
}
