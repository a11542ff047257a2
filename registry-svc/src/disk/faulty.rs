//! A disk that forgets what was not synced.
