//! The answer of `GET /top`: the names, clients and zones with the most queries of a resolver.

use serde::{Deserialize, Serialize};

use crate::explain::{Story, Tell};

/// The heaviest items of the last minute or two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// The events that are counted: `queries`, `misses` or `servfail`.
    pub by: String,
    /// The seconds that the counts are about.
    pub seconds: u64,
    /// The rankings.
    pub rankings: Vec<Ranking>,
}

/// The heaviest items of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// The kind of items: `names`, `clients` or `zones`.
    pub of: String,
    /// The events in all.
    pub total: u64,
    /// The items, the heaviest first.
    pub rows: Vec<Row>,
}

/// An item and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The name with its final dot, or the address.
    pub item: String,
    /// The events.
    pub count: u64,
    /// How many of them may belong to other items.
    pub error: u64,
}

impl Tell for Top {
    fn tell(&self, story: &mut Story, depth: usize) {
        for ranking in &self.rankings {
            let (of, by, total) = (&ranking.of, &self.by, ranking.total);
            story.say(
                depth,
                format!("{of} by {by}, {total} in {} s:", self.seconds),
            );
            if ranking.rows.is_empty() {
                story.say(depth + 1, "none");
            }
            for row in &ranking.rows {
                // In tenths of a percent; an overcount must not become more than the whole.
                let share = (row.count.saturating_mul(1000) / total.max(1)).min(1000);
                let line = format!(
                    "{:>10} {:>3}.{} %  {}",
                    row.count,
                    share / 10,
                    share % 10,
                    row.item
                );
                let line = match row.error {
                    0 => line,
                    error => format!("{line}  (up to {error} too many)"),
                };
                story.say(depth + 1, line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_reads_as_a_table() {
        let row = |item: &str, count, error| Row {
            item: item.to_owned(),
            count,
            error,
        };
        let top = Top {
            by: "queries".to_owned(),
            seconds: 97,
            rankings: vec![
                Ranking {
                    of: "names".to_owned(),
                    total: 8,
                    rows: vec![row("www.example.", 5, 0), row("a.example.", 9, 2)],
                },
                Ranking {
                    of: "clients".to_owned(),
                    total: 0,
                    rows: Vec::new(),
                },
            ],
        };
        assert_eq!(
            top.told(),
            "names by queries, 8 in 97 s:\n\
             \x20          5  62.5 %  www.example.\n\
             \x20          9 100.0 %  a.example.  (up to 2 too many)\n\
             clients by queries, 0 in 97 s:\n\
             \x20 none\n"
        );
    }
}
