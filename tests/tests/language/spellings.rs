//! Spellings.
