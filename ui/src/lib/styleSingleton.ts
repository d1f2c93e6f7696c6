// Stands in for the package `react-style-singleton`, which adds a <style> element that the Content-Security-Policy
// blocks. This one adopts a constructed style sheet, which the policy allows.
import { useEffect } from "react";

interface StyleProps {
  styles: string;
  dynamic?: boolean;
}

export function styleHookSingleton() {
  let users = 0;
  const sheet = new CSSStyleSheet();
  return (styles: string, isDynamic?: boolean) => {
    useEffect(() => {
      if (users === 0 || isDynamic) sheet.replaceSync(styles);
      if (users === 0) document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
      users += 1;
      return () => {
        users -= 1;
        if (users > 0) return;
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((adopted) => adopted !== sheet);
      };
    }, [styles, isDynamic]);
  };
}

export function styleSingleton() {
  const useStyle = styleHookSingleton();
  return function Style({ styles, dynamic }: StyleProps) {
    useStyle(styles, dynamic);
    return null;
  };
}
