//! Tests of environments with the real `venv` and `pip`, and packages that the tests build.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::build::redact_users;
use super::clean::{RetentionLimits, remove_unused};
use crate::call::Tool;
use crate::http::HttpClients;
use crate::isolation::SandboxLevel;
use crate::network::NetworkConfig;
use crate::python::PythonTool;
use crate::registry::{HttpLimits, PythonConfig};
use crate::testing::{build_call, expect_error, expect_result, run_tool};

/// A worker's Python, with a directory of packages instead of an index.
struct EnvironmentFixture {
    dir: TempDir,
}

impl EnvironmentFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("packages")).unwrap();
        let fixture = Self { dir };
        fixture.add_package("parcel", "1.0", "VALUE = 'one'");
        fixture.add_package("parcel", "2.0", "VALUE = 'two'");
        fixture
    }

    /// Adds a package to the directory that pip searches. A wheel is an archive with some metadata files.
    fn add_package(&self, name: &str, version: &str, code: &str) {
        let script = "import sys, zipfile\n\
            name, version, code, to = sys.argv[1:]\n\
            info = f'{name}-{version}.dist-info'\n\
            with zipfile.ZipFile(f'{to}/{name}-{version}-py3-none-any.whl', 'w') as out:\n\
            \x20   out.writestr(f'{name}.py', code)\n\
            \x20   out.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')\n\
            \x20   out.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
            \x20   out.writestr(f'{info}/entry_points.txt', f'[console_scripts]\\n{name}-tell = {name}:tell\\n')\n\
            \x20   out.writestr(f'{info}/RECORD', '')\n";
        let status = std::process::Command::new("python3")
            .args(["-c", script, name, version, code])
            .arg(self.dir.path().join("packages"))
            .status();
        assert!(status.unwrap().success());
    }

    fn tool(&self) -> PythonTool {
        let path = std::env::var("PATH").unwrap();
        let env = [("PATH".to_owned(), path), ("HOME".to_owned(), self.read_text(""))];
        let pip = [
            ("PIP_NO_INDEX".to_owned(), "1".to_owned()),
            ("PIP_FIND_LINKS".to_owned(), self.read_text("packages")),
        ];
        let config = PythonConfig {
            pool_max: 4,
            environments_dir: self.dir.path().join("environments"),
            pip_environment: pip.into(),
            ..PythonConfig::default()
        };
        let clients = Arc::new(HttpClients::new(HttpLimits::default(), &NetworkConfig::default()));
        PythonTool::new(&config, env.into(), clients, SandboxLevel::None)
    }

    fn read_text(&self, path: &str) -> String {
        self.dir.path().join(path).display().to_string()
    }

    fn environment_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("environments")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.contains('.')).collect()
    }
}

async fn run_with_libs(tool: &PythonTool, libs: Value, code: &str) -> model::outcome::Outcome {
    run_tool(
        tool,
        build_call("python", json!({"libs": libs, "code": code}), json!({})),
    )
    .await
}

#[tokio::test]
async fn each_set_of_requirements_is_built_once() {
    let fixture = EnvironmentFixture::new();
    let tool = fixture.tool();
    let code = "import parcel, os\nreturn [parcel.VALUE, os.getpid()]";
    let first = expect_result(run_with_libs(&tool, json!(["parcel==1.0"]), code).await);
    assert_eq!(first[0], "one");
    let second = expect_result(
        run_with_libs(
            &tool,
            json!(["parcel"]),
            "import os\nreturn [parcel.VALUE, os.getpid()]",
        )
        .await,
    );
    assert_eq!(
        second[0], "two",
        "a bare name installs the newest version and is imported"
    );
    let again = expect_result(run_with_libs(&tool, json!(["parcel==1.0"]), code).await);
    assert_eq!(again, first, "the warm interpreter of the environment is reused");
    let inline = format!("# /// script\n# dependencies = ['parcel==1.0']\n# ///\n{code}");
    assert_eq!(
        expect_result(run_with_libs(&tool, json!(null), &inline).await)[0],
        "one"
    );
    assert_eq!(fixture.environment_names().len(), 2);
    let without = run_with_libs(&tool, json!(["json"]), "return json.dumps(1)").await;
    assert_eq!(expect_result(without), "1", "a standard module is only imported");
    assert_eq!(fixture.environment_names().len(), 2);
}

#[tokio::test]
async fn concurrent_calls_build_one_environment_with_its_final_paths() {
    let fixture = EnvironmentFixture::new();
    let tools = [fixture.tool(), fixture.tool()];
    let libs = || json!(["parcel==2.0"]);
    let code = "import parcel, sys\nreturn sys.prefix";
    let calls = (0..6).map(|n| run_with_libs(&tools[n % 2], libs(), code));
    let homes: Vec<Value> = futures_util::future::join_all(calls)
        .await
        .into_iter()
        .map(expect_result)
        .collect();
    assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    assert_eq!(fixture.environment_names().len(), 1);
    let home = homes[0].as_str().unwrap();
    let script = std::fs::read_to_string(Path::new(home).join("bin/parcel-tell")).unwrap();
    assert!(script.starts_with(&format!("#!{home}/bin/python")), "{script}");
}

