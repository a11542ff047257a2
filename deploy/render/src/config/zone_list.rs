//! The list of a site's zones as BIND's named.conf has it, which pdns reads too.

/// The path of a zone's master file, beside the list.
pub(super) fn file_name(zone: &str) -> String {
    format!("zones/{zone}")
}

/// Renders the list: a line for each zone.
pub(super) fn render<'a>(zones: impl IntoIterator<Item = &'a str>) -> String {
    let mut text =
        "// The zones of this site, rendered by `outpost`; files are beside this one.\n".to_owned();
    for zone in zones {
        let file = file_name(zone);
        text.push_str(&format!(
            "zone \"{zone}\" {{ type master; file \"{file}\"; }};\n"
        ));
    }
    text
}

/// The list's own name.
pub(super) const NAME: &str = "zones.conf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zone_is_a_line_as_people_write_it() {
        let text = render(["ocp4.redhat.ren", "7.168.192.in-addr.arpa"]);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                r#"zone "ocp4.redhat.ren" { type master; file "zones/ocp4.redhat.ren"; };"#,
                r#"zone "7.168.192.in-addr.arpa" { type master; file "zones/7.168.192.in-addr.arpa"; };"#,
            ]
        );
    }
}
