// Commands of the CLI that do what a view shows.
import type { RunFilter } from "./filter";
import { splitLabels } from "./labels";

/** An argument, quoted for a shell if it has to be. */
export function quoteArgument(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The command that lists the same runs; filters that the CLI does not have are left out. */
export function listRunsCommand(filter: RunFilter): string {
  const words = ["noetl runs"];
  if (filter.status) words.push("--status", quoteArgument(filter.status.toLowerCase()));
  if (filter.playbook) words.push("--path", quoteArgument(filter.playbook));
  if (filter.since && !/^\d{4}-/.test(filter.since)) words.push("--since", quoteArgument(filter.since));
  for (const pair of splitLabels(filter.label ?? "")) words.push("--label", quoteArgument(pair.replace(":", "=")));
  if (filter.q) words.push("--search", quoteArgument(filter.q));
  if (filter.code) words.push("--error-code", quoteArgument(filter.code));
  if (filter.longer) words.push("--min-duration", quoteArgument(filter.longer));
  if (filter.shorter) words.push("--max-duration", quoteArgument(filter.shorter));
  return words.join(" ");
}

export interface RunCommandOptions {
  tab?: string | undefined;
  step?: string | undefined;
  task?: string | undefined;
  type?: string | undefined;
  hasFailed?: boolean;
}

/** The command that shows what a tab of a run shows. */
export function showRunCommand(id: string, { tab, step, task, type, hasFailed }: RunCommandOptions = {}): string {
  if (tab === "logs") {
    const filter = [step && `--step ${quoteArgument(step)}`, step && task && `--task ${quoteArgument(task)}`];
    return [`noetl logs ${id}`, ...filter].filter(Boolean).join(" ");
  }
  if (tab === "events") return `noetl events ${id}${type ? ` --type ${quoteArgument(type)}` : ""}`;
  if (tab === "results") return `noetl result ${id}${step ? ` ${quoteArgument(step)}` : ""}`;
  return `noetl show ${id}${hasFailed ? " --failed" : ""}`;
}

/** The command that lists runs that may wait: those of a playbook, or all that are active. */
export function listWaitingRunsCommand({ run, path }: { run?: string; path?: string }): string {
  if (run) return showRunCommand(run);
  return `noetl runs --status running,paused${path ? ` --path ${quoteArgument(path)}` : ""}`;
}

/** The command that sends a signal; the payload is a JSON object. */
export function signalCommand(id: string, signal: string, payload: string): string {
  const input = payload === "{}" ? "" : ` --input ${quoteArgument(payload)}`;
  return `noetl signal ${id} ${quoteArgument(signal)}${input}`;
}

/** The command that starts a run; the inputs are a JSON object. */
export function startRunCommand(path: string, version: number, inputs: string): string {
  const input = inputs === "{}" ? "" : ` --input ${quoteArgument(inputs)}`;
  return `noetl run ${quoteArgument(`${path}@${version}`)}${input}`;
}

export interface RerunCommandOptions {
  from_step?: string;
  from_iteration?: number;
  version?: number;
  payload?: string;
}

/** The command that reruns a run. */
export function rerunCommand(id: string, options: RerunCommandOptions): string {
  return [
    `noetl rerun ${id}`,
    options.from_step && `--from ${quoteArgument(options.from_step)}`,
    options.from_iteration !== undefined && `--iteration ${options.from_iteration}`,
    options.version !== undefined && `--version ${options.version}`,
    options.payload && `--input ${quoteArgument(options.payload)}`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** The command that registers the text of a playbook, kept in a file. */
export function registerCommand(path: string): string {
  const name = path.split("/").at(-1) || "playbook";
  return `noetl register ${quoteArgument(`${name}.yaml`)}`;
}
