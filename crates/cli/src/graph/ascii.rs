//! Draws a diagram as text: from left to right, each step once, branches below each other.

use crate::graph::diagram::{ArcCondition, Diagram, DiagramNode, LoopMark};
use crate::render::human;
use crate::terminal_style::TerminalStyle;

/// Draws a diagram, one line for each branch.
pub(crate) fn render_ascii(diagram: &Diagram, style: TerminalStyle) -> String {
    let mut drawing = AsciiDrawing {
        diagram,
        style,
        drawn: vec![false; diagram.nodes.len()],
        ancestors: Vec::new(),
    };
    let mut lines = drawing.draw_block(diagram.entry);
    for node in 0..diagram.nodes.len() {
        if !drawing.drawn[node] && diagram.final_step != Some(node) {
            lines.extend(drawing.draw_block(node));
        }
    }
    if let Some(last) = diagram.final_step {
        let name = drawing.node_text(&diagram.nodes[last]);
        lines.push(format!("finally{}{name}", drawing.arrow_text(&ArcCondition::OnSuccess)));
    }
    lines.join("\n")
}

struct AsciiDrawing<'d> {
    diagram: &'d Diagram,
    style: TerminalStyle,
    drawn: Vec<bool>,
    /// Steps on the path from the root to the current step.
    ancestors: Vec<usize>,
}

impl AsciiDrawing<'_> {
    /// Draws a step and everything after it; the first line starts with its name.
    fn draw_block(&mut self, node: usize) -> Vec<String> {
        let name = self.node_text(&self.diagram.nodes[node]);
        let arcs: Vec<(usize, ArcCondition)> = self
            .diagram
            .arcs_from(node)
            .map(|arc| (arc.to, arc.condition.clone()))
            .collect();
        if self.ancestors.contains(&node) {
            let back = self.style.choose("↺", "^");
            return vec![format!("{back} {}", self.diagram.nodes[node].name)];
        }
        if self.drawn[node] && !arcs.is_empty() {
            // Its branches are drawn at its first occurrence.
            let ellipsis = self.style.choose("…", "...");
            return vec![format!("{name} {ellipsis}")];
        }
        self.drawn[node] = true;
        if arcs.is_empty() {
            return vec![name];
        }
        self.ancestors.push(node);
        let branches: Vec<Vec<String>> = arcs
            .iter()
            .map(|(to, followed_arc)| indent_lines(&self.arrow_text(followed_arc), self.draw_block(*to)))
            .collect();
        self.ancestors.pop();
        self.join_branches(&name, branches)
    }

    /// Draws a step before its branches.
    fn join_branches(&self, name: &str, branches: Vec<Vec<String>>) -> Vec<String> {
        if branches.len() == 1 {
            return indent_lines(name, branches.into_iter().flatten().collect());
        }
        let style = self.style;
        let blank = " ".repeat(char_width(name) + 2);
        let count = branches.len();
        let mut lines = Vec::new();
        for (index, branch) in branches.into_iter().enumerate() {
            let is_last = index + 1 == count;
            for (row, line) in branch.into_iter().enumerate() {
                let lead = match (index, row) {
                    (0, 0) => format!("{name} {}", style.choose("─┬", "-+")),
                    (_, 0) if is_last => format!("{blank}{}", style.choose("└", "+")),
                    (_, 0) => format!("{blank}{}", style.choose("├", "+")),
                    (_, _) if is_last => format!("{blank} "),
                    (_, _) => format!("{blank}{}", style.choose("│", "|")),
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

    fn node_text(&self, node: &DiagramNode) -> String {
        let mark = self.style.choose("⟳", "@");
        match node.loop_mark {
            LoopMark::Counted(n) => {
                format!("{} {mark}{}", node.name, human::format_count(n as u64))
            }
            LoopMark::Uncounted => format!("{} {mark}", node.name),
            LoopMark::None => node.name.clone(),
        }
    }

    fn arrow_text(&self, condition: &ArcCondition) -> String {
        let style = self.style;
        let head = style.choose("▶", ">");
        match condition {
            ArcCondition::OnSuccess => format!(" {}{head} ", style.choose("─", "--")),
            ArcCondition::OnFailure => {
                let dash = style.choose("┈", "..");
                format!(" {dash}failed{dash}{head} ")
            }
            ArcCondition::When(guard) => {
                let dash = style.choose("─", "-");
                format!(" {dash} {guard} {dash}{head} ")
            }
        }
    }
}

/// Appends lines to a text: the first line after it, the others below the first.
fn indent_lines(text: &str, lines: Vec<String>) -> Vec<String> {
    let blank = " ".repeat(char_width(text));
    let put = |(row, line): (usize, String)| {
        let lead = if row == 0 { text } else { &blank };
        format!("{lead}{line}")
    };
    lines.into_iter().enumerate().map(put).collect()
}

fn char_width(text: &str) -> usize {
    text.chars().count()
}
