// Numbers of things in sentences.

export function formatCount(count: number): string {
  return count.toLocaleString("en");
}

/** A number with its noun, for example `1 run` or `1,000 runs`. */
export function countRuns(count: number): string {
  return `${formatCount(count)} ${count === 1 ? "run" : "runs"}`;
}
