// The page of a playbook: description, versions, source, runs, and the form that starts one.
import * as Tabs from "@radix-ui/react-tabs";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { inputFormQuery, newestRunsQuery, playbookQuery } from "../api/queries";
import type { PlaybookEntry } from "../api/types";
import { RunList } from "../home/RunList";
import { Button } from "../parts/Button";
import { CopyButton, CopyIcon } from "../parts/copy";
import { LazyCode } from "../parts/LazyCode";
import { ProblemNote } from "../parts/ProblemNote";
import { Age } from "../parts/Time";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { usePaletteActions } from "../shell/paletteActions";
import { useMay } from "../shell/role";
import { StartDialog } from "./StartDialog";
import "./playbooks.css";

const route = getRouteApi("/playbooks/$path");
const refreshMs = 5000;

export function PlaybookPage() {
  const { path } = route.useParams();
  const { tab = "source", version, dialog } = route.useSearch();
  const navigate = route.useNavigate();
  const mayOperate = useMay("operator");
  const { data, error, refetch } = useQuery(playbookQuery(path, version));
  const openForm = () => void navigate({ search: (search) => ({ ...search, dialog: "run" as const }) });
  const closeForm = () => void navigate({ search: ({ dialog: _closed, ...search }) => search, replace: true });
  useKeys("Playbook", mayOperate ? [{ keys: "r", label: "Run", run: openForm }] : []);
  usePaletteActions("This playbook", mayOperate ? [{ label: `Run ${path}…`, run: openForm }] : []);

  return (
    <Page
      title={path}
      actions={
        mayOperate && (
          <Button look="primary" onClick={openForm}>
            Run…
          </Button>
        )
      }
    >
      {error && <ProblemNote error={error} onRetry={() => void refetch()} />}
      {data && (
        <>
          <PlaybookFacts entry={data} />
          <Tabs.Root
            className="run-tabs"
            value={tab}
            onValueChange={(next) =>
              void navigate({ search: (search) => ({ ...search, tab: next as "source" | "runs" }) })
            }
          >
            <Tabs.List className="tabs" aria-label="Views of the playbook">
              <Tabs.Trigger value="source" className="tab">
                Source
              </Tabs.Trigger>
              <Tabs.Trigger value="runs" className="tab">
                Runs
              </Tabs.Trigger>
            </Tabs.List>
            <Tabs.Content value="source" className="run-tab" tabIndex={-1}>
              <LazyCode text={data.content ?? ""} label={`Playbook ${path}`} />
            </Tabs.Content>
            <Tabs.Content value="runs" className="page-body playbook-runs">
              <PlaybookRuns path={path} />
            </Tabs.Content>
          </Tabs.Root>
          {dialog === "run" && mayOperate && <StartDialog path={path} version={data.version} onClose={closeForm} />}
        </>
      )}
    </Page>
  );
}

function PlaybookFacts({ entry }: { entry: PlaybookEntry }) {
  const { path, version } = entry;
  const navigate = route.useNavigate();
  const { data: latest } = useQuery(playbookQuery(path));
  const { data: form } = useQuery(inputFormQuery(path));
  const newest = Math.max(version, latest?.version ?? version);
  const versions = Array.from({ length: newest }, (_, index) => newest - index);
  return (
    <div className="playbook-facts">
      {form?.description && version === form.version && <p>{form.description}</p>}
      <p className="run-facts muted">
        <label className="row">
          version
          <select
            className="input playbook-version"
            value={version}
            onChange={(event) => {
              const chosen = Number(event.target.value);
              void navigate({
                search: ({ version: _old, ...search }) => (chosen === newest ? search : { ...search, version: chosen }),
              });
            }}
          >
            {versions.map((candidate) => (
              <option key={candidate} value={candidate}>
                {candidate}
                {candidate === newest ? ", the latest" : ""}
              </option>
            ))}
          </select>
        </label>
        <span>
          registered <Age at={entry.registered_at} />
        </span>
        <span className="row run-id-fact">
          <span className="mono">{entry.hash.slice(0, 12)}</span>
          <CopyIcon text={entry.hash} what="the hash" />
        </span>
        <Link to="/runs" search={{ playbook: path }}>
          All runs
        </Link>
        <CopyButton text={entry.content ?? ""} what="the playbook">
          Copy YAML
        </CopyButton>
      </p>
    </div>
  );
}

function PlaybookRuns({ path }: { path: string }) {
  const { data, error, refetch } = useQuery({ ...newestRunsQuery({ path }, 50), refetchInterval: refreshMs });
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  if (data.executions.length === 0) return <p className="notice muted">This playbook has not run yet.</p>;
  return (
    <div className="panel">
      <RunList runs={data.executions} />
    </div>
  );
}
