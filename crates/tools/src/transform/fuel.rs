//! Time and stack limits for jq programs: inserts a check wherever a program can loop, so that none exceeds its
//! deadline.
//!
//! Checks ("ticks") are inserted before the body of every definition, after every argument and pipe, and in folds,
//! lists and conditions. A tick returns its input, also as a path, and fails once the time or the stack is used up.

use std::cell::Cell;
use std::time::Instant;

use jaq_core::box_iter::box_once;
use jaq_core::data::JustLut;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Term};
use jaq_core::native::{Fun, v};
use jaq_core::path::{Part, Path};
use jaq_core::{Error, Exn, Native};
use jaq_json::Val;

/// Name of the tick; programs cannot use this name.
const TICK_NAME: &str = "!tick";

/// The clock is read once per this number of ticks.
const TICKS_PER_CHECK: u32 = 64;

/// Maximum stack that a recursive program may use.
const STACK_BYTES_MAX: usize = 768 * 1024;

thread_local! {
    static STACK: Cell<usize> = const { Cell::new(0) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static TICKS: Cell<u32> = const { Cell::new(0) };
    static IS_SPENT: Cell<bool> = const { Cell::new(false) };
}

/// Sets the deadline of the next program on this thread.
pub(crate) fn set_deadline(deadline: Instant) {
    STACK.set(stack_position());
    DEADLINE.set(Some(deadline));
    TICKS.set(0);
    IS_SPENT.set(false);
}

/// Whether the last program ran out of time.
pub(crate) fn is_out_of_time() -> bool {
    IS_SPENT.get()
}

/// The tick function.
pub(crate) fn tick() -> Fun<JustLut<Val>> {
    let native = Native::new(|(_, value)| box_once(check_limits().map(|()| value)))
        .with_paths(|(_, (value, path))| box_once(check_limits().map(|()| (value, path))))
        .with_update(|(_, value), update| match check_limits() {
            Ok(()) => update(value),
            Err(spent) => box_once(Err(spent)),
        });
    (TICK_NAME, v(0), native)
}

fn check_limits<'a>() -> Result<(), Exn<'a, Val>> {
    let ticks = TICKS.get().wrapping_add(1);
    TICKS.set(ticks);
    if ticks.is_multiple_of(TICKS_PER_CHECK) && DEADLINE.get().is_some_and(|due| Instant::now() > due) {
        IS_SPENT.set(true);
    }
    if STACK.get().abs_diff(stack_position()) > STACK_BYTES_MAX {
        return Err(Exn::from(Error::str("the program recurses too deeply")));
    }
    if IS_SPENT.get() {
        return Err(Exn::from(Error::str("timed out")));
    }
    Ok(())
}

/// Approximate current stack address.
fn stack_position() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(&local).addr()
}

/// Inserts ticks into a definition.
pub(crate) fn add_ticks_to_def(def: Def<&str>) -> Def<&str> {
    Def {
        body: tick_before(add_ticks(def.body)),
        ..def
    }
}

/// Inserts ticks into a program.
pub(crate) fn add_ticks<'s>(term: Term<&'s str>) -> Term<&'s str> {
    let boxed = |term: Box<Term<&'s str>>| Box::new(add_ticks(*term));
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => term,
        Term::Str(format, parts) => Term::Str(format, parts.into_iter().map(add_ticks_to_part).collect()),
        Term::Arr(items) => Term::Arr(items.map(|items| Box::new(tick_after(add_ticks(*items))))),
        Term::Obj(pairs) => {
            let pair = |(key, value): (_, Option<_>)| (add_ticks(key), value.map(add_ticks));
            Term::Obj(pairs.into_iter().map(pair).collect())
        }
        Term::Neg(term) => Term::Neg(boxed(term)),
        Term::BinOp(left, op, right) => {
            let right = add_ticks(*right);
            let right = match op {
                BinaryOp::Pipe(_) => tick_before(right),
                _ => right,
            };
            Term::BinOp(boxed(left), op, Box::new(right))
        }
        Term::Label(name, term) => Term::Label(name, boxed(term)),
        Term::Fold(name, over, pattern, args) => {
            let args = args.into_iter().map(|arg| tick_before(add_ticks(arg)));
            Term::Fold(name, boxed(over), pattern, args.collect())
        }
        Term::TryCatch(term, caught) => Term::TryCatch(boxed(term), caught.map(boxed)),
        Term::IfThenElse(branches, otherwise) => {
            let branch = |(when, then)| (tick_after(add_ticks(when)), add_ticks(then));
            let branches = branches.into_iter().map(branch).collect();
            Term::IfThenElse(branches, otherwise.map(boxed))
        }
        Term::Def(defs, term) => {
            let defs = defs.into_iter().map(add_ticks_to_def).collect();
            Term::Def(defs, boxed(term))
        }
        Term::Call(name, args) => {
            let args = args.into_iter().map(|arg| tick_after(add_ticks(arg)));
            Term::Call(name, args.collect())
        }
        Term::Path(term, path) => {
            let parts = path.0.into_iter();
            let parts = parts.map(|(part, optional)| (add_ticks_to_index(part), optional));
            Term::Path(boxed(term), Path(parts.collect()))
        }
    }
}

