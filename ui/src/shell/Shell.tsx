// The frame of every page: navigation, banner, palette, keys and toasts. Shows the sign-in page without a session.
import { useQuery } from "@tanstack/react-query";
import { Outlet, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useConnectionLost } from "../api/connection";
import { sessionQuery } from "../api/queries";
import { ProblemNote } from "../parts/ProblemNote";
import { KeyList } from "./KeyList";
import { useKeyboard, useKeys } from "./keyboard";
import { Palette } from "./Palette";
import { Sidebar } from "./Sidebar";
import { SignIn } from "./SignIn";
import { Toasts } from "./Toasts";
import "./shell.css";

export function Shell() {
  const { data: session, error, refetch } = useQuery(sessionQuery);
  if (session && session.auth === "required" && session.role === null) return <SignIn />;
  if (session) return <SignedIn />;
  return error ? <ProblemNote error={error} onRetry={() => void refetch()} /> : null;
}

function SignedIn() {
  const navigate = useNavigate();
  const isLost = useConnectionLost();
  const [opened, setOpened] = useState<"palette" | "keys" | null>(null);
  useKeyboard();
  useKeys("Everywhere", [
    { keys: "mod+k", label: "Search and actions", run: () => setOpened("palette") },
    { keys: "?", label: "This list", run: () => setOpened("keys") },
    { keys: "g h", label: "Go to home", run: () => void navigate({ to: "/" }) },
    { keys: "g r", label: "Go to runs", run: () => void navigate({ to: "/runs" }) },
    { keys: "g i", label: "Go to the inbox", run: () => void navigate({ to: "/inbox" }) },
    { keys: "g p", label: "Go to playbooks", run: () => void navigate({ to: "/playbooks" }) },
    { keys: "g c", label: "Go to credentials", run: () => void navigate({ to: "/credentials" }) },
    { keys: "g w", label: "Go to workers", run: () => void navigate({ to: "/workers" }) },
    { keys: "g s", label: "Go to the system", run: () => void navigate({ to: "/system" }) },
  ]);
  return (
    <div className="shell">
      <Sidebar onOpenPalette={() => setOpened("palette")} onOpenKeys={() => setOpened("keys")} />
      <div className="shell-page">
        {isLost && (
          <p className="banner" role="alert">
            The connection to the server is lost. The page shows the last known state and reconnects by itself.
          </p>
        )}
        <Outlet />
      </div>
      {opened === "palette" && <Palette onClose={() => setOpened(null)} />}
      {opened === "keys" && <KeyList onClose={() => setOpened(null)} />}
      <Toasts />
    </div>
  );
}
