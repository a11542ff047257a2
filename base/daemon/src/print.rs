//! The only way to print: a closed pipe (`| head`) ends the output, not the program.

use std::fmt;
use std::io::{self, Write};

/// Writes to standard output; a write that fails is dropped.
pub fn out(arguments: fmt::Arguments<'_>) {
    write(io::stdout().lock(), arguments);
}

/// Writes to standard error; a write that fails is dropped.
pub fn err(arguments: fmt::Arguments<'_>) {
    write(io::stderr().lock(), arguments);
}

/// Flushes standard output, which `print` leaves line-buffered.
pub fn flush() {
    drop(io::stdout().lock().flush());
}

fn write(mut to: impl Write, arguments: fmt::Arguments<'_>) {
    drop(to.write_fmt(arguments));
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! outln {
    () => { $crate::print::out(::core::format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::print::out(::core::format_args!("{}\n", ::core::format_args!($($argument)*)))
    };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! errln {
    () => { $crate::print::err(::core::format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::print::err(::core::format_args!("{}\n", ::core::format_args!($($argument)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_closed_pipe_is_survived() {
        write(Closed, format_args!("lost {}", 1));
    }

    #[test]
    fn a_line_is_written_whole() {
        let mut written = Vec::new();
        write(&mut written, format_args!("{} {}", 1, "two"));
        assert_eq!(written, b"1 two");
    }
}
