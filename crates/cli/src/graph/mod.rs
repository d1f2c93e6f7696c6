//! Draws the graph of a playbook as text, Mermaid or Graphviz.

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
