//! Writes a diagram as Graphviz source.

use std::fmt::Write;

use crate::graph::diagram::{Diagram, Lap, Taken};

/// Returns Graphviz source.
pub(crate) fn dot(diagram: &Diagram) -> String {
    let mut out =
        "digraph playbook {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n".to_owned();
    for node in &diagram.nodes {
        let label = match node.kind.as_str() {
            "" => text(&node.name),
            kind => format!("{}\\n{}", text(&node.name), text(kind)),
        };
        let border = match node.lap {
            Lap::None => "",
            Lap::Of(_) | Lap::Open => ", peripheries=2",
        };
        let _ = writeln!(
            out,
            "  \"{}\" [label=\"{label}\"{border}];",
            text(&node.name)
        );
    }
    for arc in &diagram.arcs {
        let style = match &arc.taken {
            Taken::Plain => String::new(),
            Taken::OnFailure => " [style=dashed, label=\"failed\"]".to_owned(),
            Taken::When(guard) => format!(" [label=\"{}\"]", text(guard)),
        };
        let name = |index: usize| text(&diagram.nodes[index].name);
        let _ = writeln!(
            out,
            "  \"{}\" -> \"{}\"{style};",
            name(arc.from),
            name(arc.to)
        );
    }
    if let Some(last) = diagram.last {
        let name = text(&diagram.nodes[last].name);
        let _ = writeln!(out, "  finally [shape=circle];\n  finally -> \"{name}\";");
    }
    out.push_str("}\n");
    out
}

/// Quotes text.
fn text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
