//! `workload` and `ctx`: initial values, their templates, and the order in which these are rendered.

use serde_json::{Map, Value as Json};

use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::read::values::is_template;
use crate::playbook::{DefaultTemplate, Section};
use crate::template::Tree;
use crate::yaml::{Node, NodeValue};

/// Maximum number of templates among the defaults: each is compared with the others.
const TEMPLATES_MAX: usize = 1_000;
/// Maximum length of a chain of defaults that depend on each other.
const LEVELS_MAX: usize = 32;

/// The initial values of a playbook.
#[derive(Default)]
pub(crate) struct Defaults {
    pub(crate) workload: Map<String, Json>,
    pub(crate) ctx: Map<String, Json>,
    pub(crate) templates: Vec<DefaultTemplate>,
}

impl PlaybookReader {
    pub(crate) fn read_defaults(&mut self, workload: Option<&Node>, ctx: Option<&Node>) -> Defaults {
        let mut defaults = Defaults::default();
        self.site = TemplateSite::Default;
        if let Some(node) = workload {
            defaults.workload = self.read_section(node, Section::Workload, &mut defaults.templates);
        }
        if let Some(node) = ctx {
            defaults.ctx = self.read_section(node, Section::Ctx, &mut defaults.templates);
        }
        if defaults.templates.len() > TEMPLATES_MAX {
            let span = defaults.templates[TEMPLATES_MAX].template.span();
            let message = format!("the defaults have more than {TEMPLATES_MAX} templates");
            self.report_error("E0005", message, span, "this one exceeds the limit");
            defaults.templates.clear();
        }
        self.order_templates(&mut defaults);
        self.site = TemplateSite::Call;
        defaults
    }

    fn read_section(
        &mut self,
        node: &Node,
        section: Section,
        templates: &mut Vec<DefaultTemplate>,
    ) -> Map<String, Json> {
        let Json::Object(map) = node.to_json() else {
            self.report_wrong_type(node, section.name(), "a map");
            return Map::new();
        };
        self.collect_templates(node, section, &mut Vec::new(), templates);
        map
    }

    fn collect_templates(
        &mut self,
        node: &Node,
        section: Section,
        path: &mut Vec<String>,
        templates: &mut Vec<DefaultTemplate>,
    ) {
        match &node.value {
            NodeValue::Text(text) if !text.is_raw && is_template(&text.text) => {
                if let Tree::Template(template) = self.read_template(node) {
                    templates.push(DefaultTemplate {
                        section,
                        path: path.clone(),
                        template,
                        level: 0,
                    });
                }
            }
            NodeValue::Map(entries) => {
                for entry in entries {
                    path.push(entry.key.to_string());
                    self.collect_templates(&entry.value, section, path, templates);
                    path.pop();
                }
            }
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.collect_templates(item, section, path, templates);
                    path.pop();
                }
            }
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Text(_) => {}
        }
    }

    /// Orders the templates by dependency.
    fn order_templates(&mut self, defaults: &mut Defaults) {
        let needs = find_needs(defaults);
        let mut levels: Vec<Option<usize>> = vec![None; needs.len()];
        for level in 0..LEVELS_MAX {
            let is_ready =
                |index: &usize| levels[*index].is_none() && needs[*index].iter().all(|need| levels[*need].is_some());
            let ready: Vec<usize> = (0..needs.len()).filter(is_ready).collect();
            if ready.is_empty() {
                break;
            }
            for index in ready {
                levels[index] = Some(level);
            }
        }
        if let Some(first) = levels.iter().position(Option::is_none) {
            self.report_unordered(defaults, &needs, &levels, first);
            defaults.templates.clear();
            return;
        }
        for (template, level) in defaults.templates.iter_mut().zip(levels) {
            template.level = level.unwrap_or_default();
        }
        defaults.templates.sort_by_key(|template| template.level);
    }

    /// Reports two templates that depend on each other, or a chain that is too long.
    fn report_unordered(&mut self, defaults: &Defaults, needs: &[Vec<usize>], levels: &[Option<usize>], first: usize) {
        let mut visited = vec![false; needs.len()];
        let mut index = first;
        let unordered_need = |index: usize| needs[index].iter().copied().find(|need| levels[*need].is_none());
        while let Some(next) = unordered_need(index).filter(|_| !visited[index]) {
            visited[index] = true;
            index = next;
        }
        let default = &defaults.templates[index];
        let (message, label) = match unordered_need(index).map(|next| &defaults.templates[next]) {
            Some(other) if other.name() == default.name() => (
                format!("`{}` refers to itself", default.name()),
                "it cannot be rendered".to_owned(),
            ),
            Some(other) => (
                format!("`{}` and `{}` refer to each other", default.name(), other.name()),
                format!("`{}` is on line {}", other.name(), other.template.span().line),
            ),
            None => (
                format!("more than {LEVELS_MAX} defaults refer to each other in a chain"),
                "remove a reference from this one".to_owned(),
            ),
        };
        self.report_error("E0142", message, default.template.span(), label);
    }
}

/// Returns, for each template, the others that it reads.
fn find_needs(defaults: &Defaults) -> Vec<Vec<usize>> {
    let names: Vec<String> = defaults.templates.iter().map(DefaultTemplate::name).collect();
    let needs_of = |default: &DefaultTemplate| {
        let uses = default.template.path_uses();
        let paths_read: Vec<String> = uses
            .iter()
            .flat_map(|path_use| defaults.names_read_by(&path_use.path))
            .collect();
        let is_read = |name: &str| paths_read.iter().any(|path| overlaps(path, name));
        let templates = names.iter().enumerate();
        templates
            .filter(|(_, name)| is_read(name))
            .map(|(index, _)| index)
            .collect()
    };
    defaults.templates.iter().map(needs_of).collect()
}

impl Defaults {
    /// Returns the initial values that a path in a template reads.
    fn names_read_by(&self, path: &str) -> Vec<String> {
        let path = path.split('[').next().unwrap_or(path);
        let (root, suffix) = path.split_once('.').unwrap_or((path, ""));
        let key = suffix.split('.').next().unwrap_or(suffix);
        match root {
            "ctx" if suffix.is_empty() => vec!["ctx".to_owned(), "workload".to_owned()],
            "ctx" if !self.ctx.contains_key(key) => vec![format!("workload.{suffix}")],
            "ctx" | "workload" => vec![path.to_owned()],
            _ if self.ctx.contains_key(root) => vec![format!("ctx.{path}")],
            _ => vec![format!("workload.{path}")],
        }
    }
}

/// Whether two paths are equal or one is a prefix of the other.
fn overlaps(first: &str, other: &str) -> bool {
    let is_prefix = |short: &str, long: &str| {
        let suffix = long.strip_prefix(short);
        suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
    };
    is_prefix(first, other) || is_prefix(other, first)
}
