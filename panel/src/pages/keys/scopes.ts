/** Scopes of API keys, by area. A test compares them with the scopes of the gateway. */
export const scopeAreas = {
  dashboard: ['read'],
  host: ['read', 'manage'],
  routing: ['read', 'write'],
  ipv6: ['read', 'assign'],
  task: ['read', 'delete'],
  container: [
    ...['read', 'create', 'power', 'reinstall', 'delete', 'resize'],
    ...['traffic', 'password', 'network', 'suspend', 'label'],
  ],
  snapshot: ['read', 'create', 'delete', 'restore', 'schedule'],
  backup: ['read', 'create', 'delete', 'restore', 'schedule'],
  backuptarget: ['read', 'manage'],
  terminal: ['ssh', 'vnc'],
  image: ['read', 'download', 'delete', 'toggle'],
  security: ['read', 'check', 'settings'],
  swap: ['read', 'manage'],
  subuser: ['read', 'create', 'update'],
  audit: ['read'],
  metrics: ['read'],
  loginlog: ['read'],
  apikey: ['read', 'create', 'update', 'delete'],
  webhook: ['manage'],
  admin: ['access'],
} as const satisfies Readonly<Record<string, readonly string[]>>

export interface ScopeGroup {
  /** Wildcard for all scopes of the area, such as `host:*`. */
  readonly wildcard: string
  readonly scopes: readonly string[]
}

/** Returns the areas with scopes that contain the text. If the name of an area contains it, returns all of its scopes. */
export function findScopes(text: string): ScopeGroup[] {
  const wanted = text.trim().toLowerCase()
  return Object.entries(scopeAreas)
    .map(([area, verbs]) => ({
      wildcard: `${area}:*`,
      scopes: verbs.map((verb) => `${area}:${verb}`).filter((scope) => scope.includes(wanted)),
    }))
    .filter(({ scopes }) => scopes.length > 0)
}
