/** Focuses a field as soon as it appears. An attachment for the first field of a page. */
export function focusNow(field: HTMLElement): void {
  field.focus()
}