fn add_ticks_to_part<'s>(part: StrPart<&'s str, Term<&'s str>>) -> StrPart<&'s str, Term<&'s str>> {
    match part {
        StrPart::Term(term) => StrPart::Term(add_ticks(term)),
        plain => plain,
    }
}

fn add_ticks_to_index(part: Part<Term<&str>>) -> Part<Term<&str>> {
    match part {
        Part::Index(at) => Part::Index(add_ticks(at)),
        Part::Range(from, upto) => Part::Range(from.map(add_ticks), upto.map(add_ticks)),
    }
}

fn tick_before(term: Term<&str>) -> Term<&str> {
    pipe_terms(Term::Call(TICK_NAME, Vec::new()), term)
}

/// Terms that return at most one value need no tick, and may be names in a path.
fn tick_after(term: Term<&str>) -> Term<&str> {
    match term {
        Term::Id | Term::Num(_) | Term::Var(_) => term,
        other => pipe_terms(other, Term::Call(TICK_NAME, Vec::new())),
    }
}

fn pipe_terms<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::call::DiscardingLogSink;
    use crate::evaluation::{Evaluation, Language, evaluate_on_thread};

    /// Waits for the program; one that does not end makes the test hang.
    fn run_program(program: &str, millis: u64) -> Result<Value, String> {
        let evaluation = Evaluation {
            language: Language::Jq,
            program: program.to_owned(),
            input: json!({"a": [3, 1, 2], "b": {"c": null}}),
            millis,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let work = evaluate_on_thread(evaluation, &DiscardingLogSink);
        let done = runtime.expect("a runtime").block_on(work);
        done.map_err(|error| error.code)
    }

    #[test]
    fn an_endless_program_without_output_ends_at_its_deadline() {
        for program in [
            "def f: f; f",
            "def f(g): f(g); f(1)",
            "range(1e18) | empty",
            "range(1e18) as $x | empty",
            "[range(1e18) | select(. < 0)]",
            "first(range(1e18) | select(. < 0))",
            "reduce range(1e18) as $x (0; .)",
            "foreach range(1e18) as $x (0; .; empty)",
            "last(range(1e18))",
            "if range(1e18) == -1 then 1 else empty end",
            "until(false; .)",
            "[limit(1; repeat(1) | select(false))]",
            "isempty(range(1e18) | empty)",
            "any(range(1e18); . < 0)",
            ".a |= (range(1e18) | empty)",
            "path(def f: f; f)",
            "range(1e18) | try error catch empty",
        ] {
            assert_eq!(run_program(program, 20), Err("TIMEOUT".to_owned()), "{program}");
        }
    }

    #[test]
    fn a_program_that_calls_itself_too_deeply_is_an_error() {
        for program in ["def f: 1 + f; f", "def f: [f]; f"] {
            assert_eq!(run_program(program, 60_000), Err("JQ_ERROR".to_owned()), "{program}");
        }
    }

    #[test]
    fn ticks_do_not_change_results() {
        for (program, wanted) in [
            (".a | sort", json!([1, 2, 3])),
            (".a[1:] | add", json!(3)),
            (".b.c = 5 | .b", json!({"c": 5})),
            (".a |= map(. * 2) | .a", json!([6, 2, 4])),
            (
                "[paths]",
                json!([["a"], ["a", 0], ["a", 1], ["a", 2], ["b"], ["b", "c"]]),
            ),
            ("path(.a[0], first(.b | .c))", json!([["a", 0], ["b", "c"]])),
            ("del(.a[0]) | .a", json!([1, 2])),
            ("[.. | numbers]", json!([3, 1, 2])),
            ("to_entries | map(.key)", json!(["a", "b"])),
            ("with_entries(select(.key == \"b\"))", json!({"b": {"c": null}})),
            ("[limit(3; repeat(1))]", json!([1, 1, 1])),
            ("[label $out | 1, break $out, 2]", json!([1])),
            ("reduce .a[] as $x (0; . + $x)", json!(6)),
            ("[foreach .a[] as $x (0; . + $x)]", json!([3, 4, 6])),
            ("try error(\"x\") catch .", json!("x")),
            ("\"\\(.a[0])-\\(.b.c // 7)\"", json!("3-7")),
            ("def f: if . >= 300000 then . else . + 1 | f end; 0 | f", json!(300_000)),
            ("[range(100000)] | length", json!(100_000)),
            ("0 | until(. >= 100000; . + 1)", json!(100_000)),
        ] {
            assert_eq!(run_program(program, 60_000), Ok(wanted), "{program}");
        }
    }
}
