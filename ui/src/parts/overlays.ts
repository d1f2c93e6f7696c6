// Where menus and tooltips are drawn: after the page, in a landmark of their own.

/** The element that holds menus and tooltips; it is part of index.html. */
export const overlays: HTMLElement = document.getElementById("overlays") ?? document.body;
