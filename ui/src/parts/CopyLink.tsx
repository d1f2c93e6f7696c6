// Copies the address of the view, which contains its whole state.
import { Button } from "./Button";
import { copyText } from "./copy";

export function CopyLink() {
  return (
    <Button isSmall look="quiet" onClick={() => void copyText(window.location.href, "the link")}>
      Copy link
    </Button>
  );
}
