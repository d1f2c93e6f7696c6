//! The list of the libraries in the binary with their licenses, which the server shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::assert_file_is_current;

/// The list is of this platform, so that it is the same on every machine.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// The package of the binary.
const BINARY_PACKAGE: &str = "noetl";
const INTRODUCTION: &str = "Rust libraries in the binary `noetl`, with their licenses. `cargo xtask docs` generates this list from Cargo.lock.\n\n";

fn read_metadata() -> Value {
    let arguments = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--offline",
        "--filter-platform",
        PLATFORM,
    ];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {errors}");
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// IDs of the packages that a package uses at run time, itself included.
fn runtime_packages<'a>(metadata: &'a Value, root: &'a str) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .expect("cargo resolves the dependencies");
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(node, "id"), node)).collect();
    let mut packages = BTreeSet::new();
    let mut remaining = vec![root];
    while let Some(id) = remaining.pop() {
        if !packages.insert(id) {
            continue;
        }
        let dependencies = nodes[id]["deps"].as_array().into_iter().flatten();
        let is_normal = |dependency: &&Value| {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.any(|kind| kind["kind"].is_null())
        };
        remaining.extend(dependencies.filter(is_normal).map(|dependency| text(dependency, "pkg")));
    }
    packages
}

fn licenses_list(metadata: &Value) -> String {
    let packages = metadata["packages"].as_array().expect("cargo lists the packages");
    let binary = packages.iter().find(|package| text(package, "name") == BINARY_PACKAGE);
    let used = runtime_packages(metadata, text(binary.expect("the binary is a package"), "id"));
    let libraries = packages
        .iter()
        .filter(|package| used.contains(text(package, "id")) && !package["source"].is_null());
    let lines: BTreeSet<(&str, &str, &str)> = libraries
        .map(|library| {
            let license = ["license", "license_file"].map(|field| text(library, field));
            let license = license.into_iter().find(|license| !license.is_empty());
            let license = license.expect("every library has a license");
            (text(library, "name"), text(library, "version"), license)
        })
        .collect();
    let mut list = INTRODUCTION.to_owned();
    for (name, version, license) in lines {
        writeln!(list, "{name} {version}: {license}").expect("text grows");
    }
    list
}

#[test]
fn the_list_of_licenses_has_every_library_of_the_binary() {
    assert_file_is_current(
        "crates/server/src/api/docs/licenses.txt",
        &licenses_list(&read_metadata()),
    );
}

#[test]
fn only_libraries_of_the_binary_are_listed() {
    let package = |name: &str, source: Value| serde_json::json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source});
    let registry = Value::from("registry");
    let dependency = |name: &str, kind: Value| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
    let metadata = serde_json::json!({
        "packages": [
            package("noetl", Value::Null), package("used", registry.clone()), package("inner", registry.clone()),
            package("tested", registry.clone()), package("other", registry),
        ],
        "resolve": {"nodes": [
            {"id": "noetl", "deps": [dependency("used", Value::Null), dependency("tested", "dev".into())]},
            {"id": "used", "deps": [dependency("inner", Value::Null)]},
            {"id": "inner", "deps": []},
        ]},
    });
    let list = licenses_list(&metadata);
    let lines = list.strip_prefix(INTRODUCTION);
    assert_eq!(lines, Some("inner 1.0.0: MIT\nused 1.0.0: MIT\n"));
}
