// Who uses the client, and what the role allows. The server decides; the client only hides what it would refuse.
import { useQuery } from "@tanstack/react-query";
import type { Role } from "../api/types";
import { sessionQuery } from "../api/queries";

const roles: Role[] = ["viewer", "operator", "author", "admin"];

/** Whether the person has this role or one that includes it. */
export function useMay(role: Role): boolean {
  const { data: session } = useQuery(sessionQuery);
  return !!session?.role && roles.indexOf(session.role) >= roles.indexOf(role);
}
