// A graph of steps and arcs. Nodes can be reached with the keyboard.
import {
  Background,
  BackgroundVariant,
  MiniMap,
  Panel,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
  type Node,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useEffect, useMemo, useRef, useState } from "react";
import type { GraphArc, GraphStep } from "../../api/types";
import { lookOf } from "../../lib/status";
import { IconButton } from "../../parts/Button";
import { useIsNarrow } from "../../parts/useMedia";
import { useKeys } from "../../shell/keyboard";
import { ArcEdge, describeArc, type ArcFlowEdge } from "./ArcEdge";
import { layoutGraph, nameArc } from "./layout";
import { describeStep, StepNode, type StepFlowNode } from "./StepNode";
import "./graph.css";

const nodeTypes = { step: StepNode };
const edgeTypes = { arc: ArcEdge };
const minimapFrom = 60;
const fitOptions = { padding: 0.12, maxZoom: 1 };
const focusZoom = 0.7;

interface ShownGraph {
  steps: GraphStep[];
  arcs: GraphArc[];
}

interface GraphViewProps {
  graph: ShownGraph;
  selected: string | undefined;
  onSelect: (step: string) => void;
  /** From left to right, or from top to bottom. By default it depends on the width of the window. */
  direction?: "LR" | "TB";
  /** Whether the graph shows no run, only a playbook. */
  isStatic?: boolean;
  /** What the reader must know about the graph. */
  note?: string | null;
}

export default function GraphView(props: GraphViewProps) {
  return (
    <ReactFlowProvider>
      <GraphFlow {...props} />
    </ReactFlowProvider>
  );
}

function GraphFlow({ graph, selected, onSelect, isStatic = false, note = null, ...props }: GraphViewProps) {
  const isNarrow = useIsNarrow();
  const direction = props.direction ?? (isNarrow ? "TB" : "LR");
  const [focused, setFocused] = useState<string | null>(null);
  // The positions depend on the playbook, not on the state of the run.
  const shape = JSON.stringify([
    graph.steps.map((step) => [step.step, step.tasks.length > 0, step.loop !== null]),
    graph.arcs.map((arc) => [arc.from, arc.to, arc.index]),
  ]);
  const { boxes, routes } = useMemo(() => layoutGraph(graph.steps, graph.arcs, direction), [shape, direction]);
  const nodes = useMemo<StepFlowNode[]>(
    () =>
      graph.steps.map((step) => {
        const { x = 0, y = 0, width = 0, height = 0 } = boxes.get(step.step) ?? {};
        return {
          id: step.step,
          type: "step",
          position: { x, y },
          width,
          height,
          data: { step, isSelected: selected === step.step, direction, isStatic },
          ariaLabel: describeStep(step, isStatic),
          selected: focused === step.step,
        };
      }),
    [graph.steps, boxes, selected, direction, isStatic, focused],
  );
  const edges = useMemo<ArcFlowEdge[]>(
    () =>
      graph.arcs
        .filter((arc) => boxes.has(arc.to))
        .map((arc) => ({
          id: nameArc(arc),
          source: arc.from,
          target: arc.to,
          type: "arc",
          data: { arc, points: routes.get(nameArc(arc)) ?? [], isStatic },
          focusable: false,
          ariaLabel: describeArc(arc, isStatic),
        })),
    [graph.arcs, boxes, routes, isStatic],
  );

  return (
    <div className="graph">
      <ReactFlow<StepFlowNode, ArcFlowEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        edgeTypes={edgeTypes}
        fitView
        fitViewOptions={fitOptions}
        minZoom={0.1}
        maxZoom={1.5}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        elevateEdgesOnSelect={false}
        deleteKeyCode={null}
        proOptions={{ hideAttribution: true }}
        onNodeClick={(_event, node) => onSelect(node.id)}
        onNodesChange={(changes) => {
          for (const change of changes) {
            if (change.type !== "select") continue;
            if (change.selected) {
              setFocused(change.id);
              onSelect(change.id);
            } else setFocused((current) => (current === change.id ? null : current));
          }
        }}
      >
        <Background variant={BackgroundVariant.Dots} gap={20} size={1} />
        {graph.steps.length > minimapFrom && (
          <MiniMap pannable zoomable ariaLabel="Overview of the graph" nodeClassName={nameMapNode} />
        )}
        {note && (
          <Panel position="top-left" className="graph-note">
            {note}
          </Panel>
        )}
        <GraphControls graph={graph} selected={selected} shape={shape + direction} />
      </ReactFlow>
    </div>
  );
}

interface GraphControlsProps {
  graph: ShownGraph;
  selected: string | undefined;
  /** Changes when the positions change. */
  shape: string;
}

function GraphControls({ graph, selected, shape }: GraphControlsProps) {
  const { fitView } = useReactFlow();
  const width = useStore((state) => state.width);
  const fit = () => void fitView(fitOptions);
  const focusRef = useRef<string | null>(null);
  focusRef.current = graph.steps.length > minimapFrom ? (selected ?? findNotable(graph)) : null;
  // Fits again when the drawer opens or closes, or the window changes. A large graph is shown at the step that matters.
  useEffect(() => {
    const focus = focusRef.current;
    void fitView(focus ? { ...fitOptions, maxZoom: focusZoom, nodes: [{ id: focus }] } : fitOptions);
  }, [width, shape, fitView]);
  useKeys("Graph", [{ keys: "f", label: "Fit the graph", run: fit }]);
  return (
    <Panel position="bottom-left">
      <IconButton icon="fit" label="Fit the graph" keys="f" look="plain" onClick={fit} />{" "}
      {selected && (
        <IconButton
          icon="search"
          label={`Show ${selected}`}
          look="plain"
          onClick={() => void fitView({ ...fitOptions, nodes: [{ id: selected }] })}
        />
      )}
    </Panel>
  );
}

/** The step to look at first: one that failed, else one that is active. */
function findNotable({ steps }: ShownGraph): string | null {
  const failed = steps.find((step) => step.status === "error");
  const active = steps.find((step) => ["running", "waiting", "retrying"].includes(step.status));
  return (failed ?? active)?.step ?? null;
}

function nameMapNode(node: Node): string {
  return `map-node map-${lookOf((node as StepFlowNode).data.step.status).mark}`;
}
