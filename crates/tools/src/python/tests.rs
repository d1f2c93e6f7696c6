//! Tests of the `python` tool against a real interpreter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::outcome::{ErrorKind, Outcome};
use model::task_log::LogStream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::call::Tool;
use crate::http::HttpClients;
use crate::isolation::SandboxLevel;
use crate::python::PythonTool;
use crate::registry::{HttpLimits, PythonConfig};
use crate::testing::{
    FileAtFirstLine, RecordedLogLines, StopAtFirstLine, build_call, expect_error, expect_result, run_tool,
    wait_for_exit,
};

fn python_tool() -> PythonTool {
    tool_with(PythonConfig {
        pool_max: 1,
        ..PythonConfig::default()
    })
}

fn tool_with(config: PythonConfig) -> PythonTool {
    let env = ["PATH", "HOME"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let network = crate::network::NetworkConfig::default();
    let clients = Arc::new(HttpClients::new(HttpLimits::default(), &network));
    PythonTool::new(&config, env.collect::<BTreeMap<_, _>>(), clients, SandboxLevel::None)
}

async fn run_value(code: &str, input: Value) -> Value {
    expect_result(run_tool(&python_tool(), build_call("python", json!({"code": code}), input)).await)
}

async fn run_failure(code: &str) -> Outcome {
    run_tool(&python_tool(), build_call("python", json!({"code": code}), json!({}))).await
}

#[tokio::test]
async fn the_three_styles_give_their_result() {
    assert_eq!(
        run_value("result = {'a': x + 1}", json!({"x": 1})).await,
        json!({"a": 2})
    );
    assert_eq!(run_value("if x:\n    return x * 2\n", json!({"x": 4})).await, json!(8));
    assert_eq!(
        run_value("def main(x, y=5):\n    return x + y", json!({"x": 1})).await,
        json!(6)
    );
    assert_eq!(
        run_value("async def main(x):\n    return x", json!({"x": 3})).await,
        json!(3)
    );
    assert_eq!(
        run_value("def main(data):\n    return data['x']", json!({"x": 3})).await,
        json!(3)
    );
    assert_eq!(
        run_value("def main(**kw):\n    return kw", json!({"x": 3})).await,
        json!({"x": 3})
    );
    assert_eq!(
        run_value("import asyncio\nawait asyncio.sleep(0)\nreturn x", json!({"x": 3})).await,
        json!(3)
    );
}

#[tokio::test]
async fn an_input_may_be_called_result() {
    let input = json!({"result": [1, 2]});
    assert_eq!(run_value("return len(result)", input.clone()).await, json!(2));
    assert_eq!(run_value("result = len(result)", input.clone()).await, json!(2));
    assert_eq!(
        run_value("def main(result):\n    return len(result)", input.clone()).await,
        json!(2)
    );
    assert_eq!(run_value("x = 1", input).await, Value::Null);
}

#[tokio::test]
async fn inputs_are_also_in_input_data_and_args() {
    let code = "return [input_data['x'], args['x']]";
    assert_eq!(run_value(code, json!({"x": 1})).await, json!([1, 1]));
}

#[tokio::test]
async fn a_top_level_return_sees_functions_and_their_globals() {
    let code = "import math\ny: int = 2\ndef f(v):\n    return math.floor(v) + y\nreturn f(1.5)";
    assert_eq!(run_value(code, json!({})).await, json!(3));
    let star = "from math import *\nreturn floor(2.5)";
    assert_eq!(run_value(star, json!({})).await, json!(2));
}

#[tokio::test]
async fn context_is_built_only_for_code_that_names_it() {
    let tool = python_tool();
    let mut call = build_call("python", json!({"code": "return context['execution_id']"}), json!({}));
    call.context = Arc::new(|| json!({"execution_id": "7"}));
    assert_eq!(expect_result(run_tool(&tool, call).await), json!("7"));
    let mut silent = build_call("python", json!({"code": "return 1"}), json!({}));
    silent.context = Arc::new(|| panic!("the code does not use the context"));
    assert_eq!(expect_result(run_tool(&tool, silent).await), json!(1));
}

#[tokio::test]
async fn libraries_are_imported_first() {
    let fields = json!({
        "code": "return [m.floor(1.5), sqrt(4), json.dumps(1)]",
        "libs": {"m": "math", "sqrt": {"from": "math", "import": "sqrt"}, "json": null}
    });
    let outcome = run_tool(&python_tool(), build_call("python", fields, json!({}))).await;
    assert_eq!(expect_result(outcome), json!([1, 2.0, "1"]));
}

#[tokio::test]
async fn globals_environment_and_directory_are_reset_for_every_call() {
    let tool = python_tool();
    let first = json!({"code": "import os\nleft = 1\nos.environ['LEFT'] = 'x'\nos.chdir('/')\nreturn [os.environ['A'], os.getcwd()]", "env": {"A": 5}, "cwd": "/usr"});
    assert_eq!(
        expect_result(run_tool(&tool, build_call("python", first, json!({}))).await),
        json!(["5", "/"])
    );
    let second = json!({"code": "import os\nreturn ['left' in globals(), 'LEFT' in os.environ, 'A' in os.environ, os.getcwd()]"});
    assert_eq!(
        expect_result(run_tool(&tool, build_call("python", second, json!({}))).await),
        json!([false, false, false, "/tmp"])
    );
}

#[tokio::test]
async fn only_a_few_variables_are_inherited() {
    let names = run_value("import os\nreturn sorted(os.environ)", json!({})).await;
    for name in names.as_array().unwrap() {
        let name = name.as_str().unwrap();
        // A wrapper around the interpreter may add its own.
        let is_wrapper = name.contains("PYENV") || ["PWD", "SHLVL", "_", "OLDPWD"].contains(&name);
        assert!(
            ["PATH", "HOME", "LC_CTYPE", "NOETL_PROCESS"].contains(&name) || is_wrapper,
            "{name}"
        );
    }
}

#[tokio::test]
async fn prints_never_touch_the_result() {
    let code = "import os, subprocess, sys\nprint('one')\nos.write(1, b'two\\n')\nsubprocess.run(['sh', '-c', 'echo three; echo four >&2'])\nprint('{\"result\": 0}', file=sys.stderr)\nreturn 'ok'";
    let lines = RecordedLogLines::default();
    let call = build_call("python", json!({"code": code}), json!({}));
    let outcome = python_tool().call(call, CancellationToken::new(), &lines).await;
    assert_eq!(expect_result(outcome), json!("ok"));
    assert_eq!(lines.lines_of(LogStream::Stdout), ["one", "two", "three"]);
    assert_eq!(lines.lines_of(LogStream::Stderr), ["four", "{\"result\": 0}"]);
}

#[tokio::test]
async fn a_flood_of_output_does_not_block_the_code() {
    let code = "for i in range(200000):\n    print('x' * 50)\nreturn 'done'";
    let lines = RecordedLogLines::default();
    let call = build_call("python", json!({"code": code}), json!({}));
    let outcome = python_tool().call(call, CancellationToken::new(), &lines).await;
    assert_eq!(expect_result(outcome), json!("done"));
    let lines = lines.lines_of(LogStream::Stdout);
    assert!(lines.len() < 30_000, "{}", lines.len());
    assert!(lines.iter().any(|line| line.contains("bytes left out")));
}

#[tokio::test]
async fn an_exception_names_its_type_and_its_line_in_the_playbook() {
    let code = "def helper():\n    raise ValueError('bad')\n\nhelper()";
    let mut call = build_call("python", json!({"code": code}), json!({}));
    call.site.file = "play.yaml".into();
    call.site.code_line = Some(40);
    let outcome = run_tool(&python_tool(), call).await;
    let failed = expect_error(&outcome);
    assert_eq!(failed.code, "PYTHON_VALUE_ERROR");
    assert_eq!(failed.message, "ValueError: bad");
    assert_eq!(failed.details["line"], 41);
    let py = outcome.facets().py.as_ref().unwrap();
    assert_eq!(py["exception_type"], "ValueError");
    assert_eq!(py["line"], 41);
    let traceback = py["traceback"].as_str().unwrap();
    assert!(
        traceback.contains("File \"play.yaml\", line 43, in <module>\n    helper()"),
        "{traceback}"
    );
    assert!(
        traceback.contains("line 41, in helper\n    raise ValueError('bad')"),
        "{traceback}"
    );
    assert!(!traceback.contains("<noetl>"), "{traceback}");
}

#[tokio::test]
async fn a_syntax_error_names_its_line_in_the_playbook() {
    for (code, line) in [("x = 1\nif x\n    pass", 11), ("x = 1\ny = 2\nbreak", 12)] {
        let mut call = build_call("python", json!({"code": code}), json!({}));
        call.site.code_line = Some(10);
        let outcome = run_tool(&python_tool(), call).await;
        assert_eq!(expect_error(&outcome).code, "PYTHON_SYNTAX_ERROR");
        assert_eq!(expect_error(&outcome).kind, ErrorKind::Parse);
        assert_eq!(expect_error(&outcome).details["line"], line, "{code}");
    }
}

#[tokio::test]
async fn every_kind_of_exit_is_an_outcome_and_the_next_call_works() {
    let tool = python_tool();
    for (code, wanted) in [
        ("import sys\nsys.exit(3)", "PYTHON_SYSTEM_EXIT"),
        ("raise KeyboardInterrupt", "PYTHON_KEYBOARD_INTERRUPT"),
        ("import os\nos._exit(4)", "PYTHON_EXITED"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
            "PYTHON_CRASHED",
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            "PYTHON_KILLED",
        ),
        ("import os\nos.fork()\nraise OSError", "PYTHON_OS_ERROR"),
        ("import missing_module_x", "PYTHON_MODULE_NOT_FOUND_ERROR"),
        ("def f():\n    f()\nf()", "PYTHON_RECURSION_ERROR"),
    ] {
        let outcome = run_tool(&tool, build_call("python", json!({"code": code}), json!({}))).await;
        assert_eq!(expect_error(&outcome).code, wanted, "{code}");
        let next = run_tool(&tool, build_call("python", json!({"code": "return 1"}), json!({}))).await;
        assert_eq!(expect_result(next), json!(1), "after {code}");
    }
}

#[tokio::test]
async fn exit_with_code_0_returns_the_assigned_result() {
    let code = "import sys\nresult = 5\nsys.exit()";
    assert_eq!(run_value(code, json!({})).await, json!(5));
}

#[tokio::test]
async fn a_connection_error_is_retryable() {
    let outcome = run_failure("raise ConnectionRefusedError('no')").await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Connection);
    assert!(expect_error(&outcome).retryable);
    let outcome = run_failure("class Later(Exception):\n    retryable = True\nraise Later()").await;
    assert!(expect_error(&outcome).retryable);
}

