// Copying text to the clipboard, with a toast that says what was copied.
import { Button, IconButton } from "./Button";
import { showToast } from "./toasts";

export async function copyText(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text);
    showToast({ tone: "done", text: `Copied ${what}`, detail: text });
  } catch {
    showToast({ tone: "failed", text: `The browser did not allow to copy ${what}`, detail: text });
  }
}

interface CopyProps {
  text: string;
  what: string;
}

export function CopyIcon({ text, what }: CopyProps) {
  return <IconButton isSmall icon="copy" label={`Copy ${what}`} onClick={() => void copyText(text, what)} />;
}

export function CopyButton({ text, what, children }: CopyProps & { children: React.ReactNode }) {
  return (
    <Button isSmall look="quiet" onClick={() => void copyText(text, what)}>
      {children}
    </Button>
  );
}
