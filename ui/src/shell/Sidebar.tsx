// Navigation, preferences and the session.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { signOut } from "../api/actions";
import type { Role } from "../api/types";
import { inboxCountQuery, sessionQuery } from "../api/queries";
import { IconButton } from "../parts/Button";
import { Icon, type IconName } from "../parts/Icon";
import { Menu, MenuChoices } from "../parts/Menu";
import { showFailure } from "../parts/toasts";
import { setPreference, usePreferences, type Preferences } from "./preferences";
import { useMay } from "./role";

type PagePath = "/" | "/runs" | "/inbox" | "/playbooks" | "/credentials" | "/workers" | "/system";

const pages: { to: PagePath; label: string; icon: IconName; role?: Role }[] = [
  { to: "/", label: "Home", icon: "home" },
  { to: "/runs", label: "Runs", icon: "runs" },
  { to: "/inbox", label: "Inbox", icon: "inbox" },
  { to: "/playbooks", label: "Playbooks", icon: "playbooks" },
  { to: "/credentials", label: "Credentials", icon: "credentials", role: "admin" },
  { to: "/workers", label: "Workers", icon: "workers" },
  { to: "/system", label: "System", icon: "system" },
];

interface SidebarProps {
  onOpenPalette: () => void;
  onOpenKeys: () => void;
}

export function Sidebar({ onOpenPalette, onOpenKeys }: SidebarProps) {
  const { data: session } = useQuery(sessionQuery);
  const isAdmin = useMay("admin");
  const shownPages = pages.filter(({ role }) => role !== "admin" || isAdmin);
  return (
    <nav className="sidebar" aria-label="Main">
      <Link to="/" className="sidebar-brand" aria-label="NoETL, home">
        <Logo />
        <span className="sidebar-text">NoETL</span>
      </Link>
      <button type="button" className="sidebar-search" onClick={onOpenPalette}>
        <Icon name="search" />
        <span className="sidebar-text grow">Search</span>
        <kbd className="sidebar-text" aria-hidden="true">
          {navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K"}
        </kbd>
      </button>
      <ul className="sidebar-pages">
        {shownPages.map(({ to, label, icon }) => (
          <li key={to}>
            <Link to={to} className="sidebar-link" activeOptions={{ exact: to === "/", includeSearch: false }}>
              <Icon name={icon} />
              <span className="sidebar-text grow">{label}</span>
              {to === "/inbox" && <InboxBadge />}
            </Link>
          </li>
        ))}
      </ul>
      <div className="sidebar-foot">
        <LookMenu />
        <IconButton icon="keys" label="Keys" keys="?" onClick={onOpenKeys} />
        <WidthButton />
        {session?.auth === "required" && <SignOutButton name={session.name ?? session.role ?? ""} />}
      </div>
      {session?.auth === "required" && session.role && (
        <p className="sidebar-person sidebar-text" title={`Signed in as ${session.name ?? "?"}`}>
          {session.name} <span className="muted">{session.role}</span>
        </p>
      )}
      {session && <p className="sidebar-version muted sidebar-text">version {session.version}</p>}
    </nav>
  );
}

const inboxRefreshMs = 5000;

/** How many tasks wait for a decision. */
function InboxBadge() {
  const { data } = useQuery({ ...inboxCountQuery, refetchInterval: inboxRefreshMs });
  if (!data || data.count === 0) return null;
  const count = `${data.count.toLocaleString("en")}${data.is_complete ? "" : "+"}`;
  return (
    <span className="sidebar-badge">
      {count}
      <span className="visually-hidden"> waiting</span>
    </span>
  );
}

function Logo() {
  return (
    <svg width="20" height="20" viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="3" fill="var(--accent)" />
      <path d="M4.5 12V4l7 8V4" fill="none" stroke="var(--panel)" strokeWidth="1.8" strokeLinejoin="round" />
    </svg>
  );
}

const themes: Record<Preferences["theme"], string> = { system: "Like the system", light: "Light", dark: "Dark" };
const densities: Record<Preferences["density"], string> = { normal: "Normal", compact: "Compact" };

function LookMenu() {
  const { theme, density } = usePreferences();
  return (
    <Menu trigger={<IconButton icon="theme" label="Theme and density" />} align="start" side="top">
      <MenuChoices title="Theme" value={theme} choices={themes} onChange={(value) => setPreference("theme", value)} />
      <MenuChoices
        title="Rows"
        value={density}
        choices={densities}
        onChange={(value) => setPreference("density", value)}
      />
    </Menu>
  );
}

function WidthButton() {
  usePreferences();
  const isNarrow = getComputedStyle(document.documentElement).getPropertyValue("--sidebar").trim() === "48px";
  return (
    <IconButton
      className="sidebar-width"
      icon={isNarrow ? "right" : "left"}
      label={isNarrow ? "Widen the navigation" : "Narrow the navigation"}
      onClick={() => setPreference("sidebar", isNarrow ? "wide" : "narrow")}
    />
  );
}

function SignOutButton({ name }: { name: string }) {
  const client = useQueryClient();
  const leave = async () => {
    try {
      await signOut();
      client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
      await client.resetQueries({ queryKey: ["session"] });
    } catch (error) {
      showFailure("Not signed out", error);
    }
  };
  return <IconButton icon="exit" label={`Sign out ${name}`} onClick={() => void leave()} />;
}
