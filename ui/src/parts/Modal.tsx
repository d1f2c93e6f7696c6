// A modal dialog with a title, a body and buttons.
import * as Dialog from "@radix-ui/react-dialog";
import { Button } from "./Button";
import { Icon } from "./Icon";

interface ModalProps {
  title: string;
  description?: string;
  isWide?: boolean;
  onClose: () => void;
  foot?: React.ReactNode;
  children: React.ReactNode;
}

export function Modal({ title, description, isWide = false, onClose, foot, children }: ModalProps) {
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content
          className={`dialog ${isWide ? "dialog-wide" : ""}`}
          onOpenAutoFocus={focusFirstField}
          {...(description ? {} : { "aria-describedby": undefined })}
        >
          <div className="dialog-head">
            <Dialog.Title className="grow">{title}</Dialog.Title>
            <Dialog.Close asChild>
              <Button look="quiet" className="button-icon" aria-label="Close">
                <Icon name="close" />
              </Button>
            </Dialog.Close>
          </div>
          <div className="dialog-body">
            {description && <Dialog.Description className="muted">{description}</Dialog.Description>}
            {children}
          </div>
          {foot && <div className="dialog-foot">{foot}</div>}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Puts the focus into the first field instead of on the button that closes the dialog. */
function focusFirstField(event: Event) {
  const content = event.currentTarget as HTMLElement;
  const field = content.querySelector<HTMLElement>(
    ".dialog-body :is(input, select, textarea), .dialog-foot .button-primary",
  );
  if (!field) return;
  event.preventDefault();
  field.focus();
}
