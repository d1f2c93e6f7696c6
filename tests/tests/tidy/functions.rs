//! Size of functions: lines and parameters. Relies on the layout of rustfmt.

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

const LINES_MAX: usize = 70;
const PARAMETERS_MAX: usize = 5;

/// A function that the scanner found.
struct ScannedFunction<'a> {
    name: &'a str,
    /// Line number, from 1.
    line: usize,
    lines: usize,
    parameters: usize,
    has_tuple: bool,
}

fn find_long_functions(files: &[SourceFile]) -> Vec<TidyFinding> {
    check_functions(files, |function| {
        (function.lines > LINES_MAX).then(|| {
            format!(
                "`{}` has {} lines; the maximum is {LINES_MAX}",
                function.name, function.lines
            )
        })
    })
}

fn find_long_parameter_lists(files: &[SourceFile]) -> Vec<TidyFinding> {
    check_functions(files, |function| {
        (function.parameters > PARAMETERS_MAX).then(|| {
            let ScannedFunction { name, parameters, .. } = function;
            format!("`{name}` has {parameters} parameters; the maximum is {PARAMETERS_MAX}, so group some in a type")
        })
    })
}

fn find_tuple_parameters(files: &[SourceFile]) -> Vec<TidyFinding> {
    check_functions(files, |function| {
        function.has_tuple.then(|| {
            let name = function.name;
            format!("`{name}` takes a tuple; use a struct whose fields say what they are, or separate parameters")
        })
    })
}

fn check_functions(files: &[SourceFile], rule: fn(&ScannedFunction<'_>) -> Option<String>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test_code()) {
        for function in scan_functions(&file.text) {
            findings.extend(rule(&function).map(|message| file.finding(function.line, message)));
        }
    }
    findings
}

fn scan_functions(text: &str) -> Vec<ScannedFunction<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate();
    starts
        .filter_map(|(index, line)| {
            let name = function_name(line)?;
            let signature = signature(&lines[index..]);
            let lines = if signature.ends_with('{') {
                body_lines(&lines[index..])
            } else {
                1
            };
            let parameters = parameters(&signature);
            Some(ScannedFunction {
                name,
                line: index + 1,
                lines,
                has_tuple: parameters.iter().any(|parameter| is_tuple(parameter)),
                parameters: parameters.len(),
            })
        })
        .collect()
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_declaration = before
        .split_whitespace()
        .all(|part| part.starts_with("pub") || matches!(part, "const" | "async" | "unsafe" | "extern" | "\"C\""));
    let name = after.split(['(', '<']).next()?;
    (is_declaration && !name.is_empty()).then_some(name)
}

/// Text from `fn` to the brace or semicolon that ends the signature.
fn signature(lines: &[&str]) -> String {
    let mut signature = String::new();
    for line in lines {
        signature.push_str(line.trim());
        signature.push(' ');
        if line.ends_with(['{', ';', '}']) {
            break;
        }
    }
    signature.trim_end().to_owned()
}

/// Number of lines up to the first closing brace with the indentation of the `fn`.
fn body_lines(lines: &[&str]) -> usize {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let end = lines.iter().position(|line| {
        let is_indented = line.get(..indent).is_some_and(|space| space.trim().is_empty());
        is_indented && line.get(indent..) == Some("}")
    });
    end.map_or(lines.len(), |end| end + 1)
}

/// The parameters of a signature, without `self`.
fn parameters(signature: &str) -> Vec<String> {
    // The parenthesis of `pub(crate)` is not that of the parameters.
    let plain = signature.split_once("fn ").map_or(signature, |(_, after)| after);
    let plain = plain.replace("->", "  ");
    let mut depth = 0_i32;
    let mut parameters: Vec<String> = Vec::new();
    let mut is_inside = false;
    for c in plain.chars() {
        match c {
            '(' if depth == 0 && !is_inside => {
                is_inside = true;
                parameters.push(String::new());
                continue;
            }
            ')' if depth == 0 && is_inside => break,
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 && is_inside => {
                parameters.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(parameter) = parameters.last_mut().filter(|_| is_inside) {
            parameter.push(c);
        }
    }
    let is_counted = |parameter: &String| {
        let head = parameter.split(':').next().unwrap_or_default();
        let last = head.split_whitespace().next_back().unwrap_or_default();
        !last.is_empty() && last.trim_start_matches('&') != "self"
    };
    parameters.retain(is_counted);
    parameters
}

/// Whether the type of a parameter is a tuple of several values.
fn is_tuple(parameter: &str) -> bool {
    let kind = parameter.split_once(": ").map_or("", |(_, kind)| kind);
    let pattern = parameter.trim_start();
    pattern.starts_with('(') || (kind.trim_start_matches('&').starts_with('(') && kind.contains(','))
}

#[test]
fn no_function_is_longer_than_70_lines() {
    assert_clean(find_long_functions);
}

#[test]
fn no_function_takes_more_than_five_parameters() {
    assert_clean(find_long_parameter_lists);
}

#[test]
fn no_function_takes_a_tuple() {
    assert_clean(find_tuple_parameters);
}

#[test]
fn a_tuple_parameter_is_caught() {
    assert_catches(
        find_tuple_parameters,
        &[
            ("crates/model/src/a.rs", "fn go(a: (u8, u8)) {\n}\n"),
            (
                "crates/model/src/b.rs",
                "    pub(crate) fn go(\n        &self,\n        (a, b): (u8, u8),\n    ) -> u8;\n",
            ),
        ],
    );
    assert_passes(
        find_tuple_parameters,
        &[(
            "crates/model/src/a.rs",
            "fn go(&self, a: &[(u8, u8)], b: impl Fn(u8, u8) -> (u8, u8), c: Vec<(u8, u8)>) -> (u8, u8) {}\n",
        )],
    );
}

#[test]
fn a_long_function_is_caught() {
    let body = "        let a = 1;\n".repeat(LINES_MAX - 1);
    let long = format!("impl A {{\n    pub(crate) async fn go(&self) {{\n{body}    }}\n}}\n");
    assert_catches(find_long_functions, &[("crates/model/src/a.rs", &long)]);
    let body = "        let a = 1;\n".repeat(LINES_MAX - 2);
    let fits = format!("impl A {{\n    fn go(&self) {{\n{body}    }}\n}}\n");
    assert_passes(find_long_functions, &[("crates/model/src/a.rs", &fits)]);
}

#[test]
fn a_sixth_parameter_is_caught() {
    assert_catches(
        find_long_parameter_lists,
        &[
            (
                "crates/model/src/a.rs",
                "fn go(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {\n}\n",
            ),
            (
                "crates/model/src/b.rs",
                "    pub(crate) async fn go<T: Into<u8>>(\n        &mut self,\n        a: T,\n        b: [u8; 2],\n        c: HashMap<u8, u8>,\n        d: u8,\n        e: u8,\n        f: u8,\n    ) -> Result<u8, u8>;\n",
            ),
        ],
    );
    assert_passes(
        find_long_parameter_lists,
        &[(
            "crates/model/src/a.rs",
            "fn go(&self, a: (u8, u8), b: HashMap<u8, u8>, c: impl Fn(u8, u8) -> u8, d: u8, e: u8) {}\n",
        )],
    );
}
