//! `shell`: commands in a shell of their own, values quoted by their place.

mod place;
mod script;
mod tool;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

pub(crate) use tool::Shell;
