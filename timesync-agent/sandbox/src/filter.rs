//! The list of system calls as a program of the kernel's packet filter (`seccomp(2)`).
//!
//! A program for each list is forty lines; a crate for it would add tables of names and another format. It looks at the
//! architecture, then at the number of the call, then at one argument if the rule names one.

/// An allowed call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// This call.
    Always(libc::c_long),
    /// This call, if an argument is one of these.
    Argument(libc::c_long, u32, &'static [i64]),
    /// This call, if an argument has this bit set.
    Bit(libc::c_long, u32, u32),
    /// This call, if an argument is this number.
    Only(libc::c_long, u32, u32),
    /// This call looks as if the kernel did not know it.
    Missing(libc::c_long),
}

/// An instruction (linux/filter.h, `struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

impl From<Instruction> for libc::sock_filter {
    fn from(instruction: Instruction) -> Self {
        Self {
            code: instruction.code,
            jt: instruction.if_true,
            jf: instruction.if_false,
            k: instruction.value,
        }
    }
}

/// Loads four octets of `struct seccomp_data`.
const LOAD: u16 = 0x20;
/// Jumps if equal.
const EQUAL: u16 = 0x15;
/// Jumps if any bit is set.
const ANY_BIT: u16 = 0x45;
/// Jumps.
const GO: u16 = 0x05;
/// Ends.
const END: u16 = 0x06;

/// The call is made.
const ALLOW: u32 = 0x7fff_0000;
/// The call is not made and has failed, with the error in the lower half.
const FAIL: u32 = 0x0005_0000;
/// The process ends.
const KILL: u32 = 0x8000_0000;

/// The offset of the number of the call.
const NUMBER: u32 = 0;
/// The offset of the architecture.
const ARCHITECTURE: u32 = 4;
/// The offset of the arguments, eight octets each; the filter compares the lower half, which comes first.
const ARGUMENTS: u32 = 16;

/// `AUDIT_ARCH_*` of this machine (linux/audit.h).
#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
/// `AUDIT_ARCH_*` of this machine (linux/audit.h).
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;

/// The program. A call that no rule names fails with EPERM.
pub(super) fn program(rules: &[Rule]) -> Vec<Instruction> {
    let mut program = vec![
        load(ARCHITECTURE),
        test(EQUAL, OURS, 1, 0),
        // Numbers of another architecture's calls mean other things.
        end(KILL),
        load(NUMBER),
    ];
    for rule in rules {
        match *rule {
            Rule::Always(call) => {
                program.extend([test(EQUAL, number(call), 0, 1), end(ALLOW)]);
            }
            Rule::Missing(call) => {
                let missing = end(FAIL | libc::ENOSYS.cast_unsigned());
                program.extend([test(EQUAL, number(call), 0, 1), missing]);
            }
            Rule::Bit(call, argument, bit) => {
                program.extend(one(call, argument, test(ANY_BIT, bit, 0, 1)));
            }
            Rule::Only(call, argument, value) => {
                program.extend(one(call, argument, test(EQUAL, value, 0, 1)));
            }
            Rule::Argument(call, argument, values) => {
                let mut body = vec![load(ARGUMENTS + 8 * argument)];
                for value in values {
                    body.extend([test(EQUAL, low(*value), 0, 1), end(ALLOW)]);
                }
                body.push(refuse());
                // A conditional jump does not reach so far.
                let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
                program.extend([test(EQUAL, number(call), 1, 0), go(length)]);
                program.extend(body);
            }
        }
    }
    program.push(refuse());
    program
}

fn refuse() -> Instruction {
    end(FAIL | libc::EPERM.cast_unsigned())
}

const fn load(offset: u32) -> Instruction {
    Instruction {
        code: LOAD,
        if_true: 0,
        if_false: 0,
        value: offset,
    }
}

const fn test(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction {
        code,
        if_true,
        if_false,
        value,
    }
}

const fn go(value: u32) -> Instruction {
    test(GO, value, 0, 0)
}

const fn end(value: u32) -> Instruction {
    test(END, value, 0, 0)
}

fn number(call: libc::c_long) -> u32 {
    low(call)
}

/// A call with a test of one argument.
fn one(call: libc::c_long, argument: u32, passes: Instruction) -> [Instruction; 5] {
    [
        test(EQUAL, number(call), 0, 4),
        load(ARGUMENTS + 8 * argument),
        passes,
        end(ALLOW),
        refuse(),
    ]
}