#[tokio::test]
async fn values_that_json_lacks_are_converted() {
    let code = r"
import datetime, decimal, uuid, enum, dataclasses, collections, pathlib
@dataclasses.dataclass
class P:
    x: int
class C(enum.Enum):
    RED = 'red'
class Num:
    def item(self):
        return 7
N = collections.namedtuple('N', 'a b')
return {
  'date': datetime.date(2024, 1, 2), 'dt': datetime.datetime(2024, 1, 2, 3, 4, 5),
  'td': datetime.timedelta(seconds=90), 'dec': decimal.Decimal('1.10'), 'set': {3, 1, 2},
  'bytes': b'hi', 'data': P(1), 'enum': C.RED, 'gen': (i for i in range(3)), 'num': Num(),
  'tuple': (1, 2), 'named': N(1, 2), 'path': pathlib.Path('/x'), 1: 'int key',
  'keys': {'a': 1}.keys(), 'od': collections.OrderedDict(a=1), 'sur': '\ud800',
}
";
    assert_eq!(
        run_value(code, json!({})).await,
        json!({
            "date": "2024-01-02", "dt": "2024-01-02T03:04:05", "td": 90.0, "dec": "1.10",
            "set": [1, 2, 3], "bytes": "aGk=", "data": {"x": 1}, "enum": "red", "gen": [0, 1, 2],
            "num": 7, "tuple": [1, 2], "named": {"a": 1, "b": 2}, "path": "/x", "1": "int key",
            "keys": ["a"], "od": {"a": 1}, "sur": "?",
        })
    );
}

