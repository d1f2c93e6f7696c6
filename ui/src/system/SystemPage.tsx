// The system: version, store and limits; for admins also access tokens and the audit log.
import * as Tabs from "@radix-ui/react-tabs";
import { getRouteApi } from "@tanstack/react-router";
import { apiUrl } from "../api/client";
import { CopyButton } from "../parts/copy";
import { CopyLink } from "../parts/CopyLink";
import { Page } from "../shell/Page";
import { useMay } from "../shell/role";
import { AuditTab } from "./AuditTab";
import { OverviewTab } from "./OverviewTab";
import { TokensTab } from "./TokensTab";
import "./system.css";

export const systemTabs = ["overview", "tokens", "audit"] as const;
type SystemTab = (typeof systemTabs)[number];

const tabNames: Record<SystemTab, string> = { overview: "Overview", tokens: "Access tokens", audit: "Audit log" };
const commands: Record<SystemTab, string> = {
  overview: "noetl doctor",
  tokens: "noetl token list",
  audit: `curl -H 'Authorization: Bearer TOKEN' '${apiUrl("/api/audit").href}?order=newest'`,
};

const route = getRouteApi("/system");

export function SystemPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const isAdmin = useMay("admin");
  const tabs = isAdmin ? systemTabs : systemTabs.slice(0, 1);
  const tab = search.tab && tabs.includes(search.tab) ? search.tab : "overview";
  return (
    <Page
      title="System"
      actions={
        <>
          <CopyButton text={commands[tab]} what="the command">
            Copy CLI
          </CopyButton>
          <CopyLink />
        </>
      }
    >
      <Tabs.Root
        className="run-tabs"
        value={tab}
        onValueChange={(next) => void navigate({ search: next === "overview" ? {} : { tab: next as SystemTab } })}
      >
        <Tabs.List className="tabs" aria-label="Parts of the system">
          {tabs.map((name) => (
            <Tabs.Trigger key={name} value={name} className="tab">
              {tabNames[name]}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="overview" className="page-body system-tab" tabIndex={-1}>
          <OverviewTab />
        </Tabs.Content>
        <Tabs.Content value="tokens" className="page-body system-tab" tabIndex={-1}>
          <TokensTab />
        </Tabs.Content>
        <Tabs.Content value="audit" className="page-body system-tab" tabIndex={-1}>
          <AuditTab />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
