// Buttons. An icon button needs a label; its tooltip shows the label and the key.
import { Icon, type IconName } from "./Icon";
import { Tip } from "./Tip";

interface ButtonProps extends React.ComponentProps<"button"> {
  look?: "plain" | "primary" | "danger" | "quiet";
  isSmall?: boolean;
}

export function Button({ look = "plain", isSmall = false, className = "", ...rest }: ButtonProps) {
  const names = ["button", look !== "plain" && `button-${look}`, isSmall && "button-small", className];
  return <button type="button" className={names.filter(Boolean).join(" ")} {...rest} />;
}

interface IconButtonProps extends Omit<ButtonProps, "children"> {
  icon: IconName;
  label: string;
  keys?: string;
}

export function IconButton({ icon, label, keys, className = "", look = "quiet", ...rest }: IconButtonProps) {
  return (
    <Tip text={keys ? `${label} (${keys})` : label}>
      <Button look={look} className={`button-icon ${className}`} aria-label={label} {...rest}>
        <Icon name={icon} />
      </Button>
    </Tip>
  );
}
