// The audit log with filters, which are in the URL.
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { AuditFilter } from "../api/types";
import { omitUndefined } from "../lib/search";
import { AuditList } from "./AuditList";

const route = getRouteApi("/system");
const typingMs = 400;

export function AuditTab() {
  const { actor, action, resource, outcome } = route.useSearch();
  const navigate = route.useNavigate();
  const filter: AuditFilter = omitUndefined({ actor, action, resource, outcome });
  const setFilter = (key: keyof AuditFilter, text: string) =>
    void navigate({ search: (search) => omitUndefined({ ...search, [key]: text || undefined }), replace: true });
  return (
    <>
      <div className="audit-filters" role="search">
        <FilterField label="Who" value={actor ?? ""} onChange={(text) => setFilter("actor", text)} />
        <FilterField
          label="Action, such as token."
          value={action ?? ""}
          onChange={(text) => setFilter("action", text)}
        />
        <FilterField label="Resource" value={resource ?? ""} onChange={(text) => setFilter("resource", text)} />
        <select
          className="input"
          aria-label="Outcome"
          value={outcome ?? ""}
          onChange={(event) => setFilter("outcome", event.target.value)}
        >
          <option value="">every outcome</option>
          <option value="done">done</option>
          <option value="denied">denied</option>
          <option value="failed">failed</option>
        </select>
      </div>
      <AuditList filter={filter} />
    </>
  );
}

interface FilterFieldProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
}

/** A field that changes the filter once its text has not changed for a moment. */
function FilterField({ label, value, onChange }: FilterFieldProps) {
  const [text, setText] = useState(value);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onChange(text), typingMs);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <input
      className="input"
      type="search"
      aria-label={label}
      placeholder={label}
      value={text}
      onChange={(event) => setText(event.target.value)}
    />
  );
}
