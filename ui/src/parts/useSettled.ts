// A value once it has not changed for a moment, for requests while a person types.
import { useEffect, useState } from "react";

const typingMs = 300;

export function useSettled<Value extends string>(value: Value): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), typingMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
