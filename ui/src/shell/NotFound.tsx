// A page that does not exist.
import { Link } from "@tanstack/react-router";
import { Page } from "./Page";

export function NotFound() {
  return (
    <Page title="Page not found">
      <div className="notice">
        <p>There is no page at this address.</p>
        <p className="row">
          <Link to="/runs">Runs</Link>
          <Link to="/playbooks">Playbooks</Link>
          <Link to="/">Home</Link>
        </p>
      </div>
    </Page>
  );
}
