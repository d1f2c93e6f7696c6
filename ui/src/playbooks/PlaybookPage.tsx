// The page of a playbook: description, graph, runs, versions and their differences, source, callers, and the form that
// starts a run.
import * as Tabs from "@radix-ui/react-tabs";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { newestRunsQuery, playbookQuery } from "../api/queries";
import { RunList } from "../home/RunList";
import { startRunCommand } from "../lib/cli";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { LazyCode } from "../parts/LazyCode";
import { ProblemNote } from "../parts/ProblemNote";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { usePaletteActions } from "../shell/paletteActions";
import { useMay } from "../shell/role";
import { CallersTab } from "./CallersTab";
import { PlaybookFacts } from "./PlaybookFacts";
import { PlaybookGraphTab } from "./PlaybookGraphTab";
import { playbookTabs, type PlaybookTab } from "./playbookView";
import { StartDialog } from "./StartDialog";
import { VersionsTab } from "./VersionsTab";
import "./playbooks.css";

const route = getRouteApi("/playbooks/$path");
const refreshMs = 5000;

const tabLabels: Record<PlaybookTab, string> = {
  graph: "Graph",
  runs: "Runs",
  versions: "Versions",
  source: "Source",
  callers: "Used by",
};

export function PlaybookPage() {
  const { path } = route.useParams();
  const { tab = "graph", version, line, dialog } = route.useSearch();
  const navigate = route.useNavigate();
  const mayOperate = useMay("operator");
  const mayAuthor = useMay("author");
  const { data, error, refetch } = useQuery(playbookQuery(path, version));
  const { data: latest } = useQuery(playbookQuery(path));
  const openForm = () => void navigate({ search: (search) => ({ ...search, dialog: "run" as const }) });
  const closeForm = () => void navigate({ search: ({ dialog: _closed, ...search }) => search, replace: true });
  useKeys("Playbook", mayOperate ? [{ keys: "r", label: "Run", run: openForm }] : []);
  usePaletteActions("This playbook", mayOperate ? [{ label: `Run ${path}…`, run: openForm }] : []);
  const newest = Math.max(data?.version ?? 1, latest?.version ?? 1);

  return (
    <Page
      title={path}
      actions={
        <>
          {data && (
            <CopyButton text={startRunCommand(path, data.version, "{}")} what="the command">
              Copy CLI
            </CopyButton>
          )}
          <CopyButton text={window.location.href} what="the link">
            Copy link
          </CopyButton>
          <Link to="/playbooks/$path/edit" params={{ path }} search={version ? { version } : {}} className="button">
            {mayAuthor ? "Edit" : "Open in the editor"}
          </Link>
          {mayOperate && (
            <Button look="primary" onClick={openForm}>
              Run…
            </Button>
          )}
        </>
      }
    >
      {error && <ProblemNote error={error} onRetry={() => void refetch()} />}
      {data && (
        <>
          <PlaybookFacts entry={data} newest={newest} />
          <Tabs.Root
            className="run-tabs"
            value={tab}
            onValueChange={(next) => void navigate({ search: (search) => ({ ...search, tab: next as PlaybookTab }) })}
          >
            <Tabs.List className="tabs" aria-label="Views of the playbook">
              {playbookTabs.map((name) => (
                <Tabs.Trigger key={name} value={name} className="tab">
                  {tabLabels[name]}
                </Tabs.Trigger>
              ))}
            </Tabs.List>
            <Tabs.Content value="graph" className="run-tab" tabIndex={-1}>
              <PlaybookGraphTab path={path} version={data.version} />
            </Tabs.Content>
            <Tabs.Content value="runs" className="page-body playbook-runs">
              <PlaybookRuns path={path} version={data.version} />
            </Tabs.Content>
            <Tabs.Content value="versions" className="run-tab" tabIndex={-1}>
              <VersionsTab path={path} version={data.version} newest={newest} />
            </Tabs.Content>
            <Tabs.Content value="source" className="run-tab" tabIndex={-1}>
              <LazyCode text={data.content ?? ""} label={`Playbook ${path}`} line={line} />
            </Tabs.Content>
            <Tabs.Content value="callers" className="page-body playbook-runs">
              <CallersTab path={path} />
            </Tabs.Content>
          </Tabs.Root>
          {dialog === "run" && mayOperate && <StartDialog path={path} version={data.version} onClose={closeForm} />}
        </>
      )}
    </Page>
  );
}

function PlaybookRuns({ path, version }: { path: string; version: number }) {
  const { data, error, refetch } = useQuery({ ...newestRunsQuery({ path }, 50), refetchInterval: refreshMs });
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  if (data.executions.length === 0) {
    return (
      <div className="notice">
        <p className="muted">This playbook has not run yet.</p>
        <pre>{startRunCommand(path, version, "{}")}</pre>
      </div>
    );
  }
  return (
    <div className="panel">
      <RunList runs={data.executions} />
    </div>
  );
}
