//! The system calls that keeping the time makes, once everything is open.
//!
//! Names and numbers are those of the machine that this is compiled for. The calls of every round of the timekeeping thread
//! come first: older kernels walk the list.

use super::filter::Rule;

/// Calls that are allowed whatever their arguments.
const ALWAYS: &[libc::c_long] = &[
    // In every round of the loops.
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    libc::SYS_clock_gettime,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_futex,
    libc::SYS_timerfd_settime,
    // The clock.
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    // Sockets and other descriptors.
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_socketpair,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_pselect6,
    libc::SYS_signalfd4,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Files: configuration, keys, the drift file, logs, names of hosts.
    libc::SYS_openat,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_flock,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_umask,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_membarrier,
    // Reference clocks in shared memory.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmdt,
    libc::SYS_shmctl,
    // Threads and signals.
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // The process's identity and limits.
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_times,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    // More can only be dropped.
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_seccomp,
];

/// Those of the machine that newer machines do without.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_create,
    libc::SYS_select,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_eventfd,
    libc::SYS_getrlimit,
    libc::SYS_time,
];

/// Those of the machine that newer machines do without.
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Families of sockets: names are looked up over the first and the last.
const FAMILIES: &[i64] = &[
    libc::AF_UNIX as i64,
    libc::AF_INET as i64,
    libc::AF_INET6 as i64,
    libc::AF_PACKET as i64,
    libc::AF_NETLINK as i64,
];

/// Requests to descriptors: none that types into a terminal or changes a card but for its stamps.
const REQUESTS: &[i64] = &[
    // The kind of a descriptor, and its flags.
    0x5401,
    0x5413,
    0x541b,
    0x5421,
    0x5450,
    0x5451,
    // Interfaces: names, addresses, numbers; their stamps (linux/sockios.h).
    0x8910,
    0x8912,
    0x8913,
    0x8915,
    0x891f,
    0x8921,
    0x8927,
    0x8933,
    0x8946,
    0x89b0,
    0x89b1,
    // PTP clocks: capabilities and the ways to read them, and pulses that they stamp (linux/ptp_clock.h).
    0x8050_3d01,
    0x4010_3d02,
    0x4060_3d07,
    0x4340_3d05,
    0xc040_3d08,
    0xc4c0_3d09,
    0x8050_3d0a,
    0x4340_3d0e,
    0xc040_3d11,
    0xc4c0_3d12,
    // Pulses (linux/pps.h).
    0x8008_70a1,
    0x4008_70a2,
    0x8008_70a3,
    0xc008_70a4,
];

/// `PR_SET_NAME` and `PR_GET_NAME` of threads, and asking for what was given up (`PR_GET_SECCOMP`, `PR_GET_NO_NEW_PRIVS`).
const PROCESS: &[i64] = &[15, 16, 21, 39];

/// The list of a process of this number.
pub(super) fn allowed(process: u32) -> Vec<Rule> {
    let mut rules: Vec<Rule> = ALWAYS
        .iter()
        .chain(OLDER)
        .map(|&call| Rule::Always(call))
        .collect();
    rules.extend([
        Rule::Argument(libc::SYS_socket, 0, FAMILIES),
        Rule::Argument(libc::SYS_ioctl, 1, REQUESTS),
        Rule::Argument(libc::SYS_prctl, 0, PROCESS),
        // A process that is to end signals itself, and no other process.
        Rule::Only(libc::SYS_kill, 0, process),
        // A thread, never a process.
        Rule::Bit(libc::SYS_clone, 0, libc::CLONE_THREAD.cast_unsigned()),
        // Its flags lie in memory, where a filter does not see them; C libraries then take `clone`.
        Rule::Missing(libc::SYS_clone3),
    ]);
    rules
}
