export interface PageOrigin {
  /** Headers of the request. */
  readonly origin: string | undefined
  readonly host: string | undefined
  /** What the client speaks to this server, or to the proxy in front of it. */
  readonly scheme: 'http' | 'https'
}

const hostForm = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(\d{1,5}))?$/
const usualPort = { http: '80', https: '443' } as const

/**
 * Whether a page may open a console: it is this server's own, or of an origin in the list. Texts are compared whole, so
 * that nothing that looks like one of them is taken for it; a client that is no page must name an origin, too.
 * @param allowed as `https://panel.example`
 */
export function mayOpen({ origin, host, scheme }: PageOrigin, allowed: readonly string[]): boolean {
  if (origin === undefined || host === undefined) return false
  const own = ownOrigin(host.toLowerCase(), scheme)
  if (own === undefined) return false
  const page = origin.toLowerCase()
  return page === own || allowed.includes(page)
}

/** As a browser writes it; undefined: not the name of a host. */
function ownOrigin(host: string, scheme: PageOrigin['scheme']): string | undefined {
  const [, name, port] = hostForm.exec(host) ?? []
  if (name === undefined) return undefined
  return `${scheme}://${name}${port === undefined || port === usualPort[scheme] ? '' : `:${port}`}`
}
