/** Commands that change one host or test it, and for which the API takes its first host if none is named. */
export const hostCommands: ReadonlySet<string> = new Set([
  'routing scan-ipv4',
  'routing update',
  'security update-settings',
  'swap change',
])

/** Replaces the default of the API in the text of `--host`, because these commands have it only for a single host. */
export function hostText(command: string, text: string): string {
  return hostCommands.has(command)
    ? text.replace(/Default: the first host\b[^.]*\./, 'Required if the fleet has several hosts.')
    : text
}
