//! Draws the graph of a playbook as text, Mermaid or Graphviz.

mod ascii;
mod diagram;
mod dot;
mod mermaid;
#[cfg(test)]
mod tests;

pub(crate) use ascii::render_ascii;
pub(crate) use diagram::Diagram;
pub(crate) use dot::render_dot;
pub(crate) use mermaid::render_mermaid;
