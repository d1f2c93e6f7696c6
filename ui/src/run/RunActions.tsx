// What can be done with a run, for roles that may. The same actions are in the palette.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { pauseRun, resumeRun } from "../api/actions";
import { showRunCommand } from "../lib/cli";
import { offeredActions } from "../lib/runActions";
import { Button, IconButton } from "../parts/Button";
import { copyText } from "../parts/copy";
import { Menu, MenuItem } from "../parts/Menu";
import { showFailure, showToast } from "../parts/toasts";
import { usePaletteActions, type PaletteAction } from "../shell/paletteActions";
import { useMay } from "../shell/role";
import { useRun } from "./context";
import type { RunDialog } from "./runView";

export function RunActions() {
  const { detail, setView } = useRun();
  const { execution: run, execution_id: id } = detail;
  const mayOperate = useMay("operator");
  const offered = offeredActions(run);
  const pause = useControl("Paused", () => pauseRun(id));
  const resume = useControl("Resumed", () => resumeRun(id));
  const open = (dialog: RunDialog) => setView((view) => ({ ...view, dialog }));

  const actions: (PaletteAction & { isOffered: boolean; isFirst?: boolean; isDanger?: boolean })[] = [
    { label: "Retry failed", isOffered: offered.retry, isFirst: true, run: () => open("retry") },
    { label: "Rerun…", isOffered: offered.rerun, isFirst: true, run: () => open("rerun") },
    { label: "Pause", isOffered: offered.pause, isFirst: true, run: () => pause.mutate() },
    { label: "Resume", isOffered: offered.resume, isFirst: true, run: () => resume.mutate() },
    { label: "Cancel…", isOffered: offered.cancel, isFirst: true, isDanger: true, run: () => open("cancel") },
  ];
  const available = mayOperate ? actions.filter((action) => action.isOffered) : [];
  const copies: PaletteAction[] = [
    { label: "Copy the run ID", run: () => void copyText(id, "the run ID") },
    { label: "Copy the link", run: () => void copyText(window.location.href, "the link") },
    { label: "Copy the command", hint: "noetl show", run: () => void copyText(showRunCommand(id), "the command") },
  ];
  usePaletteActions("This run", [...available, ...copies]);

  return (
    <div className="run-actions">
      {available.map((action) => (
        <Button
          key={action.label}
          look={action.isDanger ? "danger" : action.label === "Retry failed" ? "primary" : "plain"}
          disabled={pause.isPending || resume.isPending}
          onClick={action.run}
        >
          {action.label}
        </Button>
      ))}
      <Menu trigger={<IconButton icon="more" label="More" look="plain" />}>
        {copies.map((action) => (
          <MenuItem key={action.label} onSelect={action.run}>
            {action.label}
          </MenuItem>
        ))}
      </Menu>
    </div>
  );
}

/** A control of a run that reports its result as a toast. */
function useControl(done: string, control: () => Promise<unknown>) {
  const client = useQueryClient();
  const { detail } = useRun();
  return useMutation({
    mutationFn: control,
    onSuccess: () => showToast({ tone: "done", text: `${done} run ${detail.execution_id}` }),
    onError: (error) => showFailure(`${done}: refused`, error),
    onSettled: () => client.invalidateQueries({ queryKey: ["run", detail.execution_id] }),
  });
}
