//! Memory that is shared with other programs (`shmget`), word by word.
//!
//! Others write to it at any time, so each word is read and written as an atomic one, and what belongs
//! together must be told by the words themselves.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::checked;

/// A segment of `WORDS` words of four octets, for as long as this lives.
#[derive(Debug)]
pub struct Segment<const WORDS: usize>(NonNull<[AtomicU32; WORDS]>);

// SAFETY: The memory belongs to no thread.
unsafe impl<const WORDS: usize> Send for Segment<WORDS> {}

impl<const WORDS: usize> Segment<WORDS> {
    /// Attaches the segment of a key, and makes it with these permissions if there is none.
    pub fn attach(key: u32, mode: u32) -> io::Result<Self> {
        let flags = libc::IPC_CREAT | i32::try_from(mode & 0o777).unwrap_or(0o600);
        let id = find(key, size_of::<[u32; WORDS]>(), flags)?;
        // SAFETY: The kernel chooses the address.
        let address = unsafe { libc::shmat(id, ptr::null(), 0) };
        if address.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Removes the segment of a key, when the last has detached it.
    pub fn remove(key: u32) -> io::Result<()> {
        let id = find(key, 0, 0)?;
        // SAFETY: The command has no argument.
        checked(unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) }).map(drop)
    }

    fn words(&self) -> &[AtomicU32; WORDS] {
        // SAFETY: The segment is at least as long, or shmget had failed; the kernel aligns it to a page, and
        // it is attached until this is dropped. Any octets are a word, and others may write to atomic ones.
        unsafe { self.0.as_ref() }
    }

    /// The word at a place, read after all that was read before.
    ///
    /// # Panics
    ///
    /// Beyond the segment.
    #[must_use]
    pub fn word(&self, index: usize) -> u32 {
        // The writer's stores before it counted are seen by now.
        fence(Ordering::SeqCst);
        self.at(index).load(Ordering::Relaxed)
    }

    /// Writes the word at a place, after all that was written before.
    ///
    /// # Panics
    ///
    /// Beyond the segment.
    pub fn set_word(&self, index: usize, value: u32) {
        fence(Ordering::SeqCst);
        self.at(index).store(value, Ordering::Relaxed);
    }

    fn at(&self, index: usize) -> &AtomicU32 {
        let word = self.words().get(index);
        word.unwrap_or_else(|| panic!("word {index} is beyond a segment of {WORDS}"))
    }

    /// A copy of it all, in the order of memory.
    #[must_use]
    pub fn copy(&self) -> [u32; WORDS] {
        self.words()
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed))
    }
}

impl<const WORDS: usize> Drop for Segment<WORDS> {
    fn drop(&mut self) {
        // SAFETY: It was attached here, and nothing refers to it any longer.
        unsafe { libc::shmdt(self.0.as_ptr().cast_const().cast()) };
    }
}

fn find(key: u32, size: usize, flags: i32) -> io::Result<i32> {
    // SAFETY: Plain numbers.
    checked(unsafe { libc::shmget(key.cast_signed(), size, flags) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let key = 0x4f55_0000 | (std::process::id() & 0xffff);
        let near = Segment::<24>::attach(key, 0o600).unwrap();
        let far = Segment::<24>::attach(key, 0o600).unwrap();
        Segment::<24>::remove(key).unwrap();
        assert_eq!(near.copy(), [0; 24]);
        far.set_word(23, 7);
        far.set_word(0, 9);
        let copy = std::thread::spawn(move || near.copy()).join().unwrap();
        assert_eq!((copy[23], far.word(23), far.word(0)), (7, 7, 9));
        assert!(Segment::<1>::remove(key).is_err(), "it is gone");
    }
}
