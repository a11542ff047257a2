//! Lines as commands, and commands as words.

/// The most words of a command; more of them are passed over, as HAProxy does.
const MOST_WORDS: usize = 64;

/// The most commands of a line: a line is short, and so is what it makes.
const MOST_COMMANDS: usize = 1_024;

/// The commands of a line: separated by `;`, their words by blanks. A `\` takes the next character as it is.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let next = characters.next().unwrap_or('\\');
                word.get_or_insert_default().push(next);
            }
            ';' => {
                end_word(&mut commands, &mut word);
                if commands.len() == MOST_COMMANDS {
                    return commands;
                }
                commands.push(Vec::new());
            }
            blank if blank.is_ascii_whitespace() => end_word(&mut commands, &mut word),
            other => word.get_or_insert_default().push(other),
        }
    }
    end_word(&mut commands, &mut word);
    commands
}

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(command), Some(word)) = (commands.last_mut(), word.take())
        && command.len() < MOST_WORDS
    {
        command.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&[&str]]) {
        assert_eq!(commands(line), expected, "{line:?}");
    }

    #[test]
    fn lines_are_split_as_haproxy_splits_them() {
        check("", &[&[]]);
        check("  show   backend \t\r", &[&["show", "backend"]]);
        check("a b;c", &[&["a", "b"], &["c"]]);
        check("a ; ; b", &[&["a"], &[], &["b"]]);
        check("a;", &[&["a"], &[]]);
        check(r"get\ weight b/s\1", &[&["get weight", "b/s1"]]);
        check(r"a\;b", &[&["a;b"]]);
        check(r"a\", &[&["a\\"]]);
        check(r"a \\b", &[&["a", "\\b"]]);
        check("get weight 'b/s1'", &[&["get", "weight", "'b/s1'"]]);
    }

    #[test]
    fn words_and_commands_are_bounded() {
        assert_eq!(commands(&"a ".repeat(9_000))[0].len(), MOST_WORDS);
        assert_eq!(commands(&"a;".repeat(9_000)).len(), MOST_COMMANDS);
    }
}
