use std::io::Cursor;

use super::*;

impl Forward for Cursor<Vec<u8>> {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.set_position(self.position().saturating_add(length));
        Ok(())
    }
}

fn members(octets: Vec<u8>) -> Result<Vec<(Member, Vec<u8>)>, TarError> {
    let mut reader = Reader::new(Cursor::new(octets));
    let mut members = Vec::new();
    while let Some(member) = reader.next_member()? {
        let body = match member.kind {
            Kind::File => reader.read_member(&member, 1 << 20)?,
            _ => Vec::new(),
        };
        members.push((member, body));
    }
    Ok(members)
}

/// A block with another flag and link, its sum put right.
fn special(name: &str, flag: u8, link: &str, size: u64) -> Vec<u8> {
    let mut octets = block(name.as_bytes(), size, flag);
    octets[157..157 + link.len()].copy_from_slice(link.as_bytes());
    sum(&mut octets);
    octets.to_vec()
}

fn sum(octets: &mut [u8; BLOCK_LENGTH]) {
    octets[148..156].fill(b' ');
    let sum: u32 = octets.iter().map(|&octet| u32::from(octet)).sum();
    octets[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn file(name: &str, body: &[u8]) -> Vec<u8> {
    let size = body.len() as u64;
    [&header(name, size), body, padding(size)].concat()
}

#[test]
fn what_is_written_is_read() {
    let long = format!("blobs/sha512/{}", "ab".repeat(64));
    let archive = [
        file("index.json", b"{}"),
        file(&long, &[7; 1025]),
        file("empty", b""),
        end().to_vec(),
    ]
    .concat();
    assert_eq!(archive.len() % BLOCK_LENGTH, 0);
    let read = members(archive.clone()).unwrap();
    let names: Vec<_> = read
        .iter()
        .map(|(member, body)| (member.name.as_deref().unwrap(), body.len()))
        .collect();
    assert_eq!(
        names,
        [("index.json", 2), (long.as_str(), 1025), ("empty", 0)]
    );
    for (member, body) in read {
        let at = usize::try_from(member.offset).unwrap();
        assert_eq!(&archive[at..at + body.len()], body, "{member:?}");
    }
}

#[test]
fn what_tar_writes_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::fs::create_dir(directory.join("d")).unwrap();
    let long = format!("d/{}", "n".repeat(150));
    std::fs::write(directory.join("d/a"), b"one").unwrap();
    std::fs::write(directory.join(&long), b"two").unwrap();
    std::os::unix::fs::symlink("a", directory.join("d/s")).unwrap();
    std::fs::hard_link(directory.join("d/a"), directory.join("d/z")).unwrap();
    for format in ["gnu", "pax", "ustar", "oldgnu"] {
        let output = std::process::Command::new("tar")
            .args(["--sort=name", "-cf", "-", "--format", format, "-C"])
            .arg(directory)
            .arg("d")
            .output()
            .unwrap();
        let read = match (format, output.status.success()) {
            // ustar has no room for such a name.
            ("ustar", false) => continue,
            _ => members(output.stdout).unwrap(),
        };
        let shown: Vec<_> = read
            .iter()
            .map(|(member, body)| {
                let name = member.name.as_deref().unwrap();
                (name, member.kind.clone(), body.as_slice())
            })
            .collect();
        let none: &[u8] = b"";
        let expected = [
            ("d/", Kind::Directory, none),
            ("d/a", Kind::File, b"one".as_slice()),
            (&long, Kind::File, b"two".as_slice()),
            ("d/s", Kind::Symlink("a".to_owned()), none),
            ("d/z", Kind::HardLink("d/a".to_owned()), none),
        ];
        assert_eq!(shown, expected, "{format}");
    }
}

#[test]
fn sizes_beyond_octal_are_said_twice() {
    let size = MAX_OCTAL + 5;
    let octets = header("layer", size);
    let mut reader = Reader::new(Cursor::new(octets.clone()));
    let member = reader.next_member().unwrap().unwrap();
    assert_eq!(member.size, size);
    assert_eq!(member.offset, octets.len() as u64);
    // GNU's binary form.
    let mut header = block(b"layer", 0, b'0');
    header[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1]);
    sum(&mut header);
    let mut reader = Reader::new(Cursor::new(header.to_vec()));
    assert_eq!(reader.next_member().unwrap().unwrap().size, 0x3_0000_0001);
}

#[test]
fn links_have_no_bytes_whatever_they_say() {
    let archive = [
        special("link", b'1', "a", 700),
        special("a", b'0', "", 0),
        special("device", b'3', "", 0),
        special("sparse", b'S', "", 0),
    ]
    .concat();
    let kinds: Vec<Kind> = members(archive)
        .unwrap()
        .into_iter()
        .map(|(member, _)| member.kind)
        .collect();
    let expected = [
        Kind::HardLink("a".to_owned()),
        Kind::File,
        Kind::Other,
        Kind::Other,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn what_breaks_off_is_told() {
    let whole = file("a", &[1; 600]);
    for length in [1, 511, 513, 1000, 1111] {
        let cut = whole[..length].to_vec();
        let result = members(cut);
        assert!(matches!(result, Err(TarError::Truncated)), "{length}");
    }
    assert!(members(Vec::new()).unwrap().is_empty());
}

#[test]
fn damage_is_told() {
    let mut octets = file("a", b"x");
    octets[0] = b'b';
    assert!(matches!(members(octets), Err(TarError::NoHeader(0))));
    let endless: Vec<u8> = (0..20)
        .flat_map(|_| [special("x", b'L', "", 1), vec![0; 512]].concat())
        .collect();
    assert!(matches!(members(endless), Err(TarError::Damaged { .. })));
    let long = special("x", b'L', "", MAX_EXTENSION + 1);
    assert!(matches!(members(long), Err(TarError::Damaged { .. })));
    let mut huge = block(b"x", 0, b'0');
    huge[124..136].copy_from_slice(&[0x80, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    sum(&mut huge);
    assert!(matches!(
        members(huge.to_vec()),
        Err(TarError::Damaged { .. })
    ));
    for records in [
        "9 path=x\n",
        "8 path=x\n\n",
        "x path=x\n",
        "7 path\n",
        "99 a=b\n",
    ] {
        let length = records.len() as u64;
        let octets = [
            special("x", b'x', "", length),
            records.as_bytes().to_vec(),
            padding(length).to_vec(),
            special("a", b'0', "", 0),
        ]
        .concat();
        let result = members(octets);
        let is_right = records == "9 path=x\n";
        assert_eq!(result.is_ok(), is_right, "{records:?}: {result:?}");
    }
}
