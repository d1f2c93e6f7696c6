//! Writes a diagram as a Mermaid flowchart.

use std::fmt::Write;

use crate::graph::diagram::{Diagram, Lap, Taken};

/// Returns Mermaid source.
pub(crate) fn mermaid(diagram: &Diagram) -> String {
    let mut out = "flowchart LR\n".to_owned();
    for (index, node) in diagram.nodes.iter().enumerate() {
        let kind = match node.kind.as_str() {
            "" => String::new(),
            kind => format!("<br/><small>{}</small>", text(kind)),
        };
        let name = text(&node.name);
        let (open, close) = match node.lap {
            Lap::None => ("[", "]"),
            Lap::Of(_) | Lap::Open => ("[[", "]]"),
        };
        let _ = writeln!(out, "  n{index}{open}\"{name}{kind}\"{close}");
    }
    for arc in &diagram.arcs {
        let arrow = match &arc.taken {
            Taken::Plain => "-->".to_owned(),
            Taken::OnFailure => "-. failed .->".to_owned(),
            Taken::When(guard) => format!("-->|\"{}\"|", text(guard)),
        };
        let _ = writeln!(out, "  n{} {arrow} n{}", arc.from, arc.to);
    }
    if let Some(last) = diagram.last {
        let _ = writeln!(out, "  finally((finally)) --> n{last}");
    }
    out
}

/// Escapes characters that Mermaid interprets as markup.
fn text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