#[tokio::test]
async fn numbers_that_json_cannot_represent_are_approximated() {
    let call = build_call(
        "python",
        json!({"code": "return {'n': float('nan'), 'big': 2**80, 'fit': 2**64 - 1, 'neg': -2**63}"}),
        json!({}),
    );
    let outcome = run_tool(&python_tool(), call).await;
    let Outcome::Ok(success) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        success.result,
        json!({"n": null, "big": "1208925819614629174706176", "fit": u64::MAX, "neg": i64::MIN})
    );
    assert_eq!(success.meta["not_finite_as_null"], json!(["$.n"]));
}

#[tokio::test]
async fn an_unserializable_result_is_reported_with_its_path() {
    let outcome = run_failure("return {'a': [1, object()]}").await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Schema);
    assert_eq!(expect_error(&outcome).code, "PYTHON_RESULT");
    assert!(
        expect_error(&outcome).message.contains("object at $.a[1]"),
        "{:?}",
        expect_error(&outcome)
    );
    let cyclic = run_failure("a = []\na.append(a)\nreturn a").await;
    assert_eq!(expect_error(&cyclic).code, "PYTHON_RESULT");
}

#[tokio::test]
async fn a_timeout_kills_the_code_and_its_children() {
    let tool = python_tool();
    let folder = tempfile::tempdir().unwrap();
    let code = "import subprocess, time\np = subprocess.Popen(['sleep', '600'])\nopen('pid', 'w').write(str(p.pid))\ntime.sleep(600)";
    let mut slow = build_call("python", json!({"code": code}), json!({}));
    slow.site.base_dir = folder.path().to_owned();
    slow.timeout.total = Some(Duration::from_secs(2));
    let outcome = run_tool(&tool, slow).await;
    assert_eq!(expect_error(&outcome).code, "TIMEOUT");
    assert!(expect_error(&outcome).retryable);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    wait_for_exit(&pid).await;
    let next = run_tool(&tool, build_call("python", json!({"code": "return 1"}), json!({}))).await;
    assert_eq!(expect_result(next), json!(1));
}

