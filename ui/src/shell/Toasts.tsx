// Toasts in the corner; screen readers announce them.
import { IconButton } from "../parts/Button";
import { MarkIcon } from "../parts/StatusMark";
import { dismissToast, useToasts } from "../parts/toasts";

export function Toasts() {
  const toasts = useToasts();
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => (
        <div key={toast.id} className="toast">
          <MarkIcon mark={toast.tone} />
          <div className="grow">
            <p>{toast.text}</p>
            {toast.detail && <p className="mono muted toast-detail">{toast.detail}</p>}
          </div>
          <IconButton isSmall icon="close" label="Dismiss" onClick={() => dismissToast(toast.id)} />
        </div>
      ))}
    </div>
  );
}
