// The graph, the failures and the log filters of one run, computed from its event log. Development only.

export async function mockGraph(url, read) {
  const id = url.pathname.split("/")[3];
  const [plain, detail] = await Promise.all([read(`/api/executions/${id}/graph`), read(`/api/executions/${id}`)]);
  const atSeq = Number(url.searchParams.get("at_seq") ?? Infinity);
  const events = (await readEvents(id, read)).filter((event) => event.seq <= atSeq);
  return {
    execution_id: id,
    seq: detail.execution.seq,
    status: detail.status,
    entry: events.find((event) => event.event_type === "workflow.started")?.payload.entry ?? plain.steps[0].step,
    is_complete: true,
    steps: plain.steps.map((step) =>
      foldStep(
        step,
        events.filter((event) => event.step === step.step),
      ),
    ),
    arcs: foldArcs(plain.arcs, events),
  };
}

async function readEvents(id, read) {
  const events = [];
  let after = 0;
  while (after !== undefined && events.length < 50_000) {
    const page = await read(`/api/executions/${id}/events?limit=1000&after_seq=${after}`);
    events.push(...page.events);
    after = page.next_after_seq ?? undefined;
  }
  return events;
}

function foldStep(step, events) {
  const of = (...types) => events.filter((event) => types.includes(event.event_type));
  const loop = of("loop.started")[0]?.payload;
  const end = of("step.done", "step.failed", "loop.done").at(-1);
  const tasks = step.tasks.map((task) => {
    const own = events.filter((event) => event.task_label === task.label);
    const last = own.filter((event) => /^task\.(started|done|failed)$/.test(event.event_type)).at(-1);
    const status = { "task.started": "running", "task.done": "success", "task.failed": "error" }[last?.event_type];
    const attempts = Math.max(0, ...own.map((event) => event.attempt ?? 0));
    return {
      label: task.label,
      kind: task.kind,
      line: null,
      column: null,
      status: status ?? "not_reached",
      attempts,
    };
  });
  const waits = step.tasks.some((task) => task.kind === "wait" || task.kind === "playbook");
  const status = !events.length
    ? "not_reached"
    : end
      ? end.event_type === "step.failed"
        ? "error"
        : "success"
      : waits
        ? "waiting"
        : "running";
  const iterations = (type) => of(`loop.iteration.${type}`).length;
  return {
    step: step.step,
    line: null,
    column: null,
    description: null,
    kind: step.loop ? "loop" : step.tasks.length > 1 ? "pipeline" : step.tasks.length === 1 ? "task" : "route",
    runs: new Set(events.map((event) => event.step_run_id)).size,
    status,
    is_reused: events.some((event) => event.event_type === "step.reused"),
    started_at: of("step.started", "loop.started")[0]?.timestamp ?? null,
    ended_at: end?.timestamp ?? null,
    tasks,
    loop: step.loop
      ? {
          total: loop?.total ?? null,
          succeeded: iterations("done"),
          failed: iterations("failed"),
          in_flight: Math.max(0, iterations("started") - iterations("done") - iterations("failed")),
          retries: of("task.attempt.started").filter((event) => event.attempt > 1).length,
        }
      : null,
    error: of("step.failed").at(-1)?.payload.error ?? null,
  };
}

function foldArcs(arcs, events) {
  const indices = new Map();
  return arcs.map((arc) => {
    const index = indices.get(arc.from) ?? 0;
    indices.set(arc.from, index + 1);
    const evaluations = events.filter((event) => event.event_type === "next.evaluated" && event.step === arc.from);
    const values = evaluations.map((event) => ({ seq: event.seq, value: event.payload.guards?.[index] ?? null }));
    const last = values.at(-1) ?? null;
    return {
      ...arc,
      index,
      line: null,
      column: null,
      taken: values.filter(({ value }) => value === true).length,
      refused: values.filter(({ value }) => value === false).length,
      last,
    };
  });
}

export async function mockFailures(url, read) {
  const events = await readEvents(url.pathname.split("/")[3], read);
  const groups = new Map();
  for (const event of events) {
    if (event.event_type !== "task.failed") continue;
    const error = event.payload.outcome.error;
    const key = `${event.step}/${event.task_label}/${error.code}`;
    const group = groups.get(key) ?? {
      code: error.code,
      message: error.message,
      step: event.step,
      task: event.task_label,
      line: error.line ?? null,
      column: error.column ?? null,
      count: 0,
      iterations: [],
      first_seq: event.seq,
      attempts: event.attempt,
    };
    group.count += 1;
    if (event.iteration !== undefined && group.iterations.length < 100) group.iterations.push(event.iteration);
    groups.set(key, group);
  }
  return { groups: [...groups.values()] };
}

export async function mockLogs(url, read) {
  const own = ["q", "level", "iteration", "attempt"];
  const wanted = Object.fromEntries(own.map((name) => [name, url.searchParams.get(name)]));
  const plain = new URLSearchParams([...url.searchParams].filter(([name]) => !own.includes(name)));
  const page = await read(`${url.pathname}?${plain}`);
  const levelOf = (line) => (/^(Traceback|\w*Error\b|ERROR)/.test(line.text) ? "error" : "info");
  const all = page.lines.map((line) => ({ ...line, level: levelOf(line) }));
  const lines = all.filter(
    (line) =>
      (!wanted.q || line.text.toLowerCase().includes(wanted.q.toLowerCase())) &&
      (wanted.level !== "error" || line.level === "error") &&
      (wanted.iteration === null || line.iteration === Number(wanted.iteration)) &&
      (wanted.attempt === null || line.attempt === Number(wanted.attempt)),
  );
  return { ...page, lines };
}
