// Commands of the CLI that do what a view shows.
import type { RunFilter } from "./filter";

/** An argument, quoted for a shell if it has to be. */
export function quoteArgument(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The command that lists the same runs; filters that the CLI does not have are left out. */
export function listRunsCommand(filter: RunFilter): string {
  const words = ["noetl runs"];
  if (filter.status) words.push("--status", quoteArgument(filter.status.toLowerCase()));
  if (filter.playbook) words.push("--path", quoteArgument(filter.playbook));
  if (filter.since) words.push("--since", quoteArgument(filter.since));
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

/** The command that sends a signal with a payload. */
export function signalCommand(id: string, signal: string, payload: Record<string, unknown>): string {
  const text = JSON.stringify(payload);
  const input = text === "{}" ? "" : ` --input ${quoteArgument(text)}`;
  return `noetl signal ${id} ${quoteArgument(signal)}${input}`;
}

export function startRunCommand(path: string, version: number, inputs: Record<string, unknown>): string {
  const text = JSON.stringify(inputs);
  const input = text === "{}" ? "" : ` --input ${quoteArgument(text)}`;
  return `noetl run ${quoteArgument(`${path}@${version}`)}${input}`;
}
