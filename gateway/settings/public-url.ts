import { invalidField } from '../../shared/errors.js'
import { isReachableName, parseHostName } from '../../shared/host-name.js'
import type { PanelSettings } from './panel-settings.js'
import type { StoredDocument } from '../store/document.js'
import type { TlsSettings } from '../tls/tls-settings.js'

/** Public URL of the panel, and its origin. */
export interface PublicBase {
  /** Scheme, host and port without a trailing slash. "": not known. */
  readonly url: string
  /** `set`: by an administrator; `tls`: derived from the name in the certificate; `none`: the URL is not known. */
  readonly source: 'set' | 'tls' | 'none'
}

export interface UrlFacts {
  /** URL that an administrator has set. "": no URL is set. */
  readonly set: string
  /** TLS settings. `undefined`: TLS is off. */
  readonly tls: { readonly target: string; readonly port: number } | undefined
}

export function planPublicBase({ set, tls }: UrlFacts): PublicBase {
  if (set !== '') return { url: set, source: 'set' }
  if (tls === undefined || !isReachableName(tls.target)) return { url: '', source: 'none' }
  const host = tls.target.includes(':') ? `[${tls.target}]` : tls.target
  return { url: `https://${host}${tls.port === 443 ? '' : `:${tls.port}`}`, source: 'tls' }
}

/**
 * Parses a URL of scheme, host and port. A path is not allowed, because the panel is served at the root.
 * @returns the canonical URL; "": not set
 * @throws {BerthError} `invalid_field`
 */
export function parsePublicUrl(text: string): string {
  const given = text.trim()
  if (given === '') return ''
  const url = URL.canParse(given) ? new URL(given) : undefined
  const rest = url && [url.username, url.password, url.pathname.slice(1), url.search, url.hash].join('')
  if (!url || !/^https?:$/.test(url.protocol) || rest !== '' || /[?#]/.test(given))
    throw refused('must be a URL without a path, for example "https://panel.example.com"')
  const host = parseHostName(url.hostname)
  if (host === undefined) throw refused('must name a host by its DNS name or IP address')
  if (!isReachableName(host)) throw refused(`${host} cannot be reached from other machines`)
  return url.origin
}

function refused(why: string) {
  return invalidField('public_url', `public_url: ${why}`)
}

/** The settings of TLS, and the address of the TLS listener. */
interface TlsFacts {
  readonly documents: { readonly settings: Pick<StoredDocument<TlsSettings>, 'value'> }
  readonly address: { readonly port: number } | undefined
}

/** Creates links to the panel for users. */
export class PublicUrl {
  constructor(
    private readonly settings: Pick<PanelSettings, 'publicUrl'>,
    private readonly tls: TlsFacts,
  ) {}

  get base(): PublicBase {
    const settings = this.tls.documents.settings.value
    const { address } = this.tls
    const isOn = settings?.enabled === true && address !== undefined
    return planPublicBase({
      set: this.settings.publicUrl.value ?? '',
      tls: isOn ? { target: settings.target, port: address.port } : undefined,
    })
  }

  /** @param path path with a leading slash @returns "" if the public URL is not known */
  link(path: string): string {
    const { url } = this.base
    return url === '' ? '' : url + path
  }
}
