// Which actions make sense for a run with a status. The server decides; these only hide what it would refuse.

const canRetry = new Set(["FAILED", "CANCELLED"]);
const hasEnded = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

export function offeredActions(run: { status: string; cancelling: boolean }) {
  return {
    retry: canRetry.has(run.status),
    rerun: hasEnded.has(run.status),
    pause: run.status === "RUNNING" && !run.cancelling,
    resume: run.status === "PAUSED" && !run.cancelling,
    cancel: !hasEnded.has(run.status) && !run.cancelling,
  };
}
