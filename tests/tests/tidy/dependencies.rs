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
    (
        "worker",
        &["language", "model", "pipeline", "tools", "results", "wire"],
    ),
    (
        "server",
        &[
            "language", "model", "engine", "pipeline", "store", "results", "wire",
        ],
    ),
];

/// Libraries that only the listed crates may use.
const LIBRARY_CRATES: &[(&str, &[&str])] = &[
    ("rusqlite", &["store", "results", "tools"]),
    // `results` uses it only for the TLS of `object_store`.
    ("reqwest", &["wire", "tools", "results"]),
    ("object_store", &["results"]),
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

fn crates_know_only_whom_they_may(files: &[SourceFile]) -> Vec<TidyFinding> {
    let is_ours = |name: &String| ALLOWED_DEPENDENCIES.iter().any(|(ours, _)| ours == name);
    let mut findings = Vec::new();
    for (name, manifest) in manifests(files).filter(|(name, _)| *name != "cli") {
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES
            .iter()
            .find(|(known, _)| *known == name)
        else {
            findings.push(manifest.finding(1, format!("`{name}` is missing from `ARROWS`")));
            continue;
        };
        for dependency in dependencies(manifest).iter().filter(|name| is_ours(name)) {
            if !allowed.contains(&dependency.as_str()) {
                findings.push(
                    manifest.finding(1, format!("`{name}` must not depend on `{dependency}`")),
                );
            }
        }
    }
    findings
}

fn libraries_stay_in_their_rooms(files: &[SourceFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (name, manifest) in manifests(files) {
        let named = dependencies(manifest);
        for (library, rooms) in LIBRARY_CRATES {
            if named.iter().any(|dependency| dependency == library) && !rooms.contains(&name) {
                let rooms = rooms.join(", ");
                findings.push(
                    manifest.finding(1, format!("only these crates may use `{library}`: {rooms}")),
                );
            }
        }
    }
    findings
}

#[test]
fn crates_name_only_the_crates_they_may() {
    assert_clean(crates_know_only_whom_they_may);
}

#[test]
fn libraries_are_used_in_their_rooms() {
    assert_clean(libraries_stay_in_their_rooms);
}

#[test]
fn a_forbidden_arrow_is_caught() {
    assert_catches(
        crates_know_only_whom_they_may,
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
        crates_know_only_whom_they_may,
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
fn a_library_outside_its_room_is_caught() {
    assert_catches(
        libraries_stay_in_their_rooms,
        &[
            (
                "crates/server/Cargo.toml",
                "[dependencies]\nrusqlite.workspace = true\n",
            ),
            (
                "crates/engine/Cargo.toml",
                "[dependencies]\nanyhow.workspace = true\n",
            ),
        ],
    );
}
