//! Writes a diagram as a Mermaid flowchart.

use std::fmt::Write;

use crate::graph::diagram::{ArcCondition, Diagram, LoopMark};

/// Returns Mermaid source.
pub(crate) fn render_mermaid(diagram: &Diagram) -> String {
    let mut out = "flowchart LR\n".to_owned();
    for (index, node) in diagram.nodes.iter().enumerate() {
        let kind = match node.kind.as_str() {
            "" => String::new(),
            kind => format!("<br/><small>{}</small>", quote_text(kind)),
        };
        let name = quote_text(&node.name);
        let (open, close) = match node.loop_mark {
            LoopMark::None => ("[", "]"),
            LoopMark::Counted(_) | LoopMark::Uncounted => ("[[", "]]"),
        };
        let _ = writeln!(out, "  n{index}{open}\"{name}{kind}\"{close}");
    }
    for arc in &diagram.arcs {
        let arrow = match &arc.condition {
            ArcCondition::OnSuccess => "-->".to_owned(),
            ArcCondition::OnFailure => "-. failed .->".to_owned(),
            ArcCondition::When(guard) => format!("-->|\"{}\"|", quote_text(guard)),
        };
        let _ = writeln!(out, "  n{} {arrow} n{}", arc.from, arc.to);
    }
    if let Some(last) = diagram.final_step {
        let _ = writeln!(out, "  finally((finally)) --> n{last}");
    }
    out
}

/// Escapes characters that Mermaid interprets as markup.
fn quote_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
