use super::*;

/// A small generator of numbers, the same ones in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }
}

#[derive(Debug)]
struct Line {
    allow: bool,
    all: bool,
    network: IpNet,
}

/// What the manual and chronyd's levels make of lines, without a tree: all lines that hold the address, one after another.
fn by_brute_force(lines: &[Line], address: IpAddr) -> bool {
    let mut decided: Option<(u8, bool)> = None;
    for line in lines.iter().filter(|line| line.network.contains(&address)) {
        let level = line.network.prefix_len().div_ceil(LEVEL_BITS);
        if line.all || decided.is_none_or(|(deepest, _)| level >= deepest) {
            decided = Some((level, line.allow));
        }
    }
    decided.is_some_and(|(_, allow)| allow)
}

fn tree(lines: &[Line]) -> Acl {
    let mut acl = Acl::new();
    for line in lines {
        acl.set(line.allow, line.all, Some(line.network));
    }
    acl
}

/// An address that has the first `bits` bits of another, so that networks meet.
fn near(base: u128, width: u8, bits: u8, numbers: &mut Numbers) -> IpAddr {
    let random = u128::from(numbers.next()) << 64 | u128::from(numbers.next());
    let keep = u128::MAX.checked_shl(u32::from(128 - bits)).unwrap_or(0);
    let mixed = (base & keep) | (random & !keep);
    if width == 32 {
        IpAddr::V4(u32::try_from(mixed >> 96).unwrap().into())
    } else {
        IpAddr::V6(mixed.into())
    }
}

#[test]
fn every_prefix_length_agrees_with_brute_force() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut n_allowed = 0;
    for width in [32_u8, 128] {
        for length in 0..=width {
            let base = u128::from(numbers.next()) << 64 | u128::from(numbers.next());
            // One network of this length, and others around it.
            let mut lines = Vec::new();
            for index in 0..numbers.below(7) + 1 {
                let bits = if index == 0 {
                    length
                } else {
                    let lower = length.saturating_sub(6);
                    let upper = (length + 6).min(width);
                    lower + u8::try_from(numbers.below(u64::from(upper - lower) + 1)).unwrap()
                };
                let shared = u8::try_from(numbers.below(u64::from(bits) + 1)).unwrap();
                let shared = if numbers.below(3) == 0 { shared } else { bits };
                lines.push(Line {
                    allow: numbers.below(2) == 0,
                    all: numbers.below(4) == 0,
                    network: IpNet::new(near(base, width, shared, &mut numbers), bits).unwrap(),
                });
            }
            let acl = tree(&lines);
            for bits in 0..=width {
                let address = near(base, width, bits, &mut numbers);
                let allowed = acl.is_allowed(address);
                assert_eq!(
                    allowed,
                    by_brute_force(&lines, address),
                    "{address} {lines:?}"
                );
                n_allowed += u32::from(allowed);
            }
        }
    }
    // 33 × 33 + 129 × 129 addresses: it was not always the same.
    assert!((3_000..15_000).contains(&n_allowed), "{n_allowed}");
}

#[test]
fn examples_of_the_manual() {
    let rule = |text: &str| {
        let mut words = text.split(' ');
        let allow = words.next() == Some("allow");
        let mut rest = words.next();
        let all = rest == Some("all");
        if all {
            rest = words.next();
        }
        let clients = rest.map_or(ClientMatch::Everybody, |network| {
            ClientMatch::Network(network.parse().unwrap())
        });
        AccessRule {
            allow,
            all,
            clients,
        }
    };
    let allowed = |rules: &[&str], address: &str| {
        let rules: Vec<AccessRule> = rules.iter().map(|text| rule(text)).collect();
        Acl::from_rules(&rules, |_| Vec::new()).is_allowed(address.parse().unwrap())
    };
    assert!(!allowed(&[], "127.0.0.1"), "nobody by default");
    // Order does not matter between levels.
    for rules in [
        ["allow 1.2.3.4/32", "deny 1.2.3.0/24", "allow 1.2.0.0/16"],
        ["allow 1.2.0.0/16", "deny 1.2.3.0/24", "allow 1.2.3.4/32"],
    ] {
        assert!(allowed(&rules, "1.2.3.4"));
        assert!(!allowed(&rules, "1.2.3.5"));
        assert!(allowed(&rules, "1.2.4.5"));
        assert!(!allowed(&rules, "1.3.4.5"));
    }
    let rules = [
        "allow 1.2.3.4/32",
        "deny 1.2.3.0/24",
        "allow all 1.2.0.0/16",
    ];
    assert!(allowed(&rules, "1.2.3.5"), "all forgets what is below");
    let rules = ["allow all 1.2.0.0/16", "deny 1.2.3.0/24"];
    assert!(!allowed(&rules, "1.2.3.5"), "and not what comes after");
    for address in ["10.0.0.1", "2001:db8::1"] {
        assert!(allowed(&["allow"], address));
        assert!(!allowed(&["allow", "deny all"], address));
    }
    assert!(
        !allowed(&["allow 0.0.0.0/0"], "2001:db8::1"),
        "families are apart"
    );
    assert!(allowed(&["allow 10.0.0.0/8"], "::ffff:10.1.2.3"), "mapped");
}

#[test]
fn names_stand_for_their_addresses() {
    let rules = [
        AccessRule {
            allow: true,
            all: false,
            clients: ClientMatch::Everybody,
        },
        AccessRule {
            allow: false,
            all: false,
            clients: ClientMatch::Name("client.example.org".into()),
        },
    ];
    let addresses = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
    let acl = Acl::from_rules(&rules, |name| {
        assert_eq!(name, "client.example.org");
        addresses.to_vec()
    });
    for address in addresses {
        assert!(!acl.is_allowed(address));
    }
    assert!(acl.is_allowed("192.0.2.2".parse().unwrap()));
}

#[test]
fn anybody_is_somebody_somewhere() {
    let mut acl = Acl::new();
    assert!(!acl.allows_anybody());
    acl.set(false, false, None);
    assert!(!acl.allows_anybody());
    acl.set(true, false, Some("2001:db8::/127".parse().unwrap()));
    assert!(acl.allows_anybody());
    acl.set(false, true, None);
    assert!(!acl.allows_anybody());
}
