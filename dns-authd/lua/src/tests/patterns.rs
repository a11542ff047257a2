//! The library's matching functions, held against Lua's own.

use mlua::{Lua, MultiValue, Value};

use super::super::run::Run;
use super::super::{patterns, select::Random};
use super::*;

/// Lua with its own string library, and Lua with ours.
fn both() -> (Lua, Lua) {
    let own = Lua::new();
    let run = Run::new(Arc::new(LuaSettings::default()));
    run.pattern_steps.set(u32::MAX);
    patterns::install(&own, &run).unwrap();
    (Lua::new(), own)
}

/// What a program returns, as text, or that it fails.
fn returned(lua: &Lua, code: &str) -> Option<Vec<String>> {
    let returned: MultiValue = lua.load(code).eval().ok()?;
    let show = |value: &Value| format!("{} {}", value.type_name(), value.to_string().unwrap());
    Some(returned.iter().map(show).collect())
}

fn compare(reference: &Lua, own: &Lua, code: &str) {
    assert_eq!(returned(own, code), returned(reference, code), "{code}");
}

#[test]
fn calls_return_what_luas_own_return() {
    let (reference, own) = both();
    for code in CALLS {
        compare(&reference, &own, code);
    }
}

const CALLS: &[&str] = &[
    "return ('hello'):find('l')",
    "return ('hello'):find('l', -2)",
    "return ('hello'):find('l', -99)",
    "return ('hello'):find('', 6)",
    "return ('hello'):find('', 7)",
    "return ('hello'):find('', 99)",
    "return ('hello'):find('xyz')",
    "return ('a.b'):find('.', 2, true)",
    "return ('a.b'):find('.', 2, nil)",
    "return ('a.b'):find('.', 2, false)",
    "return ('a.b'):find('.', 2, 1)",
    "return ('a+b'):find('+', 1, true)",
    "return ('hello'):find('(l)(l)')",
    "return ('hello'):find('()ll()')",
    "return ('hello'):match('^h')",
    "return ('hello'):match('^e')",
    "return ('hello'):match('e', 2)",
    "return ('hello'):match('^e', 2)",
    "return ('key = value'):match('^(%w+)%s*=%s*(%w+)$')",
    "return ('2024-11-21'):match('(%d+)-(%d+)-(%d+)')",
    "return ('f(a(b)c)d'):match('%b()')",
    "return ('THE (quick) fox'):find('%f[%a]%a+%f[%A]')",
    "return ('THE (quick) fox'):gsub('%f[%a]%a+', string.lower)",
    "return ('\"it\"s\"'):match('([\"\\']).-%1')",
    "return ('abc'):gsub('', '-')",
    "return ('abc'):gsub('.', {a = 1, b = true, c = false})",
    "return ('abc'):gsub('.', {a = 1, c = false})",
    "return ('abc'):gsub('%w', '%0%0')",
    "return ('abc'):gsub('(a)(b)', '%2%1')",
    "return ('abc'):gsub('a', '%')",
    "return ('abc'):gsub('a', '%9')",
    "return ('abc'):gsub('a', '%%')",
    "return ('abc'):gsub('b', 7)",
    "return ('abc'):gsub('b', function() end)",
    "return ('abc'):gsub('b', function() return {} end)",
    "return ('abc'):gsub('b')",
    "return ('aaa'):gsub('a', 'b', 2)",
    "return ('aaa'):gsub('a', 'b', 0)",
    "return ('aaa'):gsub('a', 'b', -1)",
    "return ('aaa'):gsub('^a', 'b')",
    "return ('hello world'):gsub('o', 'x', 1)",
    "return ('  trim '):gsub('^%s*(.-)%s*$', '%1')",
    "return (123):rep(1):gsub('2', 'x')",
    "local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end return table.concat(t, ';')",
    "local t = {} for w in ('one two'):gmatch('%a+') do t[#t + 1] = w end return table.concat(t, ';')",
    "local t = {} for w in ('abc'):gmatch('') do t[#t + 1] = 'x' end return #t",
    "local t = {} for w in ('abc'):gmatch('b*') do t[#t + 1] = w end return table.concat(t, ';')",
    "local t = {} for p in ('abc'):gmatch('()', 2) do t[#t + 1] = p end return table.concat(t, ';')",
    "local t = {} for w in ('^a^a'):gmatch('^a') do t[#t + 1] = w end return #t",
    "local f = ('a'):gmatch('a') return f(), f(), f()",
    "return ('x'):find('[')",
    "return ('x'):find('[]')",
    "return (']'):find('[]]')",
    "return ('x'):find('[^]')",
    "return ('^'):find('[%^]')",
    "return ('-'):find('[a-]')",
    "return ('b'):find('[%a-z]')",
    "return ('x'):find('%')",
    "return ('x'):find('(x')",
    "return ('x'):find('x)')",
    "return ('x'):find('%1')",
    "return ('xx'):find('(x)%1')",
    "return ('x'):find('(%1x)')",
    "return ('x'):find('%b')",
    "return ('x'):find('%bx')",
    "return ('x'):find('%f')",
    "return ('x'):find('%fx')",
    "return ('a$'):find('a$')",
    "return ('a$b'):find('a$b')",
    "return ('a'):find('^')",
    "return ('a\\0b'):find('%z')",
    "return ('a\\0b'):find('\\0')",
    "return ('\\xff'):find('[\\xf0-\\xff]')",
    "return ('x\\11y'):find('%s')",
];

#[test]
fn random_patterns_match_what_luas_own_matcher_matches() {
    let (reference, own) = both();
    let pieces = [
        "a", "b", ".", "%a", "%A", "%d", "%s", "%w", "[ab]", "[^a]", "[a-c]", "[%a_]", "[]]",
        "[^%s]", "*", "+", "-", "?", "(", ")", "()", "^", "$", "%1", "%2", "%b()", "%b''", "%f[a]",
        "%%", "%.", "[", "]", "%", "1", " ", "(a)", "(.-)", "x",
    ];
    let letters = ["a", "b", "c", "1", " ", "(", ")", ".", "x", "_", "%", "]"];
    let mut random = Random::new(7);
    for round in 0..20_000 {
        let mut build = |from: &[&str], most: u64| -> String {
            (0..random.below(most))
                .map(|_| from[usize::try_from(random.below(from.len() as u64)).unwrap()])
                .collect()
        };
        let (pattern, subject) = (build(&pieces, 7), build(&letters, 12));
        let function = match round % 3 {
            0 => "find(subject, pattern)",
            1 => "gsub(subject, pattern, '<%0>')",
            _ => "match(subject, pattern, 2)",
        };
        let code = format!(
            "local subject, pattern = [==[{subject}]==], [==[{pattern}]==] return string.{function}"
        );
        compare(&reference, &own, &code);
    }
}

#[test]
fn ordinary_patterns_cost_few_steps() {
    let code = ";local a, b, c, d = ('ip-192-0-2-1.' .. ('x'):rep(200)):match('^ip%-(%d+)%-(%d+)%-(%d+)%-(%d+)%.') \
                return table.concat({a, b, c, d}, '.')";
    assert_eq!(outcome(code), fixed(&["192.0.2.1"]));
}
