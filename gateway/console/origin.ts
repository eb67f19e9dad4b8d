export interface PageOrigin {
  /** Values of the Origin and Host headers. */
  readonly origin: string | undefined
  readonly host: string | undefined
  /** Scheme that the client uses, possibly to a proxy in front of this server. */
  readonly scheme: 'http' | 'https'
}

const hostForm = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(\d{1,5}))?$/
const usualPort = { http: '80', https: '443' } as const

/**
 * True if the client may open a console. Its Origin header must equal the origin of this server or an allowed origin.
 * Programs that are not browsers must send this header, too.
 * @param allowed origins like `https://panel.example`
 */
export function mayOpen({ origin, host, scheme }: PageOrigin, allowed: readonly string[]): boolean {
  if (origin === undefined || host === undefined) return false
  const own = ownOrigin(host.toLowerCase(), scheme)
  if (own === undefined) return false
  const page = origin.toLowerCase()
  return page === own || allowed.includes(page)
}

/** Origin of this server in the form that browsers use. `undefined`: the host name is invalid. */
function ownOrigin(host: string, scheme: PageOrigin['scheme']): string | undefined {
  const [, name, port] = hostForm.exec(host) ?? []
  if (name === undefined) return undefined
  return `${scheme}://${name}${port === undefined || port === usualPort[scheme] ? '' : `:${port}`}`
}
