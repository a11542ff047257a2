//! Lines good and bad.

use std::io;

use config_text::OneFile;

use super::*;

static CATALOGUE: Catalogue = Catalogue {
    kept: &[
        "address",
        "port",
        "include-dir",
        "list",
        "quiet",
        "text",
        "ignore-unknown-settings",
    ],
    dropped: &[("nobody needs it", &["old", "older"])],
    families: &[("another backend", &["gmysql-"])],
    defaults: &[("list", "a, b"), ("old", "")],
};

/// Files by path; a directory holds those whose path begins with its own.
struct Disk<'a>(&'a [(&'a str, &'a str)]);

impl Files for Disk<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.0.iter().find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let inside = self.0.iter().map(|(name, _)| PathBuf::from(name));
        Ok(inside
            .filter(|path| path.parent() == Some(directory))
            .collect())
    }
}

fn read(text: &str) -> Settings {
    Settings::read(
        &CATALOGUE,
        Path::new("f"),
        &mut OneFile(text.as_bytes()),
        &[],
    )
}

fn value<'a>(settings: &'a Settings, key: &str) -> &'a str {
    settings.get(key).map_or("(none)", |setting| &setting.value)
}

fn problems(settings: Settings) -> Vec<String> {
    let (problems, _) = settings.into_parts();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn lines_are_read_as_pdns_reads_them() {
    for (text, expected) in [
        ("text=x", "x"),
        ("  text = x  \r\n", "x"),
        ("text=x # y", "x"),
        ("text=x#y", "x#y"),
        ("text=x    #\u{5141}\u{8bb8}", "x"),
        ("#text=x", "(none)"),
        (" \t# text=x", "(none)"),
        ("text=x\\\n  y", "x  y"),
        ("text=x\\", "x"),
        ("text=x\ntext=y", "y"),
        ("text=x\ntext=", ""),
        ("text=x=y", "x=y"),
        ("text", ""),
        ("text=x\ntext+=y", "x, y"),
        ("text=\ntext+=y", "y"),
        ("\n\n\n", "(none)"),
    ] {
        let settings = read(text);
        assert_eq!(value(&settings, "text"), expected, "{text}");
        assert_eq!(problems(settings), [""; 0], "{text}");
    }
}

#[test]
fn octets_that_are_no_text_are_kept_from_harm() {
    let mut file = OneFile(b"text=\xff\xfe # \x80");
    let settings = Settings::read(&CATALOGUE, Path::new("f"), &mut file, &[]);
    assert_eq!(value(&settings, "text"), "\u{fffd}\u{fffd}");
}

#[test]
fn adding_begins_with_the_default_where_there_is_one() {
    assert_eq!(value(&read("list+=c\nlist+=d"), "list"), "a, b, c, d");
    assert_eq!(value(&read("list=\nlist+=c"), "list"), "c");
    assert_eq!(value(&read("old+=c"), "old"), "c");
    assert_eq!(
        problems(read("text+=c")),
        ["f:1:1: `text+=` adds to a setting that is not set"]
    );
}

#[test]
fn unknown_settings_are_refused_with_their_place() {
    assert_eq!(
        problems(read("\n  adress=x\nutterly-else\ngmysql-host=h\n=x\n")),
        [
            "f:2:3: unknown setting `adress`, did you mean `address`?",
            "f:3:1: unknown setting `utterly-else`",
            "f:5:1: unknown setting ``",
        ]
    );
    assert_eq!(problems(read("ignore-unknown-settings=a,b\nb=1")), [""; 0]);
}

#[test]
fn no_more_problems_are_kept_than_can_be_read() {
    assert_eq!(problems(read(&"x=y\n".repeat(1000))).len(), MAX_PROBLEMS);
}

#[test]
fn what_has_no_counterpart_is_listed_in_the_order_of_the_file() {
    let settings = read("older=1\ntext=x\ngmysql-host=h\nold=2\nignore-unknown-settings=y\ny=3");
    let dropped: Vec<_> = settings
        .dropped()
        .into_iter()
        .map(|it| (it.key, it.reason))
        .collect();
    let expected = [
        ("older", "nobody needs it"),
        ("gmysql-host", "another backend"),
        ("old", "nobody needs it"),
        ("y", "`ignore-unknown-settings` names it"),
    ];
    assert_eq!(
        dropped,
        expected.map(|(key, reason)| (key.to_owned(), reason))
    );
}

#[test]
fn included_files_come_in_the_order_of_their_names_and_arguments_last() {
    let disk = [
        ("/f", "include-dir=/d\ntext=f\nport=1"),
        ("/d/b.conf", "text=b"),
        ("/d/a.conf", "text=a\naddress=a"),
        ("/d/.c.conf", "text=c"),
        ("/d/note", "text=n"),
    ];
    let arguments = [("port".to_owned(), "9".to_owned())];
    let settings = Settings::read(&CATALOGUE, Path::new("/f"), &mut Disk(&disk), &arguments);
    assert_eq!(value(&settings, "text"), "b");
    assert_eq!(value(&settings, "address"), "a");
    assert_eq!(value(&settings, "port"), "9");
    let (problems, files) = settings.into_parts();
    assert_eq!(problems, []);
    assert_eq!(files, ["/f", "/d/a.conf", "/d/b.conf"].map(PathBuf::from));
}

#[test]
fn the_directory_of_the_command_line_is_read_where_the_file_has_none() {
    let disk = [
        ("/f", "text=f"),
        ("/g", "text=g\ninclude-dir=/d"),
        ("/h", "text=h\ninclude-dir="),
        ("/d/a.conf", "text=a"),
        ("/e/b.conf", "text=b"),
    ];
    for (file, directory, expected) in [
        ("/f", "/e", "b"),
        ("/f", "", "f"),
        ("/g", "/e", "a"),
        ("/g", "", "a"),
        ("/h", "/e", "h"),
    ] {
        let arguments = [(INCLUDE_DIR.to_owned(), directory.to_owned())];
        let settings = Settings::read(&CATALOGUE, Path::new(file), &mut Disk(&disk), &arguments);
        assert_eq!(value(&settings, "text"), expected, "{file} {directory}");
        assert_eq!(value(&settings, INCLUDE_DIR), directory);
        assert_eq!(problems(settings), [""; 0]);
    }
}

#[test]
fn values_of_each_kind() {
    let mut settings = read("port=53\naddress=::1,[::2]:9;192.0.2.1 192.0.2.2:1\nquiet");
    assert_eq!(settings.number("port", 1_u16), 53);
    assert_eq!(settings.number_if_set::<u16>("text"), None);
    assert!(settings.switch("quiet", false) && settings.switch("text", true));
    let addresses = settings.addresses("address", 7).unwrap();
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(
        addresses,
        ["[::1]:7", "[::2]:9", "192.0.2.1:7", "192.0.2.2:1"]
    );
    assert_eq!(settings.addresses("text", 7), None);
    assert!(!read("quiet=no").switch("quiet", true));

    let mut wrong = read("port=65536\naddress=::1 nosuch 192.0.2.1:99999 ::1]:5");
    assert_eq!(wrong.number("port", 1_u16), 1);
    drop(wrong.addresses("address", 7));
    assert_eq!(
        problems(wrong),
        [
            "f:1:1: `port` takes a number, not `65536`",
            "f:2:1: `address` takes addresses, not `nosuch`",
            "f:2:1: `address` takes addresses, not `192.0.2.1:99999`",
            "f:2:1: `address` takes addresses, not `::1]:5`",
        ]
    );
}
