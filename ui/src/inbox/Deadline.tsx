// The time that is left until a wait fails.
import { formatRemaining, formatUtc } from "../lib/time";
import { useNow } from "../parts/Time";
import { Tip } from "../parts/Tip";

export function Deadline({ at }: { at: string }) {
  const now = useNow();
  return (
    <Tip text={formatUtc(at)}>
      <time dateTime={at}>{formatRemaining(new Date(at), now)}</time>
    </Tip>
  );
}