#[tokio::test]
async fn a_stop_ends_the_call() {
    let stop = CancellationToken::new();
    let call = build_call(
        "python",
        json!({"code": "print('up', flush=True)\nwhile True: pass"}),
        json!({}),
    );
    let log = StopAtFirstLine(stop.clone());
    let outcome = python_tool().call(call, stop, &log).await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn an_interpreter_is_reused_up_to_its_call_limit() {
    let tool = tool_with(PythonConfig {
        pool_max: 1,
        calls_max: 2,
        ..PythonConfig::default()
    });
    let pid = || build_call("python", json!({"code": "import os\nreturn os.getpid()"}), json!({}));
    let first = expect_result(run_tool(&tool, pid()).await);
    assert_eq!(expect_result(run_tool(&tool, pid()).await), first);
    assert_ne!(expect_result(run_tool(&tool, pid()).await), first);
    let mut alone = pid();
    alone.spec.insert("isolate".to_owned(), json!(true));
    let own = expect_result(run_tool(&tool, alone).await);
    assert_ne!(expect_result(run_tool(&tool, pid()).await), own);
}

#[tokio::test]
async fn the_error_of_a_missing_interpreter_names_what_to_install() {
    let fields = json!({"code": "return 1", "python": "python-that-is-not-there"});
    let outcome = run_tool(&python_tool(), build_call("python", fields, json!({}))).await;
    assert_eq!(expect_error(&outcome).code, "PYTHON_MISSING");
    assert!(expect_error(&outcome).message.contains("install Python 3"));
}

#[tokio::test]
async fn a_script_is_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.py"), "def main(x):\n    return 1 / x\n").unwrap();
    for script in [
        json!("s.py"),
        json!({"uri": "file://s.py"}),
        json!({"source": {"type": "file", "path": "s.py"}}),
    ] {
        let mut call = build_call("python", json!({"script": script}), json!({"x": 0}));
        call.site.base_dir = folder.path().to_owned();
        let outcome = run_tool(&python_tool(), call).await;
        assert_eq!(expect_error(&outcome).code, "PYTHON_ZERO_DIVISION_ERROR");
        assert_eq!(expect_error(&outcome).details["line"], 2);
    }
    for (uri, code) in [("gs://b/s.py", "AUTH_INVALID"), ("ftp://b/s.py", "SCRIPT_SOURCE")] {
        let far = build_call("python", json!({"script": {"uri": uri}}), json!({}));
        assert_eq!(expect_error(&run_tool(&python_tool(), far).await).code, code);
    }
    let missing = build_call("python", json!({"script": "gone.py"}), json!({}));
    assert_eq!(
        expect_error(&run_tool(&python_tool(), missing).await).code,
        "SCRIPT_NOT_READABLE"
    );
}

