//! Draws a diagram as text: from left to right, each step once, branches below each other.

use crate::graph::diagram::{Diagram, Lap, Node, Taken};
use crate::render::human;
use crate::surface::Surface;

/// Draws a diagram, one line for each branch.
pub(crate) fn ascii(diagram: &Diagram, surface: Surface) -> String {
    let mut drawing = Drawing {
        diagram,
        surface,
        drawn: vec![false; diagram.nodes.len()],
        above: Vec::new(),
    };
    let mut lines = drawing.block(diagram.entry);
    for node in 0..diagram.nodes.len() {
        if !drawing.drawn[node] && diagram.last != Some(node) {
            lines.extend(drawing.block(node));
        }
    }
    if let Some(last) = diagram.last {
        let name = drawing.name(&diagram.nodes[last]);
        lines.push(format!("finally{}{name}", drawing.arrow(&Taken::Plain)));
    }
    lines.join("\n")
}

struct Drawing<'d> {
    diagram: &'d Diagram,
    surface: Surface,
    drawn: Vec<bool>,
    /// Steps on the path from the root to the current step.
    above: Vec<usize>,
}

impl Drawing<'_> {
    /// Draws a step and everything after it; the first line starts with its name.
    fn block(&mut self, node: usize) -> Vec<String> {
        let name = self.name(&self.diagram.nodes[node]);
        let arcs: Vec<(usize, Taken)> = self
            .diagram
            .from(node)
            .map(|arc| (arc.to, arc.taken.clone()))
            .collect();
        if self.above.contains(&node) {
            let back = self.surface.either("↺", "^");
            return vec![format!("{back} {}", self.diagram.nodes[node].name)];
        }
        if self.drawn[node] && !arcs.is_empty() {
            // Its branches are drawn at its first occurrence.
            let more = self.surface.either("…", "...");
            return vec![format!("{name} {more}")];
        }
        self.drawn[node] = true;
        if arcs.is_empty() {
            return vec![name];
        }
        self.above.push(node);
        let branches: Vec<Vec<String>> = arcs
            .iter()
            .map(|(to, taken)| indent(&self.arrow(taken), self.block(*to)))
            .collect();
        self.above.pop();
        self.join(&name, branches)
    }

    /// Draws a step before its branches.
    fn join(&self, name: &str, branches: Vec<Vec<String>>) -> Vec<String> {
        if branches.len() == 1 {
            return indent(name, branches.into_iter().flatten().collect());
        }
        let surface = self.surface;
        let blank = " ".repeat(width(name) + 2);
        let count = branches.len();
        let mut lines = Vec::new();
        for (index, branch) in branches.into_iter().enumerate() {
            let is_last = index + 1 == count;
            for (row, line) in branch.into_iter().enumerate() {
                let lead = match (index, row) {
                    (0, 0) => format!("{name} {}", surface.either("─┬", "-+")),
                    (_, 0) if is_last => format!("{blank}{}", surface.either("└", "+")),
                    (_, 0) => format!("{blank}{}", surface.either("├", "+")),
                    (_, _) if is_last => format!("{blank} "),
                    (_, _) => format!("{blank}{}", surface.either("│", "|")),
                };
                let line = match row {
                    0 => line.trim_start().to_owned(),
                    _ => line.strip_prefix(' ').unwrap_or(&line).to_owned(),
                };
                lines.push(format!("{lead}{line}"));
            }
        }
        lines
    }

    fn name(&self, node: &Node) -> String {
        let mark = self.surface.either("⟳", "@");
        match node.lap {
            Lap::Of(n) => format!("{} {mark}{}", node.name, human::count(n as u64)),
            Lap::Open => format!("{} {mark}", node.name),
            Lap::None => node.name.clone(),
        }
    }

    fn arrow(&self, taken: &Taken) -> String {
        let surface = self.surface;
        let head = surface.either("▶", ">");
        match taken {
            Taken::Plain => format!(" {}{head} ", surface.either("─", "--")),
            Taken::OnFailure => {
                let dash = surface.either("┈", "..");
                format!(" {dash}failed{dash}{head} ")
            }
            Taken::When(guard) => {
                let dash = surface.either("─", "-");
                format!(" {dash} {guard} {dash}{head} ")
            }
        }
    }
}

/// Appends lines to a text: the first line after it, the others below the first.
fn indent(text: &str, lines: Vec<String>) -> Vec<String> {
    let blank = " ".repeat(width(text));
    let put = |(row, line): (usize, String)| {
        let lead = if row == 0 { text } else { &blank };
        format!("{lead}{line}")
    };
    lines.into_iter().enumerate().map(put).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}
