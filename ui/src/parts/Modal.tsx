// A modal dialog with a title, a body and buttons.
import * as Dialog from "@radix-ui/react-dialog";
import { IconButton } from "./Button";

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
          {...(description ? {} : { "aria-describedby": undefined })}
        >
          <div className="dialog-head">
            <Dialog.Title className="grow">{title}</Dialog.Title>
            <Dialog.Close asChild>
              <IconButton icon="close" label="Close" keys="Esc" />
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
