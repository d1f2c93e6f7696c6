// The failures of a run on the slider of time travel.
import type { FailureGroup } from "../../api/types";

const marksMax = 500;

/** The events that recorded failures, in order. */
export function listFailureSeqs(groups: FailureGroup[]): number[] {
  return [...new Set(groups.flatMap((group) => group.seqs))].sort((first, second) => first - second);
}

/** Positions of events between 0 and 1; those that would be drawn at the same place are one. */
export function placeMarks(seqs: number[], newest: number): number[] {
  const places = seqs.map((seq) => Math.round(((seq - 1) / Math.max(1, newest - 1)) * marksMax) / marksMax);
  return [...new Set(places)];
}

/** The nearest failure before or after an event. */
export function findFailure(seqs: number[], at: number, direction: -1 | 1): number | undefined {
  return direction < 0 ? seqs.findLast((seq) => seq < at) : seqs.find((seq) => seq > at);
}
