//! Conditions on the number of connections of a source (configuration.txt §7.3.3).

/// A count of a source is above a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TooMany {
    /// The count that is compared.
    pub(super) count: Count,
    /// The place of the count.
    pub(super) of: Counter,
    /// The number.
    pub(super) above: u32,
}

/// The count of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// Its connections: `conn_cur`.
    Connections,
    /// Those that it began in the table's period: `conn_rate`.
    Rate,
}

/// The place of a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// The source in a table, the proxy's own if it is not named.
    Source(Option<String>),
    /// The source that a slot tracks: `sc0` and so on.
    Slot(String),
}

/// `src_conn_cur`, `sc0_conn_rate` and so on with `gt N` or `ge N`; none for another criterion.
pub(super) fn too_many(criterion: &str, values: &[&str]) -> Option<Result<TooMany, String>> {
    let (name, inside) = match criterion.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')?),
        None => (criterion, ""),
    };
    let (of, count) = name.split_once('_')?;
    let count = match count {
        "conn_cur" => Count::Connections,
        "conn_rate" => Count::Rate,
        _ => return None,
    };
    let mut arguments = inside.split(',').filter(|word| !word.is_empty());
    let of = match of {
        "src" => Counter::Source(arguments.next().map(str::to_owned)),
        "sc" => Counter::Slot(arguments.next()?.to_owned()),
        slot => Counter::Slot(slot.strip_prefix("sc")?.to_owned()),
    };
    // `sc0_conn_cur(table)` looks the tracked key up in another table.
    let is_plain = arguments.next().is_none()
        && (name.starts_with("src_") || name.starts_with("sc_") || inside.is_empty());
    let above = match values {
        ["gt", number] => number.parse().ok(),
        ["ge", number] => number.parse::<u32>().ok().and_then(|it| it.checked_sub(1)),
        _ => None,
    };
    Some(match above.filter(|_| is_plain) {
        Some(above) => Ok(TooMany { count, of, above }),
        None => Err(format!(
            "`{criterion}` is compared otherwise than with more than a number"
        )),
    })
}
