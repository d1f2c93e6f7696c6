//! Allowed dependencies between crates, checked against their manifests.

use toml::{Table, Value};

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

/// Each crate and the workspace crates it may depend on. The binary `noetl` may use all of them and is not listed.
pub(crate) const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("language", &["model"]),
    ("postgres", &[]),
    ("pipeline", &["language", "model"]),
    ("engine", &["pipeline", "language", "model"]),
    ("store", &["model", "postgres"]),
    ("results", &["model", "postgres"]),
    ("wire", &["model"]),
    ("tools", &["language", "model", "postgres", "results"]),
    ("integrations", &["language", "model", "postgres", "results", "tools"]),
    ("worker", &["language", "model", "pipeline", "tools", "results", "wire"]),
    ("web_client", &[]),
    (
        "server",
        &[
            "language",
            "model",
            "engine",
            "pipeline",
            "store",
            "results",
            "wire",
            "web_client",
        ],
    ),
];

/// Libraries that only the listed crates may use.
const LIBRARY_CRATES: &[(&str, &[&str])] = &[
    ("rusqlite", &["store", "results", "tools", "integrations"]),
    // `results` uses it only for the TLS of `object_store`.
    ("reqwest", &["wire", "tools", "integrations", "results"]),
    ("object_store", &["results"]),
    ("async-nats", &["wire", "results", "integrations"]),
    ("libloading", &["integrations"]),
    ("deadpool", &["postgres"]),
    ("tokio-postgres-rustls", &["postgres"]),
    // Only the language has templates and YAML; what stores and transports compile does not.
    ("minijinja", &["language"]),
    ("saphyr-parser", &["language"]),
    ("anyhow", &["cli"]),
    ("clap", &["cli"]),
];

/// All dependencies in a manifest: normal, dev and build.
pub(crate) fn dependencies(manifest: &SourceFile) -> Vec<String> {
    let manifest: Table = manifest.text.parse().expect("the manifest is valid TOML");
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|section| manifest.get(*section).and_then(Value::as_table))
        .flat_map(|section| section.keys().cloned())
        .collect()
}

/// Manifests of the crates under `crates/`, each with its directory name.
pub(crate) fn manifests(files: &[SourceFile]) -> impl Iterator<Item = (&str, &SourceFile)> {
    files
        .iter()
        .filter(|file| file.name() == "Cargo.toml")
        .filter_map(|file| file.crate_name().map(|name| (name, file)))
}

fn find_forbidden_dependencies(files: &[SourceFile]) -> Vec<TidyFinding> {
    let is_ours = |name: &String| ALLOWED_DEPENDENCIES.iter().any(|(ours, _)| ours == name);
    let mut findings = Vec::new();
    for (name, manifest) in manifests(files).filter(|(name, _)| *name != "cli") {
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.push(manifest.finding(1, format!("`{name}` is missing from `ALLOWED_DEPENDENCIES`")));
            continue;
        };
        for dependency in dependencies(manifest).iter().filter(|name| is_ours(name)) {
            if !allowed.contains(&dependency.as_str()) {
                findings.push(manifest.finding(1, format!("`{name}` must not depend on `{dependency}`")));
            }
        }
    }
    findings
}

fn find_misplaced_libraries(files: &[SourceFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (name, manifest) in manifests(files) {
        let dependency_names = dependencies(manifest);
        for (library, crates) in LIBRARY_CRATES {
            if dependency_names.iter().any(|dependency| dependency == library) && !crates.contains(&name) {
                let crates = crates.join(", ");
                findings.push(manifest.finding(1, format!("only these crates may use `{library}`: {crates}")));
            }
        }
    }
    findings
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    assert_clean(find_forbidden_dependencies);
}

#[test]
fn libraries_are_used_only_in_allowed_crates() {
    assert_clean(find_misplaced_libraries);
}

#[test]
fn a_forbidden_dependency_is_reported() {
    assert_catches(
        find_forbidden_dependencies,
        &[
            (
                "crates/worker/Cargo.toml",
                "[dependencies]\nmodel.workspace = true\nengine.workspace = true\n",
            ),
            (
                "crates/worker/Cargo.toml",
                "[dev-dependencies]\nstore.workspace = true\n",
            ),
            (
                "crates/server/Cargo.toml",
                "[dependencies]\ntools = { path = \"../tools\" }\n",
            ),
            (
                "crates/model/Cargo.toml",
                "[build-dependencies]\npipeline.workspace = true\n",
            ),
            ("crates/shared/Cargo.toml", "[dependencies]\n"),
        ],
    );
    assert_passes(
        find_forbidden_dependencies,
        &[
            (
                "crates/engine/Cargo.toml",
                "[dependencies]\nmodel.workspace = true\nserde.workspace = true\n",
            ),
            (
                "crates/cli/Cargo.toml",
                "[dependencies]\nserver.workspace = true\ntools.workspace = true\n",
            ),
        ],
    );
}

#[test]
fn a_library_in_the_wrong_crate_is_reported() {
    assert_catches(
        find_misplaced_libraries,
        &[
            (
                "crates/server/Cargo.toml",
                "[dependencies]\nrusqlite.workspace = true\n",
            ),
            ("crates/engine/Cargo.toml", "[dependencies]\nanyhow.workspace = true\n"),
        ],
    );
}