#[tokio::test]
async fn code_is_required() {
    let outcome = run_tool(&python_tool(), build_call("python", json!({}), json!({}))).await;
    assert_eq!(expect_error(&outcome).code, "TOOL_INPUT");
}

#[tokio::test]
async fn what_is_printed_is_logged_while_the_code_runs() {
    let dir = tempfile::tempdir().unwrap();
    let log = FileAtFirstLine::new(dir.path().join("go"));
    let code = "import os, sys, time\nprint('first')\nwhile not os.path.exists('go'):\n    time.sleep(0.001)\n\
                print('last', end='')\nsys.stderr.write('err')\nreturn 1";
    let mut call = build_call("python", json!({"code": code}), json!({}));
    call.site.base_dir = dir.path().to_owned();
    call.timeout.total = Some(Duration::from_secs(30));
    let outcome = python_tool().call(call, CancellationToken::new(), &log).await;
    assert_eq!(expect_result(outcome), json!(1));
    assert_eq!(log.lines_of(LogStream::Stdout), ["first", "last"]);
    assert_eq!(log.lines_of(LogStream::Stderr), ["err"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_short_calls_share_a_few_interpreters() {
    const CALLS: usize = 64;
    let tool = tool_with(PythonConfig {
        pool_max: CALLS,
        ..PythonConfig::default()
    });
    let code = json!({"code": "import os\nreturn os.getpid()"});
    let calls = (0..CALLS).map(|_| run_tool(&tool, build_call("python", code.clone(), json!({}))));
    let outcomes = futures_util::future::join_all(calls).await;
    let pids: std::collections::BTreeSet<u64> = outcomes
        .into_iter()
        .map(|outcome| expect_result(outcome).as_u64().unwrap())
        .collect();
    assert!(pids.len() <= CALLS / 2, "{} interpreters", pids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_calls_all_run_concurrently() {
    const CALLS: usize = 12;
    let tool = tool_with(PythonConfig {
        pool_max: CALLS,
        ..PythonConfig::default()
    });
    let dir = tempfile::tempdir().unwrap();
    let code = "import os, time\nopen(str(n), 'w').close()\nwhile len(os.listdir('.')) < total:\n    time.sleep(0.001)\nreturn n";
    let calls = (0..CALLS).map(|n| {
        let input = json!({"n": n, "total": CALLS});
        let mut call = build_call("python", json!({"code": code}), input);
        call.site.base_dir = dir.path().to_owned();
        run_tool(&tool, call)
    });
    let outcomes = futures_util::future::join_all(calls).await;
    let numbers: Vec<Value> = outcomes.into_iter().map(expect_result).collect();
    let expected: Vec<Value> = (0..CALLS).map(|n| json!(n)).collect();
    assert_eq!(numbers, expected);
}
