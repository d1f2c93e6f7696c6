//! A playbook as a drawing: on the terminal, for Mermaid, for Graphviz.

mod ascii;
mod diagram;
mod dot;
mod mermaid;
#[cfg(test)]
mod tests;

pub(crate) use ascii::ascii;
pub(crate) use diagram::Diagram;
pub(crate) use dot::dot;
pub(crate) use mermaid::mermaid;
