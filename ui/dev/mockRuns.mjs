// The filters and facets of the list of runs, computed from the plain list. Development only.

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

export async function selectRuns(url, read) {
  const params = url.searchParams;
  const runs = (await readAll(read)).filter((run) => matches(run, params));
  const limit = Number(params.get("limit") ?? 50);
  const first = Number(params.get("cursor") ?? 0);
  const next = first + limit < runs.length ? { next_cursor: String(first + limit) } : {};
  return { executions: runs.slice(first, first + limit), ...next };
}

export async function mockFacets(url, read) {
  const runs = (await readAll(read)).filter((run) => matches(run, url.searchParams));
  const times = runs.map((run) => Date.parse(run.started_at));
  const to = Date.now();
  const from = Math.min(to - 60_000, readTime(url.searchParams.get("since")) ?? Math.min(...times, to));
  const size = Math.max(1, Math.ceil((to - from) / 60_000)) * 1000;
  const buckets = Array.from({ length: Math.ceil((to - from) / size) }, (_, index) => ({
    at: new Date(from + index * size).toISOString(),
    counts: {},
  }));
  runs.forEach((run, index) => {
    const bucket = buckets[Math.floor((times[index] - from) / size)];
    if (bucket) bucket.counts[run.status] = (bucket.counts[run.status] ?? 0) + 1;
  });
  return {
    total: runs.length,
    is_complete: true,
    statuses: count(runs.map((run) => run.status)),
    paths: count(runs.map((run) => run.path)),
    error_codes: count(runs.flatMap((run) => (run.error ? [run.error.split(":")[0]] : []))),
    histogram: {
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
      bucket_seconds: size / 1000,
      buckets,
    },
  };
}

async function readAll(read) {
  const runs = [];
  let cursor;
  do {
    const page = await read(`/api/executions?limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    runs.push(...page.executions);
    cursor = page.next_cursor;
  } while (cursor && runs.length < 20_000);
  return runs;
}

function matches(run, params) {
  const took = (run.finished_at ? Date.parse(run.finished_at) : Date.now()) - Date.parse(run.started_at);
  const started = Date.parse(run.started_at);
  const text = params.get("q")?.toLowerCase();
  const path = params.get("path");
  const code = params.get("error_code");
  const status = params.get("status")?.split(",");
  const words = [run.path, run.name, run.current_step, run.error].filter(Boolean).join("\n").toLowerCase();
  return (
    (!status || status.includes(run.status)) &&
    (!path || (path.endsWith("*") ? run.path.startsWith(path.slice(0, -1)) : run.path === path)) &&
    (!text || run.execution_id.startsWith(text) || words.includes(text)) &&
    (!code || run.error?.split(":")[0] === code) &&
    (!params.get("parent") || run.parent_execution_id === params.get("parent")) &&
    (!params.get("since") || started >= readTime(params.get("since"))) &&
    (!params.get("until") || started < readTime(params.get("until"))) &&
    (!params.get("min_duration") || took >= readDuration(params.get("min_duration"))) &&
    (!params.get("max_duration") || took <= readDuration(params.get("max_duration")))
  );
}

function readTime(text) {
  if (!text) return undefined;
  const duration = readDuration(text);
  return duration === undefined ? Date.parse(text) : Date.now() - duration;
}

function readDuration(text) {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/.exec(text);
  return match ? Number(match[1]) * units[match[2]] : undefined;
}

function count(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].map(([value, number]) => ({ value, count: number })).sort((a, b) => b.count - a.count);
}
