"""Runs the calls of user code inside one interpreter, one after the other.

Input: one JSON line per call on the socket that was this process's standard input.
Output: one JSON line per call on the same socket. Descriptors 1 and 2 belong to user code, so its output cannot mix with
the responses. Result: a top-level `return`, else `result` if it was assigned, else the return value of `main(...)`.
NaN and infinities become null (their paths are in `lost`); integers beyond 64 bits become decimal text.
"""
import ast
import json
import os
import re
import socket
import sys
import types

PID = os.getpid()
RUNNER = "<noetl>"
CHANNEL = socket.socket(fileno=os.dup(0))
READER = CHANNEL.makefile("rb", buffering=1 << 16)
_null = os.open(os.devnull, os.O_RDONLY)
os.dup2(_null, 0)
os.close(_null)
for _stream in (sys.stdout, sys.stderr):
    _stream.reconfigure(line_buffering=True, errors="backslashreplace", encoding="utf-8")
STDOUT, STDERR = sys.stdout, sys.stderr
ENVIRON = dict(os.environ)
# Compare the underlying bytes: comparing the decoded mapping takes longer than a whole warm call.
ENVIRON_BYTES = dict(os.environ._data)
START_DIR = os.getcwd()
SYS_PATH = list(sys.path)
CODES = {}
INT_MIN, INT_MAX = -(1 << 63), (1 << 64) - 1
WIDE = re.compile(r"\d{19}")
DUMPS = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class NotJson(Exception):
    """A result that cannot be represented as JSON."""


class Returned(BaseException):
    """Carries the value of a top-level `return` if the code cannot be wrapped in a function."""

    def __init__(self, value):
        self.value = value


class Program:
    """User code, compiled once."""

    def __init__(self, source, file, line):
        self.source, self.file, self.shift = source, file, (line or 1) - 1
        try:
            tree = ast.parse(source, file)
        except SyntaxError as error:
            if error.lineno is not None:
                error.lineno += self.shift
            if getattr(error, "end_lineno", None) is not None:
                error.end_lineno += self.shift
            raise
        ast.increment_lineno(tree, self.shift)
        scope = ModuleScope(tree)
        self.assigns_result = scope.assigns_result
        self.defines_main = scope.defines_main
        self.name = "__main__" if scope.has_main_guard and not scope.defines_main else "__noetl__"
        self.wrapped = scope.returns or scope.awaits
        self.is_async = scope.awaits
        if self.wrapped and scope.star_import:
            if scope.awaits:
                raise SyntaxError("`import *` cannot be combined with top-level `await`")
            tree = ast.fix_missing_locations(RaiseInsteadOfReturn().visit(tree))
            self.code = compile(tree, file, "exec", dont_inherit=True)
        elif self.wrapped:
            self.code = wrap(tree, file, scope.awaits)
        else:
            self.code = compile(tree, file, "exec", dont_inherit=True)


class ModuleScope(ast.NodeVisitor):
    """Analyzes the top level of the code; visits functions only for `global result`."""

    def __init__(self, tree):
        self.assigns_result = self.defines_main = self.has_main_guard = False
        self.returns = self.awaits = self.star_import = False
        self.depth = 0
        self.visit(tree)

    def nested(self, node):
        if self.depth == 0:
            self.assigns_result |= node.name == "result"
            self.defines_main |= node.name == "main"
        self.inside(node)

    def inside(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = nested
    visit_Lambda = inside

    def visit_Global(self, node):
        self.assigns_result |= "result" in node.names

    def visit_Name(self, node):
        if self.depth == 0 and isinstance(node.ctx, ast.Store):
            self.assigns_result |= node.id == "result"
            self.defines_main |= node.id == "main"

    def visit_alias(self, node):
        name = node.asname or node.name
        if self.depth == 0:
            self.assigns_result |= name == "result"
            self.defines_main |= name == "main"
            self.star_import |= name == "*"

    def visit_Return(self, node):
        self.returns |= self.depth == 0
        self.generic_visit(node)

    def top_await(self, node):
        self.awaits |= self.depth == 0
        self.generic_visit(node)

    visit_Await = visit_AsyncFor = visit_AsyncWith = top_await

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        names = any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides)
        mains = any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)
        self.has_main_guard |= self.depth == 0 and names and mains
        self.generic_visit(node)


