// A menu that opens from a button.
import * as DropdownMenu from "@radix-ui/react-dropdown-menu";
import { overlays } from "./overlays";

interface MenuProps {
  trigger: React.ReactElement;
  align?: "start" | "end";
  side?: "top" | "bottom";
  children: React.ReactNode;
}

export function Menu({ trigger, align = "end", side = "bottom", children }: MenuProps) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal container={overlays}>
        <DropdownMenu.Content className="menu" align={align} side={side} sideOffset={4} collisionPadding={8}>
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

interface MenuItemProps {
  onSelect: () => void;
  children: React.ReactNode;
}

export function MenuItem({ onSelect, children }: MenuItemProps) {
  return (
    <DropdownMenu.Item className="menu-item" onSelect={onSelect}>
      {children}
    </DropdownMenu.Item>
  );
}

export function MenuGroup({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <DropdownMenu.Group>
      <DropdownMenu.Label className="menu-label">{title}</DropdownMenu.Label>
      {children}
    </DropdownMenu.Group>
  );
}

interface MenuChoicesProps<Value extends string> {
  title: string;
  value: Value;
  choices: Record<Value, string>;
  onChange: (value: Value) => void;
}

/** One of several values. */
export function MenuChoices<Value extends string>({ title, value, choices, onChange }: MenuChoicesProps<Value>) {
  return (
    <MenuGroup title={title}>
      <DropdownMenu.RadioGroup value={value} onValueChange={(next) => onChange(next as Value)}>
        {Object.entries<string>(choices).map(([choice, label]) => (
          <DropdownMenu.RadioItem key={choice} className="menu-item" value={choice}>
            <span className="menu-check">
              <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
            </span>
            {label}
          </DropdownMenu.RadioItem>
        ))}
      </DropdownMenu.RadioGroup>
    </MenuGroup>
  );
}
