//! `artifact`: bodies and files by reference. Get one, a part of one, put, list, delete.

mod files;
mod nats;
mod outside;
mod parts;
mod target;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use tool::Artifact;
