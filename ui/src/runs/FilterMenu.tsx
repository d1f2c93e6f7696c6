// A menu of filters that are often wanted: times, durations, and the playbooks, labels and errors of the runs in the list.
import type { Facets } from "../api/types";
import type { FilterKey, RunFilter } from "../lib/filter";
import { addLabel } from "../lib/labels";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { Menu, MenuGroup, MenuItem } from "../parts/Menu";

interface FilterMenuProps {
  filter: RunFilter;
  facets: Facets | undefined;
  onChange: (filter: RunFilter) => void;
}

const valuesMax = 8;

export function FilterMenu({ filter, facets, onChange }: FilterMenuProps) {
  const groups: { title: string; key: FilterKey; values: { value: string; count?: number }[] }[] = [
    { title: "Started within", key: "since", values: ["1h", "24h", "7d", "30d"].map((value) => ({ value })) },
    { title: "Started before", key: "until", values: ["1h", "24h", "7d", "30d"].map((value) => ({ value })) },
    { title: "Took longer than", key: "longer", values: ["10s", "1m", "10m", "1h"].map((value) => ({ value })) },
    { title: "Playbook", key: "playbook", values: facets?.paths.slice(0, valuesMax) ?? [] },
    { title: "Error code", key: "code", values: facets?.error_codes.slice(0, valuesMax) ?? [] },
  ];
  return (
    <Menu
      trigger={
        <Button isSmall look="quiet">
          Add filter <Icon name="down" />
        </Button>
      }
    >
      {groups
        .filter(({ values }) => values.length > 0)
        .map(({ title, key, values }) => (
          <MenuGroup key={key} title={title}>
            {values.map(({ value, count }) => (
              <MenuItem key={value} onSelect={() => onChange({ ...filter, [key]: value })}>
                <span className="grow">{value}</span>
                {count !== undefined && <span className="muted">{count}</span>}
              </MenuItem>
            ))}
          </MenuGroup>
        ))}
      {facets && facets.labels.length > 0 && (
        <MenuGroup title="Label">
          {facets.labels.slice(0, valuesMax).map(({ key, value, count }) => (
            <MenuItem
              key={`${key}:${value}`}
              onSelect={() => onChange({ ...filter, label: addLabel(filter.label, key, value) })}
            >
              <span className="grow">
                {key}={value}
              </span>
              <span className="muted">{count}</span>
            </MenuItem>
          ))}
        </MenuGroup>
      )}
    </Menu>
  );
}