async fn run_strict(tool: &PythonTool, fields: Value) -> model::outcome::Outcome {
    let mut call = build_call("python", fields, json!({}));
    call.spec.insert("sandbox".to_owned(), json!("strict"));
    run_tool(tool, call).await
}

#[tokio::test]
async fn a_strict_task_uses_existing_environments_but_builds_none() {
    let fixture = EnvironmentFixture::new();
    let fields = json!({"libs": ["parcel==1.0"], "code": "import parcel\nreturn parcel.VALUE"});
    let outcome = run_strict(&fixture.tool(), fields.clone()).await;
    assert_eq!(expect_error(&outcome).code, "PYTHON_LIBS_SANDBOX");
    assert!(!fixture.dir.path().join("environments").exists());
    expect_result(run_with_libs(&fixture.tool(), json!(["parcel==1.0"]), "return 1").await);
    assert_eq!(expect_result(run_strict(&fixture.tool(), fields).await), "one");
}

#[tokio::test]
async fn an_interpreter_that_a_strict_task_names_runs_in_the_sandbox_only() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = EnvironmentFixture::new();
    let python = fixture.dir.path().join("bin/python");
    let canary = fixture.read_text("canary");
    std::fs::create_dir(fixture.dir.path().join("bin")).unwrap();
    std::fs::write(&python, format!("#!/bin/sh\necho ran > {canary}\n")).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    for libs in [json!(null), json!(["parcel==1.0"])] {
        let fields = json!({"python": python, "libs": libs, "code": "return 1"});
        let outcome = run_strict(&fixture.tool(), fields).await;
        expect_error(&outcome);
        assert!(!Path::new(&canary).exists(), "{outcome:?}");
    }
    let venv = std::process::Command::new("python3")
        .args(["-m", "venv", "--without-pip", &fixture.read_text("venv")])
        .status();
    assert!(venv.unwrap().success());
    let fields = json!({"venv": fixture.read_text("venv"), "code": "import sys\nreturn sys.prefix"});
    let prefix = expect_result(run_strict(&fixture.tool(), fields).await);
    assert_eq!(prefix, fixture.read_text("venv"));
}

#[tokio::test]
async fn the_output_of_pip_is_in_the_error() {
    let fixture = EnvironmentFixture::new();
    let outcome = run_with_libs(&fixture.tool(), json!(["no-such-parcel==9"]), "return 1").await;
    let error = expect_error(&outcome);
    assert_eq!(error.code, "PYTHON_LIBS");
    assert!(
        error
            .message
            .contains("No matching distribution found for no-such-parcel==9"),
        "{}",
        error.message
    );
    assert!(!error.retryable);
    assert_eq!(fixture.environment_names().len(), 0);
}

#[tokio::test]
async fn an_unsupported_version_is_reported_before_anything_is_built() {
    let fixture = EnvironmentFixture::new();
    let code = "# /// script\n# requires-python = '<3.0'\n# dependencies = ['parcel']\n# ///\nreturn 1";
    let outcome = run_with_libs(&fixture.tool(), json!(null), code).await;
    assert_eq!(expect_error(&outcome).code, "PYTHON_VERSION");
    assert!(!fixture.dir.path().join("environments").exists());
}

#[tokio::test]
async fn old_environments_are_deleted_unless_they_are_in_use() {
    let fixture = EnvironmentFixture::new();
    let dir = fixture.dir.path().join("environments");
    let bounds = RetentionLimits {
        unused_max: Duration::from_secs(60),
        bytes_max: u64::MAX,
    };
    let later = SystemTime::now() + Duration::from_secs(3600);
    let tool = fixture.tool();
    expect_result(run_with_libs(&tool, json!(["parcel==1.0"]), "return 1").await);
    remove_unused(&dir, later, bounds);
    assert_eq!(fixture.environment_names().len(), 1, "it is in use and stays");
    drop(tool);
    remove_unused(&dir, SystemTime::now(), bounds);
    assert_eq!(fixture.environment_names().len(), 1, "it is recent and stays");
    remove_unused(&dir, SystemTime::now(), RetentionLimits { bytes_max: 0, ..bounds });
    assert_eq!(fixture.environment_names().len(), 0, "it is too large and is deleted");
    expect_result(run_with_libs(&fixture.tool(), json!(["parcel==1.0"]), "return 1").await);
    remove_unused(&dir, later, bounds);
    assert_eq!(
        fixture.environment_names().len(),
        0,
        "it was unused for too long and is deleted"
    );
    let _: &dyn Tool = &fixture.tool();
}

#[test]
fn an_index_does_not_show_its_password() {
    let output = "Looking in indexes: https://me:secret@host/simple, http://plain/x\nERROR 'https://a:b@h'";
    let redacted = redact_users(output);
    assert_eq!(
        redacted,
        "Looking in indexes: https://***@host/simple, http://plain/x\nERROR 'https://***@h'"
    );
}
