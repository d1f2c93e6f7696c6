// The list of waits: title, place, age and deadline.
import { Link } from "@tanstack/react-router";
import type { InboxEntry } from "../api/types";
import { Button } from "../parts/Button";
import { StatusMark } from "../parts/StatusMark";
import { Age } from "../parts/Time";
import { Deadline } from "./Deadline";
import { waitKey, waitPlace, waitTitle, type InboxView } from "./waitView";

interface InboxListProps {
  waits: InboxEntry[];
  selected: string | undefined;
  hasMore: boolean;
  onMore: () => void;
  searchOf: (wait: InboxEntry) => InboxView;
}

export function InboxList({ waits, selected, hasMore, onMore, searchOf }: InboxListProps) {
  return (
    <nav className="inbox-list" aria-label="Waiting tasks">
      <ul>
        {waits.map((wait) => (
          <li key={waitKey(wait)}>
            <Link
              to="/inbox"
              search={searchOf(wait)}
              className="inbox-row"
              aria-current={waitKey(wait) === selected || undefined}
            >
              <span className="row">
                <StatusMark status="waiting" isShort />
                <span className="truncate grow inbox-row-title">{waitTitle(wait)}</span>
                <span className="muted">
                  <Age at={wait.since} />
                </span>
              </span>
              <span className="row muted">
                <span className="truncate grow">
                  {wait.path} › {waitPlace(wait)}
                </span>
                {wait.deadline && (
                  <span className="tone-waiting">
                    <Deadline at={wait.deadline} />
                  </span>
                )}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {hasMore && (
        <p className="list-foot">
          <Button isSmall onClick={onMore}>
            Show more
          </Button>
        </p>
      )}
    </nav>
  );
}
