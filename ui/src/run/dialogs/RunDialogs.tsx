// The dialog that is open on the page of a run.
import { useMay } from "../../shell/role";
import { useRun } from "../context";
import { CancelDialog } from "./CancelDialog";
import { RerunDialog } from "./RerunDialog";
import { RetryDialog } from "./RetryDialog";

export function RunDialogs() {
  const { view, setView } = useRun();
  const mayOperate = useMay("operator");
  if (!mayOperate || !view.dialog) return null;
  const close = () =>
    setView((current) => {
      const next = { ...current };
      delete next.dialog;
      return next;
    }, true);
  if (view.dialog === "retry") return <RetryDialog onClose={close} />;
  if (view.dialog === "rerun") return <RerunDialog onClose={close} />;
  return <CancelDialog onClose={close} />;
}