/// The lower half.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the filter sees halves of registers"
)]
const fn low(value: i64) -> u32 {
    value as u32
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What the kernel would do with a call.
    pub(crate) fn run(program: &[Instruction], arch: u32, call: i64, arguments: [u64; 6]) -> u32 {
        let mut data = low(call).to_ne_bytes().to_vec();
        data.extend(arch.to_ne_bytes());
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|value| value.to_ne_bytes()));
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let instruction = program[at];
            at += 1;
            let matches = match instruction.code {
                END => return instruction.value,
                LOAD => {
                    let offset = instruction.value as usize;
                    accumulator = u32::from_ne_bytes(data[offset..offset + 4].try_into().unwrap());
                    continue;
                }
                GO => {
                    at += instruction.value as usize;
                    continue;
                }
                EQUAL => accumulator == instruction.value,
                ANY_BIT => accumulator & instruction.value != 0,
                code => panic!("{code:#x}"),
            };
            at += usize::from(if matches {
                instruction.if_true
            } else {
                instruction.if_false
            });
        }
    }

    const RULES: &[Rule] = &[
        Rule::Always(7),
        Rule::Argument(8, 1, &[20, 0xc040_3d08]),
        Rule::Bit(9, 0, 0x1_0000),
        Rule::Missing(10),
        Rule::Always(11),
        Rule::Only(13, 0, 4711),
    ];

    const REFUSED: u32 = FAIL | 1;

    #[test]
    fn each_rule_allows_what_it_says_and_no_more() {
        let program = program(RULES);
        let second = |value| [0, value, 0, 0, 0, 0];
        let first = |value| [value, 20, 0, 0, 0, 0];
        for (call, arguments, expected) in [
            (7, [0; 6], ALLOW),
            (6, [0; 6], REFUSED),
            (8, second(20), ALLOW),
            (8, second(0xc040_3d08), ALLOW),
            // The kernel looks at the lower half alone, too.
            (8, second(0xffff_ffff_c040_3d08), ALLOW),
            (8, second(21), REFUSED),
            (
                8,
                first(20).map(|value| if value == 20 { 0 } else { value }),
                REFUSED,
            ),
            (9, first(0x1_0011), ALLOW),
            (9, first(0x11), REFUSED),
            (10, [0; 6], FAIL | 38),
            (11, [0; 6], ALLOW),
            (12, [0; 6], REFUSED),
            (13, first(4711), ALLOW),
            (13, first(4712), REFUSED),
            // The calls of x32 have other numbers.
            (7 | 0x4000_0000, [0; 6], REFUSED),
        ] {
            assert_eq!(
                run(&program, OURS, call, arguments),
                expected,
                "{call} {arguments:?}"
            );
        }
        assert_eq!(run(&program, OURS ^ 0x4000_0000, 7, [0; 6]), KILL);
    }

    #[test]
    fn programs_and_processes_are_out_of_reach() {
        let program = program(&super::super::calls::allowed(4711));
        assert!(program.len() <= 4096, "the kernel takes no more");
        let process = [libc::CLONE_VFORK.cast_unsigned().into(), 0, 0, 0, 0, 0];
        let thread = [libc::CLONE_THREAD.cast_unsigned().into(), 0, 0, 0, 0, 0];
        for (call, arguments, expected) in [
            (libc::SYS_execve, [0; 6], REFUSED),
            (libc::SYS_execveat, [0; 6], REFUSED),
            (libc::SYS_ptrace, [0; 6], REFUSED),
            (libc::SYS_clone, process, REFUSED),
            (libc::SYS_clone, thread, ALLOW),
            (libc::SYS_process_vm_writev, [0; 6], REFUSED),
            (libc::SYS_unshare, [0; 6], REFUSED),
            (libc::SYS_setns, [0; 6], REFUSED),
            (libc::SYS_mount, [0; 6], REFUSED),
            (libc::SYS_bpf, [0; 6], REFUSED),
            (libc::SYS_init_module, [0; 6], REFUSED),
            (libc::SYS_setuid, [0; 6], REFUSED),
            (libc::SYS_kill, [0; 6], REFUSED),
            (libc::SYS_io_uring_setup, [0; 6], REFUSED),
            (libc::SYS_clock_adjtime, [0; 6], ALLOW),
            (libc::SYS_recvmsg, [0; 6], ALLOW),
            // A terminal is not typed into.
            (libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], REFUSED),
            (libc::SYS_ioctl, [0, 0xc4c0_3d09, 0, 0, 0, 0], ALLOW),
            (libc::SYS_socket, [2, 2, 0, 0, 0, 0], ALLOW),
            (libc::SYS_socket, [38, 2, 0, 0, 0, 0], REFUSED),
        ] {
            assert_eq!(
                run(&program, OURS, call, arguments),
                expected,
                "{call} {arguments:?}"
            );
        }
    }
}
