//! jq programs: compiled once per thread, run over JSON; all outputs are collected.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, unwrap_valr};
use jaq_json::{Map as ValMap, Num, Val};
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value, json};

use crate::evaluation::{Language, ResultBudget};
use crate::transform::fuel;

/// Maximum number of compiled programs that a thread caches.
const PROGRAMS_MAX: usize = 256;

/// Maximum number of outputs; a program with more is considered endless.
const OUTPUTS_MAX: usize = 1_000_000;

/// Name of the program's own definition.
const MAIN_NAME: &str = "noetl_main";

type JqProgram = Filter<JustLut<Val>>;

thread_local! {
    static PROGRAMS: RefCell<HashMap<String, Rc<JqProgram>>> = RefCell::default();
}

/// Runs a program. One output is the value, several are a list, none is null.
pub(crate) fn run_jq(program: &str, input: Value, deadline: Instant) -> Result<Value, TaskError> {
    let filter = compile_cached(program)?;
    fuel::set_deadline(deadline);
    let ctx = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let mut outputs = Vec::new();
    let mut conversion = JsonConversion {
        budget: ResultBudget::new(Language::Jq),
    };
    for output in filter.id.run((ctx, to_val(input))).map(unwrap_valr) {
        if fuel::is_out_of_time() {
            return Err(out_of_time_error());
        }
        let output = output.map_err(|error| runtime_error(&error.to_string()))?;
        outputs.push(conversion.convert_value(&output, 0)?);
        if outputs.len() > OUTPUTS_MAX || Instant::now() > deadline {
            return Err(TaskError::new(
                ErrorKind::Transform,
                "LIMIT_TRANSFORM",
                "the jq program returns too many outputs",
            ));
        }
    }
    if fuel::is_out_of_time() {
        return Err(out_of_time_error());
    }
    Ok(match outputs.len() {
        0 => Value::Null,
        1 => outputs.remove(0),
        _ => Value::Array(outputs),
    })
}

fn compile_cached(program: &str) -> Result<Rc<JqProgram>, TaskError> {
    if let Some(compiled) = PROGRAMS.with_borrow(|programs| programs.get(program).cloned()) {
        return Ok(compiled);
    }
    let filter = Rc::new(compile(program)?);
    PROGRAMS.with_borrow_mut(|programs| {
        if programs.len() >= PROGRAMS_MAX {
            programs.clear();
        }
        programs.insert(program.to_owned(), filter.clone());
    });
    Ok(filter)
}

fn compile(program: &str) -> Result<JqProgram, TaskError> {
    let funs = jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .chain([fuel::tick()]);
    let arena = Arena::default();
    let file = |code| File { code, path: () };
    // Parse the original program for syntax errors, then compile it with ticks.
    let read = Loader::new(prelude()).load(&arena, file(program));
    read.map_err(|errors| parse_error(&errors))?;
    let term = load::parse(program, |parser| parser.term());
    let term = term.ok_or_else(|| syntax_error("filter expected"))?;
    let main = Def {
        name: MAIN_NAME,
        args: Vec::new(),
        body: fuel::add_ticks(term),
    };
    let ticking = prelude().into_iter().map(fuel::add_ticks_to_def).chain([main]);
    let read = Loader::new(ticking).load(&arena, file(MAIN_NAME));
    let modules = read.map_err(|errors| parse_error(&errors))?;
    Compiler::default().with_funs(funs).compile(modules).map_err(|errors| {
        let messages = errors.iter().flat_map(|(_, errors)| {
            errors
                .iter()
                .map(|(name, kind)| format!("undefined {} `{name}`", kind.as_str()))
        });
        syntax_error(&messages.collect::<Vec<_>>().join("; "))
    })
}

/// Definitions available to every program.
fn prelude<'s>() -> Vec<Def<&'s str>> {
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    // The definitions are `'static`; the program next to them is not.
    defs.collect::<Vec<Def<&'static str>>>()
}

fn parse_error(errors: &load::Errors<&str, ()>) -> TaskError {
    let messages = errors.iter().map(|(_, error)| match error {
        load::Error::Io(paths) => format!("cannot import {} modules", paths.len()),
        load::Error::Lex(errors) => errors
            .first()
            .map(|(expected, actual)| format!("{} expected before `{actual}`", expected.as_str()))
            .unwrap_or_default(),
        load::Error::Parse(errors) => errors
            .first()
            .map(|(expected, actual)| {
                let actual = if actual.is_empty() { "the end" } else { actual };
                format!("{} expected before `{actual}`", expected.as_str())
            })
            .unwrap_or_default(),
    });
    syntax_error(&messages.collect::<Vec<_>>().join("; "))
}

fn to_val(value: Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), _, _) => Val::Num(Num::from_integral(integer)),
            (_, Some(integer), _) => Val::Num(Num::from_integral(integer)),
            (_, _, real) => Val::Num(Num::Float(real.unwrap_or(f64::NAN))),
        },
        Value::String(text) => Val::utf8_str(text),
        Value::Array(items) => items.into_iter().map(to_val).collect(),
        Value::Object(map) => Val::obj(
            map.into_iter()
                .map(|(key, value)| (Val::utf8_str(key), to_val(value)))
                .collect::<ValMap<_, _>>(),
        ),
    }
}

/// Converts values to JSON; shared parts are duplicated.
struct JsonConversion {
    budget: ResultBudget,
}

impl JsonConversion {
    fn convert_value(&mut self, value: &Val, depth: usize) -> Result<Value, TaskError> {
        let text_bytes = match value {
            Val::TStr(text) | Val::BStr(text) => text.len(),
            _ => 0,
        };
        self.budget.charge(text_bytes, depth)?;
        Ok(match value {
            Val::Null => Value::Null,
            Val::Bool(flag) => Value::Bool(*flag),
            Val::Num(number) => number_to_json(number),
            Val::TStr(text) | Val::BStr(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
            Val::Arr(items) => {
                let items = items.iter().map(|item| self.convert_value(item, depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Val::Obj(map) => {
                let mut entries = Map::new();
                for (key, value) in map.iter() {
                    let key = match self.convert_value(key, depth + 1)? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    entries.insert(key, self.convert_value(value, depth + 1)?);
                }
                Value::Object(entries)
            }
        })
    }
}

/// Converts a number to JSON: an integer beyond 64 bits becomes text, NaN and infinities become null.
fn number_to_json(number: &Num) -> Value {
    match number {
        Num::Int(integer) => json!(integer),
        Num::Float(real) if real.fract() == 0.0 && real.abs() < 9e15 => {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
            let integer = *real as i64;
            json!(integer)
        }
        Num::Float(real) => json!(real),
        Num::BigInt(integer) => {
            let digits = integer.to_string();
            let number = digits.parse::<u64>();
            number.map_or_else(|_| Value::String(digits), |number| json!(number))
        }
        Num::Dec(text) => text.parse::<f64>().map_or(Value::Null, |real| json!(real)),
    }
}

fn out_of_time_error() -> TaskError {
    let message = "the jq program timed out";
    TaskError::new(ErrorKind::Timeout, "TIMEOUT", message)
}

fn syntax_error(problem: &str) -> TaskError {
    let message = format!("cannot parse the jq program: {problem}");
    TaskError::new(ErrorKind::Parse, "JQ_SYNTAX", message)
}

fn runtime_error(problem: &str) -> TaskError {
    TaskError::new(ErrorKind::Transform, "JQ_ERROR", format!("jq: {problem}"))
}
