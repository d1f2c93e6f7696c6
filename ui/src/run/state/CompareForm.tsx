// Chooses the event to compare the state with: any number, the previous event, or none.
import { Button } from "../../parts/Button";
import { useRun } from "../context";

export function CompareForm({ shown }: { shown: number }) {
  const { view, setView } = useRun();
  const compareWith = (seq: number | null) =>
    setView((current) => {
      const next = { ...current };
      delete next.compare;
      return seq === null ? next : { ...next, compare: seq };
    }, true);
  return (
    <form
      key={view.compare ?? 0}
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        const seq = Number(new FormData(event.currentTarget).get("compare"));
        if (Number.isInteger(seq) && seq > 0) compareWith(seq);
      }}
    >
      <input
        className="input state-compare"
        name="compare"
        inputMode="numeric"
        aria-label="Compare with event"
        placeholder="Compare with event"
        defaultValue={view.compare ?? ""}
      />
      {view.compare === undefined ? (
        <Button isSmall disabled={shown <= 1} onClick={() => compareWith(shown - 1)}>
          Last change
        </Button>
      ) : (
        <Button isSmall onClick={() => compareWith(null)}>
          Stop comparing
        </Button>
      )}
    </form>
  );
}
