//! The site's page in a browser: the demonstration's on the admin listener, and a published one behind its login.

use std::path::Path;
use std::process::Command;

use tests::browser::{Browser, Look, Tab};
use tests::certificate::self_signed;
use tests::daemon::Daemon;
use tests::masters::Master;

use super::*;

/// A telephone and a desk, each in both colours, with the name of the picture in the documents.
const LOOKS: [(Option<&str>, Look); 4] = [
    (None, look(390, false)),
    (Some("narrow"), look(390, true)),
    (Some("light"), look(1280, false)),
    (Some("dark"), look(1280, true)),
];

/// The height of a picture.
const HEIGHT: u32 = 1250;

const fn look(width: u32, dark: bool) -> Look {
    Look {
        width,
        height: if width < 600 { 844 } else { 900 },
        dark,
    }
}

/// The page follows healthd, and nothing of it is wider than the window.
fn fits(tab: &mut Tab<'_>) {
    tab.wait("document.querySelector('#live').className == 'up'");
    let wide = "[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1)\
                .map(one => one.outerHTML.slice(0, 200))";
    let wide = tab.value(wide);
    assert_eq!(wide, serde_json::json!([]), "wider than the window");
    let scrolls =
        tab.value("document.documentElement.scrollWidth > document.documentElement.clientWidth");
    assert_eq!(scrolls, false, "the page scrolls sideways");
}

/// Keeps a picture of the page in `OUTPOST_PICTURES`, if that is set. Those of docs/page are made so.
fn keep(tab: &mut Tab<'_>, name: Option<&str>, look: Look) {
    let (Some(directory), Some(name)) = (std::env::var_os("OUTPOST_PICTURES"), name) else {
        return;
    };
    let files = Scratch::new("picture");
    let text = files.write("picture", &tab.picture(look.width, HEIGHT));
    let mut command = Command::new("sh");
    command
        .args(["-c", "base64 -d \"$1\" >\"$2\"", "sh"])
        .arg(text);
    command.arg(Path::new(&directory).join(format!("{name}.png")));
    let (status, _, complaint) = run(command);
    assert!(status.success(), "{complaint}");
}

#[test]
fn a_browser_shows_the_site_at_every_width_and_colour() {
    let place = Place::new("page");
    let site = place.start();
    let url = format!("http://{}:9401/", place.host(1));
    let mut browser = Browser::start();
    let (_, first) = LOOKS[0];
    let mut tab = browser.tab(first);
    tab.open(&url);
    // healthd has probed everything, and has asked every service.
    tab.wait("document.querySelectorAll('.target > .up').length >= 9");
    tab.wait("document.querySelectorAll('.service > .up').length >= 5");
    let n_events = tab.value("document.querySelectorAll('.event').length");
    let down = run(place.outpost(&["master", "down", "master-1"]));
    assert!(down.0.success(), "{}", down.2);
    // The flip comes by the stream: the page is not loaded again.
    tab.value("window.same = true");
    tab.wait("[...document.querySelectorAll('.event')].some(one => one.innerText.includes('master-1') && one.querySelector('.down'))");
    tab.wait("document.querySelector('.target > .down')");
    assert_eq!(tab.value("window.same"), true);
    let more = format!("document.querySelectorAll('.event').length > {n_events}");
    tab.wait(&more);
    if std::env::var_os("OUTPOST_PICTURES").is_some() {
        // Half a minute of probes fills the bars.
        for n_probes in [30, 60] {
            let full = format!(
                "document.querySelector('.bars').ariaLabel.startsWith('{n_probes} probes')"
            );
            tab.wait(&full);
        }
    }
    assert_eq!(tab.close(), [""; 0]);
    for (name, look) in LOOKS {
        let mut tab = browser.tab(look);
        tab.open(&url);
        fits(&mut tab);
        let colour = tab.value("getComputedStyle(document.body).backgroundColor");
        let expected = if look.dark {
            "rgb(13, 17, 23)"
        } else {
            "rgb(246, 248, 250)"
        };
        assert_eq!(colour, expected, "{look:?}");
        for heading in [
            "Targets",
            "Services of this node",
            "Balancing",
            "Last changes",
        ] {
            let has = format!(
                "[...document.querySelectorAll('h2')].some(one => one.innerText == '{heading}')"
            );
            assert_eq!(tab.value(&has), true, "{look:?}: {heading}");
        }
        keep(&mut tab, name, look);
        assert_eq!(tab.close(), [""; 0], "{look:?}");
    }
    drop(site);
}

/// `secret`, with the lowest cost of bcrypt.
const USERS: &str = "alice:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

#[test]
fn a_browser_logs_in_to_the_published_page_and_follows_it() {
    let files = Scratch::new("published");
    let (certificate, key) = (files.join("page.crt"), files.join("page.key"));
    self_signed(&certificate, &key, "status.example");
    let users = files.write("users", USERS);
    let ip = Ipv4Addr::LOCALHOST;
    let free = || TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap();
    let (admin, published, target) = (free(), free(), free());
    let mut server = Master::local(vec![target]);
    let config = files.write(
        "healthd.toml",
        &format!(
            "version = \"v1\"\nlisten = [\"unix:{0}/s\"]\nstate = \"{0}/state\"\nadmin.listen = \"{admin}\"\n\
             [schedule]\ninterval = \"200ms\"\nrise = 1\nfall = 1\n\
             [page.tls]\nlisten = [\"{published}\"]\ncertificate = \"{1}\"\nkey = \"{2}\"\nusers = \"{3}\"\n\
             [[target]]\nkind = \"tcp\"\naddress = \"{target}\"\n",
            files.path().display(),
            certificate.display(),
            key.display(),
            users.display()
        ),
    );
    let mut command = Command::new(binary("healthd"));
    command.args(["serve", "--config"]).arg(config);
    let _healthd = Daemon::start("healthd", command);
    wait::for_it("the page is published", PATIENCE, || {
        TcpStream::connect(published).is_ok()
    });
    let mut browser = Browser::start();
    let (_, look) = LOOKS[2];
    let mut tab = browser.tab(look);
    tab.open(&format!("https://alice:secret@{published}/"));
    fits(&mut tab);
    tab.wait("document.querySelector('.target > .up')");
    server.down();
    tab.wait("document.querySelector('.target > .down')");
    tab.wait("[...document.querySelectorAll('.event')].some(one => one.querySelector('.down'))");
    assert_eq!(tab.close(), [""; 0]);
}
