// A short list of waits: title, place, deadline, age.
import { Link } from "@tanstack/react-router";
import type { InboxEntry } from "../api/types";
import { Deadline } from "../inbox/Deadline";
import { waitKey, waitPlace, waitTitle } from "../inbox/waitView";
import { StatusMark } from "../parts/StatusMark";
import { Age } from "../parts/Time";

export function WaitList({ waits }: { waits: InboxEntry[] }) {
  return (
    <ul className="run-list">
      {waits.map((wait) => (
        <li key={waitKey(wait)}>
          <Link to="/inbox" search={{ wait: waitKey(wait) }} className="run-list-row">
            <StatusMark status="waiting" isShort />
            <span className="truncate run-list-name">{waitTitle(wait)}</span>
            <span className="truncate grow muted">
              {wait.path} › {waitPlace(wait)}
            </span>
            {wait.deadline && (
              <span className="tone-waiting run-list-took">
                <Deadline at={wait.deadline} />
              </span>
            )}
            <span className="muted run-list-age">
              <Age at={wait.since} />
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
