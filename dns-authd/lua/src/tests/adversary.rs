//! Programs that mean harm, or are merely broken.

use config::ByteSize;

use super::*;

/// Evaluates a TXT record, which takes any string.
fn text(code: &str) -> Result<Outcome, LuaError> {
    outcome_of("a", Type::TXT, code)
}

#[test]
fn loops_end() {
    for code in [
        ";while true do end",
        ";while true do pcall(function() while true do end end) end",
        ";while true do xpcall(function() while true do end end, function() return 1 end) end",
        ";repeat until pcall(error) and false",
        ";local function f() return f() end return f()",
        ";for i = 1, 1e9 do end",
        ";::a:: goto a",
        ";local ok, e = pcall(function() while true do end end) return 'caught'",
        ";local t <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
        ";error(setmetatable({}, {__tostring = function() while true do end end}))",
        ";print(setmetatable({}, {__tostring = function() while true do end end}))",
        ";table.sort({3, 2, 1, 5, 4}, function() while true do end end)",
        ";('x'):gsub('x', function() while true do end end)",
        "setmetatable({}, {__concat = function() while true do end end}) .. 'x'",
    ] {
        match text(code) {
            Err(LuaError::Instructions { limit: 1000 }) => {}
            Err(LuaError::Program(_)) if code.contains("error(") => {}
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[test]
fn a_limit_can_be_lifted_and_lowered() {
    let count = ";local n = 0 for i = 1, 5000 do n = n + 1 end return n";
    let with = |limit| {
        let mut settings = LuaSettings::default();
        settings.limits.instructions = limit;
        let mut evaluator = Evaluator::new(Arc::new(settings)).unwrap();
        let view = Board::default().view();
        evaluator
            .evaluate(&snippet("a", Type::TXT, count), &view)
            .outcome
    };
    assert_eq!(with(1000), Err(LuaError::Instructions { limit: 1000 }));
    assert_eq!(with(0), fixed(&["5000"]));
    assert_eq!(with(1_000_000), fixed(&["5000"]));
}

#[test]
fn the_count_of_instructions_starts_anew_with_each_run() {
    let mut evaluator = evaluator();
    let view = Board::default().view();
    let long = snippet("a", Type::TXT, ";for i = 1, 200 do end return 'x'");
    for _ in 0..20 {
        assert_eq!(evaluator.evaluate(&long, &view).outcome, fixed(&["x"]));
    }
}

#[test]
fn memory_is_bounded() {
    for code in [
        ";local s = 'x' while true do s = s .. s end",
        ";local t = {} for i = 1, 9 do t[i] = ('x'):rep(100000):rep(50) end return 'x'",
        "('x'):rep(1e5):rep(1e5)",
        ";return table.unpack({}, 1, 1e7)",
        ";local t = {('x'):rep(1e5)} for i = 1, 6 do t = table.move(t, 1, #t, #t + 1) end return table.concat(t):rep(99)",
        "('x'):rep(1e5):gsub('x', ('y'):rep(1e5))",
        "string.pack('c' .. 2^30, 'x')",
        "string.format('%99999999d', 1)",
    ] {
        match text(code) {
            Err(LuaError::Memory { .. } | LuaError::Program(_)) => {}
            other => panic!("{code}: {other:?}"),
        }
        // The interpreter goes on working.
    }
    let mut evaluator = evaluator();
    let view = Board::default().view();
    let bomb = snippet(
        "a",
        Type::TXT,
        ";local s = 'x' while true do s = s .. s end",
    );
    let plain = snippet("a", Type::TXT, "'x'");
    for _ in 0..10 {
        let outcome = evaluator.evaluate(&bomb, &view).outcome;
        assert!(
            matches!(outcome, Err(LuaError::Memory { .. })),
            "{outcome:?}"
        );
        assert_eq!(evaluator.evaluate(&plain, &view).outcome, fixed(&["x"]));
    }
}

#[test]
fn library_functions_do_not_loop_for_long() {
    let huge = "setmetatable({}, {__len = function() return 2^53 | 0 end})";
    // Lua looks for the end of a list by doubling.
    let powers: Vec<String> = (0..45).map(|n| format!("[{}] = 1", 1_u64 << n)).collect();
    let gaps = format!("{{{}}}", powers.join(", "));
    let Ok(Outcome::Fixed(length)) = text(&format!("tostring(#{gaps})")) else {
        panic!("no length");
    };
    assert!(length[0].parse::<u64>().unwrap() >= 1 << 44, "{length:?}");
    for code in [
        "(''):rep(1e18)".to_owned(),
        "(''):rep('1e18')".to_owned(),
        "(''):rep(math.maxinteger, '')".to_owned(),
        ";table.move({}, 1, 1e15, 2)".to_owned(),
        ";table.move({}, '1', '1000000000', 2)".to_owned(),
        ";table.move({}, math.mininteger, -1, 2)".to_owned(),
        "(''):rep('0x7fffffffffffffff')".to_owned(),
        "(''):rep(' 0x1p62 ')".to_owned(),
        ";table.move({}, 1, '0x7fffffffffff', 2)".to_owned(),
        ";table.move({}, '0x1', 0x1p47, 2)".to_owned(),
        format!(";table.insert({gaps}, 1, 'x')"),
        format!(";table.remove({gaps}, 1)"),
        format!(";table.sort({gaps}, rawequal)"),
        "table.concat(setmetatable({}, {__index = type}), '', 1, 1e12)".to_owned(),
        format!(";table.insert({huge}, 1, 'x')"),
        format!(";table.remove({huge}, 1)"),
        format!(";table.sort({huge}, rawequal)"),
        format!("table.concat({huge})"),
        format!(";return table.unpack({huge})"),
        "('a'):rep(30000):find(('.-'):rep(40) .. 'b')".to_owned(),
        "('a'):rep(200):match(('a*'):rep(100) .. 'b')".to_owned(),
        ";for _ in ('a'):rep(30000):gmatch('.-.-.-b') do end".to_owned(),
        "('a'):rep(30000):gsub('(a*)*b', '')".to_owned(),
        "('('):rep(50000):find(('%b()'):rep(20))".to_owned(),
        "('a'):rep(1e5):rep(10):find(('a'):rep(1e5) .. 'b', 1, true)".to_owned(),
        "('x'):find(('('):rep(40) .. 'x')".to_owned(),
        "('x'):rep(300):find(('x?'):rep(300) .. ('x'):rep(300))".to_owned(),
    ] {
        let outcome = text(&code);
        assert!(
            matches!(
                outcome,
                Err(LuaError::Program(_) | LuaError::Instructions { .. })
            ),
            "{code}: {outcome:?}"
        );
    }
}

#[test]
fn what_could_reach_outside_is_absent() {
    for name in [
        "io",
        "os",
        "require",
        "package",
        "debug",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "collectgarbage",
        "coroutine",
        "newproxy",
        "setfenv",
        "getfenv",
        "jit",
        "ffi",
        "string.dump",
        "warn",
        "_G.io",
        "_ENV.os",
        "resolve",
    ] {
        assert_eq!(
            text(&format!("tostring({name})")),
            fixed(&["nil"]),
            "{name}"
        );
    }
}

#[test]
fn metatables_of_the_sandbox_are_out_of_reach() {
    for code in [
        "tostring(getmetatable(''))",
        "tostring(getmetatable(_G))",
        "tostring(getmetatable(_ENV))",
    ] {
        assert_eq!(text(code), fixed(&["false"]), "{code}");
    }
    for code in [
        ";setmetatable(_G, {})",
        ";setmetatable({}, {__gc = function() end})",
        ";setmetatable({}, {__gc = true})",
        ";getmetatable('').__index = {}",
        ";getmetatable(zone).__index = {}",
        ";setmetatable(zone, {})",
        ";setmetatable('x', {})",
    ] {
        let outcome = text(code);
        assert!(
            matches!(outcome, Err(LuaError::Program(_))),
            "{code}: {outcome:?}"
        );
    }
    // A metatable of one's own is fine.
    let code = ";return setmetatable({}, {__index = function(_, k) return k end}).x";
    assert_eq!(text(code), fixed(&["x"]));
}

#[test]
fn compiled_code_is_no_program() {
    let outcome = text("\u{1b}Lua");
    assert!(matches!(outcome, Err(LuaError::Program(_))), "{outcome:?}");
    let outcome = text(";\u{1b}LuaT");
    assert!(matches!(outcome, Err(LuaError::Program(_))), "{outcome:?}");
}

#[test]
fn a_program_that_returns_no_string_is_broken() {
    for (code, part) in [
        ("nil", "returns nothing"),
        ("", "returns nothing"),
        (";", "returns nothing"),
        ("true", "returns a boolean"),
        ("print", "returns a function"),
        ("zone", "returns a userdata"),
        ("{{'a'}}", "must hold strings, not table"),
        ("{true}", "must hold strings, not boolean"),
        ("{'a', print}", "must hold strings, not function"),
        ("{a = 'b'}", "has the key `a`"),
        ("{[1.5] = 'b'}", "has the key `1.5`"),
    ] {
        match text(code) {
            Err(LuaError::Program(message)) => {
                assert!(message.contains(part), "{code}: {message}");
            }
            other => panic!("{code}: {other:?}"),
        }
    }
    assert_eq!(text("42"), fixed(&["42"]));
    assert_eq!(text("{1, 2.5, 3.0}"), fixed(&["1", "2.5", "3"]));
    assert_eq!(text("'a', 'b'"), fixed(&["a"]));
    assert_eq!(text("{[9] = 'i', [1] = 'a'}"), fixed(&["a", "i"]));
}

#[test]
fn errors_are_one_line_and_say_what_is_wrong() {
    for (code, expected) in [
        (
            "ifportpu(443, {})",
            "attempt to call a nil value (global 'ifportpu')",
        ),
        (";if", "unexpected symbol near <eof>"),
        ("'x", "unfinished string near <eof>"),
        (";error('no')", "no"),
        (";error('a\\nb')", "a"),
        (
            ";local x = nil; return x.y",
            "attempt to index a nil value (local 'x')",
        ),
    ] {
        match text(code) {
            Err(LuaError::Program(message)) => assert_eq!(message, expected, "{code}"),
            other => panic!("{code}: {other:?}"),
        }
    }
    for code in [";error({})", ";error()", ";error(nil)", ";error(print)"] {
        let outcome = text(code);
        assert!(
            matches!(outcome, Err(LuaError::Program(_))),
            "{code}: {outcome:?}"
        );
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    let deep =
        |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for code in [
        deep("(", ")", 100_000),
        deep("{", "}", 100_000),
        deep("-", "", 100_000),
        deep("1 .. ", "", 100_000),
        format!(";{}", "do ".repeat(100_000)),
        ";local function f() return 1 + f() end return f()".to_owned(),
        ";local function f() pcall(f) end f() return 'x'".to_owned(),
        ";local t = {} t = setmetatable(t, {__index = t}) return t.x".to_owned(),
        ";return setmetatable({}, {__index = function(t, k) return t[k + 1] end})[1]".to_owned(),
        ";local t = {} for i = 1, 150 do t = {t} end return t".to_owned(),
        ";local function f() return (('x'):gsub('x', f)) end return f()".to_owned(),
        ";local f f = function() table.sort({1, 2, 3}, f) end f()".to_owned(),
        ";local t t = setmetatable({}, {__tostring = function() print(t) return 'x' end}) print(t)"
            .to_owned(),
        ";local t t = setmetatable({}, {__index = function(_, k) return t[k .. k] end}) return t.x"
            .to_owned(),
        ";local t t = setmetatable({}, {__index = function(_, k) return (k:gsub('.', t)) end}) \
         return (('x'):gsub('.', t))"
            .to_owned(),
        ";local t t = setmetatable({}, {__index = function(_, k) return table.move(t, 1, 9, 1) end}) \
         return t.x"
            .to_owned(),
    ] {
        let head: String = code.chars().take(60).collect();
        assert!(text(&code).is_err(), "{head}");
    }
}

#[test]
fn octets_that_are_no_text_are_escaped() {
    assert_eq!(text(r"'a\xff\xc3\xa9'"), fixed(&[r"a\255é"]));
    assert_eq!(rdata(Type::TXT, r"a\255").unwrap(), b"\x02a\xff");
}

#[test]
fn memory_may_run_out_anywhere() {
    let programs = [
        "ifportup(443, {'192.0.2.1', '192.0.2.2'}, {selector='all', headers={a='b'}})",
        "ifurlup('http://192.0.2.1/', {{'192.0.2.1'}, {'192.0.2.2'}}, {stringmatch='x'})",
        "pickrandomsample(2, {'a', 'b', 'c'})",
        "pickchashed({{10, 'a'}, {20, 'b'}})",
        "view({{{'0.0.0.0/0'}, {'a'}}}) .. tostring(netmask({'::/0'}))",
        "qname:toString() .. who:toStringWithPort() .. dh:getID() .. zone:countLabels()",
        "table.concat(newDN('a.b.c.d'):getRawLabels(), '|') .. newCA('192.0.2.1'):getRaw()",
        "('abc'):gsub('.', function(c) return c .. c end)",
        ";local t = {} for w in ('a b c d'):gmatch('%a') do t[#t + 1] = w end table.sort(t) return t",
        "string.format('%s %d', countryCode(), GeoIPQueryAttribute.City) .. math.random(9)",
        "filterForward(createForward(), newNMG({'10.0.0.0/8'}), '192.0.2.1')",
        "createReverse('%5%.x', {['192.0.2.1'] = 'a'})",
        ";local ok, e = pcall(function() local t = {} for i = 1, 99 do t[i] = {i} end end) return e or 'x'",
        ";print('x') pdnslog('y') error('z')",
        "('x'):rep(5000) .. ('y'):rep(5000)",
    ];
    let view = Board::default().view();
    for memory in (0..40_000).step_by(400) {
        let mut settings = LuaSettings::default();
        settings.limits.memory = ByteSize(memory);
        let Ok(mut evaluator) = Evaluator::new(Arc::new(settings)) else {
            continue;
        };
        for code in programs {
            let record = snippet("*.w", Type::TXT, code);
            drop(evaluator.evaluate(&record, &view));
            let asker = client("192.0.2.77", "1-2-3-4.w.example.org");
            drop(evaluator.answer_for(&record, &view, &asker, 1));
        }
    }
}

#[test]
fn random_programs_never_break_the_interpreter() {
    let words = [
        "pickrandom",
        "(",
        ")",
        "{",
        "}",
        "'192.0.2.1'",
        ",",
        "..",
        "ifportup",
        "443",
        "who",
        ":",
        "toString",
        "=",
        ";",
        "return",
        "if",
        "then",
        "end",
        "x",
        "[",
        "]",
        "#",
        "-",
        "nil",
        "all",
        "view",
        "function",
        "()",
        "string.rep",
        "setmetatable",
        "_ENV",
        "error",
        "pcall",
        "1e300",
        "table.concat",
        "local",
        "for",
        "do",
        "while",
        "true",
        "or",
        "and",
        "not",
    ];
    let mut random = select::Random::new(42);
    let mut evaluator = evaluator();
    let view = Board::default().view();
    for round in 0..20_000 {
        let n = random.below(12);
        let code: String = (0..n)
            .map(|_| {
                let word = usize::try_from(random.below(words.len() as u64)).unwrap();
                format!("{} ", words[word])
            })
            .collect();
        let evaluation = evaluator.evaluate(&snippet("a", Type::TXT, &code), &view);
        drop(evaluation);
        if round % 1000 == 0 {
            let plain = snippet("a", Type::TXT, "('x'):rep(2)");
            assert_eq!(evaluator.evaluate(&plain, &view).outcome, fixed(&["xx"]));
        }
    }
}
