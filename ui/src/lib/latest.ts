// Runs an operation for the newest value only: at most one at a time, and never for a value that was replaced while it
// waited.

export interface Latest<Value> {
  /** Runs the operation for this value, after the one that is running. */
  push: (value: Value) => void;
  /** Forgets the value that waits. */
  clear: () => void;
}

export function createLatest<Value>(run: (value: Value) => Promise<void>): Latest<Value> {
  let waiting: { value: Value } | null = null;
  let isRunning = false;
  const start = async () => {
    isRunning = true;
    while (waiting) {
      const { value } = waiting;
      waiting = null;
      await run(value);
    }
    isRunning = false;
  };
  return {
    push: (value) => {
      waiting = { value };
      if (!isRunning) void start();
    },
    clear: () => {
      waiting = null;
    },
  };
}
