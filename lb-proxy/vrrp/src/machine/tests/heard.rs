//! Who is heard, and who is not.

use super::*;

#[test]
fn addresses_in_part_are_heard_and_none_are_not() {
    let mut bench = Bench::backup(settings());
    let mut advertisement = bench.advertisement(200);
    advertisement.addresses.push(address(101).address);
    bench.pass(millis(1_000));
    assert_eq!(
        bench.hear_this(HIGHER, &advertisement),
        "report AddressesDiffer"
    );
    assert_eq!(bench.until_deadline(), DOWN);
    advertisement.addresses.remove(0);
    bench.pass(millis(1_000));
    assert_eq!(bench.hear_this(HIGHER, &advertisement), "report Refused");
    assert_eq!(bench.until_deadline() + millis(1_000), DOWN);
    let counters = bench.machine.status().counters;
    assert_eq!(counters.refused(Refusal::AddressList), 1);
}

#[test]
fn the_other_checksum_is_heard_unless_only_one_is_wanted() {
    let mut peer = settings();
    peer.checksum = ChecksumForm::Rfc;
    let mut bench = Bench::backup(settings());
    let advertisement = bench.advertisement(200);
    assert_eq!(
        bench.hear_as(HIGHER, &advertisement, &peer),
        "report ChecksumDiffers"
    );
    let mut strict = settings();
    strict.checksum_strict = true;
    let mut bench = Bench::backup(strict);
    assert_eq!(
        bench.hear_as(HIGHER, &advertisement, &peer),
        "report Refused"
    );
}

#[test]
fn another_version_is_refused_and_reported() {
    let mut bench = Bench::backup(settings());
    let mut two = settings();
    two.version = Version::V2;
    let advertisement = Advertisement {
        version: Version::V2,
        ..bench.advertisement(200)
    };
    assert_eq!(
        bench.hear_as(HIGHER, &advertisement, &two),
        "report Refused"
    );
    assert_eq!(bench.hear_as(HIGHER, &advertisement, &two), "");
    let counters = bench.machine.status().counters;
    assert_eq!(counters.refused(Refusal::Version), 2);
}

#[test]
fn what_comes_back_from_the_link_is_our_own() {
    let mut bench = Bench::active(settings());
    assert_eq!(bench.hear(OWN, 100), "");
    assert_eq!(bench.machine.status().counters.advert_rcvd, 0);
}

fn unicast() -> RouterSettings {
    RouterSettings {
        peers: Peers::Unicast(vec![ip(LOWER)]),
        ..settings()
    }
}

#[test]
fn a_stranger_is_reported_and_sent_to() {
    let mut bench = Bench::active(unicast());
    assert_eq!(
        bench.hear(HIGHER, 50),
        "report UnknownPeer, report LowerHeard, send 100, send 100 to 15, announce 100 x5"
    );
    assert_eq!(bench.wait_out(), "send 100, send 100 to 15");
    // An edit of the peers makes an end of it.
    assert_eq!(
        bench.edit(|settings| settings.peers = Peers::Unicast(vec![ip(LOWER), ip(HIGHER)])),
        "send 100"
    );
}

#[test]
fn strangers_are_sent_to_up_to_a_bound() {
    let mut bench = Bench::active(unicast());
    for last in 20..40 {
        bench.hear(&format!("192.168.7.{last}"), 50);
    }
    let said = bench.wait_out();
    assert_eq!(said.matches(" to ").count(), MAX_GUESTS);
    assert!(said.ends_with("to 39"), "{said}");
}

#[test]
fn strangers_are_refused_if_asked_for() {
    let mut bench = Bench::active(RouterSettings {
        peers_only: true,
        ..unicast()
    });
    assert_eq!(bench.hear(HIGHER, 200), "report Refused");
    assert_eq!(bench.machine.state(), State::Active);
}

#[test]
fn a_password_is_asked_for() {
    let mut settings = settings();
    settings.version = Version::V2;
    settings.authentication = Authentication::password("secret");
    let mut bench = Bench::backup(settings.clone());
    let advertisement = bench.advertisement(200);
    settings.authentication = Authentication::password("guess");
    assert_eq!(
        bench.hear_as(HIGHER, &advertisement, &settings),
        "report Refused"
    );
    let counters = bench.machine.status().counters;
    assert_eq!(counters.refused(Refusal::AuthenticationFailure), 1);
}
