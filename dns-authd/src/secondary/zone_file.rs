//! The file that keeps a secondary zone, and the one that says when it was known to be current.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::clock;
use dns_wire::hash::Seed;
use dns_wire::{Name, Type, rdata};
use dns_zone::incoming::Incoming;
use dns_zone::parse::{self, Options};
use dns_zone::{SoaTimes, Zone};
use durable::Rights;

use crate::config::Secondary;
use daemon::random;

/// The longest first line of a file that was written here.
const FIRST_LINE: u64 = 4096;

/// The version that is kept, and for how long it is known to have been current; `None` if there is none, or a file
/// that was not written here: the zone is then transferred as a whole.
pub(super) fn read(secondary: &Secondary) -> Option<(SoaTimes, Duration)> {
    let file = File::open(&secondary.file).ok()?;
    let mut line = String::new();
    BufReader::new(file.take(FIRST_LINE))
        .read_line(&mut line)
        .ok()?;
    let fields: Vec<&str> = line.trim_end().splitn(5, '\t').collect();
    let [owner, _, "IN", "SOA", data] = *fields.as_slice() else {
        return None;
    };
    if Name::parse(owner).ok()? != secondary.name {
        return None;
    }
    let rdata = rdata::from_text(Type::SOA, data, &Name::root()).ok()?;
    let times = SoaTimes::of(&rdata)?;
    let checked = fs::metadata(stamp(&secondary.file)).or_else(|_| fs::metadata(&secondary.file));
    let checked = checked.and_then(|metadata| metadata.modified()).ok()?;
    // A clock that was set back says nothing of the age.
    let age = clock::wall().duration_since(checked).unwrap_or_default();
    Some((times, age))
}

/// Checks a zone that has come as a file is checked, and puts it in the place of the one before, whole or not at all.
pub(super) fn write(
    secondary: &Secondary,
    incoming: &Incoming,
    options: &Options,
) -> Result<(), String> {
    let text = incoming.master_file();
    let (name, path) = (&secondary.name, secondary.file.as_path());
    let mut load = |asked: &Path| match asked == path {
        true => Ok(text.clone().into_bytes()),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    let parsed = parse::parse(path, name, &mut load, options);
    let built = parsed
        .map_err(|rejected| rejected.problems)
        .and_then(|file| Zone::build(name, &file.records, Seed(random::seed())));
    if let Err(problems) = built {
        let first = problems.first().map(ToString::to_string);
        return Err(format!(
            "the zone that was transferred cannot be served: {}",
            first.unwrap_or_default()
        ));
    }
    durable::write(path, Rights::PUBLIC, text.as_bytes()).map_err(|error| format!("{error:#}"))
}

/// Notes that the version that is kept is current now.
pub(super) fn mark_checked(secondary: &Secondary) -> io::Result<()> {
    let file = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .open(stamp(&secondary.file))?;
    file.set_modified(clock::wall())
}

fn stamp(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".checked");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(records: &[(&str, Type, &str)]) -> Incoming {
        let zone: Name = "a.test.".parse().unwrap();
        let mut out = vec![0; 4096];
        let flags = dns_wire::Flags(dns_wire::Flags::QR);
        let mut message = dns_wire::Composer::new(&mut out, 4096, 7, flags).unwrap();
        message.question(b"\x01a\x04test\0\0\xfc\0\x01").unwrap();
        for (owner, rtype, data) in records {
            let owner: Name = owner.parse().unwrap();
            let data = rdata::from_text(*rtype, data, &Name::root()).unwrap();
            let fixed = (*rtype, dns_wire::Class::IN, 60);
            let owner = dns_wire::Owner::Name(&owner);
            message
                .record(dns_wire::Section::Answer, owner, fixed, &data)
                .unwrap();
        }
        let length = message.finish();
        let mut incoming = Incoming::new(&zone, 7, None);
        incoming.take(&out[..length]).unwrap();
        incoming
    }

    #[test]
    fn a_zone_is_kept_with_its_timers_and_its_age() {
        let directory = tempfile::tempdir().unwrap();
        let secondary = Secondary {
            name: "A.test.".parse().unwrap(),
            view: None,
            file: directory.path().join("a.zone"),
            primaries: Vec::new(),
            key: None,
        };
        assert!(read(&secondary).is_none());
        let soa = ("a.test.", Type::SOA, "ns.a.test. h. 7 10 20 30 40");
        let ns = ("a.test.", Type::NS, "ns.a.test.");
        let options = Options::default();
        write(&secondary, &incoming(&[soa, ns, soa]), &options).unwrap();
        let (times, age) = read(&secondary).unwrap();
        assert_eq!((times.serial, times.expire), (7, Duration::from_secs(30)));
        assert!(age < Duration::from_secs(60));
        mark_checked(&secondary).unwrap();
        let long_ago = clock::wall() - Duration::from_hours(2);
        let checked = File::options().write(true).open(stamp(&secondary.file));
        checked.unwrap().set_modified(long_ago).unwrap();
        let (_, age) = read(&secondary).unwrap();
        assert!(age >= Duration::from_hours(2));
        // What cannot be served does not take the place of what can.
        let before = fs::read(&secondary.file).unwrap();
        let other = Secondary {
            name: "b.test.".parse().unwrap(),
            ..secondary.clone()
        };
        let written = write(&other, &incoming(&[soa, ns, soa]), &options);
        assert!(written.unwrap_err().contains("cannot be served"));
        assert_eq!(fs::read(&secondary.file).unwrap(), before);
        fs::write(&secondary.file, "$ORIGIN a.test.\n@ SOA a b 1 2 3 4 5\n").unwrap();
        assert!(read(&secondary).is_none(), "not written here");
    }
}
