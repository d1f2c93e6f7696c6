// Asks before a page with unsaved changes is left.
import { useBlocker } from "@tanstack/react-router";
import { Button } from "../parts/Button";
import { Modal } from "../parts/Modal";

interface LeaveGuardProps {
  isChanged: boolean;
  onKeep: () => void;
  onDiscard: () => void;
}

export function LeaveGuard({ isChanged, onKeep, onDiscard }: LeaveGuardProps) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => isChanged && current.pathname !== next.pathname,
    enableBeforeUnload: isChanged,
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  return (
    <Modal
      title="Leave without saving?"
      onClose={blocker.reset}
      foot={
        <>
          <Button
            look="danger"
            onClick={() => {
              onDiscard();
              blocker.proceed();
            }}
          >
            Discard changes
          </Button>
          <span className="grow" />
          <Button onClick={blocker.reset}>Stay</Button>
          <Button
            look="primary"
            onClick={() => {
              onKeep();
              blocker.proceed();
            }}
          >
            Keep the draft and leave
          </Button>
        </>
      }
    >
      <p>The changes are not saved as a version. This browser keeps them as a draft for your next visit.</p>
    </Modal>
  );
}
