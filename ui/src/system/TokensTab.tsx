// Access tokens: list, create and revoke them. The text of a token is shown once.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { revokeToken } from "../api/adminActions";
import { tokensQuery } from "../api/adminQueries";
import type { AccessTokenEntry } from "../api/types";
import { quoteArgument } from "../lib/cli";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { DataTable, PagePart } from "../parts/DataTable";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { StatusMark } from "../parts/StatusMark";
import { Age, TimeLeft } from "../parts/Time";
import { showToast } from "../parts/toasts";
import { TokenDialog } from "./TokenDialog";

const route = getRouteApi("/system");

export function TokensTab() {
  const { dialog, token } = route.useSearch();
  const navigate = route.useNavigate();
  const { data, error, refetch } = useQuery(tokensQuery);
  const open = (next: "create" | "revoke", id?: string) =>
    void navigate({ search: { tab: "tokens", dialog: next, ...(id === undefined ? {} : { token: id }) } });
  const close = () => void navigate({ search: { tab: "tokens" }, replace: true });
  const selected = data?.tokens.find(({ id }) => id === token);
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  return (
    <PagePart
      title="Access tokens"
      extra={
        <Button look="primary" onClick={() => open("create")}>
          Create a token…
        </Button>
      }
    >
      {data?.tokens.length === 0 && (
        <p className="muted">
          No tokens yet. On a loopback address without <code>--token-file</code>, the server requires none.
        </p>
      )}
      {data && data.tokens.length > 0 && (
        <DataTable
          label="Access tokens"
          columns={["Name", "Role", "Status", "Created", "Expires", "Last used", "ID", "(Actions)"]}
        >
          {data.tokens.map((entry) => (
            <TokenRow key={entry.id} entry={entry} onRevoke={() => open("revoke", entry.id)} />
          ))}
        </DataTable>
      )}
      {dialog === "create" && <TokenDialog onClose={close} />}
      {dialog === "revoke" && selected && <RevokeDialog entry={selected} onClose={close} />}
    </PagePart>
  );
}

function TokenRow({ entry, onRevoke }: { entry: AccessTokenEntry; onRevoke: () => void }) {
  const { id, name, role, state, created_at, expires_at, last_used_at } = entry;
  return (
    <tr>
      <td>{name}</td>
      <td>{role}</td>
      <td>
        <StatusMark status={state} />
      </td>
      <td className="muted">
        <Age at={created_at} />
      </td>
      <td className="muted">
        {!expires_at ? "never" : state === "expired" ? <Age at={expires_at} /> : <TimeLeft until={expires_at} />}
      </td>
      <td className="muted">{last_used_at ? <Age at={last_used_at} /> : "never"}</td>
      <td className="mono muted">{id}</td>
      <td className="cell-end">
        {state === "active" && (
          <Button isSmall onClick={onRevoke} aria-label={`Revoke ${name}`}>
            Revoke…
          </Button>
        )}
      </td>
    </tr>
  );
}

function RevokeDialog({ entry, onClose }: { entry: AccessTokenEntry; onClose: () => void }) {
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => revokeToken(entry.id),
    onSuccess: () => {
      showToast({ tone: "done", text: `Revoked ${entry.name}` });
      void client.invalidateQueries({ queryKey: ["access tokens"] });
      void client.invalidateQueries({ queryKey: ["audit"] });
      onClose();
    },
  });
  return (
    <Modal
      title={`Revoke the token ${entry.name}?`}
      description="Requests with it are refused on all servers within 2 seconds, and its sessions end. You are signed out if it is your own. This cannot be undone."
      onClose={onClose}
      foot={
        <>
          <CopyButton text={`noetl token revoke ${quoteArgument(entry.id)}`} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" disabled={revoke.isPending} onClick={() => revoke.mutate()}>
            Revoke the token
          </Button>
        </>
      }
    >
      <dl className="facts">
        <dt>Role</dt>
        <dd>{entry.role}</dd>
        <dt>Last used</dt>
        <dd>{entry.last_used_at ? <Age at={entry.last_used_at} /> : "never"}</dd>
      </dl>
      {revoke.error && <ProblemNote error={revoke.error} />}
    </Modal>
  );
}
