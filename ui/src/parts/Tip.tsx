// A tooltip for a control or a text. The content is also read by screen readers.
import * as Tooltip from "@radix-ui/react-tooltip";
import { overlays } from "./overlays";

interface TipProps {
  text: React.ReactNode;
  children: React.ReactElement;
  side?: "top" | "bottom" | "left" | "right";
}

export function Tip({ text, children, side = "bottom" }: TipProps) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal container={overlays}>
        <Tooltip.Content className="tooltip" side={side} sideOffset={4} collisionPadding={8}>
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
