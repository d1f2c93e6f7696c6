//! Writes a diagram as Graphviz source.

use std::fmt::Write;

use crate::graph::diagram::{ArcCondition, Diagram, LoopMark};

/// Returns Graphviz source.
pub(crate) fn render_dot(diagram: &Diagram) -> String {
    let mut out = "digraph playbook {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n".to_owned();
    for node in &diagram.nodes {
        let label = match node.kind.as_str() {
            "" => quote_text(&node.name),
            kind => format!("{}\\n{}", quote_text(&node.name), quote_text(kind)),
        };
        let border = match node.loop_mark {
            LoopMark::None => "",
            LoopMark::Counted(_) | LoopMark::Uncounted => ", peripheries=2",
        };
        let _ = writeln!(out, "  \"{}\" [label=\"{label}\"{border}];", quote_text(&node.name));
    }
    for arc in &diagram.arcs {
        let style = match &arc.condition {
            ArcCondition::OnSuccess => String::new(),
            ArcCondition::OnFailure => " [style=dashed, label=\"failed\"]".to_owned(),
            ArcCondition::When(guard) => format!(" [label=\"{}\"]", quote_text(guard)),
        };
        let name = |index: usize| quote_text(&diagram.nodes[index].name);
        let _ = writeln!(out, "  \"{}\" -> \"{}\"{style};", name(arc.from), name(arc.to));
    }
    if let Some(last) = diagram.final_step {
        let name = quote_text(&diagram.nodes[last].name);
        let _ = writeln!(out, "  finally [shape=circle];\n  finally -> \"{name}\";");
    }
    out.push_str("}\n");
    out
}

/// Quotes text.
fn quote_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
