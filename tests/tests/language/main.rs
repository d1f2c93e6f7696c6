//! The language from outside: broken playbooks and what is said of them, accepted spellings, and hostile text.

mod bombs;
mod broken;
mod meaning;
mod spellings;
