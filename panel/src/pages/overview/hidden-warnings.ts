/** Maximum number of hidden warnings in a browser. The oldest are forgotten first. */
export const maxHidden = 200

/** Identifies a warning of a host. A warning with another text, such as another percentage, is another warning. */
export function warningKey(hostId: string, warning: string): string {
  return `${hostId} ${warning}`
}

/** Parses the stored keys of hidden warnings. */
export function parseHidden(stored: string | null): string[] {
  try {
    const list: unknown = JSON.parse(stored ?? '[]')
    return Array.isArray(list) ? list.filter((one) => typeof one === 'string').slice(-maxHidden) : []
  } catch {
    return []
  }
}

export function withHidden(hidden: readonly string[], added: readonly string[]): string[] {
  return [...hidden.filter((one) => !added.includes(one)), ...added].slice(-maxHidden)
}
