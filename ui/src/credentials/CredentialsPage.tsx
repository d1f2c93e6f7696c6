// Credentials: names, types, versions and the playbooks that use them. Values are set here and never shown.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { credentialsQuery } from "../api/adminQueries";
import type { ListedCredential } from "../api/types";
import { Button, IconButton } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { CopyLink } from "../parts/CopyLink";
import { DataTable } from "../parts/DataTable";
import { Menu, MenuItem } from "../parts/Menu";
import { ProblemNote } from "../parts/ProblemNote";
import { Age } from "../parts/Time";
import { Page } from "../shell/Page";
import { usePaletteActions } from "../shell/paletteActions";
import { useMay } from "../shell/role";
import { CredentialDialog } from "./CredentialDialog";
import { DeleteDialog, HistoryDialog, RotateDialog } from "./CredentialDialogs";
import "./credentials.css";

export type CredentialDialogName = "set" | "delete" | "history" | "rotate";

const route = getRouteApi("/credentials");
const listCommand = "noetl secret list";

export function CredentialsPage() {
  const isAdmin = useMay("admin");
  return isAdmin ? <CredentialList /> : <NoAccess />;
}

function NoAccess() {
  return (
    <Page title="Credentials">
      <div className="notice panel">
        <h2>Only admins manage credentials</h2>
        <p>
          Playbooks refer to credentials by name, for example <code>auth: orders_api</code>. Sign in with a token of the
          role admin to list and set them, or ask an admin to run:
        </p>
        <pre>noetl secret set NAME --type TYPE --file fields.json</pre>
      </div>
    </Page>
  );
}

function CredentialList() {
  const { dialog, name } = route.useSearch();
  const navigate = route.useNavigate();
  const { data, error, refetch } = useQuery(credentialsQuery);
  const open = (next: CredentialDialogName, subject?: string) =>
    void navigate({ search: { dialog: next, ...(subject === undefined ? {} : { name: subject }) } });
  const close = () => void navigate({ search: {}, replace: true });
  const selected = data?.credentials.find((credential) => credential.name === name);
  usePaletteActions("Credentials", [{ label: "Set a credential…", run: () => open("set") }]);

  return (
    <Page
      title="Credentials"
      actions={
        <>
          <CopyButton text={listCommand} what="the command">
            Copy CLI
          </CopyButton>
          <CopyLink />
          <Button onClick={() => open("rotate")}>Rotate master key…</Button>
          <Button look="primary" onClick={() => open("set")}>
            Set a credential…
          </Button>
        </>
      }
    >
      <div className="page-body">
        {error && <ProblemNote error={error} onRetry={() => void refetch()} />}
        {data?.credentials.length === 0 && <NoCredentials />}
        {data && data.credentials.length > 0 && (
          <>
            {!data.is_used_by_complete && (
              <p className="muted credential-note">
                Not all playbooks are examined yet; reload the page to see the other uses.
              </p>
            )}
            <DataTable
              label="Credentials"
              columns={["Name", "Type", "Version", "Used by", "Created", "Set", "Last used", "(Actions)"]}
            >
              {data.credentials.map((credential) => (
                <CredentialRow key={credential.name} credential={credential} onOpen={open} />
              ))}
            </DataTable>
          </>
        )}
      </div>
      {dialog === "set" && data && (name === undefined || selected) && (
        <CredentialDialog replaced={selected} onClose={close} />
      )}
      {dialog === "delete" && selected && <DeleteDialog credential={selected} onClose={close} />}
      {dialog === "history" && name !== undefined && <HistoryDialog name={name} onClose={close} />}
      {dialog === "rotate" && <RotateDialog onClose={close} />}
    </Page>
  );
}

interface RowProps {
  credential: ListedCredential;
  onOpen: (dialog: CredentialDialogName, name: string) => void;
}

function CredentialRow({ credential, onOpen }: RowProps) {
  const { name } = credential;
  return (
    <tr>
      <td className="mono">{name}</td>
      <td>{credential.type}</td>
      <td>{credential.version}</td>
      <td className="cell-wide">
        <UsedBy credential={credential} />
      </td>
      <td className="muted">
        <Age at={credential.created_at} />
      </td>
      <td className="muted">
        <Age at={credential.updated_at} />
      </td>
      <td className="muted">{credential.last_used_at ? <Age at={credential.last_used_at} /> : "never"}</td>
      <td className="cell-end">
        <Menu trigger={<IconButton isSmall icon="more" label={`Actions for ${name}`} />}>
          <MenuItem onSelect={() => onOpen("set", name)}>Replace the value…</MenuItem>
          <MenuItem onSelect={() => onOpen("history", name)}>Audit entries…</MenuItem>
          <MenuItem onSelect={() => onOpen("delete", name)}>Delete…</MenuItem>
        </Menu>
      </td>
    </tr>
  );
}

const usesShown = 3;

export function UsedBy({ credential, isAll = false }: { credential: ListedCredential; isAll?: boolean }) {
  const uses = credential.used_by ?? [];
  if (uses.length === 0) return <span className="muted">no playbook names it</span>;
  const shown = isAll ? uses : uses.slice(0, usesShown);
  return (
    <span className="credential-uses">
      {shown.map(({ path, version }) => (
        <Link key={path} to="/playbooks/$path" params={{ path }}>
          {path}
          <span className="muted">@{version}</span>
        </Link>
      ))}
      {uses.length > shown.length && <span className="muted">and {uses.length - shown.length} more</span>}
    </span>
  );
}

function NoCredentials() {
  const command = `noetl secret set orders_api --type bearer --file fields.json`;
  return (
    <div className="notice panel">
      <h2>No credentials yet</h2>
      <p>Playbooks refer to a credential by its name. Set one here, or from a terminal:</p>
      <pre>{command}</pre>
      <CopyButton text={command} what="the command">
        Copy
      </CopyButton>
    </div>
  );
}