class RaiseInsteadOfReturn(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef

    def visit_Return(self, node):
        call = ast.Call(ast.Name("__noetl_returned__", ast.Load()), [node.value or ast.Constant(None)], [])
        return ast.copy_location(ast.Raise(call, None), node)


class DropAnnotations(RaiseInsteadOfReturn):
    """Removes annotations of module-level assignments, because an annotated name cannot be global."""

    def visit_Return(self, node):
        return node

    def visit_AnnAssign(self, node):
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def wrap(tree, file, is_async):
    """Wraps the body in a function whose names stay module globals, so that top-level `return` and `await` work."""
    tree = DropAnnotations().visit(tree)
    futures = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    body = [n for n in tree.body if n not in futures]
    frame = ast.parse(("async " if is_async else "") + "def __noetl_body__(): pass")
    function = frame.body[0]
    function.body = body
    frame.body = futures + [function]
    ast.fix_missing_locations(frame)
    compiled = compile(frame, file, "exec", dont_inherit=True)
    inner = next(c for c in compiled.co_consts if isinstance(c, types.CodeType))
    names = sorted(set(inner.co_varnames) | set(inner.co_cellvars))
    if names:
        function.body = [ast.Global(names)] + body
        ast.fix_missing_locations(frame)
        compiled = compile(frame, file, "exec", dont_inherit=True)
    return compiled


def import_libs(libs, scope):
    import importlib

    for name, spec in libs.items():
        if isinstance(spec, str):
            scope[name] = importlib.import_module(spec)
        elif isinstance(spec, dict) and "try" in spec:
            try:
                scope[name] = importlib.import_module(spec["try"])
            except ModuleNotFoundError as error:
                if error.name != spec["try"]:
                    raise
        elif isinstance(spec, dict) and "from" in spec:
            module = importlib.import_module(spec["from"])
            wanted = spec.get("import", name)
            if isinstance(wanted, str):
                scope[name] = attribute(module, wanted)
            else:
                for one in wanted:
                    scope[one] = attribute(module, one)
        elif isinstance(spec, dict) and isinstance(spec.get("import"), str):
            scope[name] = importlib.import_module(spec["import"])
        elif spec is None:
            scope[name] = importlib.import_module(name)
        else:
            raise TypeError(f"`libs.{name}` must be a module name or a map {{from, import}}")


def attribute(module, name):
    import importlib

    try:
        return getattr(module, name)
    except AttributeError:
        return importlib.import_module(f"{module.__name__}.{name}")


def call_main(main, inputs, whole):
    code = getattr(main, "__code__", None)
    if code is not None and not code.co_flags & 0x0C and not code.co_kwonlyargcount and not hasattr(main, "__wrapped__"):
        names = code.co_varnames[: code.co_argcount]
        if not code.co_posonlyargcount and not hasattr(main, "__self__"):
            required = len(names) - len(main.__defaults__ or ())
            given = {n: inputs[n] for n in names if n in inputs}
            for n in names:
                if n not in given and n in whole:
                    given[n] = whole[n]
            missing = [n for n in names[:required] if n not in given]
            if len(missing) == 1 and len(names) == 1:
                given[missing[0]] = whole["input_data"]
            return main(**given)
    return call_by_signature(main, inputs, whole)


def call_by_signature(main, inputs, whole):
    import inspect

    positional, named, takes_all = [], {}, False
    for p in inspect.signature(main).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            takes_all = True
        elif p.kind is p.VAR_POSITIONAL:
            continue
        elif p.name in inputs or p.name in whole:
            value = inputs[p.name] if p.name in inputs else whole[p.name]
            if p.kind is p.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[p.name] = value
    if takes_all:
        for name, value in inputs.items():
            named.setdefault(name, value)
    return main(*positional, **named)


def execute(program, request):
    inputs = request["input"]
    module = types.ModuleType(program.name)
    scope = module.__dict__
    whole = {"input_data": inputs, "args": inputs, "input": inputs, "context": request.get("context", {})}
    scope.update(whole)
    scope["__file__"] = program.file
    scope["__builtins__"] = __builtins__
    scope["__noetl_returned__"] = Returned
    libs = request.get("libs")
    if libs:
        import_libs(libs, scope)
    scope.update(inputs)
    sys.modules[program.name] = module
    try:
        return run(program, scope, inputs, whole)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
        return scope.get("result") if program.assigns_result else None


def run(program, scope, inputs, whole):
    value = None
    try:
        exec(program.code, scope)
        if program.wrapped and "__noetl_body__" in scope:
            value = finish(scope.pop("__noetl_body__")())
    except Returned as returned:
        value = returned.value
    if value is not None:
        return value
    if program.assigns_result or ("result" in scope and "result" not in inputs):
        return scope.get("result")
    main = scope.get("main")
    if program.defines_main and callable(main):
        return finish(call_main(main, inputs, whole))
    return None


def finish(value):
    """Awaits the coroutine of `async def main`."""
    if isinstance(value, types.CoroutineType):
        import asyncio

        return asyncio.run(value)
    return value


def plain(value, path, lost, depth=0):
    """Converts a value to JSON types; raises NotJson with the path of a value that cannot be converted."""
    if depth > 100:
        raise NotJson(f"the result is nested too deeply at {path}")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        value = int(value)
        return value if INT_MIN <= value <= INT_MAX else str(value)
    if isinstance(value, float):
        value = float(value)
        if value != value or value in (float("inf"), float("-inf")):
            lost.append(path)
            return None
        return value
    if isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        return {key(k, path): plain(value[k], f"{path}.{k}", lost, depth + 1) for k in value.keys()}
    if isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        if fields:
            return {f: plain(v, f"{path}.{f}", lost, depth + 1) for f, v in zip(fields, value)}
        return [plain(v, f"{path}[{i}]", lost, depth + 1) for i, v in enumerate(value)]
    return plain(foreign(value, path), path, lost, depth + 1)


def key(name, path):
    if isinstance(name, str):
        return name
    if name is None:
        return "null"
    if isinstance(name, bool):
        return "true" if name else "false"
    if isinstance(name, (int, float)):
        return str(name)
    form = foreign(name, f"a key of {path}")
    if isinstance(form, (str, int, float)):
        return str(form)
    raise NotJson(f"a key of {path} is of type {type(name).__name__}, which cannot be a JSON key; use text")


def foreign(value, path):
    """Converts a value of a type that JSON does not have to a simpler one."""
    import base64
    import dataclasses
    import datetime
    import decimal
    import enum
    import pathlib
    import uuid

    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return value.to_dict(orient="records")
    for name in ("tolist", "item"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            return method()
    if isinstance(value, (types.GeneratorType, map, filter, zip, range)) or type(value).__name__.startswith("dict_"):
        return list(value)
    raise NotJson(
        f"cannot convert the result to JSON: it contains a value of type {type(value).__name__} at {path}; convert it in the code"
    )


def encode(value):
    """Returns the JSON text of a result and the paths of numbers that JSON cannot represent."""
    try:
        text = DUMPS(value)
        text.encode("utf-8")
        if type(value) in (bool, str) or not WIDE.search(text):
            return text, []
    except (TypeError, ValueError, RecursionError):
        pass
    lost = []
    return DUMPS(plain(value, "$", lost)), lost


def failure(error, program):
    """Describes an exception; its traceback shows the lines of the playbook."""
    kind = type(error)
    names = [c.__name__ for c in kind.__mro__]
    line = None
    if isinstance(error, SyntaxError) and program is not None and error.filename == program.file:
        line = error.lineno
    elif program is not None:
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == program.file:
                line = frame.tb_lineno
            frame = frame.tb_next
    answer = {"type": kind.__name__, "bases": names, "message": message(error), "traceback": "".join(trace(error, program))}
    if line is not None:
        answer["line"] = line
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        answer["exit_code"] = error.code
    if isinstance(error, NotJson):
        answer["schema"] = True
    if isinstance(getattr(error, "retryable", None), bool):
        answer["retryable"] = error.retryable
    return answer


def message(error):
    try:
        return error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException as broken:
        return f"<cannot format the message: {type(broken).__name__}>"


def trace(error, program, seen=()):
    """Formats the traceback without the runner's own frames."""
    import linecache
    import traceback

    if id(error) in seen or len(seen) > 10:
        return []
    seen = (*seen, id(error))
    parts = []
    if error.__cause__ is not None:
        parts += trace(error.__cause__, program, seen)
        parts.append("\nThe above exception was the direct cause of the following exception:\n\n")
    elif error.__context__ is not None and not error.__suppress_context__:
        parts += trace(error.__context__, program, seen)
        parts.append("\nDuring handling of the above exception, another exception occurred:\n\n")
    lines = program.source.splitlines() if program else []
    frames = []
    for frame in traceback.extract_tb(error.__traceback__, limit=-50):
        if frame.filename == RUNNER:
            continue
        text = None
        if program and frame.filename == program.file:
            at = frame.lineno - program.shift - 1
            text = lines[at] if 0 <= at < len(lines) else ""
        else:
            text = linecache.getline(frame.filename, frame.lineno)
        where = "<module>" if frame.name == "__noetl_body__" else frame.name
        frames.append((frame.filename, frame.lineno, where, text.strip()))
    if frames:
        parts.append("Traceback (most recent call last):\n")
        for file, number, where, text in frames:
            parts.append(f'  File "{file}", line {number}, in {where}\n    {text}\n')
    parts += traceback.format_exception_only(type(error), error)
    return parts


def settle(request):
    """Sets the environment and directory of the call."""
    env = request.get("env")
    if env:
        os.environ.update(env)
    cwd = request.get("cwd", START_DIR)
    if os.getcwd() != cwd:
        os.chdir(cwd)


def restore():
    """Undoes changes of the call; returns whether the interpreter must be replaced."""
    used = False
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            used = True
    sys.stdout, sys.stderr = STDOUT, STDERR
    if os.environ._data != ENVIRON_BYTES:
        os.environ.clear()
        os.environ.update(ENVIRON)
    if sys.path != SYS_PATH:
        sys.path[:] = SYS_PATH
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None
    threading = sys.modules.get("threading")
    return used or (threading is not None and threading.active_count() > 1)


def program_of(request):
    number = request["program"]
    if "code" in request:
        try:
            CODES[number] = Program(request["code"], request["file"], request.get("line"))
        except SyntaxError as error:
            CODES[number] = error
    return CODES[number]


def answer_to(request):
    program = None
    try:
        program = program_of(request)
        if isinstance(program, SyntaxError):
            error, program = program, None
            answer = failure(error, None)
            answer["line"] = error.lineno
            return {"error": answer}, None
        settle(request)
        return encode(execute(program, request))
    except BaseException as error:
        if os.getpid() != PID:
            os._exit(1)
        fatal = isinstance(error, (SystemExit, KeyboardInterrupt, MemoryError))
        return {"error": failure(error, program), "replace": fatal}, None


def main():
    # Signals that the interpreter has started and accepts calls.
    CHANNEL.sendall(b"\n")
    while True:
        line = READER.readline()
        if not line:
            return
        answer, lost = answer_to(json.loads(line))
        replace = restore()
        if os.getpid() != PID:
            os._exit(0)
        if lost is not None:
            tail = ',"replace":true' if replace else ""
            if lost:
                tail += ',"lost":' + json.dumps(lost[:10])
            text = '{"result":' + answer + tail + "}\n"
        else:
            answer["replace"] = replace or answer.get("replace", False)
            text = json.dumps(answer) + "\n"
        CHANNEL.sendall(text.encode("utf-8", "replace"))


main()
os._exit(0)
