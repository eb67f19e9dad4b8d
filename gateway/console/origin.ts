export interface PageOrigin {
  /** Headers of the request. */
  readonly origin: string | undefined
  readonly host: string | undefined
  /** Scheme between the client and this server, or the proxy in front of it. */
  readonly scheme: 'http' | 'https'
}

const hostForm = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(\d{1,5}))?$/
const usualPort = { http: '80', https: '443' } as const

/**
 * True if a page may open a console: a page of this server, or of an origin in the list. Texts are compared as a whole,
 * so that no similar text matches; a client that is not a page must name an origin, too.
 * @param allowed as `https://panel.example`
 */
export function mayOpen({ origin, host, scheme }: PageOrigin, allowed: readonly string[]): boolean {
  if (origin === undefined || host === undefined) return false
  const own = ownOrigin(host.toLowerCase(), scheme)
  if (own === undefined) return false
  const page = origin.toLowerCase()
  return page === own || allowed.includes(page)
}

/** The origin as a browser writes it; undefined: the host name is malformed. */
function ownOrigin(host: string, scheme: PageOrigin['scheme']): string | undefined {
  const [, name, port] = hostForm.exec(host) ?? []
  if (name === undefined) return undefined
  return `${scheme}://${name}${port === undefined || port === usualPort[scheme] ? '' : `:${port}`}`
}
