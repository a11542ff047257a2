//! Sessions by index. An event names its session by index and generation, so that one that arrives
//! after the session has ended, and another has taken its place, is known for what it is.

/// The session of an event, and its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub index: u32,
    pub generation: u32,
}

impl Token {
    /// Both in one word, for the kernel to keep; the index takes 31 bits, and the lowest bit is free.
    #[inline]
    pub fn to_bits(self) -> u64 {
        (u64::from(self.generation) << 32) | (u64::from(self.index) << 1)
    }

    /// The token in a word, whatever its lowest bit.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each half of the word is taken by itself"
    )]
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self {
            index: ((bits & u64::from(u32::MAX)) >> 1) as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by index.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn insert(&mut self, value: T) -> Token {
        if let Some(index) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(index as usize)
        {
            entry.value = Some(value);
            return Token {
                index,
                generation: entry.generation,
            };
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        // Never zero, the generation of what is no session.
        let generation = 1;
        self.entries.push(Entry {
            generation,
            value: Some(value),
        });
        Token { index, generation }
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1).max(1);
        self.free.push(index);
        Some(value)
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.value.as_mut()
    }

    /// True while the session the token was made for lives.
    #[inline]
    pub fn is_current(&self, token: Token) -> bool {
        self.entries
            .get(token.index as usize)
            .is_some_and(|entry| entry.generation == token.generation && entry.value.is_some())
    }

    #[inline]
    pub fn token(&self, index: u32) -> Option<Token> {
        let entry = self.entries.get(index as usize)?;
        entry.value.as_ref()?;
        Some(Token {
            index,
            generation: entry.generation,
        })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0_u32..)
            .zip(&self.entries)
            .filter_map(|(index, entry)| Some((index, entry.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_used_again_has_another_generation() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        let second = slab.insert('b');
        assert_eq!(slab.remove(first.index), Some('a'));
        assert!(!slab.is_current(first) && slab.is_current(second));
        let third = slab.insert('c');
        assert_eq!(third.index, first.index);
        assert!(slab.is_current(third) && !slab.is_current(first));
        assert_eq!(slab.len(), 2);
        assert_eq!(
            slab.iter().map(|(_, value)| *value).collect::<String>(),
            "cb"
        );
        assert_eq!(slab.remove(7), None);
    }

    #[test]
    fn a_token_survives_the_kernel() {
        for (index, generation) in [(0, 1), (7, 9), ((1 << 31) - 1, u32::MAX)] {
            let token = Token { index, generation };
            assert_eq!(Token::from_bits(token.to_bits()), token);
            assert_eq!(Token::from_bits(token.to_bits() | 1), token);
        }
    }
}
